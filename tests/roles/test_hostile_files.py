"""What ranks may leave in their directory, and what root does with it on a node.

The attacks are made on real files: links at every component of a path, pipes, devices, huge and
countless files, names that no terminal shows. Beside the run's directory stands one that is not the
run's; it must be afterwards as it was.
"""

import json
import os
import resource
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.runs import collect as training_run_collect
from node.runs import directory as training_node_directory
from node.runs import listing as training_node_runs
from node.runs import lock as training_node_lock
from node.runs import records as training_run_records
from node.runs import untrusted
from node.verbs import checkpoints, logs, poll, start, take

CHECKOUT = Path(__file__).parents[2]
# Any but root's: whom the ranks run as.
RANK = 54321
SECRET = "root:*:secret\n"
LIMITS = training_run_collect.Limits(size=10**6, files=100)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory of the machine; nothing in it may change, whatever a test does."""
    folder = tmp_path / "etc"
    (folder / "below").mkdir(parents=True)
    for name in ("shadow", "metrics.jsonl", "rank-0.log", "exit_status", "below/last.pt"):
        (folder / name).write_text(SECRET)
        (folder / name).chmod(0o640)
    before = listing(folder)
    yield folder
    assert listing(folder) == before


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """The directory of a run whose container has ended."""
    directory = training_node_directory.RunDirectory(str(tmp_path / "runs"), "r")
    take.make_directories(directory, RANK, RANK)
    return directory


def listing(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Mode, owner, group and content of all that is in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_text() if path.is_file() else ""
        found[str(path)] = (about.st_mode, about.st_uid, about.st_gid, content)
    return found


def write(run: Any, name: str, text: str = "text\n") -> Path:
    """A file that a rank wrote."""
    path = Path(run.work, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.chown(path, RANK, RANK)
    return path


def home(run: Any) -> dict[str, str]:
    """What goes home: path to content; of a link where it leads."""
    found = {}
    for folder, _, names in os.walk(run.collect):
        for name in names:
            path = Path(folder, name)
            found[str(path.relative_to(run.collect))] = (
                f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
            )
    return found


def replace_by_link(path: Path, target: Path) -> None:
    """Put a link in the place of a file or an empty directory."""
    if path.is_dir() and not path.is_symlink():
        for below in path.iterdir():
            below.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


# Each puts something in the place of logs/rank-0.log, or of a directory above it.
PLANTS: dict[str, Callable[[Path, Path], None]] = {
    "a link to a file": lambda work, outside: replace_by_link(
        work / "logs/rank-0.log", outside / "shadow"
    ),
    "a link to a relative path": lambda work, outside: replace_by_link(
        work / "logs/rank-0.log", Path("../../../../etc/shadow")
    ),
    "a link to itself": lambda work, outside: replace_by_link(
        work / "logs/rank-0.log", work / "logs/rank-0.log"
    ),
    "a directory that is a link": lambda work, outside: replace_by_link(work / "logs", outside),
    "a pipe": lambda work, outside: os.mkfifo(work / "logs/rank-0.log"),
    "a device": lambda work, outside: os.mknod(
        work / "logs/rank-0.log", stat.S_IFCHR | 0o666, os.makedev(1, 5)
    ),
    "a disk": lambda work, outside: os.mknod(
        work / "logs/rank-0.log", stat.S_IFBLK | 0o666, os.makedev(7, 0)
    ),
    "a socket": lambda work, outside: listen(work / "logs/rank-0.log"),
    "a directory": lambda work, outside: (work / "logs/rank-0.log").mkdir(),
}


def listen(path: Path) -> None:
    """Leave a socket in the file system."""
    with socket.socket(socket.AF_UNIX) as listener:
        # The path of a socket has at most 107 bytes.
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_what_stands_in_a_logs_place_is_neither_read_nor_collected(
    plant: Callable[[Path, Path], None], run: Any, outside: Path
) -> None:
    plant(Path(run.work), outside)
    read = logs.Logs(run.path, None).read(1000)
    assert SECRET.strip() not in str(read)
    collected = training_run_collect.collect(run, "node1", LIMITS)
    assert not [name for name in home(run) if "rank-0" in name or "shadow" in name]
    # A directory in the place of a file has nothing in it that a run has.
    assert collected.refused.count == 1
    assert "logs" in collected.refused.first[0]


@pytest.mark.parametrize("name", ["metrics.jsonl", "exit_status"])
@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "device"])
def test_a_follower_reads_plain_files_alone(name: str, kind: str, run: Any, outside: Path) -> None:
    path = Path(run.work, name)
    if kind == "link":
        path.symlink_to(outside / name)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    else:
        path.mkdir()
    assert poll.read_metrics(run.path) == []
    assert poll.noted_status(run.path) is None
    assert training_node_runs.newest_of(training_node_runs.metrics_of(run.path)) is None
    assert not untrusted.is_there(run.path, name)


def test_the_ranks_directory_as_a_link_is_not_followed(run: Any, outside: Path) -> None:
    """Root's own directory is above it, so nobody can; if somebody does, nothing is read."""
    os.rename(run.work, run.work + ".away")
    os.symlink(outside, run.work)
    assert not untrusted.is_there(run.path, "metrics.jsonl")


def test_of_metrics_without_end_the_end_is_read(run: Any) -> None:
    with open(os.path.join(run.work, "metrics.jsonl"), "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 40)
        file.write(b'\n{"event": "step", "step": 1}\n')
    assert [line["step"] for line in poll.read_metrics(run.path)] == [1]
    assert training_node_runs.newest_of(training_node_runs.metrics_of(run.path)) == {
        "event": "step",
        "step": 1,
    }


def test_what_a_run_has_goes_home(run: Any) -> None:
    names = [
        "metrics.jsonl",
        "world.json",
        "exit_status",
        "logs/rank-0.log",
        "logs/mpirun.log",
        "ranks/0.json",
        "failures/rank-1.json",
        "nodes/node1/utilisation.jsonl",
        "checkpoints/epoch-1.pt",
        "checkpoints/epoch-1.pt.sha256",
        "tensorboard/events.1",
        "wandb/offline/files/a.yaml",
    ]
    for name in names:
        write(run, name)
    write(run, "ranks/0.beat")
    write(run, ".exit_status")
    links = {"checkpoints/last.pt": "epoch-1.pt", "wandb/debug.log": "offline/files/a.yaml"}
    for name, target in links.items():
        Path(run.work, name).symlink_to(target)
    for folder in ("wandb/offline/files", "project/wandb/offline/logs"):
        Path(run.work, folder).mkdir(parents=True, exist_ok=True)
        Path(run.work, folder, "debug-core.log").symlink_to("/home/trainer/.cache/a")
    collected = training_run_collect.collect(run, "node1", LIMITS)
    led = {name: f"-> {target}" for name, target in links.items()}
    assert home(run) == {**dict.fromkeys(names, "text\n"), **led}
    assert not collected.refused.count
    assert not collected.beyond.count
    assert collected.size == 5 * len(names)
    # None of it is the ranks' any more.
    for folder, _, found in os.walk(run.collect):
        for name in found:
            about = os.lstat(os.path.join(folder, name))
            assert about.st_uid == 0
            assert not about.st_mode & 0o077 or stat.S_ISLNK(about.st_mode)


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "summary.json",
        "report.html",
        "ansible.log",
        "earlier/x",
        "nodes/node1/container.log",
        "nodes/node1/findings.json",
        "ssh/id_ed25519",
        "logs/a/rank-0.log",
        "logs/rank-0.log.sh",
        "checkpoints/" + "a/" * 260 + "deep.pt",
        "logs/rank\n0.log",
        "logs/\x1b]0;x\x07.log",
    ],
)
def test_other_names_stay_behind_and_are_named(name: str, run: Any) -> None:
    write(run, name)
    write(run, "logs/rank-1.log")
    collected = training_run_collect.collect(run, "node1", LIMITS)
    assert list(home(run)) == ["logs/rank-1.log"]
    assert collected.refused.count == 1
    assert str(collected.refused).isprintable()
    str(collected.refused).encode()


def test_names_of_a_program_that_cannot_be_printed_go_home_escaped(run: Any) -> None:
    names = ("caf\udce9/two\nlines.pt", "wide\u3000space.pt", "\x1b]0;x.pt")
    for name in names:
        write(run, f"checkpoints/{name}")
        write(run, f"outputs/{name}")
    few = training_run_collect.Limits(size=20, files=100)
    collected = training_run_collect.collect(run, "node1", few)
    shown = {r"caf\udce9/two\nlines.pt", r"wide\u3000space.pt", r"\x1b]0;x.pt"}
    came = {name.partition("/")[2] for name in home(run) if name.startswith("checkpoints/")}
    assert came == shown
    assert not collected.refused.count
    assert collected.beyond.count == 2
    assert str(collected.beyond).isprintable()
    training_run_collect.collect(run, "node1", LIMITS)
    assert {f"nodes/node1/outputs/{name}" for name in shown} < home(run).keys()


def test_who_follows_a_run_reads_its_end_while_it_is_collected(run: Any) -> None:
    write(run, "logs/rank-0.log", "last words\n")
    write(run, "exit_status", "0\n")
    write(run, "metrics.jsonl", '{"event": "end"}\n')
    before = (logs.Logs(run.path, None).read(1000), poll.read_metrics(run.path))
    training_run_collect.collect(run, "node1", LIMITS)
    assert (logs.Logs(run.path, None).read(1000), poll.read_metrics(run.path)) == before
    assert before[0]["rank-0.log"]["text"] == "last words\n"
    assert poll.noted_status(run.path) == 0


def test_rights_do_not_go_home(run: Any) -> None:
    path = write(run, "checkpoints/program")
    path.chmod(0o6777)
    training_run_collect.collect(run, "node1", LIMITS)
    about = Path(run.collect, "checkpoints/program").stat()
    assert stat.S_IMODE(about.st_mode) == 0o600
    assert about.st_uid == 0


@pytest.mark.parametrize("target", ["/etc/passwd", "../epoch-1.pt", "..", ".", "a/../../b", "a\nb"])
def test_a_link_that_may_lead_out_stays_behind(target: str, run: Any) -> None:
    Path(run.work, "checkpoints/last.pt").symlink_to(target)
    collected = training_run_collect.collect(run, "node1", LIMITS)
    assert home(run) == {}
    assert collected.refused.count == 1


def test_a_huge_file_keeps_no_log_from_going_home(run: Any) -> None:
    with open(os.path.join(run.work, "checkpoints", "a"), "wb") as file:
        file.truncate(1 << 40)
    write(run, "logs/rank-0.log")
    write(run, "metrics.jsonl")
    collected = training_run_collect.collect(run, "node1", LIMITS)
    assert sorted(home(run)) == ["logs/rank-0.log", "metrics.jsonl"]
    assert str(collected.beyond) == "checkpoints/a: 1,099,511,627,776 bytes"
    # It stays for whoever wants it after all.
    assert Path(run.work, "checkpoints/a").exists()


def test_countless_files_keep_no_record_from_going_home_and_are_counted(run: Any) -> None:
    write(run, "logs/rank-0.log", "a long log\n" * 100)
    write(run, "ranks/0.json", "{}" * 100)
    write(run, "ranks/0.exception")
    write(run, "outputs/left-in-container/tmp/out/model.safetensors", "w" * 10_000)
    for number in range(300):
        write(run, f"outputs/samples/{number * 7 % 300:03}")
    for number in range(150):
        path = write(run, f"checkpoints/{number:03}/weights")
        os.utime(path, (1000 + number,) * 2)
    collected = training_run_collect.collect(run, "node1", LIMITS)
    kept = home(run)
    assert {"logs/rank-0.log", "ranks/0.json"} <= kept.keys()
    # What a program wrote to the container's /tmp counts like its checkpoints.
    assert [name for name in kept if name.endswith("/tmp/out/model.safetensors")]
    assert not collected.refused.count
    # Of the checkpoints those that were written last.
    assert sorted(name for name in kept if name.startswith("checkpoints/")) == [
        f"checkpoints/{number:03}/weights" for number in range(51, 150)
    ]
    # Of files of one size those whose paths come first.
    samples = sorted(name.rpartition("/")[2] for name in kept if "/samples/" in name)
    assert samples == [f"{number:03}" for number in range(LIMITS.files)]
    assert collected.beyond.count == 200 + 51
    assert str(collected.beyond).endswith("; and 246 more")


def test_records_and_the_newest_checkpoint_come_before_all_else_of_the_size(run: Any) -> None:
    Path(run.config, "program.json").write_text('{"checkpoints": "step-*"}')
    for number, name in enumerate(("step-1/a.pt", "step-2/b.pt", "notes.txt")):
        path = write(run, f"project/{name}", "x" * 400_000 if name != "notes.txt" else "x")
        os.utime(path, (1000 + number,) * 2)
    write(run, "outputs/large", "x" * 300_000)
    write(run, "logs/rank-1.log", "x" * 350_000)
    collected = training_run_collect.collect(run, "node1", LIMITS)
    kept = home(run)
    assert {name.rpartition("/")[2] for name in kept} == {"rank-1.log", "b.pt", "notes.txt"}
    assert collected.beyond.count == 2


@pytest.mark.process
@pytest.mark.parametrize("uid", [0, RANK])
def test_without_root_the_account_opens_what_a_program_closed(
    run: Any, uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads it anyway; without it one such folder would keep all else from going home."""
    monkeypatch.setattr(training_run_collect, "OWN_UID", uid)
    closed = write(run, "outputs/closed/a").parent
    closed.chmod(0)
    write(run, "logs/rank-0.log")
    assert training_run_collect.collect(run, "node1", LIMITS).refused.count == 0
    assert len(home(run)) == 2
    assert stat.S_IMODE(closed.stat().st_mode) == (0o700 if uid else 0)


def test_a_tree_two_hundred_directories_deep_goes_home(run: Any) -> None:
    deep = "outputs/" + "d/" * 200 + "result.txt"
    write(run, deep)
    write(run, "outputs/" + "a name of many characters/" * 130 + "result.txt")
    collected = training_run_collect.collect(run, "node1", LIMITS)
    (name,) = home(run)
    assert name.endswith(deep)
    assert str(collected.refused).endswith(": a path of more than 3,000 bytes")


def test_countless_files_of_other_names_are_counted(run: Any) -> None:
    for number in range(300):
        write(run, f"other-{number}")
    collected = training_run_collect.collect(run, "node1", LIMITS)
    assert collected.refused.count == 300
    assert str(collected.refused).endswith("; and 295 more")


def test_two_commands_that_end_a_run_at_once_lose_none_of_its_files(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"logs/rank-0.log", "checkpoints/epoch-1.pt", "checkpoints/epoch-2.pt"}
    for name in names:
        write(run, name)
    rename, other = os.rename, list[Any]()

    def meanwhile(*paths: str, **options: Any) -> None:
        if not other:
            other.append(None)
            other[0] = training_run_collect.collect(run, "node1", LIMITS)
        rename(*paths, **options)

    monkeypatch.setattr(os, "rename", meanwhile)
    collected = training_run_collect.collect(run, "node1", LIMITS)
    assert names <= home(run).keys()
    assert (collected.refused.count, other[0].refused.count) == (0, 0)


def test_a_link_put_in_place_while_root_collects(run: Any, outside: Path) -> None:
    """A rank that still runs, for want of an engine, exchanges file, directory and links."""
    over = threading.Event()
    log, folder = Path(run.work, "logs/rank-0.log"), Path(run.work, "logs")

    def exchange() -> None:
        while not over.is_set():
            for act in (
                lambda: log.write_text("text\n"),
                lambda: log.unlink(),
                lambda: log.symlink_to(outside / "shadow"),
                lambda: log.unlink(),
                lambda: folder.rename(folder.with_name("ranks.away")),
                lambda: folder.symlink_to(outside),
                lambda: folder.unlink(),
                lambda: folder.with_name("ranks.away").rename(folder),
            ):
                with suppress(OSError):
                    act()

    rank = threading.Thread(target=exchange)
    rank.start()
    try:
        for _ in range(300):
            with suppress(OSError):
                training_run_collect.collect(run, "node1", LIMITS)
            read: object = ""
            with suppress(OSError):  # the file is gone just now
                read = logs.Logs(run.path, None).read(1000)
            assert SECRET.strip() not in str(read)
            for content in home(run).values():
                assert content in ("", "text\n")
    finally:
        over.set()
        rank.join()


def test_keys_go_and_nothing_through_links(run: Any, outside: Path) -> None:
    for name in ("id_ed25519", "id_ed25519.pub", "ssh_host_ed25519_key"):
        Path(run.ssh, name).write_text("key")
    Path(run.config, "environment").write_text("KEY=1\n")
    assert len(training_run_records.remove_keys(run)) == 4
    assert os.listdir(run.ssh) == []
    # Whatever ranks call a key in their own directory is none.
    Path(run.work, "ssh").symlink_to(outside)
    assert training_run_records.remove_keys(run) == []


def test_records_are_written_where_no_rank_can(run: Any, outside: Path) -> None:
    nodes = Path(run.work, "nodes/node1")
    nodes.mkdir()
    (nodes / "container.log").symlink_to(outside / "shadow")
    training_run_records.write_record(run, "node1", "container.log", b"said\n")
    training_run_collect.collect(run, "node1", LIMITS)
    assert home(run) == {"nodes/node1/container.log": "said\n"}


@pytest.mark.process
def test_checkpoints_are_handed_over_by_themselves(run: Any, outside: Path) -> None:
    resume = Path(run.resume)
    resume.mkdir()
    (resume / "epoch-1.pt").write_text("checkpoint")
    (resume / "below").symlink_to(outside)
    (resume / "metrics.jsonl").symlink_to(outside / "shadow")
    with suppress(OSError):
        start.hand_over(run, RANK, RANK)
    assert (resume / "epoch-1.pt").stat().st_uid == RANK
    assert not Path(run.work, "metrics.jsonl").exists()


def test_metrics_go_on_as_those_of_one_run(run: Any) -> None:
    Path(run.resume).mkdir()
    Path(run.resume, "metrics.jsonl").write_text("{}\n")
    start.hand_over(run, RANK, RANK)
    metrics = Path(run.work, "metrics.jsonl")
    assert metrics.read_text() == "{}\n"
    assert metrics.stat().st_uid == RANK


@pytest.mark.parametrize("state", [None, {"Id": "1"}])
def test_records_of_who_ended_a_run_first_stay(
    run: Any, monkeypatch: pytest.MonkeyPatch, state: dict[str, Any] | None
) -> None:
    """`make stop` and whoever follows the run both end it, and one finds the container gone."""
    states, logs = iter([{"Id": "1"}, state]), iter([b"said\n", None])
    monkeypatch.setattr(training_run_records, "inspect", lambda container: next(states))
    monkeypatch.setattr(training_run_records, "logs", lambda container: next(logs))
    training_run_records.keep_records("1", run, "node1")
    training_run_records.keep_records("1", run, "node1")
    records = Path(run.records("node1"))
    assert json.loads((records / "container.json").read_text()) == {"Id": "1"}
    assert (records / "container.log").read_text() == "said\n"


@pytest.mark.process
def test_an_attempt_that_nobody_could_bring_home_is_kept(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same run takes the node again, which could not be reached when it failed."""
    monkeypatch.setattr(take, "containers", lambda label: [])
    root, run_id = os.path.split(run.path)
    lock = {"run": run_id, "home": "/home/ada/runs/r", "host": "node1"}
    training_node_lock.write(root, [lock])
    write(run, "checkpoints/epoch-3.pt")
    training_run_records.write_record(run, "node1", "container.log", b"said\n")
    take.clear_dead_run(root, lock)
    take.set_aside(run, "node1", LIMITS)
    take.make_directories(run, RANK, RANK)
    write(run, "checkpoints/epoch-1.pt")
    training_run_collect.collect(run, "node1", LIMITS)
    (attempt,) = os.listdir(Path(run.collect, "earlier"))
    assert attempt.endswith("Z-node1")
    earlier = f"earlier/{attempt}"
    assert home(run) == {
        f"{earlier}/checkpoints/epoch-3.pt": "text\n",
        f"{earlier}/nodes/node1/container.log": "said\n",
        "checkpoints/epoch-1.pt": "text\n",
    }


@pytest.mark.process
def test_what_an_attempt_left_beyond_the_limits_stays_and_comes_with_higher_ones(run: Any) -> None:
    for number in range(150):
        write(run, f"outputs/{number:03}")
    training_run_collect.collect(run, "node1", LIMITS)
    take.set_aside(run, "node1", training_run_collect.Limits(LIMITS.size, 30))
    take.make_directories(run, RANK, RANK)
    write(run, "outputs/new")
    few = training_run_collect.Limits(LIMITS.size, 5)
    assert training_run_collect.collect_attempts(run, "node1", few).beyond.count == 15
    assert not training_run_collect.collect_attempts(run, "node1", LIMITS).beyond.count
    assert os.listdir(run.left) == []
    names = sorted(name.rpartition("/")[2] for name in home(run))
    assert names == [*(f"{number:03}" for number in range(150)), "new"]


def copies_of(run: Any) -> dict[str, str]:
    """What this node has of the checkpoints of the first one."""
    return {
        str(path.relative_to(run.copies)): path.read_text() for path in sorted_files(run.copies)
    }


def sorted_files(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


def test_copies_of_checkpoints_are_kept_apart_from_what_goes_home(run: Any) -> None:
    write(run, "copies/checkpoints/epoch-3.pt")
    write(run, "copies/checkpoints/.epoch-4.pt.Xy12")
    write(run, "copies/other/file")
    write(run, "logs/rank-1.log")
    collected = training_run_collect.collect(run, "node2", LIMITS)
    assert home(run) == {"logs/rank-1.log": "text\n"}
    assert copies_of(run) == {"checkpoints/epoch-3.pt": "text\n"}
    assert str(collected.refused) == "copies/other: no directory of a run"
    assert Path(run.copies, "checkpoints/epoch-3.pt").stat().st_uid == 0


def test_copies_lead_nowhere_else(run: Any, outside: Path) -> None:
    replace_by_link(Path(run.work, "copies/checkpoints/epoch-1.pt"), outside / "shadow")
    replace_by_link(Path(run.work, "copies/checkpoints/more"), outside / "below")
    collected = training_run_collect.collect(run, "node2", LIMITS)
    assert collected.refused.count == 2
    assert not os.path.exists(run.copies)
    shutil.rmtree(Path(run.work, "copies"))
    replace_by_link(Path(run.work, "copies"), outside)
    assert training_run_collect.collect(run, "node2", LIMITS).refused.count
    assert not os.path.exists(run.copies)


@pytest.mark.process
def test_copies_that_nobody_brought_home_are_kept_when_the_run_starts_again(run: Any) -> None:
    write(run, "copies/checkpoints/epoch-3.pt")
    take.set_aside(run, "node2", LIMITS)
    (attempt,) = os.listdir(Path(run.collect, "earlier"))
    assert home(run) == {f"earlier/{attempt}/copies/epoch-3.pt": "text\n"}
    assert not os.path.exists(run.copies)


@pytest.mark.process
def test_checkpoints_of_a_run_that_goes_on_are_laid_ready(run: Any) -> None:
    original = write(run, "checkpoints/epoch-3.pt")
    write(run, "checkpoints/deep/part.bin")
    write(run, "checkpoints/.epoch-4.pt.Xy12")
    Path(run.work, "checkpoints/last.pt").symlink_to("epoch-3.pt")
    for _ in range(2):  # what is left of the last time goes
        told = checkpoints.checkpoints(run.path, "node2", RANK + 1)
        assert sorted(told["names"]) == [
            "checkpoints/deep/part.bin",
            "checkpoints/epoch-3.pt",
            "checkpoints/last.pt",
        ]
    offered = Path(run.live, "checkpoints/epoch-3.pt")
    assert offered.samefile(original)
    assert original.stat().st_uid == RANK, "the ranks keep their file"
    for folder in (run.live, f"{run.live}/checkpoints", f"{run.live}/checkpoints/deep"):
        assert os.stat(folder).st_uid == RANK + 1
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    training_run_collect.collect(run, "node1", LIMITS)
    assert home(run)["checkpoints/epoch-3.pt"] == "text\n"


@pytest.mark.process
@pytest.mark.parametrize("what", ["live", "collect"])
def test_a_folder_is_given_away_after_what_is_in_it(
    run: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has a folder may put a link where root comes next."""
    write(run, "checkpoints/deep/part.bin")
    given: list[str] = []
    monkeypatch.setattr(os, "chown", lambda path, *_ids, follow_symlinks: given.append(path))
    if what == "live":
        checkpoints.checkpoints(run.path, "node2", RANK + 1)
        top = run.live
    else:
        top = run.work
        training_run_collect.give(top, RANK + 1)
    deep = [
        given.index(os.path.join(top, *parts))
        for parts in (("checkpoints", "deep"), ("checkpoints",))
    ]
    assert deep == sorted(deep)
    assert given[-1] == top


@pytest.mark.process
def test_of_a_run_that_is_over_nothing_is_made_again(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(run, "checkpoints/deep/part.bin")
    find = training_run_collect._entries

    def find_while_the_run_is_brought_home(*arguments: Any) -> Any:
        found = list(find(*arguments))
        shutil.rmtree(run.path, ignore_errors=True)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(training_run_collect, "_entries", find_while_the_run_is_brought_home)
        with pytest.raises(FileNotFoundError):
            training_run_collect.offer_live(run, "node1", LIMITS)
    assert not os.path.exists(run.path)
    with pytest.raises(FileNotFoundError):
        training_run_collect.offer_live(run, "node1", LIMITS)
    assert not os.path.exists(run.path)


@pytest.mark.process
def test_only_plain_files_within_the_limits_are_laid_ready(run: Any, outside: Path) -> None:
    write(run, "checkpoints/small.pt")
    write(run, "checkpoints/large.pt", "x" * (LIMITS.size + 1))
    replace_by_link(Path(run.work, "checkpoints/secret.pt"), outside / "shadow")
    replace_by_link(Path(run.work, "checkpoints/below"), outside / "below")
    os.mkfifo(Path(run.work, "checkpoints/pipe.pt"))
    names = training_run_collect.offer_live(run, "node2", LIMITS)
    assert names == ["checkpoints/small.pt"]
    assert [path.name for path in sorted_files(run.live)] == ["small.pt"]
    replace_by_link(Path(run.work, "checkpoints_"), outside)
    os.rename(Path(run.work, "checkpoints"), Path(run.work, "x"))
    os.rename(Path(run.work, "checkpoints_"), Path(run.work, "checkpoints"))
    assert training_run_collect.offer_live(run, "node2", LIMITS) == []


def name_checkpoints(run: Any, pattern: str) -> None:
    """Have the project of a run say which files of its working directory are checkpoints."""
    program = json.dumps({"checkpoints": pattern})
    Path(run.config, "program.json").write_text(program)


@pytest.mark.process
def test_checkpoints_of_a_working_directory_are_laid_ready_too(run: Any, outside: Path) -> None:
    name_checkpoints(run, "s*ed/ckpt-*")
    for name in ("saved/ckpt-1.pt", "saved/ckpt-2/part.bin", "saved/log", "ckpt-3.pt", "shed"):
        write(run, f"project/{name}")
    write(run, "project/saved/.ckpt-4.pt")
    replace_by_link(Path(run.work, "project/saved/ckpt-5"), outside / "shadow")
    replace_by_link(Path(run.work, "project/saved/ckpt-6"), outside / "below")
    # One that came with the project is none of the run's.
    sent = Path(run.project, "saved/ckpt-0.pt")
    sent.parent.mkdir(parents=True)
    shutil.copy2(write(run, "project/saved/ckpt-0.pt"), sent)
    expected = ["ckpt-1.pt", "ckpt-2/part.bin"]
    folder = "nodes/node2/workdir/saved"
    names = training_run_collect.offer_live(run, "node2", LIMITS)
    assert sorted(names) == [f"{folder}/{name}" for name in expected]
    assert Path(run.live, folder, "ckpt-1.pt").read_text() == "text\n"
    start_ranks_from(run)
    names = training_run_collect.offer_live(run, "node1", LIMITS)
    assert sorted(names) == [f"workdir/saved/{name}" for name in expected]
    training_run_collect.collect(run, "node1", LIMITS)
    assert training_run_collect.checkpoint_files(run, "node1") == sorted(names)


def start_ranks_from(run: Any) -> None:
    """Make this node the first of the run."""
    Path(run.config, training_node_directory.ARGUMENTS).touch()


def events_of(run: Any) -> list[str]:
    """The names in the directory that is brought home from a run that goes on."""
    return [str(path.relative_to(run.live)) for path in sorted_files(run.live)]


@pytest.mark.process
def test_events_of_a_run_that_goes_on_are_laid_ready(
    run: Any, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the first node, plain files of their name alone, at the places that they come home to."""
    name = "events.out.tfevents.1.a"
    for place in ("tensorboard", "outputs/runs/a", "project/lightning_logs/version_0"):
        write(run, f"{place}/{name}")
    for other in ("tensorboard/notes", f"logs/{name}", "outputs/model.pt", "project/train.py"):
        write(run, other)
    write(run, "checkpoints/epoch-1.pt")
    replace_by_link(Path(run.work, f"tensorboard/{name}.b"), outside / "shadow")
    Path(run.work, f"tensorboard/{name}.c").symlink_to(name)
    replace_by_link(Path(run.work, "outputs/tfevents"), outside)
    assert training_run_collect.offer_live(run, "node2", LIMITS) == ["checkpoints/epoch-1.pt"]
    assert events_of(run) == ["checkpoints/epoch-1.pt"], "this node does not start the ranks"
    start_ranks_from(run)
    assert training_run_collect.offer_live(run, "node2", LIMITS) == ["checkpoints/epoch-1.pt"]
    assert events_of(run) == [
        "checkpoints/epoch-1.pt",
        f"outputs/runs/a/{name}",
        f"tensorboard/{name}",
        f"workdir/lightning_logs/version_0/{name}",
    ]
    monkeypatch.setattr(training_run_collect, "LIVE_EVENTS_BYTES", 4)
    training_run_collect.offer_live(run, "node2", LIMITS)
    assert events_of(run) == ["checkpoints/epoch-1.pt"], "large ones come when the run is over"


@pytest.mark.process
def test_samples_of_a_run_that_goes_on_are_laid_ready(run: Any, outside: Path) -> None:
    """On each node its own."""
    for host in ("node1", "node2"):
        write(run, f"nodes/{host}/utilisation.jsonl")
    write(run, "nodes/node2/other.jsonl")
    assert training_run_collect.offer_live(run, "node2", LIMITS) == []
    assert events_of(run) == ["nodes/node2/utilisation.jsonl"]
    replace_by_link(Path(run.work, "nodes/node2/utilisation.jsonl"), outside / "shadow")
    training_run_collect.offer_live(run, "node2", LIMITS)
    assert events_of(run) == []


@pytest.mark.process
def test_many_events_keep_no_checkpoint_from_home(run: Any) -> None:
    start_ranks_from(run)
    for number in range(LIMITS.files + 5):
        write(run, f"tensorboard/events.out.tfevents.{number}")
    write(run, "checkpoints/epoch-1.pt")
    assert training_run_collect.offer_live(run, "node2", LIMITS) == ["checkpoints/epoch-1.pt"]
    assert len(events_of(run)) == LIMITS.files


def test_when_the_newest_checkpoint_was_written(run: Any, outside: Path) -> None:
    assert poll.newest_checkpoint(run.path) == 0
    for name, age in (("old.pt", 100), ("deep/new.pt", 50), ("young.pt", -600), (".scratch", 20)):
        moment = time.time() - age
        os.utime(write(run, f"checkpoints/{name}"), (moment, moment))
    assert time.time() - poll.newest_checkpoint(run.path) == pytest.approx(50, abs=5)
    for name, age in (("ckpt-1/part", 40), ("deep/ckpt-2/part", 30), ("other", 20)):
        moment = time.time() - age
        os.utime(write(run, f"project/{name}"), (moment, moment))
    assert time.time() - poll.newest_checkpoint(run.path) == pytest.approx(50, abs=5)
    name_checkpoints(run, "ckpt-*")
    assert time.time() - poll.newest_checkpoint(run.path) == pytest.approx(40, abs=5)
    for program in ('{"checkpoints": ""}', "{}"):
        Path(run.config, "program.json").write_text(program)
        assert time.time() - poll.newest_checkpoint(run.path) == pytest.approx(50, abs=5)
    os.rename(Path(run.work, "checkpoints"), Path(run.work, "x"))
    replace_by_link(Path(run.work, "checkpoints"), outside)
    assert poll.newest_checkpoint(run.path) == 0


@pytest.mark.process
def test_a_run_that_begins_finds_nothing_of_an_attempt_that_ended(run: Any) -> None:
    """Its lock was given back, and its files could not be brought home."""
    write(run, "exit_status", "1\n")
    take.set_aside(run, "node1", LIMITS)
    take.make_directories(run, RANK, RANK)
    assert poll.noted_status(run.path) is None


@pytest.mark.parametrize("run_id", ["", ".", "..", ".lock", "a/b", "/etc", "../x"])
def test_no_directory_but_a_runs_own_is_a_runs(run_id: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no run's id"):
        training_node_directory.RunDirectory(str(tmp_path), run_id)


@pytest.mark.process
def test_directories_as_deep_as_a_rank_likes_can_be_removed(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    deepen(deep)
    training_run_records.remove_tree(str(deep))
    assert not deep.exists()


@pytest.mark.process
def test_directories_as_deep_as_a_rank_likes_do_not_end_who_follows(run: Any) -> None:
    folder, name = Path(run.work) / "checkpoints", "epoch-1.pt"
    deepen(folder)
    for file, age in ((folder / name, 100), (folder / ("d/" * 260 + name), 50)):
        file.write_bytes(b"")
        os.utime(file, (time.time() - age,) * 2)
    # What a login has on a node, and far fewer than there are directories
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        # What lies too deep to be brought home is not looked at.
        assert time.time() - poll.newest_checkpoint(run.path) == pytest.approx(100, abs=5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        training_run_records.remove_tree(str(folder))


def deepen(folder: Path) -> None:
    """Make directories in each other, more than a path can name."""
    here = os.getcwd()
    try:
        os.chdir(folder)
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)


def test_what_ranks_and_others_may_do_in_the_directory_of_a_run(run: Any) -> None:
    assert stat.S_IMODE(os.stat(run.path).st_mode) == 0o711
    assert stat.S_IMODE(os.stat(run.collect).st_mode) == 0o700
    for path, owner in ((run.path, 0), (run.collect, 0), (run.config, 0), (run.work, RANK)):
        assert os.stat(path).st_uid == owner
    assert not os.stat(run.config).st_mode & 0o027
    assert stat.S_IMODE(os.stat(run.work).st_mode) == 0o700


@pytest.mark.process
def test_what_ended_with_a_container_is_not_sent_to_the_next(tmp_path: Path) -> None:
    tasks = yaml.safe_load((CHECKOUT / "roles/training_run/tasks/resume.yml").read_text())
    [options] = [
        task["ansible.posix.synchronize"]["rsync_opts"]
        for task in tasks
        if "ansible.posix.synchronize" in task
    ]
    kept = "/".join(training_run_collect.LEFT_IN_CONTAINER)
    for name in (f"{kept}/tmp/cache", "outputs/a", "outputs/b/left-in-container"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    sent = tmp_path / "sent"
    subprocess.run(["rsync", "-a", *options, f"{tmp_path}/outputs/", f"{sent}/"], check=True)
    assert sorted(path.name for path in sent.iterdir()) == ["a", "b"]
    assert (sent / "b/left-in-container").exists()


def write_alike(run: Any, folder: str) -> None:
    """A link and a folder, then a file and a folder, which written out have one name."""
    write(run, f"{folder}/d\n/inner")
    (Path(run.work) / folder / r"d\n").symlink_to("inner")
    write(run, f"{folder}/e\n/deep/inner")
    write(run, f"{folder}/e\\n")


def test_names_that_are_longer_or_alike_when_they_are_written_out_end_no_collection(
    run: Any,
) -> None:
    write(run, "logs/rank-0.log")
    write(run, "outputs/" + "\x01" * 200)
    write(run, "outputs/a\nb", "one\n")
    write(run, "outputs/a\\nb", "other\n")
    write_alike(run, "outputs")
    write_alike(run, "checkpoints")
    collected = training_run_collect.collect(run, "node1", LIMITS)
    came = home(run)
    assert "logs/rank-0.log" in came
    for name in "ade":
        assert len([each for each in came if each.startswith(f"nodes/node1/outputs/{name}")]) == 1
    for name in "de":
        assert len([each for each in came if each.startswith(f"checkpoints/{name}")]) == 1
    assert collected.refused.count == 6
    assert str(collected.refused).isprintable()


@pytest.mark.process
def test_names_that_are_alike_when_they_are_written_out_keep_nothing_else_from_coming(
    run: Any,
) -> None:
    write_alike(run, "checkpoints")
    write(run, "checkpoints/epoch-1.pt")
    assert "checkpoints/epoch-1.pt" in training_run_collect.offer_live(run, "node1", LIMITS)
