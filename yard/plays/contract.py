"""The names of playbooks' parts that `yard` relies on. Each stands here once.

`tests/yard/test_contract.py` compares all of them with the roles and playbooks of the checkout.
"""

import getpass
import socket
from pathlib import PurePath
from typing import Any

# Modules whose results are read, by what they do.
CHOOSE_NODES = "training_run_choose"
TAKE_NODE = "training_node_take"
# What calls the program of the nodes. Its results have the names of verbs in place of a module's.
CALL_NODE = "training_node"
READ_STATUS = "status"
AGREE = "site"
# The last play of set-up: a node on which a task of it went well has passed all plays before.
LAST_OF_SETUP = "Deliver the trainer image"
POLL_RUN = "poll"
READ_LOGS = "logs"
OFFER_CHECKPOINTS = "checkpoints"
END_RUN = "end"
READ_RECORD = "record"
SERVE_NOTEBOOK = "notebook"
CLEAN_UP = "clean_up"
STAGE_DATA, SETTLE_DATA = "stage_data", "settle_data"
# Of playbooks/top.yml: what has a node look at itself, and what reads what it finds.
WATCH_NODE, READ_WATCH = "watch", "raw"
# Of rented machines: what is to be made, and what carries the tag of a site.
PLAN_MACHINES = "ec2_machines_plan"
TAGGED_MACHINES = "ec2_machines_tagged"
# Whose message is for people: that a reboot is due, that there was nothing to do.
SAY = "debug"
# The role that refuses an inventory, before any machine is contacted.
INVENTORY_CHECK = "inventory_check"
# The tasks that have a user's own data on the control node, before any node is asked for anything.
HAVE_OWN_DATA = ("dataset", "tasks", "own.yml")
# The task that decodes a known one in a container, which outlives its playbook.
DECODE_DATA, RUN_CONTAINER = ("dataset", "tasks", "decode.yml"), "docker_container"
# The one task of playbooks/exec.yml.
RUN_COMMAND = "command"

# Phases of a launch: the task files of role training_run, which are named after what they do, so
# that a task added to one needs no change here.
LAUNCH_ROLE = "training_run"
CHECK, TAKE, START, FOLLOW, STOP = LAUNCH_PHASES = ("check", "take", "start", "follow", "stop")
# Phases in which nothing has been started yet.
NOTHING_STARTED = (CHECK, TAKE)

# Parts of a verification: the task files of role cluster_check. The nodes are always looked at, by
# role training_node.
LOOK_AT_NODES = "probe"
NODES, SSH, PAIRS, MPI, CONTAINERS = CHECK_PARTS = ("nodes", "ssh", "pairs", "mpi", "containers")
# Where the verdict is given, which fails where the cluster is not fit.
GIVE_VERDICT = "verdict"

# Debian releases that a bundle can be for: those of role bundle.
RELEASES = ("bookworm", "trixie")

# The problem of a node that Ansible could not reach.
UNREACHABLE = "unreachable"
# The problem of a node that does not hold the image that is asked for.
IMAGE_MISSING = "image_missing"
# Problems of a node, from the gang check, that set-up or putting the data set there can mend.
MENDED_BY_SETUP = frozenset(
    {
        UNREACHABLE,
        "no_engine",
        IMAGE_MISSING,
        "gpu_driver_missing",
        "gpu_driver_old",
        "gpu_not_built_for",
        "gpu_runtime_missing",
        "gpu_specification_missing",
        "gpu_specification_old",
        "image_without_cuda",
        "no_directory",
        "dataset_missing",
        "own_data_missing",
    }
)


def phase_of(role: str, task_file: str) -> str | None:
    """The phase of a launch that a task belongs to; None outside of the launch role."""
    stem = PurePath(task_file).stem
    return stem if role == LAUNCH_ROLE and stem in LAUNCH_PHASES else None


def stop_variables(run_id: str, directory: str, home: str | None = None) -> dict[str, Any]:
    """The variables of playbooks/stop.yml: which run ends, and where its files go.

    Args:
        home: where the run was begun, if that was elsewhere.
    """
    variables = {"training_run_id": run_id, "training_run_collect_dir": directory}
    return variables if home is None else {**variables, "training_run_home": home}


def launch_variables(run_id: str, directory: str, home: str | None = None) -> dict[str, Any]:
    """The variables of every launch: which run it is, where it comes home to, who started it."""
    return {**stop_variables(run_id, directory, home), **owner_variables()}


def owner_variables() -> dict[str, str]:
    """Who runs it, as the nodes tell others who want them: `ada@control`."""
    return {"training_node_owner": owner()}


def owner() -> str:
    """Who gives this command, and on which machine, as user@host."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
