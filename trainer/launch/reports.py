"""Asks every node of a run what its ranks do while the run hangs."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterable
from typing import BinaryIO

from trainer.problems import Problem

# Says it of one node, a JSON line for every rank; see `hang_report`.
COMMAND = "/opt/trainyard/bin/hang-report"
# The argument of a run that goes on.
GOES_ON = "--goes-on"
# Seconds for the answers of all nodes, and for a connection.
PATIENCE = 8.0
CONNECTION_PATIENCE = 5
# Seconds for a program to end that was killed.
KILL_PATIENCE = 1.0


def collect_reports(peers: Iterable[str], log: BinaryIO, goes_on: bool = False) -> list[Problem]:
    """Return what every rank of the run does, and which nodes do not answer.

    All nodes are asked at once. Each rank writes its Python stack into its log meanwhile.

    Args:
        peers: hosts beside this one, by the names that ssh knows.
        log: takes what the programs write to stderr.
        goes_on: the run is not about to end, and a rank that is stopped stays so.
    """
    command = [COMMAND, GOES_ON] if goes_on else [COMMAND]
    ssh = ["ssh", "-o", f"ConnectTimeout={CONNECTION_PATIENCE}"]
    commands = {os.uname().nodename: command} | {host: [*ssh, host, *command] for host in peers}
    programs: dict[str, subprocess.Popen[bytes]] = {}
    problems: list[Problem] = []
    for host, arguments in commands.items():
        try:
            programs[host] = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        except OSError as error:
            # The ranks have all processes that the container may have, perhaps; they may go on.
            log.write(f"trainyard: {host} cannot be asked: {error}\n".encode())
            problems.append(Problem("peer_silent", {"host": host}))
    deadline = time.monotonic() + PATIENCE
    for host, program in programs.items():
        output = _output(program, max(0.0, deadline - time.monotonic()))
        problems += read_report(output)
        if program.returncode != 0:
            problems.append(Problem("peer_silent", {"host": host}))
    return problems


def read_report(output: bytes) -> list[Problem]:
    """Return the problems of a report; lines that are none, half a line of a killed one, go."""
    problems = []
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            problems.append(Problem.from_json(json.loads(line)))
    return problems


def _output(program: "subprocess.Popen[bytes]", seconds: float) -> bytes:
    """What a program writes, up to its end or the end of the patience."""
    try:
        return program.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        program.kill()
    try:
        return program.communicate(timeout=KILL_PATIENCE)[0]
    except subprocess.TimeoutExpired as error:
        return error.output or b""
