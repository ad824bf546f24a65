"""The table of what the tests of the roles showed, from logs as molecule writes them."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(CHECKOUT / "molecule/table.py"))

# Lines of real logs: on a terminal of xterm's kind, and on one without colours, such as a CI job's.
COLOURED = (
    "\x1b[36mINFO    \x1b[0m \x1b[32mopenmpi\x1b[0m ➜ \x1b[33m{}\x1b[0m: "
    "\x1b[36mExecuting\x1b[0m\n"
    "\x1b[36mINFO    \x1b[0m \x1b[32mopenmpi\x1b[0m ➜ \x1b[33m{}\x1b[0m: "
    "\x1b[32mExecuted: Successful\x1b[0m\n"
)
PLAIN = "INFO     [openmpi > {}] Executing\nINFO     [openmpi > {}] Executed: Successful\n"
COLOURED_RECAP = (
    "\x1b[1m\x1b[4mSCENARIO RECAP                                         \x1b[0m\n"
    "\x1b[32mopenmpi             \x1b[0m: \x1b[33mactions=3\x1b[0m  \x1b[32msuccessful=3\x1b[0m  "
    "disabled=0  skipped=0  missing=0  failed=0\n"
)
RECAP = "SCENARIO RECAP      \nopenmpi : actions=3  successful=3  disabled=0  failed=0\n"


def steps(form: str, *names: str) -> str:
    return "".join(form.format(name, name) for name in names)


@pytest.mark.parametrize(
    ("log", "cells"),
    [
        (
            steps(COLOURED, "check", "idempotence")
            + "    msg: verified on Debian 13\n"
            + steps(COLOURED, "verify")
            + "TASK [Check that verify noticed: the network is left to chance] ***\n"
            + "TASK [Check that the machine is as it was] ***\n"
            + COLOURED_RECAP,
            ["yes", "yes", "yes", "1", "yes", "-", "yes"],
        ),
        (
            steps(PLAIN, "check", "idempotence", "verify") + RECAP,
            ["yes", "yes", "yes", "-", "-", "-", "-"],
        ),
        (steps(PLAIN, "verify") + RECAP, ["-", "-", "yes", "-", "-", "-", "-"]),
        ("INFO     [openmpi > verify] Executing\n" + RECAP, ["-"] * 7),
        (steps(PLAIN, "verify") + RECAP.replace("failed=0", "failed=1"), ["-"] * 7),
        (steps(PLAIN, "verify"), ["-"] * 7),
        (steps(PLAIN, "verify") + RECAP.replace("failed=0", "failed=1") + RECAP, ["-"] * 7),
    ],
    ids=["coloured", "plain", "some", "begun", "failed", "broken-off", "removed-after-failure"],
)
def test_says_what_a_log_shows(log: str, cells: list[str]) -> None:
    assert SCRIPT["read_log"](log).cells() == cells


def required(scenario: str) -> list[str]:
    found: list[str] = SCRIPT["required_columns"](CHECKOUT / "molecule" / scenario)
    return found


def test_a_scenario_says_what_it_has_to_show() -> None:
    three = ["check on clean", "idempotent", "verified"]
    both = ["Debian 13", "Debian 12"]
    assert required("hosts_file") == [*three, "mutations noticed", "removed again", *both]
    # It has steps of its own.
    assert required("mixed_releases") == [*three, *both]


@pytest.mark.process
def test_an_empty_cell_is_an_error_and_leaves_the_table(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for part in ("molecule/shared", "molecule/hosts_file", "roles/hosts_file"):
        shutil.copytree(CHECKOUT / part, checkout / part)
    for file in ("molecule/table.py", "docs/roles.md"):
        (checkout / file).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / file, checkout / file)
    logs = tmp_path / "logs"
    logs.mkdir()

    def write(log: str) -> tuple[int, str]:
        (logs / "hosts_file.log").write_text(log)
        command = [sys.executable, str(checkout / "molecule/table.py"), str(logs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    before = (checkout / "docs/roles.md").read_text()
    log = (
        steps(PLAIN, "check", "verify")
        + "    msg: verified on Debian 12\n    msg: verified on Debian 13\n"
        + "TASK [Check that verify noticed: a name] ***\n"
        + "TASK [Check that the machine is as it was] ***\n"
    )
    status, said = write(log + RECAP)
    assert status == 1
    assert said == f"{logs}/hosts_file.log: nothing tells of: idempotent\n"
    assert (checkout / "docs/roles.md").read_text() == before

    assert write(log + steps(PLAIN, "idempotence") + RECAP) == (0, "")
    row = "| `hosts_file` | yes | yes | yes | 1 | yes | yes | yes |"
    assert row in (checkout / "docs/roles.md").read_text()
