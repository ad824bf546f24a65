"""The table of docs/faults.md as the tests of faults write it."""

import json
from pathlib import Path

from faults.table import BEGIN, COLUMNS, END, Record, keep, merge_records
from tables import row, table


def record(case: str, *left: str, end: str = "disk_full") -> Record:
    return Record(case, 1.4, end, left, 1, 2, ["last of 0", "last of 1"], "2026-11-22")


def test_says_what_was_measured() -> None:
    cells = ["a", "1", "disk_full", "file on node1: x; lock on node2: y", "1 of 2", "2026-11-22"]
    assert record("a", "file on node1: x", "lock on node2: y").cells() == cells


def test_some_faults_change_their_rows_alone() -> None:
    rows = [row(record(case).cells()) for case in ("a", "b", "c")]
    document = f"Before.\n{BEGIN}\n{table(COLUMNS, rows)}\n{END}After.\n"
    merged = merge_records(document, [record("b", end="lost_node"), record("new")])
    expected = [rows[0], row(record("b", end="lost_node").cells()), rows[2]]
    expected.append(row(record("new").cells()))
    assert merged == f"Before.\n{BEGIN}\n{table(COLUMNS, expected)}\n{END}After.\n"


def test_earlier_measurements_of_other_faults_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    keep([record("a"), record("b")], file)
    keep([record("b", end="lost_node")], file)
    kept = json.loads(file.read_text())
    assert {case: entry["end"] for case, entry in kept.items()} == {
        "a": "disk_full",
        "b": "lost_node",
    }
