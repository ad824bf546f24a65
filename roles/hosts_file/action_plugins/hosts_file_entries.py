"""Ansible action: list names and addresses of the inventory's hosts, and refuse contradictions.

    - name: List names and addresses
      hosts_file_entries:
        groups: [trainers]      # groups of the inventory, whose hosts are listed
      run_once: true
      register: hosts_file_entries

Returns `lines`, one of hosts(5) for each address, and `names`, all names in them. Works on the
control node, without a connection.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ansible.plugins.action import ActionBase

HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")


class Entry(NamedTuple):
    """A line of hosts(5) for a host of the inventory; the first name is the inventory's."""

    host: str
    address: str
    names: tuple[str, ...]


def entries_of(host: str, variables: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield an entry for each address of a host of the inventory with its variables."""
    names = tuple(dict.fromkeys((host, *map(str, variables.get("hosts_file_aliases", [])))))
    address = variables.get("cluster_address", variables.get("ansible_host", host))
    for text in (str(address), str(variables.get("cluster_address_v6", ""))):
        if text:
            with suppress(ValueError):  # contradictions() names it
                text = str(ipaddress.ip_address(text))  # of several forms of version 6 one
            yield Entry(host, text, names)


def contradictions(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield what cannot be, a sentence each; upper and lower case are the same in names."""
    hosts_of_address: dict[str, list[str]] = {}
    hosts_of_name: dict[str, dict[str, str]] = {}
    for entry in entries:
        hosts_of_address.setdefault(entry.address, []).append(entry.host)
        for name in entry.names:
            hosts_of_name.setdefault(name.lower(), {}).setdefault(entry.host, name)
    for address, hosts in hosts_of_address.items():
        try:
            ipaddress.ip_address(address)
        except ValueError:
            yield (
                f'{" and ".join(hosts)}: "{address}" is not an IP address; set cluster_address of '
                "this host."
            )
        if len(hosts) > 1:
            yield f"address {address} belongs to {' and '.join(hosts)}."
    for key, owners in hosts_of_name.items():
        host, name = next(iter(owners.items()))
        if len(owners) > 1:
            yield f"name {name} belongs to {' and '.join(owners)}."
        if not HOST_NAME.fullmatch(name) or key == "localhost":
            yield f'{host}: "{name}" cannot be the name of a host.'


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """The action hosts_file_entries."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {"groups": {"type": "list", "elements": "str", "required": True}}
        )
        assert task_vars is not None  # optional in the signature alone
        groups, hostvars = task_vars["groups"], task_vars["hostvars"]
        named = dict.fromkeys(arguments["groups"])
        hosts = dict.fromkeys(host for group in named for host in groups.get(group, []))
        entries = [entry for host in hosts for entry in entries_of(str(host), hostvars[host])]
        refused = [
            *(
                f"there is no group {group}, which hosts_file_groups names."
                for group in named
                if group not in groups
            ),
            *contradictions(entries),
        ]
        if refused:
            opening = "hosts_file: the inventory contradicts itself, nothing was changed."
            return {"failed": True, "msg": "\n".join([opening, *refused])}
        return {
            "changed": False,
            "lines": [" ".join((entry.address, *entry.names)) for entry in entries],
            "names": sorted({name for entry in entries for name in entry.names}),
        }
