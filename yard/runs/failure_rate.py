"""How often runs fail here, from those that there were."""

import time
from pathlib import Path

from yard.runs.folder import ATTEMPTS, count_attempts, list_runs
from yard.runs.overview import Overview, overview_of
from yard.runs.retry import fault_of
from yard.runs.signatures import NETWORK, NODE

# What counts before anything was seen: one failure of one node in a month, in seconds.
NODE_MONTH = 30.0 * 24 * 3600
# Only so many of the newest runs are read: the launch waits for it.
NEWEST = 200


def expected_failures(runs: Path, nodes: int) -> dict[str, float]:
    """The launch role's variable for a training on so many nodes."""
    return {"training_run_seconds_between_failures": round(seconds_between_failures(runs, nodes))}


def seconds_between_failures(runs: Path, nodes: int) -> float:
    """How long a run on so many nodes goes on without a failure, on average.

    That is the time that nodes spent in runs, over the failures of it, as if one failure in a month
    of one node had been seen before: after few runs that is what counts, after many what was seen.
    A failure is one after which a run was started again, or a last one with which a machine or
    the network was at fault.
    """
    node_seconds, failures = NODE_MONTH, 1
    for run in list_runs(runs)[-NEWEST:]:
        overview = overview_of(run)
        seconds = _seconds(run, overview)
        if seconds is not None:
            node_seconds += seconds * int(overview.configuration.get("nodes") or 1)
            failures += count_attempts(run) - 1 + _machine_failed(overview)
    return node_seconds / failures / nodes


def _seconds(run: Path, overview: Overview) -> float | None:
    """How long a run took, or has taken where it was started again; None where nobody knows."""
    if overview.summary is not None:
        return overview.summary.seconds_total
    if overview.started_at is not None and (run / ATTEMPTS).is_dir():
        return max(0.0, time.time() - overview.started_at)
    return None


def _machine_failed(overview: Overview) -> bool:
    diagnosis = overview.summary.diagnosis if overview.summary else None
    return diagnosis is not None and fault_of(diagnosis) in (NODE, NETWORK)
