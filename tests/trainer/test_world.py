import sys

import pytest

from trainer.errors import WorldError
from trainer.problems import Problem
from trainer.world import Rank, check_ranks, versions


def ranks(*hosts: str) -> list[Rank]:
    return [Rank(number, 0, host, 100 + number) for number, host in enumerate(hosts)]


def test_the_world_that_was_asked_for_is_accepted() -> None:
    check_ranks(ranks("node1", "node2"), {"node1": 1, "node2": 1})
    check_ranks(ranks("node1", "node1", "node2", "node2"), {"node1": 2, "node2": 2})
    check_ranks(ranks("node1", "node1", "node1", "node2"), {"node1": 3, "node2": 1})
    check_ranks(ranks("node1.example.org", "node2.example.org"), {"node1": 1, "node2": 1})
    check_ranks(ranks("node1", "node2"), {"node1.example.org": 1, "node2.example.org": 1})
    check_ranks(ranks("node.east", "node.west"), {"node.east": 1, "node.west": 1})


@pytest.mark.parametrize(
    ("world", "asked"),
    [
        (ranks("node1", "node1"), {"node1": 1, "node2": 1}),
        (ranks("node1"), {"node1": 1, "node2": 1}),
        (ranks("node1", "node2"), {"node1": 2, "node2": 2}),
        (ranks("node1", "node3"), {"node1": 1, "node2": 1}),
        (ranks("node.east", "node.east"), {"node.east": 1, "node.west": 1}),
        (ranks("node1", "node1", "node1", "node2"), {"node1": 2, "node2": 2}),
        (ranks("node1", "node2", "node2"), {"node1": 2, "node2": 1}),
    ],
)
def test_another_world_is_refused(world: list[Rank], asked: dict[str, int]) -> None:
    with pytest.raises(WorldError):
        check_ranks(world, asked)


def test_refusal_says_what_was_asked_and_what_runs() -> None:
    with pytest.raises(WorldError) as refusal:
        check_ranks(ranks("node1", "node1"), {"node1": 1, "node2": 1})
    message = "2 ranks were requested (1 on node1, 1 on node2), 2 are running (2 on node1)"
    assert refusal.value.problem == Problem("wrong_world", {"message": message})
    assert f"the world is not the one asked for: {message}. No step was" in str(refusal.value)


def test_versions_are_those_of_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(versions()) == {"python", "torch", "torchvision", "horovod", "openmpi"}
    for module in ("horovod", "mpi4py"):
        # An import of it fails as where it is not installed.
        monkeypatch.setitem(sys.modules, module, None)
    assert set(versions()) == {"python", "torch", "torchvision"}
