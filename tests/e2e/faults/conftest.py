"""Faults put into whole runs: noticed in time, diagnosed, nothing left, every log at home."""

from collections.abc import Iterator

import pytest
from cluster import Cluster
from commands import BackgroundRun
from trainings import SHORTEST

from faults.evidence import left_behind
from faults.fault import Ledger
from faults.table import DOCUMENT, Record, fault_table, keep, merge_records

# What the tests of this session have measured
RECORDS = pytest.StashKey[list[Record]]()


@pytest.fixture(scope="package", autouse=True)
def normal_runs(cluster: Cluster) -> Iterator[None]:
    """A run before all faults, which sets up what is missing, and one after them, without help."""
    cluster.make_ready()
    yield
    run = BackgroundRun(**SHORTEST)
    assert run.finish().status == 0
    assert left_behind() == []


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Where a test of a fault puts what it measured."""
    ledger = Ledger()
    yield ledger
    request.config.stash.setdefault(RECORDS, []).extend(ledger.records)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was measured; a session with some of the faults changes their rows alone."""
    if records := session.config.stash.get(RECORDS, []):
        keep(records)
        if session.config.getoption("write_table"):
            DOCUMENT.write_text(merge_records(DOCUMENT.read_text(), records))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the rows that were measured."""
    if records := config.stash.get(RECORDS, []):
        terminalreporter.section("faults")
        terminalreporter.write(fault_table(records))
