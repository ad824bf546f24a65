# Copyright Trainyard. Apache-2.0
"""Names that no host can have, and one name for two hosts."""

import ipaddress
import re
from collections.abc import Collection, Iterator

from ansible.module_utils.inventory_check_addresses import Places
from ansible.module_utils.inventory_check_problem import Problem

# RFC 1123, 2.1: letters, digits and hyphens, 63 octets a label and 253 in all (RFC 1035, 2.3.4).
LABEL = re.compile(r"[A-Za-z0-9-]+")
LABEL_LENGTH = 63
NAME_LENGTH = 253


def host_name_problems(
    places: Places, hosts: Collection[str], trainers: Collection[str]
) -> Iterator[Problem]:
    """Find names that no host can have.

    Args:
        places: where they are named.
        hosts: names of the hosts that plays work on.
        trainers: those among them that know each other by name.
    """
    by_name: dict[str, str] = {}
    for host in hosts:
        place = places.of_host(host)
        reason = name_trouble(host)
        if not reason and host in trainers and host.lower() == "localhost":
            reason = "every machine calls itself so"
        if reason:
            yield Problem("host_name_invalid", {**place, "host": host, "reason": reason})
        other = by_name.setdefault(host.lower(), host)
        if other != host:
            yield Problem("host_name_twice", {**place, "host": host, "other": other})


def name_trouble(name: str) -> str:
    """Return why a name cannot be that of a host, or the empty string."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        pass
    else:
        return ""  # a machine may go by its address
    if len(name) > NAME_LENGTH:
        return f"it has {len(name)} characters, and a name at most {NAME_LENGTH}"
    for label in name.split("."):
        if not label:
            return "a part between two dots is empty"
        if not LABEL.fullmatch(label):
            wrong = next(character for character in label if not LABEL.fullmatch(character))
            described = {" ": "a space", "\n": "a line break", "\t": "a tab"}.get(
                wrong, repr(wrong)
            )
            return f"it has {described}, and a name has letters, digits and hyphens (RFC 1123)"
        if label.startswith("-") or label.endswith("-"):
            return "a part of it begins or ends with a hyphen"
        if len(label) > LABEL_LENGTH:
            return f"a part of it has {len(label)} characters, and may have {LABEL_LENGTH}"
    return ""
