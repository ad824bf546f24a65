"""Chaos: a run that a fault strikes at a random moment ends as one that nothing disturbed.

Two faults are tried, drawn by CHAOS_SEED; CHAOS_RUNS= tries more, in turns of all that there are.
`pytest -s` shows a line for each: what struck when, what was lost, how long the restart took.
"""

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from commands import BackgroundRun, make
from machines import RUN_ROOT, docker, in_machine, machine, wait_until_ready
from trainings import SMALL

NODES = ["node1", "node2", "node3", "node4"]
pytestmark = pytest.mark.nodes(len(NODES))

COUNT = int(os.environ.get("CHAOS_RUNS", "2"))
SEED = int(os.environ.get("CHAOS_SEED", "4"))
CHECKPOINT_SECONDS = 3
# On two nodes; the other two take the place of one that is at fault.
OPTIONS = {
    **SMALL,
    "EPOCHS": 10,
    "TRAIN_IMAGES": 1280,
    "CHECKPOINT_SECONDS": CHECKPOINT_SECONDS,
    "RETRIES": 3,
    "STALL": 12,
}
# Of all tensors of a checkpoint that make the next step what it is.
STATE = """
import hashlib, sys, torch
from trainer.checkpoint import Checkpoint
from pathlib import Path
digest = hashlib.sha256()
def add(value):
    if isinstance(value, torch.Tensor):
        digest.update(value.contiguous().view(torch.uint8).numpy().tobytes() if value.dim() else
                      repr(value.item()).encode())
    elif isinstance(value, dict):
        [add(value[key]) for key in sorted(value, key=str)]
    elif isinstance(value, (list, tuple)):
        [add(each) for each in value]
    else:
        digest.update(repr(value).encode())
taken = Checkpoint.load(Path("/checkpoints/last.pt"))
for part in (taken.model, taken.optimizer, taken.epoch, taken.step):
    add(part)
print(digest.hexdigest())
"""


@dataclass(frozen=True)
class Fault:
    """What is done to a run that trains, and what puts the machines right after its end."""

    name: str
    strike: Callable[[BackgroundRun], object]
    mend: Callable[[], object] = lambda: None


def power_off(host: str) -> Callable[[BackgroundRun], object]:
    return lambda run: docker("kill", machine(host))


def start(host: str) -> Callable[[], object]:
    """Start a machine again, without what the run left there: that was brought home from others."""

    def act() -> None:
        docker("start", machine(host))
        wait_until_ready(host)
        assert make("setup").status == 0
        in_machine(host, "docker ps -aq --filter label=trainyard.run | xargs -r docker rm -f")
        in_machine(host, f"find {RUN_ROOT} -mindepth 1 -delete")

    return act


def kill_rank(rank: int, host: str) -> Callable[[BackgroundRun], object]:
    return lambda run: run.in_container(host, f"kill -KILL {run.rank_pid(rank, host)}")


def cut(host: str, seconds: float) -> Callable[[BackgroundRun], object]:
    """Let no packet through between a node and the first one for so long."""
    rules = (
        "for rule in 'INPUT --source {0}' 'OUTPUT --destination {0}'; "
        "do iptables {1} $rule --jump DROP; done"
    )

    def act(run: BackgroundRun) -> None:
        address = in_machine(host, "getent hosts node1 | cut -d' ' -f1")
        in_machine(host, rules.format(address, "--insert"))
        time.sleep(seconds)
        in_machine(host, rules.format(address, "--delete"))

    return act


FAULTS = (
    Fault("kill -9 of rank 0", kill_rank(0, "node1")),
    Fault("kill -9 of rank 1", kill_rank(1, "node2")),
    Fault(
        "kill -9 of mpirun",
        lambda run: run.in_container("node1", "pkill -KILL -x 'mpirun|prterun'"),
    ),
    Fault(
        "the first node's container killed",
        lambda run: in_machine("node1", f"docker kill trainyard-{run.run_id}"),
    ),
    Fault("the first node off", power_off("node1"), start("node1")),
    Fault("the second node off", power_off("node2"), start("node2")),
    Fault("link cut for 5 s", cut("node2", 5)),
    Fault("link cut for 30 s", cut("node2", 30)),
)


def drawn() -> list[tuple[int, Fault, float]]:
    """The faults: number, what, and when, as a share of the run's steps."""
    chance = random.Random(SEED)
    faults: list[Fault] = []
    while len(faults) < COUNT:
        faults += chance.sample(FAULTS, len(FAULTS))
    return [
        (number, fault, chance.uniform(0.05, 0.8)) for number, fault in enumerate(faults[:COUNT])
    ]


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing happened to.

    Attributes:
        state: of its last checkpoint.
        steps: how many it did.
    """

    state: str
    steps: int


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster) -> Undisturbed:
    cluster.resize(len(NODES))
    run = BackgroundRun(**OPTIONS)
    assert run.finish().status == 0
    return Undisturbed(state_of(run), run.summary()["steps"])


def reached(run: BackgroundRun, wanted: int) -> int | None:
    """The step that a run is at, once it is the one that is waited for."""
    metrics = f"{RUN_ROOT}/{run.run_id}/work/metrics.jsonl"
    steps = re.findall(r'"step": (\d+)', in_machine("node1", f"tail -1 {metrics}"))
    return int(steps[-1]) if steps and int(steps[-1]) >= wanted else None


def metrics_of(run: BackgroundRun) -> list[dict[str, Any]]:
    text = (run.directory / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def state_of(run: BackgroundRun) -> str:
    """A hash of the parameters and the optimizer's state at the end of a run."""
    manifest = json.loads((run.directory / "manifest.json").read_text())
    checkpoints = f"{run.directory}/checkpoints:/checkpoints:ro"
    trainer = f"{Path(__file__).parents[2]}/trainer:/opt/trainyard/lib/trainer:ro"
    options = [
        "--rm",
        "--network=none",
        "--user=0",
        f"--volume={checkpoints}",
        f"--volume={trainer}",
    ]
    return docker("run", *options, manifest["image"]["name"], "python3", "-c", STATE)


def setbacks(run: BackgroundRun) -> Iterator[tuple[float, float]]:
    """What each restart cost: seconds of training done again, and seconds until the next step."""
    lines = metrics_of(run)
    for number, line in enumerate(lines):
        if line["event"] != "start" or number == 0:
            continue
        before, after = lines[number - 1], lines[number:]
        kept = [each["time"] for each in lines[:number] if each["step"] <= line["step"]]
        first = next(each["time"] for each in after if each["event"] == "step")
        yield before["time"] - max(kept, default=lines[0]["time"]), first - before["time"]


@pytest.mark.parametrize(
    ("number", "fault", "when"), drawn(), ids=lambda value: getattr(value, "name", None)
)
def test_a_disturbed_run_ends_as_an_undisturbed_one(
    number: int, fault: Fault, when: float, undisturbed: Undisturbed
) -> None:
    run = BackgroundRun(**OPTIONS).trains()
    wanted = int(when * undisturbed.steps)
    step = run.wait_for(f"step {wanted}", lambda: reached(run, wanted))
    try:
        fault.strike(run)
        outcome = run.finish(seconds=600)
    finally:
        fault.mend()
    assert outcome.status == 0, outcome.output
    summary = run.summary()
    costs = list(setbacks(run))
    print(
        f"\nchaos {SEED}/{number}: {fault.name} after step {step}: "
        f"{summary['attempts']} attempts on {', '.join(summary['hosts'])}; "
        + "; ".join(
            f"{lost:.1f} s done again, next step after {wait:.1f} s" for lost, wait in costs
        )
        + f"; useful {summary['effective_training_time_ratio']:.0%}"
    )
    assert (summary["status"], summary["steps"]) == ("succeeded", undisturbed.steps)
    assert state_of(run) == undisturbed.state
    assert all(lost <= CHECKPOINT_SECONDS + 60 for lost, _ in costs)
    for host in NODES:
        assert in_machine(host, "docker ps --all --quiet --filter label=trainyard.run") == ""
        assert in_machine(host, f"ls {RUN_ROOT}") == ""
