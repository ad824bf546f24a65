"""The rules of role firewall: what they are as text, and whom they would shut out."""

import ipaddress
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils import firewall_rules
from ansible.module_utils.firewall_rules import Connection, Invalid, parse_rules, table_text
from role_files import ROLES, action_plugin

addresses = action_plugin("firewall", "firewall_addresses")
EPHEMERAL = (32768, 60999)


def parameters(**other: Any) -> dict[str, Any]:
    """Parameters of the module for two nodes, and what differs from that."""
    return {
        "nodes": ["10.0.0.11", "10.0.0.12"],
        "node_ports": ["2222", "ephemeral"],
        "node_udp_ports": [],
        "ssh_ports": ["22"],
        "ssh_sources": [],
        "open": [],
        **other,
    }


def connection(client: str, port: int = 22) -> Connection:
    """A connection from an address to a port of the node."""
    return Connection(ipaddress.ip_address(client), port)


def test_the_table_takes_the_place_of_the_one_before_and_of_no_other() -> None:
    lines = table_text(parse_rules(parameters(), EPHEMERAL)).splitlines()
    assert lines[:3] == [
        "table inet trainyard",
        "delete table inet trainyard",
        "table inet trainyard {",
    ]
    assert "flush" not in " ".join(lines)
    assert sum(line.startswith("table ") for line in lines) == 2


def test_ports_of_runs_are_for_the_nodes_alone() -> None:
    rules = [
        line.strip()
        for line in table_text(parse_rules(parameters(), EPHEMERAL)).splitlines()
        if "dport" in line and "32768" in line
    ]
    assert rules == ["ip saddr @nodes_ip tcp dport { 2222, 32768-60999 } accept"]


# As iproute2 6.1 prints them.
SOCKETS = """\
udp UNCONN 0 0 0.0.0.0:68 0.0.0.0:* users:(("dhclient",pid=5,fd=7))
udp UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:* users:(("systemd-resolve",pid=6,fd=13))
udp UNCONN 0 0 0.0.0.0%virbr0:67 0.0.0.0:* users:(("dnsmasq",pid=7,fd=3))
udp UNCONN 0 0 [fe80::1]%eth0:546 [::]:* users:(("systemd-network",pid=8,fd=20))
udp UNCONN 0 0 *%virbr0:5353 *:* users:(("avahi-daemon",pid=15,fd=3))
tcp LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=9,fd=3))
tcp LISTEN 0 64 0.0.0.0:2049 0.0.0.0:*
tcp LISTEN 0 64 [::]:2049 [::]:*
tcp LISTEN 0 4096 *:9100 *:* users:(("node_exporter",pid=10,fd=3),("x",pid=11,fd=3))
tcp LISTEN 0 4096 [::ffff:10.0.0.11]:9090 *:* users:(("prometheus",pid=12,fd=3))
tcp LISTEN 0 100 [::ffff:127.0.0.1]:8005 *:* users:(("java",pid=14,fd=60))
tcp LISTEN 0 128 [::1]:631 [::]:* users:(("cupsd",pid=13,fd=6))
"""


def test_what_listens_and_is_shut_off_is_named() -> None:
    further = [{"ports": ["9090"], "protocol": "tcp", "sources": ["10.0.0.5"]}]
    rules = parse_rules(parameters(open=further), EPHEMERAL)
    assert rules.shut_off(SOCKETS.splitlines()) == [
        "udp 67 (dnsmasq)",
        "tcp 2049",
        "udp 5353 (avahi-daemon)",
        "tcp 9100 (node_exporter)",
    ]


def test_both_versions_of_ip() -> None:
    further = [{"ports": ["9100"], "protocol": "udp", "sources": ["10.0.0.5", "fd00::/64"]}]
    asked = parameters(nodes=["10.0.0.11", "fd00::11"], open=further, node_udp_ports=["4791"])
    text = table_text(parse_rules(asked, EPHEMERAL))
    for rule in (
        "ip saddr { 10.0.0.5/32 } udp dport { 9100 } accept",
        "ip6 saddr { fd00::/64 } udp dport { 9100 } accept",
        "ip6 saddr @nodes_ip6 tcp dport { 2222, 32768-60999 } accept",
        "ip6 saddr @nodes_ip6 udp dport { 4791 } accept",
        "elements = { fd00::11/128 }",
    ):
        assert rule in text


def test_ranges_that_overlap_become_one() -> None:
    """nft refuses a set with intervals that overlap."""
    found = firewall_rules.parse_ports(["40000", "2222", "2223-2230", "ephemeral"], EPHEMERAL, "p")
    assert found == ((2222, 2230), (32768, 60999))
    networks = firewall_rules.parse_networks(["10.0.0.5", "10.0.0.0/24", "fd00::1"], "s")
    assert list(map(str, networks)) == ["10.0.0.0/24", "fd00::1/128"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"node_ports": ["0"]}, 'firewall_node_ports: "0" is not within 1-65535'),
        ({"node_ports": ["70000"]}, "firewall_node_ports"),
        ({"node_udp_ports": ["9-1"]}, "firewall_node_udp_ports"),
        ({"ssh_ports": ["ssh"]}, 'firewall_ssh_ports: "ssh" is neither a port'),
        ({"ssh_ports": []}, "firewall_ssh_ports is empty"),
        ({"ssh_sources": ["10.0.0.300"]}, "firewall_ssh_sources"),
        ({"open": [{"ports": ["1"], "protocol": "tcp", "sources": ["nas"]}]}, "firewall_open"),
        # What would end a rule and begin another one
        ({"ssh_sources": ["10.0.0.1 } accept; #"]}, "firewall_ssh_sources"),
        ({"node_ports": ["1 } accept; #"]}, "firewall_node_ports"),
    ],
)
def test_what_cannot_be_is_named(other: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_rules(parameters(**other), EPHEMERAL)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("other", "used", "said"),
    [
        ({}, connection("198.51.100.7"), ""),
        ({}, None, ""),
        ({"ssh_ports": ["2022"]}, connection("198.51.100.7"), "goes to port 22 of the node"),
        ({"ssh_ports": ["20-30"]}, connection("198.51.100.7"), ""),
        ({"ssh_sources": ["192.0.2.0/24"]}, connection("192.0.2.9"), ""),
        # A node is let in by the rules for nodes.
        ({"ssh_sources": ["192.0.2.0/24"]}, connection("10.0.0.12"), ""),
        ({"ssh_sources": ["192.0.2.0/24"]}, connection("198.51.100.7"), "from 198.51.100.7"),
        ({"ssh_sources": ["192.0.2.0/24"]}, connection("fd00::7"), "from fd00::7"),
    ],
)
def test_rules_that_would_shut_out_this_connection(
    other: dict[str, Any], used: Connection | None, said: str
) -> None:
    objection = parse_rules(parameters(**other), EPHEMERAL).objection(used)
    assert said in objection
    assert bool(said) == bool(objection)


@pytest.mark.parametrize(
    ("text", "client", "port"),
    [
        ("198.51.100.7 51000 10.0.0.11 22", "198.51.100.7", 22),
        ("::ffff:198.51.100.7 51000 ::ffff:10.0.0.11 2022", "198.51.100.7", 2022),
        ("fe80::1%eth0 51000 fe80::2%eth0 22", "fe80::1", 22),
    ],
)
def test_the_connection_as_sshd_tells_it(text: str, client: str, port: int) -> None:
    found = firewall_rules.parse_connection(text)
    assert (str(found.client), found.port) == (client, port)


def test_the_connection_is_found_behind_sudo(tmp_path: Path) -> None:
    """sudo takes SSH_CONNECTION out of what its program sees."""
    module = runpy.run_path(str(ROLES / "firewall/library/firewall_table.py"))
    sshd = b"SSH_CONNECTION=198.51.100.7 51000 10.0.0.11 2022\0HOME=/home/ops\0"
    for pid, parent, environment in ((40, 30, b"A=1\0"), (30, 20, b"B=2\0"), (20, 1, sshd)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "environ").write_bytes(environment)
        (tmp_path / str(pid) / "status").write_text(f"Name:\tx\nPPid:\t{parent}\n")
    find = module["connection_in_use"]
    assert find(40, tmp_path) == connection("198.51.100.7", 2022)
    (tmp_path / "20/environ").write_bytes(b"HOME=/root\0")
    assert find(40, tmp_path) is None


@pytest.mark.process
def test_what_worked_last_comes_back_after_a_run_that_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, table, active, scripts = tmp_path / "rules", "old", {"unit"}, []

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        works = True
        if command[1] == "stop":
            active.discard(command[2])
        elif command[1] == "is-active":
            works = command[3] in active
        elif command[0] == "systemd-run":
            active.add("trainyard-firewall-rollback.timer")
            scripts.append(command[-1])
        return subprocess.CompletedProcess(command, 0 if works else 3, "", "")

    class_of_node = runpy.run_path(str(ROLES / "firewall/library/firewall_table.py"))["Node"]
    fakes: dict[str, Any] = {
        "run": run,
        "NFT": "true",
        "PREVIOUS": tmp_path / "previous",
        "PREVIOUS_FILE": tmp_path / "previous_file",
        "listing": lambda: table,
        "listing_of": lambda _text: (table, ""),
        "same_file": lambda *_file: True,
    }
    for name, value in fakes.items():
        monkeypatch.setitem(class_of_node.arm.__globals__, name, value)
    parameters = {"path": str(path), "unit": "unit", "rollback_seconds": 60}

    def node() -> Any:
        return class_of_node(SimpleNamespace(params=parameters))

    path.write_text("old")
    broken_off = node()
    assert broken_off.differences("", "") == []
    broken_off.arm()
    path.write_text("unproved")
    table = "unproved"
    assert broken_off.differences("", "") == []
    (difference,) = node().differences("", "")
    assert "of an earlier run" in difference
    node().arm()
    assert fakes["PREVIOUS"].read_text().splitlines()[-1] == "old"
    subprocess.run(["sh", "-c", scripts[-1]], check=True)
    assert path.read_text() == "old"
    # With the timer stopped they have proved themselves.
    path.write_text("proved")
    table = "proved"
    active.discard("trainyard-firewall-rollback.timer")
    assert node().differences("", "") == []
    node().arm()
    assert fakes["PREVIOUS"].read_text().splitlines()[-1] == "proved"
    assert fakes["PREVIOUS_FILE"].read_text() == "proved"
    # There was no file: none comes back.
    active.discard("trainyard-firewall-rollback.timer")
    path.unlink()
    node().arm()
    path.write_text("new")
    subprocess.run(["sh", "-c", scripts[-1]], check=True)
    assert [file.name for file in tmp_path.iterdir()] == []


def test_addresses_come_from_the_inventory_and_names_are_none() -> None:
    variables = {"cluster_address": "10.0.0.11", "ansible_host": "gpu01.example.com"}
    assert addresses.addresses_of("gpu01", variables) == ["10.0.0.11"]
    assert addresses.addresses_of("gpu01", {"ansible_host": "gpu01.example.com"}) == []
    assert addresses.addresses_of("10.0.0.9", {}) == ["10.0.0.9"]
    both = {"cluster_address": "10.0.0.11", "cluster_address_v6": "FD00:0::1"}
    assert addresses.addresses_of("gpu01", both) == ["10.0.0.11", "fd00::1"]


def test_the_example_of_the_defaults_names_what_the_rules_take() -> None:
    text = (ROLES / "firewall/defaults/main.yml").read_text()
    assert "{ports: [9100], protocol: tcp, sources: [10.0.0.5]}" in text
    further = [{"ports": [9100], "protocol": "tcp", "sources": ["10.0.0.5"]}]
    assert "9100" in table_text(parse_rules(parameters(open=further), EPHEMERAL))
