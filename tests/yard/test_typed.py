"""The command `yard` in a user's shell: where it is, what it completes, whose words it speaks."""

import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from yard_command import REPOSITORY

from yard import cli, make_help
from yard.arguments import build_parser
from yard.core.console import ForeignTextConsole
from yard.core.project import Project
from yard.core.typed import TYPES_YARD, to_yard


@pytest.mark.parametrize(
    ("make", "yard"),
    [
        ("make stop RUN=vit ends it.", "yard stop vit ends it."),
        ("make logs RUN=20261128T1_x RANK=1 FOLLOW=1", "yard logs 20261128T1_x --rank 1 --follow"),
        ("make train CODE='a b' NODES=2", "yard train --code 'a b' --nodes 2"),
        (
            "make train INVENTORY=inventory/lab NODES=2..4",
            "yard --inventory inventory/lab train --nodes 2..4",
        ),
        ("make exec CMD='free -g' ON=node1,node2", "yard exec --on node1,node2 -- 'free -g'"),
        (
            "make train RUNTIME=native MODEL=vit ARGS='--set ema=0.9'",
            "TRAINYARD_RUNTIME=native yard train --model vit --set ema=0.9",
        ),
        ("make setup BUNDLE=b.tar, or BUNDLE=none", "make setup BUNDLE=b.tar, or BUNDLE=none"),
        ("make data DATASET=cifar10", "yard data cifar10"),
        ("make data SOURCE=folder NAME=faces", "yard data --source folder --name faces"),
        ("(make setup)", "(yard setup)"),
        ("make clean-up YES=1, then again", "yard clean-up --yes, then again"),
        ("RETRIES=2 starts it again; NODES= more", "--retries 2 starts it again; --nodes more"),
        ("make bootstrap makes the account", "make bootstrap makes the account"),
        ("these make no sense: A", "these make no sense: A"),
        ("a node says \0007\0: make setup", "a node says 7: yard setup"),
    ],
)
def test_commands_in_messages_are_those_that_the_user_types(make: str, yard: str) -> None:
    assert to_yard(make) == yard


def test_every_variable_of_make_becomes_what_yard_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    checked = 0
    for texts in make_help.targets((REPOSITORY / "Makefile").read_text()).values():
        for target in texts.keys() & cli.COMMANDS.keys():
            with pytest.raises(SystemExit):
                build_parser().parse_args([target, "--help"])
            known = {"--inventory", *re.findall(r"--[a-z0-9-]+", capsys.readouterr().out)}
            for name in re.findall(r"\b([A-Z][A-Z0-9_]*)=", texts[target]):
                words = to_yard(f"make {target} {name}=1").split()
                flags = {word for word in words if word.startswith("--")} - {"--"}
                assert flags <= known, f"{target} {name}="
                checked += 1
    assert checked > 100


@pytest.mark.process
def test_the_help_of_a_target_speaks_make() -> None:
    groups = make_help.targets((REPOSITORY / "Makefile").read_text())
    texts = {name: text for group in groups.values() for name, text in group.items()}
    shown = {
        name: make_help.of_target(name, texts[name], sys.executable)
        for name in ("scaling", "bench", "exec", "report", "train")
    }
    assert "\n  ROUNDS=N              how often" in shown["scaling"]
    assert '\n  ARGS="--batch N"      images' in shown["bench"]
    assert "\n  CMD=           given to /bin/sh" in shown["exec"]
    assert "\n  LIMIT=S        time limit" in shown["exec"]
    assert "options:" not in shown["report"]
    assert set(re.findall(r"--[a-z-]+", shown["train"])) == {"--set"}
    assert "yard" not in shown["train"]


def test_the_screen_speaks_make_unless_the_user_types_yard(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    console = ForeignTextConsole(file=screen, width=80)
    console.print("[bold]make stop RUN=vit[/]")
    monkeypatch.setenv(TYPES_YARD, "1")
    console.print("[bold]make stop RUN=vit[/]")
    assert screen.getvalue() == "make stop RUN=vit\nyard stop vit\n"


@pytest.mark.parametrize(
    ("words", "by_yard", "by_make"),
    [
        ("rusn", "COMMAND: rusn: unknown; did you mean runs?", None),
        ("train --nodess 2", "--nodess: unknown; did you mean --nodes?", None),
        ("train --epochs x", "--epochs: 'x' is not a whole number", "EPOCHS: 'x' is not a whole"),
        ("train --launch r", "--launch: r: unknown; there is rank, node", "LAUNCH: r: unknown;"),
        (
            "train --model a --code b",
            "--code: not together with --model",
            "CODE: not together with",
        ),
        ("train --set x", "--set: 'x' is not key=value", "--set: 'x' is not key=value"),
        ("exec --seconds x ls", "--seconds: 'x' is not a whole number", "LIMIT: 'x' is not"),
        ("export", "--to: missing", "TO: missing"),
        ("logs a b", "b: not expected", "b: not expected"),
    ],
)
def test_a_mistyped_word_is_refused_in_the_words_of_who_typed_it(
    words: str,
    by_yard: str,
    by_make: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for typed, said in (("1", by_yard), ("", by_make)):
        monkeypatch.setenv(TYPES_YARD, typed)
        with pytest.raises(SystemExit) as ended:
            build_parser().parse_args(words.split())
        assert ended.value.code == 2
        told = capsys.readouterr().err
        assert told.startswith(f"yard: {said or by_yard}")
        assert told.count("\n") == 2
        assert ("--help lists all" if typed else "HELP=1 lists all") in told


def offered(line: str, home: Path) -> list[str]:
    """What a shell is offered for the last word of a line."""
    answer = home / "answer"
    asked = {
        **{
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        },
        **{"COMP_LINE": line, "COMP_POINT": str(len(line)), "PYTHONPATH": str(REPOSITORY)},
    }
    command = [sys.executable, "-P", "-m", "yard"]
    subprocess.run(command, cwd=home, env={**os.environ, **asked}, check=True, timeout=60)
    return answer.read_text().split("\n")


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("yard sto", ["stop "]),
        ("yard train --model mobilenet_v3_s", ["mobilenet_v3_small "]),
        ("yard train --nod", ["--nodes "]),
        ("yard logs 20261128T12", ["20261128T120000Z_vit_cifar10_b32_e1_n2_p1 "]),
        ("yard --inventory inventory/lab notebook node", ["node7 "]),
        ("yard report 2026", ["20261128T120000Z_vit_cifar10_b32_e1_n2_p1 "]),
        ("yard --inventory inventory/lab verify --on gpu,node", ["gpu,node7 "]),
    ],
)
def test_a_shell_is_offered_the_names_of_the_checkout(
    line: str, words: list[str], tmp_path: Path
) -> None:
    for name in ("site.yml", "ansible.cfg", "group_vars", "trainer"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    run = tmp_path / "runs/20261128T120000Z_vit_cifar10_b32_e1_n2_p1"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    (tmp_path / "inventory/lab").mkdir(parents=True)
    (tmp_path / "inventory/lab/hosts.yml").write_text("trainers: {hosts: {node7: {}}}")
    assert offered(line, tmp_path) == words


def test_elsewhere_it_is_the_command_of_its_own_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INVENTORY", raising=False)
    project = Project.find(tmp_path)
    assert project.root == REPOSITORY
    assert project.inventory(None) == REPOSITORY / "inventory/local"
    monkeypatch.setenv("INVENTORY", "inventory/example")
    assert project.inventory(None) == REPOSITORY / "inventory/example"
    (tmp_path / "mine").mkdir()
    assert project.inventory(Path("mine")) == Path("mine").absolute()


def test_in_another_project_of_ansible_nothing_of_that_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INVENTORY", raising=False)
    (tmp_path / "inventory/local").mkdir(parents=True)
    for name in ("site.yml", "ansible.cfg"):
        (tmp_path / name).touch()
    assert Project.find(tmp_path).root == tmp_path
    monkeypatch.setenv(TYPES_YARD, "1")
    project = Project.find(tmp_path)
    assert project.root == REPOSITORY
    assert project.inventory(None) == REPOSITORY / "inventory/local"


def test_in_a_folder_with_a_program_it_trains_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--nodes", "2"]) == 2
    assert "name what to train" in capsys.readouterr().err
    assert cli.main(["train", "--entry", "go.py"]) == 2
    assert f"{tmp_path}: no file in it travels" in capsys.readouterr().err
    (tmp_path / "train.py").write_text("print(\n")
    assert cli.main(["train", "--nodes", "2"]) == 2
    assert "train.py" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.promise("make install")
def test_it_is_installed_and_works_from_a_folder_of_its_own(tmp_path: Path) -> None:
    home, project = tmp_path / "ho'me", tmp_path / "project"
    project.mkdir()
    # Were this folder on Python's path, it would stand in for a module of the command.
    (project / "argparse.py").write_text("raise SystemExit(99)")
    venv = (f"--old-file={sys.prefix}/.complete", f"VENV={sys.prefix}")
    install = ["make", *venv, "install", f"FOLDER={home}/bin"]
    done = subprocess.run(install, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{home}/bin is not on PATH yet" in done.stdout
    # Whatever the virtual environment says: checkouts may share it.
    assert f"\nexport PYTHONPATH={REPOSITORY}$" in (home / "bin/yard").read_text()
    environment = {**os.environ, "PATH": f"{home}/bin:{os.environ['PATH']}"}
    shown = subprocess.run(
        ["yard", "train"], cwd=project, env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 2
    assert "yard: name what to train: --model vit" in shown.stderr

    (home / "bin/yard").write_text("of somebody else")
    refused = subprocess.run(install, cwd=REPOSITORY, capture_output=True, text=True)
    assert (home / "share/zsh/site-functions/_yard").is_file()
    assert refused.returncode != 0
    assert "is another program" in refused.stderr
    assert (home / "bin/yard").read_text() == "of somebody else"


def test_every_command_takes_the_options_that_it_is_handed() -> None:
    needed = {
        "destroy": "site",
        "exec": "true",
        "export": "--to=a.pt",
        "notebook": "node1",
        "predict": "--source=images",
        "provision": "site --count=2",
        "report": "latest",
    }
    for command, text in cli.PLAIN.items():
        place, *options = text.split()
        module, function = place.split(".")
        takes = getattr(import_module(f"yard.commands.{module}"), function)
        inspect.signature(takes).bind(None, *options)
        parsed = build_parser().parse_args([command, *needed.get(command, "").split()])
        assert {*options} <= {*vars(parsed)}, command
