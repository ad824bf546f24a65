"""Run directories: their names, and what one holds when the run is over."""

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from yard.errors import RequestError
from yard.files import read_json
from yard.manifest import Manifest, read_manifest
from yard.metrics import Metric, read_metrics
from yard.request import Training

# A file in the run directory: the user has asked for the end. A file and no entry of the manifest,
# because the process that follows the run may write that while another one stops it.
STOP_MARK = "stop_requested"
# Why the report could not be drawn; not there when it could.
REPORT_ERROR = "report-error.log"
# Where the records of attempts go that failed and were followed by another.
ATTEMPTS = "attempts"
# Of a long log only the end is read: what ends a run stands there.
LOG_TAIL_BYTES = 256 * 1024
FIRST_LINE = re.compile(r"rank (?P<rank>\d+) of \d+ on (?P<host>\S+)")


@dataclass(frozen=True)
class Log:
    """A text file of a run.

    Attributes:
        path: relative to the run directory.
        host, rank: whose it is, where that is known.
        text: the end of it, at most `LOG_TAIL_BYTES`.
    """

    path: str
    text: str
    host: str | None = None
    rank: int | None = None


@dataclass(frozen=True)
class RankEnd:
    """How a rank ended, from `ranks/<rank>.json` (docker/trainer/bin/rank).

    Attributes:
        ended_at: Unix seconds of the node's clock.
        exit_status: as a shell gives it: 128 and the signal's number after a signal.
        log: the file itself.
    """

    rank: int
    host: str
    ended_at: float
    exit_status: int
    log: Log


@dataclass(frozen=True)
class RunRecord:
    """All of a run directory that the summary, the diagnosis and the report are made from.

    Attributes:
        world: `world.json`, empty when no world was formed.
        config: `config.json`, empty when it was not collected.
        stop_requested: whether the user asked for the end.
        launcher_exit_status: exit status of mpirun; None when it did not end by itself.
        rank_logs, mpirun_log, container_logs: what was collected of them.
        inspections: output of `docker inspect`, by host, as text.
        rank_ends: how ranks ended, in order of time.
        attempts: how often the run was launched.
        findings: what the nodes had to tell at the end, by host.
    """

    run_id: str
    manifest: Manifest
    metrics: tuple[Metric, ...]
    world: Mapping[str, Any]
    config: Mapping[str, Any]
    stop_requested: bool
    launcher_exit_status: int | None
    rank_logs: tuple[Log, ...]
    mpirun_log: Log | None
    container_logs: tuple[Log, ...]
    inspections: tuple[Log, ...]
    rank_ends: tuple[RankEnd, ...] = ()
    findings: tuple[Log, ...] = ()
    attempts: int = 1

    @property
    def missing_hosts(self) -> tuple[str, ...]:
        """Chosen nodes of which nothing has been collected: they could not be reached."""
        home = {Path(log.path).parts[1] for log in (*self.inspections, *self.container_logs)}
        return tuple(host for host in self.manifest.hosts if host not in home)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the ranks in rank order; before there are ranks, the nodes chosen."""
        ranks = sorted(self.world.get("ranks", []), key=lambda entry: int(entry["rank"]))
        return tuple(dict.fromkeys(entry["host"] for entry in ranks)) or self.manifest.hosts

    def host_of(self, rank: int) -> str | None:
        """The host a rank ran on, from `world.json` or the first line of its log."""
        for entry in self.world.get("ranks", []):
            if entry["rank"] == rank:
                return str(entry["host"])
        return next((log.host for log in self.rank_logs if log.rank == rank), None)


def run_id_of(training: Training, moment: float) -> str:
    """The id: `<UTC time>_<model>_<dataset>_b<batch>_e<epochs>_n<nodes>_p<processes>`.

    Args:
        moment: when the run was started, Unix seconds.
    """
    stamp = datetime.fromtimestamp(moment, UTC).strftime("%Y%m%dT%H%M%SZ")
    numbers = (
        f"b{training.batch_per_rank}_e{training.epochs}"
        f"_n{training.nodes}_p{training.procs_per_node}"
    )
    return f"{stamp}_{training.model}_{training.dataset}_{numbers}"


def create_run(runs: Path, training: Training) -> Path:
    """Make a run directory and point `latest` at it.

    Two launches within one second would have the same id: the second waits for its own.
    """
    runs.mkdir(exist_ok=True)
    while True:
        run = runs / run_id_of(training, time.time())
        try:
            run.mkdir()
        except FileExistsError:
            time.sleep(0.2)
            continue
        break
    link = runs / f".latest.{os.getpid()}"
    link.symlink_to(run.name)
    link.replace(runs / "latest")
    return run


@contextmanager
def followed(run: Path) -> Iterator[None]:
    """Be the one process that follows a run and writes its records; a killed one gives that back.

    Raises:
        RequestError: another one does.
    """
    directory = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RequestError([f"{run.name} is being followed by another yard"]) from error
        yield
    finally:
        os.close(directory)


def is_followed(run: Path) -> bool:
    """Whether a living process follows a run."""
    try:
        with followed(run):
            return False
    except RequestError:
        return True


def find_run(runs: Path, name: str) -> Path:
    """Return the run directory for an id, the beginning of just one id, or `latest`.

    Raises:
        RequestError: there is none, or more than one.
    """
    known = list_runs(runs)
    if name == "latest":
        if known:
            return known[-1]
        raise RequestError(["there are no runs yet"])
    return pick(known, name)


def pick(known: list[Path], name: str) -> Path:
    """Return the one directory of the name, or whose name alone begins so.

    Raises:
        RequestError: there is none, or more than one.
    """
    found = [run for run in known if run.name.startswith(name)] if name else []
    exact = [run for run in found if run.name == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise RequestError([f"run {name!r}: that is more than one:", *_names(found)])
    raise RequestError([f"run {name!r}: unknown; the newest are", *_names(known)])


def list_runs(runs: Path) -> list[Path]:
    """All run directories, oldest first."""
    if not runs.is_dir():
        return []
    return sorted(
        path.parent for path in runs.glob("*/manifest.json") if not path.parent.is_symlink()
    )


def read_run(run: Path) -> RunRecord:
    """Read what a run directory holds; what was not collected is empty.

    Raises:
        RequestError: it has no manifest.
    """
    manifest = read_manifest(run)
    if manifest is None:
        raise RequestError([f"{run.name}: no manifest.json, so this is no run"])
    logs = run / "logs"
    rank_logs = [_read_rank_log(run, path) for path in logs.glob("rank-*.log")]
    status = run / "exit_status"
    text = status.read_text(encoding="utf-8").strip() if status.is_file() else ""
    return RunRecord(
        run_id=run.name,
        manifest=manifest,
        metrics=read_metrics(run / "metrics.jsonl"),
        world=read_json(run / "world.json") or {},
        config=read_json(run / "config.json") or {},
        stop_requested=(run / STOP_MARK).exists(),
        launcher_exit_status=int(text) if re.fullmatch(r"-?\d+", text) else None,
        rank_logs=tuple(sorted(rank_logs, key=lambda log: log.rank or 0)),
        mpirun_log=_read_log(run, logs / "mpirun.log") if (logs / "mpirun.log").is_file() else None,
        container_logs=_read_node_files(run, "container.log"),
        inspections=_read_node_files(run, "container.json"),
        rank_ends=_read_rank_ends(run),
        findings=_read_node_files(run, "findings.json"),
        attempts=count_attempts(run),
    )


def count_attempts(run: Path) -> int:
    """How often a run has been launched: the attempts that failed, and the one that counts."""
    return 1 + len(list((run / ATTEMPTS).glob("*")))


def inspected_image(record: RunRecord) -> dict[str, str] | None:
    """Name and digest of the image the containers ran, from `docker inspect`."""
    for inspection in record.inspections:
        try:
            document = json.loads(inspection.text)
        except ValueError:
            continue
        container = document[0] if isinstance(document, list) and document else document
        if isinstance(container, dict) and "Image" in container:
            return {
                "name": container.get("Config", {}).get("Image", ""),
                "digest": container["Image"],
            }
    return None


def _names(runs: list[Path]) -> list[str]:
    return [f"    {run.name}" for run in runs[-10:]] or ["    (none)"]


def _read_node_files(run: Path, name: str) -> tuple[Log, ...]:
    paths = sorted((run / "nodes").glob(f"*/{name}"))
    return tuple(_read_log(run, path, host=path.parent.name) for path in paths)


def _read_rank_ends(run: Path) -> tuple[RankEnd, ...]:
    ends = []
    for path in (run / "ranks").glob("*.json"):
        document = read_json(path)
        if document is None:
            continue  # the node died, or its disk was full, while it was written
        rank, host = int(document["rank"]), str(document["host"])
        log = _read_log(run, path, host=host, rank=rank)
        ends.append(RankEnd(rank, host, document["ended_at"], document["exit_status"], log))
    return tuple(sorted(ends, key=lambda end: end.ended_at))


def _read_rank_log(run: Path, path: Path) -> Log:
    rank = int(path.stem.removeprefix("rank-"))
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = FIRST_LINE.search(lines.readline())
    return _read_log(run, path, host=first["host"] if first else None, rank=rank)


def _read_log(run: Path, path: Path, host: str | None = None, rank: int | None = None) -> Log:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    return Log(str(path.relative_to(run)), text, host, rank)
