"""What programs of the user's own report: foreign lines, of whatever form."""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extend import make_project
from rich.console import Console
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from test_schemas import errors

from yard.core.context import Context
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations.checkpoints import CheckpointCarrier
from yard.operations.launch import RunFollower
from yard.operations.lines import ProgramLines
from yard.plays.contract import POLL_RUN
from yard.plays.events import Event
from yard.runs.gathering import GATHERED, METRICS, all_readings, gather_readings
from yard.runs.manifest import read_manifest
from yard.runs.noted import MOST_SILENCES
from yard.runs.readings import MOST_KEYS, Reading, last_values, read_readings, within_limits
from yard.screen.plain_progress import PlainProgress

LINES: list[Any] = [
    {"step": 1, "steps": 4, "loss": 0.9, "lr": 0.1, "note": "word"},
    {"epoch": 1, "val/acc": 0.5, "time": 1795175100.5},
    {"event": "step", "step": 2, "time": 0.25},
]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_line_says_where_it_belongs_and_what_it_measured(tmp_path: Path) -> None:
    first, second, third = read_readings(write(tmp_path / METRICS, LINES))
    assert (first.step, first.steps, first.values) == (1, 4, {"loss": 0.9, "lr": 0.1})
    assert (second.time, second.epoch, second.values) == (1795175100.5, 1, {"val/acc": 0.5})
    # It is a program's own event, and its time is no moment but seconds.
    assert (third.time, third.step, third.values) == (None, 2, {"time": 0.25})


def test_what_is_written_is_read_again_and_fits_the_schema(tmp_path: Path) -> None:
    readings = read_readings(write(tmp_path / METRICS, LINES))
    text = "".join(reading.to_line() for reading in readings)
    (tmp_path / "again").write_text(text)
    assert read_readings(tmp_path / "again") == readings
    for line in (*LINES, *map(json.loads, text.splitlines())):
        assert errors("metrics", line) == []


@pytest.mark.parametrize(
    "line",
    [
        *(7, None, [1], {}, {"a": "1"}, {"a": True}, {"a": math.nan}, {"a": -math.inf}),
        *({"a": 10**400}, {"": 1}, {"a" * 65: 1}, {"\x1b[2J": 1}, {"a": {"b": 1}}),
    ],
)
def test_a_line_without_a_number_that_can_be_shown_is_none(line: Any) -> None:
    assert Reading.from_json(line) is None


def test_a_place_that_cannot_be_one_is_a_value() -> None:
    assert Reading.from_json({"step": -1, "epoch": 1e300}) == Reading(
        values={"step": -1, "epoch": 1e300}
    )


def test_names_are_limited_and_the_loss_stays(tmp_path: Path) -> None:
    lines = [{f"key {number}": 1.0} for number in range(500)] + [{"loss": 2.0}]
    values = last_values(read_readings(write(tmp_path / METRICS, lines)))
    assert len(values) == MOST_KEYS
    assert next(iter(values.items())) == ("loss", 2.0)


def test_half_lines_and_other_text_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(
        b"\xff\n" + b"[" * 100_000 + b'\n{"loss": 1}\n' + b'{"loss": NaN}\n{"lo'
    )
    assert [reading.values for reading in read_readings(tmp_path / METRICS)] == [{"loss": 1}]


def test_a_follower_takes_each_number_once(tmp_path: Path) -> None:
    """A line comes again without what a newer one has: what is left of it is no news."""
    lines = ProgramLines(tmp_path / METRICS)
    first = lines.take({"metrics": [{"step": 1, "loss": 3.0, "acc": 0.1}]}, 100.0)
    assert lines.has_step(first)
    again = [{"step": 1, "acc": 0.1}, {"step": 2, "loss": 2.0}]
    assert [line.values for line in lines.take({"metrics": again}, 102.0)] == [{"loss": 2.0}]
    write(tmp_path / METRICS, [{"step": 1, "loss": 3.0, "acc": 0.1}])
    reattached = ProgramLines(tmp_path / METRICS)
    assert [line.step for line in reattached.take({"metrics": again}, 104.0)] == [2]


def test_a_program_without_metrics_is_seen_to_run(tmp_path: Path) -> None:
    lines = ProgramLines(tmp_path / METRICS)
    assert lines.take({"metrics": [], "began": False}, 100.0) == []
    assert not lines.view.has_begun
    assert lines.take({"metrics": [], "began": True}, 102.0) == []
    assert lines.view.position(110.0) == "running for 0:08"


def test_a_run_s_follower_keeps_what_polls_bring(recorded: Callable[[str], Path]) -> None:
    """In case the node dies; and it notes between which polls the first step was done."""
    run = recorded("succeeded")
    make_project(run)
    manifest = read_manifest(run)
    assert manifest is not None
    manifest = manifest.with_launch(first_step_after=None, first_step_before=None)
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    context = Context(Project(run), run, console, Interrupts())
    follower = RunFollower(context, run, manifest, "train", {})
    answers: list[dict[str, Any]] = [
        {"began": False, "metrics": []},
        {"began": True, "metrics": []},
        {"began": True, "metrics": [{"loss": 3.0}]},
        {"began": True, "metrics": [{"loss": 3.0}, {"step": 1, "steps": 9, "loss": 2.0}]},
        {"began": True, "metrics": [{"step": 1, "steps": 9, "loss": 2.0}]},
    ]
    with PlainProgress(console) as progress:
        progress.view = follower._lines.view
        progress.phase("Starting ranks")
        for number, answer in enumerate(answers):
            event = Event("runner_on_ok", 100.0 + number, action=POLL_RUN, result=answer)
            follower.take(event, progress, 90.0)
    begin = ["Starting ranks ...", "Report: report.html", "Running ..."]
    assert screen.getvalue().splitlines()[:3] == begin
    assert [reading.to_line() for reading in read_readings(run / METRICS)] == [
        '{"loss": 3.0}\n',
        '{"step": 1, "steps": 9, "loss": 2.0}\n',
    ]
    launch = follower.manifest.launch
    assert (launch.first_step_after, launch.first_step_before) == (102.0, 103.0)


def test_a_follower_tells_of_each_silence_once(recorded: Callable[[str], Path]) -> None:
    run = recorded("succeeded")
    make_project(run)
    manifest = read_manifest(run)
    assert manifest is not None
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    context = Context(Project(run), run, console, Interrupts())
    follower = RunFollower(context, run, manifest, "train", {})
    first, second = {"time": 10.0, "seconds": 600.0}, {"time": 2000.0, "seconds": 1200.0}
    many = [{"time": 1.0 * count, "seconds": 7.0} for count in range(3000, 3100)]
    with PlainProgress(console) as progress:
        progress.view = follower._lines.view
        for silences in ([], [first], [first, second], [first, second, {"time": "x"}], many, many):
            answer = {"began": True, "metrics": [], "silences": silences}
            event = Event("runner_on_ok", 100.0, action=POLL_RUN, result=answer)
            follower.take(event, progress, 90.0)
    told = [line for line in screen.getvalue().splitlines() if line.startswith("warning: for ")]
    assert [line[len("warning: for ") :].partition(" no rank")[0] for line in told[:3]] == [
        "10 min 0 s",
        "20 min 0 s",
        "7.0 s",
    ]
    assert len(told) == MOST_SILENCES
    assert "logs/rank-*.log" in told[0]


def test_a_pattern_finds_numbers_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank-0.log").write_text(
        "rank 0 of 2 on node1\nIter #1: 1,234.5 img/sec\rIter #2: nan img/sec\nIter #3: 7 img/sec\n"
    )
    gather_readings(tmp_path, r"Iter #(?P<step>\d+): (?P<speed>\S+) img/sec")
    assert [(each.step, each.values) for each in all_readings(tmp_path)] == [
        (1, {"speed": 1234.5}),
        (2, {}),
        (3, {"speed": 7.0}),
    ]
    gather_readings(tmp_path, "no (such)")
    assert not (tmp_path / GATHERED).exists()
    gather_readings(tmp_path, "(")
    assert all_readings(tmp_path) == ()


def test_tensorboard_s_events_stand_in_for_metrics(tmp_path: Path) -> None:
    folder = tmp_path / "outputs/logs/version_0"
    writer = EventFileWriter(str(folder))
    for step in (0, 10):
        for name, value in (("loss", 1.0 / (1 + step)), ("acc", math.nan)):
            scalar = summary_pb2.Summary.Value(tag=name, simple_value=value)
            summary = summary_pb2.Summary(value=[scalar])
            event = event_pb2.Event(wall_time=1.7e9 + step, step=step, summary=summary)
            writer.add_event(event)
    writer.close()
    (folder / "events.out.tfevents.1.damaged").write_bytes(b"\x00\xff" * 500)
    gather_readings(tmp_path, None)
    assert [(each.step, each.time) for each in all_readings(tmp_path)] == [
        (0, 1.7e9),
        (10, 1.7e9 + 10),
    ]
    assert last_values(all_readings(tmp_path)) == {"loss": pytest.approx(1 / 11)}
    write(tmp_path / METRICS, [{"loss": 5.0}])
    gather_readings(tmp_path, None)
    assert last_values(all_readings(tmp_path)) == {"loss": 5.0}


def test_results_are_seen_before_what_else_was_counted() -> None:
    """A profiler of Lightning alone reports more numbers than can be shown."""
    counted = {f"duration_{number}": float(number) for number in range(MOST_KEYS)}
    results = {"val_loss": 0.5, "train/acc": 0.9, "loss": 0.4}
    (shown,) = within_limits([Reading(values={**counted, "lossless": 1.0, **results})])
    assert len(shown.values) == MOST_KEYS
    assert list(last_values([shown]))[:4] == ["loss", "val_loss", "train/acc", "duration_0"]


def test_checkpoints_are_not_fetched_of_a_run_that_is_over(
    recorded: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded("succeeded")
    manifest = read_manifest(run)
    assert manifest is not None
    console = Console(file=io.StringIO())
    context = Context(Project(run), run, console, Interrupts())
    follower = RunFollower(context, run, manifest, "train", {})
    fetched: list[float] = []

    def look(carrier: object, checkpoints: float, *rest: object) -> str:
        fetched.append(checkpoints)
        return ""

    monkeypatch.setattr(CheckpointCarrier, "look", look)
    with PlainProgress(console) as progress:
        progress.view = follower._lines.view
        for newest, status in ((50.0, None), (60.0, 0)):
            answer = {"metrics": [], "checkpoints": newest, "exit_status": status}
            event = Event("runner_on_ok", 100.0, action=POLL_RUN, result=answer)
            follower.take(event, progress, 90.0)
    assert fetched == [50.0]
