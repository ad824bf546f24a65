"""What `make status` says of a run, whichever line of its metrics is the newest."""

import pytest
from yard_command import DATA

from yard.commands.status import progress_of
from yard.runs.metrics import Metric, read_metrics

RECORDED = read_metrics(DATA / "runs/succeeded/metrics.jsonl")


@pytest.mark.parametrize("metric", RECORDED, ids=lambda metric: f"{metric.event} {metric.step}")
def test_every_line_tells_step_and_epoch(metric: Metric) -> None:
    position = f"step {metric.step}/{metric.steps} · epoch {metric.epoch}/{metric.epochs}"
    assert progress_of(metric).startswith(position)


def test_an_evaluation_tells_its_accuracy() -> None:
    evaluated = next(metric for metric in RECORDED if metric.event == "epoch")
    assert evaluated.accuracy is not None
    assert f"test accuracy {100 * evaluated.accuracy:.1f} %" in progress_of(evaluated)
