# Copyright Trainyard. Apache-2.0
"""Ansible action: list names and addresses of the inventory's hosts, and refuse contradictions.

    - name: List names and addresses
      hosts_file_entries:
        groups: [trainers]      # groups of the inventory, whose hosts are listed
      run_once: true
      register: hosts_file_entries

Returns `lines`, one of hosts(5) for each address, and `names`, all names in them. Works on the
control node, without a connection. Fails with `problems`, each with code, values and text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ansible.module_utils
from ansible.plugins.action import ActionBase

# Ansible looks in a role's module_utils for what modules import, and not for an action.
ansible.module_utils.__path__.append(str(Path(__file__).parents[1] / "module_utils"))

from ansible.module_utils.hosts_file_names import (  # noqa: E402  # found through the line above
    Entry,
    entry_problems,
    host_entries,
    problem,
)


def entries_of(host: str, variables: Mapping[str, Any]) -> list[Entry]:
    """Return the entries of a host of the inventory with its variables."""
    address = variables.get("cluster_address", variables.get("ansible_host", host))
    addresses = (str(address), str(variables.get("cluster_address_v6", "")))
    return list(host_entries(host, addresses, map(str, variables.get("hosts_file_aliases", []))))


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """The action hosts_file_entries."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {"groups": {"type": "list", "elements": "str", "required": True}}
        )
        assert task_vars is not None  # optional in the signature alone
        groups, hostvars = task_vars["groups"], task_vars["hostvars"]
        hosts = dict.fromkeys(
            host for group in arguments["groups"] for host in groups.get(group, [])
        )
        entries = [entry for host in hosts for entry in entries_of(str(host), hostvars[host])]
        problems = [
            *(
                problem("group_missing", group=group)
                for group in arguments["groups"]
                if group not in groups
            ),
            *entry_problems(entries),
        ]
        if problems:
            lines = [
                "hosts_file: the inventory contradicts itself, nothing was changed.",
                *(entry.text for entry in problems),
            ]
            return {
                "failed": True,
                "msg": "\n".join(lines),
                "problems": [entry.as_result() for entry in problems],
            }
        return {
            "changed": False,
            "lines": [entry.line for entry in entries],
            "names": sorted({name for entry in entries for name in entry.names}),
        }
