from pathlib import Path

import pytest
import torch

from trainer.bench.suite import Suite, exchanges
from trainer.bench.throughput import (
    Turn,
    images_per_second,
    lockstep_seconds,
    order,
    summarise,
)
from trainer.errors import ConfigError


def test_ratio_is_the_median_of_the_ratios_within_a_round() -> None:
    # The machine is half as fast in round 2; ratios of neighbours do not see it.
    speeds = [("independent", 100, 50, 110), ("horovod", 98, 48, 99), ("ddp_mpi", 90, 50, 100)]
    turns = [
        Turn(number + 1, arm, (1.0, 1.0), float(values[number]))
        for number in range(3)
        for arm, *values in speeds
    ]
    summary = summarise(turns)
    medians = {"independent": 100.0, "horovod": 98.0, "ddp_mpi": 90.0}
    assert summary.images_per_second == medians
    assert summary.ratios == {
        "horovod_over_ideal": pytest.approx(0.96),
        "ddp_mpi_over_ideal": pytest.approx(100 / 110),
        "horovod_over_best_ddp": pytest.approx(0.99),
        "ddp_over_best_other": pytest.approx(100 / 99),
    }


def test_cost_of_a_checkpoint_is_told_for_one_every_30_seconds() -> None:
    # It costs 0.6, 0.3 and 0.9 s of a turn; the median is what counts.
    turns = [
        Turn(number, arm, (seconds - 0.01, seconds), 100 / seconds)
        for number, cost in enumerate((0.6, 0.3, 0.9), start=1)
        for arm, seconds in (("horovod", 5.0), ("horovod_checkpoint", 5.0 + cost))
    ]
    ratio = summarise(turns).ratios["checkpoint_over_none"]
    assert ratio == pytest.approx(30 / 30.6)


def test_best_of_several_is_chosen_anew_in_every_round() -> None:
    turns = [
        Turn(1, "horovod", (1.0,), 100.0),
        Turn(1, "ddp_gloo", (1.0,), 80.0),
        Turn(1, "ddp_mpi", (1.0,), 50.0),
        Turn(2, "horovod", (1.0,), 100.0),
        Turn(2, "ddp_gloo", (1.0,), 50.0),
        Turn(2, "ddp_mpi", (1.0,), 80.0),
    ]
    assert summarise(turns).ratios["horovod_over_best_ddp"] == pytest.approx(1.25)


def test_best_engine_is_compared_with_the_best_of_the_others() -> None:
    speeds = [("horovod", 90, 100, 80), ("ddp_gloo", 100, 50, 90), ("ddp_mpi", 99, 99, 81)]
    turns = [
        Turn(number + 1, arm, (1.0,), float(values[number]))
        for number in range(3)
        for arm, *values in speeds
    ]
    # Gloo: 100/99, 50/100, 90/81; MPI: 99/100, 99/100, 81/90.
    assert summarise(turns).ratios["ddp_over_best_other"] == pytest.approx(100 / 99)
    # Without Gloo, MPI over Horovod: 99/90, 99/100, 81/80.
    without = [turn for turn in turns if turn.arm != "ddp_gloo"]
    assert summarise(without).ratios["ddp_over_best_other"] == pytest.approx(81 / 80)


def test_speeds_of_ranks_that_wait_for_each_other_are_those_of_the_last() -> None:
    assert images_per_second("independent", 100, (1.0, 2.0)) == 150
    assert images_per_second("together", 100, (1.0, 2.0)) == 100
    assert images_per_second("first", 100, (1.0,)) == 100


def test_ranks_in_lockstep_lose_the_time_of_whoever_is_held_up() -> None:
    assert lockstep_seconds([[1.0, 3.0, 1.0], [1.0, 1.0, 2.0]]) == 6.0


def test_every_arm_has_every_place_in_some_round() -> None:
    names = ["a", "b", "c"]
    rounds = [order(names, number) for number in range(1, 7)]
    assert rounds[:3] == [["a", "b", "c"], ["a", "c", "b"], ["c", "a", "b"]]
    for place in range(3):
        assert {arms[place] for arms in rounds} == set(names)


def test_bad_requests_are_refused() -> None:
    data = Path("/data/cifar10")
    with pytest.raises(ConfigError, match=r"no model .none.; there are: .*vit"):
        Suite(("vit", "none"), batch_per_rank=1, dataset=data, rounds=1, seconds=1)
    with pytest.raises(ConfigError, match="above 0"):
        Suite(("vit",), batch_per_rank=1, dataset=data, rounds=0, seconds=1)


def test_what_exchanges_gradients_follows_from_where_ranks_compute() -> None:
    # Debian's torch has MPI, PyPI's has not.
    on_processors = ["gloo", "mpi"] if torch.distributed.is_mpi_available() else ["gloo"]
    assert exchanges(torch.device("cpu"), gpus=0, ranks=4) == (on_processors, True)
    assert exchanges(torch.device("cuda", 0), gpus=2, ranks=2) == (["gloo", "nccl"], True)
    # NCCL takes no two ranks on one GPU, and Horovod's sums there are NCCL's.
    assert exchanges(torch.device("cuda", 0), gpus=1, ranks=2) == (["gloo"], False)


def test_without_mpi_in_torch_its_arm_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_mpi_available", lambda: False)
    assert exchanges(torch.device("cpu"), gpus=0, ranks=1) == (["gloo"], True)
