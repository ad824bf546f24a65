"""Who is named for pairs that failed and for values that differ."""

import pytest

from node.verdict import attribution

Pair = tuple[str, str]


def pairs(*nodes: str) -> list[Pair]:
    return [(a, b) for a in nodes for b in nodes if a != b]


def with_node(node: str, *nodes: str) -> list[Pair]:
    return [pair for pair in pairs(*nodes) if node in pair]


@pytest.mark.parametrize(
    ("failed", "nodes", "named"),
    [
        ([], "abcd", ""),
        (with_node("c", *"abcd"), "abcd", "c"),
        (with_node("c", *"abc"), "abc", "c"),
        # Only what goes out of it, or comes in.
        ([("c", "a"), ("c", "b"), ("c", "d")], "abcd", "c"),
        ([("a", "c"), ("b", "c"), ("d", "c")], "abcd", "c"),
        # Two bad ones.
        (sorted({*with_node("c", *"abcd"), *with_node("d", *"abcd")}), "abcd", "cd"),
        # One bad node, and two that have trouble with each other besides.
        ([*with_node("e", *"abcde"), ("a", "b")], "abcde", "e"),
        # More partners than any other, though not all.
        ([("a", "c"), ("b", "c")], "abcd", "c"),
        # A matter between two: nobody can tell whose.
        ([("a", "b")], "abcd", ""),
        ([("a", "b"), ("b", "a")], "ab", ""),
        # A network that is split in two halves.
        ([("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")], "abcd", ""),
    ],
)
def test_the_node_behind_failed_pairs(failed: list[Pair], nodes: str, named: str) -> None:
    assert sorted(attribution.culprits(failed, pairs(*nodes))) == sorted(named)


def test_the_majority_is_right() -> None:
    assert attribution.majority({"a": "5.0.7", "b": "5.0.7", "c": "4.1.4"}) == "5.0.7"
    assert attribution.majority({"a": "5.0.7", "b": "4.1.4"}) is None
    assert attribution.majority({}) is None


@pytest.mark.parametrize("nodes", ["abc", "abcd"])
def test_one_wrong_clock(nodes: str) -> None:
    clocks = {**dict.fromkeys(nodes, 100.0), "b": 130.0}
    ahead = {(a, b): clocks[b] - clocks[a] for a, b in pairs(*nodes)}
    wrong = attribution.clock_errors(ahead, list(nodes))
    assert {node for node, error in wrong.items() if abs(error) > 1} == {"b"}
    assert wrong["b"] == 30


def test_of_two_clocks_that_differ_nobody_can_tell_which_is_right() -> None:
    assert attribution.clock_errors({("a", "b"): 30.0, ("b", "a"): -30.0}, "ab") == {
        "a": -30,
        "b": 30,
    }
