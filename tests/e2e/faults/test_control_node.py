"""Faults of the control node: an interrupt at every phase, and yard killed."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from commands import BackgroundRun, make
from machines import CHECKOUT, NODES, RUN_ROOT, containers_of_runs, in_machine
from trainings import LONG, SHORT, SHORT_STEPS, SHORTEST

from faults.fault import Ledger

# When Ctrl-C is pressed: the line of yard that it follows, what the run is started with, and the
# status that the run must have at the end
PHASES = {
    "before containers": ("Checking nodes", LONG, "stopped"),
    "during start": ("Starting containers", LONG, "stopped"),
    "while training": ("Training", LONG, "stopped"),
    "while collecting": ("Collecting logs", SHORTEST, "succeeded"),
}
# In these, every rank has a log.
RANKS_BEGAN = ("while training", "while collecting")


@pytest.mark.parametrize("phase", PHASES)
def test_interrupt(phase: str, ledger: Ledger) -> None:
    words, options, status = PHASES[phase]
    run = BackgroundRun(**options)
    run.wait_for_output(f"{words} ...")
    struck_at = time.time()
    run.interrupt()
    outcome = run.finish()
    seconds = time.time() - struck_at
    assert outcome.status == 130
    assert run.summary()["status"] == status
    logs: dict[int, str] | None = None if phase in RANKS_BEGAN else {}
    ledger.conclude(f"Ctrl-C {phase}", run, status, seconds, logs)


@pytest.mark.promise("make attach", "make attach RUN=")
def test_attach_after_yard_was_killed(ledger: Ledger, tmp_path: Path) -> None:
    run = BackgroundRun(**SHORT).trains()
    run.kill_yard()
    told = f'who="all of us" && cat > "{tmp_path}/$who"'
    assert make("attach", RUN=run.run_id, NOTIFY=told).status == 0
    assert json.loads((tmp_path / "all of us").read_text())["summary"]["status"] == "succeeded"
    summary = run.summary()
    assert (summary["status"], summary["steps"]) == ("succeeded", SHORT_STEPS)
    ledger.conclude("yard killed with -9, then attach", run, summary["status"])


def test_attach_from_another_checkout_where_the_first_one_is_gone(tmp_path: Path) -> None:
    run = BackgroundRun(**SHORT).trains()
    run.kill_yard()
    gone = tmp_path / "gone"
    shutil.move(run.directory, gone)
    other = tmp_path / "other"
    other.mkdir()
    for path in CHECKOUT.iterdir():
        if path.name != "runs":
            (other / path.name).symlink_to(path)
    command = ["make", f"--directory={other}", "attach", f"RUN={run.run_id}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{run.run_id} was begun by " in done.stdout
    assert f" in {run.directory}; it is followed from here now" in done.stdout
    here = other / "runs" / run.run_id
    summary = json.loads((here / "summary.json").read_text())
    assert (summary["status"], summary["steps"]) == ("succeeded", SHORT_STEPS)
    before, after = (json.loads((at / "manifest.json").read_text()) for at in (gone, here))
    assert after["home"] == str(run.directory)
    for name in ("request", "started_at", "run_id", "hosts"):
        assert after[name] == before[name]
    for name in ("logs/rank-1.log", "checkpoints/last.pt", "report.html"):
        assert (here / name).stat().st_size
    for node in NODES:
        assert containers_of_runs(node) == ""
        assert in_machine(node, f"ls {RUN_ROOT}") == ""
