"""Runs a playbook through ansible-runner and hands its events to the caller."""

import os
import queue
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import ansible_runner

from yard.leftovers import clear_leftovers, end_workers, private_folder
from yard.project import Project

# How long ansible-playbook gets to end its workers before it is killed, in seconds.
CANCEL_GRACE = 10.0
# How often the caller's thread looks up from waiting for events, in seconds.
TICK = 0.2
# Terminal codes that modules' own output may carry into the log file.
CONTROL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Event:
    """One event of a playbook, reduced to what is used here.

    Attributes:
        kind: ansible-runner's name of the event, like `runner_on_ok`.
        received_at: when it reached this process, Unix seconds of the control node's clock.
        play, role, task, host: names; empty where the event has none.
        task_file: path of the file the task stands in.
        action: the module's name as the task has it.
        result: what the module returned.
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


@dataclass(frozen=True)
class TaskFailure:
    """A task that failed on a host and was not rescued."""

    host: str
    task: str
    role: str
    task_file: str
    message: str
    unreachable: bool


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


def run_playbook(
    project: Project,
    playbook: Path,
    inventory: Path,
    extravars: Mapping[str, Any],
    log: Path,
    on_event: Callable[[Event], None],
    cancelled: Callable[[], bool] = lambda: False,
    limit: Sequence[str] = (),
) -> Outcome:
    """Run a playbook to its end; events are handed over in the caller's thread.

    Ansible runs in a session of its own, so a Ctrl-C on the terminal reaches this process alone.
    ansible-runner's files hold the environment and the variables: they live in a private
    temporary folder and go with it.

    Args:
        log: gets Ansible's whole output, appended.
        cancelled: asked several times a second; once true, Ansible and its workers are ended.
        limit: hosts of the inventory to run on; none means all.
    """
    received: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def enqueue(event: dict[str, Any]) -> bool:
        received.put({**event, "received_at": time.time()})
        return False  # no file per event: a long run has many thousand

    log.parent.mkdir(parents=True, exist_ok=True)
    give_up = threading.Event()
    clear_leftovers()
    with (
        private_folder() as private,
        log.open("a", encoding="utf-8") as log_file,
    ):
        thread, runner = ansible_runner.run_async(
            private_data_dir=private,
            project_dir=str(project.root),
            playbook=str(playbook),
            inventory=str(inventory.absolute()),
            limit=",".join(limit) or None,
            extravars=dict(extravars),
            envvars=_environment(project),
            settings={"suppress_output_file": True, "pexpect_timeout": 1},
            event_handler=enqueue,
            cancel_callback=give_up.is_set,
            quiet=True,
        )
        recorder = _Recorder(log_file)
        cancelled_at: float | None = None
        asked = False
        trouble: Exception | None = None
        while thread.is_alive() or not received.empty():
            for raw in _arriving(received):
                recorder.record(raw)
                if trouble is not None:
                    continue
                try:
                    on_event(_event(raw))
                except Exception as error:
                    # A closed pipe perhaps. Ansible must not wait for somebody who is gone.
                    trouble = error
            wanted = trouble is None and not cancelled()
            if cancelled_at is None and not wanted and thread.is_alive():
                cancelled_at = time.monotonic()
            if cancelled_at is None:
                continue
            # The process is known from its first event on. Killed before that, it might leave
            # workers that it has just started.
            if not asked and recorder.pid is not None:
                asked = True
                _terminate(recorder.pid)
            if time.monotonic() - cancelled_at > CANCEL_GRACE:
                give_up.set()
        thread.join()
        end_workers(Path(private), CANCEL_GRACE)
    if trouble is not None:
        raise trouble
    if cancelled_at is not None:
        status = "cancelled"
    else:
        status = "successful" if runner.rc == 0 else "failed"
    failures = recorder.fatal_failures()
    if status == "failed" and not failures:
        message = "\n".join(recorder.tail) or f"ended with status {runner.rc}"
        failures = (TaskFailure("control node", "ansible-playbook", "", "", message, False),)
    return Outcome(status, failures, recorder.stats)


def _environment(project: Project) -> dict[str, str]:
    """What Ansible's environment needs besides the user's own."""
    return {
        "ANSIBLE_CONFIG": str(project.root / "ansible.cfg"),
        "ANSIBLE_FORCE_COLOR": "false",
        "ANSIBLE_NOCOLOR": "true",
        # The ansible-playbook of this virtual environment, whether or not it is activated.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }


def _arriving(received: "queue.SimpleQueue[dict[str, Any]]") -> Iterator[dict[str, Any]]:
    """Yield what has come, waiting one tick for the first."""
    try:
        yield received.get(timeout=TICK)
        while True:
            yield received.get_nowait()
    except queue.Empty:
        return


def _terminate(pid: int) -> None:
    """Ask ansible-playbook to end; it passes the signal on to its workers and their commands.

    ansible-runner's own cancellation kills only the process group of ansible-playbook, and each
    worker has a session of its own: their commands would run on.
    """
    with suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(pid, signal.SIGTERM)


def _event(raw: Mapping[str, Any]) -> Event:
    data = raw.get("event_data") or {}
    result = data.get("res")
    return Event(
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


class _Recorder:
    """Writes the log and keeps what the outcome needs."""

    TAIL_LINES = 10

    def __init__(self, log: TextIO) -> None:
        self.pid: int | None = None
        self.stats: dict[str, HostStats] = {}
        self.tail: list[str] = []
        self._log = log
        self._failures: list[TaskFailure] = []
        self._rescued: Counter[str] = Counter()

    def record(self, raw: Mapping[str, Any]) -> None:
        text = CONTROL_CODES.sub("", raw.get("stdout") or "").replace("\r\n", "\n").strip("\r\n")
        if text:
            self._log.write(text + "\n")
            self._log.flush()
            self.tail = [*self.tail, *text.splitlines()][-self.TAIL_LINES :]
        self.pid = raw.get("pid", self.pid)
        data = raw.get("event_data") or {}
        kind = raw["event"]
        event = _event(raw)
        if kind in ("runner_on_failed", "runner_on_unreachable") and not event.ignored:
            self._failures.append(
                TaskFailure(
                    host=event.host,
                    task=event.task,
                    role=event.role,
                    task_file=event.task_file,
                    message=failure_message(event.result),
                    unreachable=kind == "runner_on_unreachable",
                )
            )
        if kind == "playbook_on_stats":
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


def failure_message(result: Mapping[str, Any]) -> str:
    """What a failed module has to say, in one text: its message, else what its command wrote."""
    items = [
        failure_message(item)
        for item in result.get("results", [])
        if isinstance(item, dict) and (item.get("failed") or item.get("unreachable"))
    ]
    if items:
        return "\n".join(items)
    message = str(result.get("msg") or "").strip()
    parts = [message]
    for stream in ("stderr", "module_stderr", "stdout", "module_stdout"):
        text = str(result.get(stream) or "").strip()
        if text and text not in message:
            parts.append("\n".join(text.splitlines()[-10:]))
            break
    return "\n".join(part for part in parts if part) or "the task failed without a message"
