"""What every launch has, whether the trainer runs or a user's own code."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

# In place of a number of ranks on each node: as many as the inventory says of it.
AS_EACH_HAS = "node"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user typed; None where nothing was said.

    Attributes:
        gpus_per_node: how many free GPUs of each node it takes; None: whole nodes.
        min_nodes: with how many nodes it is done at the least; None: with as many as `nodes` says.
        procs_per_node: ranks on each node, or AS_EACH_HAS.
        resume: run whose checkpoints are gone on from.
        retries: how often a failed run is started again.
        on: the nodes that it may have: their names, groups or patterns; empty for all.
        stall: seconds without a step after which a run counts as hanging; 0: never.
    """

    nodes: int | None = None
    min_nodes: int | None = None
    gpus_per_node: int | None = None
    procs_per_node: int | str | None = None
    dataset: str | None = None
    transport: str | None = None
    name: str | None = None
    resume: str | None = None
    retries: int = 0
    stall: int | None = None
    on: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """What was said, without what was not."""
        said = asdict(self)
        if self.retries == 0:
            del said["retries"]
        return {key: value for key, value in said.items() if value not in (None, {}, (), [])}


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """What is launched, with nothing left open.

    Attributes:
        model: what is trained: a model of the trainer, or a user's project, by name.
        dataset: None where none is asked for.
        nodes, min_nodes: how many at the most and at the least.
        gpus_per_node: how many free GPUs of each node it takes; None for whole nodes.
        procs_per_node: ranks on each node, or AS_EACH_HAS.
        slots: for that, the ranks that each node of the inventory carries, by name.
        transport, stall_seconds: None leaves them to the launch role's default.
    """

    model: str
    dataset: str | None
    nodes: int
    min_nodes: int
    procs_per_node: int | str
    transport: str | None
    stall_seconds: int | None = None
    gpus_per_node: int | None = None
    slots: Mapping[str, int] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """Number of ranks, on the first nodes of the inventory."""
        return self.ranks_on(self.nodes)

    def ranks_on(self, nodes: int) -> int:
        """How many ranks the first nodes of the inventory have, if all of them are fit."""
        return ranks_on(nodes, self.procs_per_node, self.slots)

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is, as the id of a run says it behind the time."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The plain values, for the manifest."""

    def extravars(self) -> dict[str, Any]:
        """The launch role's variables; an unset one is left out and the role's default holds."""
        variables = {
            "training_run_model": self.model,
            "training_run_dataset": self.dataset,
            "training_run_node_count": self.nodes,
            "training_run_node_minimum": self.min_nodes,
            "training_run_procs_per_node": self.procs_per_node,
            "training_run_gpus_per_node": self.gpus_per_node,
            "training_run_transport": self.transport,
            "training_run_stall_seconds": self.stall_seconds,
        }
        return {name: value for name, value in variables.items() if value is not None}


def ranks_on(nodes: int, procs_per_node: int | str, slots: Mapping[str, int]) -> int:
    """How many ranks the first nodes of an inventory have; for the arguments see `Job`."""
    if isinstance(procs_per_node, int):
        return nodes * procs_per_node
    return sum(list(slots.values())[:nodes])
