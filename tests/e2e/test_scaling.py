"""`make scaling`: the same job on one node and on two."""

import json

import pytest
from commands import make
from machines import CHECKOUT

pytestmark = pytest.mark.usefixtures("ready_cluster")


@pytest.mark.promise("row 27", "make scaling", "make scaling MODEL=vit NODES=2")
def test_compares_one_node_with_two() -> None:
    """A rank keeps its batch. tests/yard/test_scaling.py has HOLD=global-batch."""
    wish = {"MODEL": "cnn_a", "NODES": 2, "EPOCHS": 1, "TRAIN_IMAGES": 640, "BATCH": 16}
    wish["ROUNDS"] = 1
    outcome = make("scaling", **wish)
    assert outcome.status == 0
    written = outcome.output.split("Written to ", 1)[1].split(" and ", 1)[0]
    result = json.loads((CHECKOUT / written).read_text())
    points = (result["one"], result["many"])
    assert [(point["nodes"], point["world_size"]) for point in points] == [(1, 1), (2, 2)]
    assert [point["global_batch"] for point in points] == [16, 32]
    assert [point["steps"] for point in points] == [40, 20]
    assert "efficiency" in outcome.output
