"""Action: put public keys together as sshd and ssh read them, for all nodes at once.

Returns the lines of `known_hosts` and `authorized_keys` that all nodes have in common, with the
node's name as the last word; `rotation`, whether any node has the second key of one; and `silent`,
members whose keys could not be read. Its work grows linearly with the number of nodes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase

# What the node program tells of a node, or the module ssh_trust_keys of the control node
Reading = Mapping[str, Any]
# Type and key, and nothing behind them: a line break would begin a line of the node's own making.
PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]+={0,2}")


class CollectError(Exception):
    """What was read cannot be written; the text names the node."""


def readings_of_others(results: Iterable[Reading]) -> dict[str, Reading]:
    """Return the readings of a loop by the host; hosts that could not be reached have none."""
    return {
        result["item"]: (result.get("answer") or {}).get("ssh_trust") or {}
        for result in results
        if not any(result.get(reason) for reason in ("unreachable", "skipped", "failed"))
    }


def known_hosts_lines(readings: Mapping[str, Reading]) -> list[str]:
    """Return the line of known_hosts of each host that has a host key."""
    return [
        f"{name} {reading['host_key']} {name}"
        for name, reading in readings.items()
        if reading.get("host_key")
    ]


def authorized_keys_lines(
    readings: Mapping[str, Reading], user: str, options: Mapping[str, str]
) -> list[str]:
    """Return the line of authorized_keys of each key, without repetitions.

    A host has two keys while a rotation is on, and for a moment twice the same.

    Args:
        options: what stands before a key, by the name of whom it belongs to.
    """
    lines = [
        f"{options[name]}{key} {user}@{name}"
        for name, reading in readings.items()
        for key in reading["user_keys"]
    ]
    return list(dict.fromkeys(lines))


def refuse_other_text(readings: Mapping[str, Reading]) -> None:
    """Refuse what a node gave as its keys where it is none, or more: all nodes would believe it.

    Raises:
        CollectError: the node and what it gave.
    """
    for name, reading in readings.items():
        if not isinstance(reading, Mapping) or not isinstance(reading.get("user_keys"), list):
            raise CollectError(
                f"ssh_trust: what {name} says of its keys is not an answer to a look."
            )
        for key in filter(None, [reading.get("host_key"), *reading["user_keys"]]):
            if not PUBLIC_KEY.fullmatch(str(key)):
                raise CollectError(
                    f"ssh_trust: what {name} shows as a public key is none of type ssh-ed25519: "
                    f"{str(key)[:80]!r}. No key of any node was changed. Look at {name}; with "
                    "ssh_trust_state absent in its host_vars the others do without it."
                )


def silent_members(members: Sequence[str], readings: Mapping[str, Reading]) -> list[str]:
    """Return the members whose keys could not be read."""
    return [member for member in members if member not in readings]


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Puts together once what all nodes get."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the lines."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                # As ssh_trust_members returns them
                "hosts": {"type": "list", "elements": "dict", "required": True},
                "user": {"type": "str", "required": True},
                # The nodes of this run, for each what the node program tells, and the results of a
                # loop of it over members outside this run
                "nodes": {"type": "list", "elements": "str", "required": True},
                "readings": {"type": "list", "elements": "dict", "required": True},
                "others": {"type": "list", "elements": "dict", "default": []},
                # What stands for the control node in the list of keys, and the result there
                "control_name": {"type": "str", "default": ""},
                "control_options": {"type": "str", "default": ""},
                "control": {"type": "dict", "default": {}},
            }
        )
        readings: dict[str, Reading] = dict(zip(options["nodes"], options["readings"], strict=True))
        readings |= readings_of_others(options["others"])
        before_key = {host["member"]: host["options"] for host in options["hosts"]}
        silent = silent_members(list(before_key), readings)
        if options["control"].get("user_keys"):
            readings[options["control_name"]] = options["control"]
            before_key[options["control_name"]] = options["control_options"]
        try:
            refuse_other_text(readings)
        except CollectError as error:
            return {"failed": True, "msg": str(error)}
        return {
            "changed": False,
            "known_hosts": known_hosts_lines(readings),
            "authorized_keys": authorized_keys_lines(readings, options["user"], before_key),
            "rotation": any(reading.get("rotation") for reading in readings.values()),
            "silent": silent,
        }
