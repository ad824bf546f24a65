"""All of a run directory that the summary, the diagnosis and the report are made from."""

import json
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.files import holds_files, read_json, read_list, read_object, write_json
from yard.runs.crashes import Crash, holder_of, own_module, read_crashes
from yard.runs.findings import Finding, parse_finding, parse_finding_of_ranks
from yard.runs.folder import ATTEMPTS, OUTPUTS, STOP_MARK, count_attempts
from yard.runs.gathering import METRICS, all_readings
from yard.runs.manifest import Manifest, read_manifest
from yard.runs.metrics import Metric, read_metrics
from yard.runs.noted import Silence, files_left_in_containers, left_processes, read_silences
from yard.runs.output import without_sequences
from yard.runs.readings import Reading
from yard.runs.utilisation import Heat, idle_gpus, never_connected, slowed_by_heat
from yard.runs.world import World, read_world

# Of a long log only the end is read: what ends a run stands there.
LOG_TAIL_BYTES = 256 * 1024
# Within which all ranks begin, on a busy machine too
START_SECONDS = 5.0
# What a node tells of a failure, in its folder.
FINDINGS = "findings.json"
RANK_LOG = re.compile(r"rank-(?P<rank>[0-9]{1,6})\.log")
# What logs are called that a script made itself, as in `python3 train.py > log`, and how many of a
# rank's files are looked at for them
OWN_LOGS = frozenset({".log", ".out", ".txt", ".err"})
MOST_LOOKED_AT = 10_000
# What the launch and a shell write into a rank's own log
NO_WORDS = re.compile(r"(?:rank \d+ of \d+ on .*|Terminated|\s*)")
FIRST_LINE = re.compile(r"rank (?P<rank>\d+) of \d+ on (?P<host>\S+)")


@dataclass(frozen=True)
class Log:
    """A text file of a run.

    Attributes:
        path: relative to the run directory.
        host, rank: whose it is, where that is known.
        text: the end of it, at most `LOG_TAIL_BYTES`, without colours.
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
        path: of the file, relative to the run directory.
        started_at: Unix seconds of the same clock; None where the file does not say it.
        exception: whether an exception ended it, as its Python said; None where that said nothing.
    """

    rank: int
    host: str
    ended_at: float
    exit_status: int
    path: str
    started_at: float | None = None
    exception: bool | None = None

    @property
    def was_killed(self) -> bool:
        """Whether signal 9 ended it, which no program sends to itself."""
        return self.exit_status == 128 + signal.SIGKILL


@dataclass(frozen=True)
class RunRecord:
    """All of a run directory that the summary, the diagnosis and the report are made from.

    Attributes:
        world: its ranks, empty when no world was formed.
        config: `config.json`, empty when it was not collected.
        launcher_exit_status: exit status of mpirun; None when it did not end by itself.
        rank_logs, mpirun_log, container_logs: what was collected of them.
        inspections: output of `docker inspect`, by host, as text.
        rank_ends: how ranks ended, in order of time.
        findings: what nodes, launcher and ranks found wrong.
        readings: what a program of the user's own reported; the trainer's are the metrics.
        crashes: the exceptions that ended ranks of such a program, by rank.
        left_files: whether such a program left any file.
        silences: when no rank of it gave a sign of life for long.
        never_connected: whether no rank of it held a connection to another node.
        unconnected: whether none was seen, in however few samples.
        heat: its GPUs that were too hot.
        idle_gpus: how busy its GPUs were, in percent, where that is little.
        container_files, left_processes: sentences about what it wrote to places that end with the
            container, and about processes that it left running.
        empty_hosts: nodes that were asked at the end and had no container of the run.
    """

    run_id: str
    manifest: Manifest
    metrics: tuple[Metric, ...]
    world: World
    config: Mapping[str, Any]
    stop_requested: bool
    launcher_exit_status: int | None
    rank_logs: tuple[Log, ...]
    mpirun_log: Log | None
    container_logs: tuple[Log, ...]
    inspections: tuple[Log, ...]
    rank_ends: tuple[RankEnd, ...] = ()
    findings: tuple[Finding, ...] = ()
    attempts: int = 1
    readings: tuple[Reading, ...] = ()
    crashes: tuple[Crash, ...] = ()
    left_files: bool = False
    never_connected: bool = False
    unconnected: bool = False
    heat: tuple[Heat, ...] = ()
    idle_gpus: float | None = None
    silences: tuple[Silence, ...] = ()
    container_files: tuple[str, ...] = ()
    left_processes: tuple[str, ...] = ()
    empty_hosts: tuple[str, ...] = ()

    @property
    def is_project(self) -> bool:
        """Whether a program of the user's own ran, and not the trainer."""
        return self.manifest.project is not None

    @property
    def missing_hosts(self) -> tuple[str, ...]:
        """Chosen nodes of which nothing has been collected: they could not be reached."""
        home = {Path(log.path).parts[1] for log in (*self.inspections, *self.container_logs)}
        return tuple(host for host in self.manifest.hosts if host not in {*home, *self.empty_hosts})

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the ranks in rank order; before there are ranks, the nodes chosen."""
        return self.world.hosts or self.manifest.hosts

    def host_of(self, rank: int) -> str | None:
        """The host a rank ran on, from `world.json` or the first line of its log."""
        in_log = (log.host for log in self.rank_logs if log.rank == rank)
        return self.world.host_of(rank) or next(in_log, None)


def read_run(run: Path) -> RunRecord:
    """Read what a run directory holds; what was not collected is empty.

    Raises:
        RequestError: it has no manifest.
    """
    manifest = read_manifest(run)
    if manifest is None:
        raise RequestError(f"{run.name}: no manifest.json, so this is not a run")
    logs = run / "logs"
    rank_logs = [_read_rank_log(run, path, rank) for rank, path in rank_log_files(run).items()]
    # Where a run is, this machine has chosen. No rank is believed about other machines.
    hosts = manifest.hosts
    rank_logs = [replace(log, host=known(log.host, hosts)) for log in rank_logs]
    world = read_world(run / "world.json")
    is_project = manifest.project is not None
    if "bash" in (manifest.project or {}).get("program", ())[:1]:
        rank_logs = [_or_redirected(run, log, hosts) for log in rank_logs]
    rank_ends = _read_rank_ends(run)
    said = {end.rank: end.exception for end in rank_ends}
    crashed = ((log.rank, log.path, log.text) for log in rank_logs if log.rank is not None)
    status = run / "exit_status"
    text = status.read_text(encoding="utf-8").strip() if status.is_file() else ""
    return RunRecord(
        run_id=run.name,
        manifest=manifest,
        metrics=() if is_project else read_metrics(run / METRICS),
        world=world if set(world.hosts) <= set(hosts) else World(),
        config={} if is_project else read_object(run / "config.json"),
        stop_requested=(run / STOP_MARK).exists(),
        launcher_exit_status=int(text) if re.fullmatch(r"-?\d+", text) else None,
        rank_logs=tuple(rank_logs),
        mpirun_log=_read_log(run, logs / "mpirun.log") if (logs / "mpirun.log").is_file() else None,
        container_logs=_read_node_files(run, "container.log"),
        inspections=_read_node_files(run, "container.json"),
        rank_ends=tuple(end for end in rank_ends if end.host in hosts),
        findings=tuple(
            replace(finding, host=known(finding.host, hosts)) for finding in _read_findings(run)
        ),
        attempts=count_attempts(run),
        readings=all_readings(run) if is_project else (),
        crashes=tuple(
            replace(
                crash,
                holder=holder_of(run, crash, hosts, world.host_of(crash.rank)),
                own_module=own_module(run, crash),
            )
            for crash in (
                read_crashes(run, crashed, said, _is_python(manifest)) if is_project else ()
            )
        ),
        left_files=is_project and any(map(holds_files, result_folders(run))),
        silences=read_silences(run) if is_project else (),
        container_files=files_left_in_containers(run, hosts) if is_project else (),
        left_processes=left_processes(run, hosts) if is_project else (),
        never_connected=is_project and never_connected(run, manifest.hosts),
        unconnected=is_project and never_connected(run, manifest.hosts, samples=1),
        heat=slowed_by_heat(run, manifest.hosts),
        idle_gpus=idle_gpus(run, manifest.hosts),
        empty_hosts=_read_empty_hosts(run),
    )


def _is_python(manifest: Manifest) -> bool:
    """Whether each rank is a Python of its own, and the log of one that of one process."""
    project = manifest.project or {}
    return project.get("per") == "rank" and str(project["program"][0]).startswith("python")


def known(host: str | None, hosts: Collection[str]) -> str | None:
    """A host that a rank named, where it is one of the run's; None for any other one."""
    return host if host in hosts else None


def result_folders(run: Path) -> list[Path]:
    """Where the files lie that a program of the user's own made, as far as there are any."""
    folders = [run / name for name in (*OUTPUTS, "checkpoints")]
    folders += [folder for name in OUTPUTS for folder in sorted(run.glob(f"nodes/*/{name}"))]
    return [folder for folder in folders if folder.is_dir()]


def read_spells(run: Path) -> list[tuple[float, float]]:
    """From when to when each attempt's ranks ran, in Unix seconds of their nodes' clocks."""
    spells = []
    attempts = sorted(run.glob(f"{ATTEMPTS}/*"), key=lambda path: (len(path.name), path.name))
    for folder in (*attempts, run):
        ends = _read_rank_ends(folder)
        starts = [end.started_at for end in ends if end.started_at is not None]
        if starts:
            spells.append((min(starts), ends[-1].ended_at))
    return spells


def rank_log_files(run: Path) -> dict[int, Path]:
    """The ranks' logs by rank; files that are only called like one are left out."""
    named = [(RANK_LOG.fullmatch(path.name), path) for path in (run / "logs").glob("rank-*.log")]
    files = {int(name["rank"]): path for name, path in named if name and path.is_file()}
    return dict(sorted(files.items()))


def inspected_image(record: RunRecord) -> dict[str, str] | None:
    """Name and digest of the image the containers ran, from `docker inspect`."""
    for container in _inspected(record).values():
        with suppress(AttributeError, KeyError, TypeError):
            image = str(container["Image"])
            return {"name": str(container.get("Config", {}).get("Image", "")), "digest": image}
    return None


def inspected_memory_limits(record: RunRecord) -> dict[str, int]:
    """Limit of the memory of each host's container, in bytes, 0 for none, from `docker inspect`."""
    limits = {}
    for host, container in _inspected(record).items():
        with suppress(KeyError, TypeError):
            limit = container["HostConfig"]["Memory"]
            if type(limit) is int and limit >= 0:
                limits[host] = limit
    return limits


def _inspected(record: RunRecord) -> dict[str, Any]:
    """What `docker inspect` said of the container of each host, decoded, whatever a node sent."""
    containers = {}
    for inspection in record.inspections:
        with suppress(RecursionError, ValueError):
            document = json.loads(inspection.text)
            containers[str(inspection.host)] = (
                document[0] if isinstance(document, list) and document else document
            )
    return containers


def _read_node_files(run: Path, name: str) -> tuple[Log, ...]:
    paths = sorted((run / "nodes").glob(f"*/{name}"))
    return tuple(_read_log(run, path, host=path.parent.name) for path in paths)


def _read_rank_ends(run: Path) -> tuple[RankEnd, ...]:
    ends = []
    for path in (run / "ranks").glob("*.json"):
        document = read_json(path)
        # The node died, or its disk was full, while it was written; or a rank wrote it.
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            ends.append(
                RankEnd(
                    rank=int(document["rank"]),
                    host=str(document["host"]),
                    ended_at=float(document["ended_at"]),
                    exit_status=int(document["exit_status"]),
                    path=str(path.relative_to(run)),
                    started_at=float(document["started_at"]) if "started_at" in document else None,
                    exception={True: True, False: False}.get(document.get("exception")),
                )
            )
    return _in_order(ends)


def _in_order(ends: Sequence[RankEnd]) -> tuple[RankEnd, ...]:
    """The ends in order of time, where the clocks of nodes may differ by minutes.

    mpirun starts all ranks within seconds: a node on which they began much later, or earlier, by
    its clock has another time.
    """
    starts: dict[str, float] = {}
    for end in ends:
        if end.started_at is not None:
            starts[end.host] = min(end.started_at, starts.get(end.host, end.started_at))
    first = min(starts.values(), default=0.0)
    ahead = {host: start - first for host, start in starts.items() if start - first > START_SECONDS}
    return tuple(sorted(ends, key=lambda end: end.ended_at - ahead.get(end.host, 0.0)))


def _read_findings(run: Path) -> tuple[Finding, ...]:
    """Findings of the ranks first, which say most, then of the launcher, then of the nodes."""
    findings = [
        _read_rank_failure(run, path) for path in sorted((run / "failures").glob("rank-*.json"))
    ]
    launcher = run / "failures" / "launcher.json"
    findings += [
        parse_finding_of_ranks(entry, str(launcher.relative_to(run)))
        for entry in read_list(launcher)
    ]
    for path in sorted(run.glob(f"nodes/*/{FINDINGS}")):
        name = str(path.relative_to(run))
        findings += [parse_finding(entry, name, path.parent.name) for entry in read_list(path)]
    return tuple(finding for finding in findings if finding is not None)


def note_empty_host(run: Path, host: str) -> None:
    """Write down that a node was asked at the end of a run and had nothing of it."""
    path = run / "nodes" / host / FINDINGS
    if not path.exists():
        write_json(path, [])


def _read_empty_hosts(run: Path) -> tuple[str, ...]:
    """Nodes whose findings are home: they ended the run, with or without a container.

    One whose engine was gone could not tell of any.
    """
    hosts = sorted(path.parent.name for path in run.glob(f"nodes/*/{FINDINGS}"))
    return tuple(host for host in hosts if not lost_engine(run, host))


def lost_engine(run: Path, host: str) -> bool:
    """Whether a node said at the end of a run that its engine did not answer."""
    entries = read_list(run / "nodes" / host / FINDINGS)
    return any("engine_gone" in str(entry) for entry in entries)


def _read_rank_failure(run: Path, path: Path) -> Finding | None:
    document = read_json(path)
    if not isinstance(document, dict):
        return None
    host, rank = document.get("host"), document.get("rank")
    return parse_finding_of_ranks(
        document,
        str(path.relative_to(run)),
        host if isinstance(host, str) else None,
        rank if isinstance(rank, int) else None,
    )


def _read_rank_log(run: Path, path: Path, rank: int) -> Log:
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = FIRST_LINE.search(lines.readline())
    return _read_log(run, path, host=first["host"] if first else None, rank=rank)


def _or_redirected(run: Path, log: Log, hosts: Sequence[str]) -> Log:
    """The log of a rank, or that in which a script has its words, where it tells of an error.

    That is the newest log that came home of the rank, or of its node, where its own says nothing.
    """
    if log.rank is None or log.host is None:
        return log
    if not all(map(NO_WORDS.fullmatch, log.text.splitlines())):
        return log
    # Those of the first node are not below its name.
    home = run / ("workdir" if log.host == hosts[0] else f"nodes/{log.host}/workdir")
    there = islice(home.rglob("*"), MOST_LOOKED_AT)
    logs = [path for path in there if path.suffix in OWN_LOGS and path.is_file()]
    if not logs:
        return log
    of_rank = re.compile(rf"(?<!\d){log.rank}(?!\d)")
    path = max(logs, key=lambda p: (bool(of_rank.search(p.name)), p.stat().st_mtime, p.name))
    other = _read_log(run, path, log.host, log.rank)
    return other if "rror" in other.text else log


def _read_log(run: Path, path: Path, host: str | None = None, rank: int | None = None) -> Log:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        text = without_sequences(file.read().decode("utf-8", errors="replace"))
    return Log(str(path.relative_to(run)), text, host, rank)
