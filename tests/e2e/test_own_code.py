"""Programs of users on two nodes, by make train CODE=: what they find and leave, how they end."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from commands import RUNS, BackgroundRun, Outcome, make
from formats import errors
from machines import CHECKOUT, NODES, RUN_ROOT, containers_of_runs, in_machine

pytestmark = pytest.mark.usefixtures("ready_cluster")

EXAMPLE = "examples/own-code"
ALONE = "held a connection to another node"

HOROVOD = """
import horovod.torch as hvd, torch
hvd.init()
total = hvd.allreduce(torch.ones(1) * (hvd.rank() + 1), op=hvd.Sum)
print("sum", total.item(), flush=True)
"""
# Ranks of one node that torchrun starts, told apart by the node.
TORCHRUN = {
    "run.sh": "exec torchrun train.py\n",
    "train.py": """
import os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
os.write(1, f"sum {total.item()} on {socket.gethostname()}\\n".encode())
dist.destroy_process_group()
""",
}
# Dies on the second node when it runs for the first time, as soon as that node has a copy of the
# checkpoint in the first one's working directory; says what it finds the second time.
DIES = """
import os, pathlib, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
checkpoints = pathlib.Path(os.environ["TRAINYARD_CHECKPOINT_DIR"])
assert os.environ["TORCHELASTIC_MAX_RESTARTS"] == "1"
print("attempt", attempt, sorted(path.name for path in checkpoints.iterdir()),
      sorted(path.name for path in pathlib.Path().iterdir()), flush=True)
if attempt == 0:
    if rank == 0:
        (checkpoints / "step-7.pt").write_text("7")
        pathlib.Path("cache.txt").write_text("kept")
        pathlib.Path("ckpt-7.pt").write_text("7")
        time.sleep(600)
    pathlib.Path("own.txt").write_text("of the second node")
    deadline = time.monotonic() + 60
    while not pathlib.Path("../copies/workdir/ckpt-7.pt").exists():
        assert time.monotonic() < deadline, "no copy"
        time.sleep(0.2)
    raise RuntimeError("the second rank has had enough")
"""


def project(folder: Path, files: dict[str, str]) -> Path:
    """A folder with a user's files."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def newest() -> Path:
    return (RUNS / "latest").resolve()


def document(name: str) -> dict[str, Any]:
    """A record of the newest run."""
    read: dict[str, Any] = json.loads((newest() / name).read_text())
    return read


def log(rank: int) -> str:
    return (newest() / f"logs/rank-{rank}.log").read_text()


@pytest.fixture(scope="module")
def example() -> tuple[Outcome, Path]:
    """The example of the documentation, once for the tests of this file."""
    outcome = make("train", CODE=EXAMPLE, NODES=2, SCRIPT_ARGS="--steps 60")
    return outcome, newest()


@pytest.mark.promise("row 34", "examples/own-code", "make train CODE=path/to/project NODES=2")
def test_the_example_of_the_documentation(example: tuple[Outcome, Path]) -> None:
    outcome, run = example
    assert outcome.status == 0, outcome.output
    assert "own-code" in run.name
    # What rank 0 prints is there while it runs; what came home and what one types next, at the end.
    shown, home, follow = map(
        outcome.output.index, ("\nstep 20: loss ", "in runs/", f"make logs RUN={run.name}")
    )
    assert shown < outcome.output.index("Collecting logs") < home < follow
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["steps"]) == ("succeeded", 60)
    assert (run / "checkpoints/last.pt").stat().st_size > 1000
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert (run / "code/train.py").read_text() == (CHECKOUT / EXAMPLE / "train.py").read_text()
    assert errors(run) == []
    assert "loss" in (run / "report.html").read_text()


@pytest.mark.promise("make rerun", "make rerun RUN=")
def test_the_same_again(example: tuple[Outcome, Path]) -> None:
    _, run = example
    outcome = make("rerun", RUN=run.name)
    assert outcome.status == 0, outcome.output
    first, again = (json.loads((at / "manifest.json").read_text()) for at in (run, newest()))
    assert newest() != run
    assert again["project"]["sha256"] == first["project"]["sha256"]
    assert again["project"]["program"] == first["project"]["program"]


def test_it_goes_on_from_what_another_run_left(example: tuple[Outcome, Path]) -> None:
    _, run = example
    outcome = make("train", CODE=EXAMPLE, NODES=2, RESUME=run.name, SCRIPT_ARGS="--steps 80")
    assert outcome.status == 0, outcome.output
    assert f"goes on from {run.name}: last.pt in checkpoints/" in outcome.output
    assert "may start from scratch" not in outcome.output
    lines = [json.loads(line) for line in (newest() / "metrics.jsonl").read_text().splitlines()]
    assert [lines[0]["step"], lines[-1]["step"]] == [61, 80]


@pytest.mark.parametrize(
    ("files", "asked", "ranks"),
    [
        ({"train.py": HOROVOD}, {}, 2),
        (TORCHRUN, {"ENTRY": "run.sh", "LAUNCH": "node", "PROCS_PER_NODE": 2}, 4),
    ],
    ids=["horovod", "torchrun"],
)
def test_ranks_of_both_nodes_find_each_other(
    files: dict[str, str], asked: dict[str, object], ranks: int, tmp_path: Path
) -> None:
    outcome = make("train", CODE=project(tmp_path / "own", files), NODES=2, **asked)
    assert outcome.status == 0, outcome.output
    said = "".join(path.read_text() for path in (newest() / "logs").glob("rank-*.log"))
    assert said.count(f"sum {ranks * (ranks + 1) / 2}") == ranks, said


def test_ranks_that_meet_are_not_warned_of(tmp_path: Path) -> None:
    """Those of `test_a_run_whose_command_is_gone_is_followed_to_its_end` do not, and are."""
    text = "import time\nprint('trains', flush=True)\n"
    text += "import torch.distributed\ntorch.distributed.init_process_group('gloo')\n"
    text += "time.sleep(30)\n"
    outcome = make("train", CODE=project(tmp_path / "own", {"train.py": text}), NODES=2)
    assert outcome.status == 0, outcome.output
    assert document("summary.json")["warnings"] == []
    assert ALONE not in outcome.output


@pytest.mark.promise("row 29")
def test_a_rank_that_fails_is_named_with_the_line_of_its_program(tmp_path: Path) -> None:
    """At the end of a log of many megabytes."""
    text = "import os, time\nfor _ in range(2_000_000):\n    print('x' * 99)\n"
    text += "if os.environ['RANK'] == '1':\n    nobody = {}['missing']\n"
    text += "time.sleep(600)\n"
    outcome = make("train", CODE=project(tmp_path / "own", {"train.py": text}), NODES=2)
    assert outcome.status == 1
    diagnosis = document("summary.json")["diagnosis"]
    assert (diagnosis["host"], diagnosis["rank"]) == (NODES[1], 1)
    assert "KeyError: 'missing'" in diagnosis["cause"]
    assert any("code/train.py:5" in line for line in diagnosis["proof"]), diagnosis
    assert "nobody = {}['missing']" in outcome.output


@pytest.mark.promise(
    'make train CODE=path/to/project ENTRY=train_gpt.py SCRIPT_ARGS="--lr 1e-3" NODES=4 RETRIES=2'
)
def test_a_failed_run_goes_on_with_its_files_on_every_node(tmp_path: Path) -> None:
    folder = project(tmp_path / "own", {"train.py": DIES, "trainyard.yml": "checkpoints: ckpt-*\n"})
    outcome = make("train", CODE=folder, NODES=2, RETRIES=1)
    assert outcome.status == 0, outcome.output
    assert document("summary.json")["attempts"] == 2
    failed = (newest() / "attempts/1/logs/rank-1.log").read_text()
    assert "the second rank has had enough" in failed
    files = ["cache.txt", "ckpt-7.pt", "train.py", "trainyard.yml"]
    assert f"attempt 1 ['step-7.pt'] {files}" in log(0)
    assert f"attempt 1 ['step-7.pt'] {sorted([*files, 'own.txt'])}" in log(1)
    assert (newest() / "checkpoints/step-7.pt").read_text() == "7"
    assert (newest() / "workdir/cache.txt").read_text() == "kept"
    own = newest() / f"nodes/{NODES[1]}/workdir"
    assert [path.name for path in own.iterdir()] == ["own.txt"]
    assert (own / "own.txt").read_text() == "of the second node"


def test_what_forks_and_stays_is_gone_and_an_edit_sends_itself_alone(tmp_path: Path) -> None:
    text = "import subprocess\n"
    text += "subprocess.Popen(['sleep', '3601'], start_new_session=True)\nprint('before')\n"
    folder = project(tmp_path / "own", {"train.py": text, "data.bin": "x" * 10**6})
    outcome = make("train", CODE=folder, NODES=2)
    assert outcome.status == 0
    assert "when rank 0 had ended, and were ended with the run: sleep 3601" in outcome.output
    assert "before" in log(0)
    for node in NODES[:2]:
        assert containers_of_runs(node) == ""
        assert in_machine(node, "pgrep -f '[s]leep 3601' || true") == ""
    store = f"find {RUN_ROOT}/.code -type f | wc -l"
    kept = [int(in_machine(node, store)) for node in NODES[:2]]
    (folder / "train.py").write_text("print('after')\n")
    outcome = make("train", CODE=folder, NODES=2)
    assert outcome.status == 0, outcome.output
    assert "after" in log(0)
    assert [int(in_machine(node, store)) for node in NODES[:2]] == [count + 1 for count in kept]


def test_ctrl_c_asks_the_ranks_to_end_and_brings_home_what_they_save(tmp_path: Path) -> None:
    text = """
import os, signal, sys, time
def save(number, frame):
    time.sleep(3)
    open(os.environ["TRAINYARD_CHECKPOINT_DIR"] + f"/rank-{os.environ['RANK']}.pt", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
while True:
    print("computing", flush=True)
    time.sleep(1)
"""
    folder = project(tmp_path / "own", {"train.py": text})
    run = BackgroundRun(CODE=folder, NODES=2, GRACE=20)
    look = f"grep -l computing {RUN_ROOT}/{run.run_id}/work/logs/rank-1.log 2>/dev/null || true"
    run.wait_for("the ranks", lambda: in_machine(NODES[1], look))
    run.interrupt()
    outcome = run.finish()
    assert outcome.status == 130, outcome.output
    assert (run.directory / "checkpoints/rank-0.pt").exists()
    assert (run.directory / "checkpoints/rank-1.pt").exists()


def test_a_run_whose_command_is_gone_is_followed_to_its_end(tmp_path: Path) -> None:
    text = """
import os, time
with open(os.environ["TRAINYARD_CHECKPOINT_DIR"] + f"/part-{os.environ['RANK']}.pt", "w") as part:
    part.write("part")
with open("events.out.tfevents.1." + os.environ["RANK"], "w") as events:
    events.write("events")
print("computing", flush=True)
end = time.monotonic() + 240
while not os.path.exists("go") and time.monotonic() < end:
    time.sleep(0.2)
# For some samples more.
time.sleep(25)
"""
    run = BackgroundRun(CODE=project(tmp_path / "own", {"train.py": text}), NODES=2)
    look = f"grep -l computing {RUN_ROOT}/{run.run_id}/work/logs/rank-0.log 2>/dev/null || true"
    run.wait_for("the ranks", lambda: in_machine(NODES[0], look))
    parts = {"part-0.pt", "part-1.pt"}
    home = run.directory / "checkpoints"
    run.wait_for("both parts", lambda: home.is_dir() and parts <= set(os.listdir(home)))
    events = run.directory / "workdir/events.out.tfevents.1.0"
    run.wait_for("TensorBoard's events of the first node", events.exists)
    assert not events.with_suffix(".1").exists()
    report = run.directory / "report.html"
    shows = "<h3>Memory of the nodes</h3>"
    run.wait_for("the nodes in the live report", lambda: shows in report.read_text())
    assert {path.parent.name for path in run.directory.glob("nodes/*/utilisation.jsonl")} == {
        *NODES[:2]
    }
    run.kill_yard()
    for node in NODES[:2]:
        in_machine(node, f"touch {RUN_ROOT}/{run.run_id}/work/project/go")
    outcome = make("attach", RUN=run.run_id)
    assert outcome.status == 0, outcome.output
    assert run.summary()["status"] == "succeeded"
    # mpirun's own connections, and those of sshd, are no meeting of the ranks.
    assert len(run.summary()["warnings"]) == 1
    assert ALONE in outcome.output
    for node in NODES:
        samples = (run.directory / f"nodes/{node}/utilisation.jsonl").read_text().splitlines()
        assert json.loads(samples[-1])["rss_bytes"]


def test_what_says_nothing_for_too_long_is_ended_with_the_stacks_of_its_ranks(
    tmp_path: Path,
) -> None:
    text = (
        "import time\nimport torch\nimport torch.distributed as dist\n"
        "def waits_for_ever():\n    time.sleep(600)\n"
        "dist.init_process_group('gloo')\nif dist.get_rank() == 1:\n    waits_for_ever()\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    folder = project(tmp_path / "own", {"train.py": text})
    outcome = make("train", CODE=folder, NODES=2, STALL=8)
    assert outcome.status == 1
    assert "in all_reduce" in log(0)
    assert "waits_for_ever" in log(1)
    found = document("summary.json")["diagnosis"]
    assert (found["signature"], found["host"], found["rank"]) == ("rank_elsewhere", "node2", 1)
    assert "code/train.py:5 in waits_for_ever" in outcome.output


def test_what_says_nothing_for_long_is_warned_of_and_goes_on(tmp_path: Path) -> None:
    text = (
        "import time\ndef waits_a_while():\n    time.sleep(14)\nwaits_a_while()\nprint('goes on')\n"
    )
    folder = project(tmp_path / "own", {"train.py": text, "trainyard.yml": "silence: 4\n"})
    outcome = make("train", CODE=folder, NODES=2)
    assert outcome.status == 0, outcome.output
    for rank in range(2):
        assert "in waits_a_while" in log(rank)
        assert "goes on" in log(rank)
    (warning, *_) = document("summary.json")["warnings"]
    assert re.match(r"for \d+\.\d s no rank wrote a line", warning)
    assert warning in outcome.output
    assert errors(newest()) == []


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"notes.txt": "no program"}, "ENTRY="),
        ({"train.py": "", "main.py": ""}, "ENTRY="),
        ({"train.py": "def broken(:\n"}, "train.py:1"),
    ],
    ids=["no entry", "two entries", "a syntax error"],
)
def test_is_refused_before_anything_is_touched(
    files: dict[str, str], said: str, tmp_path: Path
) -> None:
    before = set(RUNS.iterdir())
    outcome = make("train", CODE=project(tmp_path / "own", files), NODES=2)
    assert outcome.status == 2
    assert said in outcome.output
    assert set(RUNS.iterdir()) == before


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    folder = project(tmp_path / "own", {"train.py": "import no_such_package\n"})
    outcome = make("train", CODE=folder, NODES=2)
    assert outcome.status == 1
    assert re.search(r"no_such_package", document("summary.json")["diagnosis"]["cause"])


def test_the_programs_of_the_cluster_see_no_other_project(cluster: Cluster) -> None:
    """The code of a run is root's on a node, and other accounts of the node do not see it."""
    assert cluster.running() >= 2
    look = f"runuser -u nobody -- ls {RUN_ROOT}/.code 2>&1 || true"
    assert "Permission denied" in in_machine(NODES[0], look)
