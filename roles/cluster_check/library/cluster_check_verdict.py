#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module, for the control node: judges what the nodes measured."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cluster_check_verdict
short_description: Judges what the nodes of a cluster measured
description:
  - Compares measurements with thresholds and nodes with each other, finds the node that stands
    behind the pairs that failed, and writes C(verdict.json) and C(nodes.json).
author: Trainyard
options:
  measured:
    description: By host in order, what the modules returned (C(probe), C(node), C(ssh), C(pairs)).
    type: dict
    required: true
  wanted:
    description: Thresholds, by name.
    type: dict
    required: true
  job:
    description: What the program over all nodes printed, and whom it left out (C(excluded)).
    type: dict
    default: {}
  containers:
    description:
      - For the programs in trainer containers, whom they left out (C(excluded)), and where a
        container could not be started or ended (C(troubles)). What the programs themselves wrote
        is read below O(directory).
    type: dict
    default: {}
  directory:
    description: Where the files go. Without, nothing is written.
    type: path
  began_at:
    description: When the first check began, Unix seconds.
    type: float
    default: 0
"""

EXAMPLES = r"""
- name: Judge
  cluster_check_verdict:
    measured: {node1: {probe: {...}, node: {...}}}
    wanted: {bandwidth_gigabits: 10}
    directory: /home/ada/trainyard/runs/verify-20261120T120000Z
"""

RETURN = r"""
ok:
  description: Whether every check is passed.
  returned: always
  type: bool
faults:
  description: Who is at fault and why, a line each.
  returned: always
  type: list
  elements: str
unfit_for_jobs:
  description: Hosts that have to stay out of a program over all nodes, and why.
  returned: always
  type: dict
unfit_for_containers:
  description: Hosts that have to stay out of a program in trainer containers, and why.
  returned: always
  type: dict
"""

import glob
import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judgement import Finding, Judge, faults
from ansible.module_utils.programs import allreduce

# What a host must have for a program over all nodes.
NEEDS = ("reachable", "address", "names", "Open MPI", "ssh", "firewall", "source address")
# The same for one in trainer containers, where names, sshd and Open MPI are the container's own.
CONTAINER_NEEDS = (
    *("reachable", "address", "engine", "free", "image", "disk", "writable"),
    *("firewall", "source address"),
)
# Exit status of timeout(1).
TIMED_OUT = 124
# Of a rank's output, what is read.
LOG_BYTES = 65536


def read_job(job: dict[str, Any]) -> dict[str, Any] | None:
    """Reduce the output of the program to what is judged; None where it was not asked for."""
    if not job:
        return None
    said = str(job.get("stderr", "")) or str(job.get("stdout", "")) or str(job.get("msg", ""))
    if job.get("rc") == TIMED_OUT:
        said = "no end within its time limit"
    return {
        "excluded": job["excluded"],
        "said": str(job.get("stdout", "")),
        "trouble": said,
    }


def read_containers(containers: dict[str, Any], directory: str) -> dict[str, Any] | None:
    """Read what the programs in containers left; None where they were not asked for."""
    if not containers:
        return None
    ranks = []
    for path in sorted(glob.glob(os.path.join(directory, "verify", "rank-*.json"))):
        with open(path, encoding="utf-8") as file:
            ranks.append(json.load(file))
    ranks.sort(key=lambda rank: int(rank["rank"]))
    return {
        **containers,
        "log": end_of(os.path.join(directory, "logs", "mpirun.log")),
        "ranks": ranks,
        "rank_logs": {
            rank["rank"]: end_of(os.path.join(directory, "logs", f"rank-{rank['rank']}.log"))
            for rank in ranks
        },
    }


def end_of(path: str) -> str:
    """The last part of a file; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(os.stat(path).st_size - LOG_BYTES, 0))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def matrix(findings: list[Finding], hosts: list[str], name: str) -> list[list[float | None]]:
    """Numbers of the pairs, from each host (row) to each (column)."""
    values = {
        tuple(finding["pair"]): finding["value"]
        for finding in findings
        if finding["name"] == name and isinstance(finding["value"], float)
    }
    return [[values.get((a, b)) for b in hosts] for a in hosts]


def document(judge: Judge, began_at: float) -> dict[str, Any]:
    """What goes into verdict.json."""
    matches = [
        {"pair": [host, peer], **{key: match[key] for key in ("round", "from", "until")}}
        for host, answer in judge.measured.items()
        for peer, match in (answer.get("pairs") or {}).get("matches", {}).items()
        if "bits_per_second" in match
    ]
    return {
        "ok": all(finding["ok"] for finding in judge.findings),
        "began_at": began_at,
        "seconds": round(time.time() - began_at, 1),
        "hosts": judge.hosts,
        "faults": faults(judge.findings),
        "checks": judge.findings,
        "bandwidth_gigabits": matrix(judge.findings, judge.hosts, "bandwidth"),
        "latency_milliseconds": matrix(judge.findings, judge.hosts, "latency"),
        "allreduce": allreduce((judge.containers or {}).get("ranks", [])),
        "matches": matches,
    }


def nodes(judge: Judge) -> dict[str, Any]:
    """What goes into nodes.json."""
    found = {}
    for host, answer in judge.measured.items():
        node, probe = answer.get("node") or {}, answer.get("probe") or {}
        if "hardware" in probe:
            found[host] = {
                "nodename": node.get("nodename"),
                **probe["hardware"],
                "gpus": node.get("gpus", []),
                "releases": node.get("releases", {}),
            }
    return found


def write(directory: str, name: str, content: Any) -> None:
    """Write a JSON file as a whole or not at all."""
    path = os.path.join(directory, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".new", path)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "measured": {"type": "dict", "required": True},
            "wanted": {"type": "dict", "required": True},
            "job": {"type": "dict", "default": {}},
            "containers": {"type": "dict", "default": {}},
            "directory": {"type": "path"},
            "began_at": {"type": "float", "default": 0.0},
        },
        supports_check_mode=True,
    )
    asked = module.params
    judge = Judge(
        asked["measured"],
        asked["wanted"],
        read_job(asked["job"]),
        read_containers(asked["containers"], asked["directory"] or ""),
    )
    judge.judge()
    found = document(judge, asked["began_at"])
    if asked["directory"] and not module.check_mode:
        os.makedirs(asked["directory"], exist_ok=True)
        write(asked["directory"], "nodes.json", nodes(judge))
        write(asked["directory"], "verdict.json", found)
    module.exit_json(
        changed=bool(asked["directory"]),
        ok=found["ok"],
        faults=[
            ": ".join(filter(None, (fault["who"], cause["reason"], cause["remedy"])))
            for fault in found["faults"]
            for cause in fault["causes"]
        ],
        unfit_for_jobs=judge.excluded(NEEDS),
        unfit_for_containers=judge.excluded(CONTAINER_NEEDS),
    )


if __name__ == "__main__":
    main()
