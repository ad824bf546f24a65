"""A folder of a node that ranks read where it is: what is mounted for it, and what never is."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from node.check import folder as training_node_folder
from node.check.folder import FolderError, find_mount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="looks as another user, as root can")

# Of an account without a name and without a right of its own.
ACCOUNT = 64_321
ROOT = "/srv/trainyard/runs"


def code(path: str, root: str = ROOT) -> str:
    """Why a folder is not mounted."""
    with pytest.raises(FolderError) as caught:
        find_mount(path, ACCOUNT, ACCOUNT, root)
    assert caught.value.problem.text  # every value that the sentence needs is there
    return str(caught.value.problem.code)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file that everybody can reach: pytest's own nobody else can."""
    monkeypatch.setattr(training_node_folder, "SYSTEM", ("/etc",))
    monkeypatch.setattr(training_node_folder, "MOUNTS", os.devnull)
    made = Path(tempfile.mkdtemp(dir="/var/tmp"))
    (made / "faces").mkdir(mode=0o755)
    made.chmod(0o755)
    (made / "faces/a.bin").touch()
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize(
    "path",
    ["/", "/etc", "/etc/ssl/certs", "/srv", "/srv/trainyard", ROOT, f"{ROOT}/r/work", "/var/lib/x"],
)
def test_places_that_no_rank_may_see_are_refused(path: str) -> None:
    assert code(path) == "folder_private"


def test_the_home_of_the_ranks_account_has_its_keys(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = SimpleNamespace(pw_dir=str(folder / "faces"))
    monkeypatch.setattr("node.check.folder.pwd.getpwuid", lambda uid: home)
    assert code(str(folder)) == code(str(folder / "faces")) == "folder_private"


@pytest.mark.process
def test_a_neighbour_of_a_private_place_is_none(folder: Path) -> None:
    assert find_mount(f"{folder}/faces", ACCOUNT, ACCOUNT, "/var/tm") == "/var/tmp"


@pytest.mark.parametrize("path", ["/mnt//nas", "/mnt/../etc", "//mnt", "/mnt/nas/"])
def test_a_path_is_written_plainly(path: str) -> None:
    assert code(path) == "folder_not_plain"


@pytest.mark.process
def test_what_is_missing_empty_or_closed_is_told_apart(folder: Path) -> None:
    assert code(f"{folder}/none") == "folder_missing"
    (folder / "empty").mkdir()
    assert code(f"{folder}/empty") == "folder_missing"
    (folder / "faces").chmod(0o700)
    assert code(f"{folder}/faces") == "folder_unreadable"
    # What a directory above keeps from that account, the mount does not give it.
    (folder / "faces").chmod(0o755)
    folder.chmod(0o700)
    assert code(f"{folder}/faces") == "folder_unreadable"


@pytest.mark.process
def test_a_link_is_refused_with_what_it_leads_to(folder: Path) -> None:
    (folder / "link").symlink_to("faces")
    assert code(f"{folder}/link") == "folder_is_link"


@pytest.mark.process
def test_the_mount_begins_where_nobody_but_root_can_put_another_thing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{folder}/faces"
    # Everybody may make files in /var/tmp, and so may whoever owns the folder in it.
    assert find_mount(path, ACCOUNT, ACCOUNT, ROOT) == "/var/tmp"
    real = os.lstat
    closed = SimpleNamespace(st_uid=0, st_mode=0o040755)
    with monkeypatch.context() as changed:
        changed.setattr(os, "lstat", lambda at: closed if at == "/var/tmp" else real(at))
        assert find_mount(path, ACCOUNT, ACCOUNT, ROOT) == path
        os.chown(folder, ACCOUNT, ACCOUNT)
        assert find_mount(path, ACCOUNT, ACCOUNT, ROOT) == str(folder)


@pytest.mark.process
def test_a_mount_that_would_hold_a_private_place_is_refused(folder: Path) -> None:
    """The folder itself does not, and /var/tmp above it is mounted."""
    assert code(f"{folder}/faces", root=f"{folder}/runs") == "folder_private"


@pytest.mark.process
def test_another_file_system_below_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old engine would mount it without making it read-only."""
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(training_node_folder, "MOUNTS", str(mounts))
    mounts.write_text("36 35 0:1 / /var/tmp rw - tmpfs t rw\n37 35 0:1 / /var/tmp2 rw - t t rw\n")
    assert find_mount(f"{folder}/faces", ACCOUNT, ACCOUNT, ROOT) == "/var/tmp"
    mounts.write_text("38 35 0:1 / /var/tmp/a\\040b rw - tmpfs t rw\n")
    with pytest.raises(FolderError, match="/var/tmp/a b in it is another file system"):
        find_mount(f"{folder}/faces", ACCOUNT, ACCOUNT, ROOT)
