# Copyright Trainyard. Apache-2.0
"""What to do about each trouble that the checks of this role find: code to remedy."""

from __future__ import annotations

from ansible.module_utils.training_node.check.problems import CHECKS

_LINK = "look at cable, switch port, speed (ethtool), and at other traffic"
_OUTPUT = "the output of mpirun is in verify.log, or logs/mpirun.log, beside the verdict"
_RANKS = "logs/rank-*.log beside the verdict tell what each rank did"

# By the code of a finding. Names in braces are filled in with the values of the finding. Troubles
# that follow from another finding have no remedy of their own. What role training_node finds comes
# with its remedies.
REMEDIES = {
    # a node
    "unreachable": "is it on, and is ansible_host right? ansible -m ping tells more",
    "no_engine": "systemctl status docker on this node; make setup",
    "held": "wait for it, or make stop RUN={run}",
    "checks_failed": "",
    "other_release": "bring it to the release of the others",
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
    "other_rdma": "mpirun hangs where only some ranks can take it: bring all nodes alike",
    # its GPUs
    "gpus_silent": (
        "is the driver loaded (role nvidia_driver; of AMD's amdgpu), and of its program's release?"
    ),
    "gpus_missing": "a card fell off the bus, or gpu_count of this host is wrong: lspci, dmesg",
    "gpu_lost": "reboot it; dmesg | grep -i -e xid -e amdgpu there tells what the card did before",
    "gpu_other_model": "put it right in gpu_model of this host, or take the host out",
    "gpu_hot": "look at the fans and at the air in front of this machine",
    "gpu_ecc_errors": "reset the card when it is idle; if they come back, have it replaced",
    "gpu_xid_errors": "look the numbers up in NVIDIA's list of Xid errors; dmesg has the lines",
    "gpus_not_computing": (
        "nvidia-smi or rocm-smi there shows them, and PyTorch in the container cannot compute on "
        "them: does "
        "the image fit the driver? make setup; logs/rank-*.log beside the verdict tell more"
    ),
    "gpu_wrong_product": "this card computes wrong: have it replaced",
    "gpu_slow": "look at its clocks, power limit and bus: nvidia-smi -q -d "
    "PERFORMANCE,CLOCK,POWER, or rocm-smi",
    # a login from a to b
    "ssh_host_key": (
        "if {b} was installed anew, make setup pins its new key; if not, another machine answers"
    ),
    "ssh_key_refused": "make setup gives every node a key and every other node its public half",
    "ssh_name_unknown": "make setup writes /etc/hosts",
    "ssh_not_listening": "look at sshd on {b}: systemctl status ssh",
    "ssh_no_answer": (
        "look at the firewall of both, and whether {b} is well: make exec ON={b} CMD=uptime"
    ),
    "ssh_failed": "try it on {a} as the training user: ssh -v {b}",
    # the network from a to b
    "not_tested": "",
    "port_closed": "MPI needs the ports above 1023 of {b} open for {a}: nft list ruleset",
    "masqueraded": (
        "{b} sees {a} under another address, and Open MPI hangs on that: take the cluster_network "
        "out of the masquerading on {a} or between them"
    ),
    "not_measured": "",
    "high_latency": _LINK,
    "low_bandwidth": _LINK,
    # a program over all nodes
    "left_out": "",
    "mpi_not_started": _OUTPUT,
    "mpi_not_run": "",
    "mpi_no_answer": _OUTPUT,
    "mpi_unheard": (
        "look at the firewalls of both, for the ports above 1023: make exec ON={a},{b}"
    ),
    "container_failed": "look at the engine of this node: journalctl -u docker",
    "sums_not_run": _RANKS,
    "sums_stalled": _RANKS,
    "sums_unfinished": _RANKS,
    "sums_wrong": "memory, network card or driver of a node damages what passes through it",
    "low_allreduce": (
        "make verify CHECKS=pairs tells whose link it is; else other work is on the processors"
    ),
}

# Troubles that role training_node finds, by the name of its check.
NODE_CODES = {**CHECKS, "stray processes": "stray"}
# What that role finds of GPUs and image, and no check of this role.
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
# A check of that role that the table above does not have.
OTHER = "node_check_failed"


def remedy(code: str, **values: str) -> str:
    """The remedy for a trouble; KeyError where there is no such code, or a value is missing."""
    return REMEDIES[code].format(**values)
