"""How a data set comes to a node: whole or not at all, checked, and no more of it than is missing.

Files are sent by rsync with the options that the role has, through a stand-in for ssh that becomes
another user, as whoever Ansible logs in as is. It can be cut off after so many bytes.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.data import files as dataset_files
from node.data import place as dataset_place

LOGIN = 54321
NAME = "faces"
LARGE = os.urandom(5_000_000)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files change hands, as root does it")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can pass through, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def source(folder: Path) -> Path:
    """A user's data on the control node."""
    source = folder / "source"
    for name, content in {
        "train/a.bin": LARGE,
        "train/b.txt": b"b\n",
        "test/a.bin": b"other",
        "odd name\nof two lines": b"1",
        ".hidden": b"2",
        "empty": b"",
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    (source / "link.txt").symlink_to("train/b.txt")
    (source / "same").symlink_to("train")
    return source


class Node:
    """A node that a data set is put on."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.source = source
        self.listed = folder / "listed"
        self.shell = folder / "shell"
        (folder / "data").mkdir()
        self.place = dataset_place.Place(str(folder / "data"), NAME)
        self.path = Path(self.place.path)
        os.makedirs(self.place.transfer)

    def stage(self) -> Any:
        """List what there is, tell the node, and have it look."""
        root, paths = dataset_files.find_files(str(self.source))
        dataset_files.write_manifest(str(self.listed), dataset_files.list_files(root, paths))
        shutil.copyfile(self.listed, self.place.manifest)
        return self.place.stage(LOGIN)

    def send(self, bytes_: int | None = None) -> "subprocess.CompletedProcess[str]":
        """Send as the role does; the connection takes so many bytes."""
        # Without a buffer, in which the first words of either side would wait for more.
        cut = "" if bytes_ is None else f"stdbuf --output 0 head --bytes {bytes_} | "
        become = f"setpriv --reuid {LOGIN} --regid {LOGIN} --clear-groups"
        self.shell.write_text(f'#!/bin/sh\nshift\n{cut}{become} "$@"\n')
        self.shell.chmod(0o755)
        command = ["rsync", "--archive", "--no-owner", "--no-group", "--copy-links", "--stats"]
        command += [f"--rsh={self.shell}", *options(self.listed)]
        return subprocess.run(
            [*command, f"{self.source}/", f"node:{self.place.files}/"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def put(self) -> None:
        """Do what is to be done, as the role's tasks do."""
        if not self.stage().complete:
            done = self.send()
            assert done.returncode == 0, done.stderr
            self.place.settle()


def options(listed: Path) -> list[str]:
    """What the role gives to rsync."""
    tasks = yaml.safe_load(
        (Path(__file__).parents[2] / "roles" / "dataset/tasks/present.yml").read_text()
    )
    sent = next(task for task in tasks[-1]["block"] if "ansible.posix.synchronize" in task)
    return [
        option.replace("{{ dataset_manifest }}", str(listed))
        for option in sent["ansible.posix.synchronize"]["rsync_opts"]
    ]


def sent_bytes(done: "subprocess.CompletedProcess[str]") -> int:
    line = next(line for line in done.stdout.splitlines() if line.startswith("Literal data"))
    return int(line.split()[2].replace(",", ""))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def with_links(source: Path) -> dict[str, bytes]:
    """What a node is to hold: links are copies there."""
    inside = contents(source)
    for name in ("a.bin", "b.txt"):
        if f"train/{name}" in inside:
            inside[f"same/{name}"] = inside[f"train/{name}"]
    return inside


@pytest.fixture
def node(folder: Path, source: Path) -> Node:
    return Node(folder, source)


@pytest.fixture
def full(node: Node) -> Node:
    """A node that has the data set."""
    node.put()
    return node


@pytest.mark.process
def test_puts_every_file_there_for_everybody_to_read(full: Node) -> None:
    assert contents(full.path) == with_links(full.source)
    for path in (full.path, *full.path.rglob("*")):
        about = path.lstat()
        assert about.st_uid == 0
        assert stat.S_IMODE(about.st_mode) == (0o755 if path.is_dir() else 0o644)
        assert not path.is_symlink()
    assert sorted(os.listdir(full.place.transfer)) == ["manifest", "put"]


@pytest.mark.process
def test_what_is_there_is_not_sent_again(full: Node) -> None:
    assert full.stage() == dataset_place.Stage(complete=True)
    assert sorted(os.listdir(full.place.transfer)) == ["manifest", "put"]


def flip_a_byte(path: Path) -> None:
    """Damage as a disk does it: neither size nor time tell."""
    about = path.stat()
    with path.open("r+b") as file:
        file.seek(about.st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def put_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def put_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.process
@pytest.mark.parametrize(
    "damage",
    [flip_a_byte, cut_short, os.unlink, put_a_link, put_a_pipe],
    ids=lambda it: it.__name__,
)
def test_what_is_damaged_is_mended_alone(full: Node, damage: Any) -> None:
    kept = (full.path / "train/a.bin").stat().st_ino
    damage(full.path / "test/a.bin")
    stage = full.stage()
    assert (stage.complete, stage.missing, stage.missing_bytes) == (False, 1, 5)
    assert sent_bytes(full.send()) <= 5
    full.place.settle()
    assert contents(full.path) == with_links(full.source)
    assert (full.path / "train/a.bin").stat().st_ino == kept


@pytest.mark.process
def test_a_closed_folder_and_a_closed_file_are_opened(full: Node) -> None:
    (full.path / "train").chmod(0o700)
    (full.path / "empty").chmod(0o600)
    full.put()
    assert stat.S_IMODE((full.path / "train").stat().st_mode) == 0o755
    assert stat.S_IMODE((full.path / "empty").stat().st_mode) == 0o644


@pytest.mark.process
def test_what_the_source_has_no_more_goes(full: Node) -> None:
    (full.source / "train/b.txt").unlink()
    (full.source / "link.txt").unlink()
    (full.source / "new").write_text("new")
    (full.path / "planted").write_text("by somebody")
    full.put()
    assert contents(full.path) == with_links(full.source)


@pytest.mark.process
def test_an_interrupted_transfer_goes_on_and_shows_nothing_before(node: Node) -> None:
    node.stage()
    done = node.send(bytes_=3_000_000)
    assert done.returncode != 0
    with pytest.raises(FileNotFoundError):
        os.stat(node.path)
    begun = next(Path(node.place.files).rglob(".rsync-partial/*"))
    assert 1_000_000 < begun.stat().st_size < len(LARGE)
    node.stage()
    done = node.send()
    assert done.returncode == 0, done.stderr
    # Of the two paths that have these bytes, one had begun.
    assert sent_bytes(done) < 2 * len(LARGE) - 1_000_000
    node.place.settle()
    assert contents(node.path) == with_links(node.source)


@pytest.mark.process
def test_while_a_change_comes_the_old_is_whole(full: Node) -> None:
    before = contents(full.path)
    (full.source / "train/a.bin").write_bytes(os.urandom(4_000_000))
    full.stage()
    assert full.send(bytes_=1_000_000).returncode != 0
    assert contents(full.path) == before
    full.put()
    assert contents(full.path) == with_links(full.source)


@pytest.mark.process
def test_what_changed_on_its_way_is_not_put_in_place(full: Node) -> None:
    before = contents(full.path)
    (full.source / "test/a.bin").write_bytes(b"newer")
    full.stage()
    (full.source / "test/a.bin").write_bytes(b"newest")
    assert full.send().returncode == 0
    with pytest.raises(dataset_files.DataError, match=r"test/a\.bin arrived with"):
        full.place.settle()
    assert contents(full.path) == before
    full.put()
    assert contents(full.path) == with_links(full.source)


@pytest.mark.process
def test_a_file_that_went_bad_after_it_was_linked_comes_anew(full: Node) -> None:
    (full.source / "new").write_text("new")
    full.stage()
    # The machine stops here, and later the disk damages a file.
    flip_a_byte(full.path / "train/b.txt")
    full.put()
    assert contents(full.path) == with_links(full.source)


@pytest.mark.process
def test_a_machine_that_lost_its_power_between_old_and_new(full: Node) -> None:
    (full.source / "new").write_text("new")
    full.stage()
    full.send()
    os.rename(full.path, Path(full.place.transfer) / "old")
    full.put()
    assert contents(full.path) == with_links(full.source)
    assert sorted(os.listdir(full.place.transfer)) == ["manifest", "put"]


def test_what_somebody_else_put_there_is_not_replaced(node: Node) -> None:
    node.path.mkdir()
    (node.path / "theirs").write_text("precious")
    with pytest.raises(dataset_files.DataError, match="is not of make data"):
        node.stage()
    assert contents(node.path) == {"theirs": b"precious"}


@pytest.mark.process
def test_a_prepared_set_of_an_earlier_version_is_kept_where_it_is_good(node: Node) -> None:
    (node.source / "dataset.json").write_text("{}")
    shutil.copytree(node.source, node.path)
    (node.path / "more").write_text("")
    inode = (node.path / "train/a.bin").stat().st_ino
    node.put()
    assert contents(node.path) == with_links(node.source)
    assert (node.path / "train/a.bin").stat().st_ino == inode


def test_a_link_in_its_place_is_refused(node: Node, folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    node.path.symlink_to(folder / "elsewhere")
    with pytest.raises(dataset_files.DataError, match="is a link or no folder"):
        node.stage()


@pytest.mark.process
def test_links_of_whoever_sends_lead_root_nowhere(node: Node, folder: Path) -> None:
    outside = folder / "etc"
    outside.mkdir()
    (outside / "b.txt").write_text("root's")
    (outside / "b.txt").chmod(0o600)
    node.stage()
    files = Path(node.place.files)
    (files / "train").symlink_to(outside)
    os.link(outside / "b.txt", files / "empty")
    (files / "more").symlink_to(outside)
    with pytest.raises(dataset_files.DataError, match="arrived with other content"):
        node.place.settle()
    node.put()
    assert contents(node.path) == with_links(node.source)
    assert contents(outside) == {"b.txt": b"root's"}
    assert stat.S_IMODE((outside / "b.txt").stat().st_mode) == 0o600


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "a//b", ""])
def test_a_manifest_that_leads_out_is_refused(node: Node, path: str) -> None:
    entry = dataset_files.Entry(path, 0, 0, "")
    dataset_files.write_manifest(node.place.manifest, [entry])
    with pytest.raises(dataset_files.DataError, match="is no path below a folder"):
        node.place.stage(LOGIN)


@pytest.mark.parametrize("name", ["", "../x", ".transfer", "a/b"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(dataset_files.DataError, match="is not the name of a data set"):
        dataset_place.Place("/srv", name)


@contextmanager
def small_disk(path: Path, options: str) -> Iterator[None]:
    """Mount a file system of this size."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.process
@pytest.mark.promise("row 38")
def test_a_node_without_room_is_told_with_figures_before_anything_comes(
    node: Node, folder: Path
) -> None:
    with small_disk(folder / "data", "size=7m"):
        os.makedirs(node.place.transfer)
        with pytest.raises(dataset_files.DataError) as caught:
            node.stage()
        assert not os.path.exists(node.place.files)
    assert "data has 7.3 MB free, and 10 MB of 10 MB are to come" in str(caught.value)


@pytest.mark.process
def test_what_is_there_counts_as_room(node: Node, folder: Path) -> None:
    (node.source / "same").unlink()
    with small_disk(folder / "data", "size=7m"):
        os.makedirs(node.place.transfer)
        node.put()
        (node.source / "small").write_text("more")
        node.put()
        assert contents(node.path) == contents(node.source)


@pytest.mark.process
def test_a_node_without_inodes_is_told(node: Node, folder: Path) -> None:
    with small_disk(folder / "data", "size=50m,nr_inodes=8"):
        os.makedirs(node.place.transfer)
        with pytest.raises(dataset_files.DataError, match=r"has \d free inodes, and 9 of 9"):
            node.stage()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda at: (at / "out").symlink_to("/etc/passwd"), "out is a link to /etc/passwd, out of"),
        (lambda at: (at / "out").symlink_to(".."), r"out is a link to \.\., out of the folder"),
        (lambda at: (at / "gone").symlink_to("nowhere"), "gone is a link to nowhere, which is not"),
        (lambda at: (at / "train/up").symlink_to("../train"), "a folder that it is in itself"),
        (lambda at: os.mkfifo(at / "pipe"), "pipe is a pipe, which cannot travel"),
        (lambda at: os.mknod(at / "null", stat.S_IFCHR), "null is a device"),
    ],
    ids=["out", "above", "dangling", "circle", "pipe", "device"],
)
def test_what_cannot_travel_is_named(source: Path, made: Any, said: str) -> None:
    made(source)
    with pytest.raises(dataset_files.DataError, match=said):
        dataset_files.find_files(str(source))


def test_an_empty_folder_is_refused(folder: Path) -> None:
    (folder / "void/below").mkdir(parents=True)
    with pytest.raises(dataset_files.DataError, match="there is no file in it"):
        dataset_files.find_files(str(folder / "void"))


def test_a_single_file_is_a_data_set(folder: Path, source: Path) -> None:
    root, paths = dataset_files.find_files(str(source / "train/b.txt"))
    assert (root, paths) == (str(source / "train"), ["b.txt"])
