import pytest

from trainer.errors import WorldError
from trainer.problems import Problem
from trainer.world import Rank, check_ranks


def ranks(*hosts: str) -> list[Rank]:
    return [Rank(number, 0, host, 100 + number) for number, host in enumerate(hosts)]


def test_the_world_that_was_asked_for_is_accepted() -> None:
    check_ranks(ranks("node1", "node2"), 2, ["node1", "node2"])
    check_ranks(ranks("node1", "node1", "node2", "node2"), 4, ["node1", "node2"])
    check_ranks(ranks("node1.example.org", "node2.example.org"), 2, ["node1", "node2"])
    check_ranks(ranks("node1", "node2"), 2, ["node1.example.org", "node2.example.org"])
    check_ranks(ranks("node.east", "node.west"), 2, ["node.east", "node.west"])


@pytest.mark.parametrize(
    ("world", "size", "hosts"),
    [
        (ranks("node1", "node1"), 2, ["node1", "node2"]),
        (ranks("node1"), 2, ["node1", "node2"]),
        (ranks("node1", "node2"), 4, ["node1", "node2"]),
        (ranks("node1", "node3"), 2, ["node1", "node2"]),
        (ranks("node.east", "node.east"), 2, ["node.east", "node.west"]),
        (ranks("node1", "node1", "node1", "node2"), 4, ["node1", "node2"]),
    ],
)
def test_another_world_is_refused(world: list[Rank], size: int, hosts: list[str]) -> None:
    with pytest.raises(WorldError):
        check_ranks(world, size, hosts)


def test_refusal_says_what_was_asked_and_what_runs() -> None:
    with pytest.raises(WorldError) as refusal:
        check_ranks(ranks("node1", "node1"), 2, ["node1", "node2"])
    message = "asked were 2 ranks (1 on node1, 1 on node2), running are 2 (2 on node1)"
    assert refusal.value.problem == Problem("wrong_world", {"message": message})
    assert f"the world is not the one asked for: {message}. No step was" in str(refusal.value)
