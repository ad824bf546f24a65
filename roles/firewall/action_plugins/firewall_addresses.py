"""Ansible action: list the addresses of a group's hosts, for rules of the packet filter.

    - name: List the addresses of the nodes
      firewall_addresses:
        group: trainers         # group of the inventory
      run_once: true
      register: firewall_nodes

Returns `addresses`, all of them, sorted. Works on the control node, without a connection. Fails
where the group has no hosts, or one of them no address but names alone.
"""

import ipaddress
from typing import Any

from ansible.plugins.action import ActionBase

VARIABLES = ("cluster_address", "cluster_address_v6", "ansible_host")


def addresses_of(host: str, variables: Any) -> list[str]:
    """Return the addresses of a host of the inventory; names are left out."""
    found = []
    for text in (*(variables.get(name) for name in VARIABLES), host):
        try:
            found.append(str(ipaddress.ip_address(str(text))))
        except ValueError:
            continue
    return found


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """The action firewall_addresses."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec({"group": {"type": "str", "required": True}})
        assert task_vars is not None  # optional in the signature alone
        group = arguments["group"]
        hosts = [str(host) for host in task_vars["groups"].get(group, [])]
        if not hosts:
            return {
                "failed": True,
                "msg": f"firewall: group {group}, which firewall_group names, has no hosts. "
                "Nothing was changed.",
            }
        found = {host: addresses_of(host, task_vars["hostvars"][host]) for host in hosts}
        nameless = [host for host, addresses in found.items() if not addresses]
        if nameless:
            return {
                "failed": True,
                "msg": f"firewall: the inventory has no IP address of {', '.join(nameless)}; set "
                "cluster_address of each, because rules of the packet filter have no names. "
                "Nothing was changed.",
            }
        addresses = {address for found_here in found.values() for address in found_here}
        return {"changed": False, "addresses": sorted(addresses)}
