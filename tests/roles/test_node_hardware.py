"""What a node says of its network interfaces, and of the disks that hold its data."""

import os
import socket
import subprocess
from pathlib import Path

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


def test_ends_of_cables_of_containers_are_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"/sys/class/net/eth0/brport", "/sys/class/net/eth0/device", "/sys/class/net/v1/brport"}
    monkeypatch.setattr(hardware, "listed", lambda _: ["br0", "eth0", "lo", "v1"])
    monkeypatch.setattr(hardware, "read_text", lambda _: "")
    for look in ("isdir", "exists"):
        monkeypatch.setattr(os.path, look, there.__contains__)
    assert [nic["name"] for nic in hardware.nics()] == ["br0", "eth0"]


@pytest.mark.parametrize(
    ("begins", "disks"),
    [
        # A partition; LVM on a RAID of two partitions; what is on no block device.
        ("sda/sda1", {"sda"}),
        ("dm-0", {"nvme0n1", "nvme1n1"}),
        (None, set()),
    ],
)
def test_the_disks_below_a_directory(begins: str | None, disks: set[str], tmp_path: Path) -> None:
    """A tree of files stands for /sys."""
    devices = tmp_path / "devices"
    for part in ("sda/sda1", "nvme0n1/nvme0n1p1", "nvme1n1/nvme1n1p1"):
        (devices / part).mkdir(parents=True)
        for name in ("partition", "dev", "../dev"):
            (devices / part / name).touch()
    for above, below in {
        "md127": ["nvme0n1/nvme0n1p1", "nvme1n1/nvme1n1p1"],
        "dm-0": ["md127"],
    }.items():
        (devices / above / "slaves").mkdir(parents=True)
        (devices / above / "dev").touch()
        for name in below:
            (devices / above / "slaves" / Path(name).name).symlink_to(devices / name)
    block = tmp_path / "dev/block"
    block.mkdir(parents=True)
    if begins is not None:
        device = os.stat(tmp_path).st_dev
        (block / f"{os.major(device)}:{os.minor(device)}").symlink_to(devices / begins)
    assert hardware.disks_below(str(tmp_path / "data/sets"), str(tmp_path)) == disks
