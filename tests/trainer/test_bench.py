import pytest

from trainer.bench import Round, Throughput, summarise
from trainer.errors import ConfigError


def test_ratio_is_the_median_of_the_ratios_within_a_round() -> None:
    # The machine is half as fast in round 2; ratios of neighbours do not see it.
    speeds = [("independent", 100, 50, 110), ("horovod", 98, 48, 99)]
    rounds = [
        Round(number + 1, engine, (1.0, 1.0), float(values[number]))
        for number in range(3)
        for engine, *values in speeds
    ]
    summary = summarise(rounds)
    assert summary["images_per_second"] == {"independent": 100.0, "horovod": 98.0}
    assert summary["ratio"] == pytest.approx(0.96)
    assert len(summary["rounds"]) == 6


def test_bad_requests_are_refused() -> None:
    with pytest.raises(ConfigError, match="no model 'none'"):
        Throughput(model="none", batch_per_rank=1, precision="fp32", steps=1, rounds=1)
    with pytest.raises(ConfigError, match="at least 1"):
        Throughput(model="vit", batch_per_rank=1, precision="fp32", steps=1, rounds=0)
