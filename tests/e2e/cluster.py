"""The local cluster as a whole: how many nodes it has."""

import os

import pytest
from commands import make
from machines import cluster_name, docker, in_machine
from trainings import SHORTEST

# In the environment: nodes are taken from whoever has them.
TAKE_OVER = "TRAINYARD_LOCAL_CLUSTER_TAKE_OVER"
# The number of nodes for tests that do not say another one with `@pytest.mark.nodes(4)`.
USUAL_NODES = 2


class Cluster:
    """The local cluster, with as many nodes as the next test needs.

    Attributes:
        ready: whether a training of this session has shown that its nodes are set up.
    """

    def __init__(self) -> None:
        self._set_up_for: int | None = None
        self._is_looked_at = False
        self.ready = False

    def machines(self, *options: str) -> int:
        """Count the machines, also those that are off."""
        label = f"label=trainyard.cluster={cluster_name()}"
        return len(docker("ps", "--all", "--quiet", "--filter", label, *options).split())

    def running(self) -> int:
        """Count the machines that run now."""
        return self.machines("--filter", "status=running")

    def resize(self, nodes: int) -> None:
        """Bring the cluster to this number of nodes, set up for each other.

        Nothing is done about a cluster of the usual size that no test has changed, nor about one
        that is not there: the first `make train` sets up what is missing.
        """
        if not self._is_looked_at:
            self._is_looked_at = True
            self._forget_runs_of_others()
        if self._set_up_for is None and nodes == USUAL_NODES and not self._was_larger():
            self._set_up_for = nodes
        if self._set_up_for != nodes:
            assert make("local-up", NODES=nodes).status == 0
            assert make("setup").status == 0
            self._set_up_for = nodes

    def make_ready(self) -> None:
        """Have nodes that trainings run on: a first one sets up what is missing."""
        self.resize(USUAL_NODES)
        if not self.ready:
            assert make("train", **SHORTEST).status == 0
            self.ready = True

    def _forget_runs_of_others(self) -> None:
        """Make nodes anew on which an earlier session, cut off, has left a run.

        Tests look for what their runs have left there. Without leave to take the nodes over
        somebody may work with that run.
        """
        if self.machines() == 0:
            return
        if self.running() < self.machines():
            # With this computer a node ends in the middle of a run, and has it on its disk.
            assert make("local-up").status == 0
        left = in_machine("node1", "ls -d /srv/trainyard/runs/2* 2>/dev/null || true").split()
        if not left:
            return
        if os.environ.get(TAKE_OVER) != "true":
            pytest.exit(f"node1 has {', '.join(left)}: end them (make stop), or set {TAKE_OVER}", 2)
        assert make("local-down").status == 0

    def _was_larger(self) -> bool:
        """Whether there are more nodes than usual, or were when the nodes were last set up."""
        running = self.running()
        if running == 0:
            return False
        return running != USUAL_NODES or bool(
            in_machine("node1", f"getent hosts node{USUAL_NODES + 1} || true")
        )

    def shrink(self) -> None:
        """Remove the nodes that only tests need."""
        if self.running() > USUAL_NODES:
            assert make("local-up", NODES=USUAL_NODES).status == 0
