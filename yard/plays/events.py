"""What a playbook tells while it runs, reduced to what is used here."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from yard.plays.answers import is_answer
from yard.plays.contract import CALL_NODE

# How many of Ansible's last lines stand for a failure that no task reported.
TAIL_LINES = 10
# What a node may say in a message, in characters; the whole is in the log.
MESSAGE_LENGTH = 4000
# Events with what a module answered that did not fail.
ANSWERS = ("runner_on_ok", "runner_retry")
# What Python says where Ansible's module cannot be unpacked on a host
_NO_ROOM = re.compile(r"No usable temporary directory found in \[([/\w., '-]+)\]")
# How Ansible begins what ssh said
_OF_ANSIBLE = re.compile(
    r"^(Task failed: )?(Failed to connect to the host via ssh: "
    r"|Data could not be sent to remote host .*? over ssh: ?)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Event:
    """One event of a playbook.

    Attributes:
        kind: ansible-runner's name of the event, like `runner_on_ok`.
        received_at: when it reached this process, Unix seconds of the control node's clock.
        play, role, task, host: names; empty where the event has none.
        task_file: path of the file the task stands in.
        action: the module's name as the task has it.
        ignored: whether a failure has no consequence (`ignore_errors`).
    """

    kind: str
    received_at: float
    play: str = ""
    role: str = ""
    task: str = ""
    task_file: str = ""
    action: str = ""
    host: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    ignored: bool = False

    @property
    def module(self) -> str:
        """The module's name without its collection: the roles may come from one.

        Of the node program it is the verb, unless the event does not tell it.
        """
        return self.action.rpartition(".")[2]


@dataclass(frozen=True)
class Problem:
    """What a role says is wrong: decisions depend on the code, people read the text.

    Attributes:
        code: what it is, of the role's table of problems.
        text: the same as a sentence.
        host: the node; None where it is about all of them.
    """

    code: str
    text: str
    host: str | None


@dataclass(frozen=True)
class TaskFailure:
    """A task that failed on a host and was not rescued."""

    host: str
    task: str
    role: str
    task_file: str
    message: str
    unreachable: bool
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class HostStats:
    """Ansible's recap of one host: number of tasks."""

    ok: int
    changed: int
    failed: int
    unreachable: int


@dataclass(frozen=True)
class Outcome:
    """How a playbook ended.

    Attributes:
        status: `successful`, `failed` or `cancelled`.
        failures: what failed, in order of time; Ansible itself, if it was no task (a syntax error).
        stats: Ansible's recap by host; empty when it was cancelled.
    """

    status: str
    failures: tuple[TaskFailure, ...]
    stats: Mapping[str, HostStats]

    @property
    def ok(self) -> bool:
        """Whether every task of every host went well."""
        return self.status == "successful"

    @property
    def cancelled(self) -> bool:
        """Whether it was ended before it had ended by itself."""
        return self.status == "cancelled"


def parse_event(raw: Mapping[str, Any]) -> Event:
    """Build an event from ansible-runner's, with the time at which it was received.

    A node that answers something else than its module does is as one that cannot be reached.
    """
    data = raw.get("event_data") or {}
    result = data.get("res")
    event = Event(
        kind=raw["event"],
        received_at=raw["received_at"],
        play=data.get("play") or data.get("name") or "",
        role=data.get("role") or "",
        task=data.get("task") or "",
        task_file=(data.get("task_path") or "").rpartition(":")[0],
        action=data.get("task_action") or "",
        host=data.get("host") or "",
        result=result if isinstance(result, dict) else {},
        ignored=bool(data.get("ignore_errors")),
    )
    verb, answer = event.result.get("verb"), event.result.get("answer")
    if event.module == CALL_NODE and isinstance(verb, str):
        result = answer if isinstance(answer, dict) else event.result
        event = replace(event, action=f"{event.action}.{verb}", result=result)
    if event.kind in ANSWERS and not is_answer(event.module, event.result):
        message = f"{event.host} gave an answer of another form than {event.module} has"
        return replace(event, kind="runner_on_unreachable", result={"msg": message})
    return event


def parse_failure(event: Event) -> TaskFailure:
    """What an event of a failure says."""
    unreachable = event.kind == "runner_on_unreachable"
    say = unreachable_reason if unreachable else failure_message
    return TaskFailure(
        host=event.host,
        task=event.task,
        role=event.role,
        task_file=event.task_file,
        message=say(event.result),
        unreachable=unreachable,
        problems=parse_problems(event.result.get("problems")),
    )


def parse_problems(entries: Any) -> tuple[Problem, ...]:
    """What a module says is wrong, without what is no problem."""
    return tuple(
        Problem(
            str(entry["code"]),
            shortened(str(entry["text"])),
            None if entry.get("host") is None else str(entry["host"]),
        )
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and "code" in entry and "text" in entry
    )


def shortened(text: str) -> str:
    """A text, or the beginning of one that is far too long."""
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]} …"


class FailureRecord:
    """Collects the failures of a playbook and its recap."""

    def __init__(self) -> None:
        self.stats: dict[str, HostStats] = {}
        self._failures: list[TaskFailure] = []
        self._rescued: Counter[str] = Counter()

    def take(self, event: Event, data: Mapping[str, Any]) -> None:
        """Take in one event, and the data of ansible-runner that it was made from."""
        if event.kind in ("runner_on_failed", "runner_on_unreachable") and not event.ignored:
            self._failures.append(parse_failure(event))
        if event.kind == "playbook_on_stats":
            self._rescued = Counter(data.get("rescued", {}))
            self.stats = {
                host: HostStats(
                    ok=data.get("ok", {}).get(host, 0),
                    changed=data.get("changed", {}).get(host, 0),
                    failed=data.get("failures", {}).get(host, 0),
                    unreachable=data.get("dark", {}).get(host, 0),
                )
                for host in data.get("processed", {})
            }

    def fatal_failures(self) -> tuple[TaskFailure, ...]:
        """What ended a host, without what Ansible was told to ignore or rescued.

        On a host the rescued failures come first: the first that is not rescued ends it.
        """
        rescued = Counter(self._rescued)
        fatal = []
        for failure in self._failures:
            stats = self.stats.get(failure.host)
            if failure.unreachable and stats is not None and stats.unreachable == 0:
                continue  # ignore_unreachable: the event alone does not tell
            if not failure.unreachable and rescued[failure.host] > 0:
                rescued[failure.host] -= 1
                continue
            fatal.append(failure)
        return tuple(fatal)


def unreachable_reason(result: Mapping[str, Any]) -> str:
    """Why Ansible does not reach a host: what ssh said at its end, without Ansible's words.

    ssh says of a host key that has changed a dozen lines, and what it comes to in the last two.
    """
    said = _OF_ANSIBLE.sub("", str(result.get("msg") or "").strip())
    return shortened(" ".join(said.splitlines()[-2:])) or "no answer"


def failure_message(result: Mapping[str, Any]) -> str:
    """What a failed module has to say, in one text: its message, else what its command wrote."""
    results = result.get("results")
    items = [
        failure_message(item)
        for item in (results if isinstance(results, list) else [])
        if isinstance(item, dict) and (item.get("failed") or item.get("unreachable"))
    ]
    if items:
        return "\n".join(items)
    message = shortened(str(result.get("msg") or "").strip())
    # A module that cannot even be unpacked has no message of its own.
    for stream in ("module_stderr", "module_stdout"):
        full = _NO_ROOM.search(str(result.get(stream) or ""))
        if full:
            return f"nothing can be written there: df {full[1].replace(',', '')} shows what is full"
    parts = [message]
    for stream in ("stderr", "module_stderr", "stdout", "module_stdout"):
        text = str(result.get(stream) or "").strip()
        if text and text not in message:
            parts.append(shortened("\n".join(text.splitlines()[-TAIL_LINES:])))
            break
    return "\n".join(part for part in parts if part) or "the task failed without a message"
