"""The pair tests of one node: every node runs this at the same time, and they find each other.

First everybody greets everybody: that shows which ports are closed, which address a connection
seems to come from, and how far the clocks are apart. Then the pairs meet in rounds: every pair
once and nobody in two tests at once, so the whole takes time in proportion to the nodes. The first
of a pair listens and the second comes to it; a node goes on when its match is over, so the
rounds need no conductor. A peer that does not come costs its opponents one time limit, not more.
"""

from __future__ import annotations

import json
import math
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any, BinaryIO

ROUND_TRIPS = 50
# Of one object, whatever a peer sends.
LINE_BYTES = 1 << 16
# A refused connection is tried again this often, in seconds: the peer may not have started yet.
RETRY = 0.1

Match = tuple[str, str]


@dataclass(frozen=True)
class Node:
    """A participant: where it listens."""

    name: str
    address: str
    port: int


@dataclass(frozen=True)
class Limits:
    """Time limits in seconds: of one connection, until all nodes have begun, and of one match."""

    connect: float
    start: float
    match: float


class Line:
    """A connection that carries one JSON object a line."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(max(seconds, 0.1))
        self.connection = connection
        self._file: BinaryIO = connection.makefile("rb")

    def say(self, **message: Any) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def hear(self, **kinds: type) -> dict[str, Any]:
        """Receive one object, which has values of some kinds.

        Raises:
            OSError: the other end has gone.
            ValueError: it says something else.
        """
        line = self._file.readline(LINE_BYTES)
        if not line:
            raise ConnectionError("the peer hung up")
        message = json.loads(line)
        if not isinstance(message, dict) or not all(
            type(message.get(name)) is kind for name, kind in kinds.items()
        ):
            raise ValueError("the peer talks otherwise than checks do")
        return message

    def close(self) -> None:
        self._file.close()
        self.connection.close()


# Measures in one match, over its line: the listener's side gets True. What the side that came
# returns is the result.
Measure = Callable[[Line, Node, Node, bool], dict[str, Any]]


class Tournament:
    """All tests of one node."""

    def __init__(self, me: Node, nodes: Sequence[Node], limits: Limits, measure: Measure) -> None:
        self.me = me
        self.nodes = {node.name: node for node in nodes}
        self.limits = limits
        self.measure = measure
        self.began = time.monotonic()
        self._greeted: set[str] = set()
        self._news = threading.Condition()
        self._waiting: dict[str, queue.Queue[Line]] = {name: queue.Queue() for name in self.nodes}

    def run(self) -> dict[str, Any]:
        """Greet, then play all matches. Returns `greetings` and `matches`, by peer."""
        peers = [node for node in self.nodes.values() if node != self.me]
        family = socket.AF_INET6 if ":" in self.me.address else socket.AF_INET
        with socket.create_server(
            (self.me.address, self.me.port), family=family, backlog=2 * len(self.nodes)
        ) as listener:
            threading.Thread(target=self._listen, args=(listener,), daemon=True).start()
            with ThreadPoolExecutor(max(len(peers), 1)) as pool:
                answers = list(pool.map(self._greet, peers))
            greetings = {peer.name: answer for peer, answer in zip(peers, answers)}
            matches = {}
            for number, (host, guest) in matches_of(self.me.name, list(self.nodes)):
                peer = self.nodes[guest if host == self.me.name else host]
                matches[peer.name] = self._play(number, peer, at_home=host == self.me.name)
            # Whoever has not greeted yet may only be late, and must find this port open.
            for peer in peers:
                self._wait_for_greeting(peer)
            return {"greetings": greetings, "matches": matches}

    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, source = listener.accept()
            except OSError:
                return  # closed: the tournament is over
            threading.Thread(
                target=self._receive, args=(connection, source[0]), daemon=True
            ).start()

    def _receive(self, connection: socket.socket, source: str) -> None:
        """Answer a greeting, or let a peer wait for its match."""
        line = Line(connection, self.limits.match)
        try:
            message = line.hear(what=str, to=str, **{"from": str})
            if message.get("to") != self.me.name or message.get("from") not in self.nodes:
                line.close()
                return
            if message["what"] == "match":
                self._waiting[message["from"]].put(line)
                return
            line.say(source=source, time=time.time())
            line.close()
            with self._news:
                self._greeted.add(message["from"])
                self._news.notify_all()
        except (OSError, ValueError):
            line.close()  # what hangs up or talks otherwise is no peer

    def _connect(self, peer: Node) -> Line:
        """Reach a peer; one that refuses may not have started yet."""
        while True:
            try:
                connection = socket.create_connection(
                    (peer.address, peer.port),
                    timeout=self.limits.connect,
                    source_address=(self.me.address, 0),
                )
                return Line(connection, self.limits.connect)
            except ConnectionRefusedError:
                if time.monotonic() > self.began + self.limits.start:
                    raise
                time.sleep(RETRY)

    def _greet(self, peer: Node) -> dict[str, Any]:
        """Look whether a peer's port is open, whom it sees, and what time it has."""
        try:
            line = self._connect(peer)
            sent = time.time()
            line.say(what="greeting", **{"from": self.me.name, "to": peer.name})
            answer = line.hear(time=float, source=str)
            received = time.time()
            line.close()
            if not math.isfinite(answer["time"]):
                raise ValueError(f"its time is {answer['time']}")
        except (OSError, ValueError) as error:
            return {"trouble": trouble_of(error), "source": "", "clock_seconds": None}
        # Half of the way there and back: the peer's clock at the middle of the question (RFC 5905).
        ahead = answer["time"] - (sent + received) / 2
        return {"trouble": "", "source": answer["source"], "clock_seconds": round(ahead, 4)}

    def _wait_for_greeting(self, peer: Node) -> bool:
        """Whether a peer has reached this node, once it must have."""
        with self._news:
            return self._news.wait_for(
                lambda: peer.name in self._greeted,
                max(self.began + self.limits.start - time.monotonic(), 0),
            )

    def _play(self, number: int, peer: Node, at_home: bool) -> dict[str, Any]:
        """One match; the result is with the side that came."""
        result: dict[str, Any] = {"round": number, "at_home": at_home, "trouble": ""}
        line = None
        try:
            if at_home:
                if not self._wait_for_greeting(peer):
                    return {**result, "trouble": "the peer did not come"}
                line = self._waiting[peer.name].get(timeout=self._left(number))
                line.connection.settimeout(self.limits.match)
                line.say(ready=True)
            else:
                line = self._connect(peer)
                line.say(what="match", **{"from": self.me.name, "to": peer.name})
                # The peer may still be busy with what came before.
                line.connection.settimeout(self._left(number))
                line.hear()
                line.connection.settimeout(self.limits.match)
            result["from"] = time.time()
            result.update(self.measure(line, self.me, peer, at_home))
            result["until"] = time.time()
        except queue.Empty:
            result["trouble"] = "the peer did not come"
        except (OSError, ValueError) as error:
            result["trouble"] = trouble_of(error)
        finally:
            if line is not None:
                line.close()
        return result

    def _left(self, number: int) -> float:
        """Seconds until round `number` (from 0) must have begun, however slow those before were."""
        end = self.began + self.limits.start + (number + 1) * self.limits.match
        return max(end - time.monotonic(), 0.1)


def round_trip(line: Line, at_home: bool) -> float:
    """Median time there and back in seconds, of one byte over TCP."""
    if at_home:
        for _ in range(ROUND_TRIPS):
            line.connection.sendall(_one_byte(line))
        return 0.0
    times = []
    for _ in range(ROUND_TRIPS):
        sent = time.perf_counter()
        line.connection.sendall(b".")
        _one_byte(line)
        times.append(time.perf_counter() - sent)
    return median(times)


def _one_byte(line: Line) -> bytes:
    byte = line.connection.recv(1)
    if not byte:
        raise ConnectionError("the peer hung up")
    return byte


def trouble_of(error: Exception) -> str:
    """What went wrong, in words."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def rounds(nodes: Sequence[str]) -> list[list[Match]]:
    """The matches of every round, by the circle method.

    The first node keeps its place, the others move on by one after every round, and who stands
    opposite meets (E. Lucas, Récréations mathématiques, 1883). With an odd number the one opposite
    the empty place rests.
    """
    circle: list[str | None] = [*nodes]
    if len(circle) % 2:
        circle.append(None)
    schedule = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        opposite = zip(circle[:half], reversed(circle[half:]))
        schedule.append([(a, b) for a, b in opposite if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return schedule


def matches_of(node: str, nodes: Sequence[str]) -> list[tuple[int, Match]]:
    """The matches of one node with the number of their round, in order."""
    return [
        (number, match)
        for number, matches in enumerate(rounds(nodes))
        for match in matches
        if node in match
    ]
