"""A finding: one check of a node or of a pair, good or bad, whose fault it is, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..check.check import LIMITS, Check
from ..check.problems import PROBLEMS, Problem
from .attribution import Pair

_LINK = "look at cable, switch port, speed (ethtool), and at other traffic"
_OUTPUT = "the output of mpirun is in verify.log, or logs/mpirun.log, beside the verdict"
# Debian's nftables is not on every machine; what knows iptables alone has rules of iptables.
_RULES = "CMD='nft list ruleset || iptables -S'"
_RANKS = "logs/rank-*.log beside the verdict tell what each rank did"

# By the code of a finding. Names in braces are filled in with the values of the finding. Troubles
# that follow from another finding have no remedy of their own. Further ones are problems of a node,
# in check.problems.
REMEDIES = {
    # a node
    "unreachable": "make doctor ON={host} says why, and what mends it",
    "no_engine": (
        "systemctl restart docker on this node, which ends the containers there unless its engine "
        "has live-restore; make setup where it never had one"
    ),
    "held": "wait for it, or make stop RUN={run}",
    "checks_failed": "",
    "stray": "{remedy}",
    "other_release": "bring it to the release of the others; where it has none, make setup",
    "other_image": "make setup delivers the image of this checkout",
    "wrong_name": "look at the lines of {name} in /etc/hosts there; make setup writes them",
    "wrong_address": "put the node's own address on the training network into cluster_address",
    "clock_off": (
        "let all nodes follow one time server: chrony_state: present in the inventory, make setup; "
        "where it is, chronyc -n sources there tells which answer"
    ),
    "rdma_down": (
        "look at cable and switch port; an InfiniBand port that stays in INIT waits for the subnet "
        "manager (opensm, or the switch's)"
    ),
    "other_rdma": "mpirun hangs where only some ranks can use RDMA: make all nodes alike",
    # its GPUs
    "gpus_silent": (
        "see whether the driver is loaded (role nvidia_driver; for AMD amdgpu) and of the same "
        "release as its program"
    ),
    "gpus_missing": "a card fell off the bus, or gpu_count of this host is wrong: lspci, dmesg",
    "gpu_lost": (
        "reboot it once nothing else runs there; dmesg | grep -i -e xid -e amdgpu there tells what "
        "the card did before"
    ),
    "gpu_other_model": "correct gpu_model of this host, or take the host out",
    "gpu_hot": "look at the fans and at the air in front of this machine",
    "gpu_ecc_errors": "reset the card when it is idle; if they come back, have it replaced",
    "gpu_xid_errors": "look the numbers up in NVIDIA's list of Xid errors; dmesg has the lines",
    "gpus_not_computing": (
        "nvidia-smi or rocm-smi there shows them, but PyTorch in the container cannot compute on "
        "them: run make setup, which takes an image that fits the driver; logs/rank-*.log beside "
        "the verdict tell more"
    ),
    "gpu_wrong_product": "this card computes wrong: have it replaced",
    "gpu_slow": "look at its clocks, power limit and bus: nvidia-smi -q -d "
    "PERFORMANCE,CLOCK,POWER, or rocm-smi",
    # a login from a to b
    "ssh_host_key": (
        "if {b} was installed anew, make setup pins its new key; if not, another machine answers"
    ),
    "ssh_key_refused": (
        "make setup gives every node a key and every other node its public half, and names what "
        "of sshd's settings on {b} keeps it out (AllowUsers, AllowGroups)"
    ),
    "ssh_name_unknown": "make setup writes /etc/hosts",
    "ssh_not_listening": (
        "systemctl start ssh on {b}; where that fails, or it runs, systemctl status ssh and the "
        "firewall there tell more"
    ),
    "ssh_no_answer": (
        "look at the firewall of both, and whether {b} is well: make exec ON={b} CMD=uptime"
    ),
    "ssh_failed": (
        "make setup names what keeps the account out on {b}; if it names nothing, try it on {a} "
        "as the training user: ssh -v {b}"
    ),
    # the network from a to b
    "not_tested": "",
    "port_closed": (
        f"MPI needs the ports above 1023 of {{b}} open for {{a}}: make exec ON={{b}} {_RULES}"
    ),
    "masqueraded": (
        "{b} sees {a} under another address, and Open MPI hangs on that: take the cluster_network "
        "out of the masquerading on {a} or between them"
    ),
    "not_measured": "",
    "high_latency": _LINK,
    "low_bandwidth": _LINK,
    "high_loss": _LINK,
    # a program over all nodes
    "left_out": "",
    "mpi_not_started": _OUTPUT,
    "mpi_not_run": "",
    "mpi_no_answer": (
        f"make verify CHECKS=nodes,pairs tells whether a firewall is in the way; {_OUTPUT}"
    ),
    "mpi_unheard": (
        f"look at the firewalls of both, for ports above 1023: make exec ON={{a}},{{b}} {_RULES}"
    ),
    "container_failed": "look at the engine of this node: journalctl -u docker",
    "sums_not_run": _RANKS,
    "sums_stalled": _RANKS,
    "sums_unfinished": _RANKS,
    "sums_wrong": "memory, network card or driver of a node damages what passes through it",
    "low_allreduce": (
        "make verify CHECKS=pairs tells whose link it is; if none is slow, other programs keep "
        "the processors busy"
    ),
}
# Of checks that nodes make of themselves, with the remedies of check.problems.
NODE_PROBLEMS = (
    *("low_disk", "low_memory", "low_shared_memory", "few_open_files"),
    *("unreadable", "unwritable"),
)
# Such a check has a code that nobody knows.
OTHER = "node_check_failed"
# What `probe` finds of GPUs and image, and no check.
GPU_PROBLEMS = (
    "gpu_not_there",
    "gpu_in_mig_mode",
    "gpu_driver_old",
    "gpu_not_built_for",
    "gpu_runtime_missing",
    "gpu_specification_missing",
    "gpu_specification_old",
    "image_without_cuda",
    "image_without_rocm",
    "image_of_other_gpus",
    "gpus_not_native",
)


def remedy(code: str, values: Mapping[str, Any]) -> str:
    """What to do about a trouble; empty where nothing is known, or a node left out a value."""
    try:
        if code in REMEDIES:
            return REMEDIES[code].format(**values)
        return Problem(code, dict(values)).remedy if code in PROBLEMS else ""
    except KeyError:
        return ""


@dataclass(frozen=True)
class Finding:
    """A check of a node or of a pair; exactly one of `host` and `pair` is set.

    Attributes:
        pair: two nodes, from the first to the second.
        because: who spoils it, a host or "a to b", where it is another finding's fault.
    """

    check: Check
    host: str | None = None
    pair: Pair | None = None
    because: str | None = None

    @property
    def name(self) -> str:
        return self.check.name

    @property
    def ok(self) -> bool:
        return self.check.ok

    @property
    def code(self) -> str:
        """The trouble; empty where there is none."""
        return self.check.code

    @property
    def remedy(self) -> str:
        """What to do about it; may be empty."""
        return remedy(self.code, self.check.values)

    @property
    def who(self) -> str:
        """Who stands behind a bad finding, a host or a pair in words."""
        return self.because or self.host or " to ".join(self.pair or ())

    def asdict(self) -> dict[str, Any]:
        """As it stands in verdict.json."""
        where = {"host": self.host} if self.host is not None else {"pair": list(self.pair or ())}
        return {
            **self.check.asdict(),
            "remedy": self.remedy,
            **where,
            "because": self.because,
            "code": self.code or None,
            "threshold_text": threshold_text(self.check),
        }


def threshold_text(check: Check) -> str:
    """A threshold for people, with its unit: `at least 10 GB free`."""
    number = isinstance(check.threshold, (int, float))
    threshold = f"{check.threshold:g}" if number else str(check.threshold)
    return f"{LIMITS[check.limit]}{threshold} {check.unit}".strip()


def about_node(host: str, check: Check, because: str | None = None) -> Finding:
    """A finding about a node; `because` is who spoils it, if it is bad."""
    return Finding(check, host=host, because=None if check.ok else because)


def about_pair(pair: Pair, check: Check, because: str | None = None) -> Finding:
    """A finding about two nodes, which the remedy may name as {a} and {b}."""
    if check.ok:
        return Finding(check, pair=pair)
    named = replace(check, values={"a": pair[0], "b": pair[1]})
    return Finding(named, pair=pair, because=because)
