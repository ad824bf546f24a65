"""What only shows when two ranks run."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from mpi_ranks import TIMEOUT, launch, mpirun

from trainer.checkpoint import Checkpoint
from trainer.heartbeat import WAITS, clock
from trainer.launch.beats import read_beat

PROGRAMS = Path(__file__).parent / "programs"

DIVERGED = (
    r"trainer: the training loss became (nan|inf) at step 2 on rank (?P<rank>[01]) \(.+\): "
    r"(the first output that is not finite is that of layer|an earlier update made parameter)"
)

MakeRunDir = Callable[[dict[str, Any]], Path]
Validate = Callable[[Any, str], None]


def logs(run_dir: Path) -> list[str]:
    return [(run_dir / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]


def metrics(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def failures(run_dir: Path, validate: Validate) -> dict[int, dict[str, Any]]:
    """What the ranks say of why they ended, by rank; the other one may be gone before it does."""
    records = {}
    for path in (run_dir / "failures").glob("rank-*.json"):
        record = json.loads(path.read_text())
        validate(record, "rank_failure")
        assert path.name == f"rank-{record['rank']}.json"
        assert record["host"] == socket.gethostname()
        records[record["rank"]] = record
    assert records
    return records


def training_pids(run_dir: Path) -> list[int]:
    """Wait until the run trains and return the process ids of its ranks."""
    deadline = time.monotonic() + TIMEOUT
    while not (run_dir / "metrics.jsonl").exists():
        assert time.monotonic() < deadline, "the run did not start"
        time.sleep(0.2)
    world = json.loads((run_dir / "world.json").read_text())
    return [entry["pid"] for entry in world["ranks"]]


def gone(pids: list[int]) -> bool:
    """Whether processes that were killed are away within 20 s; a large one takes a moment to go."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    "program",
    [
        "engines.py",
        "gradients.py",
        "exchange.py",
        "waiting.py",
        "fresh_optimizer.py",
        "evaluation.py",
        "independent.py",
        "priority.py",
        "leaving.py",
    ],
)
def test_program(program: str) -> None:
    done = mpirun("python3", PROGRAMS / program)
    assert done.returncode == 0, done.stdout + done.stderr


SLOW_DISK = """
import os, time
from trainer import checkpoint

checkpoint.PIECE = 2**18
fdatasync = os.fdatasync

def slow(descriptor):
    time.sleep(0.8)
    fdatasync(descriptor)

os.fdatasync = slow
"""


@pytest.mark.data
def test_write_that_takes_longer_than_ranks_may_be_silent(
    config: dict[str, Any], make_run_dir: MakeRunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = make_run_dir({**config, "epochs": 2})
    # Python reads it at every start.
    (run_dir / "sitecustomize.py").write_text(SLOW_DISK)
    (run_dir / "environment").write_text(f"PYTHONPATH={run_dir}\n")
    monkeypatch.setenv("TRAINYARD_STALL_SECONDS", "6")
    began = time.monotonic()
    assert launch(run_dir).wait(timeout=TIMEOUT) == 0, logs(run_dir)[0]
    size = (run_dir / "checkpoints" / "last.pt").stat().st_size
    assert time.monotonic() - began > 2 * 0.8 * size / 2**18 > 2 * 6
    assert Checkpoint.load(run_dir / "checkpoints" / "last.pt").epoch == 2


@pytest.mark.data
def test_training_on_real_images(
    config: dict[str, Any], make_run_dir: MakeRunDir, validate: Validate
) -> None:
    run_dir = make_run_dir({**config, "precision": "bf16", "epochs": 2})

    assert launch(run_dir).wait(timeout=TIMEOUT) == 0, "".join(logs(run_dir))

    assert (run_dir / "exit_status").read_text() == "0\n"
    for rank, log in enumerate(logs(run_dir)):
        assert log.startswith(f"rank {rank} of 2 on {socket.gethostname()} (pid ")
        # At its end it waits for the other, and must not be taken for one that computes.
        beat = read_beat(run_dir, rank)
        assert beat is not None
        assert beat.state == WAITS
        assert 0 <= clock() - beat.moment < TIMEOUT

    world = json.loads((run_dir / "world.json").read_text())
    assert world["world_size"] == 2
    assert [entry["rank"] for entry in world["ranks"]] == [0, 1]
    assert [entry["local_rank"] for entry in world["ranks"]] == [0, 1]
    assert world["versions"]["horovod"] == "0.28.1"
    assert world["model_parameters"] == 188_970
    counts = {name: world[name] for name in world if name.endswith(("images", "available"))}
    assert counts == {
        "train_images": 480,
        "train_images_available": 1000,
        "test_images": 201,
        "validation_images": 50,
    }

    assert not (run_dir / "failures").exists()
    lines = metrics(run_dir)
    for line in lines:
        validate(line, "metrics")
    assert [(line["event"], line["step"]) for line in lines] == [
        ("start", 0),
        *[("step", step) for step in (1, 5, 10, 15)],
        ("epoch", 15),
        *[("step", step) for step in (20, 25, 30)],
        ("epoch", 30),
        ("end", 30),
    ]
    assert {(line["steps"], line["epochs"]) for line in lines} == {(30, 2)}
    steps = [line for line in lines if line["event"] == "step"]
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.1
    assert all(line["images_per_second"] > 0 for line in lines if line["event"] != "start")
    # The test set is looked at once, at the end.
    # An accuracy over 201 images is a multiple of 1/201.
    end, last = lines[-1], lines[-2]
    assert not any(key.startswith("test") for line in lines[:-1] for key in line)
    for accuracy, images in (
        (end["test_accuracy"], 201),
        (end["best_test_accuracy"], 201),
        (last["validation_accuracy"], world["validation_images"]),
    ):
        assert accuracy * images == pytest.approx(round(accuracy * images), abs=1e-9)
    accuracies = [line["validation_accuracy"] for line in lines if line["event"] == "epoch"]
    assert end["best_epoch"] == 1 + accuracies.index(max(accuracies))
    for line in steps:
        assert line["compute_seconds"] > line["data_seconds"] > 0
        assert line["communication_seconds"] > 0

    checkpoint = Checkpoint.load(run_dir / "checkpoints" / "last.pt")
    assert (checkpoint.step, checkpoint.epoch) == (30, 2)
    assert json.loads((run_dir / "config.json").read_text()).items() <= checkpoint.config.items()


@pytest.mark.data
@pytest.mark.parametrize("backend", ["gloo", "mpi"])
def test_a_rank_leaves_mpi_whoever_has_joined_it(
    backend: str, config: dict[str, Any], make_run_dir: MakeRunDir
) -> None:
    """A rank ends its process itself, and for mpirun one has failed that did not leave MPI."""
    if backend == "mpi" and not torch.distributed.is_mpi_available():
        pytest.skip("this PyTorch has no backend of MPI")
    run_dir = make_run_dir({**config, "engine": "ddp", "backend": backend})
    assert launch(run_dir).wait(timeout=TIMEOUT) == 0, "".join(logs(run_dir))
    ends = [json.loads((run_dir / f"ranks/{rank}.json").read_text()) for rank in (0, 1)]
    assert [(end["exit_status"], end["signal"]) for end in ends] == [(0, None)] * 2
    assert metrics(run_dir)[-1]["event"] == "end"


@pytest.mark.data
def test_another_world_than_asked_ends_before_the_first_step(
    config: dict[str, Any], make_run_dir: MakeRunDir, validate: Validate
) -> None:
    message = "1 on node1, 1 on node2"
    run_dir = make_run_dir({**config, "hosts": ["node1", "node2"]})
    assert launch(run_dir).wait(timeout=TIMEOUT) == 1
    assert any(message in log for log in logs(run_dir))
    for record in failures(run_dir, validate).values():
        assert record["code"] == "wrong_world"
        assert message in record["values"]["message"]
    assert not any("Traceback" in log for log in logs(run_dir))
    assert not (run_dir / "metrics.jsonl").exists()


@pytest.mark.data
@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"dataset": "cifar1000"}, "dataset_missing", "no prepared data set in"),
        (
            {"model": "maxvit_t", "image_size": 64},
            "wrong_configuration",
            "image_size 64: cifar10 has 32",
        ),
    ],
)
def test_bad_input_ends_with_status_2_before_the_first_step(
    change: dict[str, Any],
    code: str,
    message: str,
    config: dict[str, Any],
    make_run_dir: MakeRunDir,
    validate: Validate,
) -> None:
    run_dir = make_run_dir({**config, **change})
    assert launch(run_dir).wait(timeout=TIMEOUT) == 2
    assert (run_dir / "exit_status").read_text() == "2\n"
    codes = {record["code"] for record in failures(run_dir, validate).values()}
    # The rank that waits for the other one may lose it before it is ended.
    assert code in codes
    assert any(message in log for log in logs(run_dir))
    assert not any("Traceback" in log for log in logs(run_dir))
    assert not (run_dir / "metrics.jsonl").exists()


@pytest.mark.data
def test_loss_that_is_no_number_ends_the_run(
    config: dict[str, Any], make_run_dir: MakeRunDir, validate: Validate
) -> None:
    run_dir = make_run_dir({**config, "learning_rate": 1e30, "warmup_fraction": 0.0})
    assert launch(run_dir).wait(timeout=TIMEOUT) == 1
    matches = [re.search(DIVERGED, log) for log in logs(run_dir)]
    # The other rank may be gone before it has said the same.
    assert any(match and int(match["rank"]) == rank for rank, match in enumerate(matches)), matches
    codes = {record["code"] for record in failures(run_dir, validate).values()}
    assert "loss_not_a_number" in codes
    assert [line["event"] for line in metrics(run_dir)][-1] == "step"
    assert not (run_dir / "checkpoints").exists()


@pytest.mark.data
def test_killed_rank_ends_the_launch(config: dict[str, Any], make_run_dir: MakeRunDir) -> None:
    run_dir = make_run_dir({**config, "epochs": 1000})
    process = launch(run_dir)
    pids = training_pids(run_dir)
    os.kill(pids[1], signal.SIGKILL)
    status = process.wait(timeout=60)
    assert status != 0
    assert (run_dir / "exit_status").read_text() == f"{status}\n"
    assert gone(pids)


@pytest.mark.data
def test_terminated_launch_ends_its_ranks(config: dict[str, Any], make_run_dir: MakeRunDir) -> None:
    run_dir = make_run_dir({**config, "epochs": 1000})
    process = launch(run_dir)
    pids = training_pids(run_dir)
    process.terminate()
    assert process.wait(timeout=60) != 0
    assert (run_dir / "exit_status").read_text() != "0\n"
    assert gone(pids)


@pytest.mark.data
def test_benchmarks(tmp_path: Path, validate: Validate) -> None:
    path = tmp_path / "bench.json"
    arguments = ("--model", "cnn_a", "--batch", "2", "--rounds", "1", "--seconds", "0.01", "--bf16")
    suite = ("python3", "-m", "trainer", "bench", "suite", *arguments, "--json", str(path))
    done = mpirun(*suite)
    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())
    assert result["world_size"] == 2
    assert set(result["matmul"]["gflops"]) == {"one_rank", "all_ranks", "distributed"}
    assert all(value > 0 for value in result["matmul"]["gflops"].values())
    times = {(entry["engine"], entry["bytes"]): entry["seconds"] for entry in result["allreduce"]}
    # Debian's PyTorch has MPI, PyPI's has not.
    ddp = ["ddp_gloo", *(["ddp_mpi"] if torch.distributed.is_mpi_available() else [])]
    for engine in ("horovod", *ddp):
        assert 0 < times[engine, 4**6] < times[engine, 4**13]
    training = result["throughput"]["cnn_a"]
    ranks = {turn["arm"]: len(turn["seconds"]) for turn in training["turns"]}
    alone = {"one_rank": 1, "minimal": 1, "lockstep": 1}
    both = {"independent": 2, "synthetic": 2, "horovod": 2, "horovod_optimizer": 2}
    both |= {"horovod_checkpoint": 2, **dict.fromkeys(ddp, 2), "ddp_torchrun": 2, "bf16": 2}
    assert ranks == alone | both
    speed = {turn["arm"]: turn["images_per_second"] for turn in training["turns"]}
    ratio = speed["horovod"] / speed["independent"]
    assert training["ratios"]["horovod_over_ideal"] == pytest.approx(ratio)
    assert 0 < training["ratios"]["lockstep_over_ideal"] <= 1 + 1e-9
    assert 0.5 < training["ratios"]["checkpoint_over_none"] < 1.5
    assert not list(tmp_path.glob(".bench-*"))
    assert set(training["images_per_second"]) == set(ranks)
    # Whoever shows the result finds in it what everything is called.
    labels = result["labels"]
    # NCCL is there with GPUs alone, MPI in Debian's PyTorch alone.
    assert set(labels["arms"]) == {*ranks, "ddp_mpi", "ddp_nccl"}
    without = {"ddp_mpi_over_ideal", "ddp_nccl_over_ideal"}
    assert set(labels["ratios"]) == {*training["ratios"], *without}
    assert set(labels["matmul"]) == set(result["matmul"]["gflops"])
    assert {engine for engine, _ in times} <= set(labels["arms"])
    exchanging = ("horovod", "horovod_optimizer", *(arm for arm in labels["arms"] if "ddp" in arm))
    assert result["efficiencies"] == {arm: f"{arm}_over_ideal" for arm in exchanging}
    for line in metrics(tmp_path):
        validate(line, "metrics")
