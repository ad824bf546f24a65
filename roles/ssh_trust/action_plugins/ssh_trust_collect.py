# Copyright Trainyard. Apache-2.0
"""Action: put public keys together as sshd and ssh read them, for all nodes at once.

Returns the lines of `known_hosts` and `authorized_keys` that all nodes have in common, with the
node's name as the last word; `rotation`, whether any node has the second key of one; and `silent`,
members whose keys could not be read. Its work grows linearly with the number of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from ansible.plugins.action import ActionBase

# A result of the module ssh_trust_keys
Reading = Mapping[str, Any]
# Type and key, and nothing behind them: a line break would begin a line of the node's own making.
PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]+={0,2}")
# authorized_keys(5). A port of the node's own loopback may be reached, for the image caches of role
# trainer_image; and none be opened there: the training user cannot listen on port 1, and sshd knows
# no shorter word for that.
TO_LOOPBACK = 'port-forwarding,permitopen="127.0.0.1:*",permitlisten="localhost:1"'


class CollectError(Exception):
    """What was read, or asked for, cannot be written; the text names the node or the variable."""


@dataclass(frozen=True)
class Limits:
    """What a key of the training user opens.

    Attributes:
        restrict: whether it opens commands and a terminal alone.
        to_loopback: whether a node may reach the others' loopback with it.
        addresses: by name of its owner, from where it is let in; of an owner without any, from
            everywhere.
    """

    restrict: bool = True
    to_loopback: bool = False
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def options(self, owner: str, node: bool = True) -> str:
        """Return what stands before the owner's key, with a blank behind it where it is something.

        Args:
            owner: name of the machine that has the key.
            node: whether that is a node; the control node is none.
        """
        options = ["restrict,pty"] if self.restrict else []
        if self.restrict and self.to_loopback and node:
            options.append(TO_LOOPBACK)
        if addresses := self.addresses.get(owner):
            options.append(f'from="{",".join(addresses)}"')
        return ",".join(options) + " " if options else ""


def readings_of_others(results: Iterable[Reading]) -> dict[str, Reading]:
    """Return the readings of a loop by the host; hosts that could not be reached have none."""
    return {
        result["item"]: result
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
    readings: Mapping[str, Reading], user: str, limits: Limits, control_name: str = ""
) -> list[str]:
    """Return the line of authorized_keys of each key, without repetitions.

    A host has two keys while a rotation is on, and for a moment twice the same.
    """
    lines = [
        f"{limits.options(name, node=name != control_name)}{key} {user}@{name}"
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
        for key in filter(None, [reading.get("host_key"), *reading["user_keys"]]):
            if not PUBLIC_KEY.fullmatch(str(key)):
                raise CollectError(
                    f"ssh_trust: what {name} shows as a public key is none of type ssh-ed25519: "
                    f"{str(key)[:80]!r}. No key of any node was changed. Look at {name}; with "
                    "ssh_trust_state absent in its host_vars the others do without it."
                )


def sources(
    hosts: Iterable[Mapping[str, Any]],
    more: Sequence[str],
    control_name: str,
    control: Sequence[str],
) -> dict[str, list[str]]:
    """Return from where each node's key, and that of the control node, may come.

    A node has the addresses that the inventory gives it. One that has names alone has none here:
    sshd would have to ask a name server about whom to let in.

    Args:
        hosts: as ssh_trust_members returns them.
        more: addresses and networks from which every node may come beside its own.
        control_name: of the control node.
        control: its addresses and networks; without any it may come from everywhere.

    Raises:
        CollectError: something is neither an address nor a network.
    """
    for entry in (*more, *control):
        try:
            ip_network(entry, strict=False)
        except ValueError as error:
            raise CollectError(
                f"ssh_trust: {entry!r} in ssh_trust_sources or ssh_trust_control_sources is "
                "neither an address nor a network, such as 10.0.0.0/24."
            ) from error
    found = {}
    for host in hosts:
        own = [entry for entry in (host["member"], *host["addresses"]) if is_address(entry)]
        if own:
            found[host["member"]] = list(dict.fromkeys([*own, *more]))
    if control:
        found[control_name] = list(control)
    return found


def is_address(text: str) -> bool:
    """Whether this is an IP address that sshd can compare with that of a peer."""
    try:
        return not getattr(ip_address(text), "scope_id", None)
    except ValueError:
        return False


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
                # The nodes of this run, for each the result of ssh_trust_keys, and the results of a
                # loop of it over members outside this run
                "nodes": {"type": "list", "elements": "str", "required": True},
                "readings": {"type": "list", "elements": "dict", "required": True},
                "others": {"type": "list", "elements": "dict", "default": []},
                # What stands for the control node in the list of keys, and the result there
                "control_name": {"type": "str", "default": ""},
                "control": {"type": "dict", "default": {}},
                # As ssh_trust_members returns them
                "hosts": {"type": "list", "elements": "dict", "default": []},
                "restrict": {"type": "bool", "default": True},
                "to_loopback": {"type": "bool", "default": False},
                "from_own_addresses": {"type": "bool", "default": True},
                # From where all nodes, and the control node, may come beside
                "sources": {"type": "list", "elements": "str", "default": []},
                "control_sources": {"type": "list", "elements": "str", "default": []},
            }
        )
        readings: dict[str, Reading] = dict(zip(options["nodes"], options["readings"], strict=True))
        readings |= readings_of_others(options["others"])
        silent = silent_members(options["members"], readings)
        if options["control"].get("user_keys"):
            readings[options["control_name"]] = options["control"]
        try:
            refuse_other_text(readings)
            limits = Limits(
                restrict=options["restrict"],
                to_loopback=options["to_loopback"],
                addresses=sources(
                    options["hosts"] if options["from_own_addresses"] else [],
                    options["sources"],
                    options["control_name"],
                    options["control_sources"],
                ),
            )
        except CollectError as error:
            return {"failed": True, "msg": str(error)}
        return {
            "changed": False,
            "known_hosts": known_hosts_lines(readings),
            "authorized_keys": authorized_keys_lines(
                readings, options["user"], limits, options["control_name"]
            ),
            "rotation": any(reading.get("rotation") for reading in readings.values()),
            "silent": silent,
        }
