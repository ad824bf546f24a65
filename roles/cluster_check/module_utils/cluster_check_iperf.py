# Copyright Trainyard. Apache-2.0
"""Bandwidth of one connection, measured by iperf3."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ansible.module_utils.cluster_check_ports import free_port

READY_SECONDS = 5.0


@contextmanager
def server(address: str) -> Iterator[int]:
    """Listen on a port that the kernel chooses; yields it. Raises OSError where that fails."""
    port = free_port(address)
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


def bits_per_second(
    source: str, address: str, port: int, seconds: float, limit: float, backwards: bool
) -> float:
    """Send for some seconds (or receive), and return what arrived.

    A link so slow that even the end of the test does not get through in time counts as 0.

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
        return 0.0
    answer = json.loads(done.stdout or "{}")
    trouble = answer.get("error", done.stderr.strip())
    if trouble:
        raise OSError(f"iperf3: {trouble}")
    return float(answer["end"]["sum_received"]["bits_per_second"])
