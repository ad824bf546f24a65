# Copyright Trainyard. Apache-2.0
"""What the programs over all nodes left: results of Ansible's tasks, and files of the ranks."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.cluster_check_containers import Containers
from ansible.module_utils.cluster_check_mpi import Program

# Exit status of timeout(1).
TIMED_OUT = 124
# Of a rank's output, what is read.
LOG_BYTES = 65536


def read_program(
    result: Mapping[str, Any], excluded: Mapping[str, str], hostnames: Mapping[str, str]
) -> Program:
    """The program of MPI on the nodes.

    Args:
        result: of the task that ran it; empty where no node could.
        excluded: hosts that were left out, and why.
        hostnames: host by the name that it gives itself.
    """
    output = str(result.get("stdout", ""))
    trouble = str(result.get("stderr", "")) or output or str(result.get("msg", ""))
    if result.get("rc") == TIMED_OUT:
        trouble = "no end within its time limit"
    return Program("MPI", excluded, output, trouble, hostnames, {})


def read_containers(
    steps: Sequence[Mapping[str, Mapping[str, Any]]], excluded: Mapping[str, str], directory: str
) -> Containers:
    """The programs in trainer containers.

    Args:
        steps: results of each step of a run, by host.
        excluded: hosts that were left out, and why.
        directory: of the verdict, where the files of the ranks are.
    """
    ranks = []
    for path in sorted(glob.glob(os.path.join(directory, "verify", "rank-*.json"))):
        with open(path, encoding="utf-8") as file:
            ranks.append(json.load(file))
    ranks.sort(key=lambda rank: int(rank["rank"]))
    logs = os.path.join(directory, "logs")
    return Containers(
        excluded=excluded,
        troubles=step_troubles(steps, excluded),
        log=end_of(os.path.join(logs, "mpirun.log")),
        ranks=ranks,
        rank_logs={
            rank["rank"]: end_of(os.path.join(logs, f"rank-{rank['rank']}.log")) for rank in ranks
        },
    )


def step_troubles(
    steps: Sequence[Mapping[str, Mapping[str, Any]]], excluded: Mapping[str, str]
) -> dict[str, str]:
    """Why the first step that failed on a host did, by host; those left out have no part."""
    troubles: dict[str, str] = {}
    for step in steps:
        for host, result in step.items():
            if host not in excluded and (result.get("failed") or result.get("unreachable")):
                troubles.setdefault(host, str(result.get("msg", "no answer")))
    return troubles


def end_of(path: str) -> str:
    """The last part of a file; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(os.stat(path).st_size - LOG_BYTES, 0))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
