"""The program of a project in the place of a rank: what it finds, and how it ends."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from mpi_ranks import LAUNCH, MPIRUN_ARGUMENTS, PLACES_OF_PROGRAMS, RANK, directories

from trainer.launch import watch as watch_module
from trainer.launch.left_processes import note_left_processes
from trainer.launch.processes import program_processes
from trainer.launch.program import Project, environment_of, write_world
from trainer.launch.sampler import first_processes
from trainer.launch.settings import Limits
from trainer.launch.silences import note_silence
from trainer.launch.watch import Watch

Validate = Callable[[Any, str], None]
NODES = ("node1", "node2")
PROJECT = Project("r", ("python3", "train.py"), "rank", (2, 2), 1, 3, "cifar10", "", NODES)
RENDEZVOUS = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
# torch itself says whether ranks were started as torchrun does, and brings them together.
TORCH = """
import os, torch, torch.distributed as dist
assert dist.is_torchelastic_launched()
dist.init_process_group("gloo")
mine = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(mine)
os.write(1, f"sum {mine.item()} local {os.environ['LOCAL_RANK']}\\n".encode())
dist.destroy_process_group()
"""
# A user's own module of the name that Trainyard's has.
OWN_TRAINER = {"trainer.py": "word = 'mine'\n", "main.py": "import trainer; print(trainer.word)\n"}


@contextmanager
def launched(
    run_dir: Path, files: dict[str, str], program: list[str], per: str = "rank", grace: int = 0
) -> "Iterator[subprocess.Popen[bytes]]":
    """A launch of two ranks of a project on this machine."""
    work = run_dir / "project"
    for folder in (work, run_dir / "logs", run_dir / "checkpoints"):
        folder.mkdir(parents=True)
    for name, text in files.items():
        (work / name).write_text(text)
    document = {
        "run_id": "r",
        "program": program,
        "per": per,
        "slots": [2],
        "restarts": 0,
        "retries": 0,
        "dataset": "",
        "checkpoints": "",
        "hosts": [os.uname().nodename],
    }
    (run_dir / "program.json").write_text(json.dumps(document))
    arguments = ["-n", "1", *MPIRUN_ARGUMENTS[2:]] if per == "node" else [*MPIRUN_ARGUMENTS]
    arguments += ["-x", "MASTER_ADDR", "-x", "MASTER_PORT"]
    environment = {**os.environ, **directories(run_dir), "TRAINYARD_GRACE_SECONDS": str(grace)}
    with subprocess.Popen([LAUNCH, *arguments, RANK], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def run(run_dir: Path, files: dict[str, str], program: list[str], per: str = "rank") -> int:
    with launched(run_dir, files, program, per) as process:
        return process.wait(120)


def logs(run_dir: Path) -> str:
    return "".join(path.read_text() for path in sorted((run_dir / "logs").glob("rank-*.log")))


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_rank_finds_the_names_of_torchrun() -> None:
    found = environment_of(PROJECT, 3, 1, Path("/run/trainyard"), RENDEZVOUS)
    expected = {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "NNODES": "2",
        "NPROC_PER_NODE": "2",
        "TORCHELASTIC_RUN_ID": "r",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_ERROR_FILE": "/run/trainyard/failures/torch-3.json",
        "TRAINYARD_DATA_DIR": "/data/cifar10",
        "TRAINYARD_METRICS": "/run/trainyard/metrics.jsonl",
    }
    assert expected.items() <= found.items()
    # With it rank 0 would host no store.
    assert "TORCHELASTIC_USE_AGENT_STORE" not in found


@pytest.mark.parametrize(
    ("rank", "local", "node", "ranks_there"),
    [(0, 0, 0, 3), (2, 2, 0, 3), (3, 0, 1, 1), (4, 0, 2, 2)],
)
def test_nodes_may_have_ranks_of_different_number(
    rank: int, local: int, node: int, ranks_there: int, tmp_path: Path
) -> None:
    project = replace(PROJECT, slots=(3, 1, 2), hosts=("a", "b", "c"))
    found = environment_of(project, rank, local, Path("/run"), RENDEZVOUS)
    assert (found["GROUP_RANK"], found["LOCAL_WORLD_SIZE"]) == (str(node), str(ranks_there))
    assert (found["WORLD_SIZE"], found["GROUP_WORLD_SIZE"]) == ("6", "3")
    write_world(project, tmp_path / "world.json")
    entry = json.loads((tmp_path / "world.json").read_text())["ranks"][rank]
    assert entry == {"rank": rank, "local_rank": local, "host": "abc"[node]}


def test_what_starts_its_ranks_itself_finds_no_rank() -> None:
    project = Project("r", ("torchrun", "train.py"), "node", (3, 2), 0, 0, "", "", NODES)
    found = environment_of(project, 1, 0, Path("/run/trainyard"), RENDEZVOUS)
    assert {name: value for name, value in found.items() if name.startswith("PET_")} == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "2",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "29500",
    }
    assert (found["NNODES"], found["NPROC_PER_NODE"], found["NODE_RANK"]) == ("2", "2", "1")
    assert not {"RANK", "TORCHELASTIC_RUN_ID"} & found.keys()


def test_a_setting_of_the_site_wins_over_the_images_own() -> None:
    found = environment_of(
        PROJECT, 0, 0, Path("/run"), {**RENDEZVOUS, "ACCELERATE_USE_CPU": "false"}
    )
    assert "ACCELERATE_USE_CPU" not in found


def test_accelerate_computes_on_gpus_of_both_vendors() -> None:
    assert environment_of(PROJECT, 0, 0, Path("/run"), RENDEZVOUS)["ACCELERATE_USE_CPU"] == "true"
    found = environment_of(PROJECT, 0, 0, Path("/run"), {**RENDEZVOUS, "TRAINYARD_GPUS": "2"})
    assert "ACCELERATE_USE_CPU" not in found


@pytest.mark.parametrize(
    ("program", "per"), [(["python3", "main.py"], "rank"), (["torchrun", "main.py"], "node")]
)
def test_torch_brings_the_ranks_together(program: list[str], per: str, tmp_path: Path) -> None:
    assert run(tmp_path, {"main.py": TORCH}, program, per) == 0, logs(tmp_path)
    text = logs(tmp_path)
    assert text.count("sum 3.0") == 2, text
    assert "local 0" in text
    assert "local 1" in text


def test_modules_of_the_user_hide_nothing_and_are_not_hidden(tmp_path: Path) -> None:
    assert run(tmp_path, OWN_TRAINER, ["python3", "main.py"]) == 0, logs(tmp_path)
    assert logs(tmp_path).count("mine") == 2


def test_one_call_reports_numbers(tmp_path: Path) -> None:
    program = "import trainyard_run\ntrainyard_run.log(step=1, loss=0.5)\n"
    program += "(trainyard_run.output_dir() / 'x').touch()\n"
    assert run(tmp_path, {"main.py": program}, ["python3", "main.py"]) == 0, logs(tmp_path)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [0.5]
    assert (tmp_path / "outputs/x").exists()
    world = json.loads((tmp_path / "world.json").read_text())
    assert [rank["rank"] for rank in world["ranks"]] == [0, 1]


def first_ended(run_dir: Path) -> dict[str, Any]:
    """What is noted of the rank that ended first: mpirun may have ended the other one."""
    texts = [path.read_text() for path in (run_dir / "ranks").glob("*.json")]
    ended: list[dict[str, Any]] = [json.loads(text) for text in texts if text]
    return min(ended, key=lambda one: one["ended_at"])


def test_scripts_find_python_by_the_name_that_they_use(tmp_path: Path) -> None:
    """Debian's is called python3 alone."""
    files = {
        "run.sh": "set -e\npython -c 'import sys; print(sys.argv[1:])' \"a b\" c\n./as_program\n",
        "as_program": "#!/usr/bin/env python\nimport torch; print('by', torch.__name__)\n",
    }
    files["run.sh"] = "chmod +x as_program\n" + files["run.sh"]
    assert run(tmp_path, files, ["bash", "run.sh"]) == 0, logs(tmp_path)
    assert "['a b', 'c']\nby torch" in logs(tmp_path)


@pytest.mark.parametrize(("program", "status"), [("./absent", 127), ("./main.py", 126)])
def test_a_program_that_cannot_be_started(program: str, status: int, tmp_path: Path) -> None:
    assert run(tmp_path, {"main.py": ""}, [program]) != 0
    assert first_ended(tmp_path)["exit_status"] == status
    assert program in logs(tmp_path)


@pytest.mark.parametrize("status", [255, 147])
def test_a_status_that_is_no_signal(status: int, tmp_path: Path) -> None:
    """Of 147 a shell would make a signal that stops it for ever."""
    program = f"import sys\nsys.exit({status})\n"
    assert run(tmp_path, {"main.py": program}, ["python3", "main.py"]) != 0
    ended = first_ended(tmp_path)
    assert (ended["exit_status"], ended["signal"]) == (status, None)


# What each variable of the document names is there when the program starts.
PROMISES = Path("/checkout/docs/own-code.md")
LOOKS = """
import os, sys
there = {name: os.environ[name] for name in sys.argv[1:] if name in os.environ}
folders = [os.path.dirname(value) if name.endswith(("_FILE", "_METRICS")) else value
           for name, value in there.items() if value.startswith("/")]
print("UNSET", *[name for name in sys.argv[1:] if name not in there])
print("MISSING", [folder for folder in folders if not os.path.isdir(folder)])
"""
# What the process that starts the ranks of a node is not to have: libraries would take it for one
OF_RANKS = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
    "TORCHELASTIC_ERROR_FILE",
)


@pytest.mark.parametrize(("per", "unset"), [("rank", ()), ("node", OF_RANKS)])
def test_what_a_program_was_promised_is_there(
    per: str, unset: tuple[str, ...], tmp_path: Path
) -> None:
    text = PROMISES.read_text(encoding="utf-8").partition("## What a program sees")[2]
    rows = re.findall(r"^\| (`[^|]+) \|", text.partition("With `LAUNCH=node`")[0], re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert {"RANK", "TRAINYARD_OUTPUT_DIR", "USE_LIBUV", *OF_RANKS} <= set(names)
    assert run(tmp_path, {"main.py": LOOKS}, ["python3", "main.py", *names], per) == 0
    said = logs(tmp_path)
    assert said.count("MISSING []\n") == said.count("MISSING") == (2 if per == "rank" else 1), said
    assert set(re.findall(r"UNSET ?(.*)", said)) == {" ".join(unset)}


GOT_OVER = """
import logging
try:
    raise ImportError("got over")
except ImportError:
    logging.exception("going on without it")
"""


@pytest.mark.parametrize(
    ("end", "exception"),
    [
        ("raise KeyError('fc')", True),
        ("import sys; print('no key warmup'); sys.exit(1)", False),
        ("import os; os._exit(1)", None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None),
        ("def f(:", True),
    ],
    ids=["exception", "exit", "_exit", "kill", "syntax"],
)
def test_how_a_program_ended_is_noted(end: str, exception: bool | None, tmp_path: Path) -> None:
    program = {"main.py": end if end.endswith(":") else f"{GOT_OVER}\n{end}\n"}
    assert run(tmp_path, program, ["python3", "main.py"]) != 0
    ended = first_ended(tmp_path)
    assert ended["exception"] is exception, logs(tmp_path)
    told = tmp_path / f"failures/torch-{ended['rank']}.json"
    assert told.exists() is bool(exception)
    if exception:
        message = json.loads(told.read_text())["message"]
        assert message["message"].startswith(("KeyError: 'fc'", "SyntaxError: "))
        assert "main.py" in message["extraInfo"]["py_callstack"]
        assert "got over" not in message["extraInfo"]["py_callstack"]


FILLS = """
with open("/dev/shm/filled", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
"""


def test_a_full_place_is_named_with_its_size(validate: Validate, tmp_path: Path) -> None:
    """It does not matter what the name of the file was: the error has none."""
    filled = Path("/dev/shm/filled")
    try:
        assert run(tmp_path, {"main.py": FILLS}, ["python3", "main.py"]) != 0
    finally:
        filled.unlink(missing_ok=True)
    rank = first_ended(tmp_path)["rank"]
    found = json.loads((tmp_path / f"failures/rank-{rank}.json").read_text())
    validate(found, "rank_failure")
    assert found["code"] in PLACES_OF_PROGRAMS
    assert found["code"] == "container_shm_full"
    assert found["values"] == {"path": "/dev/shm", "size": "0.1 GB"}


SAVES = """
import torch
with open("/dev/shm/filled", "wb") as file:
    torch.save({"weights": torch.ones(100_000_000)}, file)
"""
NUMPY = """
import os
from types import SimpleNamespace
disk = dict(f_blocks=1 << 20, f_frsize=4096, f_files=0, f_favail=0)
os.statvfs = lambda path: SimpleNamespace(**disk, f_bavail=5000 if path == "/tmp" else 1 << 30)
raise OSError("Not enough free space to write 40000000 bytes")
"""


@pytest.mark.parametrize(("text", "path"), [(SAVES, "/dev/shm"), (NUMPY, "/tmp")])
def test_a_full_place_is_named_whatever_the_library_says_of_it(
    tmp_path: Path, text: str, path: str
) -> None:
    try:
        assert run(tmp_path, {"main.py": text}, ["python3", "main.py"]) != 0
    finally:
        Path("/dev/shm/filled").unlink(missing_ok=True)
    rank = first_ended(tmp_path)["rank"]
    found = json.loads((tmp_path / f"failures/rank-{rank}.json").read_text())
    assert found["values"]["path"] == path


WORKER = """
import torch
from torch.utils.data import DataLoader
next(iter(DataLoader([torch.ones(40_000_000)], num_workers=1)))
"""


def test_a_worker_that_died_of_shared_memory_names_the_size(tmp_path: Path) -> None:
    """The memory is free again when the rank ends."""
    assert run(tmp_path, {"main.py": WORKER}, ["python3", "main.py"]) != 0
    rank = first_ended(tmp_path)["rank"]
    found = json.loads((tmp_path / f"failures/rank-{rank}.json").read_text())
    assert found["code"] == "container_shm_full"
    assert found["values"] == {"path": "/dev/shm", "size": "0.1 GB"}


NO_INODES = """
import os
from types import SimpleNamespace
disk = dict(f_bavail=1 << 30, f_blocks=1 << 20, f_frsize=4096)
os.statvfs = lambda path: SimpleNamespace(**disk, f_files=5000, f_favail=0 if path == "/tmp" else 9)
raise OSError(28, "No space left on device", "/tmp/5001")
"""


def test_a_place_full_of_files_is_named_with_their_number(tmp_path: Path) -> None:
    assert run(tmp_path, {"main.py": NO_INODES}, ["python3", "main.py"]) != 0
    rank = first_ended(tmp_path)["rank"]
    found = json.loads((tmp_path / f"failures/rank-{rank}.json").read_text())
    assert found["values"] == {
        "path": "/tmp",
        "size": "4.3 GB with as many files as it takes, 5,000 (inodes)",
    }


RECORDS = """
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    raise ValueError("bad batch 7")
main()
"""


def test_what_a_program_recorded_itself_stays(tmp_path: Path) -> None:
    assert run(tmp_path, {"main.py": RECORDS}, ["python3", "main.py"]) != 0
    told = tmp_path / f"failures/torch-{first_ended(tmp_path)['rank']}.json"
    assert "bad batch 7" in json.loads(told.read_text())["message"]["message"]


def test_a_process_of_a_program_notes_nothing(tmp_path: Path) -> None:
    child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'raise KeyError(1)'])\n"
    assert run(tmp_path, {"main.py": child}, ["python3", "main.py"]) == 0
    assert list((tmp_path / "failures").iterdir()) == []
    assert first_ended(tmp_path)["exception"] is False


OF_TORCHRUN = """
import os, subprocess, sys
told = {"TORCHELASTIC_ERROR_FILE": os.environ["RANK"] + ".json", "GROUP_RANK": "0"}
own = "import subprocess, sys\\nsubprocess.run([sys.executable, '-c', 'raise TypeError(1)'])\\n"
subprocess.run([sys.executable, "-c", own + "raise KeyError('fc')"], env={**os.environ, **told})
"""


def test_a_rank_that_torchrun_starts_tells_it_of_its_exception(tmp_path: Path) -> None:
    """What that rank starts in turn does not."""
    assert run(tmp_path, {"main.py": OF_TORCHRUN}, ["python3", "main.py"]) == 0
    for rank in (0, 1):
        told = json.loads((tmp_path / f"project/{rank}.json").read_text())
        assert told["message"]["message"] == "KeyError: 'fc'"
    assert list((tmp_path / "failures").iterdir()) == []


# In the place of Python: the sampler copies for two seconds, the program waits for its start.
COPIES = """#!/bin/sh
case "$*" in
    *sampler*) ;;
    *) while ! [ -e "$TRAINYARD_RUN_DIR/ready" ]; do sleep 0.1; done; exit ;;
esac
trap '' TERM
touch "$TRAINYARD_RUN_DIR/ready"
trap 'echo asked >>"$TRAINYARD_RUN_DIR/copied"; exit' URG
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; done
echo whole >>"$TRAINYARD_RUN_DIR/copied"
"""


@pytest.mark.parametrize("asked", [False, True])
def test_a_rank_ends_when_what_ends_with_the_container_is_copied(
    asked: bool, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "program.json").touch()
    (tmp_path / "python3").write_text(COPIES)
    (tmp_path / "python3").chmod(0o755)
    number = {"RANK": "0", "SIZE": "1", "LOCAL_RANK": "0"}
    names = {f"OMPI_COMM_WORLD_{name}": value for name, value in number.items()}
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, **directories(tmp_path), **names, "PATH": path}
    process = subprocess.Popen([RANK], env=environment)
    until((tmp_path / "ranks/0.json").exists)
    if asked:
        process.send_signal(signal.SIGURG)
    assert process.wait(30) == 0
    if asked:
        until((tmp_path / "copied").exists)
    assert (tmp_path / "copied").read_text() == ("asked\n" if asked else "whole\n")


# Rank 1 fails while the other one waits for it: in MPI_Finalize both would wait for ever.
JOINS_BY_MPI4PY = """
from mpi4py import MPI
rank, barrier = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.barrier
"""
JOINS_BY_TORCH = """
import torch.distributed as dist
dist.init_process_group("mpi")
rank, barrier = dist.get_rank(), dist.barrier
"""
FAILS = """
import atexit
atexit.register(lambda: open(f"left-{rank}", "w").close())
if rank == 1:
    print("its last words")
    raise ValueError("no such column")
barrier()
"""
# A library that runs something, prints the error that this ends with, and goes on.
GOES_ON_AFTER_AN_ERROR = """
import ctypes
from mpi4py import MPI
ctypes.pythonapi.PyRun_SimpleString(b"raise ValueError('of no weight')")
MPI.COMM_WORLD.barrier()
print("done")
"""
# The same in a thread of the library, which calls a function of the program.
GOES_ON_AFTER_AN_ERROR_OF_A_THREAD = """
import _thread, sys, time, traceback
from mpi4py import MPI
over = []
def called():
    try:
        raise ValueError("of no weight")
    except ValueError:
        traceback.print_exc()
        # As PyErr_Print does
        sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()
    over.append(True)
_thread.start_new_thread(called, ())
while not over:
    time.sleep(0.01)
MPI.COMM_WORLD.barrier()
print("done")
"""


@pytest.mark.parametrize("joins", [JOINS_BY_MPI4PY, JOINS_BY_TORCH], ids=["mpi4py", "torch"])
def test_a_rank_that_fails_in_mpi_ends_the_others(joins: str, tmp_path: Path) -> None:
    assert run(tmp_path, {"main.py": joins + FAILS}, ["python3", "main.py"]) != 0
    ended = first_ended(tmp_path)
    assert (ended["rank"], ended["exit_status"]) == (1, 1), logs(tmp_path)
    assert "its last words" in logs(tmp_path)
    assert "ValueError: no such column" in logs(tmp_path)
    # What the program itself does at its end is done.
    assert (tmp_path / "project/left-1").exists()


@pytest.mark.parametrize(
    "program",
    [GOES_ON_AFTER_AN_ERROR, GOES_ON_AFTER_AN_ERROR_OF_A_THREAD],
    ids=["call", "thread"],
)
def test_an_error_that_a_library_printed_ends_nothing(program: str, tmp_path: Path) -> None:
    assert run(tmp_path, {"main.py": program}, ["python3", "main.py"]) == 0, logs(tmp_path)
    assert logs(tmp_path).count("ValueError: of no weight") == 2
    assert logs(tmp_path).count("done") == 2


# Rank 1 ends at once when it is asked to, as programs do that say nothing of it.
SAVES = """
import os, signal, sys, time
def save(number, frame):
    time.sleep(2)
    open("saved", "w").close()
    sys.exit(0)
rank = os.environ["RANK"]
if rank == "0":
    signal.signal(signal.SIGTERM, save)
open(f"ready-{rank}", "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize(("grace", "saved"), [(20, True), (0, False)])
def test_ranks_are_asked_to_end_and_have_time_for_it(
    grace: int, saved: bool, tmp_path: Path
) -> None:
    work = tmp_path / "project"
    with launched(tmp_path, {"main.py": SAVES}, ["python3", "main.py"], grace=grace) as process:
        until(lambda: (work / "ready-0").exists() and (work / "ready-1").exists())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
    assert (work / "saved").exists() == saved
    assert json.loads((tmp_path / "ranks/1.json").read_text())["exit_status"] == 143


def test_the_signal_for_stacks_does_not_end_a_rank(tmp_path: Path) -> None:
    program = "import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\nprint('lives')\n"
    assert run(tmp_path, {"main.py": program}, ["python3", "main.py"]) == 0, logs(tmp_path)
    assert "main.py" in logs(tmp_path)
    assert logs(tmp_path).count("lives") == 2


def test_what_a_rank_takes_is_sampled_and_the_sampler_is_no_rank(tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    text = "import os, subprocess, time\nsubprocess.Popen(['sleep', '9'])\n"
    text += f"while not os.path.exists('{enough}'): time.sleep(0.1)\n"
    path = tmp_path / f"nodes/{os.uname().nodename}/utilisation.jsonl"

    def samples() -> list[dict[str, Any]]:
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    with launched(tmp_path, {"main.py": text}, ["python3", "main.py"]) as process:
        # The first may be older than one of the ranks.
        until(lambda: {"0", "1"} in [set(sample["rss_bytes"]) for sample in samples()])
        assert set(first_processes()) == {0, 1}
        enough.touch()
        assert process.wait(60) == 0
    taken = samples()
    # There is no other node.
    assert {sample["connected"] for sample in taken} == {None}

    def is_sampled() -> bool:
        # A process that ends meanwhile has no command line.
        lines = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
        return any("trainer.launch.sampler" in line for line in lines)

    until(lambda: not is_sampled())


# Its child goes on when it has ended: twice by ways of Python's, and by one of a shell's.
LEAVES = """
import os, subprocess
if os.environ["RANK"] == "0":
    subprocess.Popen(["sleep", "301"], start_new_session=True)
    os.system("nohup sleep 302 >/dev/null &")
elif os.fork() == 0:
    os.execvp("sleep", ["sleep", "303"])
"""


def test_processes_that_a_program_leaves_are_noted(tmp_path: Path) -> None:
    assert run(tmp_path, {"main.py": LEAVES}, ["python3", "main.py"]) == 0, logs(tmp_path)
    noted = json.loads((tmp_path / f"failures/left-{os.uname().nodename}.json").read_text())
    assert [(each["rank"], each["command"]) for each in noted] == [
        *((0, "sleep 301"), (0, "sleep 302"), (1, "sleep 303")),
    ]
    for each in noted:
        os.kill(each["pid"], signal.SIGKILL)


@pytest.mark.parametrize(
    ("end", "seconds", "noted"),
    [
        *(('{"exit_status": 0}', 60, True), ('{"exit_status": 1}', 60, False)),
        *(("[]", 60, False), ('{"exit_status": 0}', 1, False)),
    ],
)
def test_of_a_rank_that_failed_and_of_short_processes_nothing_is_noted(
    end: str, seconds: int, noted: bool, tmp_path: Path
) -> None:
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks/7.json").write_text(end)
    names = {"OMPI_COMM_WORLD_RANK": "7", "TRAINYARD_OUTPUT_DIR": str(tmp_path)}
    with subprocess.Popen(["sleep", str(seconds)], env={**os.environ, **names}) as process:
        try:
            note_left_processes(tmp_path, "node1", patience=3)
        finally:
            process.kill()
    assert (tmp_path / "failures/left-node1.json").exists() == noted


@pytest.mark.parametrize("name", ["logs/rank-0.log", "metrics.jsonl"])
def test_a_log_that_grows_is_a_sign_of_life(name: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    watch = Watch(tmp_path, Limits(start=0, stall=10), 1000.0, is_project=True)
    assert watch.problem(1009.0) is None
    (tmp_path / name).write_text("x\n")
    assert watch.problem(1009.5) is None
    assert watch.problem(1018.0) is None
    problem = watch.problem(1020.0)
    assert problem is not None
    assert problem.code == "stalled"


def silence(watch: Watch, now: float) -> int | None:
    """What is told of a silence at a look."""
    assert watch.problem(now) is None
    return watch.silence(now)


def test_a_silence_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs/rank-0.log"
    watch = Watch(tmp_path, Limits(start=0, stall=0, silence=10), 1000.0, is_project=True)
    assert silence(watch, 1009.5) is None
    assert silence(watch, 1010.5) == 10
    # The stacks that the ranks were asked for are no sign of life.
    log.write_text("stacks\n")
    watch.disregard_changes()
    assert [silence(watch, now) for now in (1011.0, 1040.0, 1500.0)] == [None] * 3
    log.write_text("another word\n")
    assert silence(watch, 1501.0) is None
    # The second time it is patient for longer.
    assert silence(watch, 1520.5) is None
    assert silence(watch, 1521.0) == 20


def test_a_run_that_is_to_end_when_it_stalls_does(tmp_path: Path) -> None:
    """Neither the silence nor the stacks put it off."""
    (tmp_path / "logs").mkdir()
    watch = Watch(tmp_path, Limits(start=0, stall=30, silence=10), 1000.0, is_project=True)
    assert silence(watch, 1010.0) == 10
    (tmp_path / "logs/rank-0.log").write_text("stacks\n")
    watch.disregard_changes()
    assert watch.problem(1029.0) is None
    problem = watch.problem(1030.0)
    assert problem is not None
    assert (problem.code, problem.values) == ("stalled", {"seconds": 30})


def test_silence_may_last_for_ever(tmp_path: Path) -> None:
    watch = Watch(tmp_path, Limits(start=0, stall=0), 1000.0, is_project=True)
    assert silence(watch, 1e9) is None


@pytest.mark.parametrize(("program", "computes"), [("while :; do :; done", True), ("cat", False)])
def test_who_computes_is_not_silent(
    program: str, computes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in any language: a shell that counts, or one that waits for input."""
    # Well below the limit, as it is below those of real runs.
    monkeypatch.setattr(watch_module, "PROCESSOR_LOOK", 0.2)
    names = {"OMPI_COMM_WORLD_RANK": "0", "TRAINYARD_OUTPUT_DIR": str(tmp_path)}
    limits = Limits(start=0, stall=0, silence=1)
    with subprocess.Popen(
        ["bash", "-c", program], env={**os.environ, **names}, stdin=subprocess.PIPE
    ) as process:
        try:
            watch = Watch(tmp_path, limits, time.monotonic(), is_project=True)
            # The first look takes what the next one is compared with.
            silence(watch, time.monotonic())
            told = []
            # More than ten times the limit.
            for _ in range(24):
                time.sleep(0.5)
                told.append(silence(watch, time.monotonic()))
        finally:
            process.kill()
    assert any(told) != computes


# Rank 0 is Python with a handler of its own; rank 1 is none, and a signal would end it.
SILENT = """
if [ "$RANK" = 1 ]; then exec sleep 15; fi
exec python3 main.py
"""
OWN_HANDLER = """
import signal, time
print("begins", flush=True)
signal.signal(signal.SIGUSR1, lambda *_: print("own handler", flush=True))
def waits_for_nothing():
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        time.sleep(1)
waits_for_nothing()
print("goes on")
"""


def test_ranks_that_are_silent_write_their_stacks_and_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_SILENCE_SECONDS", "3")
    files = {"run.sh": SILENT, "main.py": OWN_HANDLER}
    assert run(tmp_path, files, ["bash", "run.sh"]) == 0, logs(tmp_path)
    text = (tmp_path / "logs/rank-0.log").read_text()
    assert text.count("in waits_for_nothing") == 1, text
    assert "own handler" not in text
    assert text.endswith("goes on\n")
    # A slow start may have been silent as well.
    *_, line = (tmp_path / "silences.jsonl").read_text().splitlines()
    assert 3 <= json.loads(line)["seconds"] <= 8
    assert "the run continues" in (tmp_path / "logs/mpirun.log").read_text()
    assert not (tmp_path / "failures/launcher.json").exists()


def test_a_rank_that_was_stopped_stays_so_while_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody debugs it perhaps."""
    monkeypatch.setenv("TRAINYARD_SILENCE_SECONDS", "3")
    text = "import os, signal\nprint('begins', flush=True)\n"
    text += "os.kill(os.getpid(), signal.SIGSTOP)\nprint('continued')\n"
    path = tmp_path / "silences.jsonl"

    def told() -> int:
        return path.read_text().count("\n") if path.exists() else 0

    def are_stopped() -> bool:
        return [each.state() for each in program_processes()] == ["T", "T"]

    with launched(tmp_path, {"main.py": text}, ["python3", "main.py"]):
        # A slow start may have been silent as well.
        until(are_stopped)
        before = told()
        until(lambda: told() > before)
        assert are_stopped()
        for each in program_processes():
            os.kill(each.pid, signal.SIGCONT)
        until(lambda: logs(tmp_path).count("continued") == 2)
    assert "stopped by a signal" in (tmp_path / "logs/mpirun.log").read_text()


def test_a_pipe_in_the_place_of_the_silences_keeps_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "silences.jsonl")
    note_silence(tmp_path, 600)
    (tmp_path / "silences.jsonl").unlink()
    (tmp_path / "silences.jsonl").symlink_to(tmp_path / "elsewhere")
    note_silence(tmp_path, 600)
    assert not (tmp_path / "elsewhere").exists()
