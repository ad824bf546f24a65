# Copyright Trainyard. Apache-2.0
"""The arguments of mpirun, and of what it starts on every node.

Names are those of Open MPI 5 and PRRTE 3; the ones of ORTE are ignored without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .directory import CONFIG, HOSTFILE, WORK

RANK = "/opt/trainyard/bin/rank"
# A program of MPI alone. The arguments behind THEN are those of a second mpirun.
HELLO_MPI = "/opt/trainyard/bin/hello_mpi"
THEN = "--then"
# Set by trainer/launch for mpirun, which hands them over.
MASTER_ADDR, MASTER_PORT = "MASTER_ADDR", "MASTER_PORT"
# Of mpirun's daemons. Until they take a silent connection for broken, in seconds and looks; their
# own limit is eight minutes. And who starts them: beyond 64 nodes they would start each other, but
# the run's key opens the containers to the launcher alone.
DAEMONS = {
    "oob_tcp_keepalive_time": 10,
    "oob_tcp_keepalive_intvl": 5,
    "oob_tcp_keepalive_probes": 3,
    "plm_ssh_no_tree_spawn": 1,
}
# Of glibc's allocator, in bytes: from which size a block has a mapping of its own, and how much
# free memory a process keeps. A training step frees all that it has allocated. With glibc's own
# limits, tens of megabytes, the system takes that back after each step, and clears page after page
# in the next, which takes up to two fifths of a processor's time (docs/performance.md).
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": 2**30,
    "MALLOC_TRIM_THRESHOLD_": 2**32,
}


@dataclass(frozen=True)
class Settings:
    """MCA parameters of Open MPI and environment of the ranks, by name."""

    mca: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> Settings:
        """Take them out of a profile, which may have further keys."""
        document = document or {}
        return cls(document.get("mca") or {}, document.get("environment") or {})


@dataclass(frozen=True)
class Bench:
    """What `bench` measures.

    Attributes:
        bf16: whether bf16 is measured too: whatever computes in the run multiplies it.
    """

    models: tuple[str, ...]
    rounds: int
    seconds: float
    bf16: bool


@dataclass(frozen=True)
class Launch:
    """What is started on the nodes of a run.

    Attributes:
        command: the trainer's subcommand: train, bench or verify.
        slots: ranks on each node, in the order of nodes.
        gpus: of the run on the node where it has the fewest.
        threads: that a rank computes with; 0 shares the cores of a node out among its ranks.
        network: CIDR of the training network; empty lets Open MPI choose.
        interfaces: the nodes' interfaces there, each once; one that is not known is empty.
        stall_seconds: how long a run may go without a step; 0 for ever.
        job_seconds: after how many seconds mpirun ends the ranks; 0 for never.
        dataset: directory of the data set in the container.
        project: whether the ranks run the program of a project.
        program_per: whether that is started for each "rank" or once on each "node".
        without_spare_core: settings where the ranks compute on every core.
    """

    command: str
    slots: tuple[int, ...]
    cores: tuple[int, ...]
    gpus: int
    threads: int
    network: str
    interfaces: tuple[str, ...]
    stall_seconds: int
    job_seconds: int
    dataset: str
    batch_per_rank: int
    project: bool
    program_per: str
    bench: Bench
    profile: Settings = field(default_factory=Settings)
    without_spare_core: Settings = field(default_factory=Settings)
    further: Settings = field(default_factory=Settings)

    @property
    def threads_per_rank(self) -> int:
        """One thread a core and rank: with more, the ranks of a node take each other's cores.

        As many on all nodes: the ranks wait for the slowest after every step.
        """
        fewest = min(cores // slots for cores, slots in zip(self.cores, self.slots))
        return self.threads or max(fewest, 1)

    @property
    def has_spare_core(self) -> bool:
        """Whether each node has a core left for Horovod's background thread."""
        return self.gpus > 0 or all(
            cores > self.threads_per_rank * slots for cores, slots in zip(self.cores, self.slots)
        )

    @property
    def layers(self) -> tuple[Settings, ...]:
        """Settings from the most general to the most particular: of one name, the last wins."""
        spare = () if self.has_spare_core else (self.without_spare_core,)
        return (*spare, self.profile, self.further)

    @property
    def known_interfaces(self) -> tuple[str, ...]:
        """The nodes' interfaces; none where one is not known."""
        return self.interfaces if all(self.interfaces) else ()

    def mca(self) -> dict[str, Any]:
        """MCA parameters of Open MPI, by name.

        Interfaces go by name where all nodes have the same. Open MPI 5.0.7 takes no network of IPv6
        as CIDR, and does not find one of IPv4 on the last interface of a machine, nor behind
        another address of the same interface. A rank that is told a name which its machine lacks
        finds no way to the others.
        """
        merged: dict[str, Any] = {}
        if self.network and len(self.known_interfaces) == 1:
            merged = {"btl_tcp_if_include": self.known_interfaces[0]}
        elif ":" in self.network:
            # Each rank says the name of its own (trainer/network.py).
            merged = {"btl_tcp_disable_family": 4}
        elif self.network:
            merged = {"btl_tcp_if_include": self.network}
        for layer in self.layers:
            merged.update(layer.mca)
        return merged

    def environment(self) -> dict[str, Any]:
        """Environment of every rank, by name."""
        merged: dict[str, Any] = {"OMP_NUM_THREADS": self.threads_per_rank, **ALLOCATOR}
        if self.gpus:
            # With it a rank of the trainer never computes on a processor instead.
            merged["TRAINYARD_GPUS"] = self.gpus
        if self.network:
            merged["TRAINYARD_NETWORK"] = self.network
        if self.command in ("train", "verify") and self.stall_seconds:
            # Horovod names the ranks that have not handed in a gradient the others wait for, and
            # then ends them all.
            merged["HOROVOD_STALL_CHECK_TIME_SECONDS"] = max(self.stall_seconds // 2, 1)
            merged["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] = self.stall_seconds
        for layer in self.layers:
            merged.update(layer.environment)
        return merged

    def trainer_arguments(self) -> list[str]:
        """What every rank runs: the trainer trains as config.json says, or measures, or checks."""
        if self.command == "bench":
            arguments = ["bench", "suite", "--batch", str(self.batch_per_rank)]
            arguments += ["--dataset", self.dataset, "--rounds", str(self.bench.rounds)]
            arguments += ["--seconds", str(self.bench.seconds)]
            arguments += ["--json", f"{WORK}/bench.json"]
            for model in self.bench.models:
                arguments += ["--model", model]
            return arguments + (["--bf16"] if self.bench.bf16 else [])
        if self.command == "verify":
            return ["verify", "--out", f"{WORK}/verify"]
        return []

    def programs(self) -> list[tuple[bool, list[str]]]:
        """One mpirun after the other: whether it is for the node and not a rank, and what it is.

        `verify` runs a program of MPI alone first, once on every node: where that fails, Horovod is
        not to blame.
        """
        if self.project:
            return [(self.program_per == "node", [RANK])]
        hello = [(True, [HELLO_MPI, THEN])] if self.command == "verify" else []
        return [*hello, (False, [RANK, *self.trainer_arguments()])]

    def arguments(self) -> list[str]:
        """The arguments of all mpiruns, as `trainer.launch` takes them."""
        settings = ["--timeout", str(self.job_seconds)] if self.job_seconds else []
        for name, value in DAEMONS.items():
            settings += ["--prtemca", name, str(value)]
        if self.network:
            chosen = ",".join(self.known_interfaces) or self.network
            settings += ["--prtemca", "prte_if_include", chosen]
        for name, value in self.mca().items():
            settings += ["--mca", name, str(value)]
        for name, value in self.environment().items():
            settings += ["-x", f"{name}={value}"]
        if self.project:
            # Where the ranks of torch meet; the launcher finds a port that is free.
            settings += ["-x", MASTER_ADDR, "-x", MASTER_PORT]
        arguments = []
        for once_a_node, program in self.programs():
            # The host file has the slots of each node; one after the other is filled.
            count, place = (
                (len(self.slots), "ppr:1:node") if once_a_node else (sum(self.slots), "slot")
            )
            arguments += ["--hostfile", f"{CONFIG}/{HOSTFILE}", "-n", str(count), "--map-by", place]
            # Ranks are not bound: the container has the node's cores, and a bound rank cannot use
            # what its neighbour leaves idle.
            arguments += ["--bind-to", "none"]
            arguments += [*settings, *program]
        return arguments
