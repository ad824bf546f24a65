"""What the screen says of a training."""

import io
import re
import time

import pytest
from rich.console import Console
from yard_command import DATA

from yard.core.words import clock, duration
from yard.runs.metrics import Metric, read_metrics
from yard.runs.readings import Reading
from yard.screen import plain_progress
from yard.screen.live_progress import LiveProgress
from yard.screen.plain_progress import PlainProgress
from yard.screen.training_view import ProgramView, TrainingView

RECORDED = read_metrics(DATA / "runs/succeeded/metrics.jsonl")


def view_after(metrics: tuple[Metric, ...]) -> TrainingView:
    view = TrainingView()
    for metric in metrics:
        view.update(metric, received_at=metric.time)
    return view


def test_nothing_is_made_up_before_the_first_step() -> None:
    view = view_after(RECORDED[:1])
    assert view.position(0) == "waiting for the first step"
    assert view.numbers() == ""


def test_time_left_goes_by_the_mean_step_and_counts_down() -> None:
    half = tuple(metric for metric in RECORDED if metric.step <= 190)
    view = view_after(half)
    spent = half[-1].time - half[0].time
    left = view.time_left(half[-1].time)
    assert left is not None
    assert left == pytest.approx(spent / 190 * 200)
    assert view.time_left(half[-1].time + 10) == pytest.approx(left - 10)
    assert view.time_left(half[-1].time + 10_000) == 0
    assert view.position(half[-1].time).startswith("step 190/390 · ")


def test_numbers_have_the_accuracy_of_the_last_test() -> None:
    assert view_after(RECORDED).numbers().startswith("epoch 5/5 · loss 1.")
    assert "test accuracy 40.7 %" in view_after(RECORDED).numbers()


def test_plain_lines_are_few() -> None:
    """A whole training that comes at once is its epochs and one line of steps."""
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=200))
    with progress:
        progress.phase("Training")
        for metric in RECORDED:
            progress.training(metric, metric.time)
    lines = out.getvalue().splitlines()
    assert lines[0] == "Training ..."
    assert len([line for line in lines if line.startswith("  epoch ")]) == 5
    assert len([line for line in lines if line.startswith("  step ")]) == 1


def test_plain_lines_name_the_task_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the one before it, which was over in no time."""
    monkeypatch.setattr(plain_progress, "LONG_TASK", 0.6)
    monkeypatch.setattr(plain_progress, "REPEAT_INTERVAL", 1.0)
    out = io.StringIO()
    with PlainProgress(Console(file=out, width=200)) as progress:
        progress.phase("Setting up")
        progress.task("Look at the image")
        progress.task("Build the image")
        deadline = time.monotonic() + 20
        while "so far" not in out.getvalue():
            assert time.monotonic() < deadline, out.getvalue()
            time.sleep(0.1)
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["Setting up ...", "  Build the image"]
    assert re.fullmatch(r"  Build the image, [\d.]+ s so far", lines[2])


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.24, "4.2 s"), (59.2, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_clock() -> None:
    assert (clock(83), clock(3723)) == ("1:23", "1:02:03")


def program_after(*lines: dict[str, float], seconds: float = 10.0) -> ProgramView:
    """The view of a program whose lines came one after the other, the first at 100 s."""
    view = ProgramView()
    for number, line in enumerate(lines):
        reading = Reading.from_json(line)
        assert reading is not None
        view.update(reading, received_at=100 + number * seconds)
    return view


def test_a_program_shows_what_it_says() -> None:
    view = program_after(
        {"step": 1, "steps": 4, "acc": 0.1},
        {"step": 3, "steps": 4, "loss": 2.1041, "epoch": 1, "epochs": 3},
        {"acc": 0.381},
    )
    assert view.position(110) == "step 3/4 · 0:05 left"
    assert view.position(112) == "step 3/4 · 0:03 left"
    assert view.numbers() == "epoch 1/3 · loss 2.104 · acc 0.381"
    assert view.extent == (3, 4)


def test_a_program_without_steps_shows_its_numbers_and_the_time() -> None:
    view = program_after({"loss": 2.0}, {"loss": 12345.6, "lr": 2e-5})
    assert view.position(230) == "running for 2:10"
    assert view.numbers() == "loss 12,346 · lr 2e-05"
    assert view.extent is None
    many = program_after({f"k{number}": float(number) for number in range(30)})
    assert many.numbers().endswith("k5 5 · 24 more")


def test_a_program_that_says_nothing_is_not_waited_for() -> None:
    out = io.StringIO()
    with PlainProgress(Console(file=out, width=200)) as progress:
        view = ProgramView()
        progress.view = view
        progress.goes_on()
        assert out.getvalue() == ""
        view.begin(time.time() - 130)
        progress.phase(view.phase)
        progress.goes_on()
        progress.goes_on()
    assert out.getvalue().splitlines() == [
        "Running ...",
        "  running for 2:10",
    ]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (({"step": 1, "steps": 4, "loss": 2.0},), ["step 1/4", "loss 2", "━"]),
        (({"epoch": 1, "acc": 0.5},), ["running for", "epoch 1 · acc 0.500"]),
    ],
)
def test_a_terminal_draws_a_bar_where_the_end_is_known(
    lines: tuple[dict[str, float], ...], shown: list[str]
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    progress = LiveProgress(console)
    progress.view = program_after(*lines)
    progress.phase(progress.view.phase)
    console.print(progress._render())
    text = out.getvalue()
    assert all(part in text for part in shown)
    assert ("━" in text) == ("━" in shown)


def test_a_long_task_takes_no_room_from_the_time() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    progress = LiveProgress(console)
    progress.phase("Prepare the data set")
    progress.task("dataset 2/2 : Decode the archive and check it against what it should hold")
    progress._task_began = progress._phase_began = time.monotonic() - 62
    console.print(progress._render())
    line = out.getvalue().rstrip("\n")
    assert len(line) == 80
    assert line[1:].startswith(" Prepare the data set · dataset 2/2 : Decode")
    assert re.search(r"… 1 min \d s$", line)
