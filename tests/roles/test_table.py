"""The table of what the tests of the roles showed, from logs as molecule writes them."""

import runpy
from pathlib import Path

import pytest

read_log = runpy.run_path(str(Path(__file__).parents[2] / "molecule/table.py"))["read_log"]

STEP = (
    "\x1b[36mINFO    \x1b[0m \x1b[32mopenmpi\x1b[0m ➜ \x1b[33m{}\x1b[0m: "
    "\x1b[32mExecuted: Successful\x1b[0m\n"
)
RECAP = "SCENARIO RECAP\nopenmpi : actions=10  successful=10  failed=0\n"


@pytest.mark.parametrize(
    ("log", "cells"),
    [
        (
            STEP.format("check")
            + STEP.format("idempotence")
            + "    msg: verified on Debian 13\n"
            + STEP.format("verify")
            + "TASK [Check that verify noticed: the network is left to chance] ***\n"
            + "TASK [Check that the machine is as it was] ***\n"
            + RECAP,
            ["yes", "yes", "yes", "1", "yes", "-", "yes"],
        ),
        (STEP.format("verify") + RECAP, ["-", "-", "yes", "-", "-", "-", "-"]),
        (STEP.format("verify") + RECAP.replace("failed=0", "failed=1"), ["-"] * 7),
        (STEP.format("verify"), ["-"] * 7),
    ],
    ids=["all", "some", "failed", "broken-off"],
)
def test_says_what_a_log_shows(log: str, cells: list[str]) -> None:
    assert read_log(log).cells() == cells
