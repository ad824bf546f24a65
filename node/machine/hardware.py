"""What a machine is made of, read from /proc and /sys."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

NODES = "/sys/devices/system/node"
# Not in the path of every account
IP = "/usr/sbin/ip"
# Block devices that are no disks: loops, RAM disks, device mapper, MD, optical and floppy drives.
NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")


def hardware(data: str) -> dict[str, Any]:
    """Processor, memory, disks, network cards, and the kernel that drives them.

    Args:
        data: directory of the data sets; each disk tells whether it holds that.
    """
    return {
        "cpu": cpu(),
        "memory_bytes": memory_bytes(),
        "disks": disks(disks_below(data)),
        "nics": nics(),
        "kernel": os.uname().release,
    }


def cpu() -> dict[str, Any]:
    """Model, sockets, cores, threads, NUMA nodes; `usable` are the threads this node may use."""
    entries: list[dict[str, str]] = [{}]
    for line in read_text("/proc/cpuinfo").splitlines():
        if not line.strip():
            entries.append({})
            continue
        name, _, value = line.partition(":")
        entries[-1][name.strip()] = value.strip()
    processors = [entry for entry in entries if "processor" in entry]
    sockets = {entry.get("physical id", "0") for entry in processors}
    cores = {(entry.get("physical id"), entry.get("core id", entry["processor"]))
             for entry in processors}  # fmt: skip
    numa = [name for name in listed(NODES) if name.startswith("node") and name[4:].isdigit()]
    return {
        "model": next((entry["model name"] for entry in processors if "model name" in entry), ""),
        "sockets": len(sockets),
        "cores": len(cores),
        "threads": len(processors),
        "usable": len(os.sched_getaffinity(0)),
        "numa_nodes": max(len(numa), 1),
    }


def multiplies_bf16() -> bool:
    """Tell whether the processor multiplies bfloat16; without, it is slower than 32 bits."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def disks_below(path: str, sys: str = "/sys") -> set[str]:
    """Names of the disks that hold a directory, through RAID, LVM and encryption.

    None where its file system is on no block device of its own: a share, memory, ZFS, btrfs.

    Args:
        path: the directory, or one that it is to be made in.
    """
    while not os.path.exists(path):
        path = os.path.dirname(path)
    device = os.stat(path).st_dev
    waiting = [os.path.realpath(f"{sys}/dev/block/{os.major(device)}:{os.minor(device)}")]
    found = set()
    while waiting:
        block = waiting.pop()
        slaves = list(listed(f"{block}/slaves"))
        waiting += [os.path.realpath(f"{block}/slaves/{name}") for name in slaves]
        if not slaves and os.path.exists(f"{block}/dev"):
            is_part = os.path.exists(f"{block}/partition")
            found.add(os.path.basename(os.path.dirname(block) if is_part else block))
    return found


def disks(with_data: set[str]) -> list[dict[str, Any]]:
    """Disks with size, model and kind: NVMe, SSD, HDD or virtual.

    Args:
        with_data: names of those that hold the data sets.
    """
    drives = []
    for name in listed("/sys/block"):
        if name.startswith(NO_DISKS):
            continue
        base = f"/sys/block/{name}"
        # The kernel counts sectors of 512 bytes here.
        size = 512 * int(read_text(f"{base}/size") or 0)
        if size == 0:
            continue
        model = read_text(f"{base}/device/model")
        rotates = read_text(f"{base}/queue/rotational") == "1"
        about = {"name": name, "kind": _kind(name, rotates), "bytes": size, "model": model}
        drives.append({**about, "data": name in with_data})
    return drives


def _kind(name: str, rotates: bool) -> str:
    if name.startswith("nvme"):
        return "NVMe"
    # The disk of a virtual machine says nothing about what carries it.
    if name.startswith(("vd", "xvd")):
        return "virtual"
    return "HDD" if rotates else "SSD"


def nics() -> list[dict[str, Any]]:
    """Network interfaces that are up, with speed in Mbit/s where the card tells."""
    interfaces = []
    for name in listed("/sys/class/net"):
        base = f"/sys/class/net/{name}"
        if name == "lo" or read_text(f"{base}/operstate") == "down":
            continue
        if os.path.isdir(f"{base}/brport") and not os.path.exists(f"{base}/device"):
            continue  # the end of a container's cable in a bridge
        speed = read_text(f"{base}/speed")
        driver = f"{base}/device/driver"
        interfaces.append(
            {
                "name": name,
                "mac": read_text(f"{base}/address"),
                "mtu": int(read_text(f"{base}/mtu") or 0),
                "megabits_per_second": int(speed) if speed.isdigit() else None,
                "driver": os.path.basename(os.readlink(driver)) if os.path.islink(driver) else "",
            }
        )
    return interfaces


def interface_of(address: str) -> str:
    """Name of the network interface with an address; empty where no one has it.

    Args:
        address: of IPv4 or IPv6, or a name that has one.
    """
    with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError):
        for *_, place in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM):
            asked = [IP, "-json", "address", "show", "to", str(place[0]).partition("%")[0]]
            told = subprocess.run(asked, check=True, capture_output=True).stdout
            # Of interfaces that lack the address older versions list an empty object.
            for entry in json.loads(told or "[]"):
                if name := entry.get("ifname"):
                    return str(name)
    return ""


def any_port(address: str) -> int:
    """A TCP port that is free on an address at this moment; OSError where it is not this node's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def listed(directory: str) -> Iterator[str]:
    """Names in a directory, sorted; none where it is not there."""
    if os.path.isdir(directory):
        yield from sorted(os.listdir(directory))


def cards_on_bus(sys: str, vendor: str, classes: tuple[str, ...]) -> int:
    """Number of a vendor's cards on the PCI bus, with a driver or without.

    Args:
        vendor: as the kernel has it: `0x10de`.
        classes: beginnings of what kind of device it may be: `0x0300` of a VGA controller.
    """
    return sum(
        read_text(os.path.join(device, "vendor")) == vendor
        and read_text(os.path.join(device, "class")).startswith(classes)
        for device in glob.glob(f"{glob.escape(sys)}/bus/pci/devices/*")
    )


def read_text(path: str) -> str:
    """Text of a small file; empty where there is none, or the device does not tell."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
