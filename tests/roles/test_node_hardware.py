"""What a node says of its network interfaces."""

import socket
import subprocess

import pytest

from node.machine import hardware


@pytest.mark.process
def test_the_interface_of_an_address() -> None:
    assert hardware.interface_of("127.0.0.1") == "lo"
    assert hardware.interface_of("192.0.2.1") == ""  # of nobody (RFC 5737)


def test_addresses_of_ipv6_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(command[-1])
        told = b'[{},{"ifindex":2,"ifname":"enp3s0","addr_info":[{}]}]' if len(asked) > 1 else b""
        return subprocess.CompletedProcess(command, 0, told)

    def resolve(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        if name != "node1":
            raise socket.gaierror
        found = ("fe80::1%enp3s0", 0, 0, 2), ("fd12:3456:789a:43::11", 0, 0, 0)
        return [(socket.AF_INET6, 1, 6, "", place) for place in found]

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert hardware.interface_of("node1") == "enp3s0"
    assert asked == ["fe80::1", "fd12:3456:789a:43::11"]
    assert hardware.interface_of("node2") == ""


@pytest.mark.process
def test_a_machine_without_that_program_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "IP", "/nowhere/ip")
    assert hardware.interface_of("127.0.0.1") == ""
