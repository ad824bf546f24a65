"""Why a run failed: who, the cause, the remedy, and the lines that prove it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from yard.playbook import TaskFailure
from yard.run import Log, RunRecord

PROOF_LINES = 3
TAIL_LINES = 10
# mpirun's own words for the rank that ended the job; the second form is of an exit status.
FIRST_FAILED = re.compile(r"process\s+rank\s+(\d+)\s+with\s+PID|Process\s+name:\s+\[[^\]]*,(\d+)\]")


@dataclass(frozen=True)
class Signature:
    """One known way to fail, from `signatures.yml`; the fields are described there."""

    name: str
    where: str
    pattern: re.Pattern[str]
    cause: str
    remedy: str
    again: bool


@dataclass(frozen=True)
class Diagnosis:
    """The answer to "why".

    Attributes:
        signature: name of the signature that matched; None when the failure is unknown.
        log: file the proof was found in, relative to the run directory.
        proof: the lines that prove it, or the tail of the first failing rank's log.
    """

    host: str | None
    rank: int | None
    cause: str
    remedy: str
    signature: str | None
    log: str | None
    proof: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The plain values, for the summary."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Diagnosis":
        """The inverse of `to_json`."""
        return cls(**{**document, "proof": tuple(document["proof"])})


@cache
def load_signatures() -> tuple[Signature, ...]:
    """Read the signatures that come with the package."""
    document = yaml.safe_load(files("yard").joinpath("signatures.yml").read_text(encoding="utf-8"))
    return tuple(
        Signature(
            name=entry["name"],
            where=entry["where"],
            # mpirun breaks its sentences wherever the line is full.
            pattern=re.compile(entry["pattern"].replace(" ", r"\s+"), re.MULTILINE),
            cause=entry["cause"],
            remedy=entry["remedy"],
            again=entry.get("again", True),
        )
        for entry in document["signatures"]
    )


def diagnose(record: RunRecord, signatures: Sequence[Signature] | None = None) -> Diagnosis:
    """Find the cause of a failed run in what was collected of it.

    The first signature with a match decides. Without one, the message of the failed task is the
    cause, if training never began; else the diagnosis says that the cause is unknown.
    """
    first_failed = first_failed_rank(record)
    first_host = None if first_failed is None else record.host_of(first_failed)
    sources = {
        "rank": _first(record.rank_logs, first_failed),
        "rank_end": [end.log for end in record.rank_ends if end.rank == first_failed],
        "mpirun": [record.mpirun_log] if record.mpirun_log else [],
        # A finding of the whole machine may be found on every node of it.
        "node": sorted(record.findings, key=lambda log: log.host != first_host),
        "container": list(record.container_logs),
        "inspect": list(record.inspections),
        "ansible": [
            Log("ansible.log", failure.message, failure.host)
            for failure in record.manifest.launch.failures
        ],
    }
    for signature in load_signatures() if signatures is None else signatures:
        for log in sources[signature.where]:
            found = signature.pattern.search(log.text)
            if found:
                return _diagnosis(record, signature, log, found)
    failures = record.manifest.launch.failures
    if failures and not record.rank_logs:
        return _failed_task(failures)
    return _unknown(record, first_failed)


def first_failed_rank(record: RunRecord) -> int | None:
    """The rank that failed first; the others fail because of it.

    By the times at which the ranks ended, else as mpirun says.
    """
    failed = [end.rank for end in record.rank_ends if end.exit_status]
    if failed:
        return failed[0]
    if record.mpirun_log is None:
        return None
    found = FIRST_FAILED.search(record.mpirun_log.text)
    return int(found[1] or found[2]) if found else None


def _diagnosis(
    record: RunRecord, signature: Signature, log: Log, found: re.Match[str]
) -> Diagnosis:
    groups = {name: " ".join(text.split()) for name, text in found.groupdict("").items()}
    rank = int(groups["rank"]) if "rank" in groups else log.rank
    host = groups.get("host") or log.host or (record.host_of(rank) if rank is not None else None)
    if "survivor" in groups:
        rank, host = _without(
            record, {int(each["survivor"]) for each in signature.pattern.finditer(log.text)}
        )
    words = {**groups, "rank": rank, "host": host or "the node"}
    return Diagnosis(
        host=host,
        rank=rank,
        cause=signature.cause.format_map(words),
        remedy=signature.remedy.format_map(words),
        signature=signature.name,
        log=log.path,
        proof=_lines_of(log.text, found),
    )


def _without(record: RunRecord, survivors: set[int]) -> tuple[int | None, str | None]:
    """Who is left without the ranks that lost a peer: the rank, if it is one, and the hosts."""
    ranks = {int(entry["rank"]): str(entry["host"]) for entry in record.world.get("ranks", [])}
    left = sorted(ranks.keys() - survivors)
    hosts = dict.fromkeys(ranks[rank] for rank in left)
    return (left[0] if len(left) == 1 else None, ", ".join(hosts) or None)


def _failed_task(failures: Sequence[TaskFailure]) -> Diagnosis:
    """Ansible stopped before there was a rank: its message is written for people."""
    first = failures[0]
    lines = [line for failure in failures for line in failure.message.splitlines()]
    return Diagnosis(
        host=", ".join(dict.fromkeys(failure.host for failure in failures)),
        rank=None,
        cause=first.message.splitlines()[0],
        remedy=f'The task "{first.task}" failed; ansible.log has the whole story.',
        signature=None,
        log="ansible.log",
        proof=tuple(lines[:TAIL_LINES]),
    )


def _unknown(record: RunRecord, first_failed: int | None) -> Diagnosis:
    log = next(iter(_first(record.rank_logs, first_failed)), record.mpirun_log)
    rank = log.rank if log else None
    ended = "mpirun did not end by itself"
    if record.launcher_exit_status is not None:
        ended = f"mpirun ended with status {record.launcher_exit_status}"
    lines = [line for line in log.text.splitlines() if line.strip()] if log else []
    return Diagnosis(
        host=record.host_of(rank) if rank is not None else None,
        rank=rank,
        cause=f"Unknown: {ended}, and no known signature is in the logs.",
        remedy="Read the lines below, then the other logs; add the cause to yard/signatures.yml.",
        signature=None,
        log=log.path if log else None,
        proof=tuple(lines[-TAIL_LINES:]),
    )


def _first(logs: Iterable[Log], rank: int | None) -> list[Log]:
    """The logs with the one of `rank` in front."""
    return sorted(logs, key=lambda log: log.rank != rank)


def _lines_of(text: str, found: re.Match[str]) -> tuple[str, ...]:
    """The lines a match touches, at most three; of fewer, with those before, which lead to it."""
    begin = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    touched = _written(text[begin : end if end >= 0 else len(text)])[:PROOF_LINES]
    before = _written(text[:begin])
    return tuple(before[len(before) - (PROOF_LINES - len(touched)) :] + touched)


def _written(text: str) -> list[str]:
    """Lines that say something: mpirun rules off its messages with dashes."""
    return [line.rstrip() for line in text.splitlines() if any(map(str.isalnum, line))]
