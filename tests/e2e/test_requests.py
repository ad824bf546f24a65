"""Requests that make no sense end at once, and say what there is."""

from conftest import CHECKOUT, make


def runs() -> set[str]:
    directory = CHECKOUT / "runs"
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()


def test_unknown_model() -> None:
    before = runs()
    outcome = make("train", MODEL="nonsense", NODES=2)
    assert outcome.status == 2
    assert "nonsense" in outcome.output
    assert "vit" in outcome.output
    assert runs() == before


def test_more_nodes_than_there_are() -> None:
    before = runs()
    outcome = make("train", MODEL="vit", NODES=9)
    assert outcome.status == 2
    assert "node1" in outcome.output
    assert "node2" in outcome.output
    assert runs() == before
