"""Why a program of the user's own failed: its exception, and the line of its code."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from extend import end_ranks, make_project

from yard.runs.crashes import parse_traceback
from yard.runs.diagnosis import Diagnosis, diagnose
from yard.runs.record import read_run
from yard.runs.retry import fault_of, worth_another
from yard.runs.signatures import load_signatures

CODE = "import digits\n\n\ndef main():\n    x = 1 / 0\n\n\nmain()\n"
TRACEBACK = """Traceback (most recent call last):
  File "/run/trainyard/project/train.py", line 8, in <module>
    main()
  File "/run/trainyard/project/train.py", line 5, in main
    x = 1 / 0
        ~~^~~
  File "/usr/lib/python3/dist-packages/torch/nn.py", line 3, in forward
    return self._call()
{exception}
"""


@pytest.fixture
def run(recorded: Callable[[str], Path]) -> Path:
    """A run that failed."""
    return recorded("unknown")


def failed(run: Path, *texts: str, statuses: tuple[int, ...] = (1, 1)) -> Path:
    """Make the run one of a program; the texts are what its ranks said, rank 0 first."""
    make_project(run)
    (run / "code").mkdir(exist_ok=True)
    (run / "code/train.py").write_text(CODE)
    for rank, text in enumerate(texts):
        with (run / f"logs/rank-{rank}.log").open("a") as log:
            log.write(text)
    end_ranks(run, *statuses)
    return run


def diagnosed(run: Path) -> Diagnosis:
    found = diagnose(read_run(run))
    assert "{" not in found.cause + found.remedy
    assert "None" not in found.cause + found.remedy
    return found


def test_an_exception_is_the_cause_and_the_user_s_line_the_proof(run: Path) -> None:
    """The last frame is torch's: the last one of the user's own code is shown."""
    said = TRACEBACK.format(exception="ZeroDivisionError: division by zero")
    found = diagnosed(failed(run, "Connection closed by peer\n", said))
    assert (found.host, found.rank, found.signature) == ("node2", 1, "program_error")
    assert found.cause == "The program ended with ZeroDivisionError: division by zero"
    assert found.proof == (
        "code/train.py:5: x = 1 / 0",
        "ZeroDivisionError: division by zero",
    )
    assert found.log == "logs/rank-1.log"


def test_who_fell_because_of_another_is_not_the_cause(run: Path) -> None:
    """Rank 1 ended first, by its clock; it says itself that its peer had gone."""
    gone = TRACEBACK.format(exception="RuntimeError: [gloo/pair.cc:534] Connection closed by peer")
    own = TRACEBACK.format(exception="KeyError: 'fc'")
    found = diagnosed(failed(run, own, gone))
    assert (found.rank, found.cause) == (0, "The program ended with KeyError: 'fc'")
    asked_to_end = diagnosed(failed(run, own, "", statuses=(1, 143)))
    assert (asked_to_end.rank, asked_to_end.signature) == (0, "program_error")
    # Where all say so, the first of them is all that is known.
    assert diagnosed(failed(run, gone, gone)).rank == 1


def test_clocks_of_nodes_may_differ(run: Path) -> None:
    """Rank 0 fell first; the clock of its node is ten minutes ahead."""
    own = TRACEBACK.format(exception="KeyError: 'fc'")
    failed(run, own, own.replace("fc", "bn"))
    for rank, ahead, after in ((0, 600, 30), (1, 0, 33)):
        path = run / f"ranks/{rank}.json"
        times = {"started_at": 1000.0 + ahead + rank, "ended_at": 1000.0 + ahead + after}
        path.write_text(json.dumps({**json.loads(path.read_text()), **times}))
    assert diagnosed(run).cause == "The program ended with KeyError: 'fc'"


def test_a_rank_that_ended_well_while_others_waited_is_named(run: Path) -> None:
    gone = TRACEBACK.format(exception="RuntimeError: [gloo/pair.cc:534] Connection closed by peer")
    failed(run, gone, "done early\n", statuses=(1, 0))
    found = diagnosed(run)
    assert (found.signature, found.rank, found.host) == ("rank_ended_early", 1, "node2")
    assert found.proof == ("RuntimeError: [gloo/pair.cc:534] Connection closed by peer",)
    # So is it by one that waited until its time was up.
    late = TRACEBACK.format(exception="torch.distributed.DistStoreError: Timed out after 6 seconds")
    (run / "logs/rank-0.log").write_text(late)
    assert diagnosed(run).signature == "rank_ended_early"
    # And where mpirun says that it had joined MPI; the others are ended then.
    (run / "logs/rank-0.log").write_text("Terminated\n")
    assert diagnosed(run).signature is None
    (run / "logs/mpirun.log").write_text("rank 1 with PID 39 on node node2 exiting\nimproperly.\n")
    assert diagnosed(run).signature == "rank_ended_early"
    # One that fell by an exception of its own needed no other.
    own = TRACEBACK.format(exception="KeyError: 'fc'")
    (run / "logs/rank-0.log").write_text(own)
    assert diagnosed(run).signature == "program_error"


HUNG = """Thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 1044 in _bootstrap_inner
  File "/usr/lib/python3.13/threading.py", line 1014 in _bootstrap

Current thread 0x00007f01 (most recent call first):
{calls}  File "/run/trainyard/project/train.py", line 5 in main
  File "/run/trainyard/project/train.py", line 8 in <module>
Current thread 0x00007f03 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py", line 275 in _worker_loop
  File "/usr/lib/python3.13/multiprocessing/process.py", line 313 in _bootstrap
  File "/run/trainyard/project/train.py", line 5 in main
"""
IN_TORCH = '  File "/usr/lib/python3/dist-packages/torch/{file}", line 99 in {function}\n'
WAITING = IN_TORCH.format(file="distributed/distributed_c10d.py", function="all_reduce")
BACKWARD = IN_TORCH.format(file="autograd/graph.py", function="_engine_run_backward")


def test_the_rank_that_hangs_elsewhere_is_named(run: Path) -> None:
    """Rank 1 sleeps, and rank 0 is in all_reduce: their stacks show it."""
    failed(run, HUNG.format(calls=WAITING), HUNG.format(calls=""), statuses=(143, 143))
    assert diagnosed(run).signature != "rank_elsewhere"  # nobody says that they stood still
    (run / "failures").mkdir(exist_ok=True)
    problems = [{"code": "stalled", "values": {"seconds": 8}}]
    # Where all wrote their stacks, a node that answered late is not the cause.
    problems.append({"code": "peer_silent", "values": {"host": "node1"}})
    (run / "failures/launcher.json").write_text(json.dumps(problems))
    found = diagnosed(run)
    assert (found.signature, found.rank, found.host) == ("rank_elsewhere", 1, "node2")
    assert "Rank 1 stood still at code/train.py:5 in main on node2" in found.cause
    assert found.proof == ('File "/run/trainyard/project/train.py", line 5 in main',)
    (run / "logs/rank-1.log").write_text(HUNG.format(calls=IMPORTING))
    assert diagnosed(run).rank == 1
    # DistributedDataParallel waits in the backward pass.
    (run / "logs/rank-0.log").write_text(HUNG.format(calls=BACKWARD))
    assert diagnosed(run).rank == 1


def test_ranks_that_wait_at_different_lines_are_told(run: Path) -> None:
    """One has fewer batches, and is at the barrier behind its loop."""
    text = HUNG.format(calls=WAITING)
    failed(run, text, text.replace("line 5 in main", "line 6 in main"), statuses=(143, 143))
    (run / "failures").mkdir(exist_ok=True)
    problems = [{"code": "stalled", "values": {"seconds": 8}}]
    (run / "failures/launcher.json").write_text(json.dumps(problems))
    found = diagnosed(run)
    assert found.signature == "ranks_at_different_lines"
    places = "rank 0 at code/train.py:5 in main, rank 1 at code/train.py:6 in main"
    assert places in found.cause
    (run / "logs/rank-1.log").write_text(text)
    found = diagnosed(run)
    assert found.signature == "stalled"
    assert "raise STALL=" in found.remedy


def test_a_module_that_a_package_of_the_project_lacks_is_told_from_a_distribution(
    run: Path,
) -> None:
    says = TRACEBACK.format(exception="ModuleNotFoundError: No module named 'src.data'")
    assert diagnosed(failed(run, "", says)).signature == "package_missing"
    (run / "code/src").mkdir(parents=True)
    (run / "code/src/__init__.py").touch()
    found = diagnosed(run)
    assert found.signature == "module_of_project_missing"
    assert "imports src.data, which is not in its own package src" in found.cause
    assert "!src/data/**" in found.remedy


IMPORTING = IN_TORCH.format(file="distributed/rpc/api.py", function="<module>")


@pytest.mark.parametrize(
    "stacks",
    [("", ""), (WAITING, WAITING), (WAITING, None), (IMPORTING, IMPORTING)],
    ids=["both", "none", "untold", "importing"],
)
def test_who_hangs_is_not_guessed(run: Path, stacks: tuple[str | None, str | None]) -> None:
    said = ["" if calls is None else HUNG.format(calls=calls) for calls in stacks]
    failed(run, *said, statuses=(143, 143))
    (run / "failures").mkdir(exist_ok=True)
    problems = [{"code": "stalled", "values": {"seconds": 8}}]
    (run / "failures/launcher.json").write_text(json.dumps(problems))
    assert diagnosed(run).signature == "stalled"


@pytest.mark.parametrize(
    ("path", "home"),
    [
        ("output/checkpoint-1/model.bin", "workdir/output/checkpoint-1/model.bin"),
        ("/run/trainyard/project/out/a.bin", "workdir/out/a.bin"),
        ("/run/trainyard/checkpoints/a.pt", "checkpoints/a.pt"),
    ],
)
def test_a_file_that_another_node_has_is_told_so(run: Path, path: str, home: str) -> None:
    words = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    failed(run, "", TRACEBACK.format(exception=words))
    assert diagnosed(run).signature == "program_file_missing"
    (run / home).parent.mkdir(parents=True, exist_ok=True)
    (run / home).write_text("weights")
    found = diagnosed(run)
    assert (found.signature, found.host) == ("file_of_other_node", "node2")
    assert found.cause.startswith("The program looks on node2 for a file that node1 alone has: ")


def test_memory_that_the_program_got_over_is_not_the_cause(run: Path) -> None:
    own = TRACEBACK.format(exception="KeyError: 'fc'")
    failed(run, "", own)
    finding = {"code": "container_out_of_memory", "values": {}}
    path = run / "nodes/node2/findings.json"
    path.write_text(json.dumps([finding]))
    assert diagnosed(run).cause == "The program ended with KeyError: 'fc'"
    worker = "RuntimeError: DataLoader worker (pid 31) is killed by signal: Killed."
    (run / "logs/rank-1.log").write_text(TRACEBACK.format(exception=worker))
    assert diagnosed(run).signature == "container_out_of_memory"
    # The others fell because of a rank that was killed.
    (run / "logs/rank-1.log").write_text(own)
    end_ranks(run, 1, 128 + 9)
    assert diagnosed(run).signature == "container_out_of_memory"


HANDLED = """ERROR:root:no curves
Traceback (most recent call last):
  File "/run/trainyard/project/train.py", line 3, in <module>
    import apex
ModuleNotFoundError: No module named 'apex'
Exception ignored in: <function Closed.__del__ at 0x7f>
Traceback (most recent call last):
  File "/run/trainyard/project/train.py", line 6, in __del__
    raise OSError(28, "No space left on device")
OSError: [Errno 28] No space left on device
epoch 1 done
"""


def test_an_exception_that_the_program_got_over_is_not_the_cause(run: Path) -> None:
    said = HANDLED + TRACEBACK.format(exception="ZeroDivisionError: division by zero")
    found = diagnosed(failed(run, said, said))
    assert found.cause == "The program ended with ZeroDivisionError: division by zero"


def test_a_program_that_leaves_by_itself_fell_by_no_exception(run: Path) -> None:
    """Its Python says so: neither the import nor the full disk that it got over is the cause."""
    said = HANDLED + "FATAL: learning rate file is missing the key warmup\n"
    failed(run, said, said)
    for path in (run / "ranks").glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "exception": False}))
    record = read_run(run)
    assert record.crashes == ()
    found = diagnosed(run)
    assert found.signature is None
    assert found.cause == (
        "Rank 1 of the program ended by itself with status 1; its last output: "
        "FATAL: learning rate file is missing the key warmup"
    )
    assert found.proof[-1] == "FATAL: learning rate file is missing the key warmup"
    assert worth_another(record) is not None


@pytest.mark.parametrize(("exception", "status"), [(False, 1), (None, 3)])
@pytest.mark.parametrize(
    "after", ["", "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"]
)
def test_an_exception_that_a_program_prints_and_leaves_for_is_the_cause(
    run: Path, after: str, exception: bool | None, status: int
) -> None:
    """By sys.exit or os._exit: nothing of its own comes after it. Where it goes on, it got over."""
    said = HANDLED + TRACEBACK.format(exception="KeyError: 'fc'") + after
    failed(run, "", said, statuses=(1, status))
    end = run / "ranks/1.json"
    end.write_text(json.dumps({**json.loads(end.read_text()), "exception": exception}))
    assert diagnosed(run).cause == "The program ended with KeyError: 'fc'"
    with (run / "logs/rank-1.log").open("a") as log:
        log.write("no such configuration: a.yml\n")
    assert diagnosed(run).cause == (
        f"Rank 1 of the program ended by itself with status {status}; its last output: "
        "no such configuration: a.yml"
    )


def test_what_a_rank_s_python_says_counts_more_than_its_log(run: Path) -> None:
    """Also where the exception came from nowhere in the user's code."""
    failed(run, "", HANDLED)
    end = run / "ranks/1.json"
    end.write_text(json.dumps({**json.loads(end.read_text()), "exception": True}))
    stack = (
        'Traceback (most recent call last):\n  File "/usr/lib/x.py", line 1, in f\nKeyError: 3\n'
    )
    told = {"message": "KeyError: 3", "extraInfo": {"py_callstack": stack}}
    (run / "failures").mkdir(exist_ok=True)
    (run / "failures/torch-1.json").write_text(json.dumps({"message": told}))
    assert diagnosed(run).cause == "The program ended with KeyError: 3"


def test_what_torchrun_says_of_a_child_is_not_the_cause() -> None:
    own = TRACEBACK.format(exception="KeyError: 'fc'")
    agent = (
        "E1128 elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0\n"
        "Traceback (most recent call last):\n"
        '  File "/usr/bin/torchrun", line 33, in <module>\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "=====\ntrain.py FAILED\n"
    )
    told = parse_traceback(HANDLED + own + agent)
    assert told is not None
    assert told.error == "KeyError"


def test_of_several_processes_in_one_log_the_first_to_fall_counts() -> None:
    def says(rank: int, exception: str) -> str:
        text = TRACEBACK.format(exception=exception)
        return "".join(f"[rank{rank}]: {line}" for line in text.splitlines(keepends=True))

    told = parse_traceback(says(1, "KeyError: 'fc'") + says(0, "RuntimeError: Timed out"))
    assert told is not None
    assert told.error == "KeyError"


EXCEPTIONS = [
    (
        "program_shm_full",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory.",
        "/dev/shm on node2",
    ),
    (
        "program_shm_full",
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_7_0>: No space left "
        "on device (28)",
        "/dev/shm",
    ),
    ("program_shm_full", "OSError: [Errno 28] No space left on device: '/dev/shm/a'", "/dev/shm"),
    (
        "waited_in_vain",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
        "waiting 1800000ms for recv operation to complete",
        "until its timeout",
    ),
    (
        "waited_in_vain",
        "torch.distributed.DistBackendError: [Rank 2] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=22, OpType=BROADCAST, Timeout(ms)=600000)",
        "until its timeout",
    ),
    (
        "tcp_rendezvous",
        "ValueError: Error initializing torch.distributed using tcp:// rendezvous: rank parameter "
        "missing",
        "without a rank",
    ),
    (
        "network_out_of_reach",
        "RuntimeError: Error downloading train-images-idx3-ubyte.gz:",
        "on the network",
    ),
    (
        "lightning_world",
        "ValueError: You set `devices=1` and `num_nodes=1` in Lightning, but the product (1 * 1) "
        "does not match the world size (2).",
        "another number of ranks",
    ),
    ("made_already", "FileExistsError: [Errno 17] File exists: './outputs_1'", "./outputs_1"),
    ("no_gpu_for_program", "AssertionError: Torch not compiled with CUDA enabled", "node2"),
    (
        "no_gpu_for_program",
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
        "node2",
    ),
    ("no_gpu_for_program", "RuntimeError: Found no NVIDIA driver on your system.", "GPU"),
    ("no_gpu_for_program", "RuntimeError: No CUDA GPUs are available", "GPU"),
    ("no_gpu_for_program", "ValueError: ProcessGroupNCCL is only supported with GPUs, no", "GPU"),
    (
        "no_gpu_for_program",
        "RuntimeError: Attempting to deserialize object on a CUDA device but "
        "torch.cuda.is_available() is False.",
        "GPU",
    ),
    (
        # haotian-liu/LLaVA#683, huggingface/huggingface_hub#4134
        "gpu_fabric_not_started",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
        "before calling NumCudaDevices() that might have already set an error? Error 802: system "
        "not yet initialized",
        "CUDA does not start on the GPUs of node2",
    ),
    (
        # As a warning, of CUDA 13.0 on a driver that takes 12.8: pytorch/pytorch#162531; as an
        # exception: lllyasviel/Fooocus#1313.
        "driver_too_old_for_program",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please "
        "update your GPU driver by downloading and installing a new version from the URL: "
        "http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to "
        "install a PyTorch version that has been compiled with your version of the CUDA driver.",
        "newer NVIDIA driver than node2 has",
    ),
    (
        # pytorch/pytorch#31285; in PyTorch 2.8.0 for CUDA 12.8, of a GTX 1050, the same is a
        # torch.AcceleratorError: bnsreenu/digitalsreeni-image-annotator#57.
        "program_not_built_for_gpu",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "not built for the GPUs of node2",
    ),
    (
        "library_not_in_image",
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "the library libGL.so.1",
    ),
    ("program_place_full", "OSError: [Errno 28] No space left on device", "wrote to on node2"),
    (
        "program_quota",
        "OSError: [Errno 122] Disk quota exceeded: '/data/x'",
        "A quota on node2 lets the program write no more.",
    ),
    ("too_many_open_files", "OSError: [Errno 24] Too many open files: 'x'", "files open on node2"),
    (
        "too_many_open_files",  # pytorch/pytorch#11201
        "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: Too "
        "many open files (24)",
        "files open on node2",
    ),
    (
        "cuda_compiler_not_in_image",
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install "
        "root.",
        "the image has no compiler",
    ),
    (
        "library_of_other_build",
        "ImportError: /x/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        "/x/flash_attn_2_cuda.so was compiled for another",
    ),
    (
        "library_of_other_build",
        "ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /y.so)",
        "/lib/libstdc++.so.6 was compiled for another",
    ),
    (
        "program_not_in_image",
        "RuntimeError: No ffmpeg exe could be found. Install ffmpeg on your system, or set the "
        "IMAGEIO_FFMPEG_EXE environment variable.",
        "starts ffmpeg",
    ),
    ("library_not_in_image", 'OSError: no library called "cairo-2" was found', "library cairo-2"),
    (
        "package_missing",
        "ImportError: Missing optional dependency 'openpyxl'.  Use pip or conda to install "
        "openpyxl.",
        "package openpyxl",
    ),
    (
        "package_missing",
        "ImportError: This modeling file requires the following packages that were not found in "
        "your environment: flash_attn. Run `pip install flash_attn`",
        "package flash_attn",
    ),
    (
        # pytorch/pytorch#107434: torch.save does not say why
        "program_place_full",
        "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0",
        "wrote to on node2",
    ),
    (
        "program_place_full",
        "RuntimeError: PytorchStreamWriter failed writing file data/0: file write failed",
        "wrote to on node2",
    ),
    (
        "program_place_full",
        "OperationalError: database or disk is full",
        "wrote to on node2",
    ),
    ("program_place_full", "OSError: 5000000 requested and 81920 written", "wrote to on node2"),
    ("program_place_full", "OSError: Not enough free space to write 4000 bytes", "wrote to on"),
    (
        "interface_not_there",
        "RuntimeError: [enforce fail at ./gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable "
        "to find address for: eth9",
        "network interface that node2 does not have: eth9",
    ),
    (
        "interface_not_there",
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, internal error. "
        "Last error: Bootstrap : no socket interface found",
        "network interface that node2 does not have",
    ),
    (
        "unused_parameters",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting "
        "a new one. This error indicates that your module has parameters that were not used in "
        "producing loss. You can enable unused parameter detection by passing the keyword argument",
        "did not depend on all parameters",
    ),
    (
        "models_differ",
        "RuntimeError: [1]: params[0] in this process with sizes [5, 4] appears not to match sizes "
        "of the same param in process 0.",
        "The model of rank 1 has other parameters",
    ),
    (
        "worker_killed",
        "RuntimeError: DataLoader worker (pid 47) is killed by signal: Killed.",
        "on node2 (process 47) was killed",
    ),
    (
        "file_not_whole",
        "RuntimeError: PytorchStreamReader failed reading zip archive: not a ZIP archive",
        "a file on node2 that is not whole",
    ),
    ("weights_only", "UnpicklingError: Weights only load failed. In PyTorch 2.6", "more in it"),
    (
        "network_out_of_reach",
        "URLError: <urlopen error [Errno -2] Name or service not known>",
        "that node2 cannot reach",
    ),
    (
        "network_out_of_reach",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
        "find them in the cached files.",
        "that node2 cannot reach",
    ),
    (
        "no_key_for_wandb",
        "UsageError: No API key configured. Use `wandb login` to log in.",
        "without a key",
    ),
    ("too_many_processes", "RuntimeError: can't start new thread", "as many processes and threads"),
    (
        "worker_failed",
        "RuntimeError: DataLoader worker (pid 48) exited unexpectedly with exit code 1. Details "
        "are lost due to multiprocessing.",
        "A data loader worker failed",
    ),
    ("file_not_whole", "EOFError: Ran out of input", "a file on node2 that is not whole"),
    ("program_not_in_image", "ImportError: Bad git executable.", "The program starts git, and"),
    (
        "program_not_in_image",
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        "starts C compiler",
    ),
    (
        "program_not_in_image",
        "ExecutableNotFound: failed to execute PosixPath('dot'), make "
        "sure the Graphviz executables are on your systems' PATH",
        "starts dot",
    ),
    (
        "program_not_in_image",
        "TesseractNotFoundError: tesseract is not installed or it's not in "
        "your PATH. See README file for more information.",
        "starts tesseract",
    ),
    ("program_not_in_image", "RuntimeError: espeak not installed on your system", "starts espeak"),
    (
        "program_not_in_image",
        "PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway "
        "process exited before sending its port number.",
        "starts Java",
    ),
    ("library_not_in_image", "OSError: sndfile library not found", "library sndfile"),
    (
        "library_not_in_image",
        "OSError: cannot load library 'libsndfile.so': libsndfile.so: cannot open shared object "
        "file: No such file or directory",
        "library libsndfile.so",
    ),
    ("library_not_in_image", "ModuleNotFoundError: No module named '_tkinter'", "library tkinter"),
    (
        "name_not_set",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
        "variable RANK expected, but not set",
        "asks the environment for RANK",
    ),
    (
        "program_memory_refused",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate "
        "memory: you tried to allocate 4000000000 bytes. Error code 12 (Cannot allocate memory)",
        "may have on node2",
    ),
    ("package_missing", "ModuleNotFoundError: No module named 'hydra'", "package hydra"),
    (
        "device_ids_without_gpu",
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work "
        "with single-device/multiple-device GPU modules or CPU modules, but got device_ids [0]",
        "device_ids",
    ),
    (
        "port_in_use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: "
        "address already in use",
        "port",
    ),
    ("port_in_use", "OSError: [Errno 98] Address already in use", "port"),
    (
        "rendezvous_failed",
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients.",
        "did not find",
    ),
    (
        "rendezvous_failed",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60s while "
        "trying to connect to (10.0.0.1, 29500).",
        "did not find",
    ),
    (
        "rendezvous_failed",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:156] connect [::1]:1234: "
        "Connection refused",
        "did not find",
    ),
    (
        "rendezvous_failed",
        "torch.distributed.DistNetworkError: The IPv4 network addresses of (node001, 29500) cannot "
        "be retrieved (gai error: -2 - Name or service not known).",
        "did not find",
    ),
    (
        "server_refuses",
        "ConnectionError: HTTPConnectionPool(host='localhost', port=5000): Max retries exceeded "
        "with url: /api (Caused by NewConnectionError('<x>: Failed to establish a new connection: "
        "[Errno 111] Connection refused'))",
        "from node2 no server listens",
    ),
    ("server_refuses", "ConnectionRefusedError: [Errno 111] Connection refused", "from node2"),
    (
        "certificate_unknown",
        "SSLError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with "
        "url: / (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] "
        "certificate verify failed: unable to get local issuer certificate')))",
        "who has signed the certificate",
    ),
    (
        "network_out_of_reach",
        "ConnectTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries "
        "exceeded with url: / (Caused by ConnectTimeoutError(<x>, 'Connection timed out.'))",
        "that node2 cannot reach",
    ),
    (
        "file_locked",
        "BlockingIOError: [Errno 11] Unable to create file (unable to lock file, errno = 11, error "
        "message = 'Resource temporarily unavailable')",
        "another rank or process has locked",
    ),
    (
        "too_many_processes",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "as many processes and threads",
    ),
    (
        "gpu_of_another_rank",
        "torch.distributed.DistBackendError: Duplicate GPU detected : rank 1 and rank 0 both on "
        "CUDA device 1000",
        "a GPU that is not there, or that another rank has",
    ),
    ("asks_for_input", "EOFError: EOF when reading a line", "to be typed"),
    (
        "relative_import",
        "ImportError: attempted relative import with no known parent package",
        "by a leading dot",
    ),
    ("program_error", "OutOfMemoryError: Java heap space", "OutOfMemoryError: Java heap space"),
    ("gpu_out_of_memory", "RuntimeError: CUDA error: out of memory", "GPU ran out of memory"),
    (
        "program_memory_refused",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array",
        "may have on node2",
    ),
    (
        "file_denied",
        "PermissionError: [Errno 13] Permission denied: '/data/faces/1.jpg'",
        "may not read or write /data/faces/1.jpg",
    ),
    ("read_only_place", "OSError: [Errno 30] Read-only file system: '/data/x'", "/data/x"),
    (
        "program_file_missing",
        "FileNotFoundError: [Errno 2] No such file or directory: '../data/a.csv'",
        "../data/a.csv",
    ),
]


@pytest.mark.parametrize(("name", "exception", "said"), EXCEPTIONS)
def test_usual_mistakes_are_known(run: Path, name: str, exception: str, said: str) -> None:
    found = diagnosed(failed(run, "", TRACEBACK.format(exception=exception)))
    assert found.signature == name
    assert said in found.cause
    # Python names the module of a class, too.
    assert found.proof == ("code/train.py:5: x = 1 / 0", re.sub(r"^(?:\w+\.)+", "", exception))


def test_a_rank_looks_for_the_full_place_at_the_same_words() -> None:
    """The module in the image cannot read the signatures: it has their words once more."""
    source = Path(__file__).parents[2] / "docker/trainer/python/trainyard_abort.py"
    (full,) = (
        ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FULL"
    )
    said = [exception for name, exception, _ in EXCEPTIONS if name == "program_place_full"]
    assert len(said) == len(full.split("|"))
    assert [exception for exception in said if not re.search(full, exception)] == []


def test_what_a_thread_of_torch_ended_at_its_end(run: Path) -> None:
    said = "epoch 3 done\nterminate called without an active exception\n"
    found = diagnosed(failed(run, "", said, statuses=(0, 134)))
    assert (found.rank, found.signature) == (1, "aborted_at_its_end")
    assert found.proof[-2:] == ("epoch 3 done", "terminate called without an active exception")
    # Python writes its stacks below that.
    stacks = "Fatal Python error: Aborted\n\nCurrent thread 0x00007f01 (most recent call first):\n"
    stacks += '  File "/run/trainyard/project/train.py", line 5 in step\n' * 30
    found = diagnosed(failed(run, "", said + stacks, statuses=(0, 134)))
    assert found.signature == "aborted_at_its_end"


def test_what_hydra_says_at_its_end_is_not_the_last_output(run: Path) -> None:
    """It ends the program itself, after its words on the configuration."""
    said = "Primary config directory not found.\nSet the environment variable HYDRA_FULL_ERROR=1\n"
    found = diagnosed(failed(run, "", said))
    assert found.cause.endswith("its last output: Primary config directory not found.")


@pytest.mark.parametrize(
    "words",
    [
        "the following arguments are required: --data, --local_rank",
        "unrecognized arguments: --local-rank=0",
    ],
)
def test_the_argument_of_an_older_launcher_is_known(run: Path, words: str) -> None:
    failed(run, "", f"usage: train.py [-h]\ntrain.py: error: {words}\n", statuses=(2, 2))
    found = diagnosed(run)
    assert found.signature == "local_rank_as_argument"
    assert "LOCAL_RANK" in found.remedy


@pytest.mark.parametrize(
    ("module", "way"),
    [
        ("einops", "Write einops to requirements.txt of the project, if"),
        ("hydra.core", "Write hydra-core to requirements.txt of the project. "),
        ("my_utils", "By its name it is no package of an index, but one of the program's own"),
    ],
)
def test_no_package_of_a_stranger_is_named(run: Path, module: str, way: str) -> None:
    """An index has `hydra` and `utils` too, which are something else."""
    missing = f"ModuleNotFoundError: No module named '{module}'"
    found = diagnosed(failed(run, "", TRACEBACK.format(exception=missing)))
    assert found.signature == "package_missing"
    assert found.remedy.startswith(way)


def test_a_rank_that_left_by_itself_was_not_killed(run: Path) -> None:
    """By os._exit, while others wait for it in MPI: they say that it is gone."""
    failed(run, "", "no such column\n", statuses=(1, 3))
    lost = "An MPI communication peer process has unexpectedly disconnected.\n  Peer host:  node2\n"
    (run / "logs/mpirun.log").write_text(lost)
    found = diagnosed(run)
    assert found.cause == (
        "Rank 1 of the program ended by itself with status 3; its last output: no such column"
    )
    assert fault_of(found) is None
    (run / "ranks/1.json").unlink()
    assert diagnosed(run).signature == "peer_lost"


def test_every_mistake_of_programs_is_tested() -> None:
    names = {signature.name for signature in load_signatures() if signature.where == "program"}
    assert names == {name for name, *_ in EXCEPTIONS} - {"program_error", "gpu_out_of_memory"} | {
        "aborted_at_its_end",
        "local_rank_as_argument",
    }


def test_a_warning_that_ended_nothing_is_not_the_cause(run: Path) -> None:
    said = "CUDA is not available, training on the CPU\n[W socket.cpp] Connection refused\n"
    said += "CUDA out of memory. Tried to allocate 2 GiB: half the batch\n"
    found = diagnosed(failed(run, "", said + TRACEBACK.format(exception="KeyError: 'fc'")))
    assert found.signature == "program_error"


@pytest.mark.parametrize("words", ["No space left on device: cleaned", "CUDA out of memory: half"])
def test_what_a_program_said_before_its_last_words_is_not_the_cause(run: Path, words: str) -> None:
    failed(run, "", f"{words}\nloss 0.3\n", statuses=(1, 5))
    end = run / "ranks/1.json"
    end.write_text(json.dumps({**json.loads(end.read_text()), "exception": False}))
    assert diagnosed(run).cause.endswith("status 5; its last output: loss 0.3")


@pytest.mark.parametrize("between", ["", "going on\n"])
def test_the_exception_of_a_python_that_the_program_started(run: Path, between: str) -> None:
    """The program itself fell by the status of the other one."""
    stack = TRACEBACK.format(
        exception="subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1."
    )
    failed(run, "", TRACEBACK.format(exception="KeyError: 'fc'") + between + stack)
    end = run / "ranks/1.json"
    end.write_text(json.dumps({**json.loads(end.read_text()), "exception": True}))
    told = {"message": "CalledProcessError: x", "extraInfo": {"py_callstack": stack}}
    (run / "failures").mkdir(exist_ok=True)
    (run / "failures/torch-1.json").write_text(json.dumps({"message": told}))
    said = "CalledProcessError: Command 'x' returned" if between else "KeyError: 'fc'"
    assert diagnosed(run).cause.startswith(f"The program ended with {said}")


def test_words_without_a_traceback_are_known_too(run: Path) -> None:
    said = "python3: can't open file '/run/trainyard/project/tarin.py': [Errno 2] No such file\n"
    found = diagnosed(failed(run, "", said))
    assert found.signature == "program_file_missing"
    assert "tarin.py" in found.cause


def test_the_trainer_s_own_failures_are_no_program_s(run: Path) -> None:
    with (run / "logs/rank-1.log").open("a") as log:
        log.write(TRACEBACK.format(exception="ModuleNotFoundError: No module named 'hydra'"))
    assert diagnose(read_run(run)).signature == "python_error"


def test_memory_remedies_speak_of_the_program(run: Path) -> None:
    said = TRACEBACK.format(exception="torch.OutOfMemoryError: CUDA out of memory. Tried")
    found = diagnosed(failed(run, "", said))
    assert found.signature == "gpu_out_of_memory"
    assert "BATCH" not in found.remedy
    killed = diagnosed(failed(run, statuses=(143, 137)))
    assert killed.signature == "rank_ended_by_kill"
    assert "BATCH" not in killed.remedy


def test_what_torch_noted_is_read(run: Path) -> None:
    """The program caught its first exception; torch knows which one ended it."""
    caught = TRACEBACK.format(exception="KeyError: 'caught and got over'")
    failed(run, "", caught)
    stack = TRACEBACK.format(exception="ZeroDivisionError: division by zero")
    document = {
        "message": {
            "message": "ZeroDivisionError: division by zero",
            "extraInfo": {"py_callstack": stack, "timestamp": "1795173700"},
        }
    }
    (run / "failures").mkdir()
    path = run / "failures/torch-1.json"
    path.write_text(json.dumps(document))
    found = diagnosed(run)
    assert (found.signature, found.log) == ("program_error", "failures/torch-1.json")
    assert found.proof[0] == "code/train.py:5: x = 1 / 0"
    (run / "logs/rank-1.log").write_text("rank 1 of 2 on node2 (pid 7)\n")
    path.write_text('{"message": "Signal 11 (SIGSEGV) received by PID 7"}')
    assert "Signal 11" in diagnosed(run).cause


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", "7", "[" * 100_000, '{"message": 7}', '{"message": ""}'),
        *('{"message": {"message": null}}', '{"message": {"message": "", "extraInfo": {"a": 7}}}'),
    ],
)
def test_another_file_in_the_place_of_torch_s_hides_nothing(run: Path, text: str) -> None:
    failed(run, "", TRACEBACK.format(exception="KeyError: 'fc'"))
    (run / "failures").mkdir()
    (run / "failures/torch-1.json").write_text(text)
    (run / "failures/torch-x.json").write_text(text)
    assert diagnosed(run).cause == "The program ended with KeyError: 'fc'"


@pytest.mark.parametrize(
    "file",
    ["../../../etc/passwd", "gone.py", "/etc/passwd", ".", "link.py", "a\x00b", "a" * 5000],
)
def test_only_lines_of_the_snapshot_are_shown(run: Path, file: str) -> None:
    frame = f'  File "/run/trainyard/project/{file}", line 1\n'
    failed(run, "", f"Traceback (most recent call last):\n{frame}E: x\n")
    (run / "code/link.py").symlink_to("/etc/passwd")
    assert diagnosed(run).proof == ("E: x",)


def test_the_words_that_a_script_has_in_a_file_are_read(run: Path) -> None:
    """By `python3 train.py > train_$RANK.log 2>&1`."""
    failed(run, "Terminated\n", "", statuses=(143, 1))
    make_project(run, program=["bash", "run.sh"])
    for folder, rank, exception in (
        ("workdir", 0, "RuntimeError: [gloo/pair.cc:534] Connection closed by peer"),
        ("nodes/node2/workdir", 1, "KeyError: 'fc'"),
    ):
        (run / folder).mkdir(parents=True)
        (run / folder / f"train_{rank}.log").write_text(TRACEBACK.format(exception=exception))
        (run / folder / "train_10.log").write_text("ValueError: of another\n")
    found = diagnosed(run)
    assert (found.rank, found.cause) == (1, "The program ended with KeyError: 'fc'")
    assert found.proof[0] == "code/train.py:5: x = 1 / 0"
    assert found.log == "nodes/node2/workdir/train_1.log"
    assert found.log in found.remedy
    # A rank that said something itself is believed.
    with (run / "logs/rank-1.log").open("a") as log:
        log.write("no such configuration\n")
    assert "no such configuration" in diagnosed(run).cause


def test_an_end_without_words_says_how_it_ended(run: Path) -> None:
    found = diagnosed(failed(run, statuses=(0, 7)))
    assert found.cause == "Rank 1 of the program ended by itself with status 7 and printed nothing."
    assert "signatures.yml" not in found.remedy


def test_tracebacks_in_all_their_forms() -> None:
    chained = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\n    d["k"]\n'
        "KeyError: 'k'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "a.py", line 3, in <module>\n    raise Wrong\n'
        "lib.errors.Wrong\n"
        "Traceback (most recent call last):\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    told = parse_traceback("step 1\n" + chained)
    assert told is not None
    assert (told.error, told.message, told.frames) == ("Wrong", "", (("a.py", 3),))
    spoken = (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "a.py", line 1, in <module>\n'
        "[rank1]: Traceback (most recent call last):\n"
        "[rank1]: KeyError: 'other'\n"
        "[rank0]: ValueError: mine\n"
    )
    told = parse_traceback(spoken)
    assert told is not None
    assert (told.error, told.message) == ("ValueError", "mine")
    syntax = '  File "a.py", line 3\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n'
    told = parse_traceback(syntax)
    assert told is not None
    assert (told.error, told.frames) == ("SyntaxError", (("a.py", 3),))
    for text in ("", "no traceback", "Traceback (most recent call last):\n", "Traceback"):
        assert parse_traceback(text) is None


def test_tracebacks_of_ray_s_workers() -> None:
    """Their program has the last word."""
    said = TRACEBACK.format(exception="ValueError: bad batch")
    told = "".join(
        f"(Train._run pid=812, ip=10.0.0.2) {line}\n(f pid=813) step\n"
        for line in said.splitlines()
    )
    for alone in (False, True):
        found = parse_traceback("starting\n" + told, alone)
        assert found is not None
        assert (found.error, found.message, len(found.frames)) == ("ValueError", "bad batch", 3)
    assert parse_traceback(told + "FATAL: no trial is left\n", True) is None


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 9, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "a.py", line 3, in f
    |     raise ValueError("inner")
    | ValueError: inner
    +------------------------------------
"""
FAILED = """train.py FAILED
Root Cause (first observed failure):
[0]:
  exitcode  : {code} (pid: 13)
  error_file: <N/A>
  traceback : {words}
"""


@pytest.mark.parametrize(
    ("exception", "error"),
    [
        ("__main__.main.<locals>.Boom: x", "Boom"),
        ("Ошибка: x", "Ошибка"),
        ("ray.exceptions.RayTaskError(ValueError): x", "RayTaskError(ValueError)"),
    ],
)
def test_classes_of_all_names(exception: str, error: str) -> None:
    told = parse_traceback(TRACEBACK.format(exception=exception))
    assert told is not None
    assert (told.error, told.message) == (error, "x")


@pytest.mark.parametrize(
    "before",
    [
        "Exception in thread Thread-1 (f):\n"
        + TRACEBACK.format(exception="KeyError: 'a'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n",
        "Task exception was never retrieved\nfuture: <Task finished exception=KeyError()>\n",
        "--- Logging error ---\n",
    ],
)
def test_what_python_reports_and_goes_on_after_is_not_the_cause(before: str) -> None:
    """A chain is of a thread as a whole."""
    assert parse_traceback(before + TRACEBACK.format(exception="KeyError: 'b'"), True) is None


def test_the_lines_of_a_logging_call_are_no_exception() -> None:
    call = "Call stack:\n  File \"a.py\", line 2, in <module>\n    warning()\nMessage: '%d'\n"
    told = parse_traceback(TRACEBACK.format(exception="KeyError: 'a'") + call)
    assert told is not None
    assert told.error == "KeyError"


def test_tracebacks_of_groups_and_messages_below() -> None:
    told = parse_traceback(GROUP)
    assert told is not None
    assert (told.error, told.message, told.frames) == ("ValueError", "inner", (("a.py", 3),))
    head = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
    compiled = "backend='inductor' raised:\nInvalidCxxCompiler: No working C++ compiler found\n"
    told = parse_traceback(f"{head}torch.BackendCompilerFailed: {compiled}")
    assert told is not None
    assert told.message == "InvalidCxxCompiler: No working C++ compiler found"
    told = parse_traceback(f"{head}RuntimeError: \n    An attempt has been made\n    to start\n")
    assert told is not None
    assert told.message == "An attempt has been made"
    for code, words, message in (
        (-11, "Signal 11 (SIGSEGV) received by PID 13", "Signal 11 (SIGSEGV) received by PID 13"),
        (1, "To enable traceback see: https://pytorch.org", "exit code 1 (pid: 13)"),
    ):
        block = FAILED.format(code=code, words=words)
        told = parse_traceback(f"{head}torch.ChildFailedError: \n=====\n{block}")
        assert told is not None
        assert (told.error, told.message) == ("ChildFailedError", message)
    spoken = "".join(f"[default0]:{line}\n" for line in [*head.splitlines(), "KeyError: 3"])
    told = parse_traceback(spoken)
    assert told is not None
    assert told.frames == (("a.py", 1),)


def test_a_child_of_torchrun_that_leaves_by_itself_fell_by_no_exception(run: Path) -> None:
    """Its Python wrote no file. Where it did, words below are a part of the message."""
    last = "no such configuration: a.yml\n"
    agent = (
        "E1128 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1)\n"
        'Traceback (most recent call last):\n  File "/usr/bin/torchrun", line 33, in <module>\n'
        f"torch.ChildFailedError: \n=====\n{FAILED.format(code=1, words='To enable')}"
    )
    make_project(run, program=["bash", "run.sh"], per="node")
    for rank in (0, 1):
        with (run / f"logs/rank-{rank}.log").open("a") as log:
            log.write(HANDLED + last + agent)
    end_ranks(run, 1, 1)
    found = diagnosed(run)
    assert found.cause == "The program ended with ChildFailedError: exit code 1 (pid: 13)"
    assert found.proof[-2:] == (last.strip(), "ChildFailedError: exit code 1 (pid: 13)")
    for rank in (0, 1):
        own = TRACEBACK.format(exception="KeyError: 'fc'")
        text = HANDLED + own + last + agent.replace("<N/A>", "/tmp/error.json")
        (run / f"logs/rank-{rank}.log").write_text(text)
    assert diagnosed(run).cause == "The program ended with KeyError: 'fc'"


def test_torchrun_shows_the_traceback_of_its_child(run: Path) -> None:
    """One that rich draws, or that went into a file, is in the log in this form alone."""
    own = TRACEBACK.format(exception="KeyError: 'fc'").rstrip().replace("\n", "\n  ")
    agent = (
        'Traceback (most recent call last):\n  File "/usr/bin/torchrun", line 33, in <module>\n'
        f"torch.ChildFailedError: \n=====\n{FAILED.format(code=1, words=own)}=====\n"
    ).replace("<N/A>", "/tmp/error.json")
    make_project(run, program=["bash", "run.sh"], per="node")
    (run / "code").mkdir()
    (run / "code/train.py").write_text(CODE)
    for rank in (0, 1):
        with (run / f"logs/rank-{rank}.log").open("a") as log:
            log.write("╭── Traceback (most recent call last) ──╮\n│ train.py:5 │\n" + agent)
    end_ranks(run, 1, 1)
    found = diagnosed(run)
    assert found.cause == "The program ended with KeyError: 'fc'"
    assert found.proof == ("code/train.py:5: x = 1 / 0", "KeyError: 'fc'")


def test_why_a_worker_ended_counts_more_than_that_it_did(run: Path) -> None:
    worker = (
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible"
    )
    said = (
        'Traceback (most recent call last):\n  File "dataloader.py", line 1251, in _try_get_data\n'
        f"{worker}\n\nThe above exception was the direct cause of the following exception:\n\n"
        + TRACEBACK.format(
            exception="RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly"
        )
    )
    found = diagnosed(failed(run, "", said))
    assert found.signature == "program_shm_full"
    assert found.proof == ("code/train.py:5: x = 1 / 0", worker)


def test_colours_hide_nothing(run: Path) -> None:
    """Those of Python 3.13 with FORCE_COLOR."""
    coloured = re.sub(r'("[^"\n]+"|\d+)', "\x1b[35m\\1\x1b[0m", TRACEBACK)
    failed(run, "", coloured.format(exception="\x1b[1;35mKeyError\x1b[0m: \x1b[35m'fc'\x1b[0m"))
    found = diagnosed(run)
    assert found.proof == ("code/train.py:5: x = 1 / 0", "KeyError: 'fc'")


def test_a_full_place_is_named_and_no_node_is_at_fault(run: Path) -> None:
    failed(run, TRACEBACK.format(exception="OSError: [Errno 28] No space left on device"), "")
    end = run / "ranks/0.json"
    end.write_text(json.dumps({**json.loads(end.read_text()), "ended_at": 1.0, "exception": True}))
    unknown = diagnosed(run)
    assert unknown.signature == "program_place_full"
    assert "a tenth of the node's each" in unknown.remedy
    (run / "failures").mkdir(exist_ok=True)
    values = {"path": "/tmp", "size": "2.1 GB"}
    told = {"rank": 0, "host": "node1", "code": "container_place_full", "values": values}
    (run / "failures/rank-0.json").write_text(json.dumps({**told, "message": "full"}))
    found = diagnosed(run)
    assert found.cause.startswith("/tmp is full: in the container it is memory, 2.1 GB")
    assert fault_of(found) is fault_of(unknown) is None


@pytest.mark.parametrize("file", ["<frozen os>", "/usr/lib/python3/os.py"])
def test_a_name_that_is_not_set_is_told(run: Path, file: str) -> None:
    said = TRACEBACK.format(exception="KeyError: 'SLURM_PROCID'")
    assert diagnosed(failed(run, "", said)).signature == "program_error"
    said = said.replace("/usr/lib/python3/dist-packages/torch/nn.py", file)
    (run / "logs/rank-1.log").write_text("rank 1 of 2 on node2 (pid 7)\n" + said)
    found = diagnosed(run)
    assert found.cause == "The program asks the environment for SLURM_PROCID, which is not set."
    assert found.proof == ("code/train.py:5: x = 1 / 0", "KeyError: 'SLURM_PROCID'")


@pytest.mark.parametrize(
    ("said", "status", "program"),
    [
        (
            "run.sh: line 3: jq: command not found\nrun.sh: line 4: wget: command not found\n",
            127,
            "wget",
        ),
        ("run.sh: line 2: exec: ffmpeg: not found\n", 127, "ffmpeg"),
        ("run.sh: line 3: jq: command not found\nno such configuration\n", 1, None),
        (
            TRACEBACK.format(
                exception="subprocess.CalledProcessError: Command 'git log' returned non-zero exit "
                "status 127."
            ),
            1,
            "git",
        ),
        (
            "/bin/sh: 1: nvcc: not found\n"
            + TRACEBACK.format(
                exception="subprocess.CalledProcessError: Command 'A=1 nvcc -V' returned non-zero "
                "exit status 127."
            ),
            1,
            "nvcc",
        ),
    ],
)
def test_a_command_that_the_image_lacks_is_named(
    run: Path, said: str, status: int, program: str | None
) -> None:
    found = diagnosed(failed(run, "", said, statuses=(1, status)))
    if program is None:
        assert found.signature != "program_not_in_image"
    else:
        assert found.cause == f"The program starts {program}, and the image has no such program."


def test_a_program_that_the_image_lacks_is_named(run: Path) -> None:
    """A file that is not there is called the same, but nobody was starting it."""
    said = (
        "Traceback (most recent call last):\n"
        '  File "/run/trainyard/project/train.py", line 5, in main\n'
        '  File "/usr/lib/python3.13/subprocess.py", line 1974, in _execute_child\n'
        "    raise child_exception_type(errno_num, err_msg, err_filename)\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'git'\n"
    )
    found = diagnosed(failed(run, "", said))
    assert (found.signature, found.host) == ("program_not_in_image", "node2")
    assert found.cause == "The program starts git, and the image has no such program."
    assert found.proof[0] == "code/train.py:5: x = 1 / 0"
    missing = said.replace("/usr/lib/python3.13/subprocess.py", "/usr/lib/python3.13/codecs.py")
    (run / "logs/rank-1.log").write_text("rank 1 of 2 on node2 (pid 7)\n" + missing)
    assert diagnosed(run).signature == "program_file_missing"


@pytest.mark.parametrize(
    "error",
    ["PermissionError: [Errno 13] Permission denied", "OSError: [Errno 8] Exec format error"],
)
def test_a_file_that_cannot_be_executed_is_told_from_data(run: Path, error: str) -> None:
    said = TRACEBACK.format(exception=f"{error}: './prepare.sh'")
    failed(run, "", said.replace("dist-packages/torch/nn.py", "subprocess.py"))
    found = diagnosed(run)
    assert (found.signature, found.host) == ("program_not_executable", "node2")
    assert "chmod +x" in found.remedy
