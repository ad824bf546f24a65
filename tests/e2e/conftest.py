"""Whole runs on the local cluster, through the same make targets that people type.

Fixtures that all of these tests share; tests/README.md tells how to add a test. Helpers are
modules: commands.py (make targets), machines.py (the nodes, past make), cluster.py (its size).
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# Helpers check too, and what they found must be seen where they fail.
pytest.register_assert_rewrite("cluster", "commands", "faults.fault", "formats", "machines")

from cluster import USUAL_NODES, Cluster  # noqa: E402
from commands import RUNS, BackgroundMake, Outcome, make  # noqa: E402

# Set by .ci/run, which must not take longer than its limit: Unix seconds, after which no test is
# begun but those of the main job. Two cores may be slow. The order of the files follows from it.
ENDS = "TRAINYARD_TEST_ENDS"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster of all tests; at the end it has the usual number of nodes."""
    cluster = Cluster()
    yield cluster
    cluster.shrink()


@pytest.fixture(autouse=True)
def nodes(request: pytest.FixtureRequest, cluster: Cluster) -> None:
    """The nodes that a test's marker says, whatever test ran before."""
    cluster.resize(nodes_of(request.node))


def nodes_of(test: pytest.Item) -> int:
    """How many nodes a test's marker says."""
    marker = test.get_closest_marker("nodes")
    return int(marker.args[0]) if marker else USUAL_NODES


def is_further(test: pytest.Item) -> bool:
    """Whether a test is among the first to be left out where time is short."""
    return test.get_closest_marker("further") is not None


def is_of_main_job(test: pytest.Item) -> bool:
    """Whether a test looks at the run without which nothing is proven."""
    return "main_job" in getattr(test, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the main job, and let the cluster grow once: tests on more nodes come late.

    Where time is short, files come in another order each time. In a lasting one the same tests
    would always be left out.
    """
    files = list(dict.fromkeys(test.path for test in items))
    ends = os.environ.get(ENDS)
    if ends:
        random.Random(ends).shuffle(files)
    turn = {path: number for number, path in enumerate(files)}

    def place(test: pytest.Item) -> tuple[bool, bool, int, int]:
        return not is_of_main_job(test), is_further(test), nodes_of(test), turn[test.path]

    items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out where there is no time for it, before it makes any node ready."""
    ends = os.environ.get(ENDS)
    if ends and not is_of_main_job(item) and time.time() > float(ends):
        pytest.skip(f"no time is left for it ({ENDS}): make e2e runs all")


@pytest.fixture(autouse=True)
def nothing_outlives_its_test(nodes: None) -> Iterator[None]:
    """A test that fails must not take the nodes from the others."""
    yield
    while BackgroundMake.under_way:
        BackgroundMake.under_way.pop().put_an_end_to()


@pytest.fixture
def ready_cluster(nodes: None, cluster: Cluster) -> Cluster:
    """Nodes that are set up, for tests that do more than to start a training."""
    cluster.make_ready()
    return cluster


@pytest.fixture(scope="session")
def main_job(cluster: Cluster) -> tuple[Outcome, Path]:
    """The main job as the README gives it, once for all tests: it also sets up what is missing."""
    cluster.resize(USUAL_NODES)
    outcome = make("train", MODEL="vit", NODES=2)
    cluster.ready = outcome.status == 0
    return outcome, (RUNS / "latest").resolve()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and let Ctrl-C reach what tests start.

    A shell without a terminal starts what it puts into the background with SIGINT ignored, and
    programs inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "nodes(number): nodes of the local cluster, 2 by default")
    config.addinivalue_line("markers", f"further: comes last, and so is left out first, see {ENDS}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option of the tests of faults; their own conftest is read too late."""
    parser.addoption(
        "--write-table",
        action="store_true",
        help="write the rows that were measured into the table of docs/faults.md",
    )
