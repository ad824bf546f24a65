"""What `make status` says of a run, whichever line of its metrics is the newest."""

import json
from typing import Any

import pytest
from yard_command import DATA

from yard.commands.status import progress_of
from yard.runs.metrics import Metric, read_metrics

RECORDED = read_metrics(DATA / "runs/succeeded/metrics.jsonl")


@pytest.mark.parametrize("metric", RECORDED, ids=lambda metric: f"{metric.event} {metric.step}")
def test_every_line_tells_step_and_epoch(metric: Metric) -> None:
    position = f"step {metric.step}/{metric.steps} · epoch {metric.epoch}/{metric.epochs}"
    assert progress_of(json.loads(metric.to_line())).startswith(position)


def test_an_evaluation_tells_its_accuracy() -> None:
    evaluated = next(metric for metric in RECORDED if metric.event == "epoch")
    assert evaluated.accuracy is not None
    assert f"test accuracy {100 * evaluated.accuracy:.1f} %" in progress_of(
        json.loads(evaluated.to_line())
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"step": 40, "steps": 469, "loss": 2.10432}, "step 40/469 · loss 2.104"),
        ({"epoch": 1, "acc": 0.9, "event": "epoch"}, "epoch 1 · acc 0.900"),
        ({"word": "only"}, ""),
        ([1], ""),
        (None, ""),
    ],
)
def test_another_program_s_line_tells_what_is_in_it(line: Any, text: str) -> None:
    assert progress_of(line) == text
