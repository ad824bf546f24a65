"""Looks at the nodes again and again, in a thread of its own."""

import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from yard.core.context import Context
from yard.core.interrupts import Interrupts
from yard.operations.state import why_missed
from yard.plays.answers import WATCHED
from yard.plays.contract import CALL_NODE, READ_WATCH, WATCH_NODE
from yard.plays.events import Event
from yard.plays.play import fresh_log, play
from yard.runs.cluster_state import Answers, ClusterState
from yard.runs.output import drawn
from yard.runs.record import RANK_LOG

PLAYBOOK = "top"
# A playbook that ends sooner has found nothing to look at; the next one begins after as long, in
# seconds.
LEAST_SECONDS = 5.0
# Seconds to wait for other nodes after the first answer: before they have answered, their runs
# would seem not to be there.
FIRST = 1.5
# Looks for which the load of a node's processors is kept: those of five minutes.
MOST_LOOKS = 150
# Events of a look that is over.
READ = ("runner_retry", "runner_on_ok", "runner_on_failed")


@dataclass
class Seen:
    """What the nodes have told last.

    Attributes:
        state: None until a node has been heard of.
        logs: the ends of ranks' logs, by run, host and rank.
        trouble: why the nodes cannot be asked; "" where they can.
        history: how busy the processors of each node were at the last looks, 0 to 100.
    """

    state: ClusterState | None = None
    logs: Mapping[str, Mapping[str, Mapping[int, str]]] = field(default_factory=dict)
    trouble: str = ""
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)


class Watcher:
    """Keeps a playbook alive that looks at the nodes every two seconds.

    Use as a context manager. `news` is set whenever something has come.
    """

    def __init__(self, context: Context) -> None:
        # Its end is asked for by this process alone, not by a signal.
        self._context = replace(context, interrupts=Interrupts())
        self._answers = Answers(context.project.runs)
        self._logs: dict[str, dict[str, dict[int, str]]] = {}
        self._first_at = float("inf")
        self._history: dict[str, deque[float]] = {}
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.seen = Seen()
        self.news = threading.Event()

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.interrupts.request()
        self._thread.join()

    def _watch(self) -> None:
        while not self._context.interrupts.requested:
            began = time.monotonic()
            try:
                log = fresh_log(self._context, PLAYBOOK)
                outcome = play(self._context, PLAYBOOK, {}, self.take, log=log)
                troubles = [failure.message for failure in outcome.failures]
            except Exception as error:  # it is shown, and may be over the next time
                troubles = [str(error)]
            trouble = troubles[0].splitlines()[0] if troubles and troubles[0] else ""
            try:
                self._publish(trouble)
            except Exception as error:  # of what nodes said; without this thread nothing new came
                self.seen = Seen(trouble=str(error))
                self.news.set()
            while (
                time.monotonic() - began < LEAST_SECONDS and not self._context.interrupts.requested
            ):
                time.sleep(0.1)

    def take(self, event: Event) -> None:
        """Take in one event of the playbook."""
        if event.module not in (CALL_NODE, WATCH_NODE, READ_WATCH) or not event.host:
            return
        has_failed = event.kind in ("runner_on_unreachable", "runner_on_failed")
        reads = event.module == READ_WATCH and event.kind in READ
        if not has_failed and not reads:
            return
        found = _decoded(event.result.get("stdout")) if reads else None
        self._first_at = min(self._first_at, time.monotonic())
        if found is not None:
            self._answers.take(event.host, found)
        elif event.kind == "runner_on_unreachable" or not self._answers.is_missed(event.host):
            # Of a node whose answer is none nothing is known now, whatever it was before. Why it
            # has nothing to be read is what it said when it was to begin.
            self._answers.miss(event.host, *why_missed(event))
        self._logs[event.host] = {} if found is None else _logs_of(found)
        busy = None if found is None else found["load"]["cpu_percent"]
        if busy is not None:
            self._history.setdefault(event.host, deque(maxlen=MOST_LOOKS)).append(busy)
        self._publish("")

    def _publish(self, trouble: str) -> None:
        if self._answers.is_empty:
            self.seen = Seen(trouble=trouble)
        elif time.monotonic() - self._first_at < FIRST and not trouble:
            return
        else:
            by_run: dict[str, dict[str, Mapping[int, str]]] = {}
            for host, runs in sorted(self._logs.items()):
                for run, logs in runs.items():
                    by_run.setdefault(run, {})[host] = logs
            history = {host: tuple(busy) for host, busy in self._history.items()}
            self.seen = Seen(self._answers.state(time.time(), ()), by_run, trouble, history)
        self.news.set()


def _decoded(text: Any) -> dict[str, Any] | None:
    with suppress(TypeError, ValueError, RecursionError):
        found: dict[str, Any] = json.loads(text)
        return found if WATCHED(found) else None
    return None


def _logs_of(found: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    logs = {}
    for run, by_name in found["logs"].items():
        named = [(RANK_LOG.fullmatch(name), text) for name, text in by_name.items()]
        logs[run] = {int(name["rank"]): drawn(str(text)) for name, text in named if name}
    return logs
