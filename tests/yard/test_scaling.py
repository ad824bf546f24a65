"""One node against several: the arithmetic, and the command as a user starts it."""

import json
from dataclasses import replace

import pytest
from yard_command import Yard, made

from yard.plays.inventory import Inventory
from yard.request.resolve import resolve
from yard.request.training import GLOBAL_BATCH, RANK_BATCH, TrainRequest
from yard.runs.scaling import ScalingRun, compare, guides_gain

ONE = ScalingRun(
    run_id="one",
    nodes=1,
    world_size=1,
    batch_per_rank=64,
    global_batch=64,
    learning_rate=0.001,
    epochs=2,
    steps=312,
    images_per_second=63.0,
    training_seconds=400.0,
    seconds_total=420.0,
    test_accuracy=0.41,
    final_loss=1.6,
)
FOUR = replace(
    ONE,
    nodes=4,
    world_size=4,
    global_batch=256,
    images_per_second=240.0,
    training_seconds=110.0,
)


def test_the_guides_two_machines_were_1_84_times_as_fast() -> None:
    assert guides_gain().speed_up == pytest.approx(1.84, abs=0.005)
    assert guides_gain().efficiency == pytest.approx(0.92, abs=0.005)


def test_gains_are_by_speed_and_by_time(lab: Inventory) -> None:
    training = resolve(TrainRequest("vit"), lab)
    result = compare("scaling-1", training, RANK_BATCH, [ONE], [FOUR])
    assert result.throughput.speed_up == pytest.approx(240 / 63, abs=1e-4)
    assert result.throughput.efficiency == pytest.approx(240 / 63 / 4, abs=1e-4)
    assert result.training.speed_up == pytest.approx(400 / 110, abs=1e-4)
    assert "64 images per rank and step" in result.held
    assert "from 64 to 256" in result.held
    smaller = compare(
        "scaling-1", training, GLOBAL_BATCH, [ONE], [replace(FOUR, batch_per_rank=16)]
    )
    assert "64 images a step of all ranks" in smaller.held
    assert "from 64 to 16" in smaller.held


def test_what_cannot_be_is_said(lab: Inventory) -> None:
    training = resolve(TrainRequest("vit"), lab)

    def doubts(ones: list[float], manys: list[float]) -> tuple[str, ...]:
        rounds = [
            [replace(run, images_per_second=rate, training_seconds=4e4 / rate) for rate in rates]
            for run, rates in ((ONE, ones), (replace(FOUR, nodes=2), manys))
        ]
        return compare("scaling-1", training, RANK_BATCH, *rounds).doubts

    assert doubts([100, 98, 97], [190, 197, 195]) == ()
    (doubt,) = doubts([100, 100], [602.4, 602.4])
    assert doubt.startswith("An efficiency of 301.2 % cannot be: 2 nodes bring 2 times the speed")
    (doubt,) = doubts([100, 80], [160, 160])
    assert doubt.startswith("The rounds on one node are 22.2 % apart (80.0 to 100.0 images/s)")


def test_the_median_of_the_rounds_counts(lab: Inventory) -> None:
    fast = replace(ONE, images_per_second=90.0, training_seconds=300.0)
    result = compare(
        "scaling-1", resolve(TrainRequest("vit"), lab), RANK_BATCH, [ONE, fast, fast], [FOUR] * 3
    )
    assert (result.one.images_per_second, result.one.training_seconds) == (90.0, 300.0)
    assert result.rounds == ((63.0, 240.0), (90.0, 240.0), (90.0, 240.0))


def test_scaling_trains_in_turns_and_writes_what_it_found(ready: Yard) -> None:
    done = ready("scaling", "--model", "vit", "--set", "steps=4", "--hold", "global-batch")
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (ready.root / "runs").glob("scaling-*")
    result = json.loads((folder / "scaling.json").read_text())
    assert [result[which]["nodes"] for which in ("one", "many")] == [1, 2]
    # The model's own batch is 64 a rank on the two nodes.
    assert [result[which]["batch_per_rank"] for which in ("one", "many")] == [128, 64]
    speeds = [result[which]["images_per_second"] for which in ("one", "many")]
    assert result["throughput"]["speed_up"] == pytest.approx(speeds[1] / speeds[0], abs=1e-4)
    page = (folder / "scaling.html").read_text()
    assert "guides, time to train, 2 nodes" in page
    assert f'href="../{result["one"]["run_id"]}/report.html"' in page
    assert "Held constant: model, images, 2 epochs" in done.stdout
    runs = ready("runs", "--json").stdout
    named = [(case, number) for number in (1, 2) for case in ("1 node", "2 nodes")]
    assert all(f"{folder.name}, {case}, round {number}" in runs for case, number in named)


@pytest.mark.process
def test_the_target_of_make() -> None:
    told = made("scaling", "MODEL=vit", "ON=gpu_nodes", "HOLD=global-batch", "ROUNDS=5")
    assert told.endswith(" --on='gpu_nodes' --hold='global-batch' --rounds='5'")


def test_one_node_is_not_compared_with_itself(fresh: Yard) -> None:
    done = fresh("scaling", "--model", "vit", "--nodes", "1")
    assert done.returncode == 2
    assert "compares one node with more" in done.stderr
    done = fresh("scaling", "--model", "vit", "--nodes", "2", "--rounds", "0")
    assert "ROUNDS=0: must be 1 or more" in done.stderr
    site = ("--inventory", "inventory/lab", "scaling", "--model", "vit", "--on", "beta")
    assert "nodes 2: this inventory has 1: beta" in fresh(*site).stderr
    assert not (fresh.root / "runs").exists()
