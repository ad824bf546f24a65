"""The tournament of the pairs: who meets whom, and how long it takes."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from node.check import bandwidth, tournament
from node.machine.hardware import any_port

MATCH_SECONDS = 0.25
# Begin and end of each measurement, in seconds.
MEASURED: list[tuple[float, float]] = []


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 8, 9, 16])
def test_every_pair_meets_once_and_nobody_is_at_two_places(number: int) -> None:
    nodes = [f"node{i}" for i in range(number)]
    played = tournament.rounds(nodes)
    met = [frozenset(match) for matches in played for match in matches]
    assert len(met) == len(set(met))
    assert set(met) == set(map(frozenset, combinations(nodes, 2)))
    for matches in played:
        busy = [node for match in matches for node in match]
        assert len(busy) == len(set(busy))


@pytest.mark.parametrize(("number", "wanted"), [(2, 1), (4, 3), (8, 7), (7, 7), (64, 63)])
def test_rounds_grow_with_the_nodes_not_with_the_pairs(number: int, wanted: int) -> None:
    assert len(tournament.rounds([str(i) for i in range(number)])) == wanted


def test_a_node_plays_in_order() -> None:
    played = tournament.matches_of("c", list("abcd"))
    assert [number for number, _ in played] == [0, 1, 2]
    assert {next(iter({*match} - {"c"})) for _, match in played} == set("abd")


def measure(line: Any, me: Any, peer: Any, at_home: bool) -> dict[str, Any]:
    begin = time.monotonic()
    seconds = tournament.round_trip(line, at_home)
    time.sleep(MATCH_SECONDS)
    if not at_home:
        MEASURED.append((begin, time.monotonic()))
    return {} if at_home else {"latency_seconds": seconds}


def play(nodes: list[Any], absent: int = 0) -> dict[str, dict[str, Any]]:
    """Run the tournament of all nodes on loopback addresses, but for the last `absent`."""
    # Only an absent node is waited for as long as that.
    limits = tournament.Limits(connect=10, start=1.5 if absent else 15, match=30)
    present = nodes[: len(nodes) - absent]
    with ThreadPoolExecutor(len(nodes)) as pool:
        running = {
            node.name: pool.submit(tournament.Tournament(node, nodes, limits, measure).run)
            for node in present
        }
        return {name: future.result() for name, future in running.items()}


def on_loopback(number: int) -> list[Any]:
    addresses = [f"127.0.0.{i + 1}" for i in range(number)]
    return [tournament.Node(f"node{i + 1}", a, any_port(a)) for i, a in enumerate(addresses)]


@pytest.mark.parametrize(("number", "expected_rounds"), [(2, 1), (4, 3), (8, 7)])
def test_pairs_measure_side_by_side_in_rounds(number: int, expected_rounds: int) -> None:
    """Real sockets: the 28 pairs of 8 nodes are measured in 7 rounds, four at the same time."""
    MEASURED.clear()
    results = play(on_loopback(number))
    matches = [m for result in results.values() for m in result["matches"].values()]
    assert all(not match["trouble"] for match in matches)
    measured = [match for match in matches if "latency_seconds" in match]
    assert len(measured) == number * (number - 1) // 2
    assert {match["round"] for match in measured} == set(range(expected_rounds))
    together = [sum(begin <= other < end for other, _ in MEASURED) for begin, end in MEASURED]
    assert (max(together) > 1) == (number > 2)
    for name, result in results.items():
        for peer, greeting in result["greetings"].items():
            assert greeting["trouble"] == ""
            assert greeting["source"] == f"127.0.0.{name.removeprefix('node')}", peer
            assert abs(greeting["clock_seconds"]) < 5


def test_an_absent_node_costs_a_time_limit_and_the_others_are_measured() -> None:
    results = play(on_loopback(4), absent=1)
    for name, result in results.items():
        assert result["greetings"]["node4"]["trouble"] == "Connection refused"
        assert result["matches"]["node4"]["trouble"]
        others = {"node1", "node2", "node3"} - {name}
        assert all(result["matches"][peer]["trouble"] == "" for peer in others)


@pytest.mark.parametrize(
    "said",
    [
        *("[1]", "{}", '{"time": 1e999, "source": ""}', '{"time": 1.0, "source": 5}'),
        *('{"time": "x", "source": ""}', "no JSON"),
    ],
)
def test_a_peer_that_says_anything_ends_no_check_of_this_node(said: str) -> None:
    me, peer = on_loopback(2)
    with socket.create_server((peer.address, peer.port)) as liar:
        liar.settimeout(5)

        def answer() -> None:
            # A greeting, and a match.
            for _ in range(2):
                connection, _ = liar.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(f"{said}\n".encode())

        limits = tournament.Limits(connect=2, start=0.3, match=0.3)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(answer)
            told = tournament.Tournament(me, [peer, me], limits, measure).run()
    assert told["greetings"][peer.name]["trouble"]


IPERF3 = """#!/bin/sh
echo "$@" >> {folder}/arguments
case "$1" in
--server) echo listening; exec sleep 9 ;;
esac
echo '{{"start": {{"tcp_mss_default": 1000}},
"end": {{"sum_sent": {{"bytes": 1000000, "retransmits": 150}},
"sum_received": {{"bits_per_second": 8e6}}}}}}'
"""


@pytest.mark.process
def test_what_iperf3_is_asked_and_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It listens on the node's address alone; of a thousand segments 150 were sent again."""
    program = tmp_path / "iperf3"
    program.write_text(IPERF3.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with bandwidth.server("127.0.0.1") as port:
        measured = bandwidth.flow("127.0.0.1", "127.0.0.1", port, 1.0, 5.0, backwards=False)
    assert measured == (8e6, 15.0)
    server, client = (tmp_path / "arguments").read_text().splitlines()
    assert f"--bind 127.0.0.1 --port {port} " in server
    assert f"--bind 127.0.0.1 --port {port} " in client
