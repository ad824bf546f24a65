"""A full disk of the control node: file systems of a few KiB that really are full.

They are mounted, so these tests need root, as the project's CI has it.
"""

import errno
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from stand_in_nodes import YardHere
from yard_command import DATA, RUN_ID, Yard

from yard.core.errors import RequestError
from yard.core.files import write_json
from yard.core.project import Project
from yard.core.room import NoRoomError, check_writable, full_disk_told
from yard.plays.events import Event
from yard.plays.playbook import run_playbook
from yard.runs.folder import followed

TRAIN = ("train", "--model", "vit", "--nodes", "2")
FULL = "no space is left on the control node, in "

Mount = Callable[[Path, str], Path]


@pytest.fixture
def mount(ready: Yard) -> Iterator[Mount]:
    """Put a small file system into a folder; they go before the checkout does."""
    mounted = []

    def put(folder: Path, options: str) -> Path:
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
        mounted.append(folder)
        return folder

    yield put
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Take all the room of a file system of this test, and return the file that has it."""
    filler = folder / "filler"
    assert os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize < 10_000_000
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(512)):
            pass
    return filler


@pytest.mark.process
def test_a_disk_that_fills_up_ends_yard_with_the_way_on_and_the_run_goes_on(
    ready: YardHere, mount: Mount
) -> None:
    runs = mount(ready.root / "runs", "size=1m")
    fillers: list[Path] = []
    ready.during = {"Follow the run": [lambda: None, lambda: fillers.append(fill(runs))]}
    done = ready(*TRAIN, "--set", "steps=600")
    filler = fillers[0]
    name = os.readlink(runs / "latest")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    lines = done.stderr.splitlines()[-4:]
    assert lines[0].startswith(f"yard: {FULL}{runs}/{name}: ")
    assert lines[0].endswith(" bytes free of 1,048,576")
    assert lines[1] == (
        f"yard: What {name} has started on the nodes goes on there. Make room, then:"
    )
    assert lines[2].startswith(f"    make attach RUN={name} ")
    assert lines[3].startswith(f"    make stop RUN={name} ")

    still = ready("attach", "latest")
    assert still.returncode == 1
    assert f"    make attach RUN={name} " in still.stderr
    assert "Traceback" not in still.stdout + still.stderr

    filler.unlink()
    attached = ready("attach", "latest")
    assert attached.returncode == 0, attached.stdout + attached.stderr
    summary = json.loads((runs / name / "summary.json").read_text())
    # It was not ended: one that is interrupted leaves status 130.
    assert (summary["status"], summary["steps"]) == ("succeeded", 600)
    assert (runs / name / "exit_status").read_text() == "0\n"
    # None of what could not be written is left as half a file.
    assert [path.name for path in (runs / name).iterdir() if path.name.endswith(".new")] == []


@pytest.mark.process
def test_a_disk_that_is_full_before_anything_is_started(ready: Yard, mount: Mount) -> None:
    fill(mount(ready.root / "runs", "size=64k"))
    done = ready(*TRAIN)
    assert done.returncode == 1
    head, way_on = done.stderr.splitlines()
    assert head.startswith(f"yard: {FULL}{ready.root}/runs")
    assert head.endswith(": 0 bytes free of 65,536")
    assert way_on == "yard: Make room there, then give the command again."
    assert "attach" not in done.stderr
    assert list((ready.root / "nodes").glob("*/2*")) == []


@pytest.mark.process
def test_a_disk_without_inodes(ready: Yard, mount: Mount) -> None:
    mount(ready.root / "runs", "size=1m,nr_inodes=1")
    done = ready(*TRAIN)
    assert done.returncode == 1
    assert f"{FULL}{ready.root}/runs: 1,048,576 bytes, and no inode free of " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_no_room_for_temporary_files_while_a_playbook_runs(
    mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible, whose callback cannot write, would wait for ever."""
    temporary = mount(tmp_path / "temporary", "size=1m")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    # As a run is followed
    task = "{ansible.builtin.command: 'true', until: false, retries: 600, delay: 0.1}"
    (tmp_path / "play.yml").write_text(
        f"- hosts: localhost\n  gather_facts: false\n  tasks: [{task}]\n"
    )
    (tmp_path / "hosts").write_text("localhost ansible_connection=local\n")

    def take(event: Event) -> None:
        if event.kind == "runner_retry":
            fill(temporary)

    began = time.monotonic()
    with pytest.raises(OSError, match="No space left"):
        run_playbook(
            Project(tmp_path),
            tmp_path / "play.yml",
            tmp_path / "hosts",
            {},
            tmp_path / "log",
            take,
            lambda: time.monotonic() - began > 60,
        )
    assert time.monotonic() - began < 50


@pytest.mark.process
def test_a_log_that_cannot_be_written(ready: Yard, mount: Mount) -> None:
    fill(mount(ready.root / ".trainyard/local/log", "size=64k"))
    done = ready("data", "cifar10")
    assert done.returncode == 1
    assert f"{FULL}{ready.root}/.trainyard/local/log" in done.stderr
    assert "Make room there, then give the command again." in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.process
def test_what_ansible_says_where_it_has_no_room_itself(ready_process: Yard, mount: Mount) -> None:
    ready = ready_process
    fill(mount(ready.root / ".ansible", "size=64k"))
    done = ready("data", "cifar10")
    assert done.returncode == 3
    assert "No space left on device" in done.stdout
    assert "data.yml failed; the whole output is in .trainyard/local/log/" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_run_that_is_summed_up_is_over(tmp_path: Path) -> None:
    run = tmp_path / "20261120T112000Z_vit"
    write_json(run / "manifest.json", {})
    write_json(run / "summary.json", {})
    with pytest.raises(NoRoomError, match=f"make report RUN={run.name}$"), followed(run):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_measurement_is_stopped_and_not_attached_to(tmp_path: Path) -> None:
    with pytest.raises(NoRoomError) as told, followed(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert f"    make stop RUN={tmp_path.name} " in str(told.value)
    assert "attach" not in str(told.value)


def test_a_quota_is_told_from_a_full_disk(tmp_path: Path) -> None:
    missing = tmp_path / "runs/a/b"
    with pytest.raises(NoRoomError) as told, full_disk_told([], lambda: ["Go on."]):
        raise OSError(errno.EDQUOT, "Disk quota exceeded", str(missing))
    head, way_on = str(told.value).splitlines()
    assert head.startswith(f"your quota is used up on the control node, in {tmp_path}: ")
    assert way_on == "Go on."
    assert told.value.status == 1


@pytest.mark.process
def test_the_fullest_file_system_is_named(
    ready: Yard, mount: Mount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A write does not say which file it was."""
    small = mount(tmp_path / "small", "size=64k")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(NoRoomError) as told, full_disk_told([tmp_path, small], lambda: []):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert f"in {small}: 65,536 bytes free of 65,536" in str(told.value)


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), full_disk_told([tmp_path], lambda: []):
        raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.process
def test_output_that_finds_no_room(ready: Yard, mount: Mount, tmp_path: Path) -> None:
    small = mount(tmp_path / "small", "size=64k")
    fill(small)
    for file, said in (
        (small / "out.txt", f"{FULL}{small}: 0 bytes free of 65,536\n"),
        (Path("/dev/full"), "yard: the output is not whole: No space left on device\n"),
    ):
        with file.open("w") as out:
            done = subprocess.run(
                ready.command("runs", "--json"),
                cwd=ready.root,
                env=ready.environment,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
            )
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.process
def test_half_a_file_does_not_stay(mount: Mount, tmp_path: Path) -> None:
    folder = mount(tmp_path / "small", "size=64k")
    with pytest.raises(OSError, match="No space left"):
        write_json(folder / "summary.json", "x" * 100_000)
    assert list(folder.iterdir()) == []


@pytest.mark.process
def test_a_checkout_in_which_nothing_can_be_written(ready: Yard, mount: Mount) -> None:
    """Ansible, which is asked for the inventory, would end with a traceback of its own."""
    mount(ready.root / "runs", "ro")
    for command in (TRAIN, ("status",), ("web",), ("tag", "latest", "--tags", "a")):
        done = ready(*command)
        assert (done.returncode, done.stdout) == (2, "")
        said = f"yard: {ready.root}/runs: nothing can be written, the file system is read-only\n"
        assert done.stderr == said
    assert ready("runs").returncode == 0


@pytest.mark.process
def test_logs_that_are_home_are_read_where_nothing_can_be_written(
    ready: Yard, mount: Mount
) -> None:
    run = ready.root / "runs" / RUN_ID
    shutil.copytree(DATA / "runs/succeeded", run)
    (run / "summary.json").write_text("{}")
    mount(ready.root / ".trainyard", "ro")
    assert "read-only" in ready("report").stderr
    done = ready("logs")
    assert (done.returncode, done.stderr) == (0, "")
    assert "rank 0" in done.stdout
    (run / "summary.json").unlink()
    assert "read-only" in ready("logs").stderr


def test_a_checkout_of_somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = tmp_path / "their yard"
    (root / ".trainyard").mkdir(parents=True)
    # What is not there yet is made in the folder above it, which alone has to be theirs.
    (root / "runs").mkdir()
    monkeypatch.setattr(os, "access", lambda place, mode: place != root)
    check_writable(root)
    monkeypatch.setattr(os, "access", lambda place, mode: place != root / ".trainyard")
    with pytest.raises(RequestError) as told:
        check_writable(root)
    where, after_sudo, _ = told.value.problems
    assert where.startswith(f"{root}/.trainyard: this account may not write there")
    assert after_sudo == f"    after a command with sudo: sudo chown -R $(id -u) '{root}'"
