# Copyright Trainyard. Apache-2.0
"""From what the nodes measured to findings: good or bad, with value, threshold and remedy.

A finding is a dictionary with `name`, `ok`, `host` or `pair`, `value`, `threshold`, `limit`,
`unit`, `subject`, `remedy`, and `because`: the node that spoils it,
where it is another finding's fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.attribution import Pair, clock_errors, culprits, majority
from ansible.module_utils.check import Check, at_least, at_most, equal
from ansible.module_utils.programs import (
    lost_nodes,
    peak_bandwidth,
    products,
    spoken,
    stalled_ranks,
    sums_trouble,
    trouble_of_launch,
)

Finding = dict[str, Any]
# What must be the same on every node, and how people call it.
RELEASES = {
    "openmpi": "Open MPI",
    "ucx": "UCX",
    "docker": "Docker",
    "driver": "GPU driver",
    "cuda": "CUDA",
}
# What a module about pairs returns where it worked.
ANSWERS = {"ssh": "logins", "pairs": "matches"}
# What ssh says, what that means, and what to do. {a} logs in on {b}.
SSH_TROUBLES = (
    (
        r"host key verification failed|identification has changed",
        "the host key of {b} is not the one that {a} knows",
        "if {b} was installed anew, make setup pins its new key; if not, another machine answers",
    ),
    (
        r"permission denied",
        "{b} refuses the key of {a}",
        "make setup gives every node a key and every other node its public half",
    ),
    (
        r"could not resolve|name or service not known",
        "{a} does not know the name {b}",
        "make setup writes /etc/hosts",
    ),
    (
        r"refused",
        "nothing listens on the SSH port of {b}",
        "look at sshd on {b}: systemctl status ssh",
    ),
    (
        r"no route to host|timed out|no answer",
        "no answer from {b}",
        "look at the firewall of both, and whether {b} is well: make exec ON={b} CMD=uptime",
    ),
)


class Judge:
    """Findings about one cluster, in the order of the checks.

    Args:
        measured: by host in the order of the inventory, what its modules returned; see `_answer`.
        wanted: thresholds, see the argument specs of the role.
        job: what the program over all nodes gave, see `_program`; None where it was not run.
        containers: what the programs in trainer containers gave, see `_containers`; None likewise.
    """

    def __init__(
        self,
        measured: Mapping[str, Mapping[str, Any]],
        wanted: Mapping[str, Any],
        job: Mapping[str, Any] | None,
        containers: Mapping[str, Any] | None = None,
    ) -> None:
        self.measured = measured
        self.wanted = wanted
        self.job = job
        self.containers = containers
        self.hosts = list(measured)
        self.findings: list[Finding] = []
        self.down: set[str] = set()
        self.misled: set[Pair] = set()

    def judge(self) -> list[Finding]:
        """Everything there is to say."""
        self._reachable()
        self._engines()
        self._releases()
        self._nodes()
        self._logins()
        self._ports()
        self._sources()
        self._clocks()
        self._network()
        if self.job is not None:
            nodenames = {self._answer(h, "node").get("nodename", h): h for h in self.hosts}
            self._program("MPI", self.job, nodenames, {})
        if self.containers is not None:
            self._containers(self.containers)
        return self.findings

    def excluded(self, names: Sequence[str]) -> dict[str, str]:
        """Hosts that a job cannot be run with, and why, by the findings of these names.

        Of a pair that does not work together, the second one stays out.
        """
        out: dict[str, str] = {}
        pairs = []
        for finding in self.findings:
            if finding["ok"] or finding["name"] not in names:
                continue
            if "host" in finding:
                out.setdefault(finding["host"], finding["name"])
            elif finding["because"]:
                out.setdefault(finding["because"], finding["name"])
            else:
                pairs.append((finding["pair"], finding["name"]))
        for pair, name in pairs:
            if not set(pair) & set(out):
                later = max(pair, key=self.hosts.index)
                out[later] = f"{name} {pair[0]} to {pair[1]}"
        return out

    # -- one node at a time

    def _reachable(self) -> None:
        for host in self.hosts:
            probe = self._answer(host, "probe")
            trouble = "" if "checks" in probe else one_line(probe.get("msg", "no answer"))
            self._add(
                equal(
                    "reachable",
                    trouble or "yes",
                    "yes",
                    remedy="is it on, and is ansible_host right? ansible -m ping tells more",
                ),
                host=host,
            )
            if trouble:
                self.down.add(host)

    def _engines(self) -> None:
        for host in self._up():
            probe = self._answer(host, "probe")
            engine = self._answer(host, "node").get("releases", {}).get("docker", "")
            self._add(
                equal(
                    "engine",
                    "answers" if engine else "no answer",
                    "answers",
                    remedy="systemctl status docker on this node; make setup",
                ),
                host=host,
            )
            run = probe["run"]
            self._add(
                equal(
                    "free",
                    f"held by run {run}" if run else "yes",
                    "yes",
                    remedy=f"wait for it, or make stop RUN={run}",
                ),
                host=host,
            )

    def _releases(self) -> None:
        for key, name in RELEASES.items():
            values = {
                host: answer["releases"].get(key, "")
                for host in self._up()
                if "releases" in (answer := self._answer(host, "node"))
            }
            if any(values.values()) and key in self.wanted["same_releases"]:
                self._same(name, values, "bring it to the release of the others")
        images = {host: self._answer(host, "probe")["image_id"] for host in self._up()}
        self._same("image", images, "make setup delivers the image of this checkout")

    def _same(self, name: str, values: Mapping[str, str], remedy: str) -> None:
        """Judge what all must have alike."""
        usual = majority(values)
        for host, value in values.items():
            threshold = usual or "the same everywhere"
            # Where nobody has it, the majority is wrong.
            ok = value == usual and (value != "" or name not in ("image", "Open MPI"))
            self._add(
                Check(name, ok, value or "none", threshold, remedy=remedy),
                host=host,
            )

    def _nodes(self) -> None:
        for host in self._up():
            checks = list(self._answer(host, "probe")["checks"])
            for module in ("node", *ANSWERS):
                answer = self._answer(host, module)
                if answer.get("failed") or answer.get("unreachable"):
                    said = one_line(answer.get("msg", "no answer"))
                    self._add(equal(f"{module} checks", said, "an answer"), host=host)
            checks += self._answer(host, "node").get("checks", [])
            for check in checks:
                self._add(Check(**check), host=host)
                if check["name"] == "names" and not check["ok"]:
                    self.misled.add((host, check["subject"]))

    # -- pairs

    def _logins(self) -> None:
        outcome = {}
        for a, answer in self._answers("ssh"):
            for b, login in answer["logins"].items():
                outcome[a, b] = login
        failed = {pair: login["trouble"] for pair, login in outcome.items() if login["trouble"]}
        because = self._because(failed, outcome)
        for pair in self._pairs("ssh"):
            if pair not in outcome:
                self._spoiled("ssh", "ssh", pair)
                continue
            trouble = failed.get(pair, "")
            value, remedy = ssh_trouble(trouble, *pair) if trouble else ("logs in", "")
            self._add(
                equal("ssh", value, "logs in", remedy=remedy), pair=pair, because=because.get(pair)
            )

    def _ports(self) -> None:
        outcome = self._greetings()
        failed = {pair: g["trouble"] for pair, g in outcome.items() if g["trouble"]}
        because = self._because(failed, outcome)
        for pair in self._pairs("pairs"):
            if pair not in outcome:
                self._spoiled("firewall", "pairs", pair)
                continue
            a, b = pair
            self._add(
                equal(
                    "firewall",
                    failed.get(pair, "open"),
                    "open",
                    remedy=f"MPI needs the ports above 1023 of {b} open for {a}: nft list ruleset",
                ),
                pair=pair,
                because=because.get(pair),
            )

    def _sources(self) -> None:
        outcome = {p: g["source"] for p, g in self._greetings().items() if not g["trouble"]}
        addresses = {h: self._answer(h, "probe").get("address", "") for h in self.hosts}
        failed = {pair: seen for pair, seen in outcome.items() if seen != addresses[pair[0]]}
        because = self._because(failed, outcome)
        for pair, seen in outcome.items():
            a, b = pair
            self._add(
                equal(
                    "source address",
                    seen,
                    addresses[a],
                    remedy=(
                        f"{b} sees {a} under another address, and Open MPI hangs on that: take "
                        f"the cluster_network out of the masquerading on {a} or between them"
                    ),
                ),
                pair=pair,
                because=because.get(pair),
            )

    def _clocks(self) -> None:
        ahead = {
            pair: float(greeting["clock_seconds"])
            for pair, greeting in self._greetings().items()
            if greeting["clock_seconds"] is not None
        }
        for host, error in clock_errors(ahead, self._up()).items():
            self._add(
                at_most(
                    "clock",
                    round(abs(error), 3),
                    self.wanted["clock_seconds"],
                    "s off",
                    remedy="let all nodes follow one time server: systemctl status chrony",
                ),
                host=host,
            )

    def _network(self) -> None:
        latency: dict[Pair, float] = {}
        bandwidth: dict[Pair, float] = {}
        trouble: dict[Pair, str] = {}
        for a, answer in self._answers("pairs"):
            for b, match in answer["matches"].items():
                if "latency_seconds" in match:
                    latency[a, b] = latency[b, a] = match["latency_seconds"] * 1e3
                if "bits_per_second" in match:
                    there, back = match["bits_per_second"]
                    bandwidth[a, b], bandwidth[b, a] = there / 1e9, back / 1e9
                elif not match["at_home"]:
                    trouble[a, b] = trouble[b, a] = match["trouble"]
        self._measured("latency", latency, trouble, at_most, "latency_milliseconds", "ms", 3)
        least = "bandwidth_gigabits"
        self._measured("bandwidth", bandwidth, trouble, at_least, least, "Gbit/s", 3)

    def _measured(
        self,
        name: str,
        outcome: Mapping[Pair, float],
        trouble: Mapping[Pair, str],
        compare: Any,
        threshold: str,
        unit: str,
        digits: int,
    ) -> None:
        wanted = self.wanted[threshold]
        checks = {
            pair: compare(
                name,
                round(value, digits),
                wanted,
                unit,
                remedy="look at cable, switch port, speed (ethtool), and at other traffic",
            )
            for pair, value in outcome.items()
        }
        failed = [pair for pair, check in checks.items() if not check.ok]
        failed += [pair for pair in trouble if pair not in checks]
        because = self._because(failed, [*checks, *trouble])
        for pair in self._pairs("pairs"):
            if pair in checks:
                self._add(checks[pair], pair=pair, because=because.get(pair))
            elif pair in trouble:
                self._add(
                    equal(name, f"not measured: {trouble[pair]}", f"{wanted} {unit}"),
                    pair=pair,
                    because=because.get(pair),
                )
            else:
                self._spoiled(name, "pairs", pair)

    # -- all nodes together

    def _program(
        self,
        name: str,
        job: Mapping[str, Any],
        hosts: Mapping[str, str],
        troubles: Mapping[str, str],
    ) -> str | None:
        """hello_mpi on every node: who took part, and who heard whom.

        Args:
            job: `excluded` (host to reason), `said` (its output), `trouble` (what mpirun said).
            hosts: host by the name that it gives itself there.
            troubles: hosts that are known to have kept the program from starting, and how.

        Returns:
            Who kept the nodes from all hearing each other, a host or a pair; None where they did.
        """
        here, heard = spoken(job["said"], hosts)
        members = [host for host in self.hosts if host not in job["excluded"]]
        spoiler = next(iter(troubles), None)
        remedy = "the output of mpirun is in verify.log, or logs/mpirun.log, beside the verdict"
        first = len(self.findings)
        # Where nobody has heard anything, a program that ended before says more than the pairs.
        present = [host for host in members if host in here]
        failed = [(a, b) for a in present for b in present if a != b and (a, b) not in heard]
        because = self._because(failed, [(a, b) for a in present for b in present if a != b])
        for host in self.hosts:
            if host in job["excluded"]:
                self._add(equal(name, f"not run: {job['excluded'][host]}", "answers"), host=host)
            elif host in troubles and host not in here:
                self._add(equal(name, troubles[host], "answers", remedy=remedy), host=host)
            elif host not in here and spoiler is not None:
                self._add(equal(name, "not run", "answers"), host=host, because=spoiler)
            elif host not in here:
                value = f"no answer; {one_line(job['trouble'])}"
                self._add(equal(name, value, "answers", remedy=remedy), host=host)
            elif all(pair[1] != host for pair in failed):
                self._add(equal(name, "answers", "answers"), host=host)
        for pair in failed:
            a, b = pair
            hint = f"look at the firewalls of both, for the ports above 1023: make exec ON={a},{b}"
            self._add(
                equal(name, f"{b} hears nothing from {a}", "answers", remedy=hint),
                pair=pair,
                because=because.get(pair),
            )
        bad = [
            f for f in self.findings[first:] if not f["ok"] and f.get("host") not in job["excluded"]
        ]
        return who(bad[0]) if bad else None

    def _containers(self, containers: Mapping[str, Any]) -> None:
        """The programs in trainer containers.

        Args:
            containers: `excluded` as above; `troubles`, hosts whose container could not be started
                or ended, and why; `log`, the output of mpirun; `ranks`, what each rank of
                trainer/verify wrote; `rank_logs`, their output by rank.
        """
        excluded = containers["excluded"]
        members = [host for host in self.hosts if host not in excluded]
        for host in members:
            trouble = containers["troubles"].get(host, "")
            self._add(
                equal(
                    "containers",
                    one_line(trouble) if trouble else "start and end",
                    "start and end",
                    remedy="look at the engine of this node: journalctl -u docker",
                ),
                host=host,
            )
        ranks = containers["ranks"]
        troubles = {
            h: "its container did not start" for h in members if h in containers["troubles"]
        }
        if not ranks:
            troubles |= lost_nodes(containers["log"], members)
        trouble = trouble_of_launch(containers["log"])
        job = {"excluded": excluded, "said": containers["log"], "trouble": trouble}
        spoiler = self._program("MPI in containers", job, {h: h for h in self.hosts}, troubles)
        self._sums(members, containers, spoiler)
        self._allreduce(members, ranks)
        self._products(ranks)

    def _sums(
        self, members: Sequence[str], containers: Mapping[str, Any], spoiler: str | None
    ) -> None:
        """Whether Horovod's sums are right, by the hosts that got them."""
        ranks, logs = containers["ranks"], containers["rank_logs"]
        stalled = stalled_ranks(ranks, logs)
        for host in members:
            own = [rank for rank in ranks if rank["host"] == host]
            because = None
            remedy = "logs/rank-*.log beside the verdict tell what each rank did"
            if not ranks:
                why = "" if spoiler else f"; {one_line(trouble_of_launch(containers['log']))}"
                value, because = f"not run{why}", spoiler
            elif host in stalled:
                value = "it hands in nothing that the others could add"
            elif not own or any("sums" not in rank for rank in own):
                last = next(
                    (logs[r["rank"]] for r in own if logs.get(r["rank"])), containers["log"]
                )
                value = f"{'no end' if own else 'no answer'}; {one_line(last)}"
                because = next(iter(stalled), None)
            else:
                value = next(filter(None, map(sums_trouble, own)), "right")
                remedy = "memory, network card or driver of a node damages what passes through it"
            self._add(
                equal("Horovod sums", value, "right", remedy=remedy), host=host, because=because
            )

    def _allreduce(self, members: Sequence[str], ranks: Sequence[Mapping[str, Any]]) -> None:
        """The bus bandwidth of all nodes together; a slow link of one slows all."""
        peak = peak_bandwidth(ranks)
        if peak is None or len(members) < 2:
            return
        network = [
            f for f in self.findings if f["name"] in ("bandwidth", "latency") and not f["ok"]
        ]
        for host in members:
            self._add(
                at_least(
                    "Horovod bandwidth",
                    round(peak, 2),
                    self.wanted["allreduce_gigabits"],
                    "Gbit/s",
                    remedy="make verify CHECKS=pairs tells whose link it is; else other work is "
                    "on the processors",
                ),
                host=host,
                because=who(network[0]) if network else None,
            )

    def _products(self, ranks: Sequence[Mapping[str, Any]]) -> None:
        """The matrix product of each GPU, beside those of its model."""
        for product in products(ranks):
            subject = f"GPU {product['gpu']}"
            if product["wrong"]:
                self._add(
                    equal(
                        "GPU product",
                        f"{product['wrong']} wrong elements",
                        "right",
                        subject=subject,
                        remedy="this card computes wrong: have it replaced",
                    ),
                    host=product["host"],
                )
            self._add(
                at_most(
                    "GPU time",
                    round(product["ratio"], 2),
                    self.wanted["gpu_slowness"],
                    "of the median",
                    subject=subject,
                    remedy="look at its clocks, power limit and bus: nvidia-smi -q -d "
                    "PERFORMANCE,CLOCK,POWER",
                ),
                host=product["host"],
            )

    # -- helpers

    def _answer(self, host: str, module: str) -> Mapping[str, Any]:
        """What a module returned on a host; empty where it was not run."""
        answer: Mapping[str, Any] = self.measured[host].get(module) or {}
        return {} if answer.get("skipped") else answer

    def _answers(self, module: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Answers of a module about pairs, from the hosts where it worked."""
        found = [(host, self._answer(host, module)) for host in self._up()]
        return [(host, answer) for host, answer in found if ANSWERS[module] in answer]

    def _greetings(self) -> dict[Pair, Mapping[str, Any]]:
        return {
            (a, b): greeting
            for a, answer in self._answers("pairs")
            for b, greeting in answer["greetings"].items()
        }

    def _up(self) -> list[str]:
        return [host for host in self.hosts if host not in self.down]

    def _pairs(self, module: str) -> list[Pair]:
        """All ordered pairs, where the pairs were tested at all."""
        if not any(self._answer(host, module) for host in self.hosts):
            return []
        return [(a, b) for a in self.hosts for b in self.hosts if a != b]

    def _because(self, failed: Any, tested: Any) -> dict[Pair, str]:
        """The node that each failed pair is attributed to, where there is one."""
        found = {pair: pair[0] for pair in failed if pair in self.misled}
        rest = [pair for pair in failed if pair not in found]
        guilty = culprits(rest, list(tested))
        for pair in rest:
            named = [node for node in guilty if node in pair]
            if named:
                found[pair] = named[0]
        return found

    def _spoiled(self, name: str, module: str, pair: Pair) -> None:
        """A pair that was not tested, because of one of its nodes."""
        silent = [host for host in pair if ANSWERS[module] not in self._answer(host, module)]
        down = [host for host in silent if host in self.down]
        text = f"{down[0]} is not reachable" if down else "no result"
        self._add(
            equal(name, f"not tested: {text}", ""),
            pair=pair,
            because=next(iter((*down, *silent)), None),
        )

    def _add(
        self,
        check: Check,
        host: str | None = None,
        pair: Pair | None = None,
        because: str | None = None,
    ) -> None:
        where: Finding = {"host": host} if host is not None else {"pair": list(pair or ())}
        finding = check.asdict()
        if check.ok:
            finding["remedy"] = ""
        self.findings.append({**finding, **where, "because": None if check.ok else because})


def ssh_trouble(said: str, a: str, b: str) -> tuple[str, str]:
    """What ssh from a to b ran into, and the remedy."""
    for pattern, meaning, remedy in SSH_TROUBLES:
        if re.search(pattern, said, re.IGNORECASE):
            return meaning.format(a=a, b=b), remedy.format(a=a, b=b)
    return one_line(said), f"try it on {a} as the training user: ssh -v {b}"


def one_line(text: str) -> str:
    """The last line that says something, not too long."""
    # Ansible's own words before the message of a module.
    bare = re.sub(r"^(?:(?:Task|Action) failed: )+", "", str(text).strip())
    lines = [line.strip() for line in bare.splitlines() if line.strip(" -\t")]
    return lines[-1][:160] if lines else "it said nothing"


def faults(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Who is at fault, and why: the bad findings by node, or by pair where no node is named.

    What a node spoils for others stands under that node, once a check.
    """
    causes: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding["ok"]:
            continue
        causes.setdefault(who(finding), []).append(finding)
    found = []
    for name, bad in causes.items():
        shown: dict[str, Finding] = {}
        # Its own findings say more than those of pairs and of other nodes that it spoils.
        for finding in bad_of(name, bad):
            shown.setdefault(finding["name"], finding)
        found.append(
            {
                "who": name,
                "causes": [
                    {
                        "name": finding["name"],
                        "reason": reason(finding),
                        "remedy": finding["remedy"],
                        "times": sum(1 for other in bad if other["name"] == finding["name"]),
                    }
                    for finding in shown.values()
                ],
            }
        )
    return found


def bad_of(name: str, bad: Sequence[Finding]) -> list[Finding]:
    """Bad findings, those about this node itself first."""
    return sorted(bad, key=lambda finding: finding.get("host") != name)


def who(finding: Finding) -> str:
    """Who stands behind a bad finding: a host, or a pair."""
    return str(finding["because"] or finding.get("host") or " to ".join(finding["pair"]))


def reason(finding: Finding) -> str:
    """A finding in one line, without its remedy."""
    keys = ("name", "ok", "value", "threshold", "limit", "unit", "subject")
    return str(Check(**{key: finding[key] for key in keys}).reason())
