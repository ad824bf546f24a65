"""How long it is from one checkpoint to the next."""

import pytest

from trainer.checkpoint_interval import CheckpointInterval

HOUR = 3600.0


def interval(cost: float, between_failures: float) -> float:
    one = CheckpointInterval(between_failures)
    one.add(cost)
    return one.seconds


def test_is_the_one_that_loses_the_least_time() -> None:
    cost, between_failures = 0.5, 6 * HOUR

    def lost(seconds: float) -> float:
        """Of a second: checkpoints, and on average half of what lies between two of them."""
        return cost / seconds + seconds / 2 / between_failures

    best = interval(cost, between_failures)
    assert 30 < best < 600
    assert lost(best) < min(lost(best * 0.9), lost(best * 1.1))


@pytest.mark.parametrize(
    ("cost", "between_failures", "seconds"),
    [
        (0.1, HOUR / 4, 30.0),
        (0.1, 1000 * HOUR, 600.0),
        (2.0, HOUR / 4, 100.0),
        (30.0, 24 * HOUR, 1500.0),
    ],
    ids=["not more often", "not less often", "no more than its share", "nor beyond the most"],
)
def test_has_bounds(cost: float, between_failures: float, seconds: float) -> None:
    assert interval(cost, between_failures) == pytest.approx(seconds)


def test_before_a_cost_is_known_it_is_the_least() -> None:
    assert CheckpointInterval(HOUR).seconds == 30


def test_takes_the_mean_cost_and_says_so() -> None:
    one = CheckpointInterval(6 * HOUR)
    one.add(0.4)
    one.add(0.6)
    assert one.cost == pytest.approx(0.5)
    assert str(one) == (
        "a checkpoint every 147 s within an epoch: one costs 0.5 s, "
        "and a failure is expected every 6 hours"
    )
