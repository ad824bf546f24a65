"""The rules of the packet filter as text of nft(8), and whom they let in."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

TABLE = "inet trainyard"
EPHEMERAL = "ephemeral"
PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
PROGRAM = re.compile(r'users:\(\("([^"]*)"')
# Clients of DHCP, which the rules let in.
LET_IN = {("udp", 68), ("udp", 546)}
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Invalid(Exception):
    """Something in the variables of the role that cannot be; the text says what and where."""


@dataclass(frozen=True)
class Connection:
    """A connection to this node's sshd, as sshd has it in SSH_CONNECTION."""

    client: Address
    port: int


@dataclass(frozen=True)
class Opening:
    """Ports that are let in from some sources, or from everywhere where there are none."""

    protocol: str
    ports: tuple[tuple[int, int], ...]
    sources: tuple[Network, ...] = ()


@dataclass(frozen=True)
class Rules:
    """All that is let in.

    Attributes:
        nodes: addresses of the nodes.
        ssh: the ports of sshd, and from where; the nodes reach them too.
        between: openings for the nodes.
        further: openings for what else the node serves.
    """

    nodes: tuple[Network, ...]
    ssh: Opening
    between: tuple[Opening, ...] = ()
    further: tuple[Opening, ...] = field(default=())

    def objection(self, connection: Connection | None) -> str:
        """Why these rules would not let this connection in; empty where they would."""
        if connection is None:
            return ""
        if not any(low <= connection.port <= high for low, high in self.ssh.ports):
            return (
                f"this connection goes to port {connection.port} of the node, which "
                f"firewall_ssh_ports does not have: {_ports_text(self.ssh.ports)}. Add it"
            )
        sources = (*self.ssh.sources, *self.nodes) if self.ssh.sources else ()
        if sources and not any(connection.client in source for source in sources):
            named = ", ".join(map(str, self.ssh.sources))
            return (
                f"this connection comes from {connection.client}, which firewall_ssh_sources does "
                f"not let in: {named}. Add the address or its network"
            )
        return ""

    def shut_off(self, sockets: Iterable[str]) -> list[str]:
        """What listens on this node and is open to no machine that is not a node.

        Args:
            sockets: lines of `ss -Hltunp`.
        """
        found = {}
        for protocol, _, _, _, local, *rest in (line.split() for line in sockets):
            place, _, number = local.rpartition(":")
            address, _, interface = place.partition("%")
            port = int(number)
            if interface == "lo" or _of_loopback(address) or (protocol, port) in LET_IN:
                continue
            if not any(
                one.protocol == protocol and any(low <= port <= high for low, high in one.ports)
                for one in (self.ssh, *self.further)
            ):
                program = PROGRAM.search(" ".join(rest))
                found[port, protocol] = f" ({program[1]})" if program else ""
        return [f"{protocol} {port}{by}" for (port, protocol), by in sorted(found.items())]


def _of_loopback(address: str) -> bool:
    if address == "*":
        return False
    found = ipaddress.ip_address(address.strip("[]"))
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def parse_connection(text: str) -> Connection:
    """Build a connection from SSH_CONNECTION: client, its port, server, its port."""
    client, _, _, port = text.split()
    address: Address = ipaddress.ip_address(client.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return Connection(mapped or address, int(port))


def parse_ports(
    entries: Iterable[str], ephemeral: tuple[int, int], place: str
) -> tuple[tuple[int, int], ...]:
    """Return ranges of ports, first and last one, in order and without overlaps.

    Args:
        ephemeral: the kernel's range.
        place: the variable, for errors.

    Raises:
        Invalid: an entry is no port and no range.
    """
    ranges = []
    for entry in entries:
        found = PORTS.fullmatch(str(entry).strip())
        if str(entry) == EPHEMERAL:
            ranges.append(ephemeral)
        elif not found:
            raise Invalid(f'{place}: "{entry}" is neither a port nor a range such as 1024-2048')
        else:
            low, high = int(found[1]), int(found[2] or found[1])
            if not 1 <= low <= high <= 65535:
                raise Invalid(f'{place}: "{entry}" is not within 1-65535, the lower port first')
            ranges.append((low, high))
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def parse_networks(entries: Iterable[str], place: str) -> tuple[Network, ...]:
    """Return networks; an address is one with a single host.

    Raises:
        Invalid: an entry is neither.
    """
    networks: list[Network] = []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(str(entry), strict=False))
        except ValueError:
            raise Invalid(f'{place}: "{entry}" is no IP address and no network') from None
    # nft takes no intervals that overlap.
    return (
        *ipaddress.collapse_addresses(one for one in networks if one.version == 4),
        *ipaddress.collapse_addresses(one for one in networks if one.version == 6),
    )


def parse_rules(parameters: dict[str, Any], ephemeral: tuple[int, int]) -> Rules:
    """Build the rules from the parameters of module firewall_table.

    Raises:
        Invalid: something in them cannot be.
    """

    def opening(protocol: str, ports: Any, place: str, sources: tuple[Network, ...]) -> Opening:
        return Opening(protocol, parse_ports(ports, ephemeral, place), sources)

    sources = parse_networks(parameters["ssh_sources"], "firewall_ssh_sources")
    ssh = opening("tcp", parameters["ssh_ports"], "firewall_ssh_ports", sources)
    if not ssh.ports:
        raise Invalid("firewall_ssh_ports is empty: nobody would get in")
    between = (
        opening("tcp", parameters["node_ports"], "firewall_node_ports", ()),
        opening("udp", parameters["node_udp_ports"], "firewall_node_udp_ports", ()),
    )
    place = "firewall_open"
    further = [
        opening(entry["protocol"], entry["ports"], place, parse_networks(entry["sources"], place))
        for entry in parameters["open"]
    ]
    return Rules(
        nodes=parse_networks(parameters["nodes"], "the inventory"),
        ssh=ssh,
        between=tuple(one for one in between if one.ports),
        further=tuple(one for one in further if one.ports),
    )


def table_text(rules: Rules) -> str:
    """Return the file that nft(8) loads in one transaction, in the place of the table of before."""
    lines = [
        # In the first place so that the second finds it, whether it was there or not.
        f"table {TABLE}",
        f"delete table {TABLE}",
        f"table {TABLE} {{",
        *_node_sets(rules.nodes),
        "    chain input {",
        "        type filter hook input priority filter; policy drop;",
        '        iifname "lo" accept',
        "        ct state established,related accept",
        # ICMP and ICMPv6; a machine without /etc/protocols does not know their names.
        "        meta l4proto { 1, 58 } accept",
        "        udp sport 67 udp dport 68 accept",
        "        ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept",
    ]
    lines += _opening_lines(rules.ssh)
    lines += [
        f"        {node}{one.protocol} dport {_ports_text(one.ports)} accept"
        for one in (Opening("tcp", rules.ssh.ports), *rules.between)
        for node in _from_nodes(rules.nodes)
    ]
    lines += [line for one in rules.further for line in _opening_lines(one)]
    # A rank that asks for another port learns it at once, and does not wait for an answer.
    lines += [
        f"        {node}reject with icmpx type admin-prohibited"
        for node in _from_nodes(rules.nodes)
    ]
    return "\n".join([*lines, "    }", "}", ""])


def _families(networks: Sequence[Network]) -> list[tuple[str, str, list[Network]]]:
    both: list[tuple[str, str, list[Network]]] = [
        ("ip", "ipv4_addr", [network for network in networks if network.version == 4]),
        ("ip6", "ipv6_addr", [network for network in networks if network.version == 6]),
    ]
    return [entry for entry in both if entry[2]]


def _node_sets(nodes: Sequence[Network]) -> list[str]:
    return [
        line
        for family, kind, networks in _families(nodes)
        for line in (
            f"    set nodes_{family} {{",
            f"        type {kind}",
            "        flags interval",
            "        auto-merge",
            f"        elements = {{ {', '.join(map(str, networks))} }}",
            "    }",
        )
    ]


def _from_nodes(nodes: Sequence[Network]) -> list[str]:
    return [f"{family} saddr @nodes_{family} " for family, _, _ in _families(nodes)]


def _opening_lines(one: Opening) -> list[str]:
    to = f"{one.protocol} dport {_ports_text(one.ports)} accept"
    if not one.sources:
        return [f"        {to}"]
    return [
        f"        {family} saddr {{ {', '.join(map(str, networks))} }} {to}"
        for family, _, networks in _families(one.sources)
    ]


def _ports_text(ports: Iterable[tuple[int, int]]) -> str:
    texts = (str(low) if low == high else f"{low}-{high}" for low, high in ports)
    return f"{{ {', '.join(texts)} }}"
