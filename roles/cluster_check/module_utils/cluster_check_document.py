# Copyright Trainyard. Apache-2.0
"""`verdict.json` and `nodes.json`; schemas/verdict.schema.json describes the first."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ansible.module_utils.cluster_check_cluster import Cluster
from ansible.module_utils.cluster_check_finding import Finding
from ansible.module_utils.cluster_check_judgement import faults
from ansible.module_utils.cluster_check_notes import Note
from ansible.module_utils.cluster_check_programs import Rank, allreduce


def verdict(
    cluster: Cluster,
    findings: Sequence[Finding],
    notes: Sequence[Note],
    ranks: Sequence[Rank],
    began_at: float,
) -> dict[str, Any]:
    """What goes into verdict.json.

    Args:
        notes: what is worth knowing and nobody's fault.
        ranks: what the ranks of trainer/verify wrote; empty where they were not run.
        began_at: when the first check began, Unix seconds.
    """
    return {
        "ok": all(finding.ok for finding in findings),
        "began_at": began_at,
        "seconds": round(time.time() - began_at, 1),
        "hosts": cluster.hosts,
        "faults": [asdict(fault) for fault in faults(findings)],
        "notes": [{**asdict(note), "hosts": list(note.hosts)} for note in notes],
        "checks": [finding.asdict() for finding in findings],
        "bandwidth_gigabits": matrix(findings, cluster.hosts, "bandwidth"),
        "latency_milliseconds": matrix(findings, cluster.hosts, "latency"),
        "allreduce": allreduce(ranks),
        "matches": matches(cluster),
    }


def matrix(
    findings: Sequence[Finding], hosts: Sequence[str], name: str
) -> list[list[float | None]]:
    """Numbers of the pairs, from each host (row) to each (column)."""
    values = {
        finding.pair: finding.check.value
        for finding in findings
        if finding.name == name and isinstance(finding.check.value, float)
    }
    return [[values.get((a, b)) for b in hosts] for a in hosts]


def matches(cluster: Cluster) -> list[dict[str, Any]]:
    """When which pair was measured."""
    return [
        {"pair": [host, peer], **{key: match[key] for key in ("round", "from", "until")}}
        for host, answer in cluster.measured.items()
        for peer, match in (answer.get("pairs") or {}).get("matches", {}).items()
        if "bits_per_second" in match
    ]


def nodes(cluster: Cluster) -> dict[str, Any]:
    """What goes into nodes.json: what each node is made of."""
    descriptions = {}
    for host, answer in cluster.measured.items():
        node, probe = answer.get("node") or {}, answer.get("probe") or {}
        if "hardware" in probe:
            descriptions[host] = {
                "nodename": node.get("nodename"),
                **probe["hardware"],
                "gpus": node.get("gpus", []),
                "rdma": node.get("rdma", []),
                "ways": node.get("ways", {}),
                "releases": node.get("releases", {}),
            }
    return descriptions


def write(directory: str, name: str, content: Any) -> None:
    """Write a JSON file as a whole or not at all."""
    path = os.path.join(directory, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".new", path)
