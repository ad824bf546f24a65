"""Where time is short, whole runs are left out by name, and others are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENDS = "TRAINYARD_TEST_ENDS"
CHECKOUT = Path(__file__).parents[2]


def pytest_says(tests: str, ends: str | None, *options: str) -> str:
    """What pytest tells of whole runs, none of which it begins."""
    environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    environment.pop(ENDS, None)
    if ends is not None:
        environment[ENDS] = ends
    alone = ["-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *alone, *options, tests],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("test", "ends", "left_out"),
    [
        ("test_bench", "1", True),
        ("test_four_nodes", "1", True),
        ("test_own_code", "1", True),
        ("test_main_job", "1", False),
        ("test_bench", None, False),
        ("test_bench", "99999999999", False),
    ],
)
def test_what_is_left_out_is_named(test: str, ends: str | None, left_out: bool) -> None:
    # It names fixtures and tests, and makes nothing.
    planned = pytest_says(f"tests/e2e/{test}.py", ends, "-ra", "--setup-plan")
    assert (f"no time is left for it ({ENDS})" in planned) == left_out
    assert ("SETUP" in planned) != left_out


def files_in_order(ends: str) -> list[str]:
    """The files of whole runs, as their first tests would come."""
    said = pytest_says("tests/e2e", ends, "--collect-only", "--quiet")
    return list(dict.fromkeys(line.split("::")[0] for line in said.splitlines() if "::" in line))


def test_files_come_in_another_order_each_time_but_for_the_main_job() -> None:
    early, late = files_in_order("99999999999"), files_in_order("100000000000")
    assert sorted(early) == sorted(late)
    assert early[0] == late[0] == "tests/e2e/test_main_job.py"
    assert early != late
