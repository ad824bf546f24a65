"""The action that calls the node program: on this machine, with Pythons and sudos of any kind."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from role_files import ROLES

pytestmark = pytest.mark.process

PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - training_node: {verb: "{{ verb | default('status') }}", arguments: "{{ asked }}", place: "{{ place }}"}
      delegate_to: "{{ to | default(inventory_hostname) }}"
      register: told
      ignore_errors: true
      ignore_unreachable: true
      timeout: "{{ limit | default(60) }}"
    - ansible.builtin.copy: {content: "{{ told | to_json }}", dest: "{{ out }}/{{ inventory_hostname }}"}
      delegate_to: localhost
      check_mode: false
      vars: {ansible_python_interpreter: /usr/bin/python3, ansible_become: false}
"""  # noqa: E501  # as people write it
# As far as Ansible's own modules are concerned, which are not the subject here.
PYTHON = "/usr/bin/python3"


class Machines:
    """Hosts that are this machine, each with variables of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "lib/node"
        self.runs = folder / "runs"
        self.runs.mkdir()
        (folder / "told").mkdir()

    def program(self, name: str, text: str) -> str:
        """A program of sh."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def call(self, *options: str, **hosts: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What the action comes to on each host."""
        common = {
            "ansible_connection": "local",
            "ansible_python_interpreter": PYTHON,
            "asked": {"root": str(self.runs), "host": "node1"},
            "place": str(self.place),
        }
        listed = {name: {**common, **variables} for name, variables in hosts.items()}
        (self.folder / "hosts.json").write_text(json.dumps({"all": {"hosts": listed}}))
        (self.folder / "play.yml").write_text(PLAYBOOK)
        command = [
            "ansible-playbook",
            "-i",
            "hosts.json",
            "play.yml",
            "-e",
            f"out={self.folder}/told",
        ]
        environment = {
            **os.environ,
            "ANSIBLE_ACTION_PLUGINS": str(ROLES / "training_node/action_plugins"),
            "TRAINYARD_NATIVE": str(self.folder / "native"),
        }
        done = subprocess.run(
            [*command, *options],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        return {name: json.loads((self.folder / "told" / name).read_text()) for name in hosts}


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def says(document: Any) -> str:
    return f"cat >/dev/null; printf '%s\\n' {shlex.quote(json.dumps(document))}"


def test_the_program_is_brought_once_and_then_called(machines: Machines) -> None:
    calls = machines.folder / "calls"
    counted = machines.program("counted", f'echo "$4" >>{calls}; exec {PYTHON} "$@"')
    chatty = machines.program("chatty", f'echo "Welcome {{"; exec {PYTHON} "$@"')
    for _ in range(2):
        told = machines.call(one={"ansible_python_interpreter": counted})["one"]
        assert (told["changed"], told["verb"], told["answer"]["trouble"]) == (False, "status", None)
    assert calls.read_text().split() == ["call", "bring", "call", "call"]
    # A dry run looks as well, and a shell may have something to say before.
    (other,) = machines.call("--check", two={"ansible_python_interpreter": chatty}).values()
    assert other["answer"]["runs"] == []


def test_the_control_node_is_asked_with_its_own_python(machines: Machines) -> None:
    told = machines.call("-e", "to=localhost", one={"ansible_python_interpreter": "/nowhere/it"})
    assert told["one"]["answer"]["runs"] == []


# What a node lies, and the code under which it is known.
LIES = {
    "nothing": ("cat >/dev/null", "no_answer"),
    "prose": ("cat >/dev/null; echo Bus error; exit 1", "no_answer"),
    "endless": ("cat >/dev/null; head -c 20M /dev/zero | tr '\\0' x", "no_answer"),
    "deep": ("cat >/dev/null; head -c 100k /dev/zero | tr '\\0' '['", "no_answer"),
    "nested": (says({"answer": {"a": json.loads("[" * 30 + "]" * 30)}}), "no_answer"),
    "a list": (says([{"answer": {}}]), "no_answer"),
    "no object": (says({"answer": [1]}), "no_answer"),
    "odd error": (says({"error": {"code": 7, "values": {}}}), "no_answer"),
    "huge error": (says({"error": {"code": "x", "values": {"a": "y" * 100_000}}}), "no_answer"),
    # Only a dry run may do nothing.
    "nothing done": (says({"answer": None, "changed": False}), "no_answer"),
    # None may say that another host is at fault, or what is of no form.
    "no problems": (says({"error": {"code": "refused", "values": {"problems": [5]}}}), "refused"),
    "odd values": (says({"error": {"code": "not_own", "values": {"path": {}}}}), "not_own"),
    "template": (says({"error": {"code": "{{ 7 * 7 }}", "values": {}}}), "{{ 7 * 7 }}"),
}


def test_what_is_no_answer_is_a_failure_with_a_sentence(machines: Machines) -> None:
    names = {name: f"host{number}" for number, name in enumerate(LIES)}
    told = machines.call(
        **{
            names[name]: {"ansible_python_interpreter": machines.program(names[name] + ".sh", lie)}
            for name, (lie, _) in LIES.items()
        }
    )
    for name, (_, code) in LIES.items():
        result = told[names[name]]
        assert (result["failed"], result["code"]) == (True, code), name
        assert 10 < len(result["msg"]) < 1000, name
    assert "49" not in told[names["template"]]["msg"]


def test_an_answer_sets_nothing_of_ansible_s_own(machines: Machines) -> None:
    lie = says({"answer": {"ansible_facts": {"x": 1}}, "ansible_facts": {"x": 1}, "failed": True})
    told = machines.call(one={"ansible_python_interpreter": machines.program("liar", lie)})["one"]
    assert told["answer"] == {"ansible_facts": {"x": 1}}
    assert (told["changed"], "ansible_facts" in told) == (False, False)


def test_what_keeps_a_node_from_an_answer_is_said(machines: Machines) -> None:
    refusing = "echo 'sudo: a password is required' >&2; exit 1"
    become = {"ansible_become": True, "ansible_become_user": "nobody"}
    # This Python, which says of itself that it is an older one.
    text = f'exec {PYTHON} -I -c "import sys; sys.version_info = (3, 8, 18)\n$3" "$4" "$5" "$6"'
    told = machines.call(
        none={"ansible_python_interpreter": "/nowhere/python3"},
        old={"ansible_python_interpreter": machines.program("old", text)},
        sudo={**become, "ansible_become_exe": machines.program("refusing", refusing)},
        away={"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
        odd={"verb": "sh"},
        open={"place": str(machines.folder / "wide/node")},
        silent={
            "ansible_python_interpreter": machines.program("silent", "exec sleep 60"),
            "limit": 2,
        },
    )
    assert "there is no /nowhere/python3" in told["none"]["msg"]
    assert told["old"]["code"] == "python_too_old"
    assert "3.9 is the oldest" in told["old"]["msg"]
    assert "a password is required" in told["sudo"]["msg"]
    assert told["away"]["unreachable"]
    assert told["odd"]["code"] == "unknown_verb"
    assert "answer" in told["open"]
    assert told["silent"]["timedout"]["period"] == 2
    (machines.folder / "wide").chmod(0o777)
    (open_one,) = machines.call(open={"place": str(machines.folder / "wide/node")}).values()
    assert open_one["code"] == "not_own"
    assert f"{machines.folder}/wide is drwxrwxrwx" in open_one["msg"]


def test_a_node_speaks_for_itself_alone(machines: Machines) -> None:
    found = {"code": "gpu_lost", "values": {}, "text": "it is lost"}
    named = {"outcome": "No: ", "problems": [{**found, "host": "two"}]}
    own = {"outcome": "No: ", "problems": [found]}
    told = machines.call(
        **{
            name: {
                "ansible_python_interpreter": machines.program(
                    name, says({"error": {"code": "refused", "values": values}})
                )
            }
            for name, values in (("one", own), ("three", named))
        }
    )
    assert (told["one"]["msg"], told["one"]["problems"]) == (
        "No: it is lost",
        [{"host": "one", **found}],
    )
    assert (told["three"]["code"], "problems" in told["three"]) == ("refused", False)
