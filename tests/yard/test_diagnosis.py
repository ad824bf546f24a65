"""Who failed, why, and the lines that prove it."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from yard.plays.events import Event, Problem, TaskFailure, parse_failure
from yard.runs.diagnosis import Diagnosis, diagnose
from yard.runs.findings import OF_OTHERS, Finding
from yard.runs.record import Log, RankEnd, RunRecord, read_run
from yard.runs.signatures import load_signatures

SCHEMAS = Path(__file__).parents[2] / "schemas"
# How Ansible begins what ssh said.
VIA = "Failed to connect to the host via ssh: "

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
        RankEnd(rank, host, ended_at, 128 + signal, f"ranks/{rank}.json")
        for rank, host, ended_at, signal in ((1, "node2", 10.0, 9), (0, "node1", 10.2, 15))
    )
    blamed = Log("logs/mpirun.log", "process rank 0 with PID 18 on node node1 calling abort\n")
    found = diagnose(replace(killed, mpirun_log=blamed, rank_ends=ends))
    assert (found.host, found.rank, found.signature) == ("node2", 1, "rank_ended_by_kill")
    assert found.log == "ranks/1.json"


def test_a_finding_of_the_whole_machine_is_laid_to_the_first_failed_rank(record: Record) -> None:
    killed = record("killed")
    findings = tuple(
        Finding("node_out_of_memory", {"processes": 1}, f"nodes/{host}/findings.json", host)
        for host in ("node1", "node2")
    )
    found = diagnose(replace(killed, findings=findings))
    assert (found.host, found.signature) == ("node2", "node_out_of_memory")


def test_a_short_proof_comes_with_the_lines_that_lead_to_it(record: Record) -> None:
    found = with_log(record, "rank", "Traceback\n  in step\n    loss()\nKeyError: 'fc'\nafter\n")
    assert found.proof == ("  in step", "    loss()", "KeyError: 'fc'")


def test_out_of_memory_is_told_from_a_kill(record: Record) -> None:
    killed = record("killed")
    finding = Finding("container_out_of_memory", {}, "nodes/node2/findings.json", "node2")
    found = diagnose(replace(killed, findings=(finding,)))
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


def test_a_run_that_could_not_be_followed_any_more_says_so(record: Record) -> None:
    run = record("unknown")
    failures = (
        TaskFailure("node1", "Follow the run", "training_run", "tasks/follow.yml", "why", False),
        TaskFailure("node2", "Check", "training_run", "tasks/conclude.yml", "status 1", False),
    )
    launch = replace(run.manifest.launch, failures=failures)
    found = diagnose(replace(run, manifest=replace(run.manifest, launch=launch)))
    assert (found.host, found.cause, found.log) == ("node1", "why", "ansible.log")


def with_log(record: Record, where: str, text: str) -> Diagnosis:
    """Diagnose a run of which nothing is known but one text."""
    bare = replace(record("unknown"), mpirun_log=None)
    if where == "rank":
        return diagnose(replace(bare, rank_logs=(Log("logs/rank-1.log", text, "node2", 1),)))
    if where == "mpirun":
        return diagnose(replace(bare, mpirun_log=Log("logs/mpirun.log", text)))
    if where == "container":
        log = Log("nodes/node2/container.log", text, "node2")
        refused = Log("logs/mpirun.log", "ssh: connect to host 10.0.0.2: Connection refused\n")
        return diagnose(replace(bare, container_logs=(log,), mpirun_log=refused))
    failure = TaskFailure("node2", "Look at the nodes", "training_run", "check.yml", text, True)
    launch = replace(bare.manifest.launch, failures=(failure,))
    return diagnose(replace(bare, rank_logs=(), manifest=replace(bare.manifest, launch=launch)))


WORDS = [
    (
        "address_translated",
        "container",
        "Z /etc/trainyard/ssh/authorized_keys:1: Authentication tried for trainer with correct key "
        "but not from a permitted host (host=10.0.0.1, ip=10.0.0.1, required=10.0.0.11).",
        "came from 10.0.0.1 instead of 10.0.0.11",
    ),
    ("disk_full", "rank", "OSError: [Errno 28] No space left on device", "disk"),
    ("gpu_out_of_memory", "rank", "torch.OutOfMemoryError: CUDA out of memory. Tried", "GPU"),
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
        "ranks_unreachable",
        "mpirun",
        "At least one pair of MPI processes are unable to reach each other for\n"
        "MPI communications.  This means that no Open MPI device has indicated\n"
        "that it can be used to communicate between these processes.\n\n"
        "  Process 1 ([[13212,1],1]) is on host: node2\n"
        "  Process 2 ([[13212,1],0]) is on host: node1\n  BTLs attempted: self\n",
        "between node2 and node1",
    ),
    (
        "not_enough_slots",
        "mpirun",
        "There are not enough slots available in the system to satisfy the 2\nslots that",
        "slots",
    ),
    (
        "launch_too_late",
        "container",
        "2026-11-29T10:42:24.117998790Z mpirun has not come for 180 s: this container ends\n",
        "on node2 ended, because mpirun had not reached it within 180 s",
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
        "stalled_tensor",
        "rank",
        "[W stall_inspector.cc:107] One or more tensors were submitted to be reduced\n"
        "Missing ranks:\n1: [allreduce.head.weight]\n",
        "Rank 1 did not take part in",
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
        "gpu_device_missing",
        "ansible",
        'starting trainyard-x: {"message":"error gathering device information while adding custom '
        'device \\"/dev/kfd\\": no such file or directory"}',
        "get the GPUs of node2: there is no /dev/kfd",
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
    # What NVIDIA's toolkit 1.20.0 and Debian's engines 20.10 and 26.1 said on machines with GPUs of
    # NVIDIA's toolkit 1.20.0, without the driver's library.
    (
        "gpu_driver_missing",
        "ansible",
        'starting trainyard-x: {"message":"failed to create shim task: OCI runtime create failed: '
        "could not apply required modification to OCI specification: error modifying OCI spec: "
        "failed to create the automatic CDI modifier: failed to generate CDI spec for mode "
        '\\"auto\\": failed to construct device spec generators: failed to initialize NVML: '
        'ERROR_LIBRARY_NOT_FOUND: unknown"}',
        "the GPUs of node2: failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND.",
    ),
    # The end of it with NVIDIA's library 550.163.01 on a machine without a driver.
    (
        "gpu_driver_missing",
        "ansible",
        "failed to create device CDI specs: failed to construct device spec generators: failed to "
        "initialize NVML: Driver Not Loaded",
        "the GPUs of node2: failed to initialize NVML: Driver Not Loaded.",
    ),
    # The error's words are those of NVML, as nvidia-smi says them (pop-os/
    # nvidia-graphics-drivers-470#18).
    (
        "gpu_driver_mismatch",
        "ansible",
        "failed to construct device spec generators: failed to initialize NVML: Driver/library "
        'version mismatch: unknown"}',
        "kernel of node2 has loaded",
    ),
    # dstackai/dstack#2306; the same of toolkit 1.20.0, without --runtime=nvidia.
    (
        "gpu_runtime_missing",
        "ansible",
        "OCI runtime create failed: runc create failed: unable to start container process: error "
        "during container init: error running prestart hook #0: exit status 1, stdout: , stderr: "
        "Using requested mode 'cdi'\\ninvoking the NVIDIA Container Runtime Hook directly (e.g. "
        "specifying the docker --gpus flag) is not supported. Please use the NVIDIA Container "
        "Runtime (e.g. specify the --runtime=nvidia flag) instead.: unknown",
        "engine of node2 cannot give GPUs",
    ),
    # NVIDIA/nvidia-container-toolkit#434; the same of toolkit 1.20.0, without the specification.
    (
        "gpu_specification_old",
        "ansible",
        "could not apply required modification to OCI specification: error modifying OCI spec: "
        "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=1: unknown",
        "specification of node2",
    ),
    # The engine, where the specification was made for another release of the driver.
    (
        "gpu_specification_old",
        "ansible",
        'starting trainyard-x: {"message":"failed to create shim task: OCI runtime create failed: '
        "runc create failed: unable to start container process: error during container init: error "
        'mounting \\"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.183.01\\" to rootfs at '
        '\\"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.183.01\\": stat '
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.183.01: no such file or directory: unknown",
        "does not fit its driver",
    ),
]

# A code, its values, the file it comes in, and what the cause says.
NODE, RANK, LAUNCHER = "nodes/node2/findings.json", "failures/rank-1.json", "failures/launcher.json"
FINDINGS: list[tuple[str, dict[str, Any], str, str]] = [
    ("disk_full", {"path": "/run/trainyard"}, RANK, "disk"),
    ("container_place_full", {"path": "/tmp", "size": "2.1 GB"}, RANK, "/tmp is full"),
    (
        "container_shm_full",
        {"path": "/dev/shm", "size": "2.1 GB"},
        RANK,
        "/dev/shm is full: 2.1 GB",
    ),
    ("run_directory_full", {"path": "/run/x", "size": "9 GB"}, RANK, "of node2 that holds the run"),
    ("node_disk_full", {"path": "/srv/runs", "bytes": 4096}, NODE, "(/srv/runs) is full"),
    ("node_inodes_used_up", {"path": "/srv/runs"}, NODE, "(/srv/runs) has no free inode"),
    ("node_out_of_memory", {"processes": 1}, NODE, "memory ran out"),
    ("container_out_of_memory", {}, NODE, "ran out of memory"),
    ("gpu_lost", {"gpu": 1, "model": "A100", "message": "GPU is lost"}, NODE, "(A100) of node2 no"),
    ("gpu_ecc_errors", {"gpu": 1, "model": "A100", "errors": 2}, NODE, "had 2 uncorrected errors"),
    ("gpu_xid_errors", {"gpu": 1, "model": "A100", "xids": "48, 63"}, NODE, "Xid 48, 63"),
    ("container_killed", {}, NODE, "node2 was killed"),
    ("engine_gone", {"message": "no answer"}, NODE, "engine on node2 is gone"),
    ("gpu_out_of_memory", {"message": "CUDA out of memory"}, RANK, "GPU"),
    ("gpu_unusable", {"host": "node2", "message": "too old"}, RANK, "on those of node2: too old"),
    ("wrong_configuration", {"message": "unknown key: sed"}, RANK, "unknown key: sed"),
    ("wrong_world", {"message": "running are 2 (2 on node1)"}, RANK, "running are 2 (2 on node1)"),
    ("loss_not_a_number", {"message": "became nan at step 20"}, RANK, "became nan at step 20"),
    ("share_gone", {"share": "/data (cifs)", "message": "Host is down"}, RANK, "read /data (cifs)"),
    ("file_system_gone", {"path": "/a.pt", "message": "Stale"}, RANK, "or write /a.pt: Stale"),
    ("file_denied", {"path": "/data/a/1.jpg"}, RANK, "may not read or write /data/a/1.jpg"),
    ("dataset_missing", {"path": "/data/cifar10"}, RANK, "/data/cifar10 is empty"),
    ("dataset_damaged", {"message": "wrong shape"}, RANK, "wrong shape"),
    ("checkpoint_unusable", {"message": "its sha256 is wrong"}, RANK, "its sha256 is wrong"),
    (
        "no_cluster_address",
        {"host": "node2", "network": "10.0.0.0/24"},
        RANK,
        "node2 has no address in the training network 10.0.0.0/24",
    ),
    ("python_error", {"error": "KeyError", "message": "'fc'"}, RANK, "KeyError: 'fc'"),
    ("rank_stopped", {"rank": 1, "host": "node2"}, LAUNCHER, "Rank 1 was stopped"),
    (
        "rank_waits_for_share",
        {"rank": 1, "host": "node2", "share": "/data (nfs4 of files:/data)"},
        LAUNCHER,
        "Rank 1 waits for /data (nfs4 of files:/data), which does not answer",
    ),
    ("rank_waits_for_disk", {"rank": 1, "host": "node2"}, LAUNCHER, "Rank 1 waits"),
    ("peer_silent", {"host": "node2"}, LAUNCHER, "node2 no longer answers"),
    ("stalled", {"seconds": 50}, LAUNCHER, "stood still for 50 s"),
    ("start_stalled", {"seconds": 120}, LAUNCHER, "within 120 s"),
    (
        "peer_unreachable",
        {"host": "node2", "address": "10.0.0.12:2222", "message": "timed out"},
        LAUNCHER,
        "on node2: timed out",
    ),
    ("mpirun_killed", {"host": "node1", "signal": 9, "word": "Killed"}, LAUNCHER, "9 (Killed)"),
]


@pytest.mark.parametrize(("name", "where", "text", "said"), WORDS)
def test_foreign_words(record: Record, name: str, where: str, text: str, said: str) -> None:
    found = with_log(record, where, text)
    assert found.signature == name
    assert said in found.cause
    assert found.proof


@pytest.mark.parametrize(("code", "values", "path", "said"), FINDINGS)
def test_finding(
    recorded: Callable[[str], Path], code: str, values: dict[str, Any], path: str, said: str
) -> None:
    """From the file as it comes home to the words of the diagnosis."""
    run = recorded("unknown")
    finding = {"code": code, "values": values}
    document: Any = [finding]
    if path == RANK:
        document = {"rank": 1, "host": "node2", **finding, "message": "a sentence"}
    (run / path).parent.mkdir(parents=True, exist_ok=True)
    (run / path).write_text(json.dumps(document))
    found = diagnose(read_run(run))
    assert found.signature == code
    assert said in found.cause
    assert "{" not in found.cause + found.remedy
    assert found.proof
    if path == RANK:
        assert (found.host, found.rank) == ("node2", 1)


def test_a_busy_first_node_does_not_accuse_the_network(recorded: Callable[[str], Path]) -> None:
    """It did not even answer itself in time, though the others may have been as slow."""
    run = recorded("unknown")
    (run / "failures").mkdir(exist_ok=True)
    found = [{"code": "stalled", "values": {"seconds": 60}}]
    found += [{"code": "peer_silent", "values": {"host": host}} for host in ("node1", "node2")]
    (run / LAUNCHER).write_text(json.dumps(found))
    assert diagnose(read_run(run)).signature == "stalled"
    (run / LAUNCHER).write_text(json.dumps([found[0], found[2]]))
    assert diagnose(read_run(run)).host == "node2"


@pytest.mark.parametrize(
    "code", [code for code, values, path, _ in FINDINGS if values and path != NODE]
)
def test_a_finding_without_its_values_is_still_a_diagnosis(
    recorded: Callable[[str], Path], code: str
) -> None:
    """A rank can write what it likes; the run must get its summary all the same."""
    run = recorded("unknown")
    (run / RANK).parent.mkdir(parents=True, exist_ok=True)
    (run / RANK).write_text(json.dumps({"code": code, "values": {}}))
    found = diagnose(read_run(run))
    assert found.signature == code
    assert "{" not in found.cause + found.remedy


@pytest.mark.parametrize("text", ["", "[]", "{", '"a"', "[1, null]", '[{"code": 3}]', '{"a": 1}'])
@pytest.mark.parametrize("path", [NODE, RANK, LAUNCHER])
def test_a_file_that_holds_no_findings_hides_nothing(
    recorded: Callable[[str], Path], path: str, text: str
) -> None:
    run = recorded("unknown")
    (run / path).parent.mkdir(parents=True, exist_ok=True)
    (run / path).write_text(text)
    assert diagnose(read_run(run)).cause.startswith("Unknown: mpirun ended with status 3")


ABORTED = (
    "prterun noticed that process rank 1 with PID 34 on node node2 exited on\nsignal 6 (Aborted).\n"
)


def test_of_a_rank_that_died_of_a_signal_its_last_words_are_shown(record: Record) -> None:
    own = (
        *(f"step {number}" for number in range(40)),
        "terminate called after throwing an instance of 'gloo::IoException'",
        "  what():  Connection closed by peer",
        "Fatal Python error: Aborted",
        "",
        "Current thread 0x00007f01 (most recent call first):",
        *(f'  File "/opt/module.py", line {number} in frame' for number in range(20)),
    )
    log = Log("logs/rank-1.log", "\n".join(own), "node2", 1)
    run = replace(record("unknown"), rank_logs=(log,), mpirun_log=Log("logs/mpirun.log", ABORTED))
    found = diagnose(run)
    assert (found.signature, found.log, found.rank) == ("rank_signal", log.path, 1)
    assert found.proof[:4] == ("step 39", *own[40:43])
    assert len(found.proof) == 10
    silent = replace(run, rank_logs=(replace(log, text="\n"),))
    assert diagnose(silent).log == "logs/mpirun.log"
    plain = replace(run, rank_logs=(replace(log, text="\n".join(own[:40])),))
    assert diagnose(plain).proof == own[30:40]


def test_an_unreachable_node_is_told_from_one_that_is_not_fit(record: Record) -> None:
    unfit = record("unfit")
    problem = Problem("unreachable", "unreachable: No route to host", "node2")
    failure = replace(unfit.manifest.launch.failures[0], problems=(problem,))
    launch = replace(unfit.manifest.launch, failures=(failure,))
    found = diagnose(replace(unfit, manifest=replace(unfit.manifest, launch=launch)))
    assert (found.host, found.signature) == ("node2", "host_unreachable")
    assert "Nothing was started" in found.proof[0]


def test_nodes_that_are_lost_while_a_run_is_ended_are_named_with_a_way_on(record: Record) -> None:
    """Ansible's failures have what ssh said, without Ansible's words before it."""
    run = record("unknown")
    lost = tuple(
        parse_failure(Event("runner_on_unreachable", 0, task="End it", host=host, result=said))
        for host, said in (
            ("node2", {"msg": f"Task failed: {VIA}ssh: connect to host 10.0.0.2: Timed out"}),
            ("node1", {"msg": f"{VIA}ssh: connect to host 10.0.0.1: No route to host"}),
        )
    )
    launch = replace(run.manifest.launch, failures=lost)
    found = diagnose(replace(run, manifest=replace(run.manifest, launch=launch)))
    assert (found.host, found.signature) == ("node2, node1", "host_unreachable")
    assert found.cause == "The control node cannot reach node2, node1 over SSH."
    assert found.remedy == "make doctor says why, and what mends it."
    assert found.proof[0] == "ssh: connect to host 10.0.0.2: Timed out"


def test_every_signature_is_tested() -> None:
    elsewhere = {
        "gang_incomplete",
        "host_unreachable",
        "rank_ended_by_kill",
        "rank_killed",
        "program_error",
    }
    elsewhere |= {
        "rank_ended_early",
        "file_of_other_node",
        "program_not_executable",
        "rank_elsewhere",
        "ranks_at_different_lines",
        "module_of_project_missing",
    }
    elsewhere |= {each.name for each in load_signatures() if each.where == "program"}
    tested = {name for name, *_ in WORDS} | {code for code, *_ in FINDINGS}
    assert {signature.name for signature in load_signatures()} == tested | elsewhere


def codes_in(schema: str) -> set[str]:
    """The codes that a schema of findings has."""
    text = (SCHEMAS / schema).read_text(encoding="utf-8")
    return set(re.findall(r'"const": "([a-z_]+)"', text))


def test_what_root_and_this_machine_say_nobody_else_can() -> None:
    of_ranks = codes_in("rank_failure.schema.json") | codes_in("launcher_failures.schema.json")
    assert of_ranks & OF_OTHERS == set()
    assert codes_in("findings.schema.json") - of_ranks <= OF_OTHERS
    known = {signature.name for signature in load_signatures()}
    assert (
        known - of_ranks - OF_OTHERS
        == {signature.name for signature in load_signatures() if signature.pattern}
        - of_ranks
        - OF_OTHERS
    )


FORGED = [
    (RANK, {"rank": 1, "host": "node2", "code": "container_killed", "values": {"host": "node2"}}),
    (LAUNCHER, [{"code": "engine_gone", "values": {"host": "node2", "message": "x"}}]),
    (LAUNCHER, [{"code": "host_unreachable", "values": {"host": "node2", "message": "x"}}]),
]


@pytest.mark.parametrize(("path", "document"), FORGED)
def test_a_rank_does_not_speak_for_a_node(
    recorded: Callable[[str], Path], path: str, document: Any
) -> None:
    run = recorded("unknown")
    (run / path).parent.mkdir(parents=True, exist_ok=True)
    (run / path).write_text(json.dumps(document))
    assert diagnose(read_run(run)).signature is None


def test_what_root_found_comes_before_the_words_of_ranks(recorded: Callable[[str], Path]) -> None:
    run = recorded("unknown")
    with (run / "logs/rank-1.log").open("a") as log:
        log.write("OSError: [Errno 28] No space left on device\n")
    assert diagnose(read_run(run)).signature == "disk_full"
    (run / NODE).parent.mkdir(parents=True, exist_ok=True)
    (run / NODE).write_text(json.dumps([{"code": "container_killed", "values": {}}]))
    found = diagnose(read_run(run))
    assert (found.signature, found.host) == ("container_killed", "node2")


def test_no_rank_is_believed_about_where_the_run_is(recorded: Callable[[str], Path]) -> None:
    run = recorded("killed")
    ranks = [{"rank": rank, "host": host} for rank, host in ((0, "node1"), (1, "../../etc"))]
    (run / "world.json").write_text(json.dumps({"world_size": 2, "ranks": ranks}))
    (run / "ranks").mkdir(exist_ok=True)
    end = {"rank": 1, "host": "elsewhere", "ended_at": 1, "exit_status": 137}
    (run / "ranks/1.json").write_text(json.dumps(end))
    finding = {"rank": 0, "host": "elsewhere", "code": "disk_full", "values": {"path": "/"}}
    (run / "failures").mkdir(exist_ok=True)
    (run / "failures/rank-0.json").write_text(json.dumps(finding))
    (run / "logs/rank-0.log").write_text("rank 0 of 2 on elsewhere (pid 1)\n")
    (run / "logs/mpirun.log").write_text("process rank 0 with PID 2 on node elsewhere exited\n")
    record = read_run(run)
    assert record.hosts == ("node1", "node2")
    assert record.rank_ends == ()
    assert "elsewhere" not in str(diagnose(record).host)
    assert diagnose(record).signature == "disk_full"
