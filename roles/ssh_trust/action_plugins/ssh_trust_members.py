# Copyright Trainyard. Apache-2.0
"""Action: list the nodes that trust each other, and how ssh reaches them.

    - name: List the nodes that trust each other
      ssh_trust_members:
        hosts: "{{ groups['trainers'] }}"   # that may be members
      register: ssh_trust_inventory         # members: their names, hosts: a Member each
      run_once: true

A host whose ssh_trust_state is absent is none of them. Nothing is contacted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.action import ActionBase

SSH_PORT = 22


@dataclass(frozen=True)
class Member:
    """A node as ssh reaches it.

    Attributes:
        member: its name in the inventory.
        names: names that ssh knows it by, its own first.
        addresses: addresses that ssh knows it by.
        address: its address for the other nodes; None where its name must do.
        port: its port for the other nodes.
        control_address: its address for the control node.
        control_port: its port for the control node.
    """

    member: str
    names: list[str]
    addresses: list[str]
    address: str | None
    port: int | str
    control_address: str
    control_port: int | str


def variable(variables: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """Return the first of these variables that is defined.

    One that is made from another one that is not defined is not defined either: a node outside
    this run has no facts.
    """
    for name in names:
        try:
            return variables[name]
        except (KeyError, AnsibleUndefinedVariable):
            continue
    return default


def member_of(name: str, variables: Mapping[str, Any]) -> Member:
    """Return a node, from its variables in the inventory."""
    address = variable(variables, "cluster_address", "ansible_host")
    own_address = variable(variables, "ansible_host")
    addresses = [address, variable(variables, "cluster_address_v6"), own_address]
    return Member(
        member=name,
        names=list(dict.fromkeys([name, *variable(variables, "hosts_file_aliases", default=[])])),
        addresses=[item for item in dict.fromkeys(addresses) if item and item != name],
        address=address,
        port=variable(variables, "ssh_trust_port", "ansible_port", default=SSH_PORT),
        control_address=variable(variables, "ansible_host", default=name),
        control_port=variable(variables, "ansible_port", default=SSH_PORT),
    )


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Reads the variables of each host once."""

    _requires_connection = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the members."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {"hosts": {"type": "list", "elements": "str", "required": True}}
        )
        hostvars = (task_vars or {})["hostvars"]
        members = []
        for name in options["hosts"]:
            variables = hostvars[name]
            if variable(variables, "ssh_trust_state") != "absent":
                members.append(member_of(name, variables))
        return {
            "changed": False,
            "members": [member.member for member in members],
            "hosts": [asdict(member) for member in members],
        }
