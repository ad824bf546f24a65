"""Compares the ranks that run, and their hosts, with the configuration."""

import collections
import os
import platform
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import torch

from trainer.atomic import write_json
from trainer.engines import Engine
from trainer.errors import WorldError


@dataclass(frozen=True)
class Rank:
    """One process of the run.

    Attributes:
        local_rank: its number on its host.
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


def check_ranks(ranks: Sequence[Rank], ranks_by_host: Mapping[str, int]) -> None:
    """Compare the real world with the requested one.

    A launcher that ignores a host file starts every rank on its own host, or each in a world of its
    own, and reports success. This check catches it. A host name matches with or without its domain.

    Args:
        ranks_by_host: how many ranks were asked for on each host.

    Raises:
        WorldError: another number of ranks, other hosts, or another spread.
    """
    # Domains count only where two of the requested hosts differ in nothing else.
    name = _short if len(set(map(_short, ranks_by_host))) == len(ranks_by_host) else str
    running = collections.Counter(name(rank.host) for rank in ranks)
    requested = {name(host): slots for host, slots in ranks_by_host.items()}
    if running == requested:
        return
    raise WorldError(
        f"{sum(requested.values())} ranks were requested ({_spread(requested)}), "
        f"{len(ranks)} are running ({_spread(running)})"
    )


@dataclass(frozen=True)
class Scale:
    """How large the model and the data of a run are.

    Attributes:
        train_images: number of training images of the whole world.
        train_images_available: number of those that the data set has.
        validation_images: number of training images that are held out for validation.
    """

    model_parameters: int
    train_images: int
    train_images_available: int
    test_images: int
    validation_images: int
    classes: int


def write_world(
    path: Path, ranks: Sequence[Rank], scale: Scale, resumed: dict[str, int] | None
) -> None:
    """Write `world.json`: the ranks, the versions, and the fields of `Scale`.

    Args:
        resumed: the world that the checkpoint is of, and how far it was: `from_world_size`,
            `from_batch_per_rank`, and as that world counted them, `epoch`, `step` and `images`
            done. None for a run from the beginning, which has no such key.
    """
    document = {
        "world_size": len(ranks),
        "ranks": [asdict(rank) for rank in ranks],
        "versions": versions(),
        **asdict(scale),
        **({"resumed": resumed} if resumed else {}),
    }
    write_json(path, document)


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on.

    Under torchrun neither Horovod nor Open MPI need be there; what is not has no version.
    """
    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": metadata.version("torchvision"),
    }
    with suppress(ImportError):
        import horovod

        found["horovod"] = horovod.__version__
    # RuntimeError: mpi4py is there, and no library of MPI.
    with suppress(ImportError, RuntimeError):
        from mpi4py import MPI  # here, because importing it joins MPI

        # "Open MPI v5.0.7, package: ..."
        library = MPI.Get_library_version().split(",")[0]
        found["openmpi"] = library.removeprefix("Open MPI v")
    return found


def _short(host: str) -> str:
    return host.split(".", maxsplit=1)[0]


def _spread(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} on {host}" for host, count in sorted(counts.items()))
