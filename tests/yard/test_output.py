"""What a program prints, on the screen and as numbers; recorded of tqdm 4 and rich, and made up."""

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extend import make_project
from rich.console import Console
from yard_command import DATA

from yard.core.context import Context
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations.ending import conclude
from yard.operations.launch import RunFollower
from yard.operations.lines import ProgramLines
from yard.pages.report import write_live_report
from yard.plays.contract import POLL_RUN
from yard.plays.events import Event
from yard.runs.bars import reading_of_bar, readings_of_bars
from yard.runs.folder import REPORT_ERROR
from yard.runs.gathering import GATHERED, METRICS, LineReader, all_readings, gather_readings
from yard.runs.manifest import read_manifest
from yard.runs.output import LINE_CHARACTERS, PIECE_CHARACTERS, Output, take_log
from yard.runs.pace import seconds_left_by
from yard.screen.live_progress import LiveProgress
from yard.screen.plain_progress import PlainProgress
from yard.screen.progress import MOST_AT_ONCE, Progress
from yard.screen.training_view import ProgramView

TQDM, RICH = ((DATA / f"output/{name}.log").read_bytes().decode() for name in ("tqdm", "rich"))
FIRST = "rank 0 of 2 on node1 (pid 17)\n"


def lines_of(text: str, size: int = PIECE_CHARACTERS) -> list[str]:
    output = Output()
    lines = []
    for begin in range(0, len(text), size):
        lines += output.take(0, text[begin : begin + size])[0]
    return lines + output.finish()


@pytest.mark.parametrize("size", [PIECE_CHARACTERS, 4000])
def test_a_bar_of_tqdm_is_one_line(size: int) -> None:
    lines = lines_of(TQDM, size)
    assert [line.split("|")[0].strip() for line in lines] == [
        "Epoch 1/2: 100%",
        "Epoch 2/2: 100%",
        "val acc 0.5",
        "Epochs: 100%",
        "3it [00:00, 32099.27it/s]",
    ]


def test_coloured_words_move_no_cursor() -> None:
    coloured = "\x1b[32mOK\n\x1b[1;31mDATA\x1b[0m\nA\x1b[33mWEAK\n"
    assert lines_of(coloured) == ["OK", "DATA", "AWEAK"]


def test_bars_of_rich_below_each_other_are_a_line_each() -> None:
    assert [line.split(" ━")[0] for line in lines_of(RICH)] == [
        "half way",
        "Training",
        "Epoch 1/4",
        "Loading  ",
    ]


def test_bars_below_each_other_stay_so_where_a_piece_ends_between_them() -> None:
    output = Output()
    pieces = ["a 1\n\rb 1\x1b[A\r", "a 2\n", "\rb 2\x1b[A\r", "a 3\n\rb 3\n"]
    lines = [line for piece in pieces for line in output.take(0, piece)[0]]
    assert lines + output.finish() == ["a 3", "b 3"]


def test_what_a_piece_cuts_in_two_is_put_together() -> None:
    text = "a\x1b[31mred\x1b[0m\r\x1b[2Kb\x1b]0;title\x07 c\nd"
    assert lines_of(text) == ["b c", "d"]
    for size in range(1, len(text)):
        assert lines_of(text, size) == ["b c", "d"], size


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[2J\x1b[H\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07x\x1b]8;;http://example.com\x1b\\y", "xy"),
        ("\x1bP1$r\x1b\\z\x1bc", "1$rz"),
        ("a\x07\x08\x00\x7f\x9b2Jb", "a2Jb"),
        ("\u202eevil\u2066\ud800", "evil"),
        ("a\tb", "a       b"),
        ("[bold]no markup[/]", "[bold]no markup[/]"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_left(said: str, shown: str) -> None:
    assert lines_of(said + "\n") == [shown]


def test_a_line_of_ten_megabytes_is_short_and_quick() -> None:
    began = time.process_time()
    (line,) = lines_of("x" * 10**7 + "\n", 256 << 10)
    assert len(line) == LINE_CHARACTERS
    assert time.process_time() - began < 5


def test_a_log_of_any_bytes_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n\xff\xfe caf\xc3\xa9\r\nlast \xc3")
    assert list(take_log(log, 1000)[0].tail) == ["first", "\ufffd\ufffd café", "last \ufffd"]
    assert list(take_log(log, 12)[0].tail) == ["last \ufffd"]
    assert list(take_log(tmp_path / "none", 12)[0].tail) == []


@pytest.mark.parametrize(
    ("bar", "place", "values"),
    [
        (
            " 40%|████  | 40/100 [00:05<00:07, 8.0it/s, loss=0.5]",
            (40, 100, None, None),
            {"loss": 0.5},
        ),
        ("Epoch [3/9]:  1%| | 1.5k/150k [00:05<1:02:07]", None, None),
        (
            "Epoch [3/9]:  1%| | 1.5k/150k [00:05<?, ?it/s, v=1e-4]",
            (1500, 150e3, 3, 9),
            {"v": 1e-4},
        ),
        ("Epochs:  33%|###  | 1/3 [00:05<00:10, 5s/it]", (None, None, 1, 3), {}),
        ("123it [00:05, 24.1it/s, acc=0.25]", (123, None, None, None), {"acc": 0.25}),
        (
            "Epoch 1/4 ━━━━╸━━━ 45/100 0:00:12 • 0:00:15 train_loss: 0.5",
            (45, 100, 1, 4),
            {"train_loss": 0.5},
        ),
        ("Working ━━━━━━━━╺━━━  45% 0:00:12", (45, 100, None, None), {}),
        ("downloading: 100% of 40/100 done", None, None),
        ("0%|" + "|" * 2000, None, None),
        ("━" * 2000 + " " * 2000, None, None),
    ],
)
def test_a_bar_says_where_a_program_is(bar: str, place: Any, values: Any) -> None:
    reading = reading_of_bar(bar)
    if place is None:
        assert reading is None
    else:
        assert reading is not None
        assert (reading.step, reading.steps, reading.epoch, reading.epochs) == place
        assert reading.values == values


def test_steps_below_a_bar_of_epochs_are_of_the_epoch_that_is_not_done() -> None:
    readings = LineReader(None, 1.0).read(Output().take(0, TQDM)[1])
    inner = {(each.step, each.epoch) for each in readings if each.steps == 3}
    assert {epoch for step, epoch in inner if step == 3} == {1, 2}


def test_a_bar_tells_when_each_of_its_steps_was_done() -> None:
    """A poll brings many states of a bar, all at once."""
    said = [
        "Epoch 1/2:  90%|█ | 9/10 [00:09<00:01, 1.0it/s]",
        "Epoch 2/2:  10%|█ | 1/10 [00:02<00:18, 2.0s/it]",
        "val acc 0.5",
        "Epoch 2/2:  40%|█ | 4/10 [00:08<00:12, 2.0s/it]",
    ]
    readings = readings_of_bars(said, 1000.0)
    assert [(each.step, each.time) for each in readings] == [(9, 994), (1, 994), (4, 1000)]
    view = ProgramView()
    for reading in readings:
        view.update(reading, 1000.0)
    assert view.position(1000.0) == "step 4/10 · 0:12 left"
    assert seconds_left_by(readings, 1003.0) == pytest.approx(9)
    assert [each.time for each in readings_of_bars(said)] == [None] * 3


@pytest.mark.parametrize(
    ("bars", "left"),
    [
        # One of four epochs is half done: 10 s of it, and 20 s for each of the others.
        (["Epoch 1/4:  50%|█████     | 30/60 [00:10<00:10,  3.0it/s]"], 70.0),
        (["Epoch 4/4:  50%|█████     | 30/60 [00:10<00:10,  3.0it/s]"], 10.0),
        (["train:  50%|█████     | 30/60 [00:10<00:10,  3.0it/s]"], 10.0),
        (["Epochs:  50%|█████     | 2/4 [00:40<00:40, 20.0s/it]"], 40.0),
        # What is inside knows nothing of the epochs.
        (
            [
                "Epochs:  50%|█████     | 2/4 [00:40<00:40, 20.0s/it]",
                "train:  50%|█████     | 30/60 [00:10<00:10,  3.0it/s]",
            ],
            40.0,
        ),
        (["Epoch 1/4:   0%|          | 0/60 [00:00<?, ?it/s]"], None),
    ],
)
def test_the_time_left_of_a_bar_is_that_of_all_epochs(bars: list[str], left: float | None) -> None:
    view = ProgramView()
    for bar in bars:
        reading = reading_of_bar(bar)
        assert reading is not None
        view.update(reading, 1000.0)
    assert view.time_left(1000.0) == left
    assert left is None or view.time_left(1004.0) == left - 4.0


def test_a_pattern_that_would_search_for_ever_is_given_up() -> None:
    reader = LineReader(r"(?P<x>(a+)+)$", 0.2)
    assert reader.read(["aaa"]) == []
    began = time.monotonic()
    reader.read(["a" * 60 + "b"])
    assert reader.gave_up
    assert time.monotonic() - began < 5
    assert reader.read(["5"]) == []


def answer(text: str, offset: int = 0, **more: Any) -> dict[str, Any]:
    end = offset + len(text.encode())
    output = {"offset": offset, "text": text}
    return {"began": True, "metrics": [], "output": output, "log_offset": end, **more}


def test_a_follower_shows_each_line_once_and_reads_the_bar(tmp_path: Path) -> None:
    lines = ProgramLines(tmp_path / METRICS)
    first = lines.listen(
        answer(f"{FIRST}begins\r\n 10%|█ | 1/10 [00:01<00:09, 1.0it/s, loss=3]"), 1000.0
    )
    assert (first.lines, [row[:4] for row in first.rows]) == (["begins"], [" 10%"])
    assert [(each.step, each.values) for each in first.readings] == [(1, {"loss": 3.0})]
    end = lines._output.end
    assert lines.listen(answer("", end), 1000.0).readings == []
    bar = "10%|█ | 1/10 [00:01<00:09, 1.0it/s]"
    ends = ProgramLines(tmp_path / METRICS).listen(answer(bar, exit_status=0), 1000.0)
    assert [each.step for each in ends.readings] == [1], "its last line is whole when it has ended"
    more = lines.listen(answer("\r 20%|█ | 2/10 [00:02<00:08, 1.0it/s, loss=2]", end), 1000.0)
    assert [each.step for each in more.readings] == [2]
    lost = lines.listen(answer("\ndone", lines._output.end + 1000, exit_status=0), 1000.0)
    assert lost.lines[0] == "(1,000 bytes of this log are not shown)"
    assert (lost.lines[-1], lost.rows) == ("done", ())


def test_a_program_that_reports_numbers_itself_has_no_bar_read(tmp_path: Path) -> None:
    lines = ProgramLines(tmp_path / METRICS)
    polled = answer(" 10%|█ | 1/10 [00:01<00:09, 1.0it/s]\n", metrics=[{"step": 5, "loss": 1.0}])
    assert lines.take(polled, 1.0)
    assert lines.listen(polled, 1000.0).readings == []


def test_a_pattern_is_applied_while_the_run_goes_on(tmp_path: Path) -> None:
    lines = ProgramLines(tmp_path / METRICS, r"step (?P<step>\d+) loss (?P<loss>[\d.]+)")
    # Half a number would be another one.
    first = lines.listen(answer("step 1 loss 0.5\nstep 2 loss 0."), 1000.0)
    assert [(each.step, each.values) for each in first.readings] == [(1, {"loss": 0.5})]
    second = lines.listen(answer("25\n", lines._output.end), 1000.0)
    assert [(each.step, each.values) for each in second.readings] == [(2, {"loss": 0.25})]
    hopeless = ProgramLines(tmp_path / METRICS, r"(?P<x>(a+)+)$")
    hopeless._reader._seconds = 0.1
    assert "no longer applied" in hopeless.listen(answer("a" * 60 + "b\n"), 1000.0).trouble
    assert hopeless.listen(answer("a" * 60 + "b\n"), 1000.0).trouble == ""


def follower_of(run: Path, console: Console, waits: bool = False) -> RunFollower:
    manifest = read_manifest(run)
    assert manifest is not None
    context = Context(Project(run), run, console, Interrupts())
    return RunFollower(context, run, manifest, "train", {}, waits=waits)


def follow(run: Path, progress: Progress, answers: list[dict[str, Any]]) -> RunFollower:
    follower = follower_of(run, progress.console)
    with progress:
        progress.view = follower.view
        for number, polled in enumerate(answers):
            event = Event("runner_on_ok", 1.8e9 + number, action=POLL_RUN, result=polled)
            follower.take(event, progress, 1.8e9)
    return follower


@pytest.mark.parametrize("waits", [False, True])
def test_who_waits_for_nodes_sees_no_failure_each_time(
    waits: bool, recorded: Callable[[str], Path]
) -> None:
    console = Console(file=io.StringIO(), record=True)
    follower = follower_of(recorded("succeeded"), console, waits)
    with LiveProgress(console) as progress:
        for kind in ("playbook_on_task_start", "runner_on_failed"):
            event = Event(kind, 1.8e9, role="training_run", task="Choose", task_file="check.yml")
            follower.take(event, progress, 1.8e9)
    assert ("Checking nodes" in console.export_text()) is not waits


@pytest.mark.parametrize(("phase", "mark"), [("check", "✓"), ("follow", "✗")])
def test_a_node_that_is_lost_ends_what_goes_on(
    phase: str, mark: str, recorded: Callable[[str], Path]
) -> None:
    """Before that, others may take its place."""
    console = Console(file=io.StringIO(), record=True)
    follower = follower_of(recorded("succeeded"), console)
    with LiveProgress(console) as progress:
        for kind in ("playbook_on_task_start", "runner_on_unreachable"):
            event = Event(kind, 1.8e9, role="training_run", task="Look", task_file=f"{phase}.yml")
            follower.take(event, progress, 1.8e9)
    assert console.export_text().lstrip().startswith(mark)


def test_lines_are_printed_plainly_without_a_terminal(recorded: Callable[[str], Path]) -> None:
    run = recorded("succeeded")
    make_project(run)
    screen = io.StringIO()
    progress = PlainProgress(Console(file=screen, width=40))
    text = f"{FIRST}[bold]x[/] \x1b[2J{'y' * 60}\n" + "z\n" * (MOST_AT_ONCE + 5)
    follow(run, progress, [answer(text), answer("the end", len(text.encode()), exit_status=0)])
    shown = screen.getvalue().splitlines()
    assert "(6 lines are not shown here; the log has them)" in shown
    assert (shown.count("z"), shown[-1]) == (MOST_AT_ONCE, "the end")


def test_numbers_of_bars_are_curves_of_the_live_report(recorded: Callable[[str], Path]) -> None:
    run = recorded("succeeded")
    make_project(run)
    follow(run, PlainProgress(Console(file=io.StringIO())), [answer(TQDM)])
    assert not (run / REPORT_ERROR).exists()
    assert "<h2>Metrics</h2>" in (run / "report.html").read_text()
    assert {"loss", "lr"} == {name for each in all_readings(run) for name in each.values}
    # At the end they are read from the whole log.
    (run / "logs/rank-0.log").write_text(TQDM)
    (run / GATHERED).unlink()
    gather_readings(run, None)
    assert [each.step for each in all_readings(run) if each.steps == 4][-1] == 4


def test_without_numbers_the_report_has_the_end_of_the_log(recorded: Callable[[str], Path]) -> None:
    run = recorded("succeeded")
    make_project(run)
    (run / "logs/rank-0.log").write_text(f"{FIRST}<b>\x1b[31mhello\n")
    conclude(run)
    text = (run / "report.html").read_text()
    assert "Last lines of rank 0" in text
    assert "&lt;b&gt;hello" in text
    text = write_live_report(run, time.time(), 10.0, ["still <i>"]).read_text()
    assert "still &lt;i&gt;" in text


def test_the_terminal_has_the_program_s_bar_above_its_own() -> None:
    console = Console(file=io.StringIO(), width=60, height=20, force_terminal=True)
    progress = LiveProgress(console)
    lines = ProgramLines(Path("none"))
    progress.view = lines.view
    progress.phase("Running")
    polled = answer(f"{FIRST}hello\n 10%|█ | 1/10 [00:01<00:09, 1.0it/s, loss=3] {'x' * 80}")
    lines.take(polled, time.time())
    printed = lines.listen(polled, 1000.0)
    progress.output(printed.lines, printed.rows)
    for reading in printed.readings:
        progress.training(reading, time.time())
    with console.capture() as capture:
        console.print(progress._render())
    bar, own, numbers = capture.get().splitlines()
    assert bar.startswith(" 10%|█ | 1/10")
    assert "step 1/10" in own
    assert numbers.strip() == "loss 3"


def test_answers_keep_to_json() -> None:
    """A lone surrogate, say, would not reach the control node."""
    assert json.loads(json.dumps(answer("caf\u00e9"))) == answer("café")
