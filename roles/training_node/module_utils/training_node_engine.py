# Copyright Trainyard. Apache-2.0
"""Questions to what runs containers on this node: the Docker engine, or, for an account without
root, namespaces of its own. Both answer in the words of the Docker Engine API."""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.training_node_docker import EngineError, get
from ansible.module_utils.training_node_docker import containers as docker_containers
from ansible.module_utils.training_node_docker import inspect as docker_inspect
from ansible.module_utils.training_node_docker import is_running as docker_is_running
from ansible.module_utils.training_node_docker import logs as docker_logs
from ansible.module_utils.training_node_docker import remove as docker_remove
from ansible.module_utils.training_node_docker import run as docker_run
from ansible.module_utils.training_node_docker import send as docker_send
from ansible.module_utils.training_node_namespaces import PLACE, require_namespaces
from ansible.module_utils.training_node_namespaces import containers as native_containers
from ansible.module_utils.training_node_namespaces import image as native_image
from ansible.module_utils.training_node_namespaces import inspect as native_inspect
from ansible.module_utils.training_node_namespaces import is_running as native_is_running
from ansible.module_utils.training_node_namespaces import logs as native_logs
from ansible.module_utils.training_node_namespaces import remove as native_remove
from ansible.module_utils.training_node_namespaces import run as native_run
from ansible.module_utils.training_node_namespaces import send as native_send
from ansible.module_utils.training_node_problems import Problem, problem

__all__ = ["EngineError"]


def is_native() -> bool:
    """Whether the account's own namespaces are meant, and no engine."""
    return PLACE in os.environ


def require_engine() -> None:
    """See that containers can be started at all, as far as that needs no container.

    Raises:
        EngineError: they cannot, with the reason.
    """
    if is_native():
        require_namespaces()


def no_engine(error: EngineError) -> Problem:
    """What keeps a run from this node where there is no engine, or none is allowed."""
    found: Problem
    if is_native():
        found = problem("no_namespaces", message=str(error))
    else:
        found = problem("no_engine", message=str(error))
    return found


def containers(label: str) -> list[dict[str, Any]]:
    """Return all containers, running or not, that carry a label (`key` or `key=value`)."""
    found: list[dict[str, Any]]
    found = native_containers(label) if is_native() else docker_containers(label)
    return found


def running_containers() -> list[dict[str, Any]]:
    """Return all containers that run, whoever made them; of other accounts nothing is known."""
    found: list[dict[str, Any]] = [] if is_native() else get("/containers/json")
    return found


def image(reference: str) -> dict[str, Any] | None:
    """Return what there is to know of an image, or None where the node has none of this name."""
    details: dict[str, Any] | None
    details = native_image(reference) if is_native() else get(f"/images/{reference}/json")
    return details


def inspect(container: str) -> dict[str, Any] | None:
    """Return `docker inspect` of one container, or None where there is none."""
    details: dict[str, Any] | None
    details = native_inspect(container) if is_native() else docker_inspect(container)
    return details


def is_running(container: str) -> bool:
    """Tell whether a container is there and runs."""
    return bool(native_is_running(container) if is_native() else docker_is_running(container))


def logs(container: str) -> bytes | None:
    """Return stdout and stderr of a container in the order they came, each line with its time.

    None where there is no such container.
    """
    said: bytes | None = native_logs(container) if is_native() else docker_logs(container)
    return said


def run(name: str, configuration: dict[str, Any]) -> None:
    """Make a container (body of the API's ContainerCreate) and start it."""
    (native_run if is_native() else docker_run)(name, configuration)


def send(container: str, signal: str) -> None:
    """Send a signal to the first process of a container. One that has ended needs none."""
    (native_send if is_native() else docker_send)(container, signal)


def remove(container: str) -> None:
    """Remove a container with its anonymous volumes. One that is gone is removed."""
    (native_remove if is_native() else docker_remove)(container)
