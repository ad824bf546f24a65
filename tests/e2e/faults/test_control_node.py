"""Faults of the control node: an interrupt at every phase, and yard killed."""

import time

import pytest
from commands import BackgroundRun, make
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


def test_attach_after_yard_was_killed(ledger: Ledger) -> None:
    run = BackgroundRun(**SHORT).trains()
    run.kill_yard()
    assert make("attach", RUN=run.run_id).status == 0
    summary = run.summary()
    assert (summary["status"], summary["steps"]) == ("succeeded", SHORT_STEPS)
    ledger.conclude("yard killed with -9, then attach", run, summary["status"])
