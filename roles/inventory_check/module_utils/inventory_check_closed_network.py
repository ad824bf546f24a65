"""Addresses of proxies and mirrors that are none, and certificates that are not there."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible.module_utils.inventory_check_addresses import Places
from ansible.module_utils.inventory_check_problem import Problem

ADDRESSES = tuple(
    f"closed_network_{name}"
    for name in (
        *("http_proxy", "https_proxy", "debian_mirror", "debian_security_mirror"),
        *("pip_index", "npm_registry"),
    )
)
ENGINE_MIRRORS = "closed_network_docker_mirrors"
CERTIFICATES = "closed_network_ca"
# Variables whose values are read
READ = frozenset({*ADDRESSES, ENGINE_MIRRORS, CERTIFICATES})


def closed_network_problems(
    places: Places, hosts: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    """Find what no program would take for an address, and files that this machine does not have.

    Args:
        hosts: values of each host's variables. What is not known of one, a template that cannot be
            computed, is left to whom needs it.
    """
    seen = set()
    for host, variables in hosts.items():
        for name in sorted(READ & variables.keys()):
            value = variables[name]
            if not value or (name, str(value)) in seen:
                continue
            seen.add((name, str(value)))
            # An address may hold a password: it is not repeated.
            if reason := _trouble(name, value):
                # Where a list stands is known by its name alone.
                place = places.of(name, "" if isinstance(value, list) else value, host)
                code = "certificates_missing" if name == CERTIFICATES else "url_invalid"
                yield Problem(code, {**place, "variable": name, "reason": reason})


def _trouble(name: str, value: Any) -> str:
    """Return what is wrong with a value; nothing where it is right."""
    if name == CERTIFICATES:
        path = Path(str(value))
        if not path.is_absolute():
            return f"{value} does not begin with /"
        return "" if path.is_file() else f"{value} is not there"
    # Of another type than a list it is named by its type.
    of_engine = name == ENGINE_MIRRORS
    for address in value if of_engine and isinstance(value, list) else [value]:
        if reason := _address_trouble(str(address), plain=of_engine):
            return reason
    return ""


def _address_trouble(address: str, plain: bool) -> str:
    """Return what is wrong with an address; a plain one is of a host and no more."""
    if re.search(r"[\s\"'\\;{}]", address):
        return "there is a space, a quote or a bracket in it"
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "its port or its host is none"
    if parts.scheme not in ("http", "https"):
        return "it does not begin with http:// or https://"
    if not has_host:
        return "there is no host in it"
    if plain and (parts.path.strip("/") or parts.query or "@" in parts.netloc):
        return "Docker takes a mirror with a host and a port alone"
    return ""
