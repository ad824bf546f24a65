"""Whole runs on the local cluster, through the same make targets that people type.

Fixtures that all of these tests share; tests/README.md tells how to add a test. Helpers are
modules: commands.py (make targets), machines.py (the nodes, past make), cluster.py (its size).
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Helpers check too, and what they found must be seen where they fail.
pytest.register_assert_rewrite("cluster", "commands", "faults.fault", "formats", "machines")

from cluster import USUAL_NODES, Cluster  # noqa: E402
from commands import RUNS, BackgroundMake, Outcome, make  # noqa: E402


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


def is_of_main_job(test: pytest.Item) -> bool:
    """Whether a test looks at the run without which nothing is proven."""
    return "main_job" in getattr(test, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the main job, and let the cluster grow once: tests on more nodes come last."""
    items.sort(key=lambda test: (not is_of_main_job(test), nodes_of(test)))


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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option of the tests of faults; their own conftest is read too late."""
    parser.addoption(
        "--write-table",
        action="store_true",
        help="write the rows that were measured into the table of docs/faults.md",
    )
