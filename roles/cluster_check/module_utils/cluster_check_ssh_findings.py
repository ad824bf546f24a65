# Copyright Trainyard. Apache-2.0
"""Findings about logins from every node on every other."""

from __future__ import annotations

import re

from ansible.module_utils.cluster_check_cluster import Cluster, one_line
from ansible.module_utils.cluster_check_finding import Finding, about_pair
from ansible.module_utils.training_node.check.check import equal

# What ssh says, the code of that, and what it means: {a} logs in on {b}.
MESSAGES = (
    (
        r"host key verification failed|identification has changed",
        "ssh_host_key",
        "the host key of {b} is not the one that {a} knows",
    ),
    (r"permission denied", "ssh_key_refused", "{b} refuses the key of {a}"),
    (
        r"could not resolve|name or service not known",
        "ssh_name_unknown",
        "{a} does not know the name {b}",
    ),
    (r"refused", "ssh_not_listening", "nothing listens on the SSH port of {b}"),
    (r"no route to host|timed out|no answer", "ssh_no_answer", "no answer from {b}"),
)


def judge_logins(cluster: Cluster) -> list[Finding]:
    """Whether the training user of every node can log in on every other."""
    outcome = {
        (a, b): login
        for a, answer in cluster.answers("ssh")
        for b, login in answer["logins"].items()
    }
    failed = {pair: login["trouble"] for pair, login in outcome.items() if login["trouble"]}
    because = cluster.because(failed, outcome)
    findings = []
    for pair in cluster.pairs("ssh"):
        if pair not in outcome:
            findings.append(cluster.untested("ssh", "ssh", pair))
            continue
        code, meaning = ssh_trouble(failed[pair], *pair) if pair in failed else ("", "logs in")
        check = equal("ssh", meaning, "logs in")
        findings.append(about_pair(pair, check, code, because.get(pair)))
    return findings


def ssh_trouble(message: str, a: str, b: str) -> tuple[str, str]:
    """Code and meaning of what ssh said when a logged in on b."""
    for pattern, code, meaning in MESSAGES:
        if re.search(pattern, message, re.IGNORECASE):
            return code, meaning.format(a=a, b=b)
    return "ssh_failed", one_line(message)
