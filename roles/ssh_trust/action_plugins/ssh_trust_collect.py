# Copyright Trainyard. Apache-2.0
"""Action: the lines that all nodes get. What it takes and returns stands in library/."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase

# A result of the module ssh_trust_keys
Reading = Mapping[str, Any]


def readings_of_others(results: Iterable[Reading]) -> dict[str, Reading]:
    """Return the readings of a loop by the host; hosts that could not be reached have none."""
    return {
        result["item"]: result
        for result in results
        if not result.get("unreachable") and not result.get("skipped")
    }


def known_hosts_lines(readings: Mapping[str, Reading]) -> list[str]:
    """Return the line of known_hosts of each host that has a host key."""
    return [
        f"{name} {reading['host_key']} {name}"
        for name, reading in readings.items()
        if reading.get("host_key")
    ]


def authorized_keys_lines(readings: Mapping[str, Reading], user: str) -> list[str]:
    """Return the line of authorized_keys of each key, without repetitions.

    A host has two keys while a rotation is on, and for a moment twice the same.
    """
    lines = [
        f"{key} {user}@{name}" for name, reading in readings.items() for key in reading["user_keys"]
    ]
    return list(dict.fromkeys(lines))


def silent_members(members: Sequence[str], readings: Mapping[str, Reading]) -> list[str]:
    """Return the members whose keys could not be read."""
    return [member for member in members if member not in readings]


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Puts together once what all nodes get."""

    _requires_connection = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the lines."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "members": {"type": "list", "elements": "str", "required": True},
                "user": {"type": "str", "required": True},
                "nodes": {"type": "list", "elements": "str", "required": True},
                "readings": {"type": "list", "elements": "dict", "required": True},
                "others": {"type": "list", "elements": "dict", "default": []},
                "control_name": {"type": "str", "default": ""},
                "control": {"type": "dict", "default": {}},
            }
        )
        readings: dict[str, Reading] = dict(zip(options["nodes"], options["readings"], strict=True))
        readings |= readings_of_others(options["others"])
        silent = silent_members(options["members"], readings)
        if options["control"].get("user_keys"):
            readings[options["control_name"]] = options["control"]
        return {
            "changed": False,
            "known_hosts": known_hosts_lines(readings),
            "authorized_keys": authorized_keys_lines(readings, options["user"]),
            "rotation": any(reading.get("rotation") for reading in readings.values()),
            "silent": silent,
        }
