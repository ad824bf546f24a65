"""The byte code that nodes keep of Ansible's modules: the code that was sent is what runs."""

import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.bytecode_hook import place, write
from role_files import ROLES

pytestmark = pytest.mark.process

HOOK = ROLES / "bytecode/module_utils/bytecode_hook.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a node, with the hook."""
    folder = tmp_path / "node/bytecode"
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(HOOK.read_text())
    return folder


def kept(folder: Path) -> list[Path]:
    """The byte code in a folder, without the hook's own."""
    return sorted(path for path in folder.iterdir() if sys.implementation.cache_tag in path.suffix)


def said(paths: list[Path], archive: Path, text: str, command: str = "import sent") -> str:
    """What Python prints that imports a module of this text from an archive."""
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sent.py", text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*paths, archive]))}
    done = subprocess.run(
        [sys.executable, "-c", command], env=environment, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def test_an_edit_is_what_runs_and_the_path_is_that_of_now(folder: Path, tmp_path: Path) -> None:
    for archive in (tmp_path / "a.zip", tmp_path / "b.zip"):
        for text in ("first", "other"):
            for _ in range(2):
                assert said([folder], archive, f"print('{text}')\n") == f"{text}\n"
        assert len(kept(folder)) == 1
    for archive in (tmp_path / "b.zip", tmp_path / "a.zip"):
        assert str(archive / "sent.py") in said([folder], archive, "nobody\n")


def test_what_is_kept_is_what_runs(folder: Path, tmp_path: Path) -> None:
    archive, text = tmp_path / "a.zip", "print('sent')\n"
    other = compile("print('kept')", "sent.py", "exec")
    write(place(str(folder), f"{archive}/sent.py"), text.encode(), other)
    assert said([folder], archive, text) == "kept\n"
    assert said([folder], archive, f"{text}\n") == "sent\n"


@pytest.mark.parametrize("damage", ["", "no code", "half", "changed"])
def test_what_is_damaged_is_compiled_anew(damage: str, folder: Path, tmp_path: Path) -> None:
    archive, text = tmp_path / "a.zip", "print('sent')\n"
    assert said([folder], archive, text) == "sent\n"
    (file,) = kept(folder)
    whole = file.read_bytes()
    changed = whole[:-20] + bytes(len(whole[-20:]))
    file.write_bytes(
        {"half": whole[: len(whole) // 2], "changed": changed}.get(damage, damage.encode())
    )
    assert said([folder], archive, text) == "sent\n"
    assert file.read_bytes() == whole


def test_what_cannot_be_kept_runs(folder: Path, tmp_path: Path) -> None:
    archive, text = tmp_path / "a.zip", "print('sent')\n"
    place = folder / f"sent.py.{sys.implementation.cache_tag}"
    place.mkdir()
    assert said([folder], archive, text) == "sent\n"
    assert kept(folder) == [place]
    gone = f"import shutil; shutil.rmtree({str(folder)!r}); import sent"
    assert said([folder], archive, text, gone) == "sent\n"


def test_a_module_and_what_it_starts_look_nowhere_else_than_without_it(
    folder: Path, tmp_path: Path
) -> None:
    ask = "import os, sys; print(os.environ.get('PYTHONPATH'), sys.path)"
    archive = tmp_path / "a.zip"
    without = said([], archive, "", ask)
    assert said([folder], archive, "", ask) == without
    # As Ansible sets it where nothing else is in it
    alone = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", ask], env=alone, capture_output=True, text=True)
    assert done.stdout.startswith("None ")
    assert str(folder) not in done.stdout


def test_the_machines_own_customisation_takes_place(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own')\n")
    archive = tmp_path / "a.zip"
    for _ in range(2):
        assert said([folder, own], archive, "print('sent')\n") == "own\nsent\n"
    assert len(kept(folder)) == 1
    (own / "sitecustomize.py").write_text("import missing\n")
    assert "missing" in said([folder, own], archive, "print('sent')\n")


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    """A playbook that applies the role to this machine, in a folder of the test."""
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "environment": {"PYTHONPATH": str(tmp_path / "there/bytecode")},
        "vars": {"bytecode_directory": str(tmp_path / "there/bytecode")},
        "roles": ["bytecode"],
    }
    path = tmp_path / "play.yml"
    path.write_text(json.dumps([play]))
    return path


def run(playbook: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook; returns how it ended."""
    environment = {
        **os.environ,
        "ANSIBLE_ROLES_PATH": str(ROLES),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    command = ["ansible-playbook", "--inventory", "localhost,", "--connection", "local"]
    interpreter = f"ansible_python_interpreter={sys.executable}"
    return subprocess.run(
        [*command, "--extra-vars", interpreter, *arguments, str(playbook)],
        env=environment,
        capture_output=True,
        text=True,
    )


def apply(playbook: Path, *arguments: str) -> dict[str, Any]:
    """Run the playbook to its good end; returns Ansible's count of what was done."""
    done = run(playbook, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    counts: dict[str, Any] = json.loads(done.stdout)["stats"]["localhost"]
    return counts


def test_the_role_makes_the_folder_and_modules_are_kept_there(
    playbook: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "there/bytecode"
    assert apply(playbook, "--check")["changed"] == 1
    assert not folder.parent.exists()
    assert apply(playbook)["changed"] == 1
    assert (folder / "sitecustomize.py").read_text() == HOOK.read_text()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert kept(folder) == []
    assert apply(playbook)["changed"] == 0
    names = {path.name.rpartition(".py.")[0] for path in kept(folder)}
    assert {"ansible.legacy.bytecode", "ansible.module_utils.basic"} <= names
    before = {path: path.stat().st_ino for path in kept(folder)}
    assert apply(playbook)["changed"] == 0
    assert {path: path.stat().st_ino for path in kept(folder)} == before


def test_a_folder_in_which_others_may_write_is_made_anew(playbook: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there/bytecode"
    apply(playbook)
    foreign = folder / "ansible.module_utils.basic.py"
    for spoil in ("mode", "link", "file"):
        if spoil == "mode":
            foreign.write_text("foreign")
            folder.chmod(0o777)
        else:
            folder.rename(tmp_path / spoil)
        if spoil == "link":
            folder.symlink_to(tmp_path / spoil)
        elif spoil == "file":
            folder.write_text("")
        assert apply(playbook)["changed"] == 1, spoil
        assert not folder.is_symlink()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
        assert not foreign.exists()
    assert (tmp_path / "link/sitecustomize.py").is_file()
    (folder / "sitecustomize.py").write_text("edited")
    (folder / "kept").write_text("")
    assert apply(playbook)["changed"] == 1
    assert (folder / "kept").exists()
    assert apply(playbook)["changed"] == 0


def test_the_role_takes_the_folder_away_and_nothing_else(playbook: Path, tmp_path: Path) -> None:
    apply(playbook)
    beside = tmp_path / "there/site.json"
    beside.write_text("{}")
    absent = ("--extra-vars", "bytecode_state=absent")
    assert apply(playbook, *absent, "--check")["changed"] == 1
    assert apply(playbook, *absent)["changed"] == 1
    assert list(beside.parent.iterdir()) == [beside]
    assert apply(playbook, *absent)["changed"] == 0
    beside.unlink()
    apply(playbook)
    assert apply(playbook, *absent)["changed"] == 1
    assert not beside.parent.exists()


def test_a_folder_that_cannot_be_made_is_named(playbook: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    done = run(playbook)
    assert done.returncode == 2
    assert f"bytecode: {tmp_path}/there/bytecode cannot be changed: " in done.stdout
    assert "Not a directory" in done.stdout
