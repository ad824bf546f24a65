"""Checkpoints are copied to another node by real rsync and ssh; the other node is this one."""

import contextlib
import os
import pwd
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer.launch import copies, copy_marks
from trainer.launch.copies import CheckpointCopies
from trainer.launch.copy_marks import FileMarks

SSHD = "/usr/sbin/sshd"
PEER, GONE = "peer", "gone"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An sshd of this user on loopback that ssh knows as `peer`; nobody listens for `gone`."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/client.pub\nStrictModes no\n"
    )
    home = Path(pwd.getpwuid(os.getuid()).pw_dir, ".ssh")
    home.mkdir(exist_ok=True, mode=0o700)
    (home / "config").write_text(
        f"Host {PEER}\n    Port {port}\nHost {GONE}\n    Port 9\n"
        f"Host *\n    HostName 127.0.0.1\n    IdentityFile {folder}/client\n"
        "    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n    LogLevel ERROR\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "sshd_config")])
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait()
        (home / "config").unlink()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def begin(
    tmp_path: Path, peer: None, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., CheckpointCopies]]:
    """Makes what copies from one folder of this test to another one."""
    # A look that took long puts off the next one, by a clock that is set by hand here.
    monkeypatch.setattr(copies, "SHARE_OF_LOOKS", 0)
    (tmp_path / "checkpoints").mkdir()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))

        def make(*peers: str, megabytes: float = 100, **more: Any) -> CheckpointCopies:
            made = CheckpointCopies(tmp_path, peers or (PEER,), megabytes, log, said.append, **more)
            stack.callback(made.close)
            return made

        yield make


def write(run_dir: Path, name: str, content: bytes = b"state") -> Path:
    path = run_dir / "checkpoints" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def copied(run_dir: Path) -> dict[str, str]:
    """What the other node has: path to content, of a link where it leads."""
    folder = run_dir / "copies/checkpoints"
    return {
        str(path.relative_to(folder)): (
            f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        )
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


class Clock:
    """Looks of the launcher, each some seconds after the one before."""

    def __init__(self) -> None:
        self.now = 1000.0

    def looks(self, made: CheckpointCopies, seconds: float = 10.0) -> None:
        """Look for so many seconds, and let what is begun come to its end."""
        for _ in range(int(seconds)):
            self.now += 1.0
            made.look(self.now)
            if made._process is not None:
                made._process.wait(30)


def test_checkpoints_are_on_the_other_node(
    tmp_path: Path, begin: Callable[..., CheckpointCopies]
) -> None:
    made, clock = begin(), Clock()
    write(tmp_path, "epoch-1.pt", b"one")
    write(tmp_path, "deep/er/part[0]*.bin", b"part")
    write(tmp_path, ".epoch-2.pt.scratch")
    (tmp_path / "checkpoints/last.pt").symlink_to("epoch-1.pt")
    clock.looks(made)
    expected = {"epoch-1.pt": "one", "deep/er/part[0]*.bin": "part", "last.pt": "-> epoch-1.pt"}
    assert copied(tmp_path) == expected
    original = (tmp_path / "checkpoints/epoch-1.pt").stat()
    copy = (tmp_path / "copies/checkpoints/epoch-1.pt").stat()
    assert copy.st_mtime_ns == original.st_mtime_ns
    assert copy.st_ino != original.st_ino


def test_what_is_removed_goes_there_too_when_the_new_one_is_there(
    tmp_path: Path, begin: Callable[..., CheckpointCopies]
) -> None:
    made, clock = begin(), Clock()
    old = write(tmp_path, "epoch-1.pt")
    clock.looks(made)
    old.unlink()
    write(tmp_path, "epoch-2.pt", b"two")
    clock.looks(made)
    assert copied(tmp_path) == {"epoch-2.pt": "two"}


def test_a_file_that_is_being_written_waits(
    tmp_path: Path, begin: Callable[..., CheckpointCopies]
) -> None:
    made, clock = begin(), Clock()
    write(tmp_path, "whole.pt")
    clock.looks(made, copy_marks.SETTLED + 2)
    for size in range(1, 8):
        write(tmp_path, "growing [1].pt", b"x" * size)
        clock.looks(made, 2)
        assert list(copied(tmp_path)) == ["whole.pt"]
    clock.looks(made)
    assert copied(tmp_path)["growing [1].pt"] == "x" * 7


def test_of_a_working_directory_what_the_pattern_names_is_copied(
    tmp_path: Path, begin: Callable[..., CheckpointCopies]
) -> None:
    pattern = ("ckpt-*", "part[01]*")
    made, clock = begin(folder="project", target="copies/workdir", pattern=pattern), Clock()
    there = tmp_path / "copies/workdir"

    def has() -> list[str]:
        return sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file())

    def put(name: str) -> None:
        write(tmp_path / "project", f"../../project/{name}")

    (tmp_path / "project/checkpoints").mkdir(parents=True)
    for name in ("train.py", "ckpt-1", "ckpt-2/part0.pt", "ckpt-2/part1/deep/[a] b*.pt"):
        put(name)
    for name in ("ckpt-2/other.pt", "data/ckpt-3/part0.pt", "ckpt-2/.part0.pt.new"):
        put(name)
    clock.looks(made)
    assert has() == ["ckpt-2/part0.pt", "ckpt-2/part1/deep/[a] b*.pt"]
    put("ckpt-4/part0.pt")
    (tmp_path / "project/ckpt-2/part0.pt").unlink()
    clock.looks(made)
    assert has() == ["ckpt-2/part1/deep/[a] b*.pt", "ckpt-4/part0.pt"]


def test_nothing_is_sent_twice(
    tmp_path: Path, begin: Callable[..., CheckpointCopies], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, clock = begin(), Clock()
    write(tmp_path, "epoch-1.pt")
    clock.looks(made)
    monkeypatch.setattr(made, "_begin", lambda peer, size: pytest.fail("sent once more"))
    clock.looks(made, 100)


def test_where_one_node_takes_none_the_next_one_does(
    tmp_path: Path, begin: Callable[..., CheckpointCopies], said: list[str]
) -> None:
    made, clock = begin(GONE, PEER), Clock()
    write(tmp_path, "epoch-1.pt", b"one")
    clock.looks(made)
    assert copied(tmp_path) == {}
    assert len(said) == 1
    assert said[0].startswith("the checkpoints could not be copied to gone: it does not answer")
    assert said[0].endswith("next attempt, to peer, in 30 s")
    clock.looks(made, copies.PAUSE + 5)
    assert copied(tmp_path) == {"epoch-1.pt": "one"}
    assert len(said) == 1


def test_a_node_without_room_is_spared(
    tmp_path: Path,
    begin: Callable[..., CheckpointCopies],
    said: list[str],
) -> None:
    made, clock = begin(PEER), Clock()
    write(tmp_path, "small.pt")
    with (tmp_path / "checkpoints/huge.pt").open("wb") as huge:
        huge.truncate(8 << 40)  # as large as no disk, and without a block on this one
    clock.looks(made)
    assert copied(tmp_path) == {}
    assert "has no room (rsync ended with" in said[0]
    clock.looks(made, 35)
    clock.looks(made, 35)
    assert [line.rpartition(" in ")[2] for line in said] == ["30 s", "60 s"]
    (tmp_path / "checkpoints/huge.pt").unlink()
    clock.looks(made, 70)
    assert copied(tmp_path) == {"small.pt": "state"}


def test_where_no_process_can_be_started_the_run_goes_on_without_a_copy(
    tmp_path: Path,
    begin: Callable[..., CheckpointCopies],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, clock = begin(), Clock()
    write(tmp_path, "epoch-1.pt", b"one")

    def full(*arguments: object, **options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", full)
        clock.looks(made)
    assert "Resource temporarily unavailable; next attempt, to peer, in 30 s" in said[0]
    clock.looks(made, 35)
    assert copied(tmp_path) == {"epoch-1.pt": "one"}


def test_links_out_of_the_folder_stay_behind(
    tmp_path: Path, begin: Callable[..., CheckpointCopies]
) -> None:
    made, clock = begin(), Clock()
    write(tmp_path, "epoch-1.pt", b"one")
    for name, target in (("a.pt", "/etc/shadow"), ("b", "../../x"), ("c.pt", "epoch-1.pt")):
        (tmp_path / "checkpoints" / name).symlink_to(target)
    clock.looks(made)
    assert copied(tmp_path) == {"c.pt": "-> epoch-1.pt", "epoch-1.pt": "one"}


@pytest.mark.parametrize(("peers", "megabytes"), [((), 100), ((PEER,), 0)])
def test_without_another_node_or_by_request_there_are_none(
    tmp_path: Path,
    peers: tuple[str, ...],
    megabytes: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "checkpoints").mkdir()
    write(tmp_path, "epoch-1.pt")
    with (tmp_path / "log").open("wb") as log:
        made = CheckpointCopies(tmp_path, peers, megabytes, log, pytest.fail)
        monkeypatch.setattr(made, "_begin", lambda peer, size: pytest.fail("sent"))
        Clock().looks(made, 20)


def test_the_end_of_a_run_waits_for_no_copy(
    tmp_path: Path, begin: Callable[..., CheckpointCopies]
) -> None:
    made, clock = begin(megabytes=0.1), Clock()
    write(tmp_path, "large.pt", os.urandom(3_000_000))
    while made._process is None:
        clock.now += 1
        made.look(clock.now)
    began = time.monotonic()
    time.sleep(1)
    assert made._process.poll() is None, "3 MB at 0.1 MB a second"
    made.close()
    assert time.monotonic() - began < 10
    # What is there of it has no name of a checkpoint.
    assert not list((tmp_path / "copies").rglob("large.pt"))


def test_a_folder_with_more_files_than_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_marks, "MOST_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.bin").touch()
    marks = FileMarks(tmp_path)
    marks.look(0)
    marks.look(copy_marks.SETTLED)
    assert len(marks.settled()) == 3
