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
    - training_node: {verb: "{{ verb | default('status') }}", arguments: "{{ asked }}", place: "{{ place | default(omit) }}"}
      delegate_to: "{{ to | default(inventory_hostname) }}"
      ignore_errors: true
      ignore_unreachable: true
      timeout: "{{ limit | default(60) }}"
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
        # What one of them was asked for, in turn
        self.calls = folder / "calls"
        self.counted = self.saying("counted", f'echo "$4" >>{self.calls}; exec {PYTHON} "$@"')

    def program(self, name: str, text: str) -> str:
        """A program of sh."""
        path = self.folder / name.replace(" ", "_")
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def saying(self, name: str, text: str) -> dict[str, Any]:
        """A host whose Python is a program of sh."""
        return {"ansible_python_interpreter": self.program(f"{name}.sh", text)}

    def call(self, hosts: dict[str, dict[str, Any]], *options: str) -> dict[str, dict[str, Any]]:
        """What the action comes to on each host, in one playbook: Ansible takes a second."""
        common = {
            "ansible_connection": "local",
            "ansible_python_interpreter": PYTHON,
            "asked": {"root": str(self.runs), "host": "node1"},
            "training_node_program": "{{ playbook_dir }}/lib/node",
        }
        listed = {name: {**common, **variables} for name, variables in hosts.items()}
        (self.folder / "hosts.json").write_text(json.dumps({"all": {"hosts": listed}}))
        (self.folder / "play.yml").write_text(PLAYBOOK)
        environment = {
            **os.environ,
            "ANSIBLE_ACTION_PLUGINS": str(ROLES / "training_node/action_plugins"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "TRAINYARD_NATIVE": str(self.folder / "native"),
        }
        done = subprocess.run(
            ["ansible-playbook", "-i", "hosts.json", "play.yml", *options],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        (task,) = json.loads(done.stdout)["plays"][0]["tasks"]
        told: dict[str, dict[str, Any]] = task["hosts"]
        assert told.keys() == hosts.keys()
        return told


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(tmp_path_factory.mktemp("nodes"))


def says(document: Any) -> str:
    return f"cat >/dev/null; printf '%s\\n' {shlex.quote(json.dumps(document))}"


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


FOUND = {"code": "gpu_lost", "values": {}, "text": "it is lost"}
# It speaks for itself alone.
OWN = {"outcome": "No: ", "problems": [FOUND]}
OF_ANOTHER = {"outcome": "No: ", "problems": [{**FOUND, "host": "two"}]}


@pytest.fixture(scope="module")
def told(machines: Machines) -> dict[str, dict[str, Any]]:
    """What nodes of all kinds come to."""
    refusing = "echo 'sudo: a password is required' >&2; exit 1"
    become = {"ansible_become": True, "ansible_become_user": "nobody"}
    # This Python, which says of itself that it is an older one.
    old = f'exec {PYTHON} -I -c "import sys; sys.version_info = (3, 8, 18)\n$3" "$4" "$5" "$6"'
    facts = {"ansible_facts": {"x": 1}}
    wide = machines.folder / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    # The control node is asked with its own Python.
    here = {"ansible_python_interpreter": "/nowhere/it", "to": "localhost"}
    hosts = {
        "one": machines.counted,
        "here": {**here, "place": f"{machines.place}2"},
        **{name: machines.saying(name, lie) for name, (lie, _) in LIES.items()},
        "facts": machines.saying("facts", says({"answer": facts, **facts, "failed": True})),
        "none": {"ansible_python_interpreter": "/nowhere/python3"},
        "old": machines.saying("old", old),
        "sudo": {**become, "ansible_become_exe": machines.program("refusing", refusing)},
        "away": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
        "odd": {"verb": "sh"},
        "open": {"place": str(wide / "node")},
        "silent": {**machines.saying("silent", "exec sleep 60"), "limit": 2},
        "own": machines.saying("own", says({"error": {"code": "refused", "values": OWN}})),
        "another": machines.saying(
            "another", says({"error": {"code": "refused", "values": OF_ANOTHER}})
        ),
    }
    return machines.call({name.replace(" ", "-"): host for name, host in hosts.items()})


def test_the_program_is_brought_once_and_then_called(
    machines: Machines, told: dict[str, dict[str, Any]]
) -> None:
    assert (told["one"]["changed"], told["one"]["verb"]) == (False, "status")
    assert told["one"]["answer"]["trouble"] is None
    assert told["here"]["answer"]["runs"] == []
    # A dry run looks as well, and a shell may have something to say before.
    chatty = machines.saying("chatty", f'echo "Welcome {{"; exec {PYTHON} "$@"')
    dry = machines.call({"one": machines.counted, "two": chatty}, "--check")
    assert dry["two"]["answer"]["runs"] == dry["one"]["answer"]["runs"] == []
    assert machines.calls.read_text().split() == ["call", "bring", "call", "call"]


@pytest.mark.parametrize("name", LIES)
def test_what_is_no_answer_is_a_failure_with_a_sentence(
    name: str, told: dict[str, dict[str, Any]]
) -> None:
    result = told[name.replace(" ", "-")]
    assert (result["failed"], result["code"]) == (True, LIES[name][1])
    assert 10 < len(result["msg"]) < 1000
    assert "49" not in result["msg"] or name != "template"


def test_an_answer_sets_nothing_of_ansible_s_own(told: dict[str, dict[str, Any]]) -> None:
    assert told["facts"]["answer"] == {"ansible_facts": {"x": 1}}
    assert (told["facts"]["changed"], "ansible_facts" in told["facts"]) == (False, False)


def test_what_keeps_a_node_from_an_answer_is_said(told: dict[str, dict[str, Any]]) -> None:
    assert "there is no /nowhere/python3" in told["none"]["msg"]
    assert told["old"]["code"] == "python_too_old"
    assert "3.9 is the oldest" in told["old"]["msg"]
    assert "a password is required" in told["sudo"]["msg"]
    assert told["away"]["unreachable"]
    # In the words of ssh, without Ansible's.
    assert told["away"]["msg"].startswith("Task failed: ssh: ")
    assert told["odd"]["code"] == "unknown_verb"
    assert told["silent"]["timedout"]["period"] == 2
    assert told["open"]["code"] == "not_own"
    assert "/wide is drwxrwxrwx" in told["open"]["msg"]


def test_a_node_speaks_for_itself_alone(told: dict[str, dict[str, Any]]) -> None:
    assert told["own"]["msg"] == "No: it is lost"
    assert told["own"]["problems"] == [{"host": "own", **FOUND}]
    assert (told["another"]["code"], "problems" in told["another"]) == ("refused", False)
