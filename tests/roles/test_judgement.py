"""From measurements to the one who is at fault."""

from typing import Any

import pytest
from role_modules import judgement

HOSTS = ("node1", "node2", "node3", "node4")
WANTED = {
    "same_releases": ["openmpi", "docker"],
    "clock_seconds": 1.0,
    "bandwidth_gigabits": 1.0,
    "latency_milliseconds": 10.0,
}
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
                            else {"bits_per_second": [9e9, 9e9], "latency_seconds": 1e-4}
                        ),
                    }
                    for peer in peers
                },
            },
        }
    return measured


def blame(measured: Measured, job: dict[str, Any] | None = None) -> dict[str, set[str]]:
    """Who is at fault, and for which checks."""
    judge = judgement.Judge(measured, WANTED, job)
    return {
        fault["who"]: {cause["name"] for cause in fault["causes"]}
        for fault in judgement.faults(judge.judge())
    }


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


def test_the_release_of_the_minority_is_wrong(good: Measured) -> None:
    good["node4"]["node"]["releases"]["openmpi"] = "4.1.4"
    assert blame(good) == {"node4": {"Open MPI"}}


def test_an_image_that_nobody_has_is_not_the_same_everywhere(good: Measured) -> None:
    for host in HOSTS:
        good[host]["probe"]["image_id"] = ""
    assert blame(good) == {host: {"image"} for host in HOSTS}


def test_what_was_not_asked_for_is_no_finding(good: Measured) -> None:
    for host in HOSTS:
        good[host]["pairs"] = {"skipped": True, "skip_reason": "Conditional result was False"}
    assert blame(good) == {}


def test_a_login_by_a_wrong_name_is_the_fault_of_who_has_it(good: Measured) -> None:
    good["node2"]["node"]["checks"] = [
        {
            "name": "names",
            "ok": False,
            "value": "192.0.2.1",
            "threshold": "10.0.0.3",
            "limit": "equal",
            "unit": "",
            "subject": "node3",
            "remedy": "look",
        }
    ]
    good["node2"]["ssh"]["logins"]["node3"]["trouble"] = "ssh: connect: Connection timed out"
    assert blame(good) == {"node2": {"names", "ssh"}}


def test_a_single_login_that_fails_names_the_pair(good: Measured) -> None:
    good["node1"]["ssh"]["logins"]["node2"]["trouble"] = "Permission denied (publickey)."
    assert blame(good) == {"node1 to node2": {"ssh"}}


def test_masquerading_is_named(good: Measured) -> None:
    for peer in ("node1", "node2", "node4"):
        good["node3"]["pairs"]["greetings"][peer]["source"] = "10.0.0.254"
    assert blame(good) == {"node3": {"source address"}}


def test_a_slow_link_of_one_node(good: Measured) -> None:
    for host in HOSTS:
        for peer, match in good[host]["pairs"]["matches"].items():
            if "bits_per_second" in match and "node4" in (host, peer):
                match["bits_per_second"] = [9e9, 1e6]
    assert blame(good) == {"node4": {"bandwidth"}}


def test_latency_stays_where_bandwidth_cannot_be_measured(good: Measured) -> None:
    match = good["node2"]["pairs"]["matches"]["node1"]
    del match["bits_per_second"]
    match["trouble"] = "iperf3: unable to send control message"
    judge = judgement.Judge(good, WANTED, None)
    values = {
        finding["name"]: finding["value"]
        for finding in judge.judge()
        if finding.get("pair") == ["node1", "node2"]
    }
    assert values["latency"] == 0.1
    assert values["bandwidth"] == "not measured: iperf3: unable to send control message"
    assert blame(good) == {"node1 to node2": {"bandwidth"}, "node2 to node1": {"bandwidth"}}


def test_a_host_that_does_not_answer_in_the_program_is_named(good: Measured) -> None:
    job = {
        "excluded": {"node4": "Open MPI"},
        "answered": ["node1", "node2"],
        "trouble": "no end within its time limit",
    }
    assert blame(good, job) == {"node3": {"MPI"}, "node4": {"MPI"}}


def test_jobs_leave_out_who_cannot_take_part(good: Measured) -> None:
    good["node4"]["node"]["releases"]["openmpi"] = "4.1.4"
    good["node1"]["ssh"]["logins"]["node2"]["trouble"] = "Permission denied (publickey)."
    judge = judgement.Judge(good, WANTED, None)
    judge.judge()
    assert judge.excluded(["Open MPI", "ssh"]) == {
        "node4": "Open MPI",
        "node2": "ssh node1 to node2",
    }


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@", "the host key of b is not"),
        ("No ED25519 host key is known for b\nHost key verification failed.", "the host key of b"),
        ("trainer@b: Permission denied (publickey).", "b refuses the key of a"),
        ("ssh: Could not resolve hostname b: Name or service not known", "a does not know"),
        ("ssh: connect to host b port 22: Connection refused", "nothing listens"),
        ("ssh: connect to host b port 22: No route to host", "no answer from b"),
        ("no answer within 10 s", "no answer from b"),
        ("the moon is full", "the moon is full"),
    ],
)
def test_ssh_is_understood(said: str, meaning: str) -> None:
    assert judgement.ssh_trouble(said, "a", "b")[0].startswith(meaning)
