# Copyright Trainyard. Apache-2.0
"""Who is tested with whom, and when: a round-robin tournament.

Every pair meets once, nobody is in two tests at once, and N nodes need N - 1 rounds (N where N is
odd), so the whole takes time in proportion to N although there are N (N - 1) / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

Match = tuple[str, str]


def rounds(nodes: Sequence[str]) -> list[list[Match]]:
    """The matches of every round, by the circle method.

    The first node keeps its place, the others move on by one after every round, and who stands
    opposite meets (E. Lucas, Récréations mathématiques, 1883). With an odd number the one opposite
    the empty place rests.
    """
    circle: list[str | None] = [*nodes]
    if len(circle) % 2:
        circle.append(None)
    schedule = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        opposite = zip(circle[:half], reversed(circle[half:]), strict=True)
        schedule.append([(a, b) for a, b in opposite if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return schedule


def matches_of(node: str, nodes: Sequence[str]) -> list[tuple[int, Match]]:
    """The matches of one node with the number of their round, in order."""
    return [
        (number, match)
        for number, matches in enumerate(rounds(nodes))
        for match in matches
        if node in match
    ]
