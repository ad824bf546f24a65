# Copyright Trainyard. Apache-2.0
"""What can be wrong with an inventory. Each function yields sentences for people, with remedy."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ansible.module_utils.inventory_files import Definition

# How alike two names must be for one to be taken for a slip of the other (difflib's ratio).
ALIKE = 0.85
Hosts = Mapping[str, Mapping[str, Any]]


def unknown_variables(
    definitions: Sequence[Definition],
    hosts: Hosts,
    declared: Mapping[str, Iterable[str]],
    site: Iterable[str],
    checkout: Path,
) -> Iterator[str]:
    """Find variables that no role and no site-wide file knows.

    Args:
        definitions: what the inventory's files set.
        hosts: the variables of each host as Ansible has them, whatever they come from.
        declared: the variables of each role.
        site: names of the site-wide variables; those with a role's prefix are the role's to know.
        checkout: files below it are named without its path.
    """

    def role_of(name: str) -> str:
        return max((role for role in declared if name.startswith(f"{role}_")), key=len, default="")

    known = {name for name in site if not role_of(name)}.union(*declared.values())

    def complaint(name: str) -> str:
        near = get_close_matches(name, known, n=1, cutoff=ALIKE)
        role = role_of(name)
        if name in known or not (near or role):
            return ""
        whose = f"a variable of role {role}" if role else "a site-wide variable"
        remedy = f"Is {near[0]} meant?" if near else f"roles/{role}/README.md lists them."
        return f"{name} is not {whose}. {remedy}"

    located = set()
    for definition in definitions:
        located.add(definition.name)
        if found := complaint(definition.name):
            yield f"{_place(definition, checkout)}: {found}"
    # From what has no lines: INI files, scripts, encrypted files, the command line.
    for name in sorted({name for variables in hosts.values() for name in variables} - located):
        if found := complaint(name):
            having = [host for host, variables in hosts.items() if name in variables]
            yield f"{_several(having)}: {found}"


def missing_groups(
    wanted: Mapping[str, Path], groups: Mapping[str, Sequence[str]], hosts: Hosts
) -> Iterator[str]:
    """Find groups that plays name and the inventory does not have.

    Args:
        wanted: names in plays, and the playbook of each.
        groups: the inventory's groups and their hosts.
        hosts: the inventory's hosts.
    """
    for name, playbook in wanted.items():
        if name in groups or name in hosts:
            continue
        near = get_close_matches(name, set(groups) - {"all", "ungrouped"}, n=1, cutoff=0.7)
        remedy = f"Is {near[0]} meant? " if near else ""
        yield (
            f"group {name}, which playbooks/{playbook.name} works on, is missing. "
            f'{remedy}A group may be empty: "{name}: {{hosts: {{}}}}".'
        )
    if groups.get("trainers") == [] and not groups.get("container_hosts"):
        yield "group trainers has no host. Add the machines that train."


def misnamed_files(
    files: Iterable[tuple[str, Path]], groups: Mapping[str, Sequence[str]], checkout: Path
) -> Iterator[str]:
    """Find files in group_vars whose name is nearly that of a group, so that nobody reads them.

    A name that is like no group's may belong to another inventory beside this one.

    Args:
        files: the names that group_vars bear, and the file of each.
        groups: the inventory's groups.
        checkout: files below it are named without its path.
    """
    for name, file in files:
        near = get_close_matches(name, groups, n=1, cutoff=ALIKE)
        if name not in groups and near:
            shown = file.relative_to(checkout) if file.is_relative_to(checkout) else file
            yield f"{shown}: there is no group {name}, so nothing reads it. Is {near[0]} meant?"


def network_problems(
    definitions: Sequence[Definition],
    hosts: Hosts,
    groups: Mapping[str, Sequence[str]],
    declared: Mapping[str, Iterable[str]],
    checkout: Path,
) -> Iterator[str]:
    """Find networks that are none, and addresses outside of theirs."""

    def place(name: str, value: Any, host: str) -> str:
        """Where a value is written; the host where no file says so."""
        found = (d for d in definitions if d.name == name and d.value == str(value))
        return next((_place(definition, checkout) for definition in found), f"host {host}")

    networks = {name for names in declared.values() for name in names if name.endswith("_network")}
    seen: set[tuple[str, Any]] = set()
    for name in ("cluster_network", *sorted(networks)):
        for host, variables in hosts.items():
            value = variables.get(name)
            # Another variable of the same value only passes the first one on.
            if value in (None, "") or any(value == other for _, other in seen):
                continue
            seen.add((name, value))
            if trouble := _network_trouble(value):
                yield f"{place(name, value, host)}: {name}: {trouble}"

    nodes = {host: hosts[host] for host in groups.get("trainers", [])}
    without = [host for host, variables in nodes.items() if not variables.get("cluster_network")]
    if without:
        yield (
            f"{_several(without)}: cluster_network is not set. Give the group trainers the CIDR of "
            "the training network."
        )
    given = {str(v["cluster_network"]): host for host, v in nodes.items() if host not in without}
    if len(given) > 1:
        listed = ", ".join(f"{network} ({host})" for network, host in given.items())
        yield f"the nodes differ in cluster_network: {listed}. Set it once, for group trainers."
    for host, variables in nodes.items():
        for name in ("cluster_address", "cluster_address_v6"):
            if trouble := _address_trouble(name, variables):
                yield f"{place(name, variables[name], host)}: {name} of {host}: {trouble}"


def _network_trouble(value: Any) -> str:
    """Return why a value is not a network, with the remedy, or the empty string."""
    try:
        ipaddress.ip_network(value)
    except ValueError as error:
        try:
            meant = ipaddress.ip_network(value, strict=False)
        except ValueError:
            return f"{error}. Write it as CIDR, such as 10.0.0.0/24."
        return f"{value} is an address in a network. Is {meant} meant?"
    return ""


def _address_trouble(name: str, variables: Mapping[str, Any]) -> str:
    """Return what is wrong with a node's address, with the remedy, or the empty string."""
    value, network = variables.get(name), variables.get("cluster_network")
    if value in (None, ""):
        return ""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return f'"{value}" is not an IP address. Set {name} to one in {network}.'
    if name == "cluster_address_v6" and address.version != 6:
        return f"{value} is of version {address.version}. Is cluster_address meant?"
    if name != "cluster_address" or not network or _network_trouble(network):
        return ""
    if address not in ipaddress.ip_network(network):
        return f"{value} is not in cluster_network {network}. One of both is wrong."
    return ""


def _place(definition: Definition, checkout: Path) -> str:
    """File and line, as editors and compilers write them."""
    file = definition.file
    shown = file.relative_to(checkout) if file.is_relative_to(checkout) else file
    return f"{shown}:{definition.line}"


def _several(hosts: Sequence[str]) -> str:
    """Name some hosts: three of many are enough to look at."""
    more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
    return f"host{'s' if len(hosts) > 1 else ''} {', '.join(hosts[:3])}{more}"
