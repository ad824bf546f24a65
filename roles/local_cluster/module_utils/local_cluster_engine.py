"""What a Docker engine knows of a local cluster, and what its nodes say of themselves."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# Nodes that are asked at the same time.
ASKED_AT_ONCE = 8
# The label of a node's container that names the directory with the key that opens it.
HOME = "trainyard.directory"
# What a node is asked: parts of the answer end with a null byte.
QUESTIONS = (
    "systemctl is-system-running; printf '\\0'; cat /root/.ssh/authorized_keys; printf '\\0'; "
    "cat /etc/ssh/ssh_host_ed25519_key.pub; printf '\\0'"
)


def docker(*arguments: str) -> str:
    """Run the client of the engine; return what it printed, also where it failed in part."""
    command = ["docker", *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return ""  # no client, so no node either
    return answer.stdout


def inspected(kind: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return what the engine tells of those things of a kind that there are."""
    names = list(names)
    # Of those that are not there nothing is printed; the status says so, too.
    text = docker(kind, "inspect", *names) if names else ""
    things: list[dict[str, Any]] = json.loads(text or "[]")
    return things


def networks_of(things: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return subnets, labels and bridge of networks that the engine told of.

    Of a network of IPv6 that is its subnet of IPv6: the engine gives it one of IPv4 as well.
    """
    return [
        {
            "subnets": [
                part["Subnet"]
                for part in network["IPAM"]["Config"] or []
                if ":" in part["Subnet"] or not network.get("EnableIPv6")
            ],
            "labels": network["Labels"] or {},
            "bridge": (network["Options"] or {}).get("com.docker.network.bridge.name", ""),
        }
        for network in things
    ]


def parse_answers(text: str) -> dict[str, str]:
    """Return what a node answered to QUESTIONS, empty where it did not."""
    state, keys, host_key = [*text.split("\0"), "", "", ""][:3]
    return {"state": state.strip(), "authorized_keys": keys, "host_key": host_key}


def containers_of(cluster: str) -> list[dict[str, Any]]:
    """Return the containers of a cluster, those that run with what they say of themselves."""
    label = f"label=trainyard.cluster={cluster}"
    listed = docker("ps", "--all", "--no-trunc", "--quiet", "--filter", label).split()
    containers = [
        {
            "name": container["Name"].removeprefix("/"),
            "fingerprint": container["Config"]["Labels"].get("trainyard.fingerprint", ""),
            "directory": container["Config"]["Labels"].get(HOME, ""),
            "running": container["State"]["Status"] == "running",
        }
        for container in inspected("container", listed)
    ]

    def ask(container: Mapping[str, Any]) -> dict[str, Any]:
        text = ""
        if container["running"]:
            text = docker("exec", container["name"], "sh", "-c", QUESTIONS)
        return {**container, **parse_answers(text)}

    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return list(pool.map(ask, containers))


def sharing(cluster: str, directory: str) -> list[str]:
    """Return the names of other clusters that have their key in this directory."""
    label = ("--filter", f"label={HOME}={directory}")
    names = docker("ps", "--all", *label, "--format", '{{.Label "trainyard.cluster"}}')
    return sorted(set(names.split()) - {cluster})


def owner_of(container: Mapping[str, Any], directory: str, public_key: str) -> str:
    """Return whose a node is: of C(this) checkout, of C(another) one of this machine, or of one
    that is C(gone).

    Args:
        container: as `containers_of` returns it.
        directory: where this checkout keeps its key.
        public_key: that key; empty where there is none.
    """
    lets_in, made_by = str(container["authorized_keys"]).strip(), container["directory"]
    if made_by == directory or (lets_in and lets_in == public_key):
        return "this"
    if not made_by:
        # One that an earlier version made has no label; the key that it lets in tells.
        return "another" if lets_in else "this"
    return "another" if os.path.isdir(made_by) else "gone"


def image_tags(names: Iterable[str]) -> list[str]:
    """Return the names, of those given, under which there is an image."""
    return [tag for image in inspected("image", names) for tag in image["RepoTags"] or []]
