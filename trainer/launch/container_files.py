"""Keeps what a project wrote to /tmp, /dev/shm, its home or `../`, which end with the container.

Many programs write their results to such a folder, because another machine keeps it. They are
copied to `outputs/left-in-container` of the run directory, and noted in
`failures/container-<host>.json`:

    [{"path": "/tmp/test-clm", "files": 3, "bytes": 5243100, "kept": true}]
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from trainer.atomic import write_json
from trainer.failure import FOLDER

KEPT = "outputs/left-in-container"
# What libraries and programs of the image put there for a while.
PASSING = (
    *(".*", "torchinductor_*", "torch_[0-9]*", "triton*", "pymp-*", "matplotlib-*", "dask-*"),
    *("ompi*", "prte*", "pmix*", "ssh-*", "krb5cc*", "hsperfdata_*", "ray", "wandb-*"),
    *("__pycache__", "pytest-*"),
    # Memory that processes share: of Python, semaphores, NCCL, Open MPI, UCX and OpenMP
    *("psm_*", "sem.*", "nccl*", "vader_segment.*", "sm_segment.*", "osc_*", "ucx_*", "__KMP_*"),
    "plasma*",
)
# What is in the run directory anyway. By `../results` a program writes beside it.
OF_RUN = frozenset(
    {
        *("checkpoints", "copies", "failures", "logs", "nodes", "outputs", "project", "ranks"),
        *("tensorboard", "verify", "wandb", "bench.json", "exit_status", "metrics.jsonl"),
        *("silences.jsonl", "timeline.json", "world.json"),
    }
)
# Less is a lock or a mark; more files are a data set.
LEAST_BYTES, MOST_FILES = 1024, 1000
# Others need the disk as well.
ROOM = 1 << 30
# What mktemp and Python's tempfile call things that are mostly removed again: less is a rest.
TEMPORARY, LEAST_TEMPORARY_BYTES = "tmp", 1 << 20


class Stopped(Exception):
    """What a signal raises during the copy, which may take minutes: it ends."""


def container_places() -> tuple[str, ...]:
    """Where a program may write that ends with the container."""
    return "/tmp", "/dev/shm", os.path.expanduser("~")


def keep_container_files(run_dir: Path, host: str, places: Sequence[str], room: int = ROOM) -> None:
    """Copy what a program left in some places to the run directory, and note it.

    Nothing is copied by half: a folder gets its name when all of it is there. Whatever is in the
    way, nothing is raised: the run has ended, and how is still to be told.

    Args:
        room: bytes that are to stay free on the disk of the run directory.
    """
    noted: list[dict[str, Any]] = []
    # Also while it looks what there is, which takes as long with many small files.
    with contextlib.suppress(Stopped):
        found = list(islice(_left((str(run_dir), *places), run_dir), MOST_FILES))
        noted += [
            {"path": path, "files": files, "bytes": size, "kept": False}
            for path, files, size in found
        ]
        # Before, too: a container may end while a large copy is made.
        _note(run_dir, host, noted)
        for entry, (path, files, size) in zip(noted, found, strict=True):
            with contextlib.suppress(OSError):
                disk = os.statvfs(run_dir)
                target = run_dir / KEPT / path.lstrip("/")
                if Path(path).parent == run_dir:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.rmtree(target, ignore_errors=True)  # of an attempt before
                    os.rename(path, target)
                    entry["kept"] = True
                elif files <= MOST_FILES and size + room < disk.f_bavail * disk.f_frsize:
                    entry["kept"] = _copy(path, target, run_dir)
    with contextlib.suppress(Stopped):
        _note(run_dir, host, noted)


def _note(run_dir: Path, host: str, noted: Sequence[dict[str, Any]]) -> None:
    with contextlib.suppress(OSError):
        if noted:
            write_json(run_dir / FOLDER / f"container-{host}.json", noted)


def _left(places: Sequence[str], run_dir: Path) -> Iterator[tuple[str, int, int]]:
    """Yield what lies in some places and is no passing thing: path, number of files and bytes."""
    for place in places:
        with contextlib.suppress(OSError), os.scandir(place) as listing:
            for entry in listing:
                if any(fnmatchcase(entry.name, pattern) for pattern in PASSING):
                    continue
                if run_dir.is_relative_to(entry.path) or (
                    str(run_dir) == place and entry.name in OF_RUN
                ):
                    continue
                sizes: list[int] = []
                with contextlib.suppress(RecursionError):  # of a thousand folders in each other
                    sizes = list(_sizes(entry.path))
                temporary = entry.name.startswith(TEMPORARY)
                if sum(sizes) >= (LEAST_TEMPORARY_BYTES if temporary else LEAST_BYTES):
                    yield entry.path, len(sizes), sum(sizes)


def _sizes(path: str) -> Iterator[int]:
    """Yield the size of each plain file below a path, or of the path itself."""
    files = [path]  # where it is a folder or a link, it is passed over below
    if not os.path.islink(path):
        files += [os.path.join(above, name) for above, _, names in os.walk(path) for name in names]
    for file in files:
        with contextlib.suppress(OSError):
            about = os.lstat(file)
            if stat.S_ISREG(about.st_mode):
                yield about.st_size


def _copy(path: str, target: Path, run_dir: Path) -> bool:
    """Copy a file or a folder; return whether all of it is there."""
    passing = run_dir / f".left-{os.getpid()}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(path):
            shutil.copytree(path, passing, symlinks=True, ignore=_no_files)
        else:
            shutil.copy2(path, passing, follow_symlinks=False)
        shutil.rmtree(target, ignore_errors=True)  # of an attempt before
        passing.rename(target)
    except (OSError, shutil.Error, RecursionError):
        return False
    finally:
        shutil.rmtree(passing, ignore_errors=True)
        with contextlib.suppress(OSError):
            passing.unlink()  # a file
    return True


def _no_files(folder: str, names: list[str]) -> list[str]:
    """Return what is neither a file nor a folder nor a link, which copying would wait for."""
    found: list[str] = []
    for name in names:
        mode: Any = os.lstat(os.path.join(folder, name)).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            found.append(name)
    return found
