import pytest

from trainer.engines.tuning import CANDIDATES, LEAST_BYTES, ROUNDS, STEPS, BucketTuning


@pytest.mark.parametrize(
    ("size", "candidates"),
    [(0, (1,)), (LEAST_BYTES, (1,)), (2 * LEAST_BYTES, (1, 2)), (2**30, CANDIDATES)],
)
def test_buckets_are_not_smaller_than_pays(size: int, candidates: tuple[int, ...]) -> None:
    assert BucketTuning(size).candidates == candidates


def test_candidates_take_turns_and_the_first_round_does_not_count() -> None:
    tuning = BucketTuning(2**30)
    seen = []
    while not tuning.is_complete:
        seen.append(tuning.candidate)
        tuning.step_ended()
    assert seen == list(CANDIDATES) * ROUNDS
    assert len(seen) == STEPS
    assert len(tuning.medians()) == len(CANDIDATES)


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ([1.0, 0.9, 0.8, 0.85], 4),
        ([1.0, 1.1, 1.2, 1.3], 1),
        # Less than what single steps differ by.
        ([1.0, 0.99, 0.99, 0.985], 1),
    ],
)
def test_more_than_one_bucket_must_gain_something(seconds: list[float], best: int) -> None:
    assert BucketTuning(2**30).best(seconds) == best
