"""Settings of apt: its proxy, whom it trusts, and sources of its own."""

import fnmatch
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

HEAD = "// Written by Ansible, role package_sources.\n"
# Nothing that would end a quoted value of apt.conf(5)
ADDRESS = re.compile(r"https?://[^\s\"\\;{}]+")


@dataclass(frozen=True)
class Proxies:
    """Proxies as programs take them from the environment; what is empty is none.

    Attributes:
        no_proxy: hosts that are reached without: names, domains (.example.org), networks.
    """

    http: str = ""
    https: str = ""
    no_proxy: tuple[str, ...] = ()

    def passes_by(self, host: str) -> bool:
        """Whether a host is reached without a proxy."""
        return any(_names(entry, host) for entry in self.no_proxy)


def _names(entry: str, host: str) -> bool:
    """Whether an entry of no_proxy means a host."""
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.removeprefix("*").removeprefix(".")
        return host == domain or fnmatch.fnmatchcase(host, f"*.{domain}")


def address_problem(address: str) -> str:
    """Return why an address is none of a proxy or a mirror; nothing where it is one."""
    if not ADDRESS.fullmatch(address) or not urlsplit(address).hostname:
        return (
            "is not an address like http://proxy.example.org:3128 or "
            "https://mirror.example.org/debian"
        )
    return ""


def hidden(text: str) -> str:
    """Return a text in which no address has what to log in with."""
    return re.sub(r"(https?://)[^\s\"/]*@", r"\1…@", text)


def settings(
    proxies: Proxies, hosts: Iterable[str], certificates: str = "", sources: str = ""
) -> str:
    """Return what stands in apt.conf.d; nothing where apt's own settings are to hold.

    Args:
        proxies: the proxies.
        hosts: hosts of the sources, some of which may be reached without a proxy.
        certificates: a file of those to trust, where the machine has none of its own yet.
        sources: a list of sources that holds alone.
    """
    lines = []
    if proxies.http or proxies.https:
        # apt would take http's for https, too. Programs that read the environment do not.
        lines += [
            f'Acquire::http::Proxy "{proxies.http or "DIRECT"}";',
            f'Acquire::https::Proxy "{proxies.https or "DIRECT"}";',
        ]
        # apt knows names alone.
        for host in sorted({host for host in hosts if proxies.passes_by(host)}):
            lines += [f'Acquire::{kind}::Proxy::{host} "DIRECT";' for kind in ("http", "https")]
    if certificates:
        lines.append(f'Acquire::https::CaInfo "{certificates}";')
    if sources:
        lines += [f'Dir::Etc::sourcelist "{sources}";', 'Dir::Etc::sourceparts "-";']
    return HEAD + "\n".join(lines) + "\n" if lines else ""


def failures(output: str, prefixes: Sequence[str]) -> list[str]:
    """Return why `apt-get update` did not fetch the lists of some addresses, in its words.

    Args:
        output: what it printed, in English.
        prefixes: the addresses. What is said of others is left out.
    """
    found = []
    for line in output.splitlines():
        kind, _, said = line.partition(": ")
        if kind not in ("W", "E") or said.startswith("Some index files failed to download"):
            continue
        if any(prefix in said for prefix in prefixes):
            if kind == "E" or said.startswith("Failed to fetch "):
                found.append(" ".join(said.removeprefix("Failed to fetch ").split()))
        elif kind == "E" and ":/" not in said:
            found.append(said)  # of no address at all, such as a lock
    return list(dict.fromkeys(found))
