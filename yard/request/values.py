"""Values that every request has, looked up where they may stand, and checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from yard.plays.inventory import AMD_GROUP, NVIDIA_GROUP, Dataset, Inventory, Model
from yard.request.job import AS_EACH_HAS, Request

# More than these are not listed in an error.
MOST_LISTED = 20


@dataclass
class Values:
    """Looks the values of one request up.

    Attributes:
        problems: everything that is wrong, in the order in which it is looked at.
    """

    request: Request
    inventory: Inventory
    problems: list[str]

    @property
    def defaults(self) -> Mapping[str, Any]:
        """What stands between the request and the inventory's variables."""
        return {}

    def world(self) -> tuple[Any, Any]:
        """The nodes, and the processes on each; None for one that is wrong."""
        nodes = self.number("nodes", "node_count", self.request.nodes, 1)
        # A rank computes on one GPU. What is wrong with the number of GPUs is said where they are.
        asked = self.request.procs_per_node
        if asked is None and self.request.gpus_per_node:
            asked = self.request.gpus_per_node
        if self.value("procs_per_node", asked) == AS_EACH_HAS:
            return nodes, AS_EACH_HAS
        procs_per_node = self.number(
            "processes per node",
            "procs_per_node",
            asked,
            self.value("gpus_per_node", None) or self.inventory.gpus_per_node or 1,
        )
        return nodes, procs_per_node

    def slots(self, procs_per_node: int | str | None, gpus_per_node: int | None) -> dict[str, int]:
        """The ranks that each node carries, where a run takes as many as each has; else none.

        Any node of the inventory may have a part in the run: it takes the place of one that is not
        fit.
        """
        if procs_per_node != AS_EACH_HAS:
            return {}
        if gpus_per_node is not None:
            self.problems.append(
                f"processes per node {AS_EACH_HAS}: takes whole nodes, and {gpus_per_node} GPUs of "
                "each are asked for; leave one of them out"
            )
        known = {name: self.inventory.slots.get(name) or 0 for name in self.inventory.nodes}
        silent = [name for name, slots in known.items() if slots < 1]
        if silent:
            self.problems.append(
                f"processes per node {AS_EACH_HAS}: this inventory does not say how many ranks "
                f"{', '.join(silent)} carr{'y' if len(silent) > 1 else 'ies'} "
                "(training_node_slots, or cluster_check_gpu_count in group gpu_nodes or amd_nodes)"
            )
        return known

    def gpus_per_node(self) -> int | None:
        """How many GPUs of each node are taken; None for whole nodes, or where that is wrong."""
        typed = self.request.gpus_per_node
        # 0 in an inventory is what the launch role has: whole nodes.
        if typed is None and not self.value("gpus_per_node", None):
            return None
        gpus: int | None = self.number("GPUs per node", "gpus_per_node", typed)
        return gpus

    def check_gpus(self, gpus_per_node: int | None, min_nodes: int | None) -> None:
        """See that the GPUs are of one vendor, and so many on so many nodes, as far as is told.

        Args:
            gpus_per_node: None where whole nodes are taken.
            min_nodes: with how many nodes it is done at the least; None where that is wrong.
        """
        names = self.inventory.nodes
        by_vendor = [
            next((host for host in names if host in self.inventory.groups.get(group, ())), None)
            for group in (NVIDIA_GROUP, AMD_GROUP)
        ]
        if None not in by_vendor:
            nvidia, amd = by_vendor
            self.problems.append(
                f"nodes: {nvidia} has GPUs of NVIDIA (group {NVIDIA_GROUP}) and {amd} of AMD "
                f"({AMD_GROUP}), and a run has one image, for GPUs of one vendor. Choose with "
                f"ON={NVIDIA_GROUP} or ON={AMD_GROUP}"
            )
        if gpus_per_node is None or min_nodes is None or min_nodes > len(names):
            return
        counts = {name: self.inventory.gpus.get(name) for name in names}
        enough = [name for name, gpus in counts.items() if gpus is None or gpus >= gpus_per_node]
        if len(enough) < min_nodes:
            shown = ", ".join(
                f"{name} {'does not say' if gpus is None else gpus or 'none'}"
                for name, gpus in counts.items()
            )
            self.problems.append(f"GPUs per node {gpus_per_node}: this inventory has {shown}")

    def value(self, name: str, typed: Any, fallback: Any = None) -> Any:
        """A value: as typed, else of the defaults, else of the inventory, else the fallback."""
        if typed is not None:
            return typed
        return self.defaults.get(name, self.inventory.defaults.get(name, fallback))

    def number(
        self,
        label: str,
        name: str,
        typed: float | str | None,
        fallback: float | None = None,
        whole: bool = True,
    ) -> Any:
        """A number above 0; None where it is missing or wrong, which is then a problem."""
        number = self.value(name, typed, fallback)
        if number is None:
            self.missing(label)
        elif isinstance(number, bool) or not isinstance(number, int if whole else int | float):
            self.problems.append(f"{label} {number!r}: must be a {'whole ' if whole else ''}number")
        elif not (number > 0 and math.isfinite(number)):
            self.problems.append(f"{label} {number:g}: must be above 0")
        else:
            return number
        return None

    def missing(self, label: str) -> None:
        """Say that a number is given nowhere."""
        self.problems.append(f"{label}: not given")

    def check_counts(self, min_nodes: int | None) -> None:
        """Check the least number of nodes, and the counts that may be 0."""
        if min_nodes is not None and min_nodes < 1:
            self.problems.append(f"nodes {min_nodes}..: must be above 0")
        if min_nodes is not None and min_nodes > len(self.inventory.nodes):
            self.problems.append(too_many_nodes(min_nodes, self.inventory))
        for name, count in (("retries", self.request.retries), ("stall", self.request.stall or 0)):
            if count < 0:
                self.problems.append(f"{name} {count}: must be 0 or more")

    def choice(self, option: str, typed: str | None) -> str | None:
        """What is chosen from a list of the inventory; None leaves it to the launch role."""
        choice: str | None = self.value(option, typed)
        choices = self.inventory.choices.get(option)
        if choice is not None and choices is not None and choice not in choices:
            self.problems.append(f"{option} {choice!r}: choose from {', '.join(choices)}")
        return choice


def unknown(kind: str, name: str, entries: Mapping[str, Model] | Mapping[str, Dataset]) -> str:
    """Say that a name is unknown, and list the known ones with their descriptions."""
    if not entries:
        return f"{kind} {name!r}: unknown, and this inventory names no {kind} (training_{kind}s)"
    descriptions = {entry: entries[entry].description for entry in entries}
    return listed(f"{kind} {name!r}", descriptions, name, f"make train {kind.upper()}=list")


def listed(unknown: str, descriptions: Mapping[str, str], name: str = "", lister: str = "") -> str:
    """Say that something is unknown, and which ones it may be meant for, or what there is.

    Args:
        name: what was typed; "" where nothing is compared with it.
        lister: the command that lists them, where there may be too many for an error.
    """
    near = get_close_matches(name, descriptions)
    if near:
        return f"{unknown}: unknown; did you mean {', '.join(near)}?"
    if lister and len(descriptions) > MOST_LISTED:
        return f"{unknown}: unknown; there are {len(descriptions)}, which {lister} prints"
    width = max(map(len, descriptions))
    lines = [f"    {name:<{width}}  {text}".rstrip() for name, text in descriptions.items()]
    return "\n".join([f"{unknown}: unknown; there are", *lines])


def too_many_nodes(nodes: int, inventory: Inventory) -> str:
    """Say how many nodes there are, and which."""
    names = ", ".join(inventory.nodes) or "none"
    if inventory.max_nodes is None:
        return f"nodes {nodes}: this inventory has {len(inventory.nodes)}: {names}"
    return (
        f"nodes {nodes}: this machine holds at most {len(inventory.nodes)} "
        f"(local_cluster_max_nodes): {names}"
    )
