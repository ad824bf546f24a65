"""What the modules of a run write: its files on a node, and what is known of a failure."""

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from node import calls
from node.failure import VerbError
from node.forms import form
from node.runs import directory as training_node_directory
from node.runs import listing as training_node_runs
from node.runs.container import Start
from node.verbs import end, logs, poll, start

GIGABYTE = 10**9


@pytest.fixture
def options() -> dict[str, Any]:
    """Arguments of the verb `start`, as they come."""
    return {
        "run_id": "r",
        "home": "/home/ada/runs/r",
        "root": "/srv/runs",
        "uid": 2000,
        "gid": 2000,
        "files": {"config.json": {"seed": 1}},
        "address": "10.0.0.1",
        "port": 2222,
        "facts": {"host": "node1"},
        "secrets": {},
        "container": {
            "hostname": "node1",
            "user": "trainer",
            "image": "i",
            "data": "/data",
            "shm_gigabytes": "2",
        },
        "launch": {
            "command": "train",
            "nodes": ["node1", "node2"],
            "addresses": {"node1": "10.0.0.1", "node2": "10.0.0.2"},
            "ports": {"node1": 2222, "node2": 2222},
            "host_keys": {"node1": "ssh-ed25519 A", "node2": "ssh-ed25519 B"},
            "client_key": "ssh-ed25519 C",
            "slots": [1, 1],
            "cores": [2, 2],
            "gpus": 0,
            "threads": 0,
            "network": "",
            "interfaces": [],
            "start_seconds": 180,
            "stall_seconds": 50,
            "silence_seconds": 600,
            "grace_seconds": 30,
            "copy_megabytes": 100,
            "job_seconds": 0,
            "dataset": "cifar10",
            "batch_per_rank": 64,
            "project": False,
            "program_per": "rank",
            "bench": {"models": ["vit"], "rounds": 5, "seconds": 5},
            "bf16": False,
            "profile": {"backend": "gloo", "mca": {"pml": "ob1"}},
            "without_spare_core": {},
            "mca": {"btl": "self,tcp"},
            "environment": {"FLAG": "x"},
        },
    }


def asked(options: dict[str, Any]) -> Start:
    """What the verb gets of them."""
    found: Start = form(Start, options)
    return found


def test_the_launcher_gets_the_arguments_of_mpirun_a_line_each(options: dict[str, Any]) -> None:
    files = start.files_for(asked(options))
    arguments = files["mpirun.arguments"].splitlines()
    assert arguments[-1] == "/opt/trainyard/bin/rank"
    assert arguments[arguments.index("pml") - 1 : arguments.index("pml") + 2] == [
        "--mca",
        "pml",
        "ob1",
    ]
    assert "FLAG=x" in arguments


@pytest.mark.parametrize("name", ["eth0\n--mca", "eth0,lo", "eth0 lo", "", "a" * 16])
def test_what_a_node_says_of_its_interface_is_no_argument(
    name: str, options: dict[str, Any]
) -> None:
    options["launch"] |= {"network": "10.0.0.0/24", "interfaces": [name]}
    arguments = start.files_for(asked(options))["mpirun.arguments"].splitlines()
    place = arguments.index("prte_if_include")
    assert arguments[place : place + 4] == [
        *("prte_if_include", "10.0.0.0/24"),
        *("--mca", "btl_tcp_if_include"),
    ]
    options["launch"]["interfaces"] = ["enp3s0.7"]
    assert "enp3s0.7" in start.files_for(asked(options))["mpirun.arguments"].splitlines()


@pytest.mark.parametrize(("project", "expected"), [(True, (0, 600, 30)), (False, (180, 0, 0))])
def test_a_project_is_watched_in_its_own_way(
    project: bool, expected: tuple[int, ...], options: dict[str, Any], tmp_path: Path
) -> None:
    options["container"]["memory_gigabytes"] = 0.0
    options["launch"]["project"] = project
    directory = training_node_directory.RunDirectory(str(tmp_path), "r")
    environment = start.container_for(asked(options), directory).environment()
    names = ("START_SECONDS", "SILENCE_SECONDS", "GRACE_SECONDS")
    assert tuple(environment[f"TRAINYARD_{name}"] for name in names) == expected


def test_a_part_of_a_node_has_a_part_of_its_memory_and_cores(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "memory_bytes", lambda: 100 * 2**30)
    monkeypatch.setattr("node.verbs.start.os.sched_getaffinity", lambda pid: range(6))
    directory = training_node_directory.RunDirectory(str(tmp_path), "r")

    def limits(part: float, gigabytes: float | None) -> tuple[int, float]:
        options["container"] |= {"part": part, "memory_gigabytes": gigabytes}
        container = start.container_for(asked(options), directory)
        return container.memory_bytes // 2**20, container.cores

    # The node keeps a twentieth, whoever has the rest.
    assert limits(1.0, None) == (95 * 1024, 0)
    assert limits(0.25, None) == (95 * 256, 1.5)
    assert limits(0.25, 40.0) == (10 * 1024, 1.5)
    assert limits(0.25, 0.0) == (0, 1.5)


def test_the_other_nodes_get_none(options: dict[str, Any]) -> None:
    options["container"]["hostname"] = "node2"
    assert sorted(start.files_for(asked(options))) == [
        "config.json",
        "hostfile",
        "ssh/authorized_keys",
        "ssh/config",
        "ssh/known_hosts",
        "ssh/sshd_config",
    ]


def test_secrets_have_a_file_of_their_own_without_what_is_empty(options: dict[str, Any]) -> None:
    options["secrets"] = {"KEY": "k", "MODE": "", "PROJECT": None}
    assert start.files_for(asked(options))["environment"] == "KEY=k\n"
    options["secrets"] = {"KEY": "two\nlines"}
    with pytest.raises(VerbError) as raised:
        start.files_for(asked(options))
    assert (raised.value.code, raised.value.values) == ("secret_of_lines", {"name": "KEY"})


def test_a_full_disk_is_told_and_no_memory_that_others_ran_out_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(end, "lacks_inodes", lambda directory: False)
    monkeypatch.setattr(end, "free_bytes", lambda directory: GIGABYTE)
    assert end.machine_findings("/srv/runs") == []
    monkeypatch.setattr(end, "free_bytes", lambda directory: 999_999)
    values = {"path": "/srv/runs", "bytes": 999_999}
    assert end.machine_findings("/srv/runs") == [{"code": "node_disk_full", "values": values}]
    monkeypatch.setattr(end, "lacks_inodes", lambda directory: True)
    found = {"code": "node_inodes_used_up", "values": {"path": "/srv/runs"}}
    assert end.machine_findings("/srv/runs") == [found]


@pytest.mark.parametrize(
    ("state", "noted", "killed"),
    [
        ({"Running": True, "ExitCode": 0, "OOMKilled": False}, False, False),
        ({"Running": False, "ExitCode": 137, "OOMKilled": False}, False, True),
        # The launch had ended before somebody killed what was left of it.
        ({"Running": False, "ExitCode": 137, "OOMKilled": False}, True, False),
        ({"Running": False, "ExitCode": 1, "OOMKilled": True}, False, False),
    ],
)
def test_what_the_state_of_a_container_tells(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    state: dict[str, Any],
    noted: bool,
    killed: bool,
) -> None:
    details = {"State": state, "HostConfig": {"Memory": 1}}
    monkeypatch.setattr(end, "inspect", lambda container: details)
    if noted:
        metrics_of(tmp_path).with_name("exit_status").write_text("0\n")
    assert end.was_killed("c", str(tmp_path)) is killed
    found = [entry["code"] for entry in end.memory_findings("c")]
    assert found == (["container_out_of_memory"] if state["OOMKilled"] else [])
    details["HostConfig"]["Memory"] = 0
    found = [entry["code"] for entry in end.memory_findings("c")]
    assert found == (["node_out_of_memory"] if state["OOMKilled"] else [])


def test_a_container_that_is_gone_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end, "inspect", lambda container: None)
    assert not end.was_killed("c", "/nowhere")
    assert not end.memory_findings("c")


def metrics_of(directory: Path) -> Path:
    """Where the ranks of a run write their metrics."""
    work = directory / "work"
    work.mkdir(exist_ok=True)
    return work / "metrics.jsonl"


def trainers_line(event: str, step: int) -> str:
    """A line as the trainer writes it."""
    numbers = dict.fromkeys(("loss", "accuracy", "images_per_second", "lr"))
    return json.dumps(
        {"event": event, "time": 1.0, "step": step, "steps": 4, "epoch": 1, "epochs": 1, **numbers}
    )


def test_the_end_compares_the_gpus_with_what_was_noted_at_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def gpu_faults(before: list[dict[str, Any]], since: float) -> list[tuple[str, dict[str, Any]]]:
        asked.append((before, since))
        return [("gpu_lost", {"gpu": 1, "model": "A100", "message": "GPU is lost"})]

    monkeypatch.setattr(end, "gpu_faults", gpu_faults)
    directory = training_node_directory.RunDirectory(str(tmp_path), "r")
    # Of a run that never began nothing is noted.
    assert end.faults_of_gpus(directory, "node1") == []
    facts = Path(directory.records("node1"), "facts.json")
    facts.parent.mkdir(parents=True)
    facts.write_text("{")  # of a full disk
    assert end.faults_of_gpus(directory, "node1") == []
    facts.write_text(json.dumps({"gpu_devices": [{"index": 1}]}))
    assert end.faults_of_gpus(directory, "node1") == [
        {"code": "gpu_lost", "values": {"gpu": 1, "model": "A100", "message": "GPU is lost"}}
    ]
    assert [before for before, _ in asked] == [[{"index": 1}]]


def test_a_follower_gets_the_newest_step_in_its_place(tmp_path: Path) -> None:
    """It writes what it gets into a file that is to be that of the run."""
    events = ["start", "step", "step", "epoch", "end"]
    lines = [trainers_line(event, step) for step, event in enumerate(events)]
    metrics_of(tmp_path).write_text("\n".join([*lines, '{"event": "half of a li']))
    assert [line["step"] for line in poll.read_metrics(str(tmp_path))] == [0, 2, 3, 4]


def test_lines_that_no_trainer_wrote_are_passed_over(tmp_path: Path) -> None:
    file = metrics_of(tmp_path)
    step = trainers_line("step", 1).encode()
    deep = b"[" * 100_000
    file.write_bytes(b"\n".join([b"7", b"[1]", b"{}", b"\xff", b"{", step, deep, b""]))
    assert [line["step"] for line in poll.read_metrics(str(tmp_path))] == [1]
    # make status looks at the last line alone.
    assert training_node_runs.newest_of(training_node_runs.metrics_of(str(tmp_path))) is None
    file.write_bytes(b"{\n" + step + b"\n")
    assert training_node_runs.newest_of(training_node_runs.metrics_of(str(tmp_path))) == json.loads(
        step
    )


def test_of_another_program_a_follower_gets_the_newest_of_each_key(tmp_path: Path) -> None:
    """Each where it belongs: the accuracy is that of step 2, and no epoch is made up for step 3."""
    lines = [
        {"step": 1, "loss": 0.9, "val/acc": 0.1},
        {"epoch": 1, "event": "epoch", "note": "a word", "step": 2, "val/acc": 0.5},
        {"step": 3, "steps": 9, "loss": 0.7, "flag": True, "deep": {"a": 1}},
    ]
    metrics_of(tmp_path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert poll.read_metrics(str(tmp_path)) == [
        {"epoch": 1, "step": 2, "val/acc": 0.5},
        {"step": 3, "steps": 9, "loss": 0.7},
    ]


def test_what_another_program_writes_is_brought_within_limits(tmp_path: Path) -> None:
    unfit = {"l" * 65: 1, "": 1, "\x1b[2J": 1, "huge": 10**400, "text": "3", "deep": [1]}
    unfit |= {"none": float("nan"), "infinite": float("inf"), "less": float("-inf"), "loss": 1.5}
    metrics_of(tmp_path).write_text(json.dumps(unfit) + "\n")
    assert poll.read_metrics(str(tmp_path)) == [{"loss": 1.5}]
    many = {f"key {number}": float(number) for number in range(500)}
    metrics_of(tmp_path).write_text(json.dumps(many) + "\n" + json.dumps(unfit) + "\n")
    brought = poll.read_metrics(str(tmp_path))
    keys = [key for line in brought for key in line]
    assert len(keys) == poll.MOST_KEYS
    assert keys[-1] == "loss"
    assert all(key.startswith("key ") for key in keys[:-1])


def test_a_follower_gets_the_silences(tmp_path: Path) -> None:
    assert poll.read_silences(str(tmp_path)) == []
    file = metrics_of(tmp_path).with_name("silences.jsonl")
    silence = b'{"time": 1.5, "seconds": 600, "text": "\\u001b[2J"}\n'
    file.write_bytes(silence + b'[\n7\n{"time": 1}\n{"time": 1, "seconds": NaN}\n{"time')
    assert poll.read_silences(str(tmp_path)) == [{"seconds": 600, "time": 1.5}]
    file.write_bytes(silence * 10_000)
    assert len(poll.read_silences(str(tmp_path))) == poll.MOST_SILENCES
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert poll.read_silences(str(tmp_path)) == []


@pytest.mark.parametrize(("text", "noted"), [("7\n", 7), ("done\n", None), ("", None)])
def test_a_status_is_a_number(tmp_path: Path, text: str, noted: int | None) -> None:
    metrics_of(tmp_path).with_name("exit_status").write_text(text)
    assert poll.noted_status(str(tmp_path)) is noted


def test_a_follower_gets_what_is_new_in_the_log_of_rank_0(tmp_path: Path) -> None:
    run = str(tmp_path)
    assert poll.new_output(run, 0) == {"offset": 0, "end": 0, "text": ""}
    log = tmp_path / "work" / "logs" / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes("caf\u00e9".encode()[:-1])
    # Half a character is left for the next time.
    assert poll.new_output(run, 0) == {"offset": 0, "end": 3, "text": "caf"}
    log.write_bytes("caf\u00e9 \x1b[1m".encode() + b"\xff\n")
    assert poll.new_output(run, 3) == {"offset": 3, "end": 12, "text": "\u00e9 \x1b[1m\ufffd\n"}
    assert poll.new_output(run, 12)["text"] == ""
    # Another file in its place.
    assert poll.new_output(run, 13)["offset"] == 0
    with log.open("ab") as file:
        file.write(b"x" * 2 * poll.OUTPUT_BYTES)
    found = poll.new_output(run, 12)
    assert (found["offset"], len(found["text"])) == (12 + poll.OUTPUT_BYTES, poll.OUTPUT_BYTES)


def test_the_logs_of_many_ranks_fit_into_one_answer(tmp_path: Path) -> None:
    folder = tmp_path / "a_run/work/logs"
    folder.mkdir(parents=True)
    for rank in range(16):
        # Each byte is six in the answer.
        (folder / f"rank-{rank}.log").write_bytes(b"\xff" * logs.MOST_BYTES)
    asked = {"directory": str(tmp_path / "a_run"), "whole": True}
    request = json.dumps({"verb": "logs", "arguments": asked}).encode()
    answer = json.loads(calls.answer(io.BytesIO(request)))["answer"]
    assert len(answer["logs"]) == 16
    assert all(piece["end"] == logs.MOST_BYTES for piece in answer["logs"].values())


def test_a_look_ends_when_rank_0_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "is_gone", lambda container: False)
    log = tmp_path / "work" / "logs" / "rank-0.log"
    log.parent.mkdir(parents=True)
    monkeypatch.setattr(time, "sleep", lambda seconds: log.write_bytes(b""))
    assert poll.wait_for_end(str(tmp_path), "c", 3600) is None


def test_of_a_run_that_prints_a_follower_hears_more_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    monkeypatch.setattr(poll, "wait_for_end", lambda run, name, seconds: waits.append(seconds))
    monkeypatch.setattr(poll, "age", lambda run: 3600.0)
    run = tmp_path / "a_run"
    log = run / "work" / "logs" / "rank-0.log"
    log.parent.mkdir(parents=True)
    (run / "config").mkdir()
    (run / "config" / "run.json").write_text("{}")
    log.write_bytes(b"rank 0\n")
    for offset in (0, 7):
        poll.poll(str(run), 10.0, offset)
    assert waits == [5.0, 10.0]
