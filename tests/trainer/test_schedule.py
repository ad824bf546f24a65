import pytest

from trainer.schedule import PATIENCE, Schedule, plateau_factor


def test_rises_in_a_line_then_falls_as_a_cosine() -> None:
    rate = Schedule(peak=0.4, steps=19, warmup_steps=4)
    assert [rate(step) for step in range(1, 5)] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    # Halfway from the last warm-up step to the step after the end.
    assert rate(12) == pytest.approx(0.2)
    assert rate(8) == pytest.approx(0.4 * (0.5 + 0.5 * 0.5**0.5))
    falling = [rate(step) for step in range(4, 20)]
    assert falling == sorted(falling, reverse=True)


def test_last_step_still_learns() -> None:
    rate = Schedule(peak=1.0, steps=100, warmup_steps=10)
    assert 0 < rate(100) < 0.001


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (1, 1), (10, 10)])
def test_short_runs_have_a_rate_for_every_step(steps: int, warmup: int) -> None:
    rate = Schedule(peak=1.0, steps=steps, warmup_steps=warmup)
    assert all(0 < rate(step) <= 1 for step in range(1, steps + 1))


def test_a_tenth_after_each_third() -> None:
    rate = Schedule(peak=1.0, steps=90, warmup_steps=5, name="step")
    assert rate(4) == pytest.approx(0.8)
    assert [rate(step) for step in (5, 30, 31, 60, 61, 90)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01]
    )


@pytest.mark.parametrize("name", ["constant", "plateau"])
def test_a_constant_rate_stays_after_the_warm_up(name: str) -> None:
    rate = Schedule(peak=0.5, steps=9, warmup_steps=2, name=name)
    assert [rate(step) for step in range(1, 10)] == [0.25] + [0.5] * 8


def test_a_tenth_where_the_validation_loss_stays() -> None:
    falling = [2.0, 1.5, 1.0]
    assert plateau_factor([]) == plateau_factor(falling) == 1
    staying = [1.0] * PATIENCE
    assert plateau_factor(falling + staying[1:]) == 1
    assert plateau_factor(falling + staying) == pytest.approx(0.1)
    assert plateau_factor([*falling, *staying, 0.5]) == pytest.approx(0.1)
    assert plateau_factor(falling + 2 * staying) == pytest.approx(0.01)
