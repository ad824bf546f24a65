"""The verb `look`: tells what differs from what the roles of set-up would make of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..failure import VerbError
from ..setup.accounts import Accounts, look_at_accounts
from ..setup.docker_engine import Engine, Image, look_at_engine, look_for_image
from ..setup.files import Ready, Traces, look_for_traces, look_whether_ready
from ..setup.hosts_file import HostsFile, look_at_hosts_file
from ..setup.login_shell import LoginShells, look_at_login_shells
from ..setup.openmpi import OpenMPI, look_at_openmpi
from ..setup.ssh_trust import SSHTrust, look_at_ssh_trust

# What has to be the same on all nodes, as the looks call it
ALIKE = ("versions", "digests")
# By the form of what a role wants.
LOOKS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Accounts: look_at_accounts,
    Engine: look_at_engine,
    HostsFile: look_at_hosts_file,
    Image: look_for_image,
    LoginShells: look_at_login_shells,
    OpenMPI: look_at_openmpi,
    Ready: look_whether_ready,
    SSHTrust: look_at_ssh_trust,
    Traces: look_for_traces,
}


class Roles(NamedTuple):
    """What each role wants; of one that is not named nothing is told."""

    accounts: Accounts | None = None
    chrony: Traces | None = None
    cifs_mount: Traces | None = None
    cluster_check: Ready | None = None
    docker_engine: Engine | None = None
    firewall: Traces | None = None
    hosts_file: HostsFile | None = None
    login_shell: LoginShells | None = None
    openmpi: OpenMPI | None = None
    package_sources: Traces | None = None
    ssh_trust: SSHTrust | None = None
    trainer_image: Image | None = None
    training_node: Ready | None = None


def look(roles: Roles, summary: bool = False) -> dict[str, Any]:
    """Compare the machine with what the roles want.

    Args:
        summary: only tell in which roles there is something to do or to say, and what has to be
            alike on all nodes.

    Returns:
        By role what differs. A summary has `roles`, and `alike` by role.

    Raises:
        VerbError: what a role wants is refused. In a summary the role is named: it says so itself.
    """
    found: dict[str, dict[str, Any]] = {}
    for role, wanted in roles._asdict().items():
        if wanted is not None:
            try:
                found[role] = _look(role, wanted)
            except (VerbError, OSError):
                if not summary:
                    raise
                found[role] = {"differs": True}
    if not summary:
        return found
    return {
        "roles": [role for role, told in found.items() if told["differs"] or told.get("unnamed")],
        "alike": {
            role: told[name] for role, told in found.items() for name in ALIKE if name in told
        },
    }


def _look(role: str, wanted: Any) -> dict[str, Any]:
    for entry in (wanted, *getattr(wanted, "groups", ()), *getattr(wanted, "users", ())):
        state = getattr(entry, "state", "present")
        if state not in ("present", "absent"):
            raise VerbError("failed", message=f"{role}: {state} is not a state: present or absent")
    return LOOKS[type(wanted)](wanted)
