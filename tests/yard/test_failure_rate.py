"""How often runs fail here, which says how often a checkpoint is worth its cost."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from yard_command import DATA

from yard.runs.failure_rate import (
    NEWEST,
    NODE_MONTH,
    expected_failures,
    seconds_between_failures,
)
from yard.runs.record import read_run
from yard.runs.summary import summarise, write_summary

DAY = 24 * 3600.0


@pytest.fixture
def add(tmp_path: Path) -> Callable[..., Path]:
    """Adds a run of two nodes that took so long, was launched so often, and ended so."""

    def one(seconds: float, attempts: int = 1, end: str | None = None) -> Path:
        run = tmp_path / f"20261124T0000{len(list(tmp_path.iterdir())):02}Z_vit"
        shutil.copytree(DATA / "runs" / ("killed" if end else "succeeded"), run)
        for attempt in range(1, attempts):
            (run / "attempts" / str(attempt)).mkdir(parents=True)
        summary = summarise(read_run(run))
        if summary.diagnosis is not None:
            summary = replace(summary, diagnosis=replace(summary.diagnosis, signature=end))
        write_summary(run, replace(summary, seconds_total=seconds))
        return run

    return one


def test_before_any_run_a_node_fails_once_a_month(tmp_path: Path) -> None:
    assert seconds_between_failures(tmp_path, 1) == NODE_MONTH
    assert seconds_between_failures(tmp_path / "none", 10) == NODE_MONTH / 10


def test_restarts_are_failures_and_every_node_has_its_time(
    add: Callable[..., Path], tmp_path: Path
) -> None:
    # Both are of two nodes.
    add(DAY, attempts=4)
    add(2 * DAY)
    assert seconds_between_failures(tmp_path, 2) == (NODE_MONTH + 6 * DAY) / (1 + 3) / 2


def test_the_last_end_is_a_failure_only_where_a_machine_or_the_network_was_at_fault(
    add: Callable[..., Path], tmp_path: Path
) -> None:
    add(DAY, end="python_error")
    assert seconds_between_failures(tmp_path, 1) == NODE_MONTH + 2 * DAY
    add(DAY, end="lost_node")
    assert seconds_between_failures(tmp_path, 1) == (NODE_MONTH + 4 * DAY) / 2


def test_a_run_under_way_counts_once_it_was_started_again(
    add: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = add(DAY)
    (run / "summary.json").unlink()
    assert seconds_between_failures(tmp_path, 1) == NODE_MONTH
    (run / "attempts/1").mkdir(parents=True)
    began = datetime.fromisoformat("2026-11-20T11:20:00+00:00").timestamp()
    monkeypatch.setattr("yard.runs.failure_rate.time.time", lambda: began + DAY)
    assert seconds_between_failures(tmp_path, 1) == (NODE_MONTH + 2 * DAY) / 2


def test_a_damaged_run_hides_no_other(add: Callable[..., Path], tmp_path: Path) -> None:
    (add(DAY) / "manifest.json").write_text("{")
    (add(DAY) / "summary.json").write_text("[]")
    add(DAY)
    assert seconds_between_failures(tmp_path, 1) == NODE_MONTH + 2 * DAY


def test_only_the_newest_runs_are_read(
    add: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yard.runs.failure_rate.NEWEST", 1)
    add(DAY, attempts=9)
    add(DAY)
    assert NEWEST > 1
    assert seconds_between_failures(tmp_path, 1) == NODE_MONTH + 2 * DAY


def test_the_launch_is_told_in_whole_seconds(tmp_path: Path) -> None:
    told = expected_failures(tmp_path, 7)
    assert told == {"training_run_seconds_between_failures": round(NODE_MONTH / 7)}
