"""What `make test-all` is made of: units, the seconds that each takes, and their split into shards.

A unit is what is measured, split and reported as one: the linters, a file of unit tests, the
trainer's tests (one container runs them), a scenario, a file of whole runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "tests/seconds.yml"
LINT, UNIT, TRAINER, SCENARIO, WHOLE = "lint", "unit", "trainer", "scenario", "whole"
# In the order in which they are run: what fails soonest comes first, and the trainer's tests when
# their image is built, which begins with the linters.
KINDS = (UNIT, LINT, SCENARIO, TRAINER, WHOLE)
# How many of a kind run side by side, on two cores
SIDE_BY_SIDE: Mapping[str, int] = {LINT: 1, UNIT: 2, TRAINER: 1, SCENARIO: 2, WHOLE: 1}
# What a unit that was never measured is taken for, in seconds
GUESSES: Mapping[str, float] = {LINT: 120, UNIT: 10, TRAINER: 300, SCENARIO: 250, WHOLE: 100}
UNIT_TESTS = (
    *("tests/yard", "tests/roles", "tests/node", "tests/changed", "tests/gpu", "tests/circles"),
)


@dataclass(frozen=True)
class Unit:
    """Something that is run as a whole.

    Attributes:
        name: `lint`, `trainer`, or a path in the checkout: a file of tests, `molecule/accounts`.
        kind: one of KINDS.
        seconds: how long it takes on two cores where nothing else runs, alone.
    """

    name: str
    kind: str
    seconds: float

    @property
    def share(self) -> float:
        """Seconds by which a run that has it lasts longer."""
        return self.seconds / SIDE_BY_SIDE[self.kind]


def find_units(root: Path = ROOT) -> list[Unit]:
    """Find all units of a checkout, by name."""
    names = {LINT: LINT, TRAINER: TRAINER}
    for folder in UNIT_TESTS:
        names |= {str(file.relative_to(root)): UNIT for file in (root / folder).glob("test_*.py")}
    for file in root.glob("molecule/*/molecule.yml"):
        names[str(file.parent.relative_to(root))] = SCENARIO
    for file in (root / "tests/e2e").rglob("test_*.py"):
        names[str(file.relative_to(root))] = WHOLE
    known = read_seconds(root)
    return [
        Unit(name, kind, known.get(name, GUESSES[kind])) for name, kind in sorted(names.items())
    ]


def read_seconds(root: Path = ROOT) -> dict[str, float]:
    """Read how long each unit takes, measured or estimated, by name."""
    file = root / SECONDS
    document = yaml.safe_load(file.read_text()) if file.is_file() else {}
    return {**document.get("estimated", {}), **document.get("measured", {})}


def note_seconds(took: Mapping[str, float], root: Path = ROOT) -> None:
    """Write what was measured; an estimate of the same unit goes, and units that are no more."""
    file = root / SECONDS
    text = file.read_text()
    head = text[: text.index("---")]
    document = yaml.safe_load(text)
    there = {unit.name for unit in find_units(root)}
    measured = {**document["measured"], **{name: round(value) for name, value in took.items()}}
    parts = {
        "measured": {name: measured[name] for name in sorted(there & set(measured))},
        "estimated": {
            name: value
            for name, value in sorted(document["estimated"].items())
            if name in there - set(measured)
        },
    }
    file.write_text(f"{head}---\n{yaml.safe_dump(parts, sort_keys=False)}")


def split(units: Iterable[Unit], shards: int) -> list[list[Unit]]:
    """Split units into shards that take about as long as each other; the same ones each time.

    The longest unit first, each to the shard that is the shortest until then (LPT; R. L. Graham,
    "Bounds on multiprocessing timing anomalies", 1969: at most 4/3 of the best).
    """
    parts: list[list[Unit]] = [[] for _ in range(shards)]
    sums = [0.0] * shards
    for unit in sorted(units, key=lambda unit: (-unit.share, unit.name)):
        shortest = sums.index(min(sums))
        parts[shortest].append(unit)
        sums[shortest] += unit.share
    return parts


def fitting(units: Sequence[Unit], seconds: float) -> list[Unit]:
    """Those of units, in their order, that have room in a time; others are passed over."""
    chosen = []
    for unit in units:
        if unit.share <= seconds:
            seconds -= unit.share
            chosen.append(unit)
    return chosen
