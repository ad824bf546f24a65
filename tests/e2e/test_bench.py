"""`make bench`: every way to train, once around."""

import json
import math

import pytest
from commands import make
from machines import CHECKOUT, NODES

pytestmark = pytest.mark.usefixtures("ready_cluster")


@pytest.mark.promise("row 23", "make bench")
def test_measures_every_way_to_train() -> None:
    outcome = make("bench", MODELS="cnn_a", NODES=2, ARGS="--rounds 1 --seconds 1")
    assert outcome.status == 0
    results = json.loads((CHECKOUT / "bench/results.json").read_text())
    assert (results["hosts"], results["world_size"]) == (list(NODES), 2)
    assert results["run"] in outcome.output
    speeds = results["throughput"]["cnn_a"]["images_per_second"]
    assert {"independent", "horovod", "ddp_mpi", "ddp_gloo", "ddp_torchrun"} <= set(speeds)
    assert all(math.isfinite(speed) and speed > 0 for speed in speeds.values())
    assert "Horovod" in outcome.output
    assert (CHECKOUT / "bench/results.svg").read_text().rstrip().endswith("</svg>")
