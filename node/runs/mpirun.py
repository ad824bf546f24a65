"""The arguments of mpirun, and of what it starts on every node.

Names are those of Open MPI 5 and PRRTE 3; the ones of ORTE are ignored without a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .directory import CONFIG, HOSTFILE, WORK

RANK = "/opt/trainyard/bin/rank"
# A program of MPI alone. The arguments behind THEN are those of a second mpirun.
HELLO_MPI = "/opt/trainyard/bin/hello_mpi"
THEN = "--then"
# Where the data is.
DATA = "/data"
# Nodes say what theirs are called, and mpirun's arguments stand a line each in a file.
INTERFACE = re.compile(r"[\w.:@-]{1,15}", re.ASCII)
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


class Bench(NamedTuple):
    """What command bench measures.

    Attributes:
        models: names of the trainer's models.
        rounds: turns of everything that is measured.
        seconds: that a turn of training takes, about.
    """

    models: list[str]
    rounds: int
    seconds: float


class Launch(NamedTuple):
    """What is started on all machines of the run.

    Attributes:
        command: the trainer's subcommand: train, bench or verify.
        nodes: all of them, the launcher first.
        addresses, ports, host_keys: of the sshd of each, by name.
        client_key: the launcher's public one.
        slots, cores: how many ranks the run has on each node, and how many cores, in the order of
            nodes.
        gpus: of the run on the node where it has the fewest.
        dataset: a directory below /data of the container.
        batch_per_rank: images per rank and step.
        bf16: whether whatever computes in the run multiplies it.
        threads: that a rank computes with; 0 shares the cores of a node out among its ranks.
        network: CIDR of the training network; empty lets Open MPI choose.
        interfaces: the nodes' interfaces there, each once; one that is not known is empty.
        start_seconds: how long a training may take to its first step; 0 for ever.
        stall_seconds: how long it may then go without one; 0 for ever.
        silence_seconds: after how long without a sign of life a project's ranks are asked what
            they do; 0 for never.
        job_seconds: after how many seconds mpirun ends the ranks; 0 for never.
        project: whether the ranks run the program of a project.
        program_per: whether that is started for each "rank" or once on each "node".
        grace_seconds: how long a project's ranks may take to end when they are asked to.
        copy_megabytes: how much of the checkpoints is copied to another node in a second at the
            most, in 10^6 bytes; 0 for no copies.
        profile, without_spare_core: `mca` (parameters of Open MPI) and `environment` of the ranks,
            by name; of the transport, which may have `rdma` too, and where the ranks compute on
            every core.
        mca, environment: settings that win over all others.
    """

    command: str
    nodes: list[str]
    addresses: dict[str, str]
    ports: dict[str, int]
    host_keys: dict[str, str]
    client_key: str
    slots: list[int]
    cores: list[int]
    gpus: int
    dataset: str
    batch_per_rank: int
    bench: Bench
    bf16: bool
    threads: int = 0
    network: str = ""
    interfaces: Sequence[str] = ()
    start_seconds: int = 0
    stall_seconds: int = 0
    silence_seconds: int = 0
    job_seconds: int = 0
    project: bool = False
    program_per: str = "rank"
    grace_seconds: int = 30
    copy_megabytes: float = 0.0
    profile: dict[str, Any] | None = None
    without_spare_core: dict[str, Any] | None = None
    mca: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None

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

    def settings(self, kind: str) -> dict[str, Any]:
        """`mca` or `environment` of all layers, by name; the most particular wins."""
        spare = None if self.has_spare_core else self.without_spare_core
        further = {"mca": self.mca, "environment": self.environment}
        layers = ((layer or {}).get(kind) for layer in (spare, self.profile, further))
        return {name: value for layer in layers for name, value in (layer or {}).items()}

    @property
    def known_interfaces(self) -> Sequence[str]:
        """The nodes' interfaces; none where one is not known."""
        return self.interfaces if all(map(INTERFACE.fullmatch, self.interfaces)) else ()

    def all_mca(self) -> dict[str, Any]:
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
        return merged | self.settings("mca")

    def environment_of_ranks(self) -> dict[str, Any]:
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
        return merged | self.settings("environment")

    def trainer_arguments(self) -> list[str]:
        """What every rank runs: the trainer trains as config.json says, or measures, or checks."""
        if self.command == "bench":
            arguments = ["bench", "suite", "--batch", str(self.batch_per_rank)]
            arguments += ["--dataset", f"{DATA}/{self.dataset}", "--rounds", str(self.bench.rounds)]
            arguments += ["--seconds", str(self.bench.seconds)]
            arguments += ["--json", f"{WORK}/bench.json"]
            for model in self.bench.models:
                arguments += ["--model", model]
            return arguments + (["--bf16"] if self.bf16 else [])
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
        for name, value in self.all_mca().items():
            settings += ["--mca", name, str(value)]
        for name, value in self.environment_of_ranks().items():
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
