"""Names and addresses that no host can have, or two hosts, or that lie outside of their network."""

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.inventory_check_files import Definition, Entry, InventoryFiles
from ansible.module_utils.inventory_check_problem import Problem, few, shown
from ansible.module_utils.inventory_check_roles import Declared

# Values of each host's variables, as Ansible computes them.
Hosts = Mapping[str, Mapping[str, Any]]
ADDRESSES = ("cluster_address", "cluster_address_v6")
# Of the sshd in the containers of runs
RUN_PORT = "training_node_ssh_port"
# Where sshd listens, and ssh knocks, unless somebody says otherwise
SSH_PORT = 22
LAST_PORT = 65535
# Ansible's connections that lead nowhere, or not by ansible_host.
UNADDRESSED = frozenset({"local", "community.docker.docker", "docker"})
# RFC 1123, 2.1: letters, digits and hyphens, 63 octets a label and 253 in all (RFC 1035, 2.3.4).
LABEL = re.compile(r"[A-Za-z0-9-]+")
LABEL_LENGTH = 63
NAME_LENGTH = 253


class Places:
    """Where the value of a host's variable is written."""

    def __init__(self, files: InventoryFiles, expand: Callable[[str], Iterable[str]]) -> None:
        """Index the definitions.

        Args:
            files: what the inventory's files set.
            expand: gives the hosts that a pattern such as gpu[01:16] stands for.
        """
        self.checkout = files.checkout
        self._of_host: dict[tuple[str, str], Definition] = {}
        self._of_value: dict[tuple[str, str], Definition] = {}
        for definition in files.definitions:
            for host in expand(definition.owner) if definition.owner else ():
                self._of_host[definition.name, host] = definition
            self._of_value.setdefault((definition.name, definition.value), definition)
        self._named: dict[str, Entry] = {}
        for entry in files.hosts:
            for host in expand(entry.name):
                self._named.setdefault(host, entry)

    def of(self, name: str, value: Any, host: str) -> dict[str, str | int]:
        """File and line of a value, or of its host; the host where no file names it."""
        place = self._of_host.get((name, host)) or self._of_value.get((name, str(value)))
        if place is None and name == "cluster_address":
            place = self._of_host.get(("ansible_host", host))  # from which it follows
        return self._at(place or self._named.get(host), host)

    def of_host(self, host: str) -> dict[str, str | int]:
        """File and line where a host is named; the host where no file names it."""
        return self._at(self._named.get(host), host)

    def _at(self, place: Definition | Entry | None, host: str) -> dict[str, str | int]:
        if place is None:
            return {"hosts": host}
        return {"file": shown(place.file, self.checkout), "line": place.line}


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


def network_problems(
    places: Places, hosts: Hosts, trainers: Sequence[str], declared: Declared
) -> Iterator[Problem]:
    """Find networks that are none, and nodes that do not agree on theirs."""
    networks = {name for names in declared.values() for name in names if name.endswith("_network")}
    seen: set[tuple[str, Any]] = set()
    for name in ("cluster_network", *sorted(networks)):
        for host, variables in hosts.items():
            value = variables.get(name)
            # Another variable of the same value only passes the first one on.
            if value in (None, "") or any(value == other for _, other in seen):
                continue
            seen.add((name, value))
            if finding := _network_trouble(value):
                code, values = finding
                yield Problem(code, {**places.of(name, value, host), "variable": name, **values})

    without = [host for host in trainers if not hosts[host].get("cluster_network")]
    if without:
        yield Problem("network_missing", places.of_host(without[0]) | {"owners": few(without)})
    of_nodes = {
        str(hosts[host]["cluster_network"]): host
        for host in trainers
        if hosts[host].get("cluster_network")
    }
    if len(of_nodes) > 1:
        listed = ", ".join(f"{network} ({host})" for network, host in of_nodes.items())
        network, host = list(of_nodes.items())[-1]
        place = places.of("cluster_network", network, host)
        yield Problem("network_differs", place | {"networks": listed})


def address_problems(places: Places, hosts: Hosts, trainers: Sequence[str]) -> Iterator[Problem]:
    """Find addresses that are none, that are outside of their network, or that two hosts have."""
    for host in trainers:
        for name in ADDRESSES:
            if finding := _address_trouble(name, hosts[host]):
                code, values = finding
                place = places.of(name, hosts[host][name], host)
                yield Problem(code, {**place, "variable": name, "host": host, **values})
    yield from _twice(places, hosts, trainers)


def port_problems(
    places: Places, hosts: Hosts, trainers: Sequence[str], declared: Declared
) -> Iterator[Problem]:
    """Find machines whose own sshd has the port that the sshd of a run's container wants.

    A port behind another address is that of a gateway, and says nothing of the machine's.
    """
    usual = declared["training_node"][RUN_PORT]["default"]
    for host in trainers:
        variables = hosts[host]
        reached = variables.get("ansible_host") or host
        port, wanted = variables.get("ansible_port"), variables.get(RUN_PORT, usual)
        is_own = _plain(variables.get("cluster_address") or reached) == _plain(reached)
        if str(port or SSH_PORT) != str(wanted) or not is_own:
            continue
        if port is not None:
            place = places.of("ansible_port", port, host)
            yield Problem("port_of_runs", {**place, "host": host, "port": port})
        elif variables.get("ansible_connection") not in UNADDRESSED:
            # It is one for all hosts, so it is said once.
            yield Problem("port_of_sshd", {**places.of(RUN_PORT, wanted, host), "port": wanted})
            return


def reach_problems(places: Places, hosts: Hosts) -> Iterator[Problem]:
    """Find ports that none is, and what is written beside an address."""
    for host, variables in hosts.items():
        port, address = variables.get("ansible_port"), str(variables.get("ansible_host") or "")
        if port is not None and not (str(port).isdecimal() and 1 <= int(port) <= LAST_PORT):
            place = places.of("ansible_port", port, host)
            yield Problem("port_invalid", {**place, "host": host, "port": port})
        if re.search(r"[@/\s]", address) or address.count(":") == 1:
            place = places.of("ansible_host", address, host)
            yield Problem("reached_invalid", {**place, "host": host, "address": address})


def _twice(places: Places, hosts: Hosts, trainers: Sequence[str]) -> Iterator[Problem]:
    reached: dict[tuple[str, str], list[str]] = {}
    for host, variables in hosts.items():
        if variables.get("ansible_connection") not in UNADDRESSED:
            address = _plain(variables.get("ansible_host") or host)
            # Behind one address, several machines may answer at ports of their own.
            reached.setdefault((address, str(variables.get("ansible_port") or "")), []).append(host)
    shared = [("ansible_host", address, owners) for (address, _), owners in reached.items()]
    training: dict[str, list[str]] = {}
    names: dict[tuple[str, str], str] = {}
    for host in trainers:
        for name in ADDRESSES:
            address = _plain(hosts[host].get(name) or "")
            if address and host not in training.setdefault(address, []):
                training[address].append(host)
                names[address, host] = name
    shared += [
        (names[address, owners[-1]], address, owners) for address, owners in training.items()
    ]

    known: set[tuple[str, ...]] = set()
    for name, address, owners in shared:
        # cluster_address is ansible_host, unless the inventory says otherwise: one mistake.
        if len(owners) < 2 or tuple(owners) in known:
            continue
        known.add(tuple(owners))
        place = places.of(name, address, owners[-1])
        values = {"variable": name, "address": address, "owners": few(owners)}
        yield Problem("address_twice", place | values)


def _plain(address: Any) -> str:
    """An address in its shortest form, since IPv6 has several; a name in small letters."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return str(address).lower()


def _network_trouble(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return why a value is not a network, as code and values."""
    if "/" not in str(value):  # to Python it is a network of one address
        return "network_invalid", {"reason": f"{value} has no mask"}
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        try:
            near = ipaddress.ip_network(value, strict=False)
        except ValueError:
            return "network_invalid", {"reason": str(error)}
        return "network_is_address", {"network": str(value), "near": str(near)}
    if not network.prefixlen or network.is_multicast:
        return "network_invalid", {"reason": f"{value} is no network of machines"}
    return None


def _address_trouble(name: str, variables: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return what is wrong with a node's address, as code and values."""
    value, network = variables.get(name), variables.get("cluster_network")
    if value in (None, ""):
        return None
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return "address_invalid", {
            "address": str(value),
            "network": str(network or "cluster_network"),
        }
    if name == "cluster_address_v6" and address.version != 6:
        return "address_version", {"address": str(value), "version": address.version}
    if name != "cluster_address" or not network or _network_trouble(network):
        return None
    if address not in (of := ipaddress.ip_network(network)):
        return "address_outside", {"address": str(value), "network": str(network)}
    # IPv6 has no such addresses, and of two both are machines' (RFC 3021).
    first_and_last = (of.network_address, of.broadcast_address)
    if of.version == 4 and of.num_addresses > 2 and address in first_and_last:
        return "address_of_all", {"address": str(value), "network": str(network)}
    return None
