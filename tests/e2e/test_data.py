"""`make data`: another data set on every node, fetched and checked."""

import json

import pytest
from commands import make
from machines import NODES, in_machine

pytestmark = pytest.mark.usefixtures("ready_cluster")


def test_puts_fashion_mnist_on_every_node() -> None:
    assert make("data", DATASET="fashion_mnist").status == 0
    for host in NODES:
        document = in_machine(host, "cat /srv/trainyard/data/fashion_mnist/dataset.json")
        description = json.loads(document)
        assert description["name"] == "fashion_mnist"
        assert len(description["classes"]) == 10
        assert (description["train_images"], description["test_images"]) == (60_000, 10_000)
    # Nothing is fetched or sent again.
    assert make("data", DATASET="fashion_mnist").status == 0
