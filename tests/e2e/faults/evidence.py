"""What is measured after a fault: what is left on the nodes, and which logs came home."""

from collections.abc import Mapping
from dataclasses import dataclass

from commands import BackgroundRun
from machines import NODES, RUN_ROOT, in_machine

# What a run may leave on a node, and the shell command that lists it there, one a line. The code of
# runs is kept for later ones.
LOOKS = {
    "container": "docker ps --all --format '{{.Names}}' --filter label=trainyard.run",
    "volume": "docker volume ls --quiet",
    "process": "ps -o pid=,args= -u trainer",
    "lock": f"ls {RUN_ROOT}/.lock 2>/dev/null",
    "file": f"find {RUN_ROOT} -mindepth 1 -maxdepth 1 ! -name .lock ! -name .code",
    "shared memory": "find /dev/shm -user trainer",
}


def left_behind() -> list[str]:
    """List what runs have left on the nodes: "process on node2: 4711 python3 ..."."""
    script = "\n".join(f"({look}) | sed 's/^/{what}\\t/'" for what, look in LOOKS.items())
    return [
        f"{what} on {host}: {item}"
        for host in NODES
        for what, item in (line.split("\t", 1) for line in in_machine(host, script).splitlines())
    ]


def node_of(rank: int) -> str:
    """The node of a rank, where each node has one."""
    return NODES[rank]


def logs_on_nodes(run: BackgroundRun) -> dict[int, str]:
    """The log of each rank as its node has it at this moment."""
    return {
        rank: in_machine(node_of(rank), f"cat {RUN_ROOT}/{run.run_id}/work/logs/rank-{rank}.log")
        for rank in range(len(NODES))
    }


@dataclass(frozen=True)
class RankLog:
    """The log of a rank at home.

    Attributes:
        complete: it is there, of this rank, with all that the node had when the fault struck.
        last_line: its last line; empty without a log.
    """

    rank: int
    complete: bool
    last_line: str


def logs_at_home(run: BackgroundRun, on_nodes: Mapping[int, str]) -> list[RankLog]:
    """Look at the log of each rank that had one.

    Args:
        on_nodes: what the nodes had of each when the fault struck.
    """
    logs = []
    # Of a run that was tried again, the fault struck the first attempt.
    first = run.directory / "attempts/1"
    records = first if first.is_dir() else run.directory
    for rank, earlier in on_nodes.items():
        file = records / f"logs/rank-{rank}.log"
        text = file.read_text() if file.is_file() else ""
        begins = text.startswith(f"rank {rank} of {len(NODES)} on {node_of(rank)} ")
        logs.append(
            RankLog(
                rank,
                complete=begins and text.startswith(earlier),
                last_line=text.rstrip().rpartition("\n")[2],
            )
        )
    return logs
