"""A failed run starts again: from its newest checkpoint, on the nodes that are still fit."""

import hashlib
from pathlib import Path

from yard.core.errors import Exit, RequestError
from yard.core.files import holds_files, write_text
from yard.runs.diagnosis import Diagnosis, diagnose
from yard.runs.folder import ATTEMPTS, OUTPUTS, count_attempts
from yard.runs.manifest import read_manifest
from yard.runs.record import RunRecord
from yard.runs.signatures import load_signatures
from yard.runs.summary import run_exit_status

# What an attempt leaves that the next one writes anew. Metrics, checkpoints and the outputs of a
# program of the user's own go on.
OF_ONE_ATTEMPT = (
    "config.json",
    "exit_status",
    "failures",
    "hostfile",
    "logs",
    "mpirun.arguments",
    "nodes",
    "program.json",
    "ranks",
    "silences.jsonl",
    "world.json",
)

MANIFEST = "manifest.json"
# Of the folder of a node it is all but what a program of the user's own has left there.
NODES = "nodes"

# Folders of a run in which a program of the user's own may have left what it goes on from.
OF_PROGRAMS = ("checkpoints", *OUTPUTS)
# The launch role's variable: a program's run, or the checkpoints of the trainer's.
RESUME_FROM = "training_run_resume_from"


def worth_another(record: RunRecord) -> Diagnosis | None:
    """Why an attempt failed, if another may go better; None where it went well or never can."""
    if run_exit_status(record) != Exit.FAILED:
        return None
    failure = diagnose(record)
    hopeless = {signature.name for signature in load_signatures() if not signature.again}
    return None if failure.signature in hopeless else failure


def fault_of(failure: Diagnosis) -> str | None:
    """What is at fault, see `signatures.yml`; None where it is the program, or nobody knows."""
    faults = {signature.name: signature.fault for signature in load_signatures()}
    return None if failure.signature is None else faults.get(failure.signature)


def put_attempt_aside(run: Path) -> Path:
    """Move what belongs to the attempt that failed to `attempts/<n>`, and return that.

    What a program left on the nodes stays where it is: it goes on from that.
    """
    place = run / ATTEMPTS / str(count_attempts(run))
    place.mkdir(parents=True)
    for name in OF_ONE_ATTEMPT:
        if (run / name).exists():
            (run / name).rename(place / name)
    for folder in _folders_of_nodes(place):
        home = run / folder.relative_to(place)
        home.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(home)
    # Of the nodes that the attempt had. Last, so that a full disk keeps nothing else from moving.
    if (run / MANIFEST).exists():
        write_text(place / MANIFEST, (run / MANIFEST).read_text(encoding="utf-8"))
    return place


def nodes_of(run: Path) -> tuple[str, ...]:
    """The nodes of all attempts, which may have files of the run; empty where not all are known."""
    hosts: set[str] = set()
    for folder in (run, *(run / ATTEMPTS).glob("*")):
        manifest = read_manifest(folder)
        if manifest is None:
            return ()
        hosts.update(manifest.hosts)
    return tuple(sorted(hosts))


def _folders_of_nodes(run: Path) -> list[Path]:
    """What a program left on nodes other than the first."""
    return [
        folder
        for name in OUTPUTS
        for folder in (run / NODES).glob(f"*/{name}")
        if folder.is_dir() and not folder.is_symlink()
    ]


def resume_variables(run: Path, same_run: bool) -> dict[str, str]:
    """The launch role's variables that make it go on from a run's checkpoints.

    A program of the user's own may keep what it goes on from in any file, so that all that it wrote
    is put before it again.

    Args:
        same_run: it is the same run that goes on, and so do its metrics.
    """
    variables = {}
    if _is_project(run):
        folders = [*(run / name for name in OF_PROGRAMS), *_folders_of_nodes(run)]
        if any(map(holds_files, folders)):
            variables[RESUME_FROM] = str(run)
    elif _has_checkpoint(run / "checkpoints"):
        variables[RESUME_FROM] = str(run / "checkpoints")
    metrics = run / "metrics.jsonl"
    if same_run and metrics.is_file() and metrics.stat().st_size:
        variables["training_run_metrics_from"] = str(metrics)
    return variables


def check_resumable(run: Path) -> None:
    """See that a run has something to go on from.

    Raises:
        RequestError: it has no checkpoint, and no other file of a program of the user's own.
    """
    if resume_variables(run, same_run=False):
        return
    if _is_project(run):
        raise RequestError(
            f"{run.name} left no file to go on from: {', '.join(OF_PROGRAMS)} are empty"
        )
    raise RequestError(f"{run.name} has no checkpoint to resume from")


def _has_checkpoint(folder: Path) -> bool:
    """Whether a checkpoint of the trainer's is there with its checksum.

    Where the node dies while the first one comes home, the checksum may be missing, which comes
    behind it. The run then starts anew.
    """
    return any(
        path.with_name(f"{path.name}.sha256").is_file() for path in folder.glob("epoch-*.pt")
    )


def epochs_done(run: Path, least: int) -> int | None:
    """How many epochs a good checkpoint at home has, of so many at the least; None: there is none.

    Only then the file is read as a whole: one that is damaged is passed over by the trainer.
    """
    for path in (run / "checkpoints").glob("epoch-*.pt"):
        name = path.stem.removeprefix("epoch-")
        if name.isdecimal() and int(name) >= least and _is_good(path):
            return int(name)
    return None


def _is_good(checkpoint: Path) -> bool:
    try:
        said = checkpoint.with_name(f"{checkpoint.name}.sha256").read_text(encoding="utf-8")
        with checkpoint.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == said.split()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return False


def _is_project(run: Path) -> bool:
    manifest = read_manifest(run)
    return manifest is not None and manifest.project is not None
