"""What a run has left that is home, and the commands that go on from there."""

import json
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.request.training import OPTIONS
from yard.runs.manifest import Manifest
from yard.runs.record import result_folders
from yard.runs.retry import check_resumable
from yard.runs.summary import Summary

# What lies beside a checkpoint and is none.
CHECKSUM = ".sha256"
# Of a request: what `make train` takes under the same name. Others are no request that was typed.
TYPED = (
    *("model", "code", "entry", "script_args", "launch", "requirements", "grace", "nodes"),
    *("gpus_per_node", "procs_per_node", "dataset", "epochs", "batch", "lr", "precision", "engine"),
    *("train_images", "checkpoint_seconds", "weights", "transport", "retries", "stall", "on"),
    "name",
)
# What the command says itself.
SAID = ("min_nodes", "options", "resume")


@dataclass(frozen=True)
class Results:
    """Files of one folder.

    Attributes:
        folder: relative to the run's directory.
        names: the newest first, relative to the folder.
    """

    folder: str
    names: tuple[str, ...]
    bytes: int


def results_of(run: Path) -> list[Results]:
    """The weights and outputs that have come home, by folder; without those that are empty."""
    found = []
    for folder in result_folders(run):
        files = {}
        for path in folder.rglob("*"):
            with suppress(OSError):  # rsync brings them home meanwhile, under other names at first
                about = path.lstat()
                if stat.S_ISREG(about.st_mode) and path.suffix != CHECKSUM:
                    files[path] = about
        names = sorted(files, key=lambda path: files[path].st_mtime, reverse=True)
        if files:
            shown = tuple(str(path.relative_to(folder)) for path in names)
            whole = sum(about.st_size for about in files.values())
            found.append(Results(str(folder.relative_to(run)), shown, whole))
    return found


def next_commands(run: Path, manifest: Manifest, summary: Summary) -> list[str]:
    """The commands that people want after a run, `make train` without its inventory."""
    rank = summary.diagnosis.rank if summary.diagnosis else None
    commands = []
    if any((run / "logs").glob("rank-*.log")):
        commands.append(f"make logs RUN={run.name}{'' if rank is None else f' RANK={rank}'}")
    commands.append(f"make report RUN={run.name}")
    goes_on = _is_resumable(run)
    is_done = summary.status == "succeeded"
    if is_done and goes_on and manifest.project is None:
        model = shlex.quote(f"{manifest.configuration['model']}.safetensors")
        commands.append(f"make export RUN={run.name} TO={model}")
    if manifest.project is not None and "notebook" in manifest.project:
        return commands
    # Which goes on has its parameters.
    changes: dict[str, Any] = {"resume": run.name, "weights": None} if goes_on else {}
    if is_done and manifest.project is None and summary.epochs:
        changes["epochs"] = 2 * summary.epochs  # it has done those that were asked for
    if goes_on or not is_done:
        asked = {**manifest.request, **changes}
        again = train_command({name: asked[name] for name in asked if asked[name] is not None})
        commands.append(again or f"make rerun RUN={run.name}")
    return commands


def train_command(request: Mapping[str, Any]) -> str | None:
    """The command that a request was, as one types it; None where none was typed so."""
    if not request.keys() <= {*TYPED, *SAID}:
        return None
    options = dict(request.get("options") or {})
    flags = {name: flag for flag, name in OPTIONS.items()}
    said = {name: request[name] for name in TYPED if name in request}
    if "min_nodes" in request:
        said["nodes"] = f"{request['min_nodes']}..{request['nodes']}"
    if "on" in said:
        said["on"] = ",".join(said["on"])
    others = []
    for name, value in options.items():
        if name in flags:
            said[flags[name][2:].replace("-", "_")] = value
        else:
            others.append(f"--set {name}={value if isinstance(value, str) else json.dumps(value)}")
    said |= {"args": " ".join(others)} if others else {}
    said |= {"resume": request["resume"]} if "resume" in request else {}
    words = [f"{name.upper()}={shlex.quote(str(value))}" for name, value in said.items()]
    # Of make a dollar is its own, and of the shell what is quoted here is none.
    return " ".join(["make train", *words]).replace("$", "$$")


def arguments_of(request: Mapping[str, Any]) -> str:
    """What was typed behind `make train`, without the name; "" where that is not known."""
    options = dict(request.get("options") or {})
    own = {name: options.pop(name) for name in list(options) if name not in OPTIONS.values()}
    typed = {name: value for name, value in request.items() if name != "name"}
    command = train_command({**typed, "options": options})
    if command is None:
        return ""
    words = [f"{name}={shlex.quote(str(value))}" for name, value in own.items()]
    return " ".join([command.removeprefix("make train").strip(), *words])


def _is_resumable(run: Path) -> bool:
    try:
        check_resumable(run)
    except RequestError:
        return False
    return True
