"""`make verify`: a good cluster is proved, and every fault put in is found and named."""

import json
import os
import re
import subprocess
from pathlib import Path

import formats
import pytest
from cluster import Cluster
from commands import RUNS, BackgroundMake, make
from machines import containers_of_runs, docker, in_machine, machine
from verdicts import Fault, Verdict, broken, verify

NODES = ["node1", "node2", "node3", "node4"]
pytestmark = pytest.mark.nodes(len(NODES))
# The longest a verification may take with a fault in it.
LIMIT = 240
# With this library preloaded, every program of a node sees the time in /etc/faketimerc.
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


@pytest.fixture(scope="module")
def good(cluster: Cluster) -> Verdict:
    """The whole verification of a cluster that is as set-up leaves it."""
    cluster.resize(len(NODES))
    return verify("")


def test_files_have_the_form_of_their_schemas(good: Verdict) -> None:
    assert formats.errors(good.directory) == []


def test_a_good_cluster_is_fit(good: Verdict) -> None:
    assert good.outcome.status == 0
    assert good.document["ok"] is True
    assert good.document["faults"] == []
    print(f"fit after {good.seconds:.0f} s")
    names = {check["name"] for check in good.document["checks"]}
    assert {"reachable", "Open MPI", "UCX", "Docker", "image", "names", "disk", "memory"} <= names
    assert {"shared memory", "open files", "readable", "writable", "stray processes"} <= names
    assert {"ssh", "firewall", "source address", "clock", "latency", "bandwidth", "MPI"} <= names
    assert {"containers", "MPI in containers", "Horovod sums", "Horovod bandwidth"} <= names


def test_every_node_takes_part_in_the_containers(good: Verdict) -> None:
    """In a container of its own, on the host it says, and in Horovod's sums of every type."""
    log = (good.directory / "logs/mpirun.log").read_text()
    heard = re.findall(r"^rank \d of 4 on (\S+) heard from (\S+)$", log, re.MULTILINE)
    assert sorted(heard) == sorted((a, b) for a in NODES for b in NODES if a != b)
    for rank, node in enumerate(NODES):
        told = json.loads((good.directory / f"verify/rank-{rank}.json").read_text())
        assert (told["host"], told["world_size"]) == (node, 4)
        assert {case["wrong"] for case in told["sums"]} == {0}
        assert len({(case["dtype"], case["elements"]) for case in told["sums"]}) == 15
        assert (good.directory / f"nodes/{node}/container.log").is_file()
        facts = json.loads((good.directory / f"nodes/{node}/facts.json").read_text())
        assert facts["host"] == node
        assert facts["cpu"]["model"]


def test_the_bus_bandwidth_is_that_of_each_message_size(good: Verdict) -> None:
    sums = good.document["allreduce"]
    assert [entry["bytes"] for entry in sums][:2] == [4096, 16384]
    for entry in sums:
        algorithm = 8e-9 * entry["bytes"] / entry["seconds"]
        assert entry["bus_gigabits_per_second"] == pytest.approx(algorithm * 2 * 3 / 4)


def test_nothing_of_the_containers_is_left(good: Verdict) -> None:
    for node in NODES:
        assert containers_of_runs(node) == ""
        assert in_machine(node, "ls /srv/trainyard/runs") == ""


@pytest.mark.parametrize("name", ["ssh", "firewall", "source address", "latency", "bandwidth"])
def test_every_ordered_pair_is_looked_at(good: Verdict, name: str) -> None:
    found = [tuple(check["pair"]) for check in good.document["checks"] if check["name"] == name]
    assert sorted(found) == sorted((a, b) for a in NODES for b in NODES if a != b)


def test_no_node_is_in_two_measurements_at_once(good: Verdict) -> None:
    """Six pairs in three rounds; on a node, a round ends before the next one begins."""
    matches = good.document["matches"]
    assert len(matches) == 6
    assert {match["round"] for match in matches} == {0, 1, 2}
    for one in matches:
        for other in matches:
            if one["round"] < other["round"] and set(one["pair"]) & set(other["pair"]):
                assert one["until"] <= other["from"] + 0.1


def test_the_hardware_is_reported(good: Verdict) -> None:
    nodes = json.loads((good.directory / "nodes.json").read_text())
    assert list(nodes) == NODES
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for node in nodes.values():
        assert node["memory_bytes"] == memory
        assert node["cpu"]["model"]
        assert node["cpu"]["threads"] == os.cpu_count()
        assert {disk["kind"] for disk in node["disks"]} <= {"SSD", "HDD", "NVMe", "virtual"}
        assert node["nics"][0]["mac"]


def test_the_page_shows_the_measurements(good: Verdict, tmp_path: Path) -> None:
    """A real browser opens it from disk: every field of the heat map has a colour and a number."""
    page = (good.directory / "verify.html").read_text()
    assert "Horovod's allreduce over all nodes" in page
    probe = """<script>onload = () => {
      const cells = [...document.querySelector(".heat").querySelectorAll("td:not(.self)")];
      const shown = cells.filter(cell => parseFloat(cell.textContent) > 0
        && getComputedStyle(cell).backgroundColor != "rgba(0, 0, 0, 0)");
      document.documentElement.dataset.probe = cells.length + " fields, " + shown.length;
    };</script>"""
    (tmp_path / "page.html").write_text(page.replace("</body>", probe + "</body>"))
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    shown = subprocess.run(
        [*browser, f"--user-data-dir={tmp_path}", f"file://{tmp_path}/page.html"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert 'data-probe="12 fields, 12"' in shown.stdout


# An address of the cluster's network that no node has.
SECOND_ADDRESS = "$(getent hosts node4 | sed 's/[.][0-9]* .*/.99/')"
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
FAULTS = {
    "wrong line in /etc/hosts": Fault(
        "node2",
        "cp /etc/hosts /root/hosts && sed -E 's/^[0-9.]+ (node3)$/192.0.2.3 \\1/' /root/hosts "
        "> /etc/hosts",
        "cat /root/hosts > /etc/hosts",
        "ssh",
        "names",
        "names node3: 192.0.2.3",
    ),
    "host key changed": Fault(
        # Ansible's connection is open already; the nodes' logins are new ones.
        "node3",
        f"mkdir /root/key && mv {HOST_KEY}* /root/key && ssh-keygen -q -t ed25519 -N '' "
        f"-f {HOST_KEY} && systemctl reload ssh",
        "mv /root/key/* /etc/ssh && rmdir /root/key && systemctl reload ssh",
        "ssh",
        "ssh",
        "the host key of node3 is not the one",
    ),
    "key removed on one side": Fault(
        "node2",
        "mv /etc/ssh/ssh_trust/id_ed25519 /root/id_ed25519",
        "mv /root/id_ed25519 /etc/ssh/ssh_trust/id_ed25519",
        "ssh",
        "ssh",
        "refuses the key of node2",
    ),
    "one-way firewall": Fault(
        "node3",
        "iptables -I INPUT -p tcp --syn --dport 1024:65535 -s $(getent hosts node1 | cut -d' ' "
        "-f1) -j DROP",
        "iptables -D INPUT 1",
        "pairs",
        "firewall",
        "no answer",
        "node1 to node3",
    ),
    "masqueraded source address": Fault(
        "node4",
        f"ip address add {SECOND_ADDRESS}/24 dev eth0 && iptables -t nat -I POSTROUTING -p tcp "
        f"-o eth0 -j SNAT --to-source {SECOND_ADDRESS}",
        f"iptables -t nat -D POSTROUTING 1; ip address del {SECOND_ADDRESS}/24 dev eth0",
        "pairs",
        "source address",
        ".99, should be",
    ),
    "1 Mbit/s on one link": Fault(
        "node2",
        "tc qdisc add dev eth0 root tbf rate 1mbit burst 16kb latency 100ms",
        "tc qdisc del dev eth0 root",
        "pairs",
        "bandwidth",
        "at least",
    ),
    "100 ms on one link": Fault(
        "node4",
        "tc qdisc add dev eth0 root netem delay 100ms",
        "tc qdisc del dev eth0 root",
        "pairs",
        "latency",
        "ms, should be at most",
    ),
    "port of the containers closed": Fault(
        "node3",
        "iptables -I INPUT ! -i lo -p tcp --dport 2222 -j DROP",
        "iptables -D INPUT 1",
        "containers",
        "MPI in containers",
        "cannot be reached from node1",
    ),
    "another Open MPI": Fault(
        "node4",
        "printf '#!/bin/sh\\necho \"mpirun (Open MPI) 4.1.4\"\\n' > /usr/local/bin/mpirun && "
        "chmod 755 /usr/local/bin/mpirun",
        "rm /usr/local/bin/mpirun",
        "nodes",
        "Open MPI",
        "4.1.4, should be 5.",
    ),
    "another image": Fault(
        "node2",
        "tar -cC /etc hostname | docker import - other:1 && docker image ls trainyard/trainer | "
        "awk 'NR > 1 {print $2}' > /root/tags && for t in $(cat /root/tags); do docker tag "
        "trainyard/trainer:$t kept:$t; docker tag other:1 trainyard/trainer:$t; done",
        "for t in $(cat /root/tags); do docker tag kept:$t trainyard/trainer:$t; docker rmi "
        "kept:$t; done; docker rmi other:1",
        "nodes",
        "image",
        "should be sha256:",
    ),
    "full disk": Fault(
        "node3",
        "mount -t tmpfs -o size=8m none /srv/trainyard/runs && "
        "dd if=/dev/zero of=/srv/trainyard/runs/full bs=1M 2>/dev/null; true",
        "umount /srv/trainyard/runs",
        "nodes",
        "disk",
        "0 GB free",
    ),
    "clock off": Fault(
        "node4",
        f"apt-get install -qq --no-install-recommends libfaketime >/dev/null && echo +30 > "
        f"/etc/faketimerc && echo {FAKETIME} > /etc/ld.so.preload",
        "rm /etc/ld.so.preload /etc/faketimerc",
        "pairs",
        "clock",
        "s off, should be at most 1",
    ),
    "stray process": Fault(
        "node1",
        "setsid runuser -u trainer -- sleep 999 >/dev/null 2>&1 </dev/null & sleep 0.5",
        "pkill -u trainer -x sleep",
        "nodes",
        "stray processes",
        "sleep 999",
    ),
}


def has_netem(host: str) -> bool:
    """Whether packets can be delayed there; tried where no traffic is hurt."""
    tried = in_machine(
        host,
        "tc qdisc add dev lo root netem delay 1ms 2>/dev/null && tc qdisc del dev lo root && "
        "echo yes || true",
    )
    return tried == "yes"


def test_faults_on_all_nodes_at_once_are_told_apart(good: Verdict) -> None:
    faults = [fault for fault in FAULTS.values() if fault.checks == "nodes"]
    assert {fault.host for fault in faults} == set(NODES)
    with broken(*faults):
        verdict = verify("nodes")
    assert verdict.outcome.status == 3
    for fault in faults:
        causes = verdict.causes(fault.host)
        assert fault.says in causes.get(fault.check, "")
        # A full disk can be written to no more either; nothing comes from the other nodes' faults.
        assert not set(causes) & {other.check for other in faults if other is not fault}
        assert fault.host in verdict.outcome.output
    assert verdict.seconds < LIMIT


ALONE = {name: fault for name, fault in FAULTS.items() if fault.checks != "nodes"}


@pytest.mark.parametrize("fault", ALONE.values(), ids=ALONE)
def test_a_fault_is_named(good: Verdict, fault: Fault) -> None:
    if "netem" in fault.breaks and not has_netem(fault.host):
        pytest.skip("the kernel of this machine has no netem, which delays packets")
    with broken(fault):
        verdict = verify(fault.checks)
    assert verdict.outcome.status == 3
    blamed = fault.blamed or fault.host
    assert fault.says in verdict.causes(blamed).get(fault.check, "")
    assert verdict.blamed == {blamed}
    assert blamed in verdict.outcome.output
    assert verdict.seconds < LIMIT


@pytest.mark.parametrize("fault", ["off", "accepts and never answers"])
def test_a_silent_node_is_named_in_time(good: Verdict, fault: str) -> None:
    node = machine("node4")
    route = in_machine("node4", "ip route show default")
    if fault == "off":
        # To the others, a machine without power: nothing there answers, not even ARP.
        breaks = [["exec", node, "ip", "link", "set", "eth0", "down"]]
        mends = [
            ["exec", node, "ip", "link", "set", "eth0", "up"],
            ["exec", node, "ip", "route", "replace", *route.split()],
        ]
    else:
        # The kernel goes on to accept connections for the processes that stand still.
        breaks, mends = [["pause", node]], [["unpause", node]]
    for command in breaks:
        docker(*command)
    try:
        verdict = verify("ssh,pairs")
    finally:
        for command in mends:
            docker(*command)
    assert verdict.outcome.status == 3
    assert verdict.blamed == {"node4"}
    assert "reachable" in verdict.causes("node4")
    assert verdict.seconds < LIMIT
    # The others were measured all the same.
    measured = [
        check
        for check in verdict.document["checks"]
        if check["name"] == "bandwidth" and check["ok"]
    ]
    assert len(measured) == 6


@pytest.mark.parametrize("how", ["Ctrl-C", "make stop"])
def test_an_interrupted_verification_ends_its_containers(good: Verdict, how: str) -> None:
    before = set(RUNS.glob("verify-*"))
    verification = BackgroundMake("verify", CHECKS="containers")
    look = "docker ps --quiet --filter label=trainyard.run"
    verification.wait_for("containers", lambda: in_machine("node2", look))
    if how == "Ctrl-C":
        verification.interrupt()
    else:
        (directory,) = set(RUNS.glob("verify-*")) - before
        assert make("stop", RUN=directory.name).status == 0
    assert verification.finish(seconds=120).status == 130
    for node in NODES:
        assert containers_of_runs(node) == ""
        assert in_machine(node, "ls /srv/trainyard/runs") == ""
        assert in_machine(node, "pgrep -c 'mpirun|prted|hello_mpi' || true") == "0"


def test_training_refuses_an_unfit_node(good: Verdict) -> None:
    with broken(FAULTS["full disk"]):
        outcome = make("train", MODEL="vit", NODES=len(NODES))
    assert outcome.status == 3
    unfit = "node3 is not fit for a run: disk /srv/trainyard/runs: 0.0 GB free"
    assert unfit in outcome.output
    assert "Too few nodes: 4 needed, 3 fit. Nothing was started." in outcome.output
