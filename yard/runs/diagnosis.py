"""Why a run failed: who, the cause, the remedy, and the lines that prove it."""

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from yard.code.modules import way_to
from yard.plays.contract import FOLLOW, UNREACHABLE, phase_of
from yard.plays.events import TaskFailure
from yard.runs.crashes import (
    LAUNCHERS,
    NO_WORDS,
    Crash,
    before_launcher,
    standing_of,
    without_tracebacks,
)
from yard.runs.findings import Finding
from yard.runs.record import Log, RunRecord, known
from yard.runs.signatures import Signature, load_signatures

PROOF_LINES = 3
TAIL_LINES = 10
# At the end of the log of a program that left no exception
LAST_LINES = 20
# How a rank waited in vain for others that says of none that it had gone
WAITED = re.compile(r"DistStoreError|[Tt]imed?[ -]?out")
# What MPI and mpirun say where a rank that had joined MPI left it without a word
LEFT_MPI = re.compile(
    r"exiting\s+improperly|unexpectedly\s+disconnected|An\s+error\s+occurred\s+in\s+Socket\s+closed"
)
# mpirun's own words for the rank that ended the job; the second form is of an exit status.
FIRST_FAILED = re.compile(r"process\s+rank\s+(\d+)\s+with\s+PID|Process\s+name:\s+\[[^\]]*,(\d+)\]")
# How faulthandler begins; the stacks of all threads follow. What a C++ library said is before it.
FAULT = "Fatal Python error: "
# What Python says where a program that it is to start is not there
NO_PROGRAM = re.compile(
    r"FileNotFoundError: \[Errno 2\] .*: '(?:/[\w/]*bin/)?(?P<program>[^'/\n]+)'"
)
# The same of a shell, and of Python where it started the shell and the shell's words are lost
NO_COMMAND = re.compile(
    r"^.*\b\d+: (?:exec: )?(?P<program>[\w.+-]+): (?:command )?not found$"
    r"|Command '(?P<command>[\w.+-]+)[^\n]*' returned non-zero exit status 127\.",
    re.MULTILINE,
)
# What it says where it starts a file that is no program
NOT_EXECUTABLE = re.compile(r"PermissionError: \[Errno 13\]|OSError: \[Errno 8\]")
# Where `os.environ` is; the second name is of Python 3.12 and newer
OF_ENVIRONMENT = ("os.py", "<frozen os>")
# What the kernel does where memory ran out
OUT_OF_MEMORY = ("container_out_of_memory", "node_out_of_memory")
# How ranks tell that another one is gone, of which they do not know how it ended
GONE = ("peer_lost", "connection_broken")
# What the first node says of a node that did not answer when the run hung
PEER_SILENT = "peer_silent"
ANSIBLE_LOG = "ansible.log"
# The line that docker/trainer/bin/rank writes into each log
OWN_LINE = re.compile(r"rank \d+ of \d+ on ")


@dataclass(frozen=True)
class Diagnosis:
    """The answer to "why", see schemas/summary.schema.json.

    Of an unknown failure the proof is the tail of the first failing rank's log.
    """

    host: str | None
    rank: int | None
    cause: str
    remedy: str
    signature: str | None
    log: str | None
    proof: tuple[str, ...]


class _Words(dict[str, Any]):
    """What a sentence is filled in with. A rank may have written a finding without its values."""

    def __missing__(self, name: str) -> str:
        return "?"


def diagnose(record: RunRecord) -> Diagnosis:
    """Find the cause of a failed run in what was collected of it.

    The first signature with a match decides: a finding whose code is its name, or foreign words
    that its pattern knows. Without one, the message of the failed task is the cause, if training
    never began or could not be followed any more; else the diagnosis says that the cause is
    unknown.
    """
    first_failed = first_failed_rank(record)
    findings = _findings(record, first_failed)
    texts = _texts(record, first_failed)
    passed_over = GONE if _left_by_itself(record, first_failed) else ()
    for signature in load_signatures():
        if signature.name in passed_over:
            continue
        for finding in findings:
            if finding.code == signature.name:
                return _of_finding(record, signature, finding)
        if signature.pattern is None or signature.where is None:
            continue
        for log in texts[signature.where]:
            match = signature.pattern.search(log.text)
            if match:
                return _of_words(record, signature, log, match)
    failures = record.manifest.launch.failures
    if failures and not record.rank_logs:
        return _failed_task(failures)
    if lost := [each for each in failures if phase_of(each.role, each.task_file) == FOLLOW]:
        return _failed_task(lost)
    return _unknown(record, first_failed)


def first_failed_rank(record: RunRecord) -> int | None:
    """The rank that failed first; the others fail because of it.

    By the times at which the ranks ended, else as mpirun says. A rank of the user's own program
    that says itself that another one had gone, or that was asked to end, counts only where none is
    left.
    """
    failed = [end for end in record.rank_ends if end.exit_status]
    followers = {crash.rank for crash in record.crashes if crash.of_peer}
    if record.is_project:
        followers |= {end.rank for end in failed if end.exit_status == 128 + signal.SIGTERM}
    if failed:
        return next((end for end in failed if end.rank not in followers), failed[0]).rank
    if record.mpirun_log is None:
        return None
    match = FIRST_FAILED.search(record.mpirun_log.text)
    return int(match[1] or match[2]) if match else None


def _findings(record: RunRecord, first_failed: int | None) -> list[Finding]:
    """All findings. Of several with one code the first failed rank's is the first.

    What is wrong with a whole machine may be found on every node of it.
    """
    first_host = None if first_failed is None else record.host_of(first_failed)
    killed = [
        Finding("rank_ended_by_kill", {}, end.path, end.host, end.rank)
        for end in record.rank_ends
        if end.rank == first_failed and end.was_killed
    ]
    unfit = [
        Finding(
            "host_unreachable" if problem.code == UNREACHABLE else "gang_incomplete",
            {"message": problem.text},
            ANSIBLE_LOG,
            problem.host,
        )
        for failure in record.manifest.launch.failures
        for problem in failure.problems
        if problem.host is not None
    ]
    lost = [f.host for f in record.manifest.launch.failures if f.unreachable and not f.problems]
    if lost:
        hosts = ", ".join(dict.fromkeys(lost))
        unfit.append(Finding("host_unreachable", {}, ANSIBLE_LOG, hosts))
    crashed = [_of_crash(record, crash) for crash in record.crashes if crash.rank == first_failed]
    crashed = [*_of_command(record, first_failed), *crashed]
    passed_over = set(OUT_OF_MEMORY if _fell_by_itself(record, first_failed) else ())
    # A first node that does not answer itself in time is busy, and asked the others in vain.
    silent = {str(each.values.get("host")) for each in record.findings if each.code == PEER_SILENT}
    if silent & {*record.manifest.hosts[:1]}:
        passed_over.add(PEER_SILENT)
    collected = sorted(
        (each for each in record.findings if each.code not in passed_over),
        key=lambda each: (each.rank != first_failed, each.host != first_host),
    )
    return [
        *collected,
        *crashed,
        *killed,
        *_ended_early(record, first_failed),
        *_stood_elsewhere(record),
        *unfit,
    ]


def _ended_early(record: RunRecord, first_failed: int | None) -> list[Finding]:
    """A rank of the user's own program that had ended well when the others fell for want of it."""
    if not record.is_project or not record.rank_ends or record.rank_ends[0].exit_status != 0:
        return []
    early = record.rank_ends[0]
    told = [crash for crash in record.crashes if crash.rank == first_failed]
    waited = any(finding.code == "stalled" for finding in record.findings)
    if not told and record.mpirun_log is not None:
        waited = waited or LEFT_MPI.search(record.mpirun_log.text) is not None
    if not waited and not any(each.of_peer or WAITED.search(each.sentence) for each in told):
        return []
    proof = tuple(crash.sentence for crash in told)
    return [Finding("rank_ended_early", {}, early.path, early.host, early.rank, proof)]


def _stood_elsewhere(record: RunRecord) -> list[Finding]:
    """The one rank of a program that hung in a line of its own while the others waited for it.

    Where all wait, the lines at which they do, if these differ.
    """
    if not record.is_project or all(finding.code != "stalled" for finding in record.findings):
        return []
    told = [(log, standing_of(log.text)) for log in record.rank_logs]
    away = [(log, standing) for log, standing in told if standing and not standing.waits]
    if any(standing is None for _, standing in told) or len(told) < 2:
        return []
    places = {standing.place: log for log, standing in reversed(told) if standing}
    if not away and len(places) > 1:
        shown = sorted((log.rank or 0, place) for place, log in places.items())[:4]
        text = ", ".join(f"rank {rank} at {place}" for rank, place in shown)
        logs = tuple(sorted(f"{log.path}: {place}" for place, log in places.items())[:PROOF_LINES])
        return [Finding("ranks_at_different_lines", {"places": text}, told[0][0].path, proof=logs)]
    if len(away) != 1:
        return []
    ((log, standing),) = away
    values, proof = {"place": standing.place}, standing.calls[-PROOF_LINES:]
    return [Finding("rank_elsewhere", values, log.path, log.host, log.rank, proof)]


def _fell_by_itself(record: RunRecord, first_failed: int | None) -> bool:
    """Whether the first failed rank had an exception that no killed process explains.

    Then the program had got over it that the kernel killed a process of its.
    """
    crash = next((crash for crash in record.crashes if crash.rank == first_failed), None)
    killed = any(end.was_killed for end in record.rank_ends)
    return crash is not None and not killed and not (crash.of_killed or crash.of_peer)


def _left_by_itself(record: RunRecord, first_failed: int | None) -> bool:
    """Whether the first failed rank of a program is known, and no signal ended it."""
    ends: dict[int | None, int] = {end.rank: end.exit_status for end in record.rank_ends}
    all_told = all(log.rank in ends for log in record.rank_logs)
    return record.is_project and all_told and ends.get(first_failed, 128) < 128


def _of_crash(record: RunRecord, crash: Crash) -> Finding:
    """The exception that ended a rank of the user's own program, as a finding."""
    proof = tuple(filter(None, (crash.place, crash.sentence)))
    if crash.error in LAUNCHERS:  # which say nothing of why
        said = next(log.text for log in record.rank_logs if log.rank == crash.rank)
        proof = (*_written(before_launcher(said))[-PROOF_LINES:], crash.sentence)
    values = {"exception": crash.sentence}
    host = record.host_of(crash.rank)
    lacking = NO_PROGRAM.search(crash.sentence) if crash.within == "subprocess.py" else None
    if lacking:
        values = {"program": lacking["program"]}
        return Finding("program_not_in_image", values, crash.path, host, crash.rank, proof)
    if crash.within == "subprocess.py" and NOT_EXECUTABLE.match(crash.sentence):
        return Finding("program_not_executable", values, crash.path, host, crash.rank, proof)
    if crash.error == "KeyError" and crash.within in OF_ENVIRONMENT:
        values = {"name": crash.message.strip("'")}
        return Finding("name_not_set", values, crash.path, host, crash.rank, proof)
    if crash.holder is not None:
        values = {"exception": crash.sentence, "holder": crash.holder}
        return Finding("file_of_other_node", values, crash.path, host, crash.rank, proof)
    if crash.own_module is not None:
        module = crash.own_module
        values = {"module": module, "package": module.partition(".")[0]}
        values["path"] = module.replace(".", "/")
        return Finding("module_of_project_missing", values, crash.path, host, crash.rank, proof)
    return Finding("program_error", values, crash.path, host, crash.rank, proof)


def _of_command(record: RunRecord, first_failed: int | None) -> list[Finding]:
    """The command that ended the first failed rank because the image has no such program."""
    log = next((log for log in record.rank_logs if log.rank == first_failed), None)
    own = [end.exit_status for end in record.rank_ends if end.rank == first_failed]
    said = [crash.sentence for crash in record.crashes if crash.rank == first_failed]
    if log is None or log.rank is None or not record.is_project:
        return []
    if own != [127] and "status 127." not in str(said):
        return []
    found = sorted(NO_COMMAND.finditer(log.text), key=lambda match: match["program"] is not None)
    return [
        Finding(
            "program_not_in_image",
            {"program": match["program"] or match["command"]},
            *(log.path, record.host_of(log.rank), log.rank, (match[0],)),
        )
        for match in found[-1:]
    ]


def _texts(record: RunRecord, first_failed: int | None) -> dict[str, list[Log]]:
    program = _program_texts(record, first_failed) if record.is_project else []
    logs = _first(map(partial(_without_handled, record), record.rank_logs), first_failed)
    lost_peer = any(crash.rank == first_failed and crash.of_peer for crash in record.crashes)
    return {
        # What ended a program stands in the log of another rank only where that one had gone.
        "rank": program if program and not lost_peer else logs,
        "program": program,
        "mpirun": [record.mpirun_log] if record.mpirun_log else [],
        "container": list(record.container_logs),
        "ansible": [
            Log(ANSIBLE_LOG, failure.message, failure.host)
            for failure in record.manifest.launch.failures
            if not failure.problems
        ],
    }


def _program_texts(record: RunRecord, first_failed: int | None) -> list[Log]:
    """What ended the user's own program: the exception of the first failed rank, else its log.

    A log has warnings, too, that ended nothing; and what others say is of how they were cut off.
    So of a log its end counts, and of a Python that left by itself the last line.
    """
    crashes = [crash for crash in record.crashes if crash.rank == first_failed]
    told = [Log(crash.path, crash.sentence, None, crash.rank) for crash in crashes]
    if told:
        return told
    left = {end.rank for end in record.rank_ends if end.exception is False}
    own = [log for log in record.rank_logs if first_failed in (None, log.rank)]
    # The stacks of a crash say where it was, and the words before them why.
    own = [replace(log, text=log.text.rpartition(FAULT)[0] or log.text) for log in own]
    return [
        replace(log, text="\n".join(_written(log.text)[-1 if log.rank in left else -LAST_LINES :]))
        for log in (_without_handled(record, log) for log in own)
    ]


def _without_handled(record: RunRecord, log: Log) -> Log:
    """A log of a program without the exceptions that ended nothing."""
    if not record.is_project:
        return log
    ended = [crash.sentence for crash in record.crashes if crash.rank == log.rank]
    return replace(log, text="\n".join([without_tracebacks(log.text), *ended]))


def _of_finding(record: RunRecord, signature: Signature, finding: Finding) -> Diagnosis:
    rank = finding.rank
    host = finding.host or (record.host_of(rank) if rank is not None else None)
    # A rank's own words are in its log; of other findings the record itself is the proof.
    log = next((log for log in record.rank_logs if log.rank == rank), None)
    if finding.proof:
        log, proof = None, finding.proof
    elif finding.path == ANSIBLE_LOG:
        proof = _messages(record.manifest.launch.failures)
    elif log is not None and finding.path.startswith("failures/rank-"):
        proof = tuple(_written(log.text)[-PROOF_LINES:])
    else:
        log = None
        proof = (json.dumps({"code": finding.code, "values": dict(finding.values)}),)
    path = log.path if log else finding.path
    return _told(record, signature, (host, rank), finding.values, path, proof)


def _of_words(record: RunRecord, signature: Signature, log: Log, match: re.Match[str]) -> Diagnosis:
    groups = {name: " ".join(text.split()) for name, text in match.groupdict("").items()}
    if "package" in groups:
        groups["way"] = way_to(groups["package"])
    rank = int(groups["rank"]) if "rank" in groups else log.rank
    named = known(groups.get("host"), record.manifest.hosts)
    host = named or log.host or (record.host_of(rank) if rank is not None else None)
    if "survivor" in groups:
        survivors = {int(other["survivor"]) for other in match.re.finditer(log.text)}
        rank, host = _without(record, survivors)
    proof = _lines_of(log.text, match)
    own = next((own for own in record.rank_logs if own.rank == rank), None)
    if signature.proof == "rank" and own is not None and _written(own.text):
        log, proof = own, _last_words(own.text)
    proof = (*_place(record, log), *proof)
    return _told(record, signature, (host, rank), groups, log.path, proof)


def _told(
    record: RunRecord,
    signature: Signature,
    who: tuple[str | None, int | None],
    values: Mapping[str, Any],
    log: str,
    proof: tuple[str, ...],
) -> Diagnosis:
    """What a signature says of a host and a rank, filled in with values."""
    host, rank = who
    words = _Words({**values, "rank": rank, "host": host or "the node"})
    words["rank_log"] = next(
        (each.path for each in record.rank_logs if each.rank == rank), f"logs/rank-{rank}.log"
    )
    own = signature.program_remedy if record.is_project else None
    return Diagnosis(
        host=host,
        rank=rank,
        cause=signature.cause.format_map(words),
        remedy=(own or signature.remedy).format_map(words),
        signature=signature.name,
        log=log,
        proof=proof,
    )


def _place(record: RunRecord, log: Log) -> tuple[str, ...]:
    """The line of the user's code at which the rank fell whose words these are."""
    places = (crash.place for crash in record.crashes if crash.rank == log.rank)
    return tuple(filter(None, places))


def _without(record: RunRecord, survivors: set[int]) -> tuple[int | None, str | None]:
    """Who is left without the ranks that lost a peer: the rank, if it is one, and the hosts."""
    ranks = {entry.rank: entry.host for entry in record.world.ranks}
    left = sorted(ranks.keys() - survivors)
    hosts = dict.fromkeys(ranks[rank] for rank in left)
    return (left[0] if len(left) == 1 else None, ", ".join(hosts) or None)


def _failed_task(failures: Sequence[TaskFailure]) -> Diagnosis:
    """Ansible stopped, and ended what ran by then: its message is written for people."""
    first = failures[0]
    return Diagnosis(
        host=", ".join(dict.fromkeys(failure.host for failure in failures)),
        rank=None,
        cause=first.message.splitlines()[0],
        remedy=f'The task "{first.task}" failed; {ANSIBLE_LOG} has its whole output.',
        signature=None,
        log=ANSIBLE_LOG,
        proof=_messages(failures),
    )


def _messages(failures: Sequence[TaskFailure]) -> tuple[str, ...]:
    lines = [line for failure in failures for line in failure.message.splitlines()]
    return tuple(lines[:TAIL_LINES])


def _unknown(record: RunRecord, first_failed: int | None) -> Diagnosis:
    log = next(iter(_first(record.rank_logs, first_failed)), record.mpirun_log)
    rank = log.rank if log else None
    ended = "mpirun did not end by itself"
    if record.launcher_exit_status is not None:
        ended = f"mpirun ended with status {record.launcher_exit_status}"
    lines = [line for line in log.text.splitlines() if line.strip()] if log else []
    cause = f"Unknown: {ended}, and no known signature is in the logs."
    own = next((end for end in record.rank_ends if end.rank == rank and record.is_project), None)
    if own is not None:
        words = [line.strip() for line in lines if not OWN_LINE.match(line)]
        # What Hydra and wandb say at their end tells nothing.
        last = words[-1] if words else None
        said = next((line for line in reversed(words) if not NO_WORDS.match(line)), last)
        cause = f"Rank {rank} of the program ended by itself with status {own.exit_status}"
        cause += f"; its last output: {said}" if said else " and printed nothing."
    return Diagnosis(
        host=record.host_of(rank) if rank is not None else None,
        rank=rank,
        cause=cause,
        remedy="Read the lines below, then the other logs."
        if record.is_project
        else "Read the lines below, then the other logs; a cause that others may meet belongs "
        "into yard/runs/signatures.yml.",
        signature=None,
        log=log.path if log else None,
        proof=tuple(lines[-TAIL_LINES:]),
    )


def _first(logs: Iterable[Log], rank: int | None) -> list[Log]:
    return sorted(logs, key=lambda log: log.rank != rank)


def _lines_of(text: str, match: re.Match[str]) -> tuple[str, ...]:
    """The lines a match touches, at most three; of fewer, with those before, which lead to it."""
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    touched = _written(text[begin : end if end >= 0 else len(text)])[:PROOF_LINES]
    before = _written(text[:begin])
    return tuple(before[len(before) - (PROOF_LINES - len(touched)) :] + touched)


def _last_words(text: str) -> tuple[str, ...]:
    """The end of a rank's log; where Python's fault handler wrote last, from just before that."""
    lines = _written(text)
    died = [number for number, line in enumerate(lines) if line.startswith(FAULT)]
    begin = max(died[-1] - PROOF_LINES, 0) if died else -TAIL_LINES
    return tuple(lines[begin:][:TAIL_LINES])


def _written(text: str) -> list[str]:
    """Lines that say something: mpirun rules off its messages with dashes."""
    return [line.rstrip() for line in text.splitlines() if any(map(str.isalnum, line))]
