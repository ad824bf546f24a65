"""A run whose attempts had another number of ranks is one run on one axis."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from test_schemas import errors

from yard.core.files import in_form
from yard.operations.lines import TrainerLines
from yard.pages.charts import retry_marks, training_charts
from yard.pages.report import key_numbers
from yard.runs.metrics import Metric, attempts_of, read_every_line, read_metrics
from yard.runs.record import read_run
from yard.runs.summary import Summary, summarise
from yard.runs.world import Resumed, read_world
from yard.screen.training_view import TrainingView

Recorded = Callable[[str], Path]

IMAGES = 480


def attempt(
    world_size: int, begin: int, end: int, first_image: int, began_at: float
) -> list[Metric]:
    """Lines of two epochs of 480 images, eight images per rank and step, a line every step."""
    batch = 8 * world_size
    per_epoch = IMAGES // batch

    def line(event: str, step: int) -> Metric:
        images = first_image + (step - begin) * batch
        return Metric(
            event,
            began_at + step - begin,
            step,
            2 * per_epoch,
            1 + max(step - 1, 0) // per_epoch,
            2,
            *(3 - images / 480, None, 100.0, 1 - images / 960),
            images=images,
        )

    steps = [line("step", step) for step in range(begin + 1, end + 1)]
    return [line("start", begin), *steps]


# Two ranks to step 24 of 60, one from the checkpoint of step 20 to 70 of 120, three from that of
# step 60 to the end, which for them is step 40.
ATTEMPTS = (
    attempt(2, 0, 24, 0, 1000),
    attempt(1, 40, 70, 320, 2000),
    attempt(3, 20, 40, 480, 3000),
)


def write(path: Path, *attempts: list[Metric]) -> Path:
    path.write_text("".join(metric.to_line() for lines in attempts for metric in lines))
    return path


def test_line_of_the_trainer_keeps_its_images(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", *ATTEMPTS)
    assert [json.loads(line)["images"] for line in path.read_text().splitlines()[:3]] == [0, 16, 32]
    assert read_every_line(path) == tuple(metric for lines in ATTEMPTS for metric in lines)


@pytest.mark.parametrize("images", [2.5, "2", True])
def test_line_with_images_that_are_no_count_is_none(images: object) -> None:
    line = json.loads(ATTEMPTS[0][3].to_line())
    assert Metric.from_json(line) == ATTEMPTS[0][3]
    assert Metric.from_json({**line, "images": images}) is None
    del line["images"]
    assert Metric.from_json(line) == replace(ATTEMPTS[0][3], images=None)


def test_attempts_are_joined_by_images_with_the_steps_of_the_last(tmp_path: Path) -> None:
    joined = read_metrics(write(tmp_path / "metrics.jsonl", *ATTEMPTS))
    images = [metric.images for metric in joined]
    assert images == [*range(0, 321, 16), *range(328, 481, 8), *range(504, 961, 24)]
    assert {metric.steps for metric in joined} == {40}
    steps = [metric.step for metric in joined]
    assert steps == sorted(steps)
    for metric in joined:
        assert metric.images is not None
        assert abs(metric.step - metric.images / 24) <= 0.5


def test_one_world_is_left_as_it_is() -> None:
    first = attempt(2, 0, 24, 0, 1000)
    again = attempt(2, 20, 60, 320, 2000)
    assert attempts_of([*first, *again]) == [first, again]


def test_charts_have_one_axis() -> None:
    metrics = [metric for lines in ATTEMPTS for metric in lines]
    assert [mark.x for mark in retry_marks(metrics)] == [13, 20]
    rate = training_charts(metrics)[-1]
    *lost, kept = rate.series
    assert [one.faint for one in lost] == [True, True]
    for x, y in kept.points:
        # The rate falls with the images, of which three ranks take 24 a step.
        assert y == pytest.approx(1 - x * 24 / 960, abs=0.51 * 24 / 960)
    xs = [x for x, _ in kept.points]
    assert xs == sorted(xs)
    assert xs[-1] == 40


def test_lines_that_are_home_are_not_taken_again(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", *ATTEMPTS[:2])
    lines = TrainerLines(path)
    on_the_node = [json.loads(metric.to_line()) for part in ATTEMPTS for metric in part]
    assert lines.take({"metrics": on_the_node}, 0) == ATTEMPTS[2]


def test_time_left_counts_the_steps_of_this_attempt() -> None:
    view = TrainingView()
    for metric in ATTEMPTS[2][:11]:
        view.update(metric, received_at=metric.time)
    # Ten steps took ten seconds, ten are left.
    assert view.time_left(ATTEMPTS[2][10].time) == pytest.approx(10)


RESUMED = {
    **{"from_world_size": 2, "from_batch_per_rank": 8},
    **{"epoch": 0, "step": 20, "images": 320},
}


def test_summary_and_report_name_the_world_before(recorded: Recorded) -> None:
    run = recorded("succeeded")
    world = json.loads((run / "world.json").read_text())
    (run / "world.json").write_text(json.dumps({**world, "world_size": 4, "resumed": RESUMED}))
    summary = summarise(read_run(run))
    document = json.loads(json.dumps(summary.to_json()))
    assert errors("summary", document) == []
    assert in_form(Summary, document) == summary
    assert summary.resumed == Resumed(2, 8, 0, 20, 320)
    (number,) = [number for number in key_numbers(summary) if number.label == "World"]
    assert number.note.endswith(", after 320 images on 2")


@pytest.mark.parametrize(
    "said", [None, [], "x", {**RESUMED, "step": -1}, {**RESUMED, "images": 1e400}, {"epoch": 1}]
)
def test_what_a_rank_says_of_the_world_before_need_not_be_true(
    said: object, recorded: Recorded
) -> None:
    run = recorded("succeeded")
    world = json.loads((run / "world.json").read_text())
    (run / "world.json").write_text(json.dumps({**world, "resumed": said}))
    assert read_run(run).world == read_world(run / "world.json")
    assert read_run(run).world.world_size == 2
    assert read_run(run).world.resumed is None
