"""How nodes pass the image on: who fetches from whom, and what the cache between them does."""

import hashlib
import http.client
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import trainer_image_cache_server as cache_server
from role_files import action_plugin

registry = action_plugin("trainer_image", "trainer_image_registry")

NODES = [f"node{number}" for number in range(1, 17)]
LAYER = bytes(range(256)) * 4096


def path_of(content: bytes, kind: str = "blobs") -> str:
    return f"/v2/trainyard/trainer/{kind}/sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_with_two_nodes_each_fetches_from_the_control_node(count: int) -> None:
    for copies in (1, 2):
        assert registry.sources(NODES[:count], copies, 32) == {}


def test_however_many_nodes_two_fetch_from_the_control_node() -> None:
    for count in range(3, 17):
        plan = registry.sources(NODES[:count], 2, 32)
        assert sorted(set(NODES[:count]) - set(plan)) == ["node1", "node2"]
        load = Counter(plan.values())
        assert set(load) <= {"node1", "node2"}
        assert load["node1"] - load["node2"] in (0, 1)


def test_as_many_as_asked_for_fetch_from_the_control_node() -> None:
    assert registry.sources(NODES, 0, 32) == {}
    assert set(registry.sources(NODES, 1, 32).values()) == {"node1"}
    assert set(registry.sources(NODES[:4], 3, 32)) == {"node4"}
    assert registry.sources(NODES[:4], 4, 32) == {}


def test_nodes_that_wait_for_others_leave_ansible_a_process_for_these() -> None:
    assert set(registry.sources(NODES, 2, 2).values()) == {"node1"}
    assert registry.sources(NODES, 2, 1) == {}


@pytest.fixture
def rendezvous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(registry, "CACHE_LIMIT", 0.5)
    return registry.Rendezvous(tmp_path / "rendezvous", NODES)


def test_a_cache_is_found_by_what_its_node_says(
    rendezvous: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "CACHE_LIMIT", 30)
    later = threading.Timer(0.2, rendezvous.announce, ("node2", {"port": 40123}))
    later.start()
    assert rendezvous.wait_for_cache("node2") == {"port": 40123}
    later.join()


def test_a_cache_of_which_nothing_is_heard_is_not_waited_for_for_ever(rendezvous: Any) -> None:
    assert "reason" in rendezvous.wait_for_cache("node1")


def test_a_cache_stays_while_a_node_fetches_from_it(
    rendezvous: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def fetch() -> None:
        with rendezvous.fetching("node3"):
            entered.set()
            leave.wait()

    monkeypatch.setattr(registry, "CACHE_LIMIT", 2)
    waiting = threading.Thread(target=rendezvous.wait_for_nodes, args=(["node3"],))
    fetching = threading.Thread(target=fetch)
    fetching.start()
    entered.wait()
    waiting.start()
    waiting.join(5)  # more than twice as long as it waits for a node that does not come
    assert waiting.is_alive()
    leave.set()
    waiting.join(30)
    assert not waiting.is_alive()
    fetching.join()


def test_a_cache_waits_for_each_of_its_nodes(
    rendezvous: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rendezvous.fetching("node3"):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(registry.time, "sleep", lambda seconds: pytest.fail("it waits"))
        rendezvous.wait_for_nodes(["node3"])
    began = time.monotonic()
    rendezvous.wait_for_nodes(["node3", "node5"])  # which never comes
    assert time.monotonic() - began > 0.5


def test_what_tasks_told_each_other_goes_with_the_next_push(tmp_path: Path) -> None:
    registry.Rendezvous(tmp_path / "rendezvous-0011", NODES).announce("node1", {"port": 1})
    (tmp_path / "port").touch()
    registry.remove_old_meetings(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["port"]


class Upstream(ThreadingHTTPServer):
    """A registry of one layer, which counts what is asked of it and can be held in the middle."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.accepted: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.sent = len(LAYER)
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                upstream.requests.append(self.path)
                upstream.accepted += self.headers.get_all("Accept") or []
                known = self.path in ("/v2/", path_of(LAYER), path_of(LAYER, "manifests"))
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(len(LAYER) if known else 0))
                self.end_headers()
                if known:
                    self.wfile.write(LAYER[: len(LAYER) // 2])
                    self.wfile.flush()
                    upstream.go_on.wait(30)
                    self.wfile.write(LAYER[len(LAYER) // 2 : upstream.sent])

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.go_on.set()
        server.shutdown()


@pytest.fixture
def cache(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(cache_server, "DIRECTORY", str(tmp_path))
    with cache_server.Server(0, upstream.server_address[1]) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers={"Accept": "application/vnd.test"})
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_layer_leaves_the_registry_once(upstream: Upstream, cache: int) -> None:
    upstream.go_on.clear()
    answers: list[tuple[int, bytes]] = []
    askers = [
        threading.Thread(target=lambda: answers.append(ask(cache, path_of(LAYER))))
        for _ in range(8)
    ]
    for asker in askers:
        asker.start()
    time.sleep(0.2)
    upstream.go_on.set()
    for asker in askers:
        asker.join()
    assert answers == [(200, LAYER)] * 8
    assert ask(cache, path_of(LAYER)) == (200, LAYER)
    assert upstream.requests == [path_of(LAYER)]


def test_what_has_come_is_passed_on_before_the_rest(upstream: Upstream, cache: int) -> None:
    upstream.go_on.clear()
    connection = http.client.HTTPConnection("127.0.0.1", cache, timeout=5)
    connection.request("GET", path_of(LAYER))
    answer = connection.getresponse()
    assert answer.read(len(LAYER) // 2) == LAYER[: len(LAYER) // 2]
    upstream.go_on.set()
    assert answer.read() == LAYER[len(LAYER) // 2 :]
    connection.close()


def test_a_layer_that_broke_off_is_seen_to_be_short_and_asked_for_again(
    upstream: Upstream, cache: int
) -> None:
    upstream.sent = len(LAYER) - 1
    with pytest.raises(http.client.IncompleteRead):
        ask(cache, path_of(LAYER))
    upstream.sent = len(LAYER)
    assert ask(cache, path_of(LAYER)) == (200, LAYER)
    assert len(upstream.requests) == 2


def test_the_engine_learns_what_the_registry_has_and_which_kind_was_asked_for(
    upstream: Upstream, cache: int
) -> None:
    assert ask(cache, "/v2/") == (200, b"")
    assert ask(cache, path_of(LAYER, "manifests"), "HEAD") == (200, b"")
    assert ask(cache, path_of(b"another")) == (404, b"")
    assert upstream.accepted == ["application/vnd.test"] * 2


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/_catalog", 404),
        ("GET", "/v2/trainyard/trainer/manifests/current", 404),
        ("GET", path_of(LAYER) + "/../../tags/list", 404),
        ("POST", "/v2/trainyard/trainer/blobs/uploads/", 501),
        ("PUT", path_of(LAYER, "manifests"), 501),
        ("DELETE", path_of(LAYER), 501),
    ],
)
def test_a_cache_gives_what_has_a_digest_and_takes_nothing(
    upstream: Upstream, cache: int, method: str, path: str, status: int
) -> None:
    assert ask(cache, path, method)[0] == status
    assert upstream.requests == []


def test_what_a_cache_keeps_has_no_name(cache: int, tmp_path: Path) -> None:
    assert ask(cache, path_of(LAYER))[0] == 200
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_cache_ends_with_its_registry(upstream: Upstream) -> None:
    program = Path(cache_server.__file__)
    port = registry.free_port(0)
    with subprocess.Popen(
        [sys.executable, "-", str(port), str(upstream.server_address[1])], stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(program.read_bytes())
        process.stdin.close()
        try:
            deadline = time.monotonic() + 30
            while not registry.answers(2, ("127.0.0.1", port)):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert ask(port, path_of(LAYER)) == (200, LAYER)
            time.sleep(1.5)
            assert process.poll() is None
            upstream.shutdown()
            upstream.server_close()
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_a_cache_is_started_from_its_own_text() -> None:
    assert cache_server.source() == Path(cache_server.__file__).read_text()
