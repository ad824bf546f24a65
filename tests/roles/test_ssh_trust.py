"""Keys of nodes, collected and written as ssh and sshd read them."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleUndefinedVariable
from ansible_here import Host, tasks_of
from role_files import action_plugin

from node.setup import ssh_trust_lines
from node.setup.ssh_trust import USUAL_KEYS

members = action_plugin("ssh_trust", "ssh_trust_members")
collect = action_plugin("ssh_trust", "ssh_trust_collect")


class Variables(Mapping[str, Any]):
    """As Ansible's: a value that is made from an undefined one raises when it is read."""

    def __init__(self, **values: Any) -> None:
        self.values_by_name = values

    def __getitem__(self, name: str) -> Any:
        value = self.values_by_name[name]
        if value == "undefined":
            raise AnsibleUndefinedVariable("a fact that was not gathered")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


def test_a_member_by_its_name_alone() -> None:
    member = members.member_of("node1", Variables())
    assert member == members.Member("node1", ["node1"], [], None, 22, "node1", 22)


def test_a_member_with_all_it_can_have() -> None:
    member = members.member_of(
        "node1",
        Variables(
            ansible_host="192.0.2.1",
            ansible_port=2222,
            cluster_address="10.0.0.1",
            cluster_address_v6="fd00::1",
            hosts_file_aliases=["storage", "node1"],
            ssh_trust_port=2200,
        ),
    )
    assert member.names == ["node1", "storage"]
    assert member.addresses == ["10.0.0.1", "fd00::1", "192.0.2.1"]
    assert (member.address, member.port) == ("10.0.0.1", 2200)
    assert (member.control_address, member.control_port) == ("192.0.2.1", 2222)


def test_an_address_that_is_the_name_is_listed_once() -> None:
    member = members.member_of("10.0.0.1", Variables(ansible_host="10.0.0.1", ansible_port="2222"))
    assert member.addresses == []
    assert (member.address, member.port) == ("10.0.0.1", "2222")


def test_a_variable_that_needs_an_undefined_one_is_not_defined() -> None:
    variables = Variables(cluster_address="undefined", ansible_host="192.0.2.1")
    assert members.member_of("node1", variables).address == "192.0.2.1"
    assert members.variable(variables, "cluster_address") is None


def reading(number: int, *keys: str, **more: Any) -> dict[str, Any]:
    """What the node program tells of a node."""
    return {"host_key": f"ssh-ed25519 H{number}", "user_keys": list(keys), **more}


def test_lines_of_all_nodes() -> None:
    readings = {
        "node1": reading(1, "ssh-ed25519 A", "ssh-ed25519 A"),
        "node2": reading(2, "ssh-ed25519 B", "ssh-ed25519 C"),
        "new": reading(3),
        "control-node": {"host_key": "", "user_keys": ["ssh-ed25519 D"]},
    }
    assert collect.known_hosts_lines(readings) == [
        "node1 ssh-ed25519 H1 node1",
        "node2 ssh-ed25519 H2 node2",
        "new ssh-ed25519 H3 new",
    ]
    nothing = dict.fromkeys(readings, "")
    assert collect.authorized_keys_lines(readings, "trainer", nothing) == [
        "ssh-ed25519 A trainer@node1",
        "ssh-ed25519 B trainer@node2",
        "ssh-ed25519 C trainer@node2",
        "ssh-ed25519 D trainer@control-node",
    ]


def test_a_key_opens_what_it_is_for_alone() -> None:
    hosts = [
        {"member": "node1", "addresses": ["10.0.0.1", "fd00::1", "node1.example.org", "fe80::1%e"]},
        {"member": "by-name", "addresses": ["by-name.example.org"]},
        {"member": "10.0.0.3", "addresses": []},
    ]
    addresses = members.sources(hosts, ["192.0.2.0/24"], "control-node", [])
    # One with a name alone is let in from everywhere.
    assert addresses == {
        "node1": ["10.0.0.1", "fd00::1", "192.0.2.0/24"],
        "10.0.0.3": ["10.0.0.3", "192.0.2.0/24"],
    }
    limits = members.Limits(to_loopback=True, addresses=addresses)
    assert limits.options("node1") == (
        'restrict,pty,port-forwarding,permitopen="127.0.0.1:*",permitlisten="localhost:1",'
        'from="10.0.0.1,fd00::1,192.0.2.0/24" '
    )
    assert limits.options("control-node", node=False) == "restrict,pty "
    assert members.Limits(restrict=False).options("node1") == ""
    control = members.sources([], [], "control-node", ["10.0.0.9"])
    assert members.Limits(addresses=control).options("control-node") == (
        'restrict,pty,from="10.0.0.9" '
    )


@pytest.mark.parametrize("entry", ["*", "10.0.0.1/33", "node1", '10.0.0.1" ssh-ed25519 A', ""])
def test_a_source_is_an_address_or_a_network(entry: str) -> None:
    for more, control in (([entry], []), ([], [entry])):
        with pytest.raises(members.MembersError, match="neither an address nor a network"):
            members.sources([], more, "control-node", control)


@pytest.mark.parametrize(
    "text",
    [
        "ssh-ed25519 A\n* ssh-ed25519 E",
        "ssh-ed25519 A\n",
        "ssh-ed25519 A evil",
        "ssh-rsa A",
        "* A",
        'command="x" A',
        7,
    ],
)
def test_a_node_that_shows_more_than_a_key_is_named(text: Any) -> None:
    good = reading(1, "ssh-ed25519 A")
    collect.refuse_other_text({"node1": good, "control-node": {**good, "host_key": ""}})
    for bad in ({**good, "host_key": text}, {**good, "user_keys": [text]}):
        with pytest.raises(collect.CollectError, match="what node2 shows as a public key is none"):
            collect.refuse_other_text({"node1": good, "node2": bad})


@pytest.mark.parametrize("answer", [None, [], {}, {"user_keys": "ssh-ed25519 A"}])
def test_a_node_that_says_nothing_of_keys_is_named(answer: Any) -> None:
    with pytest.raises(collect.CollectError, match="what node2 says of its keys is not an answer"):
        collect.refuse_other_text({"node2": answer})


def test_nodes_outside_the_run() -> None:
    readings = collect.readings_of_others(
        [
            {"item": "away", "unreachable": True},
            {"item": "passed over", "skipped": True},
            {"item": "broken", "failed": True, "msg": "there is no python3"},
            {"item": "node3", "answer": {"ssh_trust": reading(3)}},
        ]
    )
    assert list(readings) == ["node3"]
    assert collect.silent_members(["node3", "away"], readings) == ["away"]


TEXT = """\
# Written by somebody. away
away ssh-ed25519 H away
faraway ssh-ed25519 I faraway
ssh-ed25519 A trainer@away
ssh-ed25519 B other@away

ssh-ed25519 C trainer@node1
"""


def test_lines_that_stay() -> None:
    assert ssh_trust_lines.lines_of(TEXT, ["away"], "trainer") == [
        "away ssh-ed25519 H away",
        "ssh-ed25519 A trainer@away",
    ]
    assert ssh_trust_lines.lines_of(TEXT, [], "trainer") == []


def test_text_is_sorted_as_jinja_does() -> None:
    lines = ssh_trust_lines.text_of(["b", "C", "A"]).splitlines()
    assert lines == [ssh_trust_lines.HEADER, "A", "b", "C"]


def test_reads_a_public_key(tmp_path: Path) -> None:
    path = tmp_path / "key.pub"
    assert ssh_trust_lines.read_public_key(path) is None
    path.write_text("ssh-ed25519 AAAA somebody's key\n")
    assert ssh_trust_lines.read_public_key(path) == "ssh-ed25519 AAAA"
    path.write_text("\n")
    with pytest.raises(ValueError, match="does not hold a public key"):
        ssh_trust_lines.read_public_key(path)


def test_each_control_node_replaces_its_own_key_and_no_other_ones() -> None:
    text = ssh_trust_lines.text_of(
        [
            "restrict,pty ssh-ed25519 A trainer@node1",
            "restrict,pty ssh-ed25519 OLD trainer@control-node:ws1-1",
            'restrict,pty,from="10.0.0.9" ssh-ed25519 B trainer@control-node:ws2-2',
            "ssh-ed25519 C trainer@control-node",
            "ssh-ed25519 D trainer@control-node-of-old",
            "ssh-ed25519 E somebody@control-node:ws3-3",
            "ssh-ed25519 F control-node:ws4-4",
        ]
    )

    def others(own: str, *replaced: str) -> list[str]:
        lines: list[str] = ssh_trust_lines.lines_of_control_nodes(text, "trainer", own, replaced)
        return lines

    bobs = 'restrict,pty,from="10.0.0.9" ssh-ed25519 B trainer@control-node:ws2-2'
    earlier = "ssh-ed25519 C trainer@control-node"
    new = "restrict,pty ssh-ed25519 NEW trainer@control-node:ws1-1"
    # Not the keys of nodes: one that left is let in no more, whatever it was called.
    assert others("control-node:ws1-1", new) == [bobs, earlier]
    # A checkout that had no name before, or another one, has its key once.
    renamed = "restrict,pty ssh-ed25519 C trainer@control-node:ws1-1"
    assert others("control-node:ws1-1", renamed) == [bobs]
    assert others("control-node", new) == [
        "restrict,pty ssh-ed25519 OLD trainer@control-node:ws1-1",
        bobs,
    ]
    # One that gives each inventory a key takes away the one that it had for all of them.
    one = new.replace("ws1-1", "ws1-1/a")
    other = "restrict,pty ssh-ed25519 OTHER trainer@control-node:ws1-1/b"
    assert others("control-node:ws1-1/a", one) == [bobs, earlier]
    text += f"{other}\n"
    assert others("control-node:ws1-1/a", one) == [bobs, earlier, other]


def test_the_places_that_an_admin_has_for_keys_are_named_before_the_role_s() -> None:
    looked = {"answer": {"ssh_trust": {"keys_files": "/etc/ssh/keys/%u"}}}
    host = Host("ssh_trust", {"ssh_trust_looked": looked, "ssh_trust_user": "ada"})
    text = host.value("ssh_trust_server_settled")
    assert "  AuthorizedKeysFile /etc/ssh/keys/%u /etc/ssh/ssh_trust/authorized_keys\n" in text
    # What the node program compares has what it takes the place of.
    assert USUAL_KEYS in host.value("ssh_trust_server_text")


# As systemd's: what stands still stays so with "try" alone, and an sshd that has its socket from
# systemd ends when it is reloaded ("Cannot bind any address").
SYSTEMCTL = """#!/bin/sh
case "$*" in
"--quiet is-active ssh.socket") [ -e socket ]; exit ;;
*\\ ssh) ;;
*) exit 0 ;;
esac
case "$1" in try-*) [ -e running ] || exit 0 ;; esac
case "$1" in
*reload*) [ ! -e socket ] && [ -e running ] && echo reloaded >> done ;;
*) echo restarted >> done ;;
esac
"""
NOTHING = "#!/bin/sh\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("there", "done"),
    [
        (["running"], "reloaded\n"),
        (["running", "socket"], "restarted\n"),
        # For each connection one is started (Accept=yes), which reads its settings then.
        (["socket"], ""),
    ],
)
def test_sshd_reads_its_settings_whoever_started_it(
    there: list[str], done: str, tmp_path: Path
) -> None:
    for name, text in (("systemctl", SYSTEMCTL), ("systemd-run", NOTHING), ("sshd", NOTHING)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for name in (*there, "done"):
        (tmp_path / name).touch()
    task = tasks_of("ssh_trust", "reload")[0]["ansible.builtin.shell"]
    script = str(Host("ssh_trust", {}).template(task)).replace("/usr/sbin/sshd", "sshd")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "done").read_text() == done


SKIPPED = {"changed": False, "skipped": True}


@pytest.mark.parametrize(
    ("read_by", "keys"),
    [
        # It reads it for all.
        ({"n1": ["new"]}, ["new"]),
        # The next one has read it anew.
        ({"n1": ["old", "new"], "n2": ["new"]}, ["new"]),
        # Without a control node that takes part
        ({}, None),
    ],
    ids=["first_failed", "read_anew", "no_control_node"],
)
def test_the_control_nodes_key_outlives_the_node_that_read_it(
    read_by: dict[str, list[str]], keys: list[str] | None
) -> None:
    (control,) = [
        task["ssh_trust_collect"]["control"]
        for task in tasks_of("ssh_trust", "collect")
        if "ssh_trust_collect" in task
    ]
    readings = {
        host: {"changed": False, "user_keys": read_by[host]} if host in read_by else SKIPPED
        for host in ("n1", "n2", "n3")
    }
    hostvars = {host: {"ssh_trust_control_keys": reading} for host, reading in readings.items()}
    given = {
        # n0 has failed before it read anything, and n1 since; o1 and o2 are of another group.
        "hostvars": {"n0": {}, "o1": {"ssh_trust_control_keys": SKIPPED}, **hostvars},
        "ansible_play_hosts_all": ["n0", "o1", *readings, "o2"],
        "ansible_play_hosts": ["o1", "n2", "n3", "o2"],
        "ssh_trust_inventory": {"members": list(readings)},
    }
    role = Host("ssh_trust", given)
    assert role.template(control).get("user_keys") == keys
    # In any order: Ansible's intersect makes sets.
    assert sorted(role.value("ssh_trust_nodes")) == ["n2", "n3"]
    assert role.value("ssh_trust_first") == "n2"


@pytest.mark.parametrize(("hosts", "looks"), [(["n1", "n2"], True), (["n1"], False)])
def test_the_look_is_left_to_the_role_where_keys_of_others_have_to_be_read(
    hosts: list[str], looks: bool
) -> None:
    given = {
        "inventory_hostname": "n1",
        "ansible_play_hosts": hosts,
        "ssh_trust_inventory": {"members": ["n1", "n2"]},
        "ssh_trust_control": False,
        "ssh_trust_wanted": {"user": "trainer"},
        "ssh_trust_files": {"node": "n1"},
    }
    look = Host("ssh_trust", given).value("ssh_trust_look")
    assert look == ({"user": "trainer", "files": {"node": "n1"}} if looks else {})
