"""Who is where: the ranks that really run, against those that were asked for."""

import collections
import os
import platform
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from trainer.atomic import write_json
from trainer.engines import Engine
from trainer.errors import WorldError


@dataclass(frozen=True)
class Rank:
    """One process of the job.

    Attributes:
        rank: its number in the world.
        local_rank: its number on its host.
        host: the host's name.
        pid: process id inside its container.
    """

    rank: int
    local_rank: int
    host: str
    pid: int


def gather_ranks(engine: Engine) -> list[Rank]:
    """Ask every rank where it is; the answers come in the order of ranks."""
    me = Rank(engine.rank, engine.local_rank, socket.gethostname(), os.getpid())
    return [Rank(**answer) for answer in engine.gather(asdict(me))]


def check_ranks(ranks: Sequence[Rank], world_size: int, hosts: Sequence[str]) -> None:
    """Compare the real world with the one asked for.

    A launcher that ignores a host file starts every rank on its own host, or each in a world of
    its own, and reports success. This is where that ends. A host name matches with or without
    its domain.

    Raises:
        WorldError: another number of ranks, other hosts, or an uneven spread.
    """
    # Domains count only where two of the asked hosts differ in nothing else.
    name = _short if len(set(map(_short, hosts))) == len(hosts) else str
    found = collections.Counter(name(rank.host) for rank in ranks)
    asked = {name(host): world_size // len(hosts) for host in hosts}
    if len(ranks) == world_size and found == asked:
        return
    raise WorldError(
        f"the world is not the one asked for: asked were {world_size} ranks ({_spread(asked)}), "
        f"running are {len(ranks)} ({_spread(found)}). No step was taken. "
        "Look at logs/mpirun.log for how mpirun placed them."
    )


def write_world(path: Path, ranks: Sequence[Rank], facts: dict[str, Any]) -> None:
    """Write `world.json`: the ranks, the versions, and the given facts about the job."""
    document = {
        "world_size": len(ranks),
        "ranks": [asdict(rank) for rank in ranks],
        "versions": versions(),
        **facts,
    }
    write_json(path, document)


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    import horovod
    from mpi4py import MPI  # here, because importing it joins MPI

    # "Open MPI v5.0.7, package: ..."
    library = MPI.Get_library_version().split(",")[0].removeprefix("Open MPI v")
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": metadata.version("torchvision"),
        "horovod": horovod.__version__,
        "openmpi": library,
    }


def _short(host: str) -> str:
    return host.split(".", maxsplit=1)[0]


def _spread(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} on {host}" for host, count in sorted(counts.items()))
