"""When a run counts as hanging, what is reported of it, and what a launch leaves about it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mpi_ranks import LAUNCH, MPIRUN_ARGUMENTS, PLACES_OF_PROGRAMS

from trainer.heartbeat import COMPUTES, WAITS, clock
from trainer.launch import hang_report, peers
from trainer.launch.beats import Beat, read_beat
from trainer.launch.processes import RankProcess, rank_processes
from trainer.launch.reports import collect_reports, read_report
from trainer.launch.settings import LaunchSettings, Limits
from trainer.launch.supervisor import TORCH_PORTS, meeting_point
from trainer.launch.watch import Watch
from trainer.mounts import Mount
from trainer.openmpi import RANK
from trainer.problems import SENTENCES, Problem

Validate = Callable[[Any, str], None]

BEGAN = 1000.0
HANG_REPORT = "/opt/trainyard/bin/hang-report"
# What a rank does in these tests.
BUSY = "while True: pass"
ASLEEP = "import time; time.sleep(600)"
# As the trainer does at its beginning; then it says that it is there.
BEGINS = "import faulthandler, signal; faulthandler.register(signal.SIGUSR1)\nprint(flush=True)\n"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    for name in ("ranks", "logs"):
        (tmp_path / name).mkdir()
    return tmp_path


def beat(run_dir: Path, rank: int, ago: float = 0.0, state: bytes = COMPUTES) -> None:
    """Leave a rank's sign of life, given so many seconds ago."""
    (run_dir / "ranks" / f"{rank}.beat").write_bytes(b"%b %.3f\n" % (state, clock() - ago))


@contextlib.contextmanager
def a_rank(program: str, rank: int = 0) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that looks like a rank from outside."""
    environment = {**os.environ, RANK: str(rank)}
    with subprocess.Popen(
        [sys.executable, "-c", BEGINS + program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            # For the import after that.
            time.sleep(0.3)
            yield process
        finally:
            process.kill()


def test_a_start_that_takes_too_long(run_dir: Path) -> None:
    watch = Watch(run_dir, Limits(start=60, stall=5), BEGAN)
    beat(run_dir, 0)
    assert watch.problem(BEGAN + 59) is None
    assert watch.problem(BEGAN + 60) == Problem("start_stalled", {"seconds": 60})


def test_one_rank_that_gets_on_is_enough(run_dir: Path) -> None:
    watch = Watch(run_dir, Limits(start=60, stall=5), BEGAN)
    (run_dir / "metrics.jsonl").touch()
    beat(run_dir, 0)
    beat(run_dir, 1)
    assert watch.problem(BEGAN + 100) is None
    # Kernels before 6.13 date files by a clock that ticks every 4 ms.
    time.sleep(0.02)
    beat(run_dir, 1)
    assert watch.problem(BEGAN + 103) is None
    assert watch.problem(BEGAN + 107) is None
    assert watch.problem(BEGAN + 108) == Problem("stalled", {"seconds": 5})


@pytest.mark.parametrize("step", [-3600, -60, 60, 3600])
def test_a_step_of_the_clock_neither_ends_a_run_nor_keeps_it(run_dir: Path, step: int) -> None:
    """Files are dated by a clock that was set between the begin and the first sign of life."""
    watch = Watch(run_dir, Limits(start=60, stall=5), BEGAN)
    dated = BEGAN + step
    for second in range(1, 20):
        (run_dir / "metrics.jsonl").touch()
        beat(run_dir, 0)
        for path in (run_dir / "metrics.jsonl", run_dir / "ranks/0.beat"):
            os.utime(path, (dated + second, dated + second))
        assert watch.problem(BEGAN + second) is None
    assert watch.problem(BEGAN + 23.9) is None
    assert watch.problem(BEGAN + 24) == Problem("stalled", {"seconds": 5})


@pytest.mark.parametrize("age", [-3600, 3600])
def test_files_of_an_earlier_launch_are_no_signs_of_life(run_dir: Path, age: int) -> None:
    metrics = run_dir / "metrics.jsonl"
    metrics.touch()
    beat(run_dir, 0)
    for path in (metrics, run_dir / "ranks/0.beat"):
        os.utime(path, (time.time() - age, time.time() - age))
    watch = Watch(run_dir, Limits(start=60, stall=5), BEGAN)
    assert watch.problem(BEGAN + 59) is None
    assert watch.problem(BEGAN + 60) == Problem("start_stalled", {"seconds": 60})
    # One line more, and the run trains: nothing but the old beat says that it gets on.
    metrics.write_text("{}\n")
    assert watch.problem(BEGAN + 60) == Problem("stalled", {"seconds": 5})
    beat(run_dir, 0)
    assert watch.problem(BEGAN + 61) is None


def test_without_limits_a_run_may_hang(run_dir: Path) -> None:
    watch = Watch(run_dir, Limits(start=0, stall=0), BEGAN)
    assert watch.problem(BEGAN + 1e6) is None
    (run_dir / "metrics.jsonl").touch()
    beat(run_dir, 0)
    assert watch.problem(BEGAN + 1e6) is None


def put_a_pipe(file: Path) -> None:
    os.mkfifo(file)


def put_a_link(file: Path) -> None:
    file.symlink_to("/dev/zero")


def put_a_folder(file: Path) -> None:
    file.mkdir()


def put_a_huge_file(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(1 << 40)


def put_nonsense(file: Path) -> None:
    file.write_bytes(b"w \xff")


def put_a_number_without_end(file: Path) -> None:
    file.write_bytes(b"w " + b"9" * 50 + b".000\n")


def put_nothing(file: Path) -> None:
    file.touch()


@pytest.mark.parametrize(
    "put",
    [
        put_a_pipe,
        put_a_link,
        put_a_folder,
        put_a_huge_file,
        put_nonsense,
        put_a_number_without_end,
        put_nothing,
        lambda file: None,
    ],
)
def test_whatever_stands_in_place_of_a_beat_keeps_nobody(
    run_dir: Path, put: Callable[[Path], None]
) -> None:
    watch = Watch(run_dir, Limits(start=60, stall=5), BEGAN)
    put(run_dir / "ranks" / "0.beat")
    for name in ("no number.beat", "-1.beat", "\u0661.beat", f"{'9' * 200}.beat"):
        put(run_dir / "ranks" / name)
    assert read_beat(run_dir, 0) is None
    with a_rank(ASLEEP) as process:
        assert watch.problem(BEGAN + 1) is None
        (run_dir / "metrics.jsonl").touch()
        beat(run_dir, 1)
        assert watch.problem(BEGAN + 10) is None
        assert watch.problem(BEGAN + 15) == Problem("stalled", {"seconds": 5})
        # What is known without it: how long the rank has been there.
        problem = hang_report.describe(RankProcess(0, process.pid), run_dir, None)
    assert problem is not None
    assert problem.code == "rank_waits"
    assert 0 <= int(problem.values["seconds"]) < 60


@pytest.mark.parametrize("ranks", ["file", "link", "pipe", "nothing"])
def test_whatever_stands_in_place_of_all_beats_keeps_nobody(tmp_path: Path, ranks: str) -> None:
    place = tmp_path / "ranks"
    if ranks == "file":
        place.touch()
    elif ranks == "link":
        place.symlink_to("ranks")
    elif ranks == "pipe":
        os.mkfifo(place)
    watch = Watch(tmp_path, Limits(start=60, stall=5), BEGAN)
    assert read_beat(tmp_path, 0) is None
    assert watch.problem(BEGAN + 59) is None
    assert watch.problem(BEGAN + 60) == Problem("start_stalled", {"seconds": 60})


def test_a_beat_is_read_as_it_was_written(run_dir: Path) -> None:
    """By a process of its own: the trainer opens its file when it begins."""
    file = run_dir / "ranks" / "3.beat"
    file.touch()
    before = clock()
    subprocess.run(
        [sys.executable, "-c", "from trainer.heartbeat import WAITS, beat; beat(); beat(WAITS)"],
        env={**os.environ, "TRAINYARD_BEAT": str(file)},
        check=True,
    )
    read = read_beat(run_dir, 3)
    assert read is not None
    assert read.state == WAITS
    # To the millisecond that is written.
    assert before - 0.001 <= read.moment <= clock() + 0.001
    assert read_beat(run_dir, 4) is None
    (run_dir / "ranks" / "4.beat").write_bytes(b"c 81234.567\n")
    assert read_beat(run_dir, 4) == Beat(COMPUTES, 81234.567)


def test_a_full_disk() -> None:
    """Full is what has less free than the limit: to fill /dev/shm can take a machine's memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        run_dir = Path(directory)
        (run_dir / "ranks").mkdir()
        disk = os.statvfs(run_dir)
        limit = disk.f_bavail * disk.f_frsize - 4_000_000
        watch = Watch(run_dir, Limits(start=0, stall=0, full_bytes=limit), BEGAN)
        assert watch.problem(BEGAN) is None
        (run_dir / "filler").write_bytes(bytes(8_000_000))
        problem = watch.problem(BEGAN)
        assert problem is not None
        assert problem.code == "node_disk_full"
        assert problem.values["path"] == str(run_dir)
        assert limit - 8_000_000 < int(problem.values["bytes"]) < limit
        # Nobody has said what is full.
        assert Watch(run_dir, Limits(start=0, stall=0), BEGAN).problem(BEGAN) is None


def test_a_disk_that_takes_no_more_files(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(f_bavail=1 << 30, f_frsize=4096, f_files=1000, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    problem = Watch(run_dir, Limits(start=0, stall=0, full_bytes=1), BEGAN).problem(BEGAN)
    assert problem is not None
    assert problem.text == f"the disk of {run_dir} takes no more files (inodes)"
    # Of a file system without a limit
    full.f_files = 0
    assert Watch(run_dir, Limits(start=0, stall=0, full_bytes=1), BEGAN).problem(BEGAN) is None


def test_a_rank_that_computes_is_not_taken_for_one_that_waits(run_dir: Path) -> None:
    watch = Watch(run_dir, Limits(start=60, stall=1), time.monotonic() - 3)
    (run_dir / "metrics.jsonl").touch()
    problems = []
    with a_rank(BUSY):
        # The second time it says that it waits: Horovod's wait looks all the time.
        for state in (COMPUTES, WAITS):
            beat(run_dir, 0, state=state)
            for _ in range(8):
                time.sleep(0.3)
                problem = watch.problem(time.monotonic())
            problems.append(problem)
    assert problems == [None, Problem("stalled", {"seconds": 1})]


def test_ranks_are_told_from_other_processes() -> None:
    with a_rank(ASLEEP, rank=7) as process, subprocess.Popen(["sleep", "60"]) as other:
        assert list(rank_processes()) == [RankProcess(7, process.pid)]
        other.kill()


def test_names_and_environments_of_programs_end_no_look_at_the_ranks() -> None:
    """A name is cut after 15 bytes, within a letter perhaps, and need not be text at all."""
    named = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'\\xff'); print(flush=True); "
    environment = {**os.environ, RANK: "9" * 5000}
    with (
        a_rank(ASLEEP, rank=7) as process,
        subprocess.Popen(
            ["python3", "-c", f"{named}time.sleep(600)"], stdout=subprocess.PIPE
        ) as strange,
        subprocess.Popen(["python3", "-c", ASLEEP], env=environment) as large,
    ):
        assert strange.stdout is not None
        strange.stdout.readline()
        try:
            assert list(rank_processes()) == [RankProcess(7, process.pid)]
        finally:
            strange.kill()
            large.kill()


def test_ranks_of_torch_meet_at_a_port_of_their_run() -> None:
    ports = {int(meeting_point("127.0.0.1")["MASTER_PORT"]) for _ in range(9)}
    assert len(ports) > 1
    assert ports <= set(TORCH_PORTS)


def test_nodes_that_cannot_be_asked_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with (tmp_path / "log").open("wb") as log:
        problems = collect_reports(["node2"], log)
    hosts = [os.uname().nodename, "node2"]
    assert problems == [Problem("peer_silent", {"host": host}) for host in hosts]
    assert "node2 cannot be asked" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("program", "state", "stop", "code"),
    [
        (ASLEEP, COMPUTES, False, "rank_waits"),
        (ASLEEP, WAITS, False, "rank_waits_for_ranks"),
        (BUSY, COMPUTES, False, "rank_computes"),
        (BUSY, WAITS, False, "rank_waits_for_ranks"),
        (BUSY, COMPUTES, True, "rank_stopped"),
        (ASLEEP, WAITS, True, "rank_stopped"),
    ],
)
def test_what_a_rank_does(
    program: str, state: bytes, stop: bool, code: str, run_dir: Path, validate: Validate
) -> None:
    """The program that every node runs, with a real process in the state."""
    beat(run_dir, 1, ago=20, state=state)
    # Who sets the clock changes nothing of it.
    os.utime(run_dir / "ranks/1.beat", (time.time() + 3600, time.time() + 3600))
    with a_rank(program, rank=1) as process:
        if stop:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
        done = subprocess.run(
            [HANG_REPORT],
            env={**os.environ, "TRAINYARD_RUN_DIR": str(run_dir)},
            capture_output=True,
            check=True,
        )
        # It goes on, so that it can write its stack.
        time.sleep(0.2)
        assert RankProcess(1, process.pid).state() in ("R", "S")
    (line,) = done.stdout.splitlines()
    document = json.loads(line)
    validate([document], "launcher_failures")
    values = document["values"]
    assert document["code"] == code
    assert (values["rank"], values["host"], values["pid"]) == (1, socket.gethostname(), process.pid)
    assert 20 <= values["seconds"] < 60


def test_a_rank_that_reads_from_a_silent_share(run_dir: Path, validate: Validate) -> None:
    """Its main thread may wait for another one, so that whoever sleeps is meant."""
    share = Mount("/data", "cifs", '//files/a "quoted"\\040name')
    for state, code in ((COMPUTES, "rank_waits_for_share"), (WAITS, "rank_waits_for_ranks")):
        beat(run_dir, 0, state=state)
        with a_rank(ASLEEP) as process:
            rank = RankProcess(0, process.pid)
            problem = hang_report.describe(rank, run_dir, share)
        assert problem is not None
        assert problem.code == code
        assert problem.values.get("share", str(share)) == str(share)
        document = json.loads(json.dumps(problem.to_json()))
        validate([document], "launcher_failures")
        assert Problem.from_json(document) == problem


def test_a_rank_that_has_ended_is_left_out(run_dir: Path) -> None:
    beat(run_dir, 0)
    with a_rank(ASLEEP) as process:
        pass
    assert hang_report.describe(RankProcess(0, process.pid), run_dir, None) is None


def test_mounts_that_answer_are_not_silent(run_dir: Path) -> None:
    assert hang_report.silent_mount(run_dir) is None


def test_a_mount_that_does_not_answer(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that never answers stands for the question, and two mounts for the table."""
    stat = run_dir / "stat"
    stat.write_text('#!/bin/sh\n[ "$2" != /data/silent ] || exec sleep 60\n')
    stat.chmod(0o755)
    monkeypatch.setenv("PATH", f"{run_dir}:{os.environ['PATH']}")
    monkeypatch.setattr(hang_report, "PATIENCE", 2.0)
    table = [
        Mount("/", "overlay", "overlay"),
        Mount("/data/silent", "fuse", "f"),
        Mount("/data", "ext4", "d"),
    ]
    monkeypatch.setattr(hang_report, "mounts", lambda: table)
    assert hang_report.silent_mount(run_dir) == table[1]


def test_lines_of_a_report_that_are_no_problems_are_left_out() -> None:
    problem = Problem("peer_silent", {"host": "node2"})
    lines = [
        json.dumps(problem.to_json()),
        "Warning: Permanently added",
        '{"code": "rank_waits", "values": {"rank": 1}}',
        '{"code": "no such code", "values": {}}',
        '{"code": "peer_silent", "values": {"host": ["node1"]}}',
        '{"code": "peer_silent", "va',
        "[1]",
    ]
    assert read_report("\n".join(lines).encode()) == [problem]


def test_the_schema_has_every_code_that_a_rank_cannot_write() -> None:
    def codes(name: str, find: Callable[[Any], Any]) -> set[str]:
        schema = json.loads(Path(f"/schemas/{name}.schema.json").read_text())
        return {case["properties"]["code"]["const"] for case in find(schema)}

    launcher = codes("launcher_failures", lambda schema: schema["items"]["oneOf"])
    rank = codes("rank_failure", lambda schema: schema["oneOf"])
    # Those of places are written by the ranks of a user's own program, without a sentence.
    assert (launcher | rank) - PLACES_OF_PROGRAMS == set(SENTENCES)
    assert not launcher & rank


def launched(
    run_dir: Path, *arguments: str, wait: bool = True, **environment: str
) -> "subprocess.Popen[bytes]":
    """Launch in a container of one node."""
    process = subprocess.Popen(
        [LAUNCH, *arguments],
        env={**os.environ, "TRAINYARD_RUN_DIR": str(run_dir), **environment},
    )
    if wait:
        process.wait(timeout=90)
    return process


def left(run_dir: Path, validate: Validate) -> list[tuple[str, dict[str, Any]]]:
    """The problems that a launch has written down, after a look at their form."""
    document = json.loads((run_dir / "failures" / "launcher.json").read_text())
    validate(document, "launcher_failures")
    # Every sentence is in the log, too.
    log = (run_dir / "logs" / "mpirun.log").read_text()
    assert all(f"trainyard: {Problem.from_json(entry).text}\n" in log for entry in document)
    return [(entry["code"], entry["values"]) for entry in document]


def test_a_launch_that_ends_well_leaves_no_failures(run_dir: Path) -> None:
    assert launched(run_dir, *MPIRUN_ARGUMENTS, "true").returncode == 0
    assert (run_dir / "exit_status").read_text() == "0\n"
    assert not (run_dir / "failures").exists()


def test_ranks_that_hang_are_reported_and_ended(run_dir: Path, validate: Validate) -> None:
    """Two real ranks: one is stopped, the other waits for it, and a peer does not answer."""
    program = run_dir / "program.py"
    program.write_text(
        "import faulthandler, os, pathlib, signal, time\n"
        "faulthandler.register(signal.SIGUSR1)\n"
        f"run_dir = pathlib.Path('{run_dir}')\n"
        "now = time.clock_gettime(time.CLOCK_BOOTTIME)\n"
        "zero, one = (run_dir / 'ranks' / f'{rank}.beat' for rank in (0, 1))\n"
        f"if os.environ['{RANK}'] == '0':\n"
        "    zero.write_bytes(b'c %.3f\\n' % now)\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        # The report lets rank 0 go on: it must not touch what the report is about to read.
        "else:\n"
        "    while not zero.exists(): time.sleep(0.1)\n"
        "    one.write_bytes(b'w %.3f\\n' % now)\n"
        "    (run_dir / 'metrics.jsonl').touch()\n"
        "time.sleep(600)\n"
    )
    # Something takes connections in the peer's place, and no sshd answers there.
    with socket.create_server(("127.0.0.1", 0)) as peer:
        port = peer.getsockname()[1]
        process = launched(
            run_dir,
            *MPIRUN_ARGUMENTS,
            "python3",
            str(program),
            TRAINYARD_STALL_SECONDS="3",
            TRAINYARD_PEERS=f"silent.invalid=127.0.0.1:{port}",
        )
    assert process.returncode != 0
    assert (run_dir / "exit_status").read_text() == f"{process.returncode}\n"
    problems = left(run_dir, validate)
    assert problems[0] == ("stalled", {"seconds": 3})
    by_rank = {values["rank"]: code for code, values in problems[1:3]}
    assert by_rank == {0: "rank_stopped", 1: "rank_waits_for_ranks"}
    assert problems[3] == ("peer_silent", {"host": "silent.invalid"})
    assert "most recent call first" in (run_dir / "logs" / "mpirun.log").read_text()


def test_a_peer_that_cannot_be_reached(
    run_dir: Path, validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    problem = peers.await_peers({"node2": address}, lambda: False)
    assert problem is not None
    values = {"host": "node2", "address": address, "message": "[Errno 111] Connection refused"}
    assert problem == Problem("peer_unreachable", values)
    validate([problem.to_json()], "launcher_failures")
    # Who stops the run does not wait for it.
    assert peers.await_peers({"node2": address}, lambda: True) is None


def test_an_mpirun_that_is_killed(run_dir: Path, validate: Validate) -> None:
    process = launched(run_dir, *MPIRUN_ARGUMENTS, "sleep", "600", wait=False)
    deadline = time.monotonic() + 30
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (pids := children.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # Until it is mpirun, and has ranks that end with it.
    time.sleep(3)
    os.kill(int(pids[0]), signal.SIGKILL)
    assert process.wait(timeout=30) == 128 + signal.SIGKILL
    values = {"host": socket.gethostname(), "signal": 9, "word": "Killed"}
    assert left(run_dir, validate) == [("mpirun_killed", values)]


def test_the_environment_decides() -> None:
    environment = {
        "TRAINYARD_RUN_DIR": "/somewhere",
        "TRAINYARD_PEERS": "node2=10.0.0.12:2222 node3=[fe80::1]:2222",
        "TRAINYARD_START_SECONDS": "120",
        "TRAINYARD_FULL_BYTES": "1000000",
        "TRAINYARD_SILENCE_SECONDS": "600",
    }
    assert LaunchSettings.from_environment(environment) == LaunchSettings(
        Path("/somewhere"),
        {"node2": "10.0.0.12:2222", "node3": "[fe80::1]:2222"},
        Limits(start=120, stall=0, full_bytes=1_000_000, silence=600),
    )
    unset = LaunchSettings.from_environment({})
    assert (unset.peers, unset.limits) == ({}, Limits(start=0, stall=0, full_bytes=0))
