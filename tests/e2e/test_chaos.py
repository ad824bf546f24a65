"""Chaos: a run that is disturbed at a random moment ends as one that was left alone.

Ten disturbances are tried, drawn by CHAOS_SEED; CHAOS_RUNS= tries more, in turns of all there are.
`pytest -s` shows a line for each: what struck when, what was lost, how long the restart took.
"""

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from commands import BackgroundRun
from disturbances import CHECKPOINT_SECONDS, DISTURBANCES, NODES, Disturbance
from machines import RUN_ROOT, docker, in_machine

pytestmark = pytest.mark.nodes(len(NODES))

COUNT = int(os.environ.get("CHAOS_RUNS", "10"))
SEED = int(os.environ.get("CHAOS_SEED", "338"))
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


def drawn() -> list[tuple[int, Disturbance, float]]:
    """What happens: number, what, and when, as a share of the run's steps."""
    chance = random.Random(SEED)
    drawn: list[Disturbance] = []
    while len(drawn) < COUNT:
        drawn += chance.sample(DISTURBANCES, len(DISTURBANCES))
    # Not so late that a fast machine is through before it happens.
    return [(number, what, chance.uniform(0.05, 0.6)) for number, what in enumerate(drawn[:COUNT])]


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
def undisturbed(cluster: Cluster) -> Callable[[Mapping[str, object]], Undisturbed]:
    """Runs with the same options, in the same surroundings, once for each."""
    cluster.resize(len(NODES))
    known: dict[str, Undisturbed] = {}

    def with_options(options: Mapping[str, object]) -> Undisturbed:
        key = json.dumps(dict(options), sort_keys=True)
        if key not in known:
            run = BackgroundRun(**options)
            assert run.finish().status == 0
            known[key] = Undisturbed(state_of(run), run.summary()["steps"])
        return known[key]

    return with_options


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
        first = next((each["time"] for each in after if each["event"] == "step"), after[-1]["time"])
        yield before["time"] - max(kept, default=lines[0]["time"]), first - before["time"]


@pytest.mark.parametrize(
    ("number", "what", "when"), drawn(), ids=lambda value: getattr(value, "name", None)
)
def test_a_disturbed_run_ends_as_an_undisturbed_one(
    number: int,
    what: Disturbance,
    when: float,
    undisturbed: Callable[[Mapping[str, object]], Undisturbed],
) -> None:
    with what.setting() as further_options:
        wanted = undisturbed(what.options)
        run = BackgroundRun(**what.options, **(further_options or {})).trains()
        moment = int(when * wanted.steps)
        step = run.wait_for(f"step {moment}", lambda: reached(run, moment))
        try:
            what.strike(run)
            outcome = what.follow(run)
        finally:
            what.mend()
        assert outcome.status == 0, outcome.output
        summary = run.summary()
        costs = list(setbacks(run))
        print(
            f"\nchaos {SEED}/{number}: {what.name} after step {step}: "
            f"{summary['attempts']} attempts on {', '.join(summary['hosts'])}; "
            + "; ".join(
                f"{lost:.1f} s done again, next step after {wait:.1f} s" for lost, wait in costs
            )
            + f"; useful {summary['effective_training_time_ratio']:.0%}"
        )
        assert (summary["status"], summary["steps"]) == ("succeeded", wanted.steps)
        assert state_of(run) == wanted.state
        assert all(lost <= CHECKPOINT_SECONDS + 60 for lost, _ in costs)
        assert outcome.output.count("; retries left: ") == summary["attempts"] - 1
        for attempt in range(1, summary["attempts"]):
            logs = (run.directory / f"attempts/{attempt}/logs").glob("rank-*.log")
            assert any(log.stat().st_size for log in logs)
        for host in NODES:
            assert in_machine(host, "docker ps --all --quiet --filter label=trainyard.run") == ""
            assert in_machine(host, f"ls {RUN_ROOT}") == ""
