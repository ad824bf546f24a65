"""What Ansible builds of modules and templates is kept for the next command, until it changes."""

import base64
import dataclasses
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jinja2
import pytest
from role_files import ROLES

pytestmark = pytest.mark.process

PLUGINS = ROLES.parent / "playbooks/callback_plugins"
MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.words import WORD

module = AnsibleModule(argument_spec={})
module.exit_json(changed=False, msg=f"said {WORD}")
"""
ARCHIVE = "ansible.legacy.said-ZIP_DEFLATED-none"


class Site:
    """A playbook with a role that has a module, in a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tmp = root / "tmp"
        self.tmp.mkdir()
        self.role = root / "roles/thing"
        self.words = self.role / "module_utils/words.py"
        for path, text in {
            self.role / "library/said.py": MODULE,
            self.words: "WORD = 'first'\n",
            self.role / "tasks/main.yml": "- said:\n",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.arguments: list[str] = []
        self.play: dict[str, Any] = {"hosts": "localhost", "gather_facts": False}
        self.play["tasks"] = [{"import_role": {"name": "thing"}}]

    def run(self) -> str:
        """Run the playbook; returns what the module said last."""
        playbook = self.root / "play.yml"
        playbook.write_text(json.dumps([self.play]))
        environment = {
            **os.environ,
            "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
            "ANSIBLE_LOCAL_TEMP": str(self.tmp),
            "ANSIBLE_ROLES_PATH": str(self.root / "roles"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "ANSIBLE_LOCALHOST_WARNING": "false",
        }
        command = ["ansible-playbook", "--inventory", "localhost,", "--connection", "local"]
        interpreter = f"ansible_python_interpreter={sys.executable}"
        done = subprocess.run(
            [*command, "--extra-vars", interpreter, *self.arguments, playbook],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # Nothing else is left of the command.
        assert {path.name for path in self.tmp.iterdir()} <= {self.kept.name}
        tasks = json.loads(done.stdout)["plays"][0]["tasks"]
        results: list[str] = [task["hosts"]["localhost"].get("msg", "") for task in tasks]
        return [msg for msg in results if msg.startswith("said ")][-1]

    @property
    def kept(self) -> Path:
        """Where all is kept."""
        return self.tmp / f"built-{os.geteuid()}"

    def archives(self) -> list[Path]:
        """The archives of the module, one for each state of the sources."""
        return sorted(self.kept.glob(f"*/modules/{ARCHIVE}"))

    def templates(self, text: str) -> list[Path]:
        """The code of templates that have this constant."""
        found = sorted(self.kept.glob("*/templates/*"))
        assert all(path.suffix == ".cache" for path in found)
        return [path for path in found if text.encode() in path.read_bytes()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of which nothing is kept yet."""
    return Site(tmp_path)


def forge(archive: Path) -> None:
    """Have another module in an archive, which says so."""
    cached = pickle.loads(archive.read_bytes())
    before = zipfile.ZipFile(io.BytesIO(base64.b64decode(cached.zip_data)))
    after = io.BytesIO()
    with zipfile.ZipFile(after, "w") as file:
        for name in before.namelist():
            file.writestr(name, before.read(name).replace(b"'first'", b"'kept'"))
    data = base64.b64encode(after.getvalue())
    archive.write_bytes(pickle.dumps(dataclasses.replace(cached, zip_data=data)))


def test_an_archive_is_built_once_and_used_again(site: Site) -> None:
    assert site.run() == "said first"
    (archive,) = site.archives()
    before = archive.stat().st_ino
    assert site.run() == "said first"
    assert [path.stat().st_ino for path in site.archives()] == [before]
    forge(archive)
    assert site.run() == "said kept"


def test_an_edit_is_what_runs_and_old_archives_go(site: Site) -> None:
    assert site.run() == "said first"
    forge(site.archives()[0])
    for word in ("other", "third", "fourth", "fifth"):
        site.words.write_text(f"WORD = '{word}'\n")
        assert site.run() == f"said {word}"
    assert len(list(site.kept.iterdir())) == 3
    (site.role / "library/said.py").write_text(MODULE.replace("said", "said again"))
    assert site.run() == "said again fifth"


def test_a_source_that_comes_to_stand_before_another_counts(site: Site) -> None:
    assert site.run() == "said first"
    beside = site.root / "module_utils"
    beside.mkdir()
    (beside / "words.py").write_text("WORD = 'beside'\n")
    without = site.run()
    site.kept.rename(site.root / "aside")
    assert site.run() == without


@pytest.mark.parametrize("spoilt", ["folder", "state", "modules"])
def test_archives_that_others_may_have_put_there_are_left_alone(spoilt: str, site: Site) -> None:
    site.run()
    (archive,) = site.archives()
    forge(archive)
    state = archive.parents[1]
    folder = {"folder": site.kept, "state": state, "modules": archive.parent}[spoilt]
    folder.chmod(0o777)
    before = archive.stat().st_ino
    site.words.touch()
    assert site.run() == "said first"
    folder.chmod(0o700)
    assert archive.stat().st_ino == before


def test_a_place_that_is_none_stops_nothing(site: Site) -> None:
    site.kept.write_text("")
    assert site.run() == "said first"
    assert site.kept.read_text() == ""


def test_what_is_edited_while_it_runs_is_not_kept(site: Site) -> None:
    edit = "WORD = 'edited'\n"
    site.play["tasks"].insert(0, {"copy": {"content": edit, "dest": str(site.words)}})
    assert site.run() == "said edited"
    assert site.archives() == []


def test_a_role_from_elsewhere_is_not_kept(site: Site) -> None:
    elsewhere = site.root / "elsewhere/thing"
    elsewhere.parent.mkdir()
    site.role.rename(elsewhere)
    site.play["tasks"] = [{"include_role": {"name": str(elsewhere)}}]
    assert site.run() == "said first"
    assert site.archives() == []


def test_collections_beside_those_of_ansible_are_not_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = site.root / "ansible_collections/some/where/plugins/modules"
    modules.mkdir(parents=True)
    alone = MODULE.replace("words import WORD", "basic import sys as WORD")
    (modules / "said.py").write_text(alone)
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(site.root))
    site.play["tasks"].append({"some.where.said": {}})
    assert "module 'sys'" in site.run()
    assert len(site.archives()) == 1
    assert list(site.kept.glob("*/modules/ansible_collections.*")) == []
    # One may bring a filter that templates are compiled for in another way.
    assert site.templates("") == []


@pytest.fixture
def speaking(site: Site) -> Site:
    """A site whose role says a word of a variable of its own."""
    (site.role / "defaults").mkdir()
    (site.role / "defaults/main.yml").write_text("thing_word: \"{{ 'first' ~ '\\\\1' }}\"\n")
    (site.role / "tasks/main.yml").write_text("- debug:\n    msg: said {{ thing_word }}\n")
    return site


def test_a_template_is_compiled_once_and_used_again(speaking: Site) -> None:
    assert speaking.run() == "said first\\1"
    (kept,) = speaking.templates("first")
    before = [path.stat().st_ino for path in speaking.templates("")]
    assert speaking.run() == "said first\\1"
    assert [path.stat().st_ino for path in speaking.templates("")] == before
    kept.write_bytes(kept.read_bytes().replace(b"first", b"other"))
    assert speaking.run() == "said other\\1"
    defaults = speaking.role / "defaults/main.yml"
    defaults.write_text(defaults.read_text().replace("first", "third"))
    assert speaking.run() == "said third\\1"


def test_what_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    sys.path.append(str(PLUGINS))
    cache = importlib.import_module("build_cache").TemplateCache(tmp_path, ())
    sys.path.remove(str(PLUGINS))
    environment = jinja2.Environment()

    def says() -> str:
        code = cache.code(environment, "{{ 'first' }}", lambda: environment.compile("{{ 'new' }}"))
        return jinja2.Template.from_code(environment, code, {}).render()

    assert says() == "new"
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole.replace(b"new", b"old"))
    assert says() == "old"
    for length in range(len(whole)):
        kept.write_bytes(whole[:length])
        assert says() == "new"
    kept.write_bytes(b"x" * 99)
    assert says() == "new"
    assert kept.read_bytes() == whole


def test_templates_that_others_may_have_put_there_are_left_alone(speaking: Site) -> None:
    speaking.run()
    (kept,) = speaking.templates("first")
    kept.write_bytes(kept.read_bytes().replace(b"first", b"other"))
    kept.parent.chmod(0o777)
    assert speaking.run() == "said first\\1"


PLACES = ["inventory", "group_vars", "play", "extra", "vault", "file of the vault"]


def encrypted(text: str, password: Path) -> str:
    """A text as Ansible's vault has it."""
    command = ["ansible-vault", "encrypt", "--output", "-", "--vault-password-file", str(password)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("place", PLACES)
def test_of_what_may_have_been_secret_no_code_is_kept(place: str, speaking: Site) -> None:
    secret = "{{ 'hidden' ~ '1' }}"
    if place == "play":
        speaking.play["vars"] = {"thing_word": secret}
    elif place == "extra":
        speaking.arguments = ["--extra-vars", json.dumps({"thing_word": secret})]
    elif "vault" in place:
        password = speaking.root / "password"
        password.write_text("p")
        speaking.arguments = ["--vault-password-file", str(password)]
        if place == "vault":
            lines = encrypted(secret, password).replace("\n", "\n  ")
            text = f"thing_word: !vault |\n  {lines}\n"
        else:
            text = encrypted(f'thing_word: "{secret}"\n', password)
        (speaking.role / "vars").mkdir()
        (speaking.role / "vars/main.yml").write_text(text)
    elif place == "group_vars":
        (speaking.root / "group_vars").mkdir()
        (speaking.root / "group_vars/all.yml").write_text(json.dumps({"thing_word": secret}))
    else:
        (speaking.root / "hosts.yml").write_text(
            json.dumps({"all": {"hosts": {"localhost": {"thing_word": secret}}}})
        )
        speaking.arguments = ["--inventory", str(speaking.root / "hosts.yml")]
    # Of a single value of the vault Ansible makes no template.
    assert speaking.run() == f"said {secret if place == 'vault' else 'hidden1'}"
    assert speaking.templates("thing_word") != []
    assert speaking.templates("hidden") == []
