"""Starts the program of a project in the place of a rank: `python3 -P -m trainer.launch.program`.

`program.json` in the configuration of the run says what is started; mpirun's environment says which
rank this is. The program gets mpirun's names and those of torchrun (torch.distributed.run), which
most programs read, and Trainyard's own (docs/own-code.md). This process becomes the program.
"""

import bisect
import itertools
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainer.atomic import write_json
from trainer.errors import TrainerError
from trainer.failure import FOLDER, note_failure
from trainer.launch.settings import GPUS, program_file, run_dir
from trainer.network import use_cluster_network
from trainer.openmpi import local_rank, world_rank

# What the image needs, whatever runs in it: NAME=value, a line each.
IMAGE_ENVIRONMENT = Path("/opt/trainyard/environment")
DATA = "/data"
# What the project requires, where the image has that (docker/trainer/Dockerfile.packages).
PACKAGES = Path("/opt/trainyard/packages")
# The working directory of the ranks, below the run directory.
WORKDIR = "project"
# The status of a shell for a command that is not there, or cannot be executed.
NOT_FOUND, NOT_EXECUTABLE = 127, 126


@dataclass(frozen=True)
class Project:
    """What is started.

    Attributes:
        program: a program and its arguments.
        per: "rank": it is a rank; "node": it starts the ranks of a node itself.
        slots: ranks on each of `hosts`, in their order.
        restarts: how often the run was started before.
        retries: how often it is started again at the most, from its first start on.
        dataset: name of the data set that was asked for; empty where none was.
        checkpoints: pattern of the files of the working directory that are checkpoints, for the
            launcher (`trainer.launch.settings`); empty where there are none.
        hosts: the nodes in the order of ranks.
    """

    run_id: str
    program: tuple[str, ...]
    per: str
    slots: tuple[int, ...]
    restarts: int
    retries: int
    dataset: str
    checkpoints: str
    hosts: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "Project":
        """Read `program.json`."""
        values = json.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(values[name]) for name in ("program", "slots", "hosts")}
        return cls(**{**values, **lists})

    def node_of(self, rank: int) -> int:
        """The number of the node with this rank; mpirun fills one node after the other."""
        return bisect.bisect_right(list(itertools.accumulate(self.slots)), rank)


def environment_of(
    project: Project, rank: int, local: int, directory: Path, present: Mapping[str, str]
) -> dict[str, str]:
    """What the program finds beside what it has; the site's own settings win.

    Args:
        rank, local: this process's number, of all that mpirun started and of those on this node.
        present: the environment so far, with MASTER_ADDR and MASTER_PORT.
    """
    node = rank if project.per == "node" else project.node_of(rank)
    own: dict[str, Any] = {
        "TRAINYARD_OUTPUT_DIR": directory / "outputs",
        "TRAINYARD_CHECKPOINT_DIR": directory / "checkpoints",
        "TRAINYARD_DATA_DIR": f"{DATA}/{project.dataset}".rstrip("/"),
        "TRAINYARD_METRICS": directory / "metrics.jsonl",
    }
    ranks = torchrun_names(project, rank, local, node, directory)
    # As scripts read them that other launchers start (dstack, Kubeflow, SkyPilot).
    shape = {"NNODES": len(project.hosts), "NPROC_PER_NODE": project.slots[node]}
    if project.per == "node":
        ranks = {
            "PET_NNODES": len(project.hosts),
            "PET_NPROC_PER_NODE": project.slots[node],
            "PET_NODE_RANK": node,
            "PET_MASTER_ADDR": present["MASTER_ADDR"],
            "PET_MASTER_PORT": present["MASTER_PORT"],
            "NODE_RANK": node,
        }
    defaults = _image_environment() | _without_gpu(present)
    values = {name: str(value) for name, value in (own | shape | ranks).items()}
    return values | {name: value for name, value in defaults.items() if name not in present}


def torchrun_names(
    project: Project, rank: int, local: int, node: int, directory: Path
) -> dict[str, Any]:
    """What torchrun tells a rank, but for the address of rank 0, which is there.

    TORCHELASTIC_USE_AGENT_STORE is not set: with it, rank 0 would host no store.
    """
    nodes = len(project.hosts)
    world = sum(project.slots)
    return {
        "RANK": rank,
        "LOCAL_RANK": local,
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": project.slots[node],
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": nodes,
        "NODE_RANK": node,
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "TORCHELASTIC_RUN_ID": project.run_id,
        "TORCHELASTIC_RESTART_COUNT": project.restarts,
        "TORCHELASTIC_MAX_RESTARTS": project.retries,
        "TORCHELASTIC_ERROR_FILE": directory / FOLDER / f"torch-{rank}.json",
    }


@dataclass(frozen=True)
class _Place:
    """A rank of `world.json`, as `trainer.world` has it."""

    rank: int
    local_rank: int
    host: str


def write_world(project: Project, path: Path) -> None:
    """Note where the ranks are; mpirun fills one node after the other."""
    hosts_and_locals = [
        (host, local)
        for host, slots in zip(project.hosts, project.slots, strict=True)
        for local in range(slots)
    ]
    places = [_Place(rank, local, host) for rank, (host, local) in enumerate(hosts_and_locals)]
    write_json(path, {"world_size": len(places), "ranks": [asdict(place) for place in places]})


def main() -> int:
    """Become the program; return a status where there is none that can be started."""
    directory = run_dir(os.environ)
    project = Project.read(program_file(os.environ))
    rank = world_rank()
    assert rank is not None, "mpirun starts the ranks"
    try:
        use_cluster_network()
    except TrainerError as error:
        note_failure(error)
        print(error, file=sys.stderr)
        return 1
    os.environ |= environment_of(project, rank, local_rank(), directory, os.environ)
    # What the program was promised is there when it starts (docs/own-code.md).
    for folder in ("outputs", "checkpoints", FOLDER):
        (directory / folder).mkdir(exist_ok=True)
    if rank == 0:
        write_world(project, directory / "world.json")
    if PACKAGES.is_dir():
        os.environ |= {
            "PYTHONPATH": _in_front(PACKAGES, os.environ.get("PYTHONPATH")),
            "PATH": _in_front(PACKAGES / "bin", os.environ.get("PATH")),
        }
    if shutil.which("python") is None:
        os.environ["PATH"] += f":{_with_python(directory)}"
    os.chdir(directory / WORKDIR)
    # Signs of life of this kind are the trainer's own.
    os.environ.pop("TRAINYARD_BEAT", None)
    program = project.program
    # The process that is the rank, among those that it starts.
    os.environ["TRAINYARD_PROGRAM"] = str(os.getpid())
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"{program[0]}: {error.strerror}", file=sys.stderr)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def _image_environment() -> dict[str, str]:
    try:
        lines = IMAGE_ENVIRONMENT.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _in_front(folder: Path, path: str | None) -> str:
    return f"{folder}:{path}" if path else str(folder)


def _with_python(directory: Path) -> Path:
    """A folder with the command `python`, which scripts call; Debian's Python is python3 alone.

    No link to it: a virtual environment is known by the folder of its Python.
    """
    folder = directory / ".bin"
    folder.mkdir(exist_ok=True)
    scratch = folder / f".python.{os.getpid()}"  # another rank of the node may start its own now
    scratch.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    scratch.chmod(0o755)
    scratch.replace(folder / "python")
    return folder


def _without_gpu(present: Mapping[str, str]) -> dict[str, str]:
    """What accelerate wants to hear where there is no GPU: else each rank is a run of its own."""
    return {} if int(present.get(GPUS, "0")) else {"ACCELERATE_USE_CPU": "true"}


if __name__ == "__main__":
    raise SystemExit(main())
