# Copyright Trainyard. Apache-2.0
"""Questions to what runs containers on this node: the Docker engine, or, for an account without
root, namespaces of its own. Both answer in the words of the Docker Engine API."""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils import training_node_docker as docker
from ansible.module_utils import training_node_namespaces as namespaces
from ansible.module_utils.training_node_docker import EngineError

__all__ = ["EngineError"]


def is_native() -> bool:
    """Whether the account's own namespaces are meant, and no engine."""
    return namespaces.PLACE in os.environ


def containers(label: str) -> list[dict[str, Any]]:
    """Return all containers, running or not, that carry a label (`key` or `key=value`)."""
    found: list[dict[str, Any]] = _engine().containers(label)
    return found


def running_containers() -> list[dict[str, Any]]:
    """Return all containers that run, whoever made them; of other accounts nothing is known."""
    if is_native():
        return []
    found: list[dict[str, Any]] = docker.get("/containers/json")
    return found


def image(reference: str) -> dict[str, Any] | None:
    """Return what there is to know of an image, or None where the node has none of this name."""
    if is_native():
        details: dict[str, Any] | None = namespaces.image(reference)
    else:
        details = docker.get(f"/images/{reference}/json")
    return details


def inspect(container: str) -> dict[str, Any] | None:
    """Return `docker inspect` of one container, or None where there is none."""
    details: dict[str, Any] | None = _engine().inspect(container)
    return details


def is_running(container: str) -> bool:
    """Tell whether a container is there and runs."""
    return bool(_engine().is_running(container))


def logs(container: str) -> bytes:
    """Return stdout and stderr of a container in the order they came, each line with its time."""
    said: bytes = _engine().logs(container)
    return said


def run(name: str, configuration: dict[str, Any]) -> None:
    """Make a container (body of the API's ContainerCreate) and start it."""
    _engine().run(name, configuration)


def send(container: str, signal: str) -> None:
    """Send a signal to the first process of a container. One that has ended needs none."""
    _engine().send(container, signal)


def remove(container: str) -> None:
    """Remove a container with its anonymous volumes. One that is gone is removed."""
    _engine().remove(container)


def refuse_or_return() -> None:
    """See that containers can be started at all.

    Raises:
        EngineError: they cannot, with the reason.
    """
    if is_native():
        namespaces.refuse_or_return()


def _engine() -> Any:
    return namespaces if is_native() else docker
