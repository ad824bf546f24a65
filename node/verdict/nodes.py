"""Findings about one node at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..check.check import Check, check, equal
from ..check.problems import Problem
from .attribution import majority
from .cluster import RESULTS, Cluster, one_line
from .finding import GPU_PROBLEMS, NODE_PROBLEMS, OTHER, REMEDIES, Finding, about_node
from .notes import rdma_of

# What must be the same on every node, and how people call it.
RELEASES = {
    "openmpi": "Open MPI",
    "ucx": "UCX",
    "docker": "Docker",
    "driver": "GPU driver",
    "cuda": "CUDA",
}
# What every node must have, even where all agree that they have none.
INDISPENSABLE = ("image", "Open MPI")


def judge_nodes(cluster: Cluster) -> list[Finding]:
    """Whether each node answers, has what all have, and passes its own checks."""
    return [
        *_reachable(cluster),
        *_engines(cluster),
        *_releases(cluster),
        *_own_checks(cluster),
        *_gpus_usable(cluster),
    ]


def _reachable(cluster: Cluster) -> list[Finding]:
    findings = []
    for host in cluster.hosts:
        message = cluster.answer(host, "probe").get("msg", "no answer")
        value = "yes" if host in cluster.up else one_line(message)
        reached = equal("reachable", value, "yes", "unreachable", host=host)
        findings.append(about_node(host, reached))
    return findings


def _engines(cluster: Cluster) -> list[Finding]:
    findings = []
    for host in cluster.up:
        release = cluster.answer(host, "node").get("releases", {}).get("docker", "")
        told = "answers" if release else "no answer"
        findings.append(about_node(host, equal("engine", told, "answers", "no_engine")))
        run = cluster.answer(host, "probe")["run"]
        told = f"held by run {run}" if run else "yes"
        findings.append(about_node(host, equal("free", told, "yes", "held", run=run)))
    return findings


def _releases(cluster: Cluster) -> list[Finding]:
    findings = []
    for key, name in RELEASES.items():
        releases = {
            host: answer["releases"].get(key, "")
            for host in cluster.up
            if "releases" in (answer := cluster.answer(host, "node"))
        }
        if key == "docker":
            # That an engine does not answer is said already, and nothing is known of its images.
            releases = {host: release for host, release in releases.items() if release}
        if any(releases.values()) and key in cluster.thresholds.same_releases:
            findings += _same(name, releases, "other_release")
    findings += _rdma(cluster)
    images = {
        host: cluster.answer(host, "probe")["image_id"]
        for host in cluster.up
        if "no_engine" not in _codes(cluster.answer(host, "probe"))
    }
    return findings + _same("image", images, "other_image")


def _codes(probe: Mapping[str, Any]) -> set[str]:
    return {problem["code"] for problem in probe.get("problems", [])}


def _rdma(cluster: Cluster) -> list[Finding]:
    """What the nodes have for RDMA behind the training network, where one of them has some."""
    links = {}
    for host in cluster.up:
        answer = cluster.answer(host, "node")
        if "rdma" in answer:
            interface = answer.get("interface", "")
            behind = [port["link"] for port in rdma_of(answer) if port["interface"] == interface]
            links[host] = behind[0] if behind else ""
    return _same("RDMA", links, "other_rdma") if any(links.values()) else []


def _same(name: str, values: Mapping[str, str], code: str) -> list[Finding]:
    """What all nodes must have alike, by host; the majority is right."""
    indispensable = name in INDISPENSABLE
    # Whoever lacks it is at fault, however many they are, and not those that have it.
    usual = majority({h: value for h, value in values.items() if value or not indispensable})
    threshold = usual or "the same everywhere"
    findings = []
    for host, value in values.items():
        ok = value == usual and (value != "" or not indispensable)
        findings.append(about_node(host, check(name, ok, value or "none", threshold, code)))
    return findings


def _own_checks(cluster: Cluster) -> list[Finding]:
    findings = []
    # Where the inventory has another address than the node, its name is right everywhere, or would
    # be made wrong.
    misplaced = {
        host
        for host in cluster.up
        for entry in cluster.node_checks(host)
        if entry["name"] == "address" and not entry["ok"]
    }
    for host in cluster.up:
        for part in ("node", *RESULTS):
            answer = cluster.answer(host, part)
            if answer.get("failed") or answer.get("unreachable"):
                message = one_line(answer.get("msg", "no answer"))
                failed = equal(f"{part} checks", message, "an answer", "checks_failed")
                findings.append(about_node(host, failed))
        findings += [
            Finding(_own_check(entry), host=host)
            for entry in cluster.node_checks(host)
            if entry["name"] != "names" or entry["subject"] not in misplaced
        ]
    return findings


def _gpus_usable(cluster: Cluster) -> list[Finding]:
    """Whether a run's container could compute on the GPUs: what the gang check says of that."""
    findings = []
    for host in cluster.up:
        probe = cluster.answer(host, "probe")
        troubles = [
            Problem(entry["code"], entry["values"])
            for entry in probe.get("problems", [])
            if entry["code"] in GPU_PROBLEMS
        ]
        for trouble in troubles:
            values = trouble.values
            said = Check(
                "GPUs usable", False, trouble.sentence, "", code=trouble.code, values=values
            )
            findings.append(Finding(said, host=host))
        if probe.get("gpus") and not troubles:
            findings.append(Finding(Check("GPUs usable", True, "yes", ""), host=host))
    return findings


def _own_check(entry: Mapping[str, Any]) -> Check:
    """A check that a node made of itself; a node may give it any code."""
    made = Check(**entry)
    if made.ok:
        return replace(made, code="", values={})
    return made if made.code in (*REMEDIES, *NODE_PROBLEMS) else replace(made, code=OTHER)
