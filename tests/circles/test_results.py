"""What shards found is merged, and nothing that failed or did not run is lost in it."""

from pathlib import Path

from results import (
    FAILED,
    FLAKY,
    PASSED,
    SKIPPED,
    Case,
    closing_line,
    passed_units,
    read_cases,
    seconds_of,
    table,
    write_cases,
)
from units import Unit

CHECKOUT = Path(__file__).parents[2]
# As pytest writes it: one that passes, one that fails and whose fixture fails too, one that cannot
# be collected.
PYTEST = """<?xml version="1.0"?><testsuites><testsuite name="whole">
<testcase classname="tests.e2e.test_exec" name="test_a[x]" time="2.5"/>
<testcase classname="tests.e2e.test_data" name="test_b" time="1">
  <failure message="assert 1 == 2&#10;more">text</failure></testcase>
<testcase classname="tests.e2e.test_data" name="test_b" time="1"><error message="end"/></testcase>
<testcase classname="" name="tests.e2e.test_ipv6" time="0"><error message="collection"/></testcase>
</testsuite></testsuites>"""
AGAIN = """<testsuites><testsuite name="whole">
<testcase classname="tests.e2e.test_data" name="test_b" time="3"/></testsuite></testsuites>"""


def results(folder: Path, **files: str) -> list[Case]:
    for name, text in files.items():
        (folder / f"{name}.xml").write_text(text)
    return read_cases(folder, CHECKOUT)


def test_results_of_pytest_are_read(tmp_path: Path) -> None:
    found = {case.unit: (case.name, case.result) for case in results(tmp_path, whole=PYTEST)}
    assert found == {
        "tests/e2e/test_exec.py": ("test_a[x]", PASSED),
        "tests/e2e/test_data.py": ("test_b", FAILED),
        "tests/e2e/test_ipv6.py": ("tests.e2e.test_ipv6", FAILED),
    }


def test_what_fails_and_passes_when_it_is_run_again_is_flaky(tmp_path: Path) -> None:
    cases = results(tmp_path, **{"whole": PYTEST, "whole-again": AGAIN})
    (case,) = (case for case in cases if case.unit == "tests/e2e/test_data.py")
    assert (case.result, case.why) == (FLAKY, "assert 1 == 2")
    assert seconds_of(cases) == {"tests/e2e/test_exec.py": 2.5}
    assert passed_units(cases) == {"tests/e2e/test_exec.py"}


def test_the_table_has_what_failed_was_skipped_and_did_not_run(tmp_path: Path) -> None:
    written = [
        Case("molecule/accounts", "accounts", PASSED, 100.4),
        Case("molecule/chrony", "chrony", FAILED, 90, "chrony.log"),
        Case("molecule/nvidia_driver", "nvidia_driver", SKIPPED, 0, "no tools"),
    ]
    write_cases(tmp_path / "shard-1-of-2/scenario.xml", "scenario", written)
    cases = read_cases(tmp_path, CHECKOUT)
    assert cases == written
    units = [Unit(case.unit, "scenario", 1) for case in written]
    lines = table(cases, [*units, Unit("molecule/firewall", "scenario", 1)])
    (row,) = (line.split() for line in lines if line.startswith("scenario"))
    assert row == ["scenario", "4", "1", "1", "1", "0", "1", "190"]
    assert "FAILED  molecule/chrony::chrony  chrony.log" in lines
    assert "SKIPPED molecule/nvidia_driver::nvidia_driver  no tools" in lines
    assert "NOT RUN molecule/firewall" in lines


def test_the_last_line_counts_as_pytest_does() -> None:
    cases = [Case("a", "b", result, 1) for result in (PASSED, PASSED, FAILED, SKIPPED)]
    line = closing_line(cases, 3725.5)
    assert line.strip("=") == " 2 passed, 1 failed, 1 skipped in 3725.50s (1:02:06) "
    assert "no tests ran" in closing_line([], 0)
