"""Questions to what runs containers on this node: the Docker engine, or, for an account without
root, namespaces of its own. Both answer in the words of the Docker Engine API."""

from __future__ import annotations

import os
from typing import Any

from . import NATIVE, docker
from .docker import EngineError

__all__ = ["EngineError"]


def is_native() -> bool:
    """Whether the account's own namespaces are meant, and no engine."""
    return NATIVE in os.environ


def _engine() -> Any:
    """What is asked, a module: what nobody asks is not loaded."""
    if not is_native():
        return docker
    from . import namespaces

    return namespaces


def require_engine() -> None:
    """See that containers can be started at all, as far as that needs no container.

    Raises:
        EngineError: they cannot, with the reason.
    """
    if is_native():
        _engine().require_namespaces()


def containers(label: str, patience: float = docker.PATIENCE) -> list[dict[str, Any]]:
    """Return all containers, running or not, that carry a label (`key` or `key=value`).

    Args:
        patience: seconds after which an engine that says nothing counts as one that is not there.
    """
    found: list[dict[str, Any]] = _engine().containers(label, patience)
    return found


def running_containers() -> list[dict[str, Any]]:
    """Return all containers that run, whoever made them; of other accounts nothing is known."""
    found: list[dict[str, Any]] = [] if is_native() else docker.get("/containers/json")
    return found


def image(reference: str) -> dict[str, Any] | None:
    """Return what there is to know of an image, or None where the node has none of this name."""
    details: dict[str, Any] | None = _engine().image(reference)
    return details


def inspect(container: str) -> dict[str, Any] | None:
    """Return `docker inspect` of one container, or None where there is none."""
    details: dict[str, Any] | None = _engine().inspect(container)
    return details


def is_running(container: str) -> bool:
    """Tell whether a container is there and runs."""
    return bool(_engine().is_running(container))


def logs(container: str) -> bytes | None:
    """Return stdout and stderr of a container in the order they came, each line with its time.

    None where there is no such container.
    """
    said: bytes | None = _engine().logs(container)
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
