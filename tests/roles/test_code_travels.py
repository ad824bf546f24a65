"""How the code of a run comes to a node, what its ranks get of it, and what goes home."""

import errno
import io
import os
import shutil
import tarfile
import time
from inspect import isfunction
from pathlib import Path
from typing import IO, Any

import pytest
from role_files import action_plugin

from node.runs import code as training_run_code
from node.runs import code_listing as training_run_listing
from node.runs import collect as training_run_collect
from node.runs import directory as training_node_directory
from node.runs import listing as training_node_runs
from node.verbs import start, take

plugin = action_plugin("training_node", "training_node_take")

RANK = 54321
LIMITS = training_run_collect.Limits(size=10**6, files=100)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project on the control node."""
    folder = tmp_path / "project"
    for name, text in {"train.py": "print(1)\n", "pkg/a.py": "a = 1\n", "pkg/b.py": "b\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "run.sh").write_text("python3 train.py\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").touch()
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """The directory of a run that has taken a node."""
    directory = training_node_directory.RunDirectory(str(tmp_path / "runs"), "r")
    take.make_directories(directory, RANK, RANK)
    return directory


@pytest.mark.parametrize("name", ["training_node_look", "training_node_take"])
def test_an_action_that_derives_from_the_call_hides_nothing_of_it(name: str) -> None:
    """A method of the same name as one of the call would be called in its place."""
    derived = action_plugin("training_node", name)
    own = {each for each, value in vars(derived.ActionModule).items() if isfunction(value)}
    hidden = {each for each in own & set(dir(derived.BASE)) if not each.startswith("__")}
    assert hidden == {"run"}


def store_of(run: Any) -> Any:
    return training_run_code.CodeStore(os.path.dirname(run.path))


def send(project: Path, run: Any, tmp_path: Path) -> dict[str, str]:
    """Bring a project to the node as a launch does, and give it to the ranks."""
    listing: dict[str, str] = training_run_listing.list_code(str(project))
    archive, root = tmp_path / "code.tar.gz", os.path.dirname(run.path)
    missing = store_of(run).missing([listing])
    with archive.open("wb") as file:
        training_run_listing.pack({str(project): listing}, missing, file)
    with archive.open("rb") as file:
        training_run_code.receive_run(file, root, run, {"project": listing}, RANK)
    training_run_code.copy_project(run, RANK, RANK)
    return listing


def files(folder: str | Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def test_ranks_get_a_copy_of_the_project_that_is_theirs(
    project: Path, run: Any, tmp_path: Path
) -> None:
    send(project, run, tmp_path)
    assert files(run.workdir) == files(project) == files(run.project)
    script = Path(run.workdir, "run.sh")
    assert (script.stat().st_uid, oct(script.stat().st_mode & 0o777)) == (RANK, "0o755")
    assert Path(run.workdir, "pkg").stat().st_uid == RANK
    # What was sent cannot be changed through the copy, and neither can the next run's.
    assert Path(run.project, "train.py").stat().st_uid == 0
    assert (
        Path(run.workdir, "train.py").stat().st_ino != Path(run.project, "train.py").stat().st_ino
    )


def test_of_an_edit_only_what_changed_is_sent(project: Path, run: Any, tmp_path: Path) -> None:
    send(project, run, tmp_path)
    (project / "train.py").write_text("print(2)\n")
    (project / "copy.py").write_text("a = 1\n")
    edited = training_run_listing.list_code(str(project))
    assert store_of(run).missing([edited]) == [edited["train.py"]]
    packed = io.BytesIO()
    training_run_listing.pack({str(project): edited}, [edited["train.py"]], packed)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        assert archive.getnames() == [edited["train.py"]]


def test_the_same_text_as_a_program_is_another_object(project: Path) -> None:
    before = training_run_listing.list_code(str(project))
    (project / "train.py").chmod(0o755)
    assert training_run_listing.list_code(str(project))["train.py"] == before["train.py"] + "x"


@pytest.mark.parametrize("damage", [b"", b"print(3)\n"])
def test_an_object_that_is_damaged_is_sent_again(
    damage: bytes, project: Path, run: Any, tmp_path: Path
) -> None:
    listing = send(project, run, tmp_path)
    kept = Path(os.path.dirname(run.path), ".code", listing["train.py"])
    kept.chmod(0o644)
    kept.write_bytes(damage)
    assert store_of(run).missing([listing]) == [listing["train.py"]]


def test_what_came_as_something_else_is_not_kept(project: Path, run: Any, tmp_path: Path) -> None:
    listing = training_run_listing.list_code(str(project))
    archive = tmp_path / "code.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(project / "empty", arcname=listing["train.py"])
    with pytest.raises(training_run_listing.CodeError, match="came as something else"):
        store_of(run).receive(io.BytesIO(archive.read_bytes()), [listing["train.py"]])
    assert files(Path(os.path.dirname(run.path), ".code")) == {}


@pytest.mark.parametrize("name", ["../../outside", "/etc/passwd", "unwanted"])
def test_of_an_archive_only_what_was_wanted_is_taken(
    name: str, project: Path, run: Any, tmp_path: Path
) -> None:
    archive = tmp_path / "code.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(project / "train.py", arcname=name)
    store_of(run).receive(io.BytesIO(archive.read_bytes()), [])
    assert files(Path(os.path.dirname(run.path), ".code")) == {}
    assert not (tmp_path / "outside").exists()


def test_what_no_run_has_used_for_long_goes(project: Path, run: Any, tmp_path: Path) -> None:
    listing = send(project, run, tmp_path)
    store = Path(os.path.dirname(run.path), ".code")
    old = store / listing["train.py"]
    os.utime(old, (0, old.stat().st_mtime))
    (project / "train.py").write_text("new\n")
    send(project, run_beside(run), tmp_path)
    assert not old.exists()
    assert (store / listing["pkg/a.py"]).exists()


@pytest.fixture
def noatime(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not note when the store reads a file, whatever this one is mounted with."""
    copy = shutil.copyfile

    def digest_unnoticed(file: IO[bytes]) -> str:
        about = os.fstat(file.fileno())
        digest: str = training_run_listing.digest_of(file)
        os.utime(file.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))
        return digest

    def copy_unnoticed(source: str, target: str) -> None:
        about = os.stat(source)
        copy(source, target)
        os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))

    monkeypatch.setattr(training_run_code, "digest_of", digest_unnoticed)
    monkeypatch.setattr(shutil, "copyfile", copy_unnoticed)


def link_nothing(source: str, target: str) -> None:
    raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), target)


@pytest.mark.parametrize("links", [True, False])
def test_an_edit_after_long_finds_the_rest_there(
    links: bool,
    project: Path,
    run: Any,
    tmp_path: Path,
    noatime: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", link_nothing)
    listing = send(project, run, tmp_path)
    for name in listing.values():
        kept = Path(os.path.dirname(run.path), ".code", name)
        os.utime(kept, (0, kept.stat().st_mtime))
    (project / "train.py").write_text("new\n")
    beside = run_beside(run)
    send(project, beside, tmp_path)
    assert files(beside.workdir) == files(project)
    # And the next run finds it, too.
    assert store_of(run).missing([training_run_listing.list_code(str(project))]) == []


def run_beside(run: Any) -> Any:
    directory = training_node_directory.RunDirectory(os.path.dirname(run.path), "s")
    take.make_directories(directory, RANK, RANK)
    return directory


def test_a_file_that_is_edited_does_not_keep_the_others(project: Path) -> None:
    (project / ".#train.py").symlink_to("ada@control.1234:1700000000")
    assert "train.py" in training_run_listing.list_code(str(project))


def test_what_is_kept_for_later_runs_is_no_run(project: Path, run: Any, tmp_path: Path) -> None:
    send(project, run, tmp_path)
    root = os.path.dirname(run.path)
    assert Path(root, ".code").is_dir()
    assert training_node_runs.left_runs(root) == {"r"}


def test_links_do_not_travel(project: Path) -> None:
    (project / "link").symlink_to("/etc/shadow")
    with pytest.raises(training_run_listing.CodeError, match="link is no plain file"):
        training_run_listing.list_code(str(project))


def test_what_is_new_or_changed_goes_home(project: Path, run: Any, tmp_path: Path) -> None:
    send(project, run, tmp_path)
    Path(run.config, training_node_directory.ARGUMENTS).touch()
    work = Path(run.workdir)
    (work / "pkg/a.py").write_text("a = 22\n")
    (work / ".hydra").mkdir()
    (work / ".hydra/config.yaml").write_text("x\n")
    (work / "pkg/__pycache__").mkdir()
    (work / "pkg/__pycache__/a.pyc").write_text("x\n")
    (work / "checkpoint-1.tar").write_text("weights\n")
    Path(run.work, "outputs").mkdir()
    Path(run.work, "outputs/result.json").write_text("{}\n")
    Path(run.work, "silences.jsonl").write_text("{}\n")
    collected = training_run_collect.collect(run, "node1", LIMITS)
    assert files(run.collect) == {
        "outputs/result.json": "{}\n",
        "silences.jsonl": "{}\n",
        "workdir/.hydra/config.yaml": "x\n",
        "workdir/checkpoint-1.tar": "weights\n",
        "workdir/pkg/a.py": "a = 22\n",
    }
    assert (collected.refused.count, collected.beyond.count) == (0, 0)


def test_the_files_of_two_nodes_may_have_one_name(project: Path, run: Any, tmp_path: Path) -> None:
    send(project, run, tmp_path)
    Path(run.workdir, "result.json").write_text("second\n")
    training_run_collect.collect(run, "node2", LIMITS)
    assert files(run.collect) == {"nodes/node2/workdir/result.json": "second\n"}


@pytest.mark.process
def test_what_a_node_was_given_of_the_first_one_does_not_come_home_from_there(
    project: Path, run: Any, tmp_path: Path
) -> None:
    send(project, run, tmp_path)
    for name in ("workdir/epoch-1.pt", "workdir/log.txt", "outputs/table.csv"):
        path = Path(run.resume, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of the first\n")
    reachable(tmp_path)
    start.hand_over(run, RANK, RANK)
    Path(run.workdir, "log.txt").write_text("more than it was\n")
    Path(run.workdir, "own.txt").write_text("mine\n")
    training_run_collect.collect(run, "node2", LIMITS)
    assert files(run.collect) == {
        "nodes/node2/workdir/log.txt": "more than it was\n",
        "nodes/node2/workdir/own.txt": "mine\n",
    }


@pytest.mark.process
def test_the_first_node_sends_home_what_it_was_given(
    project: Path, run: Any, tmp_path: Path
) -> None:
    """A run that goes on from another one would else not have it."""
    send(project, run, tmp_path)
    Path(run.resume, "workdir").mkdir(parents=True)
    Path(run.resume, "workdir/epoch-1.pt").write_text("weights\n")
    reachable(tmp_path)
    start.hand_over(run, RANK, RANK)
    Path(run.config, training_node_directory.ARGUMENTS).touch()
    training_run_collect.collect(run, "node1", LIMITS)
    assert files(run.collect) == {"workdir/epoch-1.pt": "weights\n"}


@pytest.mark.process
def test_what_a_node_had_itself_comes_over_what_the_first_one_had(
    project: Path, run: Any, tmp_path: Path
) -> None:
    send(project, run, tmp_path)
    for place, text, age in (("", "first\n", 50), ("own/", "own\n", 40)):
        for name in ("workdir/both.txt", "workdir/newer.txt", f"outputs/{text.strip()}.csv"):
            path = Path(run.resume, place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            moment = time.time() - age
            os.utime(path, (moment, moment))
    # The first node has written it since, as a checkpoint of one name for all attempts.
    os.utime(Path(run.resume, "workdir/newer.txt"))
    reachable(tmp_path)
    start.hand_over(run, RANK, RANK)
    assert Path(run.workdir, "both.txt").read_text() == "own\n"
    assert Path(run.workdir, "newer.txt").read_text() == "first\n"
    assert Path(run.workdir, "both.txt").stat().st_uid == RANK
    assert files(f"{run.work}/outputs") == {"first.csv": "first\n", "own.csv": "own\n"}


def reachable(path: Path) -> None:
    """Let the ranks' account through to a folder of a test."""
    for above in (path, *path.parents):
        if above.stat().st_uid == os.geteuid():
            above.chmod(above.stat().st_mode | 0o011)


@pytest.mark.process
def test_a_project_goes_on_with_the_files_it_had(project: Path, run: Any, tmp_path: Path) -> None:
    send(project, run, tmp_path)
    for name, text in {
        "checkpoints/epoch-1.pt": "weights\n",
        "outputs/log.csv": "1\n",
        "workdir/pkg/cache.bin": "x\n",
        "workdir/pkg/a.py": "edited by the program\n",
        "metrics.jsonl": '{"step": 1}\n',
    }.items():
        path = Path(run.resume, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    reachable(tmp_path)
    start.hand_over(run, RANK, RANK)
    assert Path(run.work, "checkpoints/epoch-1.pt").read_text() == "weights\n"
    assert Path(run.work, "checkpoints/epoch-1.pt").stat().st_uid == RANK
    assert Path(run.work, "outputs/log.csv").read_text() == "1\n"
    assert Path(run.workdir, "pkg/cache.bin").read_text() == "x\n"
    assert Path(run.workdir, "pkg/a.py").read_text() == "edited by the program\n"
    assert Path(run.workdir, "pkg/b.py").read_text() == "b\n"
    assert Path(run.work, "metrics.jsonl").read_text() == '{"step": 1}\n'


@pytest.mark.parametrize("asked", [None, "b", 5, ["c"], ["b", 7], [["b"]], {"b": 1}])
def test_a_node_gets_nothing_but_the_code_that_it_asks_for(asked: Any) -> None:
    code = {"project": {"a.py": "a", "b.py": "b"}}
    assert plugin.wanted(["b"], code) == ["b"]
    assert plugin.wanted([], code) == []
    with pytest.raises(plugin.CodeError, match="none of it"):
        plugin.wanted(asked, code)
