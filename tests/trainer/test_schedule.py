import pytest

from trainer.schedule import WarmupCosine


def test_rises_in_a_line_then_falls_as_a_cosine() -> None:
    rate = WarmupCosine(peak=0.4, steps=19, warmup_steps=4)
    assert [rate(step) for step in range(1, 5)] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    # Halfway from the last warm-up step to the step after the end.
    assert rate(12) == pytest.approx(0.2)
    assert rate(8) == pytest.approx(0.4 * (0.5 + 0.5 * 0.5**0.5))
    falling = [rate(step) for step in range(4, 20)]
    assert falling == sorted(falling, reverse=True)


def test_last_step_still_learns() -> None:
    rate = WarmupCosine(peak=1.0, steps=100, warmup_steps=10)
    assert 0 < rate(100) < 0.001


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (1, 1), (10, 10)])
def test_short_runs_have_a_rate_for_every_step(steps: int, warmup: int) -> None:
    rate = WarmupCosine(peak=1.0, steps=steps, warmup_steps=warmup)
    assert all(0 < rate(step) <= 1 for step in range(1, steps + 1))
