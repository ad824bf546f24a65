"""How much of a run's time its steps took."""

import pytest

from yard.runs.metrics import Metric
from yard.runs.useful_time import effective_training_time_ratio


def step(number: int, compute: float, data: float | None = 0.0) -> Metric:
    return Metric("step", 0.0, number, 40, 1, 4, 1.0, None, 100.0, 0.1, data, compute, compute / 2)


def test_the_time_of_steps_over_the_time_of_the_run() -> None:
    # 1 step of 3 s, then 9 of 1.5 s, then 10 of 1.5 s
    metrics = [step(1, 2.0), step(10, 1.0), step(20, 1.0)]
    assert effective_training_time_ratio(metrics, 63.0) == pytest.approx(31.5 / 63.0)


def test_steps_of_a_retry_count_from_where_they_stand() -> None:
    metrics = [step(10, 2.0), step(10, 2.0), step(12, 2.0)]
    assert effective_training_time_ratio(metrics, 18.0) == pytest.approx(9.0 / 18.0)


def test_it_is_a_ratio_or_nothing() -> None:
    assert effective_training_time_ratio([], 10.0) is None
    assert effective_training_time_ratio([step(1, 1.0)], None) is None
    untimed = Metric("step", 0.0, 1, 40, 1, 4, 1.0, None, 100.0, 0.1)
    assert effective_training_time_ratio([untimed], 10.0) is None
    assert effective_training_time_ratio([step(1, 1.0)], 0.0) is None
    assert effective_training_time_ratio([step(1, 60.0)], 10.0) == 1.0
    assert effective_training_time_ratio([step(1, 1.0, data=None)], 10.0) == pytest.approx(0.15)
