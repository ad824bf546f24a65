"""What a person types behind make reaches the command as typed; nothing else does."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from yard_command import REPOSITORY

from yard.arguments import build_parser

pytestmark = pytest.mark.process
# Stands in for the Python of the virtual environment: writes down what make and the shell hand on.
RECORDER = """\
#!/usr/bin/env python3
import json, os, sys
with open(os.environ["RECORD"], "w") as file:
    json.dump({"arguments": sys.argv[1:], "environment": dict(os.environ)}, file)
"""
# Everything that make or a shell could take for its own; {0} is a file that it would make then.
NASTY = 'latest; touch {0} #$(shell touch {0})$$HOME `touch {0}` it\'s "a" (b) \\ %\ntouch {0}'

Typed = Callable[..., tuple[list[str], dict[str, str]]]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    recorder = folder / "bin/python"
    recorder.write_text(RECORDER)
    recorder.chmod(0o755)
    for mark in (".complete", ".renting"):
        (folder / mark).touch()  # newer than what the environment is made from
    return folder


def run(venv: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run make as a person does."""
    kept = {name: text for name, text in os.environ.items() if name != "INVENTORY"}
    return subprocess.run(
        ["make", *words, f"VENV={os.path.relpath(venv, REPOSITORY)}"],
        cwd=REPOSITORY,
        env={**kept, "RECORD": str(venv / "record"), **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def typed(venv: Path) -> Typed:
    """Types a make command; returns the arguments of yard, and its environment."""

    def type_command(*words: str, **environment: str) -> tuple[list[str], dict[str, str]]:
        done = run(venv, *words, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        record = json.loads((venv / "record").read_text())
        assert record["arguments"][:3] == ["-m", "yard", "--inventory"]
        return record["arguments"][3:], record["environment"]

    return type_command


@pytest.mark.parametrize(
    ("target", "name", "argument"),
    [
        *((target, "RUN", "{}") for target in ("report", "stop", "logs", "attach", "rerun")),
        ("train", "MODEL", "--model={}"),
        ("train", "NAME", "--name={}"),
        ("train", "ENTRY", "--entry={}"),
        ("train", "SCRIPT_ARGS", "--script-args={}"),
        ("train", "INVENTORY", "{}"),
        ("data", "DATASET", "{}"),
        ("data", "SOURCE", "--source={}"),
        ("notebook", "NODE", "{}"),
        ("destroy", "SITE", "{}"),
        ("exec", "ON", "--on={}"),
    ],
)
def test_a_value_arrives_as_typed(
    typed: Typed, tmp_path: Path, target: str, name: str, argument: str
) -> None:
    touched = tmp_path / "touched"
    value = NASTY.format(touched)
    arguments, environment = typed(target, f"{name}={value}")
    assert argument.replace("{}", value) in arguments
    assert not touched.exists()
    assert name == "INVENTORY" or name not in environment


def test_a_command_arrives_by_the_environment(typed: Typed, tmp_path: Path) -> None:
    value = NASTY.format(tmp_path / "touched")
    arguments, environment = typed("exec", f"CMD={value}")
    assert arguments == ["inventory/local", "exec", "--", value]
    assert environment["TRAINYARD_COMMAND"] == value
    assert not (tmp_path / "touched").exists()


def test_further_arguments_are_words_and_no_commands(typed: Typed, tmp_path: Path) -> None:
    arguments, _ = typed("train", f"ARGS=--set lr=1; touch {tmp_path}/touched $(shell x)")
    assert arguments[2:] == ["--set", "lr=1;", "touch", f"{tmp_path}/touched", "$(shell", "x)"]
    assert not (tmp_path / "touched").exists()


def test_the_environment_answers_no_question_and_changes_no_run(typed: Typed) -> None:
    having = {"YES": "1", "DATA": "1", "MODEL": "vit", "NODES": "9", "NAME": "wsl", "RUN": "old"}
    having |= {"ARGS": "--set x=y", "CMD": "reboot", "ENTRY": "x.py", "SITE": "sites/other.yml"}
    assert typed("remove", **having)[0] == ["inventory/local", "remove"]
    assert typed("destroy", "SITE=sites/a.yml", **having)[0][1:] == ["destroy", "sites/a.yml"]
    assert typed("data", **having)[0] == ["inventory/local", "data", "cifar10"]
    assert typed("stop", **having)[0] == ["inventory/local", "stop", "latest"]
    assert typed("train", "NODES=2", **having)[0] == ["inventory/local", "train", "--nodes=2"]
    assert typed("exec", **having)[0][-1] == ""


def test_a_place_to_install_is_no_command(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for name, text in (
        ("VENV", f"x; touch {made}; "),
        ("VENV", f"$(shell touch {made})"),
        ("PYTHON", f"$(shell touch {made})"),
    ):
        for typed in (True, False):
            words = [f"{name}={text}"] if typed else []
            done = subprocess.run(
                ["make", "--dry-run", "help", *words],
                cwd=REPOSITORY,
                env={**os.environ, name: text},
                capture_output=True,
                text=True,
            )
            assert (done.returncode == 2) is (name == "VENV"), done
            assert not made.exists()


def test_the_environment_names_the_inventory(typed: Typed) -> None:
    assert typed("status", INVENTORY="inventory/lab")[0] == ["inventory/lab", "status"]


@pytest.mark.parametrize(("text", "yes"), [("1", True), ("yes", True), ("0", False), ("no", False)])
def test_a_switch_is_on_or_off(typed: Typed, text: str, yes: bool) -> None:
    assert ("--yes" in typed("remove", f"YES={text}")[0]) is yes


def test_host_keys_are_not_for_the_environment_to_switch_off(typed: Typed) -> None:
    off = {
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_SSH_HOST_KEY_CHECKING": "False",
        "ANSIBLE_SSH_ARGS": "-o StrictHostKeyChecking=no",
        "ANSIBLE_SSH_COMMON_ARGS": "-C -o stricthostkeychecking=no",
        "ANSIBLE_SFTP_EXTRA_ARGS": "-oUserKnownHostsFile=/dev/null",
    }
    _, environment = typed("status", **off, ANSIBLE_SSH_EXTRA_ARGS="-J gate")
    assert not off.keys() & environment.keys()
    assert environment["ANSIBLE_SSH_EXTRA_ARGS"] == "-J gate"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "model=vit"], "make train takes no model= (did you mean MODEL=?)"),
        (["train", "NODE=4"], "make train takes no NODE= (did you mean NODES=?)"),
        (["train", "EPOCH=3", "MODEL=vit"], "make train takes no EPOCH= (did you mean EPOCHS=?)"),
        (["train", "INVENTRY=x"], "make train takes no INVENTRY= (did you mean INVENTORY=?)"),
        (["scaling", "RETRIES=2"], "make scaling takes no RETRIES="),
        (["status", "FOO=1"], "make status takes no FOO=: it takes BUNDLE= HELP= INVENTORY= "),
        (["setup", "it's=1"], "make setup takes no it's=: it takes BUNDLE="),
        (["rusn"], "make rusn: no such target; did you mean make runs?"),
        (["rusn;touch record #"], "make rusn;touch record #: no such target"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    venv: Path, words: list[str], said: str
) -> None:
    done = run(venv, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (venv / "record").exists()


def test_what_the_guides_have_people_type_is_taken(typed: Typed) -> None:
    guides = (REPOSITORY / "docs/guides.md").read_text()
    commands = dict.fromkeys(re.findall(r"`make ([^`]+)`", guides))
    assert len(commands) > 20
    for command in commands:
        arguments, _ = typed(*shlex.split(command))
        build_parser().parse_args(["--inventory", *arguments])
