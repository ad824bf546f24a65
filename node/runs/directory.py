"""The directory of a run on a node: what root keeps of it, and what ranks may write, apart.

    <root>/<run>/          root's; others may pass through it, and not see what is in it
        run.json           the lock of the run and its manifest, for whoever goes on with it
        config/            what the container is given: mounted read-only as CONFIG
            ssh/           keys and settings of ssh and sshd
        code/              the code of the run, as it was when the run was launched
            trainer/       the trainer, a Python package: mounted read-only as TRAINER
            project/       the project of the user, of which the ranks have a copy in `work`
        work/              what the ranks write: mounted as WORK
            project/       the ranks' copy of the project, their working directory
        resume/            checkpoints to go on from: mounted read-only as RESUME
        live/              further names of checkpoints and of TensorBoard's events, while they are
                           brought home from a run that goes on
        copies/            when the run is over: copies of the first node's checkpoints, on the node
                           that has them
        left/              what attempts before this one left beyond the limits: their `work`
        shared.json        the paths of what this node has copied to a share
        collect/           what goes home: root's own records, and, when the run is over, what its
                           ranks left
            earlier/       what an attempt left that nobody could bring home

Root writes nothing in `work` while a container is there that can.
"""

from __future__ import annotations

import os

# In a container of the run.
CONFIG = "/etc/trainyard"
WORK = "/run/trainyard"
RESUME = "/resume"
TRAINER = "/opt/trainyard/lib/trainer"
# In `config`: the environment of the ranks that nobody else shall see.
ENVIRONMENT = "environment"
# In `config` of the first node: the arguments of mpirun.
ARGUMENTS = "mpirun.arguments"
# In `collect`: what attempts before this one left.
EARLIER = "earlier"
# In `config`: mpirun's list of hosts.
HOSTFILE = "hostfile"


class RunDirectory:
    """The directory of a run on a node.

    Raises:
        ValueError: the run's id is no name of a directory below `root`.
    """

    def __init__(self, root: str, run_id: str) -> None:
        # What is removed with a run must not be the directory of all of them.
        if not run_id or "/" in run_id or run_id.startswith("."):
            raise ValueError(f"{run_id!r} is no run's id")
        self.path = os.path.join(root, run_id)
        self.record = os.path.join(self.path, "run.json")
        self.config = os.path.join(self.path, "config")
        self.ssh = os.path.join(self.config, "ssh")
        self.code = os.path.join(self.path, "code")
        self.trainer = os.path.join(self.code, "trainer")
        self.project = os.path.join(self.code, "project")
        self.work = os.path.join(self.path, "work")
        self.workdir = os.path.join(self.work, "project")
        self.resume = os.path.join(self.path, "resume")
        self.live = os.path.join(self.path, "live")
        self.shared = os.path.join(self.path, "shared.json")
        self.copies = os.path.join(self.path, "copies")
        self.left = os.path.join(self.path, "left")
        self.collect = os.path.join(self.path, "collect")
        # Removed before anything is recorded of a run, so that a full disk still holds the records.
        self.reserve = os.path.join(self.path, "reserve")

    def records(self, host: str) -> str:
        """Where the records of a node are."""
        return os.path.join(self.collect, "nodes", host)

    def attempt_before(self, name: str) -> RunDirectory:
        """Return the same directory for the files of an attempt before, in `left`.

        Args:
            name: of its folder there, and of that in `earlier` which they go home in.
        """
        other = RunDirectory(*os.path.split(self.path))
        other.work = os.path.join(self.left, name)
        other.collect = os.path.join(self.collect, EARLIER, name)
        return other

    def launches(self) -> bool:
        """Tell whether this node is the first of the run, which starts the ranks."""
        return os.path.exists(os.path.join(self.config, ARGUMENTS))

    def exists(self) -> bool:
        return os.path.isdir(self.path)
