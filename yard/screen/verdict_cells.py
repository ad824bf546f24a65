"""The verdict on a cluster as the cells of tables, for the terminal and for the page."""

from collections.abc import Mapping, Sequence
from typing import Any

from yard.core.words import first_names, plural
from yard.runs.verdict import Check

CHECK_HEADINGS = ("check", "passed", "value", "limit")
HARDWARE_HEADINGS = (
    "node",
    "processor",
    "cores",
    "NUMA",
    "memory",
    "disks",
    "GPUs",
    "network",
    "RDMA",
)
# Of an image's digest so many characters are shown: `sha256:` and twelve digits.
DIGEST_LENGTH = 19
# So many different values of one check are shown.
MOST_VALUES = 3


def check_rows(checks: Sequence[Check]) -> list[tuple[bool, tuple[str, ...]]]:
    """Whether all passed and the cells, see `CHECK_HEADINGS`, a row a check, in their order."""
    by_name: dict[str, list[Check]] = {}
    for check in checks:
        by_name.setdefault(check.name, []).append(check)
    return [_check_row(name, entries) for name, entries in by_name.items()]


def hardware_cells(node: Mapping[str, Any]) -> tuple[str, ...]:
    """One node: processor, cores, NUMA nodes, memory, disks, GPUs, network cards, RDMA."""
    cpu = node["cpu"]
    disks = [
        f"{disk['name']} {disk['kind']} {disk['bytes'] / 1e9:,.0f} GB"
        + (", with the data sets" if disk.get("data") else "")
        for disk in node["disks"]
    ]
    models = [gpu["model"] for gpu in node["gpus"]]
    gpus = [f"{models.count(model)} x {model}" for model in dict.fromkeys(models)]
    nics = [
        nic["name"]
        + (f" {nic['megabits_per_second'] / 1000:g} Gbit/s" if nic["megabits_per_second"] else "")
        for nic in node["nics"]
    ]
    return (
        cpu["model"] or "?",
        f"{cpu['usable']} of {cpu['cores']}"
        if cpu["usable"] != cpu["threads"]
        else f"{cpu['cores']}",
        str(cpu["numa_nodes"]),
        f"{node['memory_bytes'] / 2**30:,.0f} GiB",
        ", ".join(disks) or "none",
        ", ".join(gpus) or "none",
        ", ".join(nics),
        _rdma(node),
    )


def _rdma(node: Mapping[str, Any]) -> str:
    ports = [f"{port['name']} {port['link']} {port['rate']} {port['state']}"
             for port in node.get("rdma", ())]  # fmt: skip
    if not ports:
        return "none"
    ways = ", ".join(f"{library.upper()} takes {way}" for library, way in node["ways"].items())
    return f"{', '.join(ports)}; {ways}"


def _check_row(name: str, checks: Sequence[Check]) -> tuple[bool, tuple[str, ...]]:
    # A node has several checks of one name: one for each of its GPUs, say.
    places = len({check.where for check in checks})
    failed = len({check.where for check in checks if not check.ok})
    share = plural(places, "pair" if checks[0].of_a_pair else "node")
    share = f"{places - failed} of {share}" if failed else share
    return not failed, (name, share, _values(checks), checks[0].limit)


def _values(checks: Sequence[Check]) -> str:
    unit = checks[0].unit
    numbers = [check.number for check in checks if check.number is not None]
    if numbers:
        low, high = min(numbers), max(numbers)
        text = f"{low:,.12g}" if low == high else f"{low:,.12g} to {high:,.12g}"
        return f"{text} {unit}".strip()
    texts = list(dict.fromkeys(_short(str(check.value)) for check in checks))
    return first_names(texts, MOST_VALUES)


def _short(text: str) -> str:
    """An image's digest by its first digits; other texts as they are."""
    return text[:DIGEST_LENGTH] if text.startswith("sha256:") else text
