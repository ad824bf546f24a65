"""Requests that make no sense end at once, and say what there is."""

from pathlib import Path

import pytest
import yaml
from commands import RUNS, make
from machines import CHECKOUT


def runs_there_are() -> set[Path]:
    """The folders of all runs."""
    return set(RUNS.iterdir()) if RUNS.is_dir() else set()


@pytest.mark.parametrize(
    ("request_made", "named"),
    [
        ({"MODEL": "nonsense", "NODES": 2}, ["nonsense", "MODEL=list"]),
        ({"MODEL": "vit", "NODES": 9}, ["9", "node1", "node2"]),
        ({"MODEL": "vit", "NODES": 2, "TRANSPORT": "mail"}, ["mail", "tcp", "ucx", "nccl"]),
    ],
    ids=["unknown-model", "more-nodes-than-there-are", "unknown-transport"],
)
def test_is_refused_before_anything_is_touched(
    request_made: dict[str, object], named: list[str]
) -> None:
    before = runs_there_are()
    outcome = make("train", **request_made)
    assert outcome.status == 2
    for word in named:
        assert word in outcome.output
    assert runs_there_are() == before


def test_the_models_are_listed_and_nothing_runs() -> None:
    before = runs_there_are()
    outcome = make("train", MODEL="list")
    assert outcome.status == 0
    models = yaml.safe_load((CHECKOUT / "group_vars/all/models.yml").read_text())[
        "training_parameters"
    ]
    listed = [line.split()[0] for line in outcome.output.splitlines() if line.strip()]
    assert set(models) <= set(listed)
    assert runs_there_are() == before
