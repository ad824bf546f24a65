"""`make top`: what keys do, what is drawn, and that it works in a terminal."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pexpect
import pytest
from rich.console import Console
from stand_in_nodes import KilledError, YardHere
from test_status import LOAD, NOW, STEPS, cluster, decoded, entry
from yard_command import RUN_ID, Yard, made, wait_for

from yard.core.console import ForeignTextConsole
from yard.core.context import Context
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import watching
from yard.operations.watching import Watcher
from yard.plays.events import Event, Outcome
from yard.screen.keys import read_key
from yard.screen.top_view import TopView

OTHERS = "20260101T000000Z_vit"


@pytest.fixture
def view(tmp_path: Path) -> TopView:
    """Two nodes of a run of this checkout, one of another's, and a free one."""
    (tmp_path / RUN_ID).mkdir()
    state = cluster(
        tmp_path,
        node1=[entry(metric=decoded(STEPS[11]))],
        node2=[entry()],
        node3=[entry(OTHERS)],
        node4=[],
    )
    logs = {
        RUN_ID: {"node1": {0: numbered("a")}, "node2": {1: numbered("b")}},
        OTHERS: {"node3": {0: "other\n"}},
    }
    return TopView(state=state, logs=logs)


def numbered(name: str) -> str:
    return "".join(f"{name} line {number}\n" for number in range(100))


def looked(runs: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """What the monitor of a node writes."""
    return {"runs": runs, "load": LOAD, "time": NOW, "trouble": None, "logs": {}, **changes}


def press(view: TopView, *keys: str) -> TopView:
    for key in keys:
        view.press(key)
    return view


def drawn(view: TopView, width: int = 140, height: int = 24, console: type = Console) -> str:
    screen = console(width=width, height=height, record=True, file=io.StringIO())
    screen.print(view.render(width, height))
    text: str = screen.export_text()
    assert len(text.splitlines()) <= height
    return text


def test_it_begins_with_nodes_and_runs(view: TopView) -> None:
    text = drawn(view)
    for words in ("4 nodes, 2 runs", "62 %", "87 %", "4.0 GB of 16 GB", "71 GB", "node4"):
        assert words in text
    assert f"step {STEPS[11].step}/390" in text
    assert "Asking the nodes ..." in drawn(TopView())
    assert "no such host" in drawn(TopView(trouble="no such host"))
    view.trouble = "no such host"
    assert "no such host" in drawn(view)


def test_keys_choose_and_stay_within_the_list(view: TopView) -> None:
    assert view.names == ["node1", "node2", "node3", "node4", OTHERS, RUN_ID]
    assert view.choice == "node1"
    assert press(view, "up", "j", "down", "k").choice == "node2"
    assert press(view, *["j"] * 20).choice == view.names[-1]


def test_the_choice_stays_when_nodes_go(view: TopView, tmp_path: Path) -> None:
    press(view, "j")
    view.state = cluster(tmp_path, node2=[], node9=[])
    assert view.choice == "node2"
    view.state = cluster(tmp_path, node9=[])
    assert view.choice == "node9"


def test_enter_leads_to_ranks_and_to_a_log_and_escape_back(view: TopView) -> None:
    view.chosen["cluster"] = RUN_ID
    text = drawn(press(view, "enter"))
    assert "rank 0 on node1" in text
    assert "rank 1 on node2" in text
    assert "a line 99" in text
    assert "b line 99" in text
    assert "other" not in text
    text = drawn(press(view, "j", "enter"))
    assert "a line" not in text
    assert "b line 99" in text
    assert "b line 82" in text
    press(view, "escape")
    assert (view.level, view.choice) == ("ranks", f"{RUN_ID} 1")
    press(view, "escape")
    assert (view.level, view.choice) == ("cluster", RUN_ID)
    # Of a node its own ranks alone.
    text = drawn(press(view, "k", "k", "k", "k", "k", "enter"))
    assert "rank 0 on node1" in text
    assert "node2" not in text


def test_of_many_the_chosen_one_is_on_the_screen(view: TopView, tmp_path: Path) -> None:
    view.logs = {RUN_ID: {"node1": {rank: f"of {rank}\n" for rank in range(64)}}}
    view.chosen["cluster"] = RUN_ID
    press(view, "enter", *["j"] * 40)
    assert "rank 40 on node1" in drawn(view, height=12)
    press(view, "escape")
    nodes: dict[str, Any] = {f"node{number:03}": [] for number in range(200)}
    view.state = cluster(tmp_path, **nodes)
    view.chosen["cluster"] = "node150"
    text = drawn(view, width=80, height=16)
    assert "node150" in text
    assert "node000" not in text


def test_the_filter_lets_runs_and_their_nodes_through(view: TopView) -> None:
    press(view, "/", *"nodq", "backspace", "e", "3")
    assert view.is_typing
    assert view.names == ["node3", OTHERS]
    press(view, "enter", "j")
    assert (view.is_typing, view.choice, view.is_over) == (False, OTHERS, False)
    assert len(press(view, "escape").names) == 6


def test_a_run_is_stopped_only_after_a_yes(view: TopView) -> None:
    press(view, "s")
    assert view.asks == RUN_ID
    assert f"Stop {RUN_ID}? y/n" in drawn(view)
    press(view, "q")
    assert [view.asks, view.stop, view.is_over] == [None, None, False]
    press(view, "s", "y")
    assert view.stop == RUN_ID


@pytest.mark.parametrize(
    ("choice", "message"), [("node3", "another checkout"), ("node4", "choose a run")]
)
def test_what_is_no_run_of_ours_is_not_stopped(choice: str, message: str, view: TopView) -> None:
    view.chosen["cluster"] = choice
    press(view, "s")
    assert message in view.message
    assert view.message[:40] in drawn(view)
    press(view, "y")
    assert (view.asks, view.stop, view.message) == (None, None, "")


def test_what_a_rank_prints_does_not_steer_the_terminal(view: TopView) -> None:
    view.logs = {RUN_ID: {"node1": {0: "\x1b]0;title\x07 \x1b[2J end\n"}}}
    view.chosen["cluster"] = RUN_ID
    assert "␛]0;title ␛[2J end" in drawn(press(view, "enter"), console=ForeignTextConsole)


@pytest.fixture
def terminal() -> Iterator[tuple[int, Callable[[bytes], int]]]:
    """A terminal, and what presses its keys."""
    keyboard, screen = pty.openpty()
    tty.setraw(screen)
    yield screen, lambda keys: os.write(keyboard, keys)
    os.close(keyboard)
    os.close(screen)


@pytest.mark.parametrize(
    ("pressed", "keys"),
    [
        (b"jq", ["j", "q"]),
        (b"\x1b[A\x1bOB\r", ["up", "down", "enter"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[3~x", ["", "x"]),
        (b"\x1b[1;5Cx", ["", "x"]),
        ("é/".encode(), ["é", "/"]),
        (b"\x7f\x01", ["backspace", ""]),
    ],
)
def test_keys_have_names(
    pressed: bytes, keys: list[str], terminal: tuple[int, Callable[[bytes], int]]
) -> None:
    screen, press_keys = terminal
    press_keys(pressed)
    assert [read_key(screen, 1) for _ in keys] == keys
    assert read_key(screen, 0) is None


def event(kind: str, module: str, host: str = "node1", **result: Any) -> Event:
    return Event(kind, NOW, "", "", "", "", module, host, result, False)


def test_the_first_answer_is_not_shown_before_others_could_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("yard.operations.watching.time.monotonic", lambda: clock[0])
    watcher = Watcher(Context(Project(tmp_path), tmp_path, Console(), Interrupts()))
    free, busy = (looked(runs) for runs in ([], [entry()]))
    watcher.take(event("runner_retry", "ansible.builtin.raw", stdout=json.dumps(free)))
    assert watcher.seen.state is None
    clock[0] += 2
    watcher.take(event("runner_retry", "ansible.builtin.raw", "node2", stdout=json.dumps(busy)))
    assert watcher.seen.state is not None
    assert [len(node.runs) for node in watcher.seen.state.nodes] == [0, 1]
    assert watcher.seen.history == {"node1": (61.5,), "node2": (61.5,)}


def test_nodes_are_put_in_order_and_keys_explained(view: TopView) -> None:
    assert view.state is not None
    slow, quick = view.state.nodes[0], view.state.nodes[1]
    assert slow.load is not None
    idle = replace(slow, load=replace(slow.load, cpu_percent=1.0))
    view.state = replace(view.state, nodes=(idle, quick))
    assert [node.host for node in view.nodes] == ["node1", "node2"]
    press(view, "o")
    assert [node.host for node in view.nodes] == ["node2", "node1"]
    seen = (0.0,) * 5 + (100.0,) * 5
    view.history = {"node1": seen}
    one = drawn(view)
    assert "62 %" in one
    view.history = {"node1": seen * 9}
    other = drawn(view)
    assert re.search(r" 1 % +▁█  ", one)
    assert one.index("GB of") == other.index("GB of"), "no column moves as more is known"
    assert "make attach RUN= fetches them" in drawn(press(view, "?"))
    assert "node2" in drawn(press(view, "q"))
    assert not view.is_over, "any key goes back, and does nothing else"


def test_a_name_stands_before_the_id(tmp_path: Path) -> None:
    (tmp_path / RUN_ID).mkdir()
    (tmp_path / RUN_ID / "manifest.json").write_text('{"name": "first light"}')
    state = cluster(tmp_path, node1=[entry()])
    assert state.runs[0].title == f"first light ({RUN_ID})"
    assert "first light (" in drawn(TopView(state=state))


def test_looks_at_nodes_are_taken_in_as_foreign_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "FIRST", 0)
    (tmp_path / "runs").mkdir()
    project = Project(tmp_path)
    watcher = Watcher(Context(project, tmp_path, Console(), Interrupts()))
    names = {"rank-0.log": "a\r 1 %\r 2 %\n", "rank-x.log": "b\n", "mpirun.log": "c\n"}
    found = looked([entry()], logs={RUN_ID: names})
    watcher.take(event("runner_retry", "ansible.builtin.raw", stdout=json.dumps(found)))
    watcher.take(event("runner_retry", "ansible.builtin.raw", "node2", stdout="cat: no such file"))
    watcher.take(event("runner_on_unreachable", "training_node", "node3"))
    # As of make status, and not of this form: it must not hide the other nodes.
    more = json.dumps(looked([], apt={"who": 1}))
    watcher.take(event("runner_retry", "ansible.builtin.raw", "node4", stdout=more))
    # The next look has begun, and is not over.
    watcher.take(event("runner_on_start", "ansible.builtin.raw"))
    seen = watcher.seen
    assert seen.state is not None
    assert [(node.host, node.state) for node in seen.state.nodes] == [
        ("node1", "busy"),
        ("node2", "no answer"),
        ("node3", "unreachable"),
        ("node4", "no answer"),
    ]
    assert seen.logs == {RUN_ID: {"node1": {0: " 2 %"}}}
    assert watcher.news.is_set()
    watcher.take(event("runner_on_unreachable", "ansible.builtin.raw", "node1"))
    assert watcher.seen.logs == {}


def test_a_node_that_cannot_be_looked_at_has_its_state_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `make status`; that nothing is there to be read afterwards does not hide it."""
    monkeypatch.setattr(watching, "FIRST", 0)
    watcher = Watcher(Context(Project(tmp_path), tmp_path, Console(), Interrupts()))
    for host, told in (
        ("node1", {"msg": "there is no /srv/runs: run make setup", "code": "no_directory"}),
        ("node2", {"msg": "timed out", "timedout": {"period": 5}}),
        ("node3", {"msg": "there is no python3"}),
    ):
        watcher.take(event("runner_on_failed", "training_node", host, **told))
        watcher.take(event("runner_retry", "ansible.builtin.raw", host, stderr="cannot cd"))
    trouble = {"code": "no_engine", "values": {"message": "refused"}}
    said = json.dumps(looked([], trouble=trouble))
    watcher.take(event("runner_retry", "ansible.builtin.raw", "node4", stdout=said))
    state = watcher.seen.state
    assert state is not None
    assert [(node.state, node.reason.partition(":")[0]) for node in state.nodes] == [
        ("not set up", "there is no /srv/runs"),
        ("no answer", "silent for 5 s"),
        ("no answer", "there is no python3"),
        ("no engine", "refused"),
    ]
    assert "silent for 5 s" in drawn(TopView(state=state))
    watcher.take(event("runner_retry", "ansible.builtin.raw", stdout=json.dumps(looked([]))))
    watcher.take(event("runner_on_unreachable", "ansible.builtin.raw", msg="gone"))
    state = watcher.seen.state
    assert state is not None
    assert (state.nodes[0].state, state.nodes[0].reason) == ("unreachable", "gone")


def test_what_cannot_be_shown_does_not_end_the_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    watcher = Watcher(Context(Project(tmp_path), tmp_path, Console(), Interrupts()))
    looks: list[str] = []

    def publish(trouble: str) -> None:
        looks.append(trouble)
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr(watcher, "_publish", publish)
    monkeypatch.setattr(watching, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(watching, "play", lambda *_, **__: Outcome("successful", (), {}))
    with watcher:
        wait_for(lambda: len(looks) > 1, "another look")
    assert watcher.seen.trouble == "int too large to convert to float"


@pytest.mark.process
def test_without_a_terminal_it_says_so(ready: Yard) -> None:
    done = ready("top")
    assert done.returncode == 2
    assert "make status prints the same" in done.stderr
    assert made("top").endswith(" top")


def keep(yard: Yard, host: str, run: str, stop: threading.Event) -> None:
    """Write what a node finds, as its process would, until a test has seen enough."""
    number = 0
    while not stop.is_set():
        number += 1
        lines = {"metric": {"step": number, "steps": 9000, "time": time.time()}}
        logs = {run: {"rank-0.log": f"rank 0 has said {number} words\n"}}
        found = looked([entry(run, **lines)], time=time.time(), logs=logs)
        new = yard.root / f"nodes/{host}/state.new"
        new.write_text(json.dumps(found))
        new.rename(new.with_name("state.json"))
        time.sleep(0.5)


def killed() -> NoReturn:
    raise KilledError


@pytest.mark.process
@pytest.mark.promise("row 37", "make top")
def test_a_user_watches_and_stops_a_run(ready_process: Yard) -> None:
    """Real keys in a real terminal: to the rank and back, stop, quit.

    Who began the run was killed, so that the stop sums it up.
    """
    ready, here = ready_process, YardHere(ready_process.root)
    here.during["Follow the run"] = [killed]
    with pytest.raises(KilledError):
        here("train", "--model", "vit", "--nodes", "2", "--set", "steps=6000")
    runs = ready.root / "runs"
    run = (runs / "latest").resolve().name
    job, place = ready.root / "roles/training_run/files/job.py", ready.root / "nodes/node1" / run
    training = subprocess.Popen([sys.executable, job, place, "success", "6000"])
    wait_for((place / "pid").exists, "its ranks")
    over = threading.Event()
    looking = threading.Thread(target=keep, args=(ready, "node1", run, over))
    looking.start()
    (ready.root / "nodes/node2/unplugged").touch()
    command = ready.command("top")
    screen = pexpect.spawn(
        command[0],
        command[1:],
        cwd=str(ready.root),
        # Narrow, and whatever size the terminal of the tests has.
        env={**ready.environment, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
        dimensions=(24, 80),
        timeout=90,
        encoding="utf-8",
    )
    try:
        screen.expect("Asking the nodes")
        screen.expect("unreachable")
        screen.expect(r"step \d+/9000")
        screen.send("j\x1b[Bj")
        screen.send("\r")
        screen.expect(r"rank 0 has said \d+ words")
        first = screen.match.group()
        screen.expect(r"rank 0 has said \d+ words")
        assert screen.match.group() != first, "it is looked at again"
        (ready.root / "nodes/node2/unplugged").unlink()
        screen.send("s")
        screen.expect(f"Stop {run}")
        screen.send("y")
        screen.expect(f"stopped {run[:30]}")
        screen.send("\x1b")
        screen.expect("filter")
        screen.send("q")
        screen.expect(pexpect.EOF)
        screen.close()
        assert screen.exitstatus == 0
    finally:
        over.set()
        looking.join()
        screen.close(force=True)
    training.wait(timeout=60)
    assert (place / "exit_status").read_text() == "130\n"
    assert json.loads((runs / run / "summary.json").read_text())["status"] == "stopped"
