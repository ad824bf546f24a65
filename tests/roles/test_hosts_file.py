"""Entries of hosts(5) that the role hosts_file makes of an inventory, and the lines of others."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import hosts_file_names
from role_files import ROLES

Entry = hosts_file_names.Entry

BEGIN, END = "# BEGIN hosts", "# END hosts"
TYPED = """\
127.0.0.1 localhost
127.0.1.1 node1.example.org node1
192.0.2.12 node2 typed-by-hand  # node2 in the old room
192.0.2.14 NODE1
# node1 in a comment alone
192.0.2.13 printer  # not ours
"""
CHANGED = """\
127.0.0.1 localhost
#hosts_file was: 127.0.1.1 node1.example.org node1
127.0.1.1 node1.example.org #hosts_file left this
#hosts_file was: 192.0.2.12 node2 typed-by-hand  # node2 in the old room
192.0.2.12 typed-by-hand #hosts_file left this
#hosts_file was: 192.0.2.14 NODE1
# node1 in a comment alone
192.0.2.13 printer  # not ours
"""


def problems(*entries: Any) -> list[tuple[str, dict[str, str]]]:
    """Return codes and values of what contradicts itself."""
    named = list(hosts_file_names.entry_problems(list(entries)))
    # Each code has a text, and the values fill it.
    assert all(problem.text.endswith(".") for problem in named)
    return [tuple(problem) for problem in named]


def others(text: str, *names: str) -> str:
    """Return the lines of others as the file would have them."""
    return "".join(f"{line}\n" for line in hosts_file_names.other_lines(text, BEGIN, END, names))


def test_a_host_has_a_line_for_each_address() -> None:
    entries = list(
        hosts_file_names.host_entries(
            "node1", ["10.0.0.11", "fd00:0:0::11"], ["storage", "node1", "storage"]
        )
    )
    assert [entry.line for entry in entries] == [
        "10.0.0.11 node1 storage",
        "fd00::11 node1 storage",
    ]
    assert len(list(hosts_file_names.host_entries("node1", ["10.0.0.11", ""], []))) == 1
    assert problems(*entries) == []


@pytest.mark.parametrize(
    ("entries", "code", "values"),
    [
        (
            [Entry("a", "a.example.org", ("a",))],
            "address_invalid",
            {"host": "a", "address": "a.example.org"},
        ),
        (
            [Entry("a", "10.0.0.1", ("a",)), Entry("b", "10.0.0.1", ("b",))],
            "address_shared",
            {"address": "10.0.0.1", "hosts": "a and b"},
        ),
        # Names have no upper and lower case.
        (
            [Entry("a", "10.0.0.1", ("a", "storage")), Entry("b", "10.0.0.2", ("b", "Storage"))],
            "name_shared",
            {"name": "storage", "hosts": "a and b"},
        ),
        *(
            (
                [Entry("a", "10.0.0.1", ("a", name))],
                "name_invalid",
                {"host": "a", "name": name},
            )
            for name in ("two words", "a\n127.0.0.1 b", "a;b", "-a", "a.", "", "localhost", "ä")
        ),
    ],
)
def test_refuses(entries: list[Any], code: str, values: dict[str, str]) -> None:
    assert problems(*entries) == [(code, values)]


def test_names_all_problems_at_once() -> None:
    entries = [Entry("a", "nowhere", ("a", "x y")), Entry("b", "nowhere", ("b",))]
    assert [code for code, _ in problems(*entries)] == [
        "address_invalid",
        "address_invalid",
        "address_shared",
        "name_invalid",
    ]


def test_takes_names_out_of_other_lines_and_gives_them_back() -> None:
    block = f"{BEGIN}\n10.0.0.11 node1\n10.0.0.12 node2\n{END}\n"
    assert others(TYPED, "node1", "node2") == CHANGED
    assert others(CHANGED + block, "node1", "node2") == CHANGED
    assert others(CHANGED + block) == TYPED
    # Of node2, which left the inventory, the line is as it was.
    assert "\n192.0.2.12 node2 typed-by-hand  # node2 in the old room\n" in others(
        CHANGED + block, "node1"
    )


def test_keeps_lines_after_the_block() -> None:
    block = f"{BEGIN}\n10.0.0.11 node1\n{END}\n"
    assert others(f"{block}192.0.2.13 printer\n", "node1") == "192.0.2.13 printer\n"
    assert others("", "node1") == ""


def run_role(directory: Path, hosts: dict[str, Any], groups: list[str]) -> tuple[int, str]:
    """Run the role's action for an inventory of the group trainers."""
    inventory, playbook = directory / "hosts.yml", directory / "play.yml"
    inventory.write_text(json.dumps({"trainers": {"hosts": hosts}}))
    tasks = [
        {
            "ansible.builtin.import_role": {"name": "hosts_file", "tasks_from": "absent"},
            "when": False,
        },
        {"hosts_file_entries": {"groups": groups}, "run_once": True, "register": "entries"},
        {"ansible.builtin.debug": {"msg": "{{ entries.lines | join('|') }}"}, "run_once": True},
    ]
    play = {"hosts": "trainers", "gather_facts": False, "connection": "local", "tasks": tasks}
    playbook.write_text(json.dumps([play]))
    done = subprocess.run(
        ["ansible-playbook", "--inventory", inventory, playbook],
        env={
            **os.environ,
            "ANSIBLE_ROLES_PATH": str(ROLES),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.process
def test_reads_the_variables_of_an_inventory(tmp_path: Path) -> None:
    hosts = {
        "10.0.0.10": {},
        "node1": {"ansible_host": "10.0.0.11", "hosts_file_aliases": ["{{ alias }}"], "alias": "s"},
        "node2": {"ansible_host": "192.0.2.2", "cluster_address": "10.0.0.12"},
        "node3": {"cluster_address": "10.0.0.13", "cluster_address_v6": "fd00:0::13"},
    }
    status, output = run_role(tmp_path, hosts, ["trainers", "trainers"])
    assert status == 0, output
    lines = "10.0.0.10 10.0.0.10|10.0.0.11 node1 s|10.0.0.12 node2|10.0.0.13 node3|fd00::13 node3"
    assert f'"{lines}"' in output


@pytest.mark.process
def test_the_action_fails_with_problems_as_data(tmp_path: Path) -> None:
    hosts = {"node1": {"ansible_host": "10.0.0.11"}, "node2": {"ansible_host": "10.0.0.11"}}
    status, output = run_role(tmp_path, hosts, ["trainers", "trainer"])
    assert status == 2
    result = json.loads(output.split("FAILED! => ")[1].split("\n")[0])
    assert [(problem["code"], problem["values"]) for problem in result["problems"]] == [
        ("group_missing", {"group": "trainer"}),
        ("address_shared", {"address": "10.0.0.11", "hosts": "node1 and node2"}),
    ]
    assert "nothing was changed" in result["msg"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("setting", "found"),
    [("true", True), ("True", True), ("'template'", True), ("false", False), ("localhost", False)],
)
def test_a_cloud_init_that_writes_the_file_anew_is_found(
    tmp_path: Path, setting: str, found: bool
) -> None:
    (look,) = (
        task["ansible.builtin.shell"]
        for task in yaml.safe_load((ROLES / "hosts_file/tasks/present.yml").read_text())
        if "ansible.builtin.shell" in task
    )
    (tmp_path / "cloud.cfg").write_text(f"users: []\nmanage_etc_hosts: {setting}\n")
    here = look.replace("/etc/cloud/", f"{tmp_path}/")
    done = subprocess.run(["sh", "-c", here], capture_output=True, text=True, check=False)
    assert done.stdout == (f"{tmp_path}/cloud.cfg\n" if found else "")
