"""What an engine's answers mean: a server at a socket gives them, in the words of Docker's API."""

import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from node.engine import docker
from node.verbs import clean_up


class Engine(BaseHTTPRequestHandler):
    """Gives the answer that a test has left here, whatever it is asked."""

    status: ClassVar[int]
    body: ClassVar[bytes]

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def address_string(self) -> str:
        return "a client of the socket"


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server at the engine's socket."""
    socket = str(tmp_path / "docker.sock")
    monkeypatch.setattr(docker, "SOCKET", socket)
    with socketserver.UnixStreamServer(socket, Engine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def answers(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> None:
    """Have the engine answer so."""
    monkeypatch.setattr(Engine, "status", status, raising=False)
    monkeypatch.setattr(Engine, "body", body, raising=False)


def frame(stream: int, line: bytes) -> bytes:
    """A line of a container, as the engine sends it: 1 is standard output, 2 standard error."""
    return bytes([stream, 0, 0, 0]) + len(line).to_bytes(4, "big") + line


def test_logs_are_the_lines_of_both_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, 200, frame(1, b"first\n") + frame(2, b"second\n"))
    assert docker.logs("run") == b"first\nsecond\n"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, b"No such container: run"),
        (409, b"can not get logs from container which is dead or marked for removal"),
    ],
)
def test_a_container_that_is_gone_has_no_logs(
    monkeypatch: pytest.MonkeyPatch, status: int, words: bytes
) -> None:
    """The engine's words of that would pass for what the container said."""
    answers(monkeypatch, status, b'{"message":"%s"}' % words)
    assert docker.logs("run") is None


def test_an_error_of_the_engine_is_none_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, 500, b'{"message":"input/output error"}')
    with pytest.raises(docker.EngineError, match=r"/containers/run/logs: .*input/output error"):
        docker.logs("run")


def test_what_an_interrupted_build_left_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, 200, b'[{"Size": 4, "RepoTags": null}, {"Size": 5, "RepoTags": null}]')
    (left,) = clean_up.unnamed()
    assert (left["name"], left["bytes"], left["kept"]) == ("2 without a name", 9, "unnamed")
    answers(monkeypatch, 200, b"[]")
    assert clean_up.unnamed() == []
