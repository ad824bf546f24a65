"""What a node says of its network interfaces."""

import socket

import pytest
from ansible.module_utils import training_node_hardware as hardware

NAME = "node1.example.org"
# As proc(5) shows them: the loopback, an address that somebody gave, and one that the kernel made.
TABLE = """\
00000000000000000000000000000001 01 80 10 80       lo
fd123456789a00430000000000000011 4a 40 00 80   enp3s0
fe80000000000000004222fffe1a0002 4a 40 20 80   enp3s0
"""


@pytest.fixture(autouse=True)
def table(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path_factory.mktemp("proc") / "if_inet6"
    path.write_text(TABLE)
    monkeypatch.setattr(hardware, "ADDRESSES_OF_IPV6", str(path))


@pytest.mark.parametrize(
    ("address", "interface"),
    [
        ("fd12:3456:789a:43::11", "enp3s0"),
        ("FD12:3456:789A:0043:0:0:0:11", "enp3s0"),
        ("::1", "lo"),
        ("fd12:3456:789a:43::12", ""),
        ("10.0.0.11", ""),
    ],
)
def test_the_interface_of_an_address(address: str, interface: str) -> None:
    assert hardware.interface_of(address) == interface


def test_a_name_stands_for_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str, *_: object) -> list[tuple[object, ...]]:
        if name != NAME:
            raise socket.gaierror
        return [(socket.AF_INET6, 1, 6, "", ("fd12:3456:789a:43::11", 0, 0, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert hardware.interface_of(NAME) == "enp3s0"
    assert hardware.interface_of("unknown.example.org") == ""
