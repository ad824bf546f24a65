"""Faults put into whole runs: noticed in time, diagnosed, nothing left, every log at home.

Each test ends a run in its own way on one cluster. The table at the end says of each how many
seconds passed until it was noticed. The last test trains once more, without any help in between.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import (
    CHECKOUT,
    NODES,
    BackgroundRun,
    Outcome,
    docker,
    in_machine,
    machine,
    make,
    wait_for,
    wait_until_ready,
)

# The smallest model: it is not the training that is tested, and every epoch ends with all of the
# test set.
SMALL = {"MODEL": "cnn_a", "NODES": 2, "BATCH": 16}
# Trains until something ends it.
LONG = {**SMALL, "EPOCHS": 5000, "TRAIN_IMAGES": 640}
# Trains long enough to be hit while it does.
SHORT = {**SMALL, "EPOCHS": 6, "TRAIN_IMAGES": 640}
# Is over at once.
SHORTEST = {**SMALL, "EPOCHS": 1, "TRAIN_IMAGES": 128}
NOTICE_SECONDS = 60
STALL_SECONDS = 12
# Where runs find the data set on a node, and where images of the tests lie that take its place.
DATASET = "/srv/trainyard/data/cifar10"
PHOTOGRAPHS = "/srv/photographs"
# Image files are read while a model trains; arrays are in memory before it begins.
STREAMING = {**LONG, "TRAIN_IMAGES": 64, "STALL": STALL_SECONDS, "ARGS": "--set image_size=32"}


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    case: str
    seconds: float | None
    diagnosis: str


TABLE: list[Row] = []


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """A first run sets up what is missing; at the end the table is printed and kept."""
    assert make("train", **SHORTEST).status == 0
    yield
    lines = [
        "| case | seconds to notice | diagnosis | left behind | logs |",
        "|---|---|---|---|---|",
    ]
    for row in TABLE:
        seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
        lines.append(f"| {row.case} | {seconds} | {row.diagnosis} | nothing | complete |")
    (CHECKOUT / ".trainyard" / "faults.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def left_behind(run: BackgroundRun) -> list[str]:
    """What a run has left on the nodes: containers, files, locks, processes, shared memory."""
    looks = {
        "container": "docker ps --all --quiet --filter label=trainyard.run",
        "file": "ls --almost-all /srv/trainyard/runs",
        "process": "find /proc -maxdepth 1 -uid 2000",
        "shared memory": "find /dev/shm -uid 2000",
    }
    found = []
    for host in NODES:
        for what, look in looks.items():
            if in_machine(host, look):
                found.append(f"{what} on {host}: {in_machine(host, look)}")
    return found


def conclude(
    case: str,
    run: BackgroundRun,
    struck_at: float,
    host: str,
    signature: str | set[str],
    logs_of: tuple[int, ...] = (0, 1),
) -> Outcome:
    """Wait for the end of a run that must fail, and check all that holds for each fault."""
    outcome = run.finish()
    seconds = run.noticed_at() - struck_at
    assert outcome.status == 1
    diagnosis = run.summary()["diagnosis"]
    expected = {signature} if isinstance(signature, str) else signature
    assert diagnosis["signature"] in expected, diagnosis
    assert diagnosis["host"] == host, diagnosis
    assert diagnosis["proof"]
    for word in (host, diagnosis["cause"], diagnosis["remedy"]):
        assert word in outcome.output
    assert "Traceback" not in outcome.output
    assert seconds < NOTICE_SECONDS
    for rank in logs_of:
        log = run.directory / f"logs/rank-{rank}.log"
        assert log.read_text().startswith(f"rank {rank} of 2 on node{rank + 1} ")
    assert left_behind(run) == []
    TABLE.append(Row(case, seconds, str(diagnosis["signature"])))
    return outcome


def kill(run: BackgroundRun, host: str, name: str, number: int = 9) -> float:
    """Send a signal to the processes of this name in the run's container; returns when."""
    run.in_container(host, f"pkill -{number} -x '{name}'")
    return time.time()


def test_killed_rank() -> None:
    run = BackgroundRun(**LONG).trains()
    run.in_container("node2", f"kill -9 {run.rank_pid(1, 'node2')}")
    conclude("kill -9 of a rank", run, time.time(), "node2", "rank_ended_by_kill")


def test_killed_rank_is_retried_and_its_metrics_are_those_of_one_run() -> None:
    run = BackgroundRun(**SHORT, RETRIES=1).trains()
    run.in_container("node2", f"kill -9 {run.rank_pid(1, 'node2')}")
    outcome = run.finish()
    assert outcome.status == 0
    assert re.search(r"Failed \(node2: Rank 1 was killed .* retries left: 0", outcome.output)
    summary = run.summary()
    assert (summary["status"], summary["attempts"], summary["steps"]) == ("succeeded", 2, 120)
    assert (run.directory / "attempts/1/logs/rank-1.log").stat().st_size > 0
    assert left_behind(run) == []
    TABLE.append(Row("kill -9 of a rank, RETRIES=1", None, "succeeded"))


def test_killed_mpirun() -> None:
    run = BackgroundRun(**LONG).trains()
    struck_at = kill(run, "node1", "mpirun|prterun")
    conclude("kill -9 of mpirun", run, struck_at, "node1", "mpirun_killed")


@pytest.mark.parametrize("host", NODES)
def test_killed_container(host: str) -> None:
    run = BackgroundRun(**LONG).trains()
    struck_at = time.time()
    in_machine(host, f"docker kill trainyard-{run.run_id}")
    conclude(f"kill of the container on {host}", run, struck_at, host, "container_killed")


def test_killed_sshd_is_not_missed() -> None:
    run = BackgroundRun(**SHORT).trains()
    kill(run, "node2", "sshd")
    assert run.finish().status == 0
    assert left_behind(run) == []
    TABLE.append(Row("kill -9 of sshd while training", None, "succeeded"))


def test_memory_limit() -> None:
    run = BackgroundRun(**LONG).trains()
    in_machine("node2", f"docker update --memory 1g --memory-swap 1g trainyard-{run.run_id}")
    struck_at = time.time()
    # Shared memory counts, and no process can be ended for it: the largest one is.
    run.in_container("node2", "sh -c 'head -c 1G /dev/zero > /dev/shm/filler' || true")
    causes = {"container_out_of_memory", "node_out_of_memory"}
    conclude("memory limit hit", run, struck_at, "node2", causes)


def test_full_disk() -> None:
    in_machine("node1", "mount -t tmpfs -o size=1200m,mode=755 tmpfs /srv/trainyard/runs")
    try:
        run = BackgroundRun(**LONG).trains()
        struck_at = time.time()
        # Whatever is left goes too: the filler takes the last block, not only the last megabyte.
        in_machine("node1", "cat /dev/zero > /srv/trainyard/runs/filler || true")
        outcome = run.finish()
    finally:
        in_machine("node1", "umount --lazy /srv/trainyard/runs")
    assert outcome.status == 1
    diagnosis = run.summary()["diagnosis"]
    assert diagnosis["signature"] in {"disk_full", "node_disk_full"}, diagnosis
    assert diagnosis["host"] == "node1"
    assert left_behind(run) == []
    seconds = run.noticed_at() - struck_at
    assert seconds < NOTICE_SECONDS
    TABLE.append(Row("disk full on the run directory", seconds, diagnosis["signature"]))


def test_stopped_rank() -> None:
    run = BackgroundRun(**LONG, STALL=STALL_SECONDS).trains()
    struck_at = time.time()
    run.in_container("node2", f"kill -STOP {run.rank_pid(1, 'node2')}")
    conclude("stalled collective: a rank stands still", run, struck_at, "node2", "rank_stopped")
    for rank in (0, 1):
        stack = (run.directory / f"logs/rank-{rank}.log").read_text()
        assert re.search(r"hread 0x\w+ \(most recent call first\):\n  File ", stack), stack


def test_cut_network() -> None:
    run = BackgroundRun(**LONG, STALL=STALL_SECONDS).trains()
    other = in_machine("node2", "getent hosts node1").split()[0]
    struck_at = time.time()
    rules = [f"INPUT --source {other}", f"OUTPUT --destination {other}"]
    for rule in rules:
        in_machine("node2", f"iptables --insert {rule} --jump DROP")
    try:
        conclude("network cut and healed", run, struck_at, "node2", {"peer_silent", "lost_node"})
    finally:
        for rule in rules:
            in_machine("node2", f"iptables --delete {rule} --jump DROP")


@contextmanager
def shared_images() -> Iterator[str]:
    """Put image files in the data set's place: on node2 they come from a share.

    The share is of a file system in user space, whose server is a process: it can die or stand
    still as one at the other end of a network can, and the kernel's other kinds are rarely all
    there. A node may not open /dev/fuse, so the server runs in a container beside it, with the
    node's processes and mounts. Yields the name of that container.
    """
    node, server = machine("node2"), machine("share")
    program = (Path(__file__).parent / "make_photographs.py").read_text()
    made = f"docker run --rm --interactive --user 0 --volume {PHOTOGRAPHS}:/out $image python3 -"
    image = "image=$(docker image ls --quiet trainyard/trainer | head -1)"
    node_image = docker("inspect", "--format", "{{.Config.Image}}", node)
    rights = [f"--cap-add={name}" for name in ("SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE")]
    serve = ["nsenter", "--target", "1", "--mount", "bindfs", "-f", "-o", "allow_other"]
    serve += [PHOTOGRAPHS, DATASET]
    try:
        for host in NODES:
            in_machine(host, f"mkdir -p {PHOTOGRAPHS}; {image}; {made} <<'END'\n{program}\nEND")
        in_machine("node1", f"mount --bind {PHOTOGRAPHS} {DATASET}")
        in_machine("node2", "command -v bindfs || apt-get install --yes -qq bindfs")
        in_machine("node2", "test -e /dev/fuse || mknod /dev/fuse c 10 229")
        # It is not mounted over what is not empty.
        in_machine("node2", f"mount -t tmpfs tmpfs {DATASET}")
        asked = ["run", "--detach", "--name", server, "--pid", f"container:{node}"]
        asked += [*rights, "--security-opt", "seccomp=unconfined", "--device", "/dev/fuse"]
        docker(*asked, node_image, *serve)
        look = f"grep ' {DATASET} fuse ' /proc/mounts || true"
        wait_for("share", lambda: in_machine("node2", look), seconds=20)
        yield server
    finally:
        docker("rm", "--force", server)
        for host in NODES:
            in_machine(host, f"while umount --lazy {DATASET} 2>/dev/null; do :; done")
            in_machine(host, f"rm -rf {PHOTOGRAPHS}")


needs_fuse = pytest.mark.skipif(
    not Path("/dev/fuse").exists(), reason="the kernel of this machine has no FUSE"
)


@needs_fuse
def test_share_whose_server_is_gone() -> None:
    with shared_images() as server:
        run = BackgroundRun(**STREAMING).trains()
        struck_at = time.time()
        docker("kill", server)
        outcome = conclude("share gone", run, struck_at, "node2", "share_gone")
        assert f"{DATASET.replace('/srv/trainyard', '')} (fuse of {PHOTOGRAPHS})" in outcome.output
        # Until it is back nothing starts there, and nobody is sent to fetch the data anew.
        refused = make("train", **SHORTEST)
        assert refused.status == 3
        assert "Transport endpoint is not connected" in refused.output
        assert "etting up" not in refused.output


@needs_fuse
def test_share_whose_server_is_silent() -> None:
    """The share is another one than that of the test before: it has come back."""
    with shared_images() as server:
        run = BackgroundRun(**STREAMING).trains()
        rank = run.rank_pid(1, "node2")
        # A request that the server has taken cannot be given up, unlike one of a network's share.
        run.in_container("node2", f"kill -STOP {rank}")
        time.sleep(0.5)
        struck_at = time.time()
        docker("kill", "--signal", "STOP", server)
        run.in_container("node2", f"kill -CONT {rank}")
        case = "share gone: its server accepts and never answers"
        outcome = conclude(case, run, struck_at, "node2", "rank_waits_for_share")
        assert f"(fuse of {PHOTOGRAPHS}), which does not answer" in outcome.output
        refused = make("train", **SHORTEST)
        assert refused.status == 3
        assert "no answer within 5 s" in refused.output


def test_slow_network() -> None:
    run = BackgroundRun(**SHORT).trains()
    slow = "tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 200ms"
    in_machine("node2", slow)
    try:
        assert run.finish().status == 0
    finally:
        in_machine("node2", "tc qdisc del dev eth0 root")
    assert left_behind(run) == []
    TABLE.append(Row("link slowed down", None, "succeeded"))


def test_stopped_node() -> None:
    run = BackgroundRun(**LONG, STALL=STALL_SECONDS).trains()
    struck_at = time.time()
    docker("kill", machine("node2"))
    try:
        outcome = run.finish()
    finally:
        docker("start", machine("node2"))
    assert outcome.status == 1
    assert "missing       logs of node2" in outcome.output
    diagnosis = run.summary()["diagnosis"]
    assert (diagnosis["host"], diagnosis["signature"]) in {
        ("node2", "lost_node"),
        ("node2", "peer_silent"),
        ("node2", "peer_lost"),
        ("node2", "host_unreachable"),
    }
    assert run.noticed_at() - struck_at < NOTICE_SECONDS
    wait_until_ready("node2")
    # Docker gives a machine that starts a new /etc/hosts.
    assert make("setup").status == 0
    assert make("attach", RUN=run.run_id).status == 1
    assert (run.directory / "logs/rank-1.log").stat().st_size > 0
    assert left_behind(run) == []
    TABLE.append(Row("stop of a node", run.noticed_at() - struck_at, str(diagnosis["signature"])))


def test_second_launch_is_refused_and_locks_do_not_outlive_a_run() -> None:
    run = BackgroundRun(**LONG).trains()
    refused = make("train", **SHORT)
    assert refused.status == 3
    assert re.search(rf"held by run {run.run_id} of \S+@\S+ since", refused.output)
    status = make("status").output
    assert status.count(run.run_id) == 2
    assert re.search(r"step \d+/\d+ · epoch \d+/5000", status)
    log = make("logs", RUN=run.run_id, RANK=1).output
    assert re.search(r"\[1 node2\] rank 1 of 2 on node2", log)
    assert "[0 node1]" not in log
    # Nobody follows it any more, and its containers die: what is left is a stale lock.
    run.kill_yard()
    for host in NODES:
        in_machine(host, f"docker kill trainyard-{run.run_id}")
    assert make("train", **SHORTEST).status == 0
    assert make("attach", RUN=run.run_id).status == 1
    assert left_behind(run) == []
    TABLE.append(Row("launch while another runs", None, "refused, with its holder"))


def test_two_launches_at_the_same_instant() -> None:
    runs = BackgroundRun.at_once(2, **SHORT)
    statuses = [run.finish().status for run in runs]
    assert sorted(statuses) == [0, 3]
    loser = runs[statuses.index(3)]
    winner = runs[statuses.index(0)]
    assert winner.run_id in loser.output
    assert left_behind(winner) == []
    TABLE.append(Row("two launches at the same instant", None, "one runs, one is refused"))


PHASES = {
    "before containers": "Checking nodes",
    "during start": "Starting containers",
    "while training": "Training",
    "while collecting": "Collecting logs",
}


@pytest.mark.parametrize("phase", PHASES)
def test_interrupt(phase: str) -> None:
    run = BackgroundRun(**(SHORTEST if phase == "while collecting" else LONG))
    run.wait_for_output(f"{PHASES[phase]} ...")
    struck_at = time.time()
    run.interrupt()
    outcome = run.finish()
    assert outcome.status == 130
    status = run.summary()["status"]
    assert status == ("succeeded" if phase == "while collecting" else "stopped")
    if phase == "while training":
        for rank in (0, 1):
            log = run.directory / f"logs/rank-{rank}.log"
            assert log.read_text().startswith(f"rank {rank} of 2 on node{rank + 1} ")
    assert left_behind(run) == []
    TABLE.append(Row(f"Ctrl-C {phase}", time.time() - struck_at, status))


def test_attach_after_yard_was_killed() -> None:
    run = BackgroundRun(**SHORT).trains()
    run.kill_yard()
    attached = make("attach", RUN=run.run_id)
    assert attached.status == 0
    summary = run.summary()
    assert (summary["status"], summary["steps"]) == ("succeeded", 120)
    assert left_behind(run) == []
    TABLE.append(Row("yard killed with -9, then attach", None, "succeeded"))


def test_truncated_checkpoint_is_refused_and_the_one_before_is_used() -> None:
    asked = {**SHORTEST, "EPOCHS": 3}
    whole = BackgroundRun(**asked)
    assert whole.finish().status == 0
    newest = whole.directory / "checkpoints/epoch-3.pt"
    os.truncate(newest, newest.stat().st_size // 2)
    resumed = BackgroundRun(**asked, RESUME=whole.run_id)
    assert resumed.finish().status == 0
    log = (resumed.directory / "logs/rank-0.log").read_text()
    assert re.search(r"refused: cannot read the checkpoint \S+/epoch-3\.pt: its sha256 is", log)
    # It begins after epoch 2, and ends to the bit where the whole run ended.
    ends = [
        json.loads((run.directory / "metrics.jsonl").read_text().splitlines()[-1])
        for run in (whole, resumed)
    ]
    assert resumed.summary()["steps"] == whole.summary()["steps"] == 12
    assert [end["loss"] for end in ends] == [ends[0]["loss"]] * 2
    assert [end["accuracy"] for end in ends] == [ends[0]["accuracy"]] * 2
    assert left_behind(resumed) == []
    TABLE.append(Row("checkpoint truncated, RESUME=", None, "the one before is used"))


def test_a_normal_run_succeeds_after_all_that() -> None:
    run = BackgroundRun(**SHORTEST)
    assert run.finish().status == 0
    assert left_behind(run) == []
