"""`make scaling`: the same job on one node and on two."""

import json

import pytest
from commands import make
from machines import CHECKOUT

pytestmark = pytest.mark.usefixtures("ready_cluster")


@pytest.mark.parametrize(
    ("hold", "global_batches", "steps"),
    [({}, [16, 32], [40, 20]), ({"HOLD": "global-batch"}, [32, 32], [20, 20])],
    ids=["rank-batch", "global-batch"],
)
def test_compares_one_node_with_two(
    hold: dict[str, str], global_batches: list[int], steps: list[int]
) -> None:
    wish = {"MODEL": "cnn_a", "NODES": 2, "EPOCHS": 1, "TRAIN_IMAGES": 640, "BATCH": 16}
    outcome = make("scaling", **wish, **hold)
    assert outcome.status == 0
    written = outcome.output.split("Written to ", 1)[1].split(" and ", 1)[0]
    result = json.loads((CHECKOUT / written).read_text())
    points = (result["one"], result["many"])
    assert [(point["nodes"], point["world_size"]) for point in points] == [(1, 1), (2, 2)]
    assert [point["global_batch"] for point in points] == global_batches
    assert [point["steps"] for point in points] == steps
    assert "efficiency" in outcome.output
