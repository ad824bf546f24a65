"""`make status` and `make top`: what runs where, asked of the nodes once, or again and again."""

import json
import subprocess
import sys
import time

from rich.console import Console
from rich.live import Live

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.operations.beside import start_beside
from yard.operations.state import ask_nodes
from yard.operations.watching import Watcher
from yard.plays.play import log_of
from yard.screen.cluster_tables import show_cluster
from yard.screen.keys import read_key, single_keys
from yard.screen.top_view import TopView

# How long a key is waited for before the screen is looked at, and how often it is drawn though
# nothing has come, for what counts down; in seconds.
LOOK, DRAW = 0.1, 2.0
# Has what the last `make stop` from here printed.
STOP_LOG = "top-stop"


def show_status(context: Context, as_json: bool = False) -> Exit:
    """Print a line for every node and every run, and the runs that no node knows.

    Args:
        as_json: print one JSON document instead, which docs/run.md describes.
    """
    state = ask_nodes(context)
    if as_json:
        # What nodes say is escaped in it, so it cannot steer a terminal.
        print(json.dumps(state.to_json(), indent=2))
    else:
        show_cluster(context.console, context.project, context.inventory, state)
    return Exit.DONE


def top(context: Context) -> Exit:
    """Show the nodes until the user has seen enough."""
    if not (context.console.is_terminal and sys.stdin.isatty()):
        raise RequestError("top: needs a terminal; make status prints the same without one")
    view, terminal = TopView(), sys.stdin.fileno()
    stops: dict[str, subprocess.Popen[bytes]] = {}
    screen = Live(console=context.console, screen=True, auto_refresh=False)
    with Watcher(context) as watcher, single_keys(terminal), screen:
        drawn_at = 0.0
        while not view.is_over and not context.interrupts.requested:
            try:
                key = read_key(terminal, LOOK)
            except EOFError:
                break
            if key is not None:
                view.press(key)
            if view.stop is not None:
                stops[view.stop] = start_beside(context, STOP_LOG, "stop", view.stop)
                view.message, view.stop = f"stopping {view.stop} ...", None
            has_news = watcher.news.is_set() or _look_at_stops(context, view, stops)
            if not has_news and key is None and time.monotonic() - drawn_at < DRAW:
                continue
            watcher.news.clear()
            seen = watcher.seen
            view.state, view.logs, view.trouble = seen.state, seen.logs, seen.trouble
            view.history = seen.history
            _draw(screen, context.console, view)
            drawn_at = time.monotonic()
    return Exit.DONE


def _draw(screen: Live, console: Console, view: TopView) -> None:
    screen.update(view.render(console.width, console.height), refresh=True)


def _look_at_stops(
    context: Context, view: TopView, stops: "dict[str, subprocess.Popen[bytes]]"
) -> bool:
    """Say which runs have been stopped meanwhile; returns whether one has."""
    over = {run: stop for run, stop in stops.items() if stop.poll() is not None}
    log = log_of(context, STOP_LOG)
    for run, stop in over.items():
        why = f"make stop failed: {context.project.shown(log)}"
        view.message = f"stopped {run}" if stop.returncode == 0 else why
        del stops[run]
    return bool(over)
