"""A pull-through cache: what one node fetched from a registry, for all that ask the node for it.

It runs on a node as a program of its own, and needs Python's standard library alone. It asks its
upstream once for each blob, and hands on what has come of it while the rest is still coming. It
gives what is named by its digest, so that whoever fetches can check what came, and takes nothing.
"""

import http.client
import os
import re
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Where files without a name lie while somebody has them open: on a disk, for images have gigabytes.
DIRECTORY = "/var/tmp"
CONTENT = re.compile(r"/v2/[a-z0-9._/-]+/(blobs|manifests)/sha256:[0-9a-f]{64}")
PASSED_ON = ("Content-Type", "Docker-Content-Digest", "ETag")
# Seconds that the upstream may be silent, and between two looks whether it is there.
SILENCE_LIMIT = 30.0
LOOK_INTERVAL = 1.0
CHUNK = 1 << 20


class Blob:
    """Content that comes from upstream, in a file that has no name."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile(dir=DIRECTORY)  # noqa: SIM115  # as long as the process
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.length = 0
        self.written = 0
        self.failed = False
        self._changed = threading.Condition()

    def begin(self, status: int, headers: dict[str, str], length: int) -> None:
        """Note what the upstream answered, before the content."""
        with self._changed:
            self.status, self.headers, self.length = status, headers, length
            self._changed.notify_all()

    def add(self, chunk: bytes) -> None:
        """Append content."""
        self.file.write(chunk)
        self.file.flush()
        with self._changed:
            self.written += len(chunk)
            self._changed.notify_all()

    def fail(self) -> None:
        """Note that no more will come."""
        with self._changed:
            self.failed = True
            self._changed.notify_all()

    def wait_for_answer(self) -> int:
        """Return the upstream's status; 502 where there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self.status is not None or self.failed)
        return self.status or 502

    def wait_beyond(self, position: int) -> int:
        """Return how much has come, when it is more than `position`, or all that will come."""
        with self._changed:
            self._changed.wait_for(lambda: self.written > position or self.failed)
        return self.written


class Cache:
    """The blobs of one upstream registry, by path."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self._blobs: dict[str, Blob] = {}
        self._lock = threading.Lock()

    def blob(self, path: str, accept: list[str]) -> Blob:
        """Return a blob, which begins to come with the first request for it."""
        with self._lock:
            blob = self._blobs.get(path)
            if blob is None:
                blob = self._blobs[path] = Blob()
                threading.Thread(target=self._fill, args=(path, accept, blob), daemon=True).start()
        return blob

    def _fill(self, path: str, accept: list[str], blob: Blob) -> None:
        try:
            self._fetch(path, accept, blob)
        except (OSError, http.client.HTTPException) as error:
            print(f"{path}: {error}", file=sys.stderr)
        if blob.status != 200 or blob.written != blob.length:
            with self._lock:
                del self._blobs[path]  # the next request tries again
            blob.fail()

    def _fetch(self, path: str, accept: list[str], blob: Blob) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=SILENCE_LIMIT)
        try:
            connection.putrequest("GET", path)
            for kind in accept:
                connection.putheader("Accept", kind)
            connection.endheaders()
            answer = connection.getresponse()
            headers = {name: answer.headers[name] for name in PASSED_ON if name in answer.headers}
            blob.begin(answer.status, headers, int(answer.headers.get("Content-Length", 0)))
            if answer.status == 200:
                while chunk := answer.read1(CHUNK):
                    blob.add(chunk)
        finally:
            connection.close()

    def upstream_answers(self) -> bool:
        """Whether the registry can be reached; over SSH, whether the connection still stands."""
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=SILENCE_LIMIT)
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def handler(cache: Cache) -> type[BaseHTTPRequestHandler]:
    """Return what answers the requests to a cache."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(with_content=True)

        def do_HEAD(self) -> None:
            self._answer(with_content=False)

        def _answer(self, with_content: bool) -> None:
            if self.path == "/v2/":
                self._begin(200, {}, 0)
                return
            if not CONTENT.fullmatch(self.path):
                self._begin(404, {}, 0)
                return
            blob = cache.blob(self.path, self.headers.get_all("Accept") or [])
            status = blob.wait_for_answer()
            if status != 200:
                self._begin(status, {}, 0)
                return
            self._begin(200, blob.headers, blob.length)
            if with_content:
                self._send(blob)

        def _begin(self, status: int, headers: dict[str, str], length: int) -> None:
            self.send_response(status)
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.flush()

        def _send(self, blob: Blob) -> None:
            position = 0
            while position < blob.length:
                end = blob.wait_beyond(position)
                if end == position:
                    self.close_connection = True  # shorter than announced: the engine sees it
                    return
                position += os.sendfile(
                    self.connection.fileno(), blob.file.fileno(), position, end - position
                )

        def log_message(self, format: str, *arguments: Any) -> None:
            """Write no line for each request."""

    return Handler


class Server(ThreadingHTTPServer):
    """Listens on the loopback alone."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, upstream: int) -> None:
        self.cache = Cache(upstream)
        super().__init__(("127.0.0.1", port), handler(self.cache))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a client that went away."""


def source() -> str:
    """Return this program, which on a node lies in the archive that Ansible has sent."""
    loader: Any = globals()["__loader__"]
    text: str = loader.get_source(__name__)
    return text


def main() -> None:
    """Serve until the upstream is gone: with it goes the task that has started this."""
    server = Server(int(sys.argv[1]), int(sys.argv[2]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while server.cache.upstream_answers():
        time.sleep(LOOK_INTERVAL)


if __name__ == "__main__":
    main()
