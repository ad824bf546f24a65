"""What browsers are shown of the cluster, kept up to date as long as one of them looks."""

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from yard.core.context import Context
from yard.operations.watching import Seen, Watcher
from yard.pages.index import row_of
from yard.pages.page import TEMPLATES
from yard.pages.spark import spark
from yard.runs.folder import is_followed, list_runs
from yard.runs.overview import Overview, overview_of
from yard.screen.cluster_tables import node_cells, run_cells, run_line

# How often runs are looked at, in seconds; the nodes tell by themselves, every two.
LOOK = 2.0
# The nodes are asked for so long after the last browser has gone, in seconds: one that loads its
# page anew is back before.
GRACE = 10.0
# Something is sent after so many seconds at the latest: many a proxy closes a connection on which
# nothing has come for a minute.
ALIVE = 20.0
# Files whose change changes a row.
FILES = ("manifest.json", "summary.json", "labels.json", "metrics.jsonl", "report.html")
CLOCK = time.monotonic


@dataclass(frozen=True)
class Drawn:
    """A run as it was drawn last.

    Attributes:
        of: the state of its files then, see `_state_of`.
        at: which drawing it was; later ones have higher numbers, also after a restart.
        html: None of a run that is gone.
    """

    of: tuple[Any, ...]
    at: int
    html: str | None
    overview: Overview | None


class Board:
    """Rows of runs, and what the nodes tell; `watch` makes what asks the nodes."""

    def __init__(self, context: Context, watch: Callable[[Context], Watcher] = Watcher) -> None:
        self.context = context
        self.seen = Seen()
        self._watch = watch
        # Replaced as a whole: the server reads it while a thread looks at the runs.
        self._drawn: dict[str, Drawn] = {}
        self._looks = threading.Lock()
        self._notes: list[tuple[int, str]] = []
        self._wanted_until = 0.0
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        # The macros of a template are attributes of its module, of which no type knows.
        self._row = TEMPLATES.get_template("rows.html.j2").module.row  # type: ignore[attr-defined]

    @property
    def rows(self) -> list[str]:
        """The rows of all runs, the newest first."""
        drawn = sorted(self._drawn.items(), reverse=True)
        return [row.html for _, row in drawn if row.html is not None]

    @property
    def overviews(self) -> list[Overview]:
        """What there is to say of all runs."""
        return [row.overview for row in self._drawn.values() if row.overview is not None]

    @property
    def is_asking(self) -> bool:
        """Whether the nodes are being asked."""
        return self._task is not None and not self._task.done()

    def look(self) -> int:
        """Draw the runs that have changed; returns the number of the newest drawing."""
        with self._looks:
            now = time.time_ns() // 1000
            there = {run.name: run for run in list_runs(self.context.project.runs)}
            drawn = dict(self._drawn)
            for name, run in there.items():
                before, of = drawn.get(name), _state_of(run)
                if before is None or before.of != of:
                    overview = overview_of(run)
                    html = str(self._row(row_of(run, overview), "runs/", True))
                    drawn[name] = Drawn(of, now, html, overview)
            for name in drawn.keys() - there.keys():
                if drawn[name].html is not None:
                    drawn[name] = Drawn((), now, None, None)
            self._drawn = drawn
            return max((row.at for row in drawn.values()), default=0)

    def want(self, seconds: float = GRACE) -> None:
        """Ask the nodes for so long, at least."""
        self._wanted_until = max(self._wanted_until, CLOCK() + seconds)
        if not self.is_asking:
            self._task = asyncio.create_task(self._follow())

    def say(self, text: str) -> None:
        """Show a sentence to everybody whose page is open."""
        # Replaced as a whole, as threads call this; `events` finds it within two seconds.
        self._notes = [*self._notes[-20:], (time.time_ns() // 1000, text)]

    async def events(self, since: int, run: str | None) -> AsyncIterator[str]:
        """What is new for one browser, as server-sent events.

        Args:
            since: the newest drawing that it has.
            run: the one whose page it shows; None on the page of all runs.
        """
        noted, sent_at = time.time_ns() // 1000, CLOCK()
        told: dict[str, Any] = {}
        yield "retry: 2000\n\n"
        while True:
            self.want()
            news = self._news
            fresh: list[tuple[str, Any]] = []
            rows = {name: row for name, row in self._drawn.items() if row.at > since}
            since = max((row.at for row in rows.values()), default=since)
            if run is None and rows:
                fresh.append(("rows", {name: row.html for name, row in rows.items()}))
            if run in rows:
                fresh.append(("run", None))
            fresh += [("note", text) for at, text in self._notes if at > noted]
            noted = max([noted, *(at for at, _ in self._notes)])
            for name, value in self._live(run):
                if told.get(name) != value:
                    told[name] = value
                    fresh.append((name, value))
            for name, value in fresh:
                yield f"event: {name}\ndata: {json.dumps(value)}\n\n"
                sent_at = CLOCK()
            if CLOCK() - sent_at > ALIVE:
                yield ": nothing new\n\n"
                sent_at = CLOCK()
            try:
                await asyncio.wait_for(news.wait(), LOOK)
            except TimeoutError:
                continue

    def _live(self, run: str | None) -> list[tuple[str, Any]]:
        """What the nodes tell, as far as a page shows it."""
        if run is None:
            return [("nodes", self.nodes())]
        logs = self.seen.logs.get(run, {})
        ranks = {rank: text for of_host in logs.values() for rank, text in of_host.items()}
        state = self.seen.state
        told = ""
        one = next((one for one in state.runs if one.run == run), None) if state else None
        if state and one:
            told = f"{run_cells(one, state.time)[0]} · {run_line(one, state.time)}"
        return [("logs", dict(sorted(ranks.items()))), ("progress", told)]

    def nodes(self) -> str:
        """The nodes as HTML, and on the first of each run's how far that is."""
        state, history = self.seen.state, self.seen.history
        told: dict[tuple[str, str], str] = {}
        if state is not None:
            for run in state.runs:
                told[run.hosts[0], run.run] = run_line(run, state.time)
        nodes = [
            (
                node,
                node_cells(node.load),
                Markup(spark(list(enumerate(history.get(node.host, ()))), (0.0, 100.0))),
            )
            for node in (state.nodes if state else ())
        ]
        template = TEMPLATES.get_template("web_nodes.html.j2")
        return template.render(nodes=nodes, trouble=self.seen.trouble, told=told)

    async def _follow(self) -> None:
        """Look at runs and nodes as long as somebody wants that."""
        watcher = self._watch(self.context)
        watcher.__enter__()
        try:
            while CLOCK() < self._wanted_until:
                try:
                    await asyncio.to_thread(self.look)
                except OSError as error:  # it may be over the next time, and the nodes still tell
                    self.say(str(error))
                watcher.news.clear()
                self.seen = watcher.seen
                self._wake()
                began = CLOCK()
                while CLOCK() - began < LOOK and not watcher.news.is_set():
                    await asyncio.sleep(0.2)
        finally:
            self.seen = Seen()
            # Its playbook takes a while to end.
            await asyncio.to_thread(watcher.__exit__)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _state_of(run: Path) -> tuple[Any, ...]:
    """What a row is drawn from, as far as it shows that something has changed."""
    # pathlib takes four times as long, which counts with a thousand runs.
    files, folder = [], str(run)
    for name in FILES:
        try:
            about = os.stat(f"{folder}/{name}")
            files.append((about.st_mtime_ns, about.st_size))
        except OSError:
            files.append((0, 0))
    # A run with a summary is over, and nobody follows it.
    return (*files, files[1] == (0, 0) and is_followed(run))
