"""`make web` and `make metrics`: a server for browsers and monitoring, on this machine alone."""

import errno
import os
import secrets
import socket
import sys
from pathlib import Path

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.core.files import OWNER, write_text
from yard.core.room import FULL
from yard.operations.state import ask_nodes
from yard.runs.folder import list_runs
from yard.runs.overview import overview_of

HOST = "127.0.0.1"
LOCAL_NAMES = (HOST, "localhost", "::1")
# The file of the key, which stays the same: bookmarks and the settings of a monitoring have it.
KEY = ".trainyard/web-key"


def web(context: Context, port: int, path: Path | None, names: list[str], read_only: bool) -> Exit:
    """Serve the page until Ctrl-C.

    Args:
        path: a UNIX socket in place of the port, for a proxy that asks who users are.
        names: by which the server is called too, by a proxy or in /etc/hosts.
    """
    import uvicorn

    from yard.web.app import make_app
    from yard.web.board import Board
    from yard.web.guard import Guard

    names = [name.lower() for name in names]  # as browsers send them
    listener = _listen(port, path)
    if path is None:
        key = _key(context)
        guard = Guard(key, (*LOCAL_NAMES, *names), read_only, f"trainyard-{port}")
        where = f"http://{HOST}:{port}/?key={key}"
    else:
        guard = Guard(None, names, read_only)
        where = f"the socket {path}, whose proxy authenticates users"
    context.console.print(
        f"Open {escape(where)}\nCtrl-C ends it; runs go on.", soft_wrap=True, highlight=False
    )
    config = uvicorn.Config(
        make_app(Board(context), guard),
        log_level="warning",
        access_log=False,
        # Connections of browsers stay open until they are closed.
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # uvicorn has ended, and raises the signal again
    finally:
        listener.close()
        if path is not None:
            path.unlink(missing_ok=True)
    return Exit.DONE


def write_metrics(context: Context, out: Path | None) -> Exit:
    """Ask the nodes once, and write what a monitoring wants to a file, or print it.

    Args:
        out: a file for the textfile collector of node_exporter, which takes those that end in
            `.prom`.
    """
    from yard.web.metrics import metrics_of

    runs = [overview_of(run) for run in list_runs(context.project.runs)]
    text = metrics_of(ask_nodes(context), runs).decode()
    if out is None:
        sys.stdout.write(text)
        return Exit.DONE
    try:
        write_text(out, text)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise RequestError(f"OUT={out}: {error.strerror}; name another file") from error
    return Exit.DONE


def _listen(port: int, path: Path | None) -> socket.socket:
    try:
        if path is None:
            return socket.create_server((HOST, port))
        listener = socket.socket(socket.AF_UNIX)
        # Who may write to it may do everything: its owner, and its group.
        before = os.umask(0o117)
        try:
            _bind(listener, path)
        finally:
            os.umask(before)
        listener.listen()
        return listener
    except (OSError, OverflowError) as error:
        asked = f"PORT={port}" if path is None else f"SOCKET={path}"
        why = getattr(error, "strerror", None) or error
        raise RequestError(f"{asked}: {why}; name another one") from error


def _bind(listener: socket.socket, path: Path) -> None:
    """Bind to a path, where a socket may be left that nobody listens to any more."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as other:
            if other.connect_ex(str(path)) == errno.ECONNREFUSED:
                path.unlink()
    listener.bind(str(path))


def _key(context: Context) -> str:
    file = context.project.root / KEY
    # A crash may leave it empty, and an empty key would let everybody in.
    key = file.read_text().strip() if file.is_file() else ""
    if not key:
        key = secrets.token_urlsafe(24)
        write_text(file, f"{key}\n", OWNER)
    return key
