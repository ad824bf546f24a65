"""Requests that make no sense end at once, and say what there is."""

import pytest
from conftest import CHECKOUT, make


@pytest.mark.parametrize(
    ("request_made", "named"),
    [
        ({"MODEL": "nonsense", "NODES": 2}, ["nonsense", "vit"]),
        ({"MODEL": "vit", "NODES": 9}, ["9", "node1", "node2"]),
        ({"MODEL": "vit", "NODES": 2, "TRANSPORT": "mail"}, ["mail", "tcp", "ucx", "nccl"]),
    ],
    ids=["unknown-model", "more-nodes-than-there-are", "unknown-transport"],
)
def test_is_refused_before_anything_is_touched(
    request_made: dict[str, object], named: list[str]
) -> None:
    directory = CHECKOUT / "runs"
    before = set(directory.iterdir()) if directory.is_dir() else set()
    outcome = make("train", **request_made)
    assert outcome.status == 2
    for word in named:
        assert word in outcome.output
    assert (set(directory.iterdir()) if directory.is_dir() else set()) == before
