"""Questions to what runs containers on this node: the Docker engine, or, for an account without
root, namespaces of its own. Both answer in the words of the Docker Engine API."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from . import NATIVE, docker
from .docker import EngineError

__all__ = ["EngineError"]

Question = TypeVar("Question", bound=Callable[..., Any])


def is_native() -> bool:
    """Whether the account's own namespaces are meant, and no engine."""
    return NATIVE in os.environ


def _engine() -> Any:
    """What is asked, a module: what nobody asks is not loaded."""
    if not is_native():
        return docker
    from . import namespaces

    return namespaces


def _of_both(question: Question) -> Question:
    """Return a question to the engine as one to whichever is asked: both have it by this name."""

    @wraps(question)
    def asked(*arguments: Any, **options: Any) -> Any:
        return getattr(_engine(), question.__name__)(*arguments, **options)

    return cast(Question, asked)


containers = _of_both(docker.containers)
image = _of_both(docker.image)
inspect = _of_both(docker.inspect)
is_running = _of_both(docker.is_running)
logs = _of_both(docker.logs)
run = _of_both(docker.run)
send = _of_both(docker.send)
remove = _of_both(docker.remove)


def require_engine() -> None:
    """See that containers can be started at all, as far as that needs no container.

    Raises:
        EngineError: they cannot, with the reason.
    """
    if is_native():
        _engine().require_namespaces()


def running_containers() -> list[dict[str, Any]]:
    """Return all containers that run, whoever made them; of other accounts nothing is known."""
    found: list[dict[str, Any]] = [] if is_native() else docker.get("/containers/json")
    return found
