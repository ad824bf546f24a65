"""The verbs of `make verify`, asked as the role asks them."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from node.calls import answer
from node.check import paths
from node.failure import VerbError

THRESHOLDS = {
    "same_releases": ["docker"],
    # From a command line numbers come as text.
    "clock_seconds": "1.0",
    "bandwidth_gigabits": 1,
    "latency_milliseconds": 10,
    "loss_percent": 1,
    "allreduce_gigabits": 1,
    "gpu_slowness": 1.15,
}


def ask(verb: str, **arguments: Any) -> dict[str, Any]:
    """What a machine answers."""
    request = json.dumps({"verb": verb, "arguments": arguments}).encode()
    document: dict[str, Any] = json.loads(answer(io.BytesIO(request)))
    return document


FIT = {"checks": [], "run": "", "image_id": "sha256:1", "address": "10.0.0.1", "hardware": {}}


def judged(**more: Any) -> dict[str, Any]:
    """What is said of two nodes, of which one cannot be reached."""
    return ask(
        "verdict",
        hosts=["node1", "node2"],
        probes=[{"answer": FIT}, {"unreachable": True, "msg": "Connection timed out"}],
        nodes=[{"answer": {"checks": [], "releases": {"docker": "26"}}}, {"skipped": True}],
        logins=[{"skipped": True}, {"skipped": True}],
        pairs=[{}, {}],
        thresholds=THRESHOLDS,
        **more,
    )


def test_the_verdict_so_far_says_who_stays_out_and_writes_nothing() -> None:
    told = judged()
    assert told["changed"] is False
    assert told["answer"]["ok"] is False
    assert told["answer"]["unfit_for_jobs"] == {"node2": "reachable"}
    assert told["answer"]["unfit_for_containers"] == {"node2": "reachable"}
    assert [line.split(":")[0] for line in told["answer"]["faults"]] == ["node2"]


def test_the_verdict_is_written_with_what_ran_over_all_nodes(tmp_path: Path) -> None:
    folder = tmp_path / "verify-1"
    out = {"node2": "reachable"}
    steps = [{"node1": {"failed": True, "msg": "no room"}, "node2": {}}]
    told = judged(
        program={"excluded": out, "result": {"stdout": "rank 0 of 1 on node1 is here\n"}},
        containers={"excluded": out, "steps": steps},
        transport={"name": "tcp", "rdma": "False"},
        directory=str(folder),
        began_at="1.5",
    )
    assert told["changed"] is True
    verdict = json.loads((folder / "verdict.json").read_text())
    assert verdict["began_at"] == 1.5
    codes = {(entry.get("host"), entry["code"]) for entry in verdict["checks"]}
    assert {("node2", "unreachable"), ("node1", "container_failed"), ("node2", "left_out")} <= codes
    assert list(json.loads((folder / "nodes.json").read_text())) == ["node1"]


@pytest.mark.process
def test_a_node_tells_of_names_and_addresses_that_are_wrong() -> None:
    expected = {"names": {"localhost": "192.0.2.1"}, "shm_gigabytes": 0, "gpu": "no"}
    more = {"network": "10.0.0.0/24", "gpu_celsius": 85}
    found = ask("describe", address="192.0.2.7", **expected, **more)["answer"]
    assert found["port"] == 0
    bad = {check["code"]: check for check in found["checks"] if not check["ok"]}
    assert set(bad) == {"wrong_name", "wrong_address"}
    assert bad["wrong_name"]["values"] == {"name": "localhost"}
    assert "does not have" in bad["wrong_address"]["value"]


def test_without_the_account_nobody_logs_in() -> None:
    with pytest.raises(VerbError) as caught:
        ask("log_in", user="nobody-of-this-name", peers=["node2"], seconds=1)
    assert "run make setup" in caught.value.values["message"]


@pytest.mark.parametrize(
    "said", ["x", 3, [1], {"node1": 3}, {"node1": {"bits_per_second": [1, 2]}}, {"node1": {}}]
)
@pytest.mark.parametrize("part", ["probes", "nodes", "pairs", "matches", "greetings"])
def test_a_node_that_answers_anything_ends_no_check_of_the_others(
    part: str, said: Any, tmp_path: Path
) -> None:
    node = {"checks": [], "releases": {}, "gpus": [], "nodename": "n"}
    pairs: dict[str, Any] = {"greetings": {}, "matches": {}}
    parts: dict[str, Any] = {"probes": FIT, "nodes": node, "pairs": pairs}
    good = {name: {"answer": answer} for name, answer in parts.items()}
    parts = {**parts, "pairs": {**pairs, part: said}} if part in pairs else {**parts, part: said}
    told = ask(
        "verdict",
        hosts=["node1", "node2"],
        **{name: [good[name], {"answer": parts[name]}] for name in parts},
        logins=[{"skipped": True}, {"skipped": True}],
        thresholds=THRESHOLDS,
        directory=str(tmp_path),
    )
    assert told["answer"]["ok"] is False
    assert (tmp_path / "nodes.json").is_file()


def test_what_the_containers_of_others_run_under_the_same_number_is_not_stray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespaces = {os.getpid(): "pid:[1]", 7: "pid:[1]", 8: "pid:[2]", 9: ""}
    monkeypatch.setattr(paths, "_processes_of", lambda uid: [7, 8, 9])
    monkeypatch.setattr(paths, "_namespace", namespaces.__getitem__)
    monkeypatch.setattr(paths, "_command", "process {}".format)
    ours = {"Labels": {}, "Image": "trainyard/trainer:1", "Names": ["/trial"]}
    theirs = {"Labels": {}, "Image": "postgres:17", "Names": ["/database"]}
    of_a_run = {**ours, "Labels": {"trainyard.run": "a"}, "Names": ["/a"]}
    found = paths.strays(2000, [ours, theirs, of_a_run])
    assert [(entry.code, entry.values) for entry in found] == [
        ("stray_process", {"command": "process 7", "pid": 7}),
        ("stray_container", {"name": "trial", "image": "trainyard/trainer:1"}),
    ]


@pytest.mark.process
def test_root_that_tries_a_folder_as_a_user_is_no_process_of_that_user() -> None:
    """As the look of another launch does it at the same moment."""
    uid = 61234
    program = "import os, sys\nos.{}({})\nprint(flush=True)\nsys.stdin.read()"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program.format(call, uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for call in ("seteuid", "setuid")
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        assert paths._processes_of(uid) == [started[1].pid]
        assert "\n" not in paths._command(started[1].pid)
    finally:
        for process in started:
            process.communicate()
