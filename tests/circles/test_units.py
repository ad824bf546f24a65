"""Shards are alike, the same each time, and leave nothing out."""

from collections import Counter
from pathlib import Path

import pytest
import yaml
from last_run import note_last_run, oldest_first, read_last_run
from units import (
    SCENARIO,
    UNIT,
    WHOLE,
    Unit,
    find_units,
    fitting,
    note_seconds,
    read_seconds,
    split,
)

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("shards", [1, 2, 6])
def test_each_unit_is_in_one_shard_and_shards_are_alike(shards: int) -> None:
    units = find_units(CHECKOUT)
    parts = split(units, shards)
    assert Counter(unit for part in parts for unit in part) == Counter(units)
    sums = [sum(unit.share for unit in part) for part in parts]
    longest = max(unit.share for unit in units)
    assert max(sums) - min(sums) <= max(longest, 0.02 * sum(sums))
    # Whoever lists the units in another order has the same shards.
    assert [set(part) for part in split(reversed(units), shards)] == [set(part) for part in parts]


def test_an_hour_is_enough_for_a_sixth() -> None:
    """Beside a quarter of an hour for engine, images and nodes."""
    assert max(sum(unit.share for unit in part) for part in split(find_units(), 6)) < 45 * 60


def test_all_tests_of_this_checkout_are_units() -> None:
    names = {unit.name: unit.kind for unit in find_units(CHECKOUT)}
    assert names["tests/circles/test_units.py"] == UNIT
    assert names["tests/e2e/faults/test_ranks.py"] == WHOLE
    assert names["molecule/accounts"] == SCENARIO
    assert {"lint", "trainer"} < names.keys()
    # What is written down of others is a name that somebody has changed.
    assert read_seconds(CHECKOUT).keys() <= names.keys()
    assert read_last_run(CHECKOUT).keys() <= names.keys()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with two files of tests, of which one was measured and one estimated."""
    (tmp_path / "tests/yard").mkdir(parents=True)
    for name in ("a", "b"):
        (tmp_path / f"tests/yard/test_{name}.py").touch()
    document = {
        "measured": {"tests/yard/test_a.py": 3, "tests/yard/test_gone.py": 4},
        "estimated": {"tests/yard/test_b.py": 9},
    }
    (tmp_path / "tests/seconds.yml").write_text(f"# Head\n---\n{yaml.safe_dump(document)}")
    (tmp_path / "tests/last_run.yml").write_text("# Head\n---\n{}\n")
    return tmp_path


def test_what_is_measured_takes_the_place_of_an_estimate(checkout: Path) -> None:
    seconds = {unit.name: unit.seconds for unit in find_units(checkout)}
    assert (seconds["tests/yard/test_a.py"], seconds["tests/yard/test_b.py"]) == (3, 9)
    note_seconds({"tests/yard/test_b.py": 6.6}, checkout)
    text = (checkout / "tests/seconds.yml").read_text()
    assert text.startswith("# Head\n---\n")
    assert yaml.safe_load(text) == {
        "measured": {"tests/yard/test_a.py": 3, "tests/yard/test_b.py": 7},
        "estimated": {},
    }


def test_the_longest_not_run_comes_first_and_the_clock_deals_the_rest(checkout: Path) -> None:
    names = [f"tests/yard/test_{name}.py" for name in "abcdefgh"]
    units = [Unit(name, UNIT, 10) for name in names]
    note_last_run(names[:2], "2026-11-28", "0123456789", checkout)
    note_last_run(names[2:3], "2026-11-27", "abcdefghij", checkout)
    last = read_last_run(checkout)
    assert last[names[0]] == "2026-11-28 0123456"
    orders = {tuple(unit.name for unit in oldest_first(units, last, clock)) for clock in range(9)}
    assert len(orders) > 1
    for order in orders:
        assert set(order[:5]) == set(names[3:])
        assert order[5] == names[2]


def test_what_has_no_room_makes_way_for_what_has() -> None:
    units = [Unit("a", WHOLE, 50), Unit("b", WHOLE, 70), Unit("c", UNIT, 80), Unit("d", WHOLE, 20)]
    assert [unit.name for unit in fitting(units, 100)] == ["a", "c"]
    assert fitting(units, -5) == []
