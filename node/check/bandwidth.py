"""Latency between two nodes, and by iperf3 bandwidth and loss."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..machine.hardware import any_port
from .tournament import Line, Node, round_trip, trouble_of

READY_SECONDS = 5.0
# Whether the bytes flow backwards, from the server to the client.
DIRECTIONS = (False, True)


@contextmanager
def server(address: str) -> Iterator[int]:
    """Listen on a port that the kernel chooses; yields it. Raises OSError where that fails."""
    port = any_port(address)
    process = subprocess.Popen(
        ["iperf3", "--server", "--bind", address, "--port", str(port), "--forceflush"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # One that never gets ready is killed, which ends the loop below.
    alarm = threading.Timer(READY_SECONDS, process.kill)
    alarm.start()
    try:
        assert process.stdout is not None
        said = ""
        for text in process.stdout:
            said += text
            if "listening" in text:
                break
        else:
            raise OSError(f"iperf3 --server ended: {said.strip()}")
        alarm.cancel()
        # Its further output must not fill the pipe.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield port
    finally:
        alarm.cancel()
        process.kill()
        process.wait()


def flow(
    source: str, address: str, port: int, seconds: float, limit: float, backwards: bool
) -> tuple[float, float]:
    """Send for some seconds (or receive).

    Returns:
        Bits per second that arrived, and the share of TCP's segments that had to be sent again, in
        percent. A link so slow that even the end of the test does not get through in time has 0 of
        both.

    Raises:
        OSError: iperf3 failed.
    """
    command = ["iperf3", "--client", address, "--bind", source, "--port", str(port), "--json"]
    command += ["--time", f"{seconds:g}", *(["--reverse"] if backwards else [])]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return 0.0, 0.0
    answer = json.loads(done.stdout or "{}")
    trouble = answer.get("error", done.stderr.strip())
    if trouble:
        raise OSError(f"iperf3: {trouble}")
    sent, received = answer["end"]["sum_sent"], answer["end"]["sum_received"]
    segments = sent["bytes"] / answer["start"]["tcp_mss_default"]
    lost = 100 * sent.get("retransmits", 0) / max(segments, 1)
    return float(received["bits_per_second"]), min(lost, 100.0)


class Meter:
    """Latency, then bandwidth and loss in both directions."""

    def __init__(self, seconds: float, limit: float) -> None:
        self.seconds = seconds
        # Two directions, each with time for its end.
        self.limit = limit / 2

    def __call__(self, line: Line, me: Node, peer: Node, at_home: bool) -> dict[str, Any]:
        """Measure one match; see `tournament.Measure`."""
        latency = round_trip(line, at_home)
        if at_home:
            for _ in DIRECTIONS:
                # A server of its own for each: one still held by a test that was cut off turns the
                # next away, and over a slow link even that answer gets lost.
                with server(me.address) as port:
                    line.say(port=port)
                    line.hear()
            return {}
        try:
            there, back = (self._flow(line, me, peer, way) for way in DIRECTIONS)
        except (OSError, ValueError) as error:
            return {"latency_seconds": latency, "trouble": trouble_of(error)}
        rates, lost = zip(there, back)
        return {
            "latency_seconds": latency,
            "bits_per_second": list(rates),
            "lost_percent": list(lost),
        }

    def _flow(self, line: Line, me: Node, peer: Node, backwards: bool) -> tuple[float, float]:
        port = line.hear(port=int)["port"]
        measured = flow(me.address, peer.address, port, self.seconds, self.limit, backwards)
        line.say(done=True)
        return measured
