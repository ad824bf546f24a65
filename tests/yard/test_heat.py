"""What is odd about a run: GPUs that are too hot or idle, and what W&B refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from yard.runs.record import read_run
from yard.runs.summary import summarise_so_far

Recorded = Callable[[str], Path]

NOW = 1_795_200_000.0


def gpu(index: int, slowed: object) -> dict[str, Any]:
    return {"index": index, "name": "A100", "slowed_by_heat": slowed}


def warnings_of(run: Path, *samples: list[dict[str, Any]]) -> tuple[str, ...]:
    """What is said of a run whose node1 got its GPUs 3 and 5 and was sampled like this."""
    folder = run / "nodes/node1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "facts.json").write_text(json.dumps({"gpu_devices": [{"index": 5}, {"index": 3}]}))
    lines = [json.dumps({"time": NOW + at, "gpus": gpus}) for at, gpus in enumerate(samples)]
    (folder / "utilisation.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return summarise_so_far(read_run(run), NOW).warnings


def test_the_gpu_that_was_too_hot_is_named_by_its_number_on_the_node(recorded: Recorded) -> None:
    cool, hot = [gpu(0, False), gpu(1, False)], [gpu(0, False), gpu(1, True)]
    (warning,) = warnings_of(recorded("succeeded"), *[cool] * 20, *[hot] * 4)
    assert warning == (
        "GPU 5 of node1 was so hot that it slowed itself down, in 4 of the last 24 looks at it: "
        "see what cools it."
    )


@pytest.mark.parametrize(("cool", "hot"), [(3, 2), (40, 4), (9, 0)])
def test_a_moment_of_heat_is_no_trouble(cool: int, hot: int, recorded: Recorded) -> None:
    looks = [False] * cool + [True] * hot
    samples = [[gpu(0, False), gpu(1, slowed)] for slowed in looks]
    assert warnings_of(recorded("succeeded"), *samples) == ()


@pytest.mark.parametrize("slowed", [None, "yes", 1])
def test_a_card_that_does_not_tell_is_not_hot(slowed: object, recorded: Recorded) -> None:
    assert warnings_of(recorded("succeeded"), *[[gpu(0, slowed), gpu(1, slowed)]] * 9) == ()


def test_a_rank_cannot_make_up_gpus(recorded: Recorded) -> None:
    made_up = [gpu(index, True) for index in (0, 1, 7, -1, 10**50)]
    run = recorded("succeeded")
    assert warnings_of(run, *[made_up] * 9) == ()
    assert len(warnings_of(run, *[made_up[:2]] * 9)) == 2


@pytest.mark.parametrize(
    ("refused", "said"), [("no network\x1b[2J", (r"W&B: 'no network\x1b[2J'",)), (7, ()), ("", ())]
)
def test_what_weights_and_biases_refused_is_told(
    refused: object, said: tuple[str, ...], recorded: Recorded
) -> None:
    run = recorded("succeeded")
    path = run / "metrics.jsonl"
    first, *others = path.read_text().splitlines()
    line = json.loads(first)
    assert line["event"] == "start"
    line["wandb_refused"] = refused
    path.write_text("\n".join([json.dumps(line), *others, ""]))
    assert summarise_so_far(read_run(run), NOW).warnings == said


def idle(run: Path, *shares: float, samples: int = 12, busy: object = 41) -> tuple[str, ...]:
    """What is said of GPUs that were so busy, in steps of these parts: loading, exchange, rest."""
    if shares:
        names = ("data_seconds", "communication_seconds", "compute_seconds")
        path = run / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line |= dict(zip(names, shares, strict=True)) if line["event"] == "step" else {}
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    card = {**gpu(0, False), "utilisation_percent": busy}
    return warnings_of(run, *[[card]] * samples)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ((5.2, 1, 3.8), "; loading images took 52.0 % of a step: more threads"),
        ((1, 5, 4), "; waiting for other ranks took 50.0 % of a step: a larger BATCH="),
        ((1, 1, 8), ": a larger BATCH= gives them more to do"),
    ],
)
def test_idle_gpus_are_told_with_what_was_in_the_way(
    shares: tuple[float, ...], said: str, recorded: Recorded
) -> None:
    (warning,) = idle(recorded("succeeded"), *shares)
    assert warning.startswith(f"GPUs were busy 41 % of the time{said}")


@pytest.mark.parametrize(("samples", "busy"), [(12, 60), (11, 41), (12, None), (12, "much")])
def test_gpus_that_work_or_do_not_tell_are_not_idle(
    samples: int, busy: object, recorded: Recorded
) -> None:
    assert idle(recorded("succeeded"), samples=samples, busy=busy) == ()
