"""GPUs that slowed themselves down for heat, from what was sampled beside a run."""

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
