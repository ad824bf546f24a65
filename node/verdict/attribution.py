"""Whose fault it is: which node stands behind the pairs that failed, or the value that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

Pair = tuple[str, str]


def culprits(failed: Collection[Pair], tested: Collection[Pair]) -> list[str]:
    """Nodes that explain failed pairs.

    A node is one that fails with all its partners, if these are two at least; and, beyond that,
    one that fails with more partners than any other node, and with more than one. What is left is
    a matter between two nodes, and neither is named: with two nodes alone there is no telling.
    """
    partners: dict[str, set[str]] = {}
    for a, b in tested:
        partners.setdefault(a, set()).add(b)
        partners.setdefault(b, set()).add(a)
    named: list[str] = []
    remaining = set(failed)
    while remaining:
        failing: dict[str, set[str]] = {}
        for a, b in remaining:
            failing.setdefault(a, set()).add(b)
            failing.setdefault(b, set()).add(a)
        counts = sorted(((len(with_), node) for node, with_ in failing.items()), reverse=True)
        guilty = [
            node
            for _, node in counts
            if len(failing[node]) >= 2 and failing[node] >= partners[node] - set(named)
        ]
        if not guilty and counts[0][0] >= 2 and (len(counts) < 2 or counts[0][0] > counts[1][0]):
            guilty = [counts[0][1]]
        if not guilty:
            return named
        named += guilty
        remaining = {pair for pair in remaining if not set(pair) & set(named)}
    return named


def majority(values: Mapping[str, str]) -> str | None:
    """The value that more than half of the nodes have; None where there is none."""
    if not values:
        return None
    value, count = Counter(values.values()).most_common(1)[0]
    return value if 2 * count > len(values) else None


def clock_errors(ahead: Mapping[Pair, float], nodes: Sequence[str]) -> dict[str, float]:
    """How far each node's clock is from most others, in seconds.

    Args:
        ahead: for a pair (a, b), how far b's clock is ahead of a's, in seconds.
    """
    errors = {}
    for node in nodes:
        seen = [value for (_, b), value in ahead.items() if b == node]
        seen += [-value for (a, _), value in ahead.items() if a == node]
        # Of the clocks it was compared with, the nearer half decides: one wrong clock among three
        # differs from both others, and each of these from that one only.
        seen.sort(key=abs)
        if seen:
            errors[node] = seen[(len(seen) - 1) // 2]
    return errors
