"""Two runs on one node: which GPUs and which port each gets, and who is refused with whose name."""

import json
import multiprocessing
import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from node_program import answered
from role_files import action_plugin

from node.calls import CallError
from node.check.gpu_fit import GpuFit
from node.machine import gpus as training_node_gpus
from node.runs import allocation as training_node_parts
from node.runs import listing as training_node_runs
from node.runs import lock as training_node_lock
from node.verbs import clean_up, logs, probe, reserve, start, take

plugin = action_plugin("training_node", "training_node_take")

GPUS = [{"index": index, "uuid": f"GPU-{index}"} for index in range(4)]
# Of the run that takes a node in these tests, what it finds there.
WANTED = take.Wanted(gpus=2, idle=GPUS, count=4, address="127.0.0.1", port=0, ports=4)
WHOLE = replace(WANTED, gpus=0)
RUNNING = {"State": {"Status": "running", "Running": True}}
ENDED = {"State": {"Status": "exited", "Running": False}}


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """States of containers of runs, by the run; what is not named has none yet."""
    states: dict[str, Any] = {}

    def inspect(name: str) -> Any:
        return states.get(name.removeprefix("trainyard-"))

    monkeypatch.setattr(training_node_lock, "inspect", inspect)
    monkeypatch.setattr(take, "containers", lambda label: [])
    return states


@pytest.fixture
def ports() -> int:
    """The first of four ports that nobody listens on."""
    for first in range(42000, 43000, 4):
        if all(training_node_parts.can_listen("127.0.0.1", first + each) for each in range(4)):
            return first
    raise AssertionError("no four ports are free")


@pytest.fixture
def wanted(ports: int) -> Any:
    return replace(WANTED, port=ports)


def lock_of(run: str, **changes: Any) -> dict[str, Any]:
    """The lock of a run that begins now, without what it finds."""
    return {
        **{"run": run, "owner": "ada@control", "home": f"/home/ada/runs/{run}", "nodes": ["node1"]},
        **{"host": "node1", "since": 0.0, "begun": training_node_lock.since_boot()},
        **changes,
    }


def taken(root: Path, run: str, wanted: Any, **changes: Any) -> tuple[list[int], Any]:
    """Take the node, which must be possible; return numbers of GPUs and port."""
    lock, problems = take.take_lock(str(root), lock_of(run, **changes), wanted, 0)
    assert problems == []
    return [gpu["index"] for gpu in lock.get("gpus", [])], lock["port"]


def refused(root: Path, run: str, wanted: Any, **changes: Any) -> list[str]:
    """Try to take the node, which must fail; return what was said."""
    before = training_node_lock.read(str(root))
    _, problems = take.take_lock(str(root), lock_of(run, **changes), wanted, 0)
    assert training_node_lock.read(str(root)) == before
    assert problems
    return [problem.text for problem in problems]


def holding(root: Path) -> dict[str, list[int]]:
    """Numbers of the GPUs that each run holds; none of one that has the node."""
    return {
        lock["run"]: [gpu["index"] for gpu in training_node_lock.gpus_of(lock)]
        for lock in training_node_lock.read(str(root))
    }


@pytest.mark.usefixtures("states")
def test_two_runs_share_a_node_and_a_third_is_told_of_both(
    tmp_path: Path, wanted: Any, ports: int
) -> None:
    assert taken(tmp_path, "b", wanted) == ([0, 1], ports)
    assert taken(tmp_path, "a", replace(wanted, gpus=1)) == ([2], ports + 1)
    few, one, other = refused(tmp_path, "c", wanted)
    assert few.startswith("free GPUs: 1 of 4; asked for: 2: wait for the runs on it")
    assert one.startswith("its GPUs 0, 1 are held by run b of ada@control since 1970-01-01")
    assert other.startswith("its GPUs 2 are held by run a of ada@control since ")
    assert taken(tmp_path, "c", replace(wanted, gpus=1)) == ([3], ports + 2)


@pytest.mark.usefixtures("states")
def test_a_whole_node_and_a_part_of_it_keep_each_other_away(tmp_path: Path, wanted: Any) -> None:
    taken(tmp_path, "part", replace(wanted, gpus=1))
    (text,) = refused(tmp_path, "whole", replace(wanted, gpus=0))
    assert text.startswith("it was taken by run part of ada@control since ")
    training_node_lock.release(str(tmp_path), lock_of("part"))
    assert taken(tmp_path, "whole", replace(wanted, gpus=0)) == ([], wanted.port)
    (text,) = refused(tmp_path, "part", wanted)
    assert text.startswith("it was taken by run whole of ada@control since ")


def test_a_dead_run_gives_its_gpus_and_the_live_one_keeps_its_own(
    tmp_path: Path, states: dict[str, Any], wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken(tmp_path, "dies", wanted)
    taken(tmp_path, "lives", wanted)
    states |= {"dies": ENDED, "lives": RUNNING}
    cleared: list[str] = []

    def containers(label: str) -> list[Any]:
        cleared.append(label)
        return []

    monkeypatch.setattr(take, "containers", containers)
    assert taken(tmp_path, "next", replace(wanted, gpus=1))[0] == [0]
    assert holding(tmp_path) == {"lives": [2, 3], "next": [0]}
    assert cleared == ["trainyard.run=dies"]


@pytest.mark.usefixtures("states")
def test_a_run_that_has_no_container_in_time_is_dead(tmp_path: Path, wanted: Any) -> None:
    begun = training_node_lock.since_boot() - training_node_lock.GRACE - 1
    taken(tmp_path, "never", wanted, begun=begun)
    assert taken(tmp_path, "next", wanted)[0] == [0, 1]
    assert holding(tmp_path) == {"next": [0, 1]}


@pytest.mark.usefixtures("states")
def test_the_next_attempt_of_a_run_may_get_other_gpus(tmp_path: Path, wanted: Any) -> None:
    taken(tmp_path, "other", replace(wanted, gpus=1))
    assert taken(tmp_path, "run", wanted)[0] == [1, 2]
    training_node_lock.release(str(tmp_path), lock_of("other"))
    assert taken(tmp_path, "run", wanted)[0] == [0, 1]
    assert holding(tmp_path) == {"run": [0, 1]}


@pytest.mark.usefixtures("states")
def test_a_run_of_the_same_id_from_elsewhere_is_refused(tmp_path: Path, wanted: Any) -> None:
    """Both would have one directory on the node."""
    taken(tmp_path, "run", wanted)
    (text,) = refused(tmp_path, "run", wanted, home="/home/eve/runs/run")
    assert text.startswith("it was taken by run run of ada@control")


@pytest.mark.usefixtures("states")
def test_a_port_that_somebody_listens_on_is_passed_over(tmp_path: Path, wanted: Any) -> None:
    with socket.create_server(("127.0.0.1", wanted.port)):
        assert taken(tmp_path, "run", wanted)[1] == wanted.port + 1
        assert taken(tmp_path, "one", replace(wanted, gpus=1))[1] == wanted.port + 2
        (text,) = refused(tmp_path, "two", replace(wanted, gpus=1, ports=3))
    assert f"none of the ports {wanted.port} to {wanted.port + 2} of 127.0.0.1" in text


def launches(root: str, run: str, wanted: Any, results: Any) -> None:
    lock, problems = take.take_lock(root, lock_of(run), wanted, 0)
    found = ([gpu["index"] for gpu in lock.get("gpus", [])], lock.get("port"))
    results.put((run, found, [problem.code for problem in problems]))


@pytest.mark.process
@pytest.mark.usefixtures("states")
def test_of_launches_at_the_same_instant_no_two_get_a_gpu(
    tmp_path: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    can_listen = training_node_parts.can_listen

    def slowly(address: str, port: int) -> bool:
        time.sleep(0.05)
        return bool(can_listen(address, port))

    # Between the look and the lock there is time for all of them.
    monkeypatch.setattr(training_node_parts, "can_listen", slowly)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    arguments = [(str(tmp_path), f"run{number}", wanted, results) for number in range(6)]
    processes = [context.Process(target=launches, args=each) for each in arguments]
    for process in processes:
        process.start()
    said = [results.get(timeout=30) for _ in processes]
    for process in processes:
        process.join()
    had = [found for _, found, problems in said if not problems]
    assert sorted(gpus for gpus, _ in had) == [[0, 1], [2, 3]]
    assert len({port for _, port in had}) == 2
    assert [problems[0] for *_, problems in said if problems] == ["gpus_too_few"] * 4
    assert len(holding(tmp_path)) == 2


@pytest.mark.usefixtures("states")
def test_the_older_launch_waits_for_the_younger_which_gives_back(
    tmp_path: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken(tmp_path, "2-younger", replace(wanted, gpus=3))
    _, problems = take.take_lock(str(tmp_path), lock_of("3-youngest"), wanted, 60)
    assert problems

    def gives_back(seconds: float) -> None:
        training_node_lock.release(str(tmp_path), lock_of("2-younger"))

    monkeypatch.setattr("node.verbs.take.time.sleep", gives_back)
    assert take.take_lock(str(tmp_path), lock_of("1-older"), wanted, 60)[1] == []
    # A run that goes on gives nothing back, and nobody waits for it.
    monkeypatch.setattr("node.verbs.take.time.sleep", lambda seconds: pytest.fail("it waits"))
    training_node_lock.release(str(tmp_path), lock_of("1-older"))
    begun = training_node_lock.since_boot() - 60
    taken(tmp_path, "2-younger", replace(wanted, gpus=3), begun=begun)
    assert take.take_lock(str(tmp_path), lock_of("1-older"), wanted, 60)[1]


def test_what_goes_on_is_told_from_what_is_left(
    tmp_path: Path, states: dict[str, Any], wanted: Any
) -> None:
    for run in ("bench-1", "bench-2"):
        (tmp_path / run).mkdir()
    taken(tmp_path, "bench-1", wanted)
    states["bench-1"] = {"State": {"Running": True, "Status": "running"}}
    kept = {entry["name"]: entry["kept"] for entry in clean_up.runs(str(tmp_path))}
    assert kept == {"bench-1": "goes_on", "bench-2": "not_home"}


@pytest.mark.usefixtures("states")
def test_a_node_that_a_run_of_an_older_version_holds_is_held(tmp_path: Path, wanted: Any) -> None:
    (tmp_path / ".lock").write_text(json.dumps(lock_of("old")))
    (text,) = refused(tmp_path, "new", wanted)
    assert text.startswith("it was taken by run old of ada@control")


def test_a_run_ends_beside_another(tmp_path: Path, states: dict[str, Any], wanted: Any) -> None:
    run, other = lock_of("run"), lock_of("other")
    for lock in (run, other):
        taken(tmp_path, lock["run"], wanted)
    states |= {"run": RUNNING, "other": RUNNING}
    assert start.may_start(str(tmp_path), run)
    held = training_node_lock.own(str(tmp_path), run) or {}
    training_node_lock.put(str(tmp_path), {**held, "ending": 1})
    assert not start.may_start(str(tmp_path), run)
    assert start.may_start(str(tmp_path), other)
    training_node_lock.release(str(tmp_path), run)
    assert holding(tmp_path) == {"other": [2, 3]}
    training_node_lock.release(str(tmp_path), other)
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("states")
def test_the_logs_of_a_run_are_over_when_it_has_ended(
    tmp_path: Path, states: dict[str, Any], wanted: Any
) -> None:
    for run in ("a", "b"):
        taken(tmp_path, run, replace(wanted, gpus=1))
        states[run] = RUNNING
    over = [logs.is_over(str(tmp_path / run)) for run in ("a", "b", "c")]
    assert over == [False, False, True]
    states["a"] = ENDED
    assert [logs.is_over(str(tmp_path / run)) for run in ("a", "b")] == [True, False]


@pytest.mark.usefixtures("states")
def test_a_node_that_is_worked_on_is_held_and_one_in_part_use_is_not_worked_on(
    tmp_path: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "containers", lambda label: [])
    taken(tmp_path, "run", wanted)
    reboot = {**lock_of("reboot"), "home": ""}
    hindrance = reserve.put_lock(str(tmp_path), reboot)
    assert hindrance is not None
    assert hindrance.text.startswith("it is held by run run of ada")
    asked: dict[str, Any] = {
        "purpose": "reboot",
        "owner": "ada@control",
        "host": "node1",
        "root": str(tmp_path),
    }
    with pytest.raises(CallError) as refusal:
        answered("reserve", **asked)
    said = action_plugin("training_node", "training_node").refusal("node1", refusal.value.values)
    assert said["msg"] == f"node1: no reboot, because {hindrance.text}"
    assert said["problems"] == [{"host": "node1", **hindrance.asdict()}]
    training_node_lock.release(str(tmp_path), lock_of("run"))
    assert reserve.put_lock(str(tmp_path), reboot) is None
    assert reserve.put_lock(str(tmp_path), reboot) is None
    (text,) = refused(tmp_path, "run", wanted)
    assert text.startswith("it was taken by run reboot of ada@control")


@pytest.mark.usefixtures("states")
def test_the_status_tells_which_gpus_a_run_holds(
    tmp_path: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_node_runs, "containers", lambda *asked: [])
    for run in ("a", "b"):
        taken(tmp_path, run, wanted)
    told = training_node_runs.runs_of(str(tmp_path), "node1")
    assert [(entry["run"], entry["gpus"]) for entry in told] == [("a", [0, 1]), ("b", [2, 3])]


def test_cores_are_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.verbs.take.os.sched_getaffinity", lambda pid: range(6))
    assert [take.cores_of(part) for part in (1, 0.5, 0.25, 0.1)] == [6, 3, 1, 1]
    assert (WANTED.part, WHOLE.part) == (0.5, 1.0)


TAKEN = {"gpus": GPUS[:1], "port": 2222, "part": 0.25, "cores": 1}
TAKEN |= {"host_key": "ssh-ed25519 AAA+/=", "client_key": "ssh-ed25519 BBB="}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "2222\nProxyCommand touch /tmp/x"),
        ("port", 70000),
        ("port", None),
        ("part", 0),
        ("part", "1"),
        ("cores", True),
        ("gpus", [{"index": "0", "uuid": "GPU-0"}]),
        ("gpus", None),
        ("host_key", "ssh-ed25519 AAAA\n* ssh-ed25519 EEEE"),
        ("host_key", "ssh-ed25519 AAAA\n"),
        ("host_key", "ssh-ed25519 AAAA root@node1"),
        ("client_key", "ssh-rsa AAAA"),
        ("client_key", "ssh-ed25519 AAAA\nssh-ed25519 EEEE"),
        ("client_key", None),
    ],
)
def test_what_a_node_says_of_its_part_has_a_form(name: str, value: Any) -> None:
    assert plugin.malformed(TAKEN) == ""
    assert plugin.malformed({**TAKEN, name: value}) == name


class Look:
    """A look at a node whose nvidia-smi and locks are given."""

    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        self.needs = probe.Needs(
            *("trainer:1", str(root), "", "127.0.0.1", port, 0, 0, 0, 0, 0),
            ports=4,
            transport="nccl",
            needs_gpu=True,
            gpus="all",
        )

    def codes(self, **changes: Any) -> tuple[list[str], list[int]]:
        """Codes of the problems with runs and GPUs, and numbers of the GPUs that may be taken."""
        needs = self.needs._replace(**changes)
        engine = probe.EngineAnswer()
        probe.ask_holder(needs, engine)
        fit = probe.look_for_gpus(needs, engine)
        problems = [*engine.problems, *fit.problems, *probe.port_problems(needs, engine)]
        return [problem.code for problem in problems], [gpu.index for gpu in fit.idle]


@pytest.fixture
def look(
    tmp_path: Path, states: dict[str, Any], ports: int, monkeypatch: pytest.MonkeyPatch
) -> Look:
    """Of four T4 somebody else's process computes on GPU 1."""

    def query(what: str, fields: tuple[str, ...], _: object = None) -> tuple[int, str]:
        if what == "compute-apps":
            return 0, "GPU-1, 71, /usr/bin/python3\nGPU-3, 72, /usr/bin/python3\n"
        told = "{0}, GPU-{0}, Tesla T4, 00000000:{0}0:00.0, 580.65.06, 15360, 40, 0, 7.5"
        return 0, "\n".join(map(told.format, range(4)))

    monkeypatch.setattr(training_node_gpus, "_query", query)
    monkeypatch.setattr(probe, "containers", lambda label: [])
    return Look(tmp_path, ports)


def test_a_look_for_some_gpus_finds_those_that_nobody_uses(look: Look, wanted: Any) -> None:
    assert look.codes() == (["gpu_busy", "gpu_busy"], [0, 2])
    assert look.codes(gpus_wanted=2) == ([], [0, 2])
    assert look.codes(gpus_wanted=3) == (["gpus_too_few", "gpu_busy", "gpu_busy"], [0, 2])
    assert look.codes(gpus_wanted=5)[0][0] == "gpus_lacking"
    assert look.codes(gpus_wanted=1, gpus="3,2") == ([], [2])
    assert look.codes(gpus_wanted=1, gpus="") == (["gpu_not_given", "gpus_lacking"], [])


def test_what_computes_on_the_gpus_of_another_run_is_no_stranger(look: Look, wanted: Any) -> None:
    idle = [gpu for gpu in GPUS if gpu["index"] in (1, 3)]
    taken(look.root, "other", replace(wanted, idle=idle))
    assert look.codes(gpus_wanted=2) == ([], [0, 2])
    assert look.codes(gpus_wanted=3) == (["gpus_too_few", "gpus_held"], [0, 2])
    assert look.codes() == (["held"], [0, 2])
    training_node_lock.release(str(look.root), lock_of("other"))
    taken(look.root, "whole", replace(wanted, gpus=0))
    assert look.codes(gpus_wanted=2)[0] == ["held"]


def test_the_ranks_of_a_run_that_has_the_node_are_no_strangers(look: Look, wanted: Any) -> None:
    """The processes on GPU 1 and 3 are its own: nobody is told to kill them."""
    taken(look.root, "whole", replace(wanted, gpus=0))
    assert look.codes()[0] == ["held"]
    assert look.codes(gpus_wanted=3)[0] == ["held"]


@pytest.mark.parametrize("processor", [True, False])
def test_the_gpus_decide_the_precision_of_a_run_that_has_some(
    processor: bool, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "multiplies_bf16", lambda: processor)
    fit = probe.look_for_gpus(look.needs, probe.EngineAnswer())
    assert not probe.computes_in_bf16(fit), "a T4 does not multiply it"
    newer = [replace(gpu, capability="9.0") for gpu in fit.gpus]
    assert probe.computes_in_bf16(replace(fit, gpus=newer))
    older = [*newer[:3], replace(newer[3], capability="", trouble="Unknown Error")]
    assert probe.computes_in_bf16(replace(fit, gpus=older)), "one that is lost"
    assert probe.computes_in_bf16(GpuFit()) == processor


def test_a_container_without_a_lock_holds_the_node(
    look: Look, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = [{"State": "running", "Labels": {"trainyard.run": "other"}}]
    monkeypatch.setattr(probe, "containers", lambda label: running)
    assert look.codes(gpus_wanted=2)[0] == ["held_by_container"]
    assert look.codes(gpus_wanted=3)[0] == ["held_by_container"]
    assert look.codes()[0] == ["held_by_container"]
    taken(look.root, "other", replace(wanted, gpus=1))
    assert look.codes(gpus_wanted=1)[0] == []


def test_a_look_finds_no_port(look: Look) -> None:
    with socket.create_server(("127.0.0.1", look.needs.port)):
        assert look.codes(gpus_wanted=1) == ([], [0, 2])
        assert look.codes(gpus_wanted=1, ports=1)[0] == ["ports_taken"]


def test_of_a_node_its_runs_are_told_and_why_no_others_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, mark = training_node_runs.runs_and_trouble, tmp_path / training_node_runs.DRAINED
    lock = {"owner": "ada@desk", "since": 1.0, "home": "/home/ada/runs/r", "nodes": ["a", "b"]}
    monkeypatch.setattr(training_node_runs, "containers", lambda *_: [])
    monkeypatch.setattr(training_node_runs, "read", lambda root: [{"run": "r", **lock}])
    monkeypatch.setattr(training_node_runs, "is_live", lambda lock: True)
    runs, trouble = told(str(tmp_path), "a")
    assert trouble is None
    assert [{name: run[name] for name in ("run", *lock)} for run in runs] == [{"run": "r", **lock}]
    mark.write_bytes(b"its disk is \xff replaced\n")
    why = {"path": str(mark), "reason": "its disk is \ufffd replaced"}
    assert told(str(tmp_path), "a") == (runs, {"code": "drained", "values": why})
    gone = str(tmp_path / "gone")
    assert told(gone, "a") == ([], {"code": "no_directory", "values": {"path": gone}})
