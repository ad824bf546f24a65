"""Where time is short, whole runs are left out by name, and others are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENDS = "TRAINYARD_TEST_ENDS"
CHECKOUT = Path(__file__).parents[2]


def plan(test: str, ends: str | None) -> str:
    """What pytest would do for a whole run: it names fixtures and tests, and makes nothing."""
    environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    environment.pop(ENDS, None)
    if ends is not None:
        environment[ENDS] = ends
    options = ["-p", "no:xdist", "-p", "no:cacheprovider", "-ra", "--setup-plan"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"tests/e2e/{test}.py"],
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
    planned = plan(test, ends)
    assert (f"no time is left for it ({ENDS})" in planned) == left_out
    assert ("SETUP" in planned) != left_out
