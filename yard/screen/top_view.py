"""The screen of `make top`: what is chosen, what keys do, and how it is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.table import Column, Table
from rich.text import Text

from yard.core.words import plural
from yard.runs.cluster_state import ENDED, ClusterState, NodeState, RunState
from yard.runs.folder import RUN_ID
from yard.screen.cluster_tables import NODE_COLUMNS, RUN_COLUMNS, node_cells, run_cells, state_text
from yard.screen.plain_table import plain_table

Logs = Mapping[str, Mapping[str, Mapping[int, str]]]
CHOSEN = "reverse"
# A screen of so many columns has room for a run's owner.
OWNER_FROM = 130
HELP = {
    "cluster": "q quit · ↑↓ jk choose · Enter ranks · s stop · / filter · o order · ? more",
    "ranks": "q quit · ↑↓ jk choose · Enter whole log · Esc back · s stop the run",
    "log": "q quit · Esc back · s stop the run",
}


# What `?` shows.
EXPLAINED = """\
q        quit                     ↑ ↓ j k   choose a node or a run
Enter    the ranks of what is chosen, then the whole log; Esc goes back
s        stop the run that is chosen, after a question
/        only nodes and runs that have a word in their names; Esc ends it
o        order the nodes by name, by processor, by memory in use

starting   its containers or ranks are not ready yet
running    it trains
ended      its ranks are over, and its files are still on the node: make attach RUN= fetches them
free       the node takes the next run
no answer, unreachable   make doctor says why

The bars behind the processor show its last minutes.   Any key goes back.
"""
# What the nodes can be put in order by; `o` goes to the next.
ORDERS = ("name", "processor", "memory")
# The bars behind a processor's load: their heights, of how many looks each is the mean, and how
# many there are at most.
BARS, LOOKS_EACH, MOST_BARS = "▁▂▃▄▅▆▇█", 5, 12


@dataclass(frozen=True)
class Rank:
    """The end of a rank's log."""

    run: str
    host: str
    rank: int
    text: str


@dataclass
class TopView:
    """What is shown, of what the nodes have told.

    Attributes:
        level: `cluster`, then `ranks` of a run or a node, then the `log` of one rank.
        subject: the run or the node whose ranks are shown.
        chosen: the line that is chosen, by name, so that it stays when others come or go.
        filter: what the names of nodes and runs must have in them.
        asks: the run about whose end the user is asked.
        stop: the run that is to be stopped; whoever stops it takes it out.
        history: how busy the processors of each node were, 0 to 100.
        order: one of ORDERS.
        explains: whether what the keys do fills the screen.
    """

    state: ClusterState | None = None
    logs: Logs = field(default_factory=dict)
    trouble: str = ""
    level: str = "cluster"
    subject: str = ""
    chosen: dict[str, str] = field(default_factory=dict)
    filter: str = ""
    is_typing: bool = False
    asks: str | None = None
    stop: str | None = None
    message: str = ""
    is_over: bool = False
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    order: str = ORDERS[0]
    explains: bool = False

    def press(self, key: str) -> None:
        """Obey one key; what was said before has been read."""
        self.message = ""
        if self.explains:
            self.explains = False
        elif self.asks is not None:
            self.stop = self.asks if key in ("y", "Y") else None
            self.asks = None
        elif self.is_typing:
            self._type(key)
        elif key == "q":
            self.is_over = True
        elif key in ("up", "k", "down", "j"):
            self._move(-1 if key in ("up", "k") else 1)
        elif key == "enter":
            self._go_in()
        elif key == "escape":
            self._go_back()
        elif key == "/" and self.level == "cluster":
            self.is_typing = True
        elif key == "?":
            self.explains = True
        elif key == "o":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        elif key == "s":
            self._ask()

    def render(self, width: int, height: int) -> RenderableType:
        """Draw it for a screen of so many columns and lines."""
        room = max(3, height - 3)
        if self.explains:
            body: RenderableType = Text(EXPLAINED)
        elif self.state is None:
            body = Text(self.trouble or "Asking the nodes ...")
        elif self.level == "cluster":
            body = self._cluster(self.state, width, room)
        elif self.level == "ranks":
            body = self._ranks(width, room)
        else:
            body = self._log(width, room)
        screen = Layout()
        screen.split_column(
            Layout(self._title(), size=2), Layout(body), Layout(self._foot(), size=1)
        )
        return screen

    # What there is to choose from

    @property
    def nodes(self) -> list[NodeState]:
        """The nodes that the filter lets through, or that carry a run that it does, in order."""
        nodes = self.state.nodes if self.state else ()
        shown = [
            node
            for node in nodes
            if self.filter in node.host or any(self.filter in run.run for run in node.runs)
        ]
        return shown if self.order == "name" else sorted(shown, key=self._busy, reverse=True)

    @property
    def runs(self) -> list[RunState]:
        """The runs that the filter lets through, or that are on a node that it does."""
        runs = self.state.runs if self.state else ()
        return [
            run
            for run in runs
            if self.filter in run.title or any(self.filter in host for host in run.hosts)
        ]

    @property
    def ranks(self) -> list[Rank]:
        """The ranks of the subject, which is a run or a node."""
        return sorted(
            (
                Rank(run, host, rank, text)
                for run, hosts in self.logs.items()
                for host, ranks in hosts.items()
                for rank, text in ranks.items()
                if self.subject in (run, host)
            ),
            key=lambda rank: (rank.run, rank.rank),
        )

    @property
    def names(self) -> list[str]:
        """What can be chosen at this level, in the order of the screen."""
        if self.level == "cluster":
            return [*(node.host for node in self.nodes), *(run.run for run in self.runs)]
        return [_name(rank) for rank in self.ranks]

    @property
    def choice(self) -> str | None:
        """What is chosen at this level; the first, where what was chosen is gone."""
        names = self.names
        wanted = self.chosen.get(self.level)
        return wanted if wanted in names else names[0] if names else None

    @property
    def chosen_run(self) -> RunState | None:
        """The run that a key would stop: the chosen one, or the only one of what is chosen."""
        if self.state is None:
            return None
        name = self.choice if self.level == "cluster" else self.subject
        found = [run for run in self.state.runs if name == run.run or name in run.hosts]
        return found[0] if len(found) == 1 else None

    def _busy(self, node: NodeState) -> float:
        """What nodes are ordered by; those that do not tell come last."""
        if node.load is None:
            return -1.0
        if self.order == "processor":
            return -1.0 if node.load.cpu_percent is None else node.load.cpu_percent
        used, whole = node.load.memory_used_bytes, node.load.memory_bytes
        return used / whole if used is not None and whole else -1.0

    # Keys

    def _type(self, key: str) -> None:
        if key == "enter":
            self.is_typing = False
        elif key == "escape":
            self.is_typing, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1:
            self.filter += key

    def _move(self, by: int) -> None:
        names, choice = self.names, self.choice
        if choice is not None:
            place = min(max(names.index(choice) + by, 0), len(names) - 1)
            self.chosen[self.level] = names[place]

    def _go_in(self) -> None:
        choice = self.choice
        if choice is None or self.level == "log":
            return
        if self.level == "cluster":
            self.level, self.subject = "ranks", choice
            self.chosen.pop("ranks", None)
        else:
            self.chosen["ranks"] = self.chosen["log"] = choice
            self.level = "log"

    def _go_back(self) -> None:
        if self.level == "cluster":
            self.filter = ""
        self.level = "ranks" if self.level == "log" else "cluster"

    def _ask(self) -> None:
        run = self.chosen_run
        if run is None:
            self.message = "choose a run first"
        elif not run.known:
            self.message = f"of another checkout: make stop RUN={run.run} ends it"
        else:
            self.asks = run.run

    # The screen

    def _title(self) -> Text:
        title = Text(" trainyard ", style="bold reverse")
        if self.state is not None:
            title.append(f" {plural(len(self.state.nodes), 'node')}, ", style="not reverse")
            title.append(plural(len(self.state.runs), "run"), style="not reverse")
        if self.level != "cluster":
            title.append(f" · {self.subject}", style="not reverse not bold")
        if self.trouble and self.state is not None:
            title.append(f" · {self.trouble}", style="not reverse red")
        title.no_wrap, title.overflow = True, "ellipsis"
        return title

    def _foot(self) -> Text:
        text = HELP[self.level]
        run = self.chosen_run
        if run is not None and run.state == ENDED and RUN_ID.fullmatch(run.run):
            text = f"it has ended: make attach RUN={run.run} fetches its files"
        if self.asks is not None:
            text = f"Stop {self.asks}? y/n"
        elif self.is_typing:
            text = f"/{self.filter}▏ Enter keeps it, Esc ends it"
        elif self.filter:
            text = f"filter {self.filter} (Esc ends it) · {text}"
        foot = Text()
        if self.message:
            # In front: a narrow screen has no room for both.
            foot.append(f"{self.message} · ", style="yellow")
        foot.append(text, style="dim" if self.asks is None else "bold yellow")
        foot.no_wrap, foot.overflow = True, "ellipsis"
        return foot

    def _cluster(self, state: ClusterState, width: int, room: int) -> RenderableType:
        # The owner comes last, and is left out first.
        columns = RUN_COLUMNS[: None if width >= OWNER_FROM else -1]
        nodes, runs = _table(NODE_COLUMNS), _table(columns)
        # Two lines are headings and one is between them; runs are few, as a rule.
        rows = max(2, room - 3)
        for_runs = min(len(self.runs), max(1, rows // 2, rows - len(self.nodes)))
        for place in _around([node.host for node in self.nodes], self.choice, rows - for_runs):
            nodes.add_row(*self._node_row(self.nodes[place]))
        for place in _around([run.run for run in self.runs], self.choice, for_runs):
            run = self.runs[place]
            cells = map(Text, run_cells(run, state.time))
            row = [Text(run.title, self._style(run.run)), state_text(run.state), *cells]
            runs.add_row(*row[: len(columns)])
        return Group(nodes, Text(), runs if self.runs else Text("no runs", style="dim"))

    def _node_row(self, node: NodeState) -> list[Text]:
        style = self._style(node.host)
        state = state_text(node.runs[0].state if node.runs else node.state)
        names = ", ".join(run.shown for run in node.runs) or node.reason
        busy, *others = node_cells(node.load)
        # As wide from the beginning as it will be, so that the columns behind it stay.
        busy = f"{busy:>5} {bars_of(self.history.get(node.host, ())):>{MOST_BARS}}"
        return [Text(node.host, style), state, *map(Text, (busy, *others)), Text(names)]

    def _ranks(self, width: int, height: int) -> RenderableType:
        """The last lines of every rank, as many as there is room for, around the chosen one."""
        ranks = self.ranks
        if not ranks:
            return Text("no rank has written a log there", style="dim")
        lines = max(1, height // len(ranks) - 1)
        room = max(1, height // (lines + 1))
        parts: list[RenderableType] = []
        for place in _around(self.names, self.choice, room):
            rank = ranks[place]
            style = CHOSEN if _name(rank) == self.choice else "bold"
            parts.append(Text(f"rank {rank.rank} on {rank.host}", style=style))
            parts += _last(rank.text, lines, width)
        return Group(*parts)

    def _log(self, width: int, height: int) -> RenderableType:
        rank = next((rank for rank in self.ranks if _name(rank) == self.choice), None)
        if rank is None:
            return Text("the log is gone", style="dim")
        return Group(
            Text(f"rank {rank.rank} on {rank.host}", style="bold"),
            *_last(rank.text, height - 1, width),
        )

    def _style(self, name: str) -> str:
        return CHOSEN if name == self.choice else ""


def _around(names: Sequence[str], choice: str | None, room: int) -> range:
    place = names.index(choice) if choice in names else 0
    first = max(0, min(place - room // 2, len(names) - room))
    return range(first, min(len(names), first + room))


def bars_of(history: Sequence[float]) -> str:
    """The newest of a history as bars, of 0 to 100."""
    parts = [history[at : at + LOOKS_EACH] for at in range(0, len(history), LOOKS_EACH)]
    means = [sum(part) / len(part) for part in parts[-MOST_BARS:]]
    return "".join(BARS[min(int(mean / 100 * len(BARS)), len(BARS) - 1)] for mean in means)


def _name(rank: Rank) -> str:
    return f"{rank.run} {rank.rank}"


def _last(text: str, lines: int, width: int) -> list[Text]:
    """The last lines of a log, each cut to the width."""
    shown = [line.expandtabs()[:width] for line in text.splitlines()[-lines:]]
    return [Text(line, no_wrap=True, overflow="ellipsis") for line in shown]


def _table(columns: Sequence[str]) -> Table:
    wide = {"run": 1, "progress": 1, "owner": 1}
    return plain_table(
        *(Column(name, no_wrap=True, ratio=wide.get(name)) for name in columns), expand=True
    )
