"""Questions to the Docker engine of this machine, over its socket, with the standard library alone.

The collection's modules answer the same questions, one task each. A launch that asks six of them on
every node pays for six module starts; here they share one.
"""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import quote, urlencode

SOCKET = "/var/run/docker.sock"
# Seconds for an answer that takes no work.
PATIENCE = 10.0


class EngineError(Exception):
    """The engine does not answer, or answers with an error."""


def ask(
    method: str, path: str, timeout: float = PATIENCE, document: Any = None, **query: Any
) -> tuple[int, bytes]:
    """Return status and body of one request; raise EngineError where no engine answers.

    In HTTP/1.0 (RFC 1945) a body ends with its connection, which takes these few lines; to import
    http.client takes as long as all the rest of a look at a node.
    """
    address = f"{path}?{urlencode(query)}" if query else path
    body = b"" if document is None else json.dumps(document).encode()
    head = f"{method} {address} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    if body:
        head += "Content-Type: application/json\r\n"
    said = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(SOCKET)
            connection.sendall(head.encode() + b"\r\n" + body)
            while part := connection.recv(1 << 16):
                said += part
        head_said, _, content = bytes(said).partition(b"\r\n\r\n")
        return int(head_said.split(b" ", 2)[1]), content
    except (OSError, ValueError, IndexError) as error:
        raise EngineError(f"the Docker engine does not answer on {SOCKET}: {error}") from error


def _read(
    path: str, gone: tuple[int, ...] = (404,), timeout: float = PATIENCE, **query: Any
) -> bytes | None:
    """Return the answer, or None where its status says that the engine has no such thing."""
    status, body = ask("GET", path, timeout=timeout, **query)
    if status in gone:
        return None
    if status >= 400:
        raise EngineError(f"{path}: {body.decode(errors='replace').strip()}")
    return body


def get(path: str, timeout: float = PATIENCE, **query: Any) -> Any:
    """Return the parsed answer, or None where the engine knows no such thing."""
    body = _read(path, timeout=timeout, **query)
    return None if body is None else json.loads(body)


def containers(label: str, patience: float = PATIENCE) -> list[dict[str, Any]]:
    """Return all containers, running or not, that carry a label (`key` or `key=value`).

    Args:
        patience: seconds after which an engine that says nothing counts as one that is not there.
    """
    filters = json.dumps({"label": [label]})
    listed: list[dict[str, Any]] = get("/containers/json", patience, all=1, filters=filters)
    return listed


def image(reference: str) -> dict[str, Any] | None:
    """Return what there is to know of an image, or None where the engine has none of this name."""
    details: dict[str, Any] | None = get(f"/images/{reference}/json")
    return details


def inspect(container: str) -> dict[str, Any] | None:
    """Return `docker inspect` of one container, or None where there is none."""
    details: dict[str, Any] | None = get(f"/containers/{quote(container)}/json")
    return details


def is_running(container: str) -> bool:
    """Tell whether a container is there and runs."""
    details = inspect(container)
    return details is not None and bool(details["State"]["Running"])


def logs(container: str) -> bytes | None:
    """Return stdout and stderr of a container in the order they came, each line with its time.

    None where there is no such container.
    """
    path = f"/containers/{quote(container)}/logs"
    # 409: it is being removed.
    body = _read(path, gone=(404, 409), stdout=1, stderr=1, timestamps=1)
    if body is None:
        return None
    lines, position = [], 0
    # Without a terminal the engine frames its answer: 1 byte stream, 3 bytes nothing, 4 bytes
    # length, the payload (Docker Engine API, operation ContainerAttach).
    while position + 8 <= len(body):
        size = int.from_bytes(body[position + 4 : position + 8], "big")
        lines.append(body[position + 8 : position + 8 + size])
        position += 8 + size
    return b"".join(lines)


def run(name: str, configuration: dict[str, Any]) -> None:
    """Make a container (body of the API's ContainerCreate) and start it."""
    for path, document, query, timeout in (
        # An engine whose storage driver is vfs copies all of the image for it.
        ("/containers/create", configuration, {"name": name}, 300.0),
        (f"/containers/{quote(name)}/start", None, {}, 60.0),
    ):
        status, body = ask("POST", path, timeout=timeout, document=document, **query)
        if status >= 400:
            raise EngineError(f"starting {name}: {body.decode(errors='replace').strip()}")


def send(container: str, signal: str) -> None:
    """Send a signal to the first process of a container. One that has ended needs none."""
    ask("POST", f"/containers/{quote(container)}/kill", signal=signal)


def remove(container: str) -> None:
    """Remove a container with its anonymous volumes. One that is gone is removed."""
    status, body = ask("DELETE", f"/containers/{quote(container)}", timeout=60.0, force=1, v=1)
    # 409: another remove is under way, which is what was wanted.
    if status >= 400 and status not in (404, 409):
        raise EngineError(f"removing {container}: {body.decode(errors='replace').strip()}")
