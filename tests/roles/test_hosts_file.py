"""Entries of hosts(5) that the role hosts_file makes of an inventory, and the lines of others."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_here import Inventory, module_answer
from role_files import ROLES, action_plugin

from node.setup.hosts_file import other_lines

action = action_plugin("hosts_file", "hosts_file_entries")
Entry = action.Entry

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


def problems(*entries: Any) -> list[str]:
    """Return what contradicts itself."""
    return list(action.contradictions(entries))


def others(text: str, *names: str) -> str:
    """Return the lines of others as the file would have them."""
    return "".join(f"{line}\n" for line in other_lines(text, BEGIN, END, names))


def test_a_host_has_a_line_for_each_address() -> None:
    variables = {
        "cluster_address": "10.0.0.11",
        "cluster_address_v6": "fd00:0:0::11",
        "hosts_file_aliases": ["storage", "node1", "storage"],
    }
    entries = list(action.entries_of("node1", variables))
    assert entries == [
        Entry("node1", "10.0.0.11", ("node1", "storage")),
        Entry("node1", "fd00::11", ("node1", "storage")),
    ]
    assert problems(*entries) == []


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            [Entry("a", "a.example.org", ("a",))],
            'a: "a.example.org" is not an IP address; set cluster_address of this host.',
        ),
        (
            [Entry("a", "10.0.0.1", ("a",)), Entry("b", "10.0.0.1", ("b",))],
            "address 10.0.0.1 belongs to a and b.",
        ),
        # Names have no upper and lower case.
        (
            [Entry("a", "10.0.0.1", ("a", "storage")), Entry("b", "10.0.0.2", ("b", "Storage"))],
            "name storage belongs to a and b.",
        ),
        *(
            ([Entry("a", "10.0.0.1", ("a", name))], f'a: "{name}" cannot be the name of a host.')
            for name in ("two words", "a\n127.0.0.1 b", "a;b", "-a", "a.", "", "localhost", "ä")
        ),
    ],
)
def test_refuses(entries: list[Any], said: str) -> None:
    assert problems(*entries) == [said]


def test_names_all_problems_at_once() -> None:
    entries = [Entry("a", "nowhere", ("a", "x y")), Entry("b", "nowhere", ("b",))]
    assert [sentence.split()[0] for sentence in problems(*entries)] == ["a", "address", "a:"]


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


def test_a_block_that_lost_its_last_line_takes_no_line_of_others_with_it() -> None:
    left = f"127.0.0.1 localhost\n{BEGIN}\n10.0.0.11 node1\n192.0.2.13 printer\n"
    block = f"{BEGIN}\n10.0.0.11 node1\n{END}\n"
    written = others(left, "node1")
    assert written == "127.0.0.1 localhost\n#hosts_file was: 10.0.0.11 node1\n192.0.2.13 printer\n"
    assert others(left + block, "node1") == written
    assert others(written + block, "node1") == written


def test_lines_of_others_keep_their_bytes() -> None:
    typed = "127.0.0.1 localhost\r\n# a\x0cb 192.0.2.1 c\r\n"
    assert others(typed, "node1") == typed


def test_a_link_of_an_admin_s_stays_one(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("127.0.0.1 localhost\n")
    (tmp_path / "hosts").symlink_to("site")
    block = {"begin": BEGIN, "end": END, "lines": ["10.0.0.11 node1"], "names": ["node1"]}
    assert module_answer("hosts_file", "hosts_file_write", path=str(tmp_path / "hosts"), **block)[
        "changed"
    ]
    assert (tmp_path / "hosts").is_symlink()
    assert "10.0.0.11 node1" in (tmp_path / "site").read_text()


def entries(folder: Path, hosts: dict[str, Any], *groups: str) -> dict[str, Any]:
    """What the role's action tells of an inventory of the group trainers."""
    inventory = folder / "hosts.yml"
    inventory.write_text(json.dumps({"trainers": {"hosts": hosts}}))
    return Inventory(inventory).act(action, groups=list(groups))


def test_reads_the_variables_of_an_inventory(tmp_path: Path) -> None:
    hosts = {
        "10.0.0.10": {},
        "node1": {"ansible_host": "10.0.0.11", "hosts_file_aliases": ["{{ alias }}"], "alias": "s"},
        "node2": {"ansible_host": "192.0.2.2", "cluster_address": "10.0.0.12"},
        "node3": {"cluster_address": "10.0.0.13", "cluster_address_v6": "fd00:0::13"},
    }
    assert entries(tmp_path, hosts, "trainers", "trainers")["lines"] == [
        "10.0.0.10 10.0.0.10",
        "10.0.0.11 node1 s",
        "10.0.0.12 node2",
        "10.0.0.13 node3",
        "fd00::13 node3",
    ]


def test_the_action_names_every_contradiction(tmp_path: Path) -> None:
    hosts = {"node1": {"ansible_host": "10.0.0.11"}, "node2": {"ansible_host": "10.0.0.11"}}
    told = entries(tmp_path, hosts, "trainers", "trainer")
    assert told["failed"]
    assert told["msg"].splitlines() == [
        "hosts_file: the inventory contradicts itself, nothing was changed.",
        "there is no group trainer, which hosts_file_groups names.",
        "address 10.0.0.11 belongs to node1 and node2.",
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("true", True),
        ("Yes", True),
        ("on", True),
        ("'template'", True),
        ("false", False),
        ("localhost", False),
    ],
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
