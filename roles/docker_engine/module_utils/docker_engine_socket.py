# Copyright Trainyard. Apache-2.0
"""Asks an engine through its socket."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

# Seconds that an engine may take. One that its socket has just started takes some.
PATIENCE = 30.0


class EngineError(Exception):
    """No engine answers, or not as one does."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def ask(path: str, resource: str) -> bytes:
    """Return what the engine answers to GET.

    Args:
        path: the engine's socket.
        resource: such as /info.

    Raises:
        EngineError: there is no answer, or another status than 200.
    """
    connection = _Connection(path)
    try:
        connection.request("GET", resource)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(str(error)) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise EngineError(f"{resource}: status {answer.status}")
    return body


def answers(path: str) -> bool:
    """Whether an engine answers."""
    try:
        ask(path, "/_ping")
    except EngineError:
        return False
    return True


def info(path: str) -> dict[str, Any]:
    """Return what an engine tells of itself.

    Raises:
        EngineError: none answers, or not in JSON.
    """
    try:
        told = json.loads(ask(path, "/info"))
    except ValueError as error:
        raise EngineError(str(error)) from error
    if not isinstance(told, dict):
        raise EngineError("/info: no object")
    return told
