"""Runs a playbook through ansible-runner and hands its events to the caller."""

import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import ansible_runner

from yard.core.project import Project
from yard.core.room import check_room
from yard.core.unheard import forget_settings
from yard.plays.events import TAIL_LINES, Event, FailureRecord, Outcome, TaskFailure, parse_event
from yard.plays.leftovers import clear_leftovers, end_workers, private_folder

# How long ansible-playbook gets to end its workers before it is killed, in seconds.
CANCEL_GRACE = 10.0
# How often the caller's thread looks up from waiting for events, in seconds.
TICK = 0.2
# Events as ansible-runner gives them, then None: the playbook has ended.
Received = queue.SimpleQueue[dict[str, Any] | None]
# Of what a task on one node answers, in characters; what is larger has no result.
LARGEST_RESULT = 32 * 10**6
# Terminal codes that modules' own output may carry into the log file.
CONTROL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


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
        extravars: variables that win over all others; what looks like a template in them is none.
        log: gets Ansible's whole output, appended.
        on_event: what it raises ends the playbook, and is raised again when that has ended.
        cancelled: asked several times a second; once true, Ansible and its workers are ended.
        limit: hosts of the inventory to run on; none means all.
    """
    received: Received = queue.SimpleQueue()

    def enqueue(event: dict[str, Any]) -> bool:
        received.put({**event, "received_at": time.time()})
        return False  # no file per event: a long run has many thousand

    log.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers()
    with private_folder() as private, log.open("a", encoding="utf-8") as log_file:
        give_up = threading.Event()
        runner = ansible_runner.interface.init_runner(
            private_data_dir=private,
            project_dir=str(project.root),
            playbook=str(playbook),
            inventory=str(inventory.absolute()),
            limit=",".join(limit) or None,
            extravars=_as_text(extravars),
            envvars=_environment(project),
            settings={"suppress_output_file": True, "pexpect_timeout": 1},
            event_handler=enqueue,
            cancel_callback=give_up.is_set,
            quiet=True,
        )
        # It says that no host key is checked where nobody says whether.
        forget_settings(runner.config.env)
        thread = _RunnerThread(runner, received)
        thread.start()
        recorder = _Recorder(log_file)
        follower = _Follower(recorder, on_event, cancelled, give_up, private)
        follower.follow(thread, received)
        end_workers(Path(private), CANCEL_GRACE)
    trouble = follower.trouble or thread.trouble
    if trouble is not None:
        raise trouble
    return recorder.outcome(runner.rc, follower.cancelled_at is not None)


def _as_text(value: Any) -> Any:
    """Mark every text that looks like a template as one that is none.

    Among them are words of users and of nodes, which Ansible would execute. It reads the mark in
    files of variables (ansible._internal._json._profiles._legacy), and takes no key for a template.
    """
    if isinstance(value, str):
        return {"__ansible_unsafe": value} if "{" in value else value
    if isinstance(value, Mapping):
        return {key: _as_text(entry) for key, entry in value.items()}
    return [_as_text(entry) for entry in value] if isinstance(value, list | tuple) else value


class _RunnerThread(threading.Thread):
    """Runs ansible-runner, and says with None that the playbook has ended.

    Attributes:
        trouble: what ansible-runner raised, which writes files of its own. The playbook may run on.
    """

    def __init__(self, runner: Any, received: Received) -> None:
        super().__init__()
        self.trouble: Exception | None = None
        self._runner = runner
        self._received = received

    def run(self) -> None:
        """Run the playbook to its end."""
        try:
            self._runner.run()
        except Exception as error:
            self.trouble = error
        finally:
            self._received.put(None)


@dataclass
class _Follower:
    """Hands the events of a playbook over until it has ended, and ends it when that is asked.

    Attributes:
        give_up: set, ansible-runner kills ansible-playbook.
        private: the folder into which ansible-playbook writes every event.
        trouble: what the caller's handler raised, or the log. A closed pipe perhaps: Ansible must
            not wait for a reader that is gone. Or a full disk.
        cancelled_at: when the end was asked for, monotonic seconds; None where it was not.
    """

    recorder: "_Recorder"
    on_event: Callable[[Event], None]
    cancelled: Callable[[], bool]
    give_up: threading.Event
    private: str
    trouble: Exception | None = None
    cancelled_at: float | None = None
    _terminated: bool = False

    def follow(self, thread: threading.Thread, received: Received) -> None:
        """Follow until ansible-runner's thread has ended and all its events were handled."""
        while thread.is_alive() or not received.empty():
            for raw in _arriving(received):
                if raw is None:
                    thread.join()
                else:
                    self._handle(raw)
            self._look_at_room()
            if self.cancelled_at is None and thread.is_alive() and self._is_unwanted():
                self.cancelled_at = time.monotonic()
            if self.cancelled_at is not None:
                self._end(self.cancelled_at)
        thread.join()

    def _look_at_room(self) -> None:
        """Notice a full disk: ansible-playbook, whose callback could not write, waits for ever."""
        try:
            check_room(self.private)
        except OSError as error:
            self.trouble = self.trouble or error

    def _handle(self, raw: Mapping[str, Any]) -> None:
        event = parse_event(raw)
        try:
            self.recorder.record(event, raw)
            if self.trouble is None:
                self.on_event(event)
        except Exception as error:
            self.trouble = self.trouble or error

    def _is_unwanted(self) -> bool:
        return self.trouble is not None or self.cancelled()

    def _end(self, cancelled_at: float) -> None:
        """Ask ansible-playbook to end, and have it killed when it takes too long.

        The process is known from its first event on. Killed before that, it might leave workers
        that it has just started.
        """
        if not self._terminated and self.recorder.pid is not None:
            self._terminated = True
            _terminate(self.recorder.pid)
        if time.monotonic() - cancelled_at > CANCEL_GRACE:
            self.give_up.set()


class _Recorder:
    def __init__(self, log: TextIO) -> None:
        self.pid: int | None = None
        self._log = log
        self._tail: list[str] = []
        self._failures = FailureRecord()

    def record(self, event: Event, raw: Mapping[str, Any]) -> None:
        """Take in one event, and ansible-runner's own form of it."""
        text = CONTROL_CODES.sub("", raw.get("stdout") or "").replace("\r\n", "\n").strip("\r\n")
        # Before the log, which a full disk may not take: who ends the playbook needs them.
        self.pid = raw.get("pid", self.pid)
        self._failures.take(event, raw.get("event_data") or {})
        if text:
            self._tail = [*self._tail, *text.splitlines()][-TAIL_LINES:]
            self._log.write(text + "\n")
            self._log.flush()

    def outcome(self, exit_status: int | None, cancelled: bool) -> Outcome:
        """How the playbook ended; a killed ansible-playbook has no exit status."""
        status = "cancelled" if cancelled else "successful" if exit_status == 0 else "failed"
        failures = self._failures.fatal_failures()
        if status == "failed" and not failures:
            message = "\n".join(self._tail) or f"ended with status {exit_status}"
            failures = (TaskFailure("control node", "ansible-playbook", "", "", message, False),)
        return Outcome(status, failures, self._failures.stats)


def _environment(project: Project) -> dict[str, str]:
    return {
        "ANSIBLE_CONFIG": str(project.root / "ansible.cfg"),
        "ANSIBLE_FORCE_COLOR": "false",
        "ANSIBLE_NOCOLOR": "true",
        # ansible-runner drops the result of an event that is larger than 700,000 characters.
        "MAX_EVENT_RES": str(LARGEST_RESULT),
        # The ansible-playbook of this virtual environment, whether or not it is activated.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }


def _arriving(received: Received) -> Iterator[dict[str, Any] | None]:
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
