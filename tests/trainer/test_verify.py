"""What `make verify` runs in containers: it finds nothing where nothing is wrong, and else does."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from mpi_ranks import mpirun
from torch import Tensor

from trainer.launch.mpirun import split_commands
from trainer.network import VARIABLE
from trainer.verify.bandwidth import (
    LONGEST_SECONDS,
    TURN_SECONDS,
    bus_factor,
    measure_bandwidth,
)
from trainer.verify.products import measure_products, own_gpus
from trainer.verify.ranks import verify
from trainer.verify.sums import DTYPES, check_sums, contribution, expected_sum

CPU = torch.device("cpu")
SIZES = (1, 1023)


def world(size: int) -> Any:
    """An allreduce of a world of this size, for whatever rank: the others' parts are known."""

    def total(values: Tensor, name: str) -> Tensor:
        parts = [contribution(rank, len(values)).to(values.dtype) for rank in range(size)]
        return torch.stack(parts).sum(dim=0, dtype=values.dtype)

    return total


@pytest.mark.parametrize("size", [1, 2, 4, 7, 32])
def test_the_sum_is_known_without_the_others(size: int) -> None:
    parts = torch.stack([contribution(rank, 1023) for rank in range(size)])
    assert torch.equal(parts.sum(dim=0), expected_sum(size, 1023))


@pytest.mark.parametrize("size", [1, 4, 63])
def test_right_sums_are_right_in_every_type(size: int) -> None:
    checks = check_sums(world(size), 0, size, CPU, sizes=SIZES)
    assert {check.dtype for check in checks} == set(DTYPES)
    assert all(check.wrong == 0 for check in checks)


def test_types_that_cannot_hold_the_sum_are_left_out() -> None:
    checks = check_sums(world(600), 0, 600, CPU, sizes=(8,))
    assert {check.dtype for check in checks} == set(DTYPES) - {"float16"}
    assert all(check.wrong == 0 for check in checks)


def test_every_wrong_element_is_counted() -> None:
    def damaged(values: Tensor, name: str) -> Tensor:
        result = world(4)(values, name)
        if values.dtype == torch.float64 and len(values) == 1023:
            result[[0, 500, 1022]] += 1
        return result

    wrong = {
        (check.dtype, check.elements): check.wrong
        for check in check_sums(damaged, 0, 4, CPU, sizes=SIZES)
    }
    assert {case: number for case, number in wrong.items() if number} == {("float64", 1023): 3}


def test_a_part_that_comes_twice_or_never_shows() -> None:
    def lost(values: Tensor, name: str) -> Tensor:
        return world(4)(values, name) - contribution(2, len(values)).to(values.dtype)

    def doubled(values: Tensor, name: str) -> Tensor:
        return world(4)(values, name) + contribution(3, len(values)).to(values.dtype)

    for allreduce in (lost, doubled):
        assert all(check.wrong > 0 for check in check_sums(allreduce, 0, 4, CPU, sizes=SIZES))


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    """doc/PERFORMANCE.md there: on 8 ranks an allreduce has the factor 1.75."""
    assert bus_factor(8) == 1.75
    assert bus_factor(2) == 1
    small, large = measure_bandwidth(
        lambda values, name: values, lambda _: 0.5, 4, CPU, (4096, 2**20)
    )
    assert (small.bytes, large.bytes) == (4096, 2**20)
    assert large.algorithm_gigabits_per_second == pytest.approx(2**20 * 8 / 0.5 / 1e9)
    assert large.bus_gigabits_per_second == pytest.approx(1.5 * 2**20 * 8 / 0.5 / 1e9)


@pytest.mark.parametrize(
    ("again", "sizes"), [(LONGEST_SECONDS, [4096, 16384]), (TURN_SECONDS, [4096, 16384, 65536])]
)
def test_what_takes_too_long_twice_is_not_tried_larger(again: float, sizes: list[int]) -> None:
    """On a busy machine one sum may take long, which says nothing of the network."""
    elements: list[int] = []

    def count(values: Tensor, name: str) -> Tensor:
        elements.append(len(values))
        return values

    agreed = iter([TURN_SECONDS / 2, TURN_SECONDS / 2, LONGEST_SECONDS, again, *[TURN_SECONDS] * 2])
    measured = measure_bandwidth(count, lambda _: next(agreed), 2, CPU, (4096, 16384, 65536))
    assert [entry.bytes for entry in measured] == sizes
    assert elements[:5] == [1024, 1024, 1024, 4096, 4096]


def test_products_are_timed_and_checked() -> None:
    """The same code as on GPUs, on the processor."""
    (product,) = measure_products([CPU], edge=128, repeats=3)
    assert product.seconds > 0
    assert product.wrong == 0
    assert (product.gpu, product.model) == (0, "CPU")


def test_a_wrong_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.mm

    def wrong(left: Tensor, right_: Tensor, out: Tensor) -> Tensor:
        right(left, right_, out=out)
        out[0, 3] += 1
        return out

    monkeypatch.setattr(torch, "mm", wrong)
    (product,) = measure_products([CPU], edge=64, repeats=1)
    assert product.wrong == 1


def test_every_gpu_is_measured_by_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    indices = [[device.index for device in own_gpus(local, 3)] for local in range(3)]
    assert indices == [[0, 3, 6], [1, 4, 7], [2, 5]]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert own_gpus(0, 1) == []


def test_two_ranks_check_their_sums_and_measure(tmp_path: Path) -> None:
    done = mpirun("python3", "-m", "trainer", "verify", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in (0, 1):
        result = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert (result["rank"], result["world_size"]) == (rank, 2)
        assert {case["dtype"] for case in result["sums"]} == set(DTYPES)
        assert all(case["wrong"] == 0 for case in result["sums"])
        assert result["products"] == []
        assert result["bandwidth"][0]["bytes"] == 4096
        assert all(entry["bus_gigabits_per_second"] > 0 for entry in result["bandwidth"])


def test_two_ranks_hear_each_other() -> None:
    done = mpirun("/opt/trainyard/bin/hello_mpi")
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if " heard from " in line]) == 2
    assert len([line for line in done.stdout.splitlines() if line.endswith(" is here")]) == 2


def test_a_launch_of_two_parts() -> None:
    assert split_commands(["-n", "2", "a", "--then", "-n", "4", "b", "c"]) == [
        ["-n", "2", "a"],
        ["-n", "4", "b", "c"],
    ]
    assert split_commands(["-n", "2", "a"]) == [["-n", "2", "a"]]


def test_horovod_starts_on_the_training_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries read their environment when they start, and never again."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES")
    for name in names:
        # Set and taken away, so that what the rank sets does not stay.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, "127.0.0.0/8")
    monkeypatch.setattr("trainer.network.SYSFS", tmp_path)

    class StartedError(Exception):
        """Horovod was started."""

    def start() -> None:
        raise StartedError([os.environ.get(name) for name in names])

    horovod = SimpleNamespace(init=start)
    monkeypatch.setitem(sys.modules, "horovod", SimpleNamespace(torch=horovod))
    monkeypatch.setitem(sys.modules, "horovod.torch", horovod)
    with pytest.raises(StartedError) as started:
        verify(tmp_path)
    assert started.value.args == (["lo", "=lo", "lo"],)
