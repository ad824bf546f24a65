"""How the package comes to a machine: whole, under its digest, and where nobody else can write."""

import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from node import arrival

FOLDER = Path(arrival.__file__).parent
PACKAGE = arrival.read_package(str(FOLDER))
# Of another package where it does not matter what is in it.
SMALL = b'{"__init__.py": ""}'
REQUEST = b'{"verb": "status", "arguments": {"root": "/none", "host": "node1"}}'
STRANGER = 54321

Ask = Callable[..., tuple[int, Any]]


def digest_of(package: bytes) -> str:
    return hashlib.sha256(package).hexdigest()


def ask(what: str, place: Path, sent: bytes, digest: str = "") -> tuple[int, Any]:
    """Exit status and document of one command, in a process of its own, as a node has it."""
    text = (FOLDER / "arrival.py").read_text()
    command = [sys.executable, "-I", "-c", text, what, str(place), digest or digest_of(PACKAGE)]
    done = subprocess.run(command, input=sent, capture_output=True, check=False, cwd="/")
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """The same in the process of the test; a call runs the package that this one has imported."""
    umask = os.umask(0o022)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def ask_here(what: str, place: Path, sent: bytes, digest: str = "") -> tuple[int, Any]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sent)))
        with redirect_stdout(io.StringIO()) as said:
            status = arrival.main(what, str(place), digest or digest_of(SMALL))
        return status, json.loads(said.getvalue())

    yield ask_here
    os.umask(umask)


def code_of(told: tuple[int, Any]) -> str:
    exit_status, document = told
    assert exit_status == 2
    return str(document["error"]["code"])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the package is to lie."""
    return tmp_path / "lib/node"


@pytest.mark.process
def test_it_is_absent_then_brought_then_called(place: Path) -> None:
    assert code_of(ask("call", place, REQUEST)) == "absent"
    assert ask("bring", place, PACKAGE) == (0, {"answer": {}})
    byte_code = {path: path.stat().st_mtime_ns for path in place.rglob("*.pyc")}
    assert len(byte_code) == len(json.loads(PACKAGE))
    exit_status, told = ask("call", place, REQUEST)
    # What came is what serves it.
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*.pyc")} == byte_code
    assert (exit_status, told["answer"]["trouble"]["code"]) == (0, "no_directory")
    folder = place / digest_of(PACKAGE)
    assert [path.name for path in place.iterdir()] == [folder.name]
    for path in [folder, *folder.rglob("*")]:
        expected = 0o755 if path.is_dir() else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
        assert path.stat().st_uid == os.geteuid()
    # A person can call it as well.
    done = subprocess.run(["python3", "-I", folder / "node"], input=REQUEST, capture_output=True)
    assert json.loads(done.stdout)["answer"]["runs"] == []


def test_what_is_damaged_on_its_way_is_not_kept(place: Path, here: Ask) -> None:
    assert code_of(here("bring", place, SMALL[:-2])) == "damaged"
    assert code_of(here("call", place, REQUEST)) == "absent"


@pytest.mark.process
def test_two_deliveries_at_once_are_fine(place: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        told = list(threads.map(lambda _: ask("bring", place, PACKAGE), range(2)))
    assert told == [(0, {"answer": {}})] * 2
    assert [path.name for path in place.iterdir()] == [digest_of(PACKAGE)]


def test_the_last_three_are_kept(place: Path, here: Ask) -> None:
    digests = []
    for number in range(5):
        package = json.dumps({"__init__.py": f"NUMBER = {number}\n"}).encode()
        digests.append(digest_of(package))
        here("bring", place, package, digests[-1])
        os.utime(place / digests[-1], (number, number))
    cut_off = place / ".new-cut"
    cut_off.mkdir()
    os.utime(cut_off, (1, 1))
    (place / ".new-now").mkdir()
    os.utime(place / digests[2], (time.time(), time.time()))
    here("bring", place, SMALL)
    kept = {digest_of(SMALL), digests[2], digests[4], ".new-now"}
    assert {path.name for path in place.iterdir()} == kept


def opened(path: Path) -> None:
    path.chmod(0o777)


def grouped(path: Path) -> None:
    path.chmod(0o775)


def given_away(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


@pytest.mark.skipif(os.geteuid() != 0, reason="it gives files to others")
@pytest.mark.parametrize("spoil", [opened, grouped, given_away])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_root_executes_nothing_that_others_could_have_put_there(
    spoil: Callable[[Path], None], which: int, place: Path, here: Ask
) -> None:
    here("bring", place, SMALL)
    spoilt = [place / digest_of(SMALL), place, place.parent][which]
    spoil(spoilt)
    exit_status, told = here("call", place, REQUEST)
    assert (exit_status, told["error"]["code"]) == (2, "not_own")
    assert told["error"]["values"]["path"] == str(spoilt)
    if which:
        assert code_of(here("bring", place, SMALL)) == "not_own"


@pytest.mark.skipif(os.geteuid() != 0, reason="it gives files to others")
def test_a_program_that_somebody_made_before_is_not_executed(
    place: Path, tmp_path: Path, here: Ask
) -> None:
    """The digest is no secret: who may write above can have a folder of this name there first."""
    place.mkdir(parents=True)
    theirs = tmp_path / "theirs"
    (theirs / "node").mkdir(parents=True)
    for name in ("__init__.py", "calls.py"):
        (theirs / "node" / name).write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    for path in (theirs, *theirs.rglob("*")):
        given_away(path)
    (place / digest_of(SMALL)).symlink_to(theirs)
    assert code_of(here("call", place, REQUEST)) == "not_own"
    (place / digest_of(SMALL)).unlink()
    theirs.rename(place / digest_of(SMALL))
    assert code_of(here("call", place, REQUEST)) == "not_own"
    assert not (tmp_path / "executed").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="it gives files to others")
def test_no_link_of_somebody_else_is_on_the_way(place: Path, tmp_path: Path, here: Ask) -> None:
    here("bring", place, SMALL)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/node").symlink_to(place)
    # An administrator may have moved what is in /var to another disk.
    assert here("call", tmp_path / "theirs/node", REQUEST)[0] == 0
    given_away(tmp_path / "theirs")
    assert code_of(here("call", tmp_path / "theirs/node", REQUEST)) == "not_own"
    # Where a link of root's leads to somebody else's folder, and where everybody can make one.
    (tmp_path / "theirs/real").mkdir()
    (place / digest_of(SMALL)).rename(tmp_path / "theirs/real" / digest_of(SMALL))
    (tmp_path / "link").symlink_to(tmp_path / "theirs/real")
    assert code_of(here("call", tmp_path / "link", REQUEST)) == "not_own"
    here("bring", place, SMALL)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "tmp/node").symlink_to(place)
    assert here("call", tmp_path / "tmp/node", REQUEST)[0] == 0
    os.chown(tmp_path / "tmp/node", STRANGER, STRANGER, follow_symlinks=False)
    # The kernel may refuse it already (sysctl fs.protected_symlinks).
    assert code_of(here("call", tmp_path / "tmp/node", REQUEST)) in ("not_own", "not_usable")


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="it mounts a disk")
@pytest.mark.parametrize(
    ("options", "message"), [("size=64k", "No space left"), ("size=1m,ro", "Read-only")]
)
def test_a_disk_that_takes_nothing_is_named(options: str, message: str, place: Path) -> None:
    place.mkdir(parents=True)
    text = (FOLDER / "arrival.py").read_text()
    command = [sys.executable, "-I", "-c", text, "bring", str(place), digest_of(PACKAGE)]
    mounted = 'mount -t tmpfs -o "$1" none "$2" && shift && shift && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, "sh", f"{options},mode=755", place, *command],
        input=PACKAGE,
        capture_output=True,
        check=False,
    )
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["values"]["path"]) == ("not_stored", str(place))
    assert message in error["values"]["message"]
    assert done.stderr == b""


@pytest.mark.process
def test_a_python_that_is_too_old_says_so(place: Path, tmp_path: Path) -> None:
    """A stand-in: this Python, which says of itself that it is an older one."""
    text = (FOLDER / "arrival.py").read_text()
    older = "import sys\nsys.version_info, sys.version = (3, 8, 18), '3.8.18 (default)'\n"
    command = [sys.executable, "-I", "-c", older + text, "call", str(place), "0" * 64]
    done = subprocess.run(command, input=REQUEST, capture_output=True, check=False)
    assert json.loads(done.stdout) == {
        "error": {"code": "python_too_old", "values": {"version": "3.8.18"}}
    }
