"""From measurements to the one who is at fault."""

import json
from pathlib import Path
from typing import Any

import pytest

from node.check.check import Check, at_least, at_most, check, equal
from node.check.problems import PROBLEMS, problem
from node.verdict import containers as in_containers
from node.verdict import judgement, notes, programs
from node.verdict.cluster import Cluster, Thresholds, one_line
from node.verdict.finding import GPU_PROBLEMS, NODE_PROBLEMS, REMEDIES, remedy
from node.verdict.network import ssh_trouble

HOSTS = ("node1", "node2", "node3", "node4")
THRESHOLDS = Thresholds(
    same_releases=["openmpi", "docker"],
    clock_seconds=1.0,
    bandwidth_gigabits=1.0,
    latency_milliseconds=10.0,
    loss_percent=1.0,
    allreduce_gigabits=1.0,
    gpu_slowness=1.15,
)
Measured = dict[str, dict[str, Any]]


def address(host: str) -> str:
    return f"10.0.0.{host[-1]}"


@pytest.fixture
def good() -> Measured:
    """What four good nodes measure."""
    measured: Measured = {}
    for host in HOSTS:
        peers = [peer for peer in HOSTS if peer != host]
        measured[host] = {
            "probe": {"checks": [], "run": "", "image_id": "sha256:1", "address": address(host)},
            "node": {
                "checks": [],
                "releases": {"openmpi": "5.0.7", "docker": "26.1"},
                "nodename": host,
            },
            "ssh": {"logins": {peer: {"seconds": 0.1, "trouble": ""} for peer in peers}},
            "pairs": {
                "greetings": {
                    peer: {"trouble": "", "source": address(host), "clock_seconds": 0.0}
                    for peer in peers
                },
                "matches": {
                    peer: {
                        "round": 0,
                        "at_home": host < peer,
                        "trouble": "",
                        **(
                            {}
                            if host < peer
                            else {
                                **{"bits_per_second": [9e9, 9e9], "latency_seconds": 1e-4},
                                "lost_percent": [0.0, 0.1],
                                **{"from": 0.0, "until": 1.0},
                            }
                        ),
                    }
                    for peer in peers
                },
            },
        }
    return measured


Containers = dict[str, Any]


def judge(
    measured: Measured,
    job: dict[str, Any] | None = None,
    containers: Containers | None = None,
) -> list[Any]:
    """All findings.

    Args:
        job: excluded hosts, output and trouble of the program over all nodes.
        containers: the fields of Containers.
    """
    hostnames = {
        str(answer.get("node", {}).get("nodename")): host for host, answer in measured.items()
    }
    program = (
        programs.Program(name="MPI", hostnames=hostnames, not_started={}, **job) if job else None
    )
    findings: list[Any] = judgement.judge(
        Cluster(measured, THRESHOLDS),
        program,
        in_containers.Containers(**containers) if containers else None,
    )
    return findings


def faults(findings: list[Any]) -> list[Any]:
    """Who is at fault for them."""
    named: list[Any] = judgement.faults(findings)
    return named


def blame(
    measured: Measured,
    job: dict[str, Any] | None = None,
    containers: Containers | None = None,
) -> dict[str, set[str]]:
    """Who is at fault, and for which checks."""
    return {
        fault.who: {cause.name for cause in fault.causes}
        for fault in faults(judge(measured, job, containers))
    }


def told(
    measured: Measured,
    job: dict[str, Any] | None = None,
    containers: Containers | None = None,
) -> list[tuple[str, str, str]]:
    """Of each bad finding: who is at fault, its code, and what is said."""
    bad = [finding for finding in judge(measured, job, containers) if not finding.ok]
    return [(finding.who, finding.code, finding.check.reason()) for finding in bad]


def test_a_good_cluster_has_no_fault(good: Measured) -> None:
    assert blame(good) == {}


def test_what_a_node_that_is_down_spoils_stands_under_it(good: Measured) -> None:
    good["node3"] = {"probe": {"unreachable": True, "msg": "Connection timed out"}}
    for host in ("node1", "node2", "node4"):
        del good[host]["ssh"]["logins"]["node3"]
        del good[host]["pairs"]["greetings"]["node3"]
        del good[host]["pairs"]["matches"]["node3"]
    found = blame(good)
    assert set(found) == {"node3"}
    assert {"reachable", "ssh", "bandwidth"} <= found["node3"]
    (down,) = (finding for finding in judge(good) if finding.code == "unreachable")
    assert down.check.reason() == "reachable: Connection timed out"
    assert down.asdict()["remedy"] == "make doctor ON=node3 says why, and what mends it"
    not_tested = [said for _, code, said in told(good) if code == "not_tested"]
    assert set(not_tested) == {
        f"{name}: not tested: node3 is not reachable"
        for name in ("ssh", "firewall", "bandwidth", "latency")
    }


def test_of_an_engine_that_does_not_answer_nothing_else_is_said(good: Measured) -> None:
    good["node3"]["node"]["releases"]["docker"] = ""
    problems = [{"code": "no_engine", "values": {"message": "refused"}}]
    good["node3"]["probe"] |= {"image_id": "", "problems": problems}
    assert told(good) == [("node3", "no_engine", "engine: no answer")]


def test_a_node_that_falls_silent_on_the_way_is_named(good: Measured) -> None:
    good["node2"]["pairs"] = {"failed": True, "msg": "Timed out after 60 seconds"}
    for host in ("node3", "node4"):
        good[host]["pairs"]["matches"]["node2"] = {
            "round": 0,
            "at_home": False,
            "trouble": "no answer",
        }
    found = blame(good)
    assert set(found) == {"node2"}
    assert "pairs checks" in found["node2"]
    good["node3"]["node"] = {"unreachable": True}
    failed = [(who, said) for who, code, said in told(good) if code == "checks_failed"]
    assert failed == [
        ("node2", "pairs checks: Timed out after 60 seconds"),
        ("node3", "node checks: no answer"),
    ]


def test_the_release_of_the_minority_is_wrong(good: Measured) -> None:
    good["node4"]["node"]["releases"]["openmpi"] = "4.1.4"
    said = "Open MPI: 4.1.4, should be 5.0.7"
    assert told(good) == [("node4", "other_release", said)]


def test_nodes_may_all_be_without_open_mpi(good: Measured) -> None:
    """As with openmpi_state: absent; the part of the checks that needs it is then left out."""
    for host in HOSTS:
        good[host]["node"]["releases"]["openmpi"] = ""
    assert blame(good) == {}
    good["node1"]["node"]["releases"]["openmpi"] = "5.0.7"
    assert blame(good) != {}


def test_an_image_that_nobody_has_is_not_the_same_everywhere(good: Measured) -> None:
    for host in HOSTS:
        good[host]["probe"]["image_id"] = ""
    said = "image: none, should be the same everywhere"
    assert told(good) == [(host, "other_image", said) for host in HOSTS]


def test_who_has_the_image_is_not_at_fault_where_half_of_the_nodes_lack_it(good: Measured) -> None:
    lacking = HOSTS[: (len(HOSTS) + 1) // 2]
    for host in lacking:
        good[host]["probe"]["image_id"] = ""
    assert blame(good) == {host: {"image"} for host in lacking}


def test_what_was_not_asked_for_is_no_finding(good: Measured) -> None:
    for host in HOSTS:
        good[host]["pairs"] = {"skipped": True, "skip_reason": "Conditional result was False"}
    assert blame(good) == {}


def test_a_login_by_a_wrong_name_is_the_fault_of_who_has_it(good: Measured) -> None:
    wrong = equal("names", "192.0.2.1", "10.0.0.3", "wrong_name", subject="node3", name="node3")
    good["node2"]["node"]["checks"] = [wrong.asdict()]
    good["node2"]["ssh"]["logins"]["node3"]["trouble"] = "ssh: connect: Connection timed out"
    assert blame(good) == {"node2": {"names", "ssh"}}


def test_a_wrong_address_in_the_inventory_is_the_fault_of_that_node_alone(good: Measured) -> None:
    """Its name leads to where it is, and `make setup` would have it lead elsewhere."""
    wrong = equal("names", "10.0.0.3", "10.0.0.77", "wrong_name", subject="node3", name="node3")
    for host in HOSTS:
        good[host]["node"]["checks"] = [wrong.asdict()]
    own = check("address", False, "10.0.0.77", "its own", "wrong_address")
    good["node3"]["node"]["checks"].append(own.asdict())
    assert blame(good) == {"node3": {"address"}}


def test_the_threshold_of_a_site_takes_effect(good: Measured) -> None:
    def slow(gigabits: float) -> list[str]:
        limits = THRESHOLDS._replace(bandwidth_gigabits=gigabits)
        found = judgement.judge(Cluster(good, limits), None, None)
        return [finding.check.code for finding in found if not finding.check.ok]

    assert slow(9.0) == []
    assert slow(9.5) == ["low_bandwidth"] * 12


def test_a_slow_network_and_a_slow_pair_are_worth_a_note(good: Measured) -> None:
    def known() -> list[tuple[str, tuple[str, ...]]]:
        said = notes.notes(Cluster(good, THRESHOLDS), notes.Transport("tcp", rdma=False))
        return [(note.code, note.hosts) for note in said]

    assert known() == [("network_slow", HOSTS)]
    for answer in good.values():
        for match in answer["pairs"]["matches"].values():
            if "bits_per_second" in match:
                match["bits_per_second"] = [25e9, 25e9]
    assert known() == []
    good["node3"]["pairs"]["matches"]["node1"]["bits_per_second"] = [12e9, 13e9]
    assert known() == [("pair_slow", ("node3", "node1"))]
    # One below the threshold is a fault, and no note.
    good["node3"]["pairs"]["matches"]["node1"]["bits_per_second"] = [0.5e9, 13e9]
    assert known() == []


def test_a_single_login_that_fails_names_the_pair(good: Measured) -> None:
    good["node1"]["ssh"]["logins"]["node2"]["trouble"] = "Permission denied (publickey)."
    assert blame(good) == {"node1 to node2": {"ssh"}}


def test_masquerading_is_named(good: Measured) -> None:
    for peer in ("node1", "node2", "node4"):
        good["node3"]["pairs"]["greetings"][peer]["source"] = "10.0.0.254"
    assert blame(good) == {"node3": {"source address"}}


@pytest.mark.parametrize(
    ("figure", "values", "check"),
    [
        ("bits_per_second", [9e9, 1e6], "bandwidth"),
        # Fifteen of a hundred leave enough of a fast link for its bandwidth to pass.
        ("lost_percent", [15.0, 0.0], "loss"),
    ],
)
def test_a_bad_link_of_one_node(
    figure: str, values: list[float], check: str, good: Measured
) -> None:
    for host in HOSTS:
        for peer, match in good[host]["pairs"]["matches"].items():
            if figure in match and "node4" in (host, peer):
                match[figure] = values
    assert blame(good) == {"node4": {check}}


def test_troubles_of_the_network_have_their_codes_and_figures(good: Measured) -> None:
    closed = {"trouble": "port 40000: no answer", "source": "", "clock_seconds": None}
    good["node3"]["pairs"]["greetings"]["node1"] = closed
    for peer in ("node1", "node2", "node3"):
        good[peer]["pairs"]["greetings"]["node4"]["clock_seconds"] = 3.54321
        good["node4"]["pairs"]["greetings"][peer]["clock_seconds"] = -3.54321
    good["node4"]["pairs"]["greetings"]["node1"]["source"] = "10.0.0.254"
    good["node2"]["pairs"]["matches"]["node1"].update(
        latency_seconds=0.0123456, lost_percent=[1.2345, 0.0], bits_per_second=[0.54321e9, 9e9]
    )
    latency = "latency: 12.346 ms, should be at most 10.0 ms"
    bandwidth = "bandwidth: 0.543 Gbit/s, should be at least 1.0 Gbit/s"
    loss = "loss: 1.23 % sent again, should be at most 1.0 % sent again"
    assert told(good) == [
        ("node3 to node1", "port_closed", "firewall: port 40000: no answer"),
        ("node4 to node1", "masqueraded", "source address: 10.0.0.254, should be 10.0.0.4"),
        ("node4", "clock_off", "clock: 3.543 s off, should be at most 1.0 s off"),
        ("node1 to node2", "high_latency", latency),
        ("node2 to node1", "high_latency", latency),
        ("node2 to node1", "low_bandwidth", bandwidth),
        ("node2 to node1", "high_loss", loss),
    ]


def test_latency_stays_where_bandwidth_cannot_be_measured(good: Measured) -> None:
    match = good["node2"]["pairs"]["matches"]["node1"]
    del match["bits_per_second"]
    match["trouble"] = "iperf3: unable to send control message"
    values = {
        finding.name: finding.check.value
        for finding in judge(good)
        if finding.pair == ("node1", "node2")
    }
    assert values["latency"] == 0.1
    assert values["bandwidth"] == "not measured: iperf3: unable to send control message"
    assert blame(good) == {"node1 to node2": {"bandwidth"}, "node2 to node1": {"bandwidth"}}


def output_of(hosts: tuple[str, ...], silent: tuple[tuple[str, str], ...] = ()) -> str:
    """What hello_mpi prints on these hosts, where for some pairs (a, b) b does not hear a."""
    size = len(hosts)
    return "".join(
        f"rank {rank} of {size} on {host} is here\n"
        + "".join(
            f"rank {rank} of {size} on {host} heard from {other}\n"
            for other in hosts
            if other != host and (other, host) not in silent
        )
        for rank, host in enumerate(hosts)
    )


def test_a_host_that_does_not_answer_in_the_program_is_named(good: Measured) -> None:
    job = {
        "excluded": {"node4": "Open MPI"},
        "output": output_of(("node1", "node2")),
        "trouble": "no end within its time limit",
    }
    assert blame(good, job) == {"node3": {"MPI"}, "node4": {"MPI"}}


def test_a_host_goes_by_the_name_that_it_gives_itself(good: Measured) -> None:
    names = tuple(f"machine-{host[-1]}" for host in HOSTS)
    for host, name in zip(HOSTS, names, strict=True):
        good[host]["node"]["nodename"] = name
    assert blame(good, {"excluded": {}, "output": output_of(names), "trouble": ""}) == {}


def test_whoever_nobody_hears_is_named_and_else_the_pair(good: Measured) -> None:
    silent = (("node1", "node3"),)
    job = {"excluded": {}, "output": output_of(HOSTS, silent), "trouble": "no end"}
    said = "MPI: node3 hears nothing from node1"
    assert told(good, job) == [("node1 to node3", "mpi_unheard", said)]
    job["output"] = output_of(HOSTS, tuple(("node2", host) for host in HOSTS))
    assert blame(good, job) == {"node2": {"MPI"}}


def test_jobs_leave_out_who_cannot_take_part(good: Measured) -> None:
    good["node4"]["node"]["releases"]["openmpi"] = "4.1.4"
    good["node1"]["ssh"]["logins"]["node2"]["trouble"] = "Permission denied (publickey)."
    names = ("Open MPI", "ssh")
    assert judgement.excluded(judge(good), names, HOSTS) == {
        "node4": "Open MPI",
        "node2": "ssh node1 to node2",
    }
    backwards = judgement.excluded(judge(good), names, HOSTS[::-1])
    assert backwards == {"node4": "Open MPI", "node1": "ssh node1 to node2"}
    good["node2"] = {"probe": {"unreachable": True, "msg": "Connection timed out"}}
    assert judgement.excluded(judge(good), ("ssh",), HOSTS) == {"node2": "ssh"}


@pytest.mark.parametrize(
    ("message", "code", "meaning"),
    [
        (
            "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@",
            "ssh_host_key",
            "the host key of b is not",
        ),
        (
            "No ED25519 host key is known for b\nHost key verification failed.",
            "ssh_host_key",
            "the host key of b",
        ),
        ("trainer@b: Permission denied (publickey).", "ssh_key_refused", "b refuses the key of a"),
        (
            "ssh: Could not resolve hostname b: Name or service not known",
            "ssh_name_unknown",
            "a does not know",
        ),
        (
            "ssh: connect to host b port 22: Connection refused",
            "ssh_not_listening",
            "nothing listens",
        ),
        (
            "ssh: connect to host b port 22: No route to host",
            "ssh_no_answer",
            "no answer from b",
        ),
        ("no answer within 10 s", "ssh_no_answer", "no answer from b"),
        ("the moon is full", "ssh_failed", "the moon is full"),
    ],
)
def test_ssh_is_understood(message: str, code: str, meaning: str) -> None:
    named, said = ssh_trouble(message, "a", "b")
    assert named == code
    assert said.startswith(meaning)


@pytest.fixture
def containers() -> Containers:
    """What the programs in the containers of four good nodes leave."""
    case = {"dtype": "float32", "elements": 1023, "wrong": 0}
    sizes = [(4096, 0.2), (2**20, 4.0), (2**26, 3.0)]
    ranks = [
        {
            "rank": rank,
            "host": host,
            "world_size": 4,
            "sums": [dict(case)],
            "products": [],
            "bandwidth": [
                {"bytes": size, "seconds": 0.1, "bus_gigabits_per_second": rate}
                for size, rate in sizes
            ],
        }
        for rank, host in enumerate(HOSTS)
    ]
    return {
        "excluded": {},
        "troubles": {},
        "log": output_of(HOSTS),
        "ranks": ranks,
        "rank_logs": dict.fromkeys(range(4), ""),
    }


def test_good_containers_have_no_fault(good: Measured, containers: Containers) -> None:
    assert blame(good, containers=containers) == {}
    values = {(f.name, f.host): f.check.value for f in judge(good, None, containers)}
    assert values["MPI in containers", "node3"] == "answers"
    assert values["Horovod sums", "node3"] == "right"
    assert values["Horovod bandwidth", "node3"] == 4.0


def test_a_container_that_does_not_start_is_named(good: Measured, containers: Containers) -> None:
    containers["troubles"] = {"node2": "no container:\ncannot listen on 10.0.0.2"}
    assert told(good, containers=containers) == [
        ("node2", "container_failed", "containers: cannot listen on 10.0.0.2")
    ]
    containers.update(log="", ranks=[], rank_logs={})
    mpi = [code for _, code, said in told(good, containers=containers) if "MPI" in said]
    assert mpi == ["mpi_not_run", "mpi_not_started", "mpi_not_run", "mpi_not_run"]
    found = blame(good, containers=containers)
    assert found == {"node2": {"containers", "MPI in containers", "Horovod sums"}}


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (
            "trainyard: the container on node3 (10.0.0.3:2222) cannot be reached: timed out\n",
            "its container at 10.0.0.3:2222 cannot be reached from node1: timed out",
        ),
        (
            "PRTE has lost communication with a remote daemon.\n\n"
            "  HNP daemon   : [prterun-node1-26@0,0] on node node1\n"
            "  Remote daemon: [prterun-node1-26@0,2] on node node3\n\n"
            "This is usually due to either a failure of the TCP network\n",
            "the connection of mpirun to its container broke",
        ),
    ],
    ids=["no answer", "broken"],
)
def test_a_container_that_mpirun_does_not_reach_is_named(
    good: Measured, containers: Containers, log: str, says: str
) -> None:
    containers.update(log=log, ranks=[], rank_logs={})
    assert blame(good, containers=containers) == {"node3": {"MPI in containers", "Horovod sums"}}
    (fault,) = faults(judge(good, None, containers))
    assert says in fault.causes[0].reason


def test_a_rank_that_horovod_waits_for_is_named(good: Measured, containers: Containers) -> None:
    for rank in containers["ranks"]:
        del rank["sums"], rank["bandwidth"]
    containers["rank_logs"][0] = (
        "One or more tensors were submitted to be reduced by subset of ranks\n"
        "Missing ranks:\n3: [verify.float32.1, verify.float32.1023 ...]\n"
    )
    *others, last = told(good, containers=containers)
    assert {(who, code) for who, code, _ in others} == {("node4", "sums_unfinished")}
    stalled = "Horovod sums: it hands in nothing that the others could add"
    assert last == ("node4", "sums_stalled", stalled)


@pytest.mark.parametrize("written", [True, False])
def test_the_node_of_a_rank_that_fell_is_at_fault_alone(
    good: Measured, containers: Containers, written: bool
) -> None:
    for rank in containers["ranks"]:
        del rank["sums"], rank["bandwidth"]
    if not written:
        containers.update(ranks=[], rank_logs={})
    containers["log"] += (
        "prterun noticed that process rank 1 with PID 71 on node node2 exited on\n"
        "signal 9 (Killed).\n"
    )
    assert {who for who, _, _ in told(good, containers=containers)} == {"node2"}


def test_a_rank_that_never_came_to_horovod_is_named(good: Measured, containers: Containers) -> None:
    silent = containers["ranks"].pop(1)
    containers["log"] += "the last of mpirun\n"
    unfinished = ("node2", "sums_unfinished")
    assert told(good, containers=containers) == [
        (*unfinished, "Horovod sums: no answer; the last of mpirun")
    ]
    # Or it came, and not to its end.
    del silent["sums"]
    containers["ranks"].append(silent)
    containers["rank_logs"][1] = "began\nkilled\n"
    assert told(good, containers=containers) == [(*unfinished, "Horovod sums: no end; killed")]
    containers.update(ranks=[], rank_logs={})
    for log, said in (
        ("", "the last of mpirun"),
        (programs.TIMED_OUT, "no end within its time limit"),
    ):
        containers["log"] += log
        assert told(good, containers=containers) == [
            (host, "sums_not_run", f"Horovod sums: not run; {said}") for host in HOSTS
        ]


def test_wrong_sums_are_named(good: Measured, containers: Containers) -> None:
    containers["ranks"][3]["sums"][0]["wrong"] = 2
    said = "Horovod sums: 2 of 1023 wrong in float32"
    assert told(good, containers=containers) == [("node4", "sums_wrong", said)]


def test_a_slow_allreduce_is_the_fault_of_the_slow_link(
    good: Measured, containers: Containers
) -> None:
    for rank in containers["ranks"]:
        for entry in rank["bandwidth"]:
            entry["bus_gigabits_per_second"] = 0.0123
    said = "Horovod bandwidth: 0.01 Gbit/s, should be at least 1.0 Gbit/s"
    assert told(good, containers=containers) == [(host, "low_allreduce", said) for host in HOSTS]
    for host in HOSTS:
        for peer, match in good[host]["pairs"]["matches"].items():
            if "bits_per_second" in match and "node4" in (host, peer):
                match["bits_per_second"] = [1e7, 1e7]
    found = blame(good, containers=containers)
    assert found == {"node4": {"bandwidth", "Horovod bandwidth"}}


def test_a_slow_gpu_is_named_among_those_of_its_model(
    good: Measured, containers: Containers
) -> None:
    for number, rank in enumerate(containers["ranks"]):
        rank["products"] = [
            {"gpu": 0, "model": "A", "seconds": 0.010 + 0.0001 * number, "wrong": 0},
            {"gpu": 1, "model": "B", "seconds": 0.100, "wrong": 0},
        ]
    assert blame(good, containers=containers) == {}
    containers["ranks"][2]["products"][1].update(seconds=0.12345, wrong=3)
    slow = "GPU time GPU 1: 1.23 of the median, should be at most 1.15 of the median"
    assert told(good, containers=containers) == [
        ("node3", "gpu_wrong_product", "GPU product GPU 1: 3 wrong elements"),
        ("node3", "gpu_slow", slow),
    ]


def test_gpus_that_compute_are_counted_beside_those_of_the_driver(
    good: Measured, containers: Containers
) -> None:
    product = {"model": "A", "seconds": 0.01, "wrong": 0}
    for host, rank in zip(HOSTS, containers["ranks"], strict=True):
        good[host]["probe"]["gpus"] = 2
        rank["products"] = [{"gpu": gpu, **product} for gpu in range(2)]
    assert blame(good, containers=containers) == {}
    del containers["ranks"][1]["products"][1]
    # As a rank writes it whose PyTorch does not take the driver.
    containers["ranks"][3].update(products=[], gpu_trouble="The NVIDIA driver is too old")
    assert blame(good, containers=containers) == {
        "node2": {"GPUs that compute"},
        "node4": {"GPUs that compute"},
    }
    said = {
        finding.who: finding.check.value
        for finding in judge(good, containers=containers)
        if finding.code == "gpus_not_computing" and not finding.ok
    }
    assert said == {"node2": 1, "node4": "0; The NVIDIA driver is too old"}


def test_who_cannot_take_part_in_containers_is_left_out(
    good: Measured, containers: Containers
) -> None:
    containers["excluded"] = {"node4": "image"}
    del containers["ranks"][3]
    containers["log"] = output_of(HOSTS[:3])
    assert blame(good, containers=containers) == {"node4": {"MPI in containers"}}


def test_each_remedy_can_be_filled_in() -> None:
    """With the values of the findings that have them; an unknown name would be a KeyError."""
    values = {"a": "node1", "b": "node2", "host": "node3", "run": "r", "name": "node1"}
    values["remedy"] = "kill it"
    for code, template in REMEDIES.items():
        text = remedy(code, values)
        assert "{" not in text, code
        assert bool(text) == bool(template), code


def test_a_finding_says_which_trouble_it_is(good: Measured) -> None:
    good["node3"]["probe"]["run"] = "20261120T120000Z_vit"
    good["node1"]["ssh"]["logins"]["node2"]["trouble"] = "Permission denied (publickey)."
    bad = [finding.asdict() for finding in judge(good) if not finding.ok]
    assert [(entry["code"], entry["values"]) for entry in bad] == [
        ("held", {"run": "20261120T120000Z_vit"}),
        ("ssh_key_refused", {"a": "node1", "b": "node2"}),
    ]
    assert bad[0]["remedy"] == "wait for it, or make stop RUN=20261120T120000Z_vit"


def test_a_check_of_the_node_itself_gets_its_remedy(good: Measured) -> None:
    own = at_least("disk", 1.0, 5, "GB free", "low_disk", subject="/srv", path="/srv")
    stray = equal("stray processes", "x", "none", "stray", remedy="kill 7")
    good["node1"]["probe"]["checks"] = [own.asdict(), stray.asdict()]
    good["node1"]["node"]["checks"] = [equal("GPUs", 3, 4, "gpus_missing").asdict()]
    good["node2"]["node"]["checks"] = [
        equal("GPUs", 4, 4, "gpus_missing").asdict(),
        {**own.asdict(), "ok": True},
    ]
    assert all(not finding.remedy for finding in judge(good) if finding.ok)
    bad = [finding.asdict() for finding in judge(good) if not finding.ok]
    assert [(entry["host"], entry["code"]) for entry in bad] == [
        ("node1", "low_disk"),
        ("node1", "stray"),
        ("node1", "gpus_missing"),
    ]
    assert bad[0]["remedy"] == "make room on the disk of /srv: du -x tells what takes it"
    assert bad[1]["remedy"] == "kill 7"
    assert "fell off the bus" in bad[2]["remedy"]
    assert [entry["threshold_text"] for entry in bad] == ["at least 5 GB free", "none", "4"]


@pytest.mark.parametrize("code", ["low_disk", "stray", "", "no_such_code"])
def test_a_node_may_say_any_code_and_leave_out_its_values(good: Measured, code: str) -> None:
    own = Check("disk", False, 1, 5, code=code).asdict()
    good["node2"]["node"]["checks"] = [own]
    (bad,) = [finding.asdict() for finding in judge(good) if not finding.ok]
    known = code in (*REMEDIES, *NODE_PROBLEMS)
    assert (bad["code"], bad["remedy"]) == (code if known else "node_check_failed", "")


def test_the_first_step_that_failed_on_a_host_is_what_counts() -> None:
    steps: list[Measured] = [
        {"node1": {}, "node2": {"failed": True, "msg": "first"}, "node3": {"failed": False}},
        {
            "node1": {"unreachable": True},
            "node2": {"failed": True, "msg": "second"},
            "node4": {"failed": True, "msg": "left out"},
        },
    ]
    troubles = in_containers.step_troubles(steps, {"node4": "image"})
    assert troubles == {"node1": "no answer", "node2": "first"}


# timeout(1) tells of the second where the program did not heed its signal, as mpirun may not.
@pytest.mark.parametrize("rc", [124, 137])
def test_a_program_that_ran_into_its_limit_says_so(rc: int) -> None:
    result = {"rc": rc, "stdout": "rank 0 of 2 on a is here\n", "stderr": "Killed"}
    program = programs.read_program(result, {}, {"a": "a"})
    assert program.trouble == "no end within its time limit"
    assert program.output == result["stdout"]
    said = [("stderr", "no slots"), ("stdout", "rank 0"), ("msg", "non-zero return code")]
    for place, (_, first) in enumerate(said):
        assert programs.read_program(dict(said[place:]), {}, {}).trouble == first
    assert programs.read_program({}, {}, {}).trouble == ""


@pytest.mark.parametrize(
    ("shell", "why"),
    [
        (
            "bash: line 1: /usr/bin/prted: Permission denied\n",
            "bash: line 1: /usr/bin/prted: Permission denied",
        ),
        ("", "the connection of mpirun to it broke"),
    ],
)
def test_the_node_whose_daemon_did_not_start_is_at_fault_alone(shell: str, why: str) -> None:
    """Open MPI 5.0.7, a line of dashes and a null byte at the end."""
    said = f"""{shell}-----
PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-node1-4916@0,0] on node node1
  Remote daemon: [prterun-node1-4916@0,1] on node node2

therefore will terminate the job.
-----\n\0"""
    names = {"node1": "a", "node2": "b"}
    program = programs.read_program({"rc": 126, "stdout": "", "stderr": said}, {}, names)
    assert program.not_started == {"b": why}
    assert one_line(said) == "therefore will terminate the job."


@pytest.mark.parametrize(
    "said",
    [
        *([], "x", {}, {"rank": "../../x", "host": "node1"}, {"rank": 0, "host": ["node1"]}),
        *({"rank": 0, "host": "node1", "sums": [{"wrong": 1}]},),
        *({"rank": 0, "host": "node1", "bandwidth": [5]},),
        *({"rank": 0, "host": "node1", "products": [{"model": "a", "seconds": 0}]},),
        *({"rank": 0, "host": "node1", "products": [{"model": "a", "seconds": 1, "wrong": 0}]},),
        *({"rank": 0, "host": "node1", "products": [{"model": "a", "seconds": 1, "gpu": 0}]},),
    ],
)
def test_what_a_rank_made_up_counts_as_if_it_had_not_come(said: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a[1]" / "verify"
    folder.mkdir(parents=True)
    good = {"rank": 1, "host": "node2", "sums": []}
    (folder / "rank-0.json").write_text(json.dumps(said))
    (folder / "rank-1.json").write_text(json.dumps(good))
    (folder / "rank-2.json").write_text("{")
    logs = folder.with_name("logs")
    logs.mkdir()
    for name in ("mpirun", "rank-1"):
        (logs / f"{name}.log").write_text(name)
    found = in_containers.read_containers([], {}, str(folder.parent))
    assert (found.ranks, found.log, found.rank_logs) == ([good], "mpirun", {1: "rank-1"})


def test_of_a_log_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "mpirun.log"
    log.write_bytes(b"begin" + b"x" * in_containers.LOG_BYTES + b"end")
    text = in_containers.end_of(str(log))
    assert text.endswith("end")
    assert "begin" not in text
    assert in_containers.end_of(str(tmp_path / "none")) == ""


@pytest.mark.parametrize("checks", [5, "x", [5], [{}], [{"name": "disk", "ok": False}], {"a": 1}])
def test_a_node_that_says_something_else_than_checks_is_named(good: Measured, checks: Any) -> None:
    good["node2"]["node"]["checks"] = checks
    bad = [finding.asdict() for finding in judge(good) if not finding.ok]
    assert {entry["host"] for entry in bad} == {"node2"}
    assert "of no form that checks have" in str(bad)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("node", {"releases": [1]}),
        ("node", {"releases": {"docker": {}}}),
        ("node", {"nodename": ["node2"]}),
        ("ssh", {"logins": {"node1": 5}}),
        ("ssh", {"logins": {"node1": {"trouble": 5}}}),
        ("pairs", {"greetings": {"node1": {"trouble": "", "source": 1, "clock_seconds": 0}}}),
        ("pairs", {"matches": {"node1": {"trouble": "", "latency_seconds": "x"}}}),
        ("pairs", {"matches": {"node1": {"trouble": "", "bits_per_second": [1]}}}),
        ("probe", {"hardware": 5}),
        ("probe", {"problems": [5]}),
        ("probe", {"problems": [{"code": "gpu_driver_old", "values": {}}]}),
    ],
)
def test_a_node_that_says_something_odd_spoils_its_own_part_alone(
    good: Measured, part: str, said: Any
) -> None:
    good["node2"][part] |= said
    bad = [finding for finding in judge(good) if not finding.ok]
    assert bad
    assert all("node2" in finding.who for finding in bad)


def test_why_no_run_could_compute_on_its_gpus_is_named(good: Measured) -> None:
    old = problem("gpu_driver_old", driver="550.163.01", image="trainer:1", cuda="13.0", needed=580)
    # Other checks of this role tell the rest.
    absent = problem("gpu_absent")
    for host in HOSTS[:3]:
        good[host]["probe"]["gpus"] = 2
    good["node2"]["probe"]["problems"] = [old.asdict(), absent.asdict()]
    usable = [finding for finding in judge(good) if finding.name == "GPUs usable"]
    assert [(finding.host, finding.ok, finding.code) for finding in usable] == [
        ("node1", True, ""),
        ("node2", False, "gpu_driver_old"),
        ("node3", True, ""),
    ]
    assert usable[1].check.reason() == (
        "GPUs usable: its NVIDIA driver 550.163.01 is too old for the image trainer:1, whose CUDA "
        "13.0 needs 580 or newer"
    )
    assert usable[1].remedy.startswith("run make setup")


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("image_of_other_gpus", {"image": "trainer:1", "has": "AMD", "wanted": "NVIDIA"}),
        ("image_without_rocm", {"image": "trainer:1"}),
        ("gpus_not_native", {}),
    ],
)
def test_gpus_that_the_image_or_the_runtime_cannot_use_are_not_usable(
    code: str, values: dict[str, str], good: Measured
) -> None:
    good["node2"]["probe"]["gpus"] = 2
    good["node2"]["probe"]["problems"] = [problem(code, **values).asdict()]
    usable = [finding for finding in judge(good) if finding.name == "GPUs usable"]
    assert [(finding.host, finding.ok, finding.code) for finding in usable] == [
        ("node2", False, code)
    ]


@pytest.mark.parametrize("code", GPU_PROBLEMS)
def test_the_gpu_problems_are_those_of_the_gang_check(code: str) -> None:
    assert code in PROBLEMS


def test_a_reason_has_the_limit_where_it_says_something() -> None:
    assert at_most("clock", 3.5, 1.0, "s off", "clock_off").reason() == (
        "clock: 3.5 s off, should be at most 1.0 s off"
    )
    assert equal("Open MPI", "4.1.4", "5.0.7", "other_release").reason() == (
        "Open MPI: 4.1.4, should be 5.0.7"
    )
    assert equal("engine", "no answer", "answers", "no_engine").reason() == "engine: no answer"


def test_nodes_are_described_by_what_each_is_made_of(good: Measured) -> None:
    good["node1"]["probe"]["hardware"] = {"cores": 8}
    made_of = {"gpus": [{"name": "T4"}], "rdma": ["mlx5_0"], "ways": {"tcp": True}}
    good["node1"]["node"] |= made_of
    good["node2"]["probe"]["hardware"] = {"cores": 4}
    good["node2"]["node"] = {}
    assert judgement.nodes(Cluster(good, THRESHOLDS)) == {
        "node1": {
            "nodename": "node1",
            "cores": 8,
            **made_of,
            "releases": {"openmpi": "5.0.7", "docker": "26.1"},
        },
        "node2": {
            **{"nodename": None, "cores": 4, "gpus": [], "rdma": [], "ways": {}, "releases": {}}
        },
    }
