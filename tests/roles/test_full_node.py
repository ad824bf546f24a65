"""A node whose disk is full while a run comes to it: file systems of a few KiB that really are.

They are mounted, so these tests need root, as the project's CI has it.
"""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from node_program import answered
from role_files import action_plugin

from node.calls import FAILED, CallError
from node.runs import code as training_run_code
from node.runs import code_listing as training_run_listing
from node.runs import collect as training_run_collect
from node.runs import directory as training_node_directory
from node.runs import disk_space as training_run_room
from node.runs.container import ContainerForm, Start
from node.runs.mpirun import Bench, Launch
from node.verbs import start, take

pytestmark = pytest.mark.process

plugin = action_plugin("training_node", "training_node")

RANK = 54321
KIB = 1024
LIMITS = training_run_collect.Limits(size=10**9, files=100)
NoRoomError = training_run_room.NoRoomError


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The directory of all runs, on a small disk of its own."""
    folder = tmp_path / "runs"
    folder.mkdir(mode=0o755)
    mounted = mount(folder, "size=8m,mode=755,nr_inodes=200")
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid():
            above.chmod(above.stat().st_mode | 0o011)
    if not mounted:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def mount(folder: Path, options: str) -> bool:
    command: list[str | Path] = ["mount", "-t", "tmpfs", "-o", options, "none", folder]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.fixture
def run(root: Path) -> Any:
    """The directory of a run that has taken the node."""
    directory = training_node_directory.RunDirectory(str(root), "r")
    take.make_directories(directory, RANK, RANK)
    return directory


@pytest.fixture
def other(root: Path) -> Callable[[], dict[str, bytes]]:
    """What another run has on the node; none of it is anybody else's to touch."""
    directory = training_node_directory.RunDirectory(str(root), "other")
    take.make_directories(directory, RANK, RANK)
    Path(directory.work, "checkpoints/last.pt").write_bytes(b"weights")
    return lambda: contents(Path(directory.path))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of 600 KiB on the control node."""
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "a.py").write_text("a = 1\n")
    (folder / "pkg/b.bin").write_bytes(os.urandom(600 * KIB))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fill(root: Path, room: int) -> Path:
    """Leave so many bytes of the disk."""
    free = os.statvfs(root).f_bavail * os.statvfs(root).f_frsize
    assert room < free < 10_000_000
    filler = root / "filler"
    filler.write_bytes(bytes(free - room))
    return filler


def archive_of(project: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    listing: dict[str, str] = training_run_listing.list_code(str(project))
    archive = tmp_path / "code.tar.gz"
    with archive.open("wb") as file:
        training_run_listing.pack({str(project): listing}, listing.values(), file)
    return archive, listing


def receive(run: Any, project: Path, tmp_path: Path) -> None:
    archive, listing = archive_of(project, tmp_path)
    root = os.path.dirname(run.path)
    with archive.open("rb") as file:
        training_run_code.receive_run(file, root, run, {"project": listing}, RANK)


def test_a_repeated_call_is_asked_with_what_the_one_before_answered() -> None:
    """Ansible fills in the arguments of a task with `until` once, whatever has come meanwhile."""
    task = SimpleNamespace(register="told")
    action = plugin.ActionModule(task, None, None, None, None, None)
    assert action._carried(["offset"], {}) == {}
    assert action._carried(["offset"], {"told": {"msg": "no answer"}}) == {}
    assert action._carried(["offset"], {"told": {"answer": {"offset": 7, "more": 1}}}) == {
        "offset": 7
    }


def test_the_code_has_no_room(
    root: Path, run: Any, other: Any, project: Path, tmp_path: Path
) -> None:
    theirs = other()
    archive, listing = archive_of(project, tmp_path)
    filler = fill(root, 300 * KIB)
    options: dict[str, Any] = {
        "run_id": "r",
        "root": str(root),
        "gid": RANK,
        "code": {"project": listing},
        "host": "node2",
    }
    with pytest.raises(CallError) as refused:
        answered("receive", archive.read_bytes(), **options)
    assert (refused.value.exit_status, refused.value.code) == (FAILED, "refused")
    failed = plugin.refusal("node2", refused.value.values)
    [problem] = failed["problems"]
    assert (problem["host"], problem["code"]) == ("node2", "no_room")
    values = problem["values"]
    assert values["needed"] == 6 + 600 * KIB
    assert values["free"] < 300 * KIB
    assert failed["msg"].splitlines() == [
        "The run was not started.",
        f"node2: no space is left in {root} for the code of the run: {values['needed']:,} bytes "
        f"are needed, {values['free']:,} are free: make room on the disk of {root}: "
        "du -x tells what takes it",
    ]
    # What came whole is kept for the next launch, and nothing else.
    kept = contents(root / ".code")
    assert kept in ({}, {listing["a.py"]: b"a = 1\n"})
    assert not os.path.exists(run.project)
    assert other() == theirs
    filler.unlink()
    assert answered("receive", archive.read_bytes(), **options)["received"] == 2 - len(kept)
    assert contents(Path(run.project)) == contents(project)


def link_nothing(source: str, target: str) -> None:
    raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), target)


def test_the_folder_of_the_code_has_no_room(
    root: Path, run: Any, other: Any, project: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    receive(run, project, tmp_path)
    theirs, kept = other(), contents(root / ".code")
    later = training_node_directory.RunDirectory(str(root), "s")
    take.make_directories(later, RANK, RANK)
    monkeypatch.setattr(os, "link", link_nothing)
    fill(root, 300 * KIB)
    with pytest.raises(NoRoomError, match=f"no space is left in {root}/s for the code of the run"):
        training_run_code.lay_out_run(
            str(root), later, {"project": training_run_listing.list_code(str(project))}, RANK
        )
    assert not os.path.exists(later.project)
    assert (contents(root / ".code"), other()) == (kept, theirs)
    assert contents(Path(run.project)) == contents(project)


def start_of(root: Path, files: dict[str, Any]) -> Start:
    """What is asked for, as far as the verb comes to it before it asks the engine."""
    container = ContainerForm("i", "node1", "trainer", "/data", 2)
    launch = Launch(
        *("train", ["node1"], {}, {}, {}, "", [1], [1], 0, "cifar10", 64),
        *(Bench(["vit"], 1, 1.0), False),
    )
    facts = {"host": "node1"}
    where = ("r", "/home/ada/runs/r", str(root), RANK, RANK)
    return Start(*where, files, facts, container, launch, "127.0.0.1", 2222)


@pytest.mark.parametrize("launches", [True, False])
def test_the_copy_of_the_ranks_has_no_room(
    launches: bool, root: Path, run: Any, other: Any, project: Path, tmp_path: Path
) -> None:
    receive(run, project, tmp_path)
    theirs = other()
    files = {training_node_directory.ARGUMENTS: "-n 1\n"} if launches else {}
    fill(root, 300 * KIB)
    with pytest.raises(NoRoomError) as raised:
        start.prepare(start_of(root, files), run, files)
    problem = raised.value.problem
    assert (problem.code, problem.values["what"]) == ("no_room", "the ranks' copy of the project")
    assert problem.values["needed"] == 6 + 600 * KIB
    # Half a file would go home as one that the ranks changed.
    training_run_collect.collect(run, "node1", LIMITS)
    assert not [path for path in contents(Path(run.collect)) if "workdir" in path]
    assert other() == theirs


def test_what_a_run_goes_on_from_has_no_room(
    root: Path, run: Any, other: Any, project: Path, tmp_path: Path
) -> None:
    receive(run, project, tmp_path)
    theirs = other()
    carried = {
        "checkpoints/last.pt": os.urandom(500 * KIB),
        "outputs/log.csv": b"1\n",
        "workdir/state.bin": os.urandom(100 * KIB),
        "metrics.jsonl": b"{}\n",
    }
    for name, content in carried.items():
        path = Path(run.resume, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    training_run_code.copy_project(run, RANK, RANK)
    fill(root, 300 * KIB)
    with pytest.raises(NoRoomError) as raised:
        start.hand_over(run, RANK, RANK)
    values = raised.value.problem.values
    assert values["what"] == "the files that the run goes on from"
    assert values["needed"] == sum(map(len, carried.values()))
    # Home has all of these: half of one would take its place.
    training_run_collect.collect(run, "node1", LIMITS)
    assert contents(Path(run.collect)) == {}
    assert other() == theirs


def test_the_metrics_have_no_room(root: Path, run: Any) -> None:
    Path(run.resume).mkdir()
    Path(run.resume, "metrics.jsonl").write_bytes(b"{}\n" * 200 * KIB)
    fill(root, 300 * KIB)
    with pytest.raises(NoRoomError):
        start.hand_over(run, RANK, RANK)
    assert not os.path.exists(f"{run.work}/metrics.jsonl")


def test_the_configuration_has_no_room(root: Path, run: Any) -> None:
    fill(root, 300 * KIB)
    files = {"hostfile": "node1\n", "config.json": {"model": "x" * 200 * KIB}}
    with pytest.raises(NoRoomError, match="for the files of the run"):
        start.prepare(start_of(root, files), run, files)
    assert contents(Path(run.collect)) == {}


def test_the_directory_of_the_run_has_no_room(root: Path, other: Any, monkeypatch: Any) -> None:
    theirs = other()
    fill(root, 300 * KIB)
    monkeypatch.setattr(take, "containers", lambda label: [])
    monkeypatch.setattr(take, "take_lock", lambda root, lock, *_: (lock, []))
    options: dict[str, Any] = {
        "run_id": "r",
        "owner": "ada@control",
        "home": "/home/ada/runs/r",
        "nodes": ["node1"],
        "host": "node1",
        "root": str(root),
        "uid": RANK,
        "gid": RANK,
        "code": {},
        "address": "127.0.0.1",
        "port": 2222,
    }
    with pytest.raises(CallError) as refused:
        answered("take", **options)
    [problem] = refused.value.values["problems"]
    assert problem["code"] == "no_room"
    assert "for the run's directory" in problem["text"]
    assert other() == theirs


def test_too_many_files(root: Path, run: Any, project: Path, tmp_path: Path) -> None:
    for number in range(300):
        (project / f"{number}.py").write_text(f"{number}\n")
    with pytest.raises(NoRoomError, match="no inode is left in") as raised:
        receive(run, project, tmp_path)
    assert raised.value.problem.code == "no_inode"


def test_a_quota_that_is_used_up(tmp_path: Path, project: Path, monkeypatch: Any) -> None:
    """What the kernel says then; disks with quotas are not at hand here."""
    directory = training_node_directory.RunDirectory(str(tmp_path / "runs"), "r")
    take.make_directories(directory, RANK, RANK)
    receive(directory, project, tmp_path)

    def no_quota(path: str, uid: int, gid: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), path)

    monkeypatch.setattr(os, "chown", no_quota)
    with pytest.raises(NoRoomError, match="the quota is used up") as raised:
        training_run_code.copy_project(directory, RANK, RANK)
    assert raised.value.problem.code == "quota_used_up"
    assert not os.path.exists(directory.workdir)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("cp: error writing 'x': No space left on device\n", errno.ENOSPC),
        ("cp: error writing 'x': Disk quota exceeded\n", errno.EDQUOT),
        ("cp: cannot stat 'x': Permission denied\n", None),
    ],
)
def test_what_a_program_says_of_a_full_disk(words: str, number: int | None) -> None:
    assert training_run_room.error_of(words).errno == number
