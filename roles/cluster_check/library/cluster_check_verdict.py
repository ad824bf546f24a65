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
  hosts:
    description: All nodes, in the order of the inventory. Lists of results have the same order.
    type: list
    elements: str
    required: true
  probes:
    description: What the verb C(probe) of the node program came to.
    type: list
    elements: dict
    required: true
  nodes:
    description: Results of M(cluster_check_node).
    type: list
    elements: dict
    required: true
  logins:
    description: Results of M(cluster_check_ssh); skipped ones where that was not asked for.
    type: list
    elements: dict
    required: true
  pairs:
    description: Results of M(cluster_check_pairs); skipped ones where that was not asked for.
    type: list
    elements: dict
    required: true
  thresholds:
    description: What is good enough; the role's variables of the same names say what each is.
    type: dict
    required: true
    suboptions:
      same_releases: {description: What must be the same, type: list, elements: str, required: true}
      clock_seconds: {description: In seconds, type: float, required: true}
      bandwidth_gigabits: {description: In 10^9 bits per second, type: float, required: true}
      latency_milliseconds: {description: In milliseconds, type: float, required: true}
      allreduce_gigabits: {description: In 10^9 bits per second, type: float, required: true}
      gpu_slowness: {description: As a multiple of the median, type: float, required: true}
  program:
    description: The program over all nodes, where it was asked for.
    type: dict
    suboptions:
      excluded: {description: Hosts that were left out and why, type: dict, required: true}
      result: {description: Of the task that ran it, type: dict, required: true}
  containers:
    description:
      - The programs in trainer containers, where they were asked for. What they wrote is read
        below O(directory).
    type: dict
    suboptions:
      excluded: {description: Hosts that were left out and why, type: dict, required: true}
      steps:
        description: Lists of results, one for each step of a run.
        type: list
        elements: list
        required: true
  transport:
    description: What runs use unasked.
    type: dict
    default: {name: "", rdma: false}
    suboptions:
      name: {description: As TRANSPORT= has it, type: str, required: true}
      rdma: {description: Whether its ranks take RDMA, type: bool, required: true}
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
    hosts: [node1]
    probes: [{answer: {checks: [...], run: "", image_id: sha256:...}}]
    nodes: [{releases: {...}, checks: [...]}]
    logins: [{logins: {}}]
    pairs: [{greetings: {}, matches: {}}]
    thresholds:
      same_releases: [openmpi]
      clock_seconds: 1
      bandwidth_gigabits: 10
      latency_milliseconds: 1
      allreduce_gigabits: 5
      gpu_slowness: 1.15
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

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cluster_check_cluster import Cluster, Thresholds
from ansible.module_utils.cluster_check_document import nodes, verdict, write
from ansible.module_utils.cluster_check_judgement import excluded, faults, judge
from ansible.module_utils.cluster_check_notes import Transport, notes
from ansible.module_utils.cluster_check_results import read_containers, read_program

# What a host must have for a program over all nodes.
NEEDS = ("reachable", "address", "names", "Open MPI", "ssh", "firewall", "source address")
# The same for one in trainer containers, where names, sshd and Open MPI are the container's own.
CONTAINER_NEEDS = (
    *("reachable", "address", "engine", "free", "image", "disk", "writable"),
    *("firewall", "source address", "GPUs usable"),
)
ARGUMENTS: dict[str, Any] = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "probes": {"type": "list", "elements": "dict", "required": True},
    "nodes": {"type": "list", "elements": "dict", "required": True},
    "logins": {"type": "list", "elements": "dict", "required": True},
    "pairs": {"type": "list", "elements": "dict", "required": True},
    "thresholds": {
        "type": "dict",
        "required": True,
        "options": {
            "same_releases": {"type": "list", "elements": "str", "required": True},
            "clock_seconds": {"type": "float", "required": True},
            "bandwidth_gigabits": {"type": "float", "required": True},
            "latency_milliseconds": {"type": "float", "required": True},
            "allreduce_gigabits": {"type": "float", "required": True},
            "gpu_slowness": {"type": "float", "required": True},
        },
    },
    "program": {
        "type": "dict",
        "options": {
            "excluded": {"type": "dict", "required": True},
            "result": {"type": "dict", "required": True},
        },
    },
    "containers": {
        "type": "dict",
        "options": {
            "excluded": {"type": "dict", "required": True},
            "steps": {"type": "list", "elements": "list", "required": True},
        },
    },
    "transport": {
        "type": "dict",
        "default": {"name": "", "rdma": False},
        "options": {
            "name": {"type": "str", "required": True},
            "rdma": {"type": "bool", "required": True},
        },
    },
    "directory": {"type": "path"},
    "began_at": {"type": "float", "default": 0.0},
}


def read_cluster(params: dict[str, Any]) -> Cluster:
    """The measurements by host."""
    parts = {"probe": "probes", "node": "nodes", "ssh": "logins", "pairs": "pairs"}
    measured = {
        host: {part: params[name][index] for part, name in parts.items()}
        for index, host in enumerate(params["hosts"])
    }
    for told in measured.values():
        # The node program's answer is a part of what the task returned.
        told["probe"] = {**told["probe"], **(told["probe"].get("answer") or {})}
    thresholds = params["thresholds"]
    return Cluster(
        measured,
        Thresholds(**{**thresholds, "same_releases": tuple(thresholds["same_releases"])}),
    )


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params, directory = module.params, module.params["directory"]
    cluster = read_cluster(params)
    program = containers = None
    if params["program"] is not None:
        hostnames = {cluster.answer(h, "node").get("nodename", h): h for h in cluster.hosts}
        program = read_program(**params["program"], hostnames=hostnames)
    if params["containers"] is not None:
        steps = [
            dict(zip(cluster.hosts, results, strict=True))
            for results in params["containers"]["steps"]
        ]
        containers = read_containers(steps, params["containers"]["excluded"], directory or "")
    findings = judge(cluster, program, containers)
    document = verdict(
        cluster,
        findings,
        notes(cluster, Transport(**params["transport"])),
        containers.ranks if containers else [],
        params["began_at"],
    )
    if directory and not module.check_mode:
        os.makedirs(directory, exist_ok=True)
        write(directory, "nodes.json", nodes(cluster))
        write(directory, "verdict.json", document)
    module.exit_json(
        changed=bool(directory),
        ok=document["ok"],
        faults=[
            ": ".join(filter(None, (fault.who, cause.reason, cause.remedy)))
            for fault in faults(findings)
            for cause in fault.causes
        ],
        unfit_for_jobs=excluded(findings, NEEDS, cluster.hosts),
        unfit_for_containers=excluded(findings, CONTAINER_NEEDS, cluster.hosts),
    )


if __name__ == "__main__":
    main()
