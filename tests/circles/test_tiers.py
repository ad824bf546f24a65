"""Tiers run the tests of a small checkout: what fails is told, and what is flaky ends nothing."""

from pathlib import Path

import pytest
import tiers
from results import FAILED, FLAKY, PASSED
from tiers import COMPACT, REST, Tiers
from units import LINT, WHOLE, Unit

CHECKOUT = Path(__file__).parents[2]
pytestmark = pytest.mark.process
# Fails the first time, as a run on a busy machine may.
FLAKES = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("value", ["a", "b c"])
def test_flakes(value):
    mark = Path(__file__).with_name(value)
    seen = mark.exists()
    mark.touch()
    assert seen or value == "a"

@pytest.mark.promise("row 1")
def test_proves(): pass
"""
BROKEN = "def test_broken(): assert False\n"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two files of whole runs, which tiers take for their own."""
    (tmp_path / "tests/e2e").mkdir(parents=True)
    (tmp_path / "tests/e2e/test_flakes.py").write_text(FLAKES)
    (tmp_path / "tests/e2e/test_broken.py").write_text(BROKEN)
    (tmp_path / "tests/conftest.py").write_text((CHECKOUT / "tests/conftest.py").read_text())
    settings = f"[pytest]\npythonpath = {CHECKOUT}/tests/circles\n"
    (tmp_path / "pytest.ini").write_text(settings)
    for name in ("Makefile", "README.md", "examples", "tests/promises.yml"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def last_lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return capfd.readouterr().out.splitlines()[-2:]


def test_a_flaky_whole_run_is_told_with_both_logs(
    checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ran = Tiers(checkout / "results", again=True)
    assert ran.run(WHOLE, ["tests/e2e/test_flakes.py"])
    cases = {case.name: case.result for case in ran.close()}
    assert cases == {
        "test_flakes[a]": PASSED,
        "test_flakes[b c]": FLAKY,
        "test_proves": PASSED,
    }
    flaky, closing = last_lines(capfd)
    assert flaky.startswith("FLAKY tests/e2e/test_flakes.py::test_flakes[b c]: ")
    for name in ("whole.log", "whole-again.log"):
        assert str(checkout / "results" / name) in flaky
        assert (checkout / "results" / name).stat().st_size > 0
    assert " 2 passed, 1 flaky in " in closing


@pytest.mark.parametrize("again", [False, True])
def test_a_whole_run_that_fails_each_time_fails(
    again: bool, checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ran = Tiers(checkout / "results", again)
    assert not ran.run(WHOLE, ["tests/e2e/test_broken.py"])
    assert [case.result for case in ran.close()] == [FAILED]
    failed, closing = last_lines(capfd)
    assert failed.startswith("FAILED tests/e2e/test_broken.py::test_broken  assert False")
    assert " 1 failed in " in closing


def test_parts_are_what_proves_and_the_others(checkout: Path) -> None:
    for part, names in (
        (COMPACT, {"test_proves"}),
        (REST, {"test_flakes[a]", "test_flakes[b c]"}),
    ):
        ran = Tiers(checkout / f"results-{part}")
        ran.run(WHOLE, ["tests/e2e/test_flakes.py"], part)
        assert {case.name for case in ran.close()} == names


def test_a_tier_that_fails_without_a_test_is_told_too(checkout: Path) -> None:
    (checkout / "Makefile").unlink()
    (checkout / "Makefile").write_text("lint:\n\tfalse\n")
    ran = Tiers(checkout / "results")
    assert not ran.run(LINT)
    (case,) = ran.close()
    assert (case.unit, case.result) == (LINT, FAILED)
    assert str(checkout / "results/lint.log") in case.why


def test_what_had_no_room_is_named_with_the_day_of_its_last_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    last = {"tests/e2e/test_b.py": "2026-11-27 0123456"}
    units = [Unit(f"tests/e2e/test_{name}.py", WHOLE, 50) for name in "ab"]
    monkeypatch.setattr(tiers, "find_units", lambda: [*units, Unit(LINT, LINT, 100)])
    monkeypatch.setattr(tiers, "read_last_run", lambda: last)
    ran = Tiers(checkout / "results")
    assert tiers.run_rest(ran, until=0, compact={LINT: 50})
    said = capfd.readouterr().out
    assert "0 of 2 were run" in said
    assert [line.split() for line in said.splitlines()[-2:]] == [
        ["tests/e2e/test_a.py", "never"],
        ["tests/e2e/test_b.py", "2026-11-27", "0123456"],
    ]
