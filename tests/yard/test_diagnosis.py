"""Who failed, why, and the lines that prove it."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from yard.diagnosis import Diagnosis, diagnose, load_signatures
from yard.playbook import TaskFailure
from yard.run import Log, RankEnd, RunRecord

Record = Callable[[str], RunRecord]


def test_killed_rank(record: Record) -> None:
    """mpirun names rank 1, although rank 0 is the one with an error in its log."""
    found = diagnose(record("killed"))
    assert (found.host, found.rank, found.signature) == ("node2", 1, "rank_killed")
    assert "killed with signal 9" in found.cause
    assert "node2" in found.remedy
    assert found.log == "logs/mpirun.log"
    assert found.proof == (
        "prterun noticed that process rank 1 with PID 29 on node node2 exited on",
        "signal 9 (Killed).",
    )


def test_killed_rank_that_its_peer_noticed_first(record: Record) -> None:
    """The text is a real mpirun.log: the survivor aborts, and mpirun names the survivor alone."""
    killed = record("killed")
    text = (
        "An MPI communication peer process has unexpectedly disconnected.  This\n"
        "usually indicates a failure in the peer process (e.g., a crash or\n"
        "otherwise exiting without calling MPI_FINALIZE first).\n\n"
        "  Local host: node1\n"
        "  Local PID:  18\n"
        "  Peer host:  node2\n"
        "prterun has exited due to process rank 0 with PID 18 on node node1 calling\n"
        '"abort".\n'
    )
    silent = tuple(replace(log, text=log.text.splitlines()[0]) for log in killed.rank_logs)
    log = Log("logs/mpirun.log", text)
    found = diagnose(replace(killed, rank_logs=silent, mpirun_log=log))
    assert (found.host, found.signature) == ("node2", "peer_lost")
    assert "node2" in found.remedy


def test_the_first_to_end_is_the_first_that_failed(record: Record) -> None:
    """mpirun blames the survivor; the times at which the ranks ended tell who was first."""
    killed = record("killed")
    ends = tuple(
        RankEnd(
            rank,
            host,
            ended_at,
            128 + signal,
            Log(
                f"ranks/{rank}.json",
                f'{{"rank": {rank}, "host": "{host}", "started_at": 1.5, "ended_at": {ended_at}, '
                f'"exit_status": {128 + signal}, "signal": {signal}}}\n',
                host,
                rank,
            ),
        )
        for rank, host, ended_at, signal in ((1, "node2", 10.0, 9), (0, "node1", 10.2, 15))
    )
    blamed = Log("logs/mpirun.log", "process rank 0 with PID 18 on node node1 calling abort\n")
    found = diagnose(replace(killed, mpirun_log=blamed, rank_ends=ends))
    assert (found.host, found.rank, found.signature) == ("node2", 1, "rank_ended_by_kill")
    assert found.log == "ranks/1.json"


def test_a_finding_of_the_whole_machine_is_laid_to_the_first_failed_rank(record: Record) -> None:
    killed = record("killed")
    said = '["the kernel killed 1 processes for want of memory during the run"]'
    findings = tuple(Log(f"nodes/{host}/findings.json", said, host) for host in ("node1", "node2"))
    found = diagnose(replace(killed, findings=findings))
    assert (found.host, found.signature) == ("node2", "node_out_of_memory")


def test_a_short_proof_comes_with_the_lines_that_lead_to_it(record: Record) -> None:
    found = with_log(record, "rank", "Traceback\n  in step\n    loss()\nKeyError: 'fc'\nafter\n")
    assert found.proof == ("  in step", "    loss()", "KeyError: 'fc'")


def test_out_of_memory_is_told_from_a_kill(record: Record) -> None:
    killed = record("killed")
    inspections = tuple(
        replace(log, text=log.text.replace('"OOMKilled": false', '"OOMKilled": true'))
        if log.host == "node2"
        else log
        for log in killed.inspections
    )
    found = diagnose(replace(killed, inspections=inspections))
    assert (found.host, found.signature) == ("node2", "container_out_of_memory")


def test_unfit_node(record: Record) -> None:
    found = diagnose(record("unfit"))
    assert (found.host, found.rank, found.signature) == ("node2", None, "gang_incomplete")
    assert "it is held by run 20261120T110000Z" in found.cause


def test_unknown_shows_the_tail_of_the_first_failed_rank(record: Record) -> None:
    found = diagnose(record("unknown"))
    assert (found.host, found.rank, found.signature) == ("node2", 1, None)
    assert found.cause.startswith("Unknown: mpirun ended with status 3")
    assert found.log == "logs/rank-1.log"
    assert found.proof[-1] == "<b>the dog</b> ate the gradients"


def test_nothing_collected_is_an_answer_too(record: Record) -> None:
    found = diagnose(replace(record("unknown"), rank_logs=(), mpirun_log=None))
    assert (found.host, found.rank) == ("node1", None)
    assert found.cause == "The run ended with status 3."


def with_log(record: Record, where: str, text: str) -> Diagnosis:
    """Diagnose a run of which nothing is known but one text."""
    bare = replace(record("unknown"), mpirun_log=None)
    if where == "rank":
        return diagnose(replace(bare, rank_logs=(Log("logs/rank-1.log", text, "node2", 1),)))
    if where == "mpirun":
        return diagnose(replace(bare, mpirun_log=Log("logs/mpirun.log", text)))
    if where == "node":
        return diagnose(replace(bare, findings=(Log("findings.json", text, "node2"),)))
    failure = TaskFailure("node2", "Look at the nodes", "training_run", "check.yml", text, True)
    launch = replace(bare.manifest.launch, failures=(failure,))
    return diagnose(replace(bare, rank_logs=(), manifest=replace(bare.manifest, launch=launch)))


CASES = [
    ("disk_full", "rank", "OSError: [Errno 28] No space left on device", "disk"),
    ("gpu_out_of_memory", "rank", "torch.OutOfMemoryError: CUDA out of memory. Tried", "GPU"),
    (
        "wrong_configuration",
        "rank",
        "trainer: unknown key in the configuration: sed; valid are model, seed",
        "unknown key in the configuration: sed",
    ),
    (
        "wrong_world",
        "rank",
        "trainer: the world is not the one asked for: asked were 2 ranks (1 on node1, 1 on "
        "node2), running are 2 (2 on node1). No step was taken.",
        "running are 2 (2 on node1)",
    ),
    (
        "loss_not_a_number",
        "rank",
        "trainer: the training loss became nan at or shortly before step 20; a smaller",
        "became nan at or shortly before step 20",
    ),
    (
        "dataset_missing",
        "rank",
        "trainer: no prepared data set in /data/cifar10: dataset.json is missing; prepare",
        "/data/cifar10",
    ),
    (
        "share_gone",
        "rank",
        "trainer: the file system of /data/imagenet/train/n01440764/1.JPEG can no longer be read: "
        "Host is down; it is /data/imagenet (cifs of //files/data)\n",
        "node2 can no longer read /data/imagenet (cifs of //files/data): Host is down.",
    ),
    (
        "file_system_gone",
        "rank",
        "Traceback\nOSError: [Errno 116] Stale file handle: '/run/trainyard/checkpoints/a.pt'\n",
        "node2 can no longer read or write /run/trainyard/checkpoints/a.pt: Stale file handle.",
    ),
    (
        "dataset_damaged",
        "rank",
        "trainer: cannot read the train split in /data/cifar10: wrong shape",
        "wrong shape",
    ),
    (
        "peer_lost",
        "mpirun",
        "An MPI communication peer process has unexpectedly disconnected.  This\n\n"
        "  Local host: node1\n  Local PID:  18\n  Peer host:  node2\n",
        "on node2",
    ),
    (
        "connection_broken",
        "mpirun",
        "[node1:00000] *** An error occurred in Socket closed\n"
        "[node1:00000] *** reported by process [379256833,0]\n",
        "on node2",
    ),
    (
        "not_enough_slots",
        "mpirun",
        "There are not enough slots available in the system to satisfy the 2\nslots that",
        "slots",
    ),
    ("ssh_refused", "mpirun", "Host key verification failed.\r\n", "Host key verification"),
    (
        "lost_node",
        "mpirun",
        "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-a@0,0]"
        " on node node1\n  Remote daemon: [prterun-a@0,1] on node node2\n",
        "lost the connection to node2",
    ),
    (
        "rank_bus_error",
        "mpirun",
        "prterun noticed that process rank 1 with PID 9 on node node2 exited on\nsignal 7 (Bus "
        "error).",
        "bus error",
    ),
    (
        "rank_signal",
        "mpirun",
        "prterun noticed that process rank 0 with PID 9 on node node1 exited on\nsignal 11 "
        "(Segmentation fault).",
        "11 (Segmentation fault)",
    ),
    (
        "node_disk_full",
        "node",
        "the disk of /srv/trainyard/runs is full: 4,096 bytes are free",
        "/srv/trainyard/runs",
    ),
    (
        "container_killed",
        "node",
        "the container was killed while the run was on (exit status 137)",
        "node2 was killed",
    ),
    ("engine_gone", "node", "the Docker engine does not answer on /var/run/docker.sock", "node2"),
    (
        "rank_stopped",
        "mpirun",
        "trainyard: no rank of this node has got on for 50 s; this is what they do:\n"
        "rank 1 on node2 (pid 29): stopped by a signal, no sign of life for 50 s\n",
        "Rank 1 was stopped",
    ),
    (
        "rank_waits_for_share",
        "mpirun",
        "trainyard: no rank of this node has got on for 50 s; this is what they do:\n"
        "rank 0 on node1 (pid 29): waiting for other ranks, no sign of life for 51 s\n"
        "rank 1 on node2 (pid 29): waiting for the share /data/imagenet (nfs4 of files:/data), "
        "no sign of life for 51 s\n",
        "Rank 1 waits for /data/imagenet (nfs4 of files:/data), which does not answer",
    ),
    (
        "rank_waits_for_disk",
        "mpirun",
        "rank 0 on node1 (pid 29): waiting for a disk or a share, no sign of life for 51 s\n",
        "Rank 0 waits",
    ),
    (
        "peer_silent",
        "mpirun",
        "trainyard: no rank of this node has got on for 50 s; this is what they do:\n"
        "trainyard: no answer from node2\n",
        "node2 no longer answers",
    ),
    (
        "stalled",
        "mpirun",
        "trainyard: no rank of this node has got on for 50 s; this is what they do:\n"
        "rank 1 on node2 (pid 29): waiting, no sign of life for 50 s\n",
        "stood still for 50 s",
    ),
    (
        "start_stalled",
        "mpirun",
        "trainyard: the ranks have not begun to train within 120 s; this is what they do:\n",
        "within 120 s",
    ),
    (
        "peer_unreachable",
        "mpirun",
        "trainyard: the container on node2 (10.0.0.12:2222) cannot be reached: timed out\n",
        "on node2: timed out",
    ),
    (
        "mpirun_killed",
        "mpirun",
        "trainyard: mpirun on node1 ended by signal 9 (Killed)\n",
        "9 (Killed)",
    ),
    (
        "stalled_tensor",
        "rank",
        "[W stall_inspector.cc:107] One or more tensors were submitted to be reduced\n"
        "Missing ranks:\n1: [allreduce.head.weight]\n",
        "Rank 1 did not hand in",
    ),
    ("python_error", "rank", "Traceback\nKeyError: 'fc'\n", "KeyError: 'fc'"),
    (
        "gpu_runtime_missing",
        "ansible",
        'starting trainyard-x: {"message":"could not select device driver \\"nvidia\\" with '
        'capabilities: [[gpu compute utility]]"}',
        "engine of node2 cannot give GPUs",
    ),
    (
        "gpu_driver_mismatch",
        "ansible",
        'starting trainyard-x: {"message":"failed to create task for container: OCI runtime create '
        "failed: error running hook #0: Auto-detected mode as 'legacy'\\nnvidia-container-cli: "
        'initialization error: nvml error: driver/library version mismatch: unknown"}',
        "kernel of node2 has loaded",
    ),
    (
        "gpu_driver_missing",
        "ansible",
        'starting trainyard-x: {"message":"failed to create task for container: OCI runtime create '
        "failed: error running hook #0: Auto-detected mode as 'legacy'\\nnvidia-container-cli: "
        'initialization error: nvml error: driver not loaded: unknown"}',
        "initialization error",
    ),
    (
        "host_unreachable",
        "ansible",
        "Failed to connect to the host via ssh: No route to host",
        "cannot reach node2 over SSH",
    ),
]


@pytest.mark.parametrize(("name", "where", "text", "said"), CASES)
def test_signature(record: Record, name: str, where: str, text: str, said: str) -> None:
    found = with_log(record, where, text)
    assert found.signature == name
    assert said in found.cause
    assert found.proof


@pytest.mark.parametrize(
    "number",
    [errno.EHOSTDOWN, errno.EIO, errno.ENOTCONN, errno.EREMOTEIO, errno.ESTALE, errno.ETIMEDOUT],
)
def test_errors_of_a_share_that_is_gone(record: Record, number: int) -> None:
    """In the words of Python and of this machine's C library."""
    error = OSError(number, os.strerror(number), "/data/cifar10/train_images.npy")
    found = with_log(record, "rank", f"Traceback\n  in open\n{type(error).__name__}: {error}\n")
    assert (found.host, found.signature) == ("node2", "file_system_gone")
    assert found.proof[-1].endswith("train_images.npy'")


def test_a_connection_that_times_out_is_no_share(record: Record) -> None:
    text = "Traceback\nTimeoutError: [Errno 110] Connection timed out\n"
    assert with_log(record, "rank", text).signature == "python_error"


def test_every_signature_is_tested() -> None:
    elsewhere = {
        "container_out_of_memory",
        "gang_incomplete",
        "node_out_of_memory",
        "rank_ended_by_kill",
        "rank_killed",
    }
    assert {signature.name for signature in load_signatures()} == {
        name for name, *_ in CASES
    } | elsewhere
