"""What is said of a data set whose share is gone."""

import errno
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from trainer.data import folder, store
from trainer.data.folder import FileSet
from trainer.data.share import cannot_read
from trainer.errors import DataError
from trainer.mounts import Mount, mount_of

TABLE = """\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 254:0 /srv/data /data ro,relatime - ext4 /dev/root rw
31 30 0:52 / /data/imagenet ro,relatime master:1 - cifs //files/old rw,vers=3.1.1
32 31 0:53 / /data/imagenet ro,relatime master:1 - cifs //files/data rw,vers=3.1.1
"""


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/data/imagenet/train/1.JPEG", Mount("/data/imagenet", "cifs", "//files/data")),
        ("/data/imagenet2/train/1.JPEG", Mount("/data", "ext4", "/dev/root")),
        ("/opt/file", Mount("/", "ext4", "/dev/root")),
    ],
)
def test_what_a_path_lies_on(tmp_path: Path, path: str, mount: Mount) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert mount_of(Path(path), table) == mount


def test_a_share_that_is_gone_is_told_from_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "image"
    gone = str(cannot_read(path, OSError(errno.EHOSTDOWN, "Host is down"), "damaged"))
    assert gone.startswith(
        f"the file system of {path} can no longer be read: Host is down; it is /"
    )
    for other in (OSError("no image"), ValueError()):
        assert str(cannot_read(path, other, "damaged")) == "damaged"
    denied = cannot_read(path, PermissionError(errno.EACCES, "Permission denied"), "damaged")
    assert str(denied) == f"the account of the ranks may not read or write {path}"


def test_a_directory_of_the_kernel_that_fails_to_read_is_no_damage(tmp_path: Path) -> None:
    """A real EIO: nothing is mapped at the beginning of a process's memory."""
    (tmp_path / "dataset.json").symlink_to("/proc/self/mem")
    with pytest.raises(DataError, match=r"dataset\.json can no longer be read: Input/output"):
        store.read_description(tmp_path)


def test_an_error_does_not_wait_for_reads_that_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """One image fails while another one's share never answers."""
    monkeypatch.setattr(folder, "AHEAD", 0)
    hangs, answers = threading.Event(), threading.Event()

    def load(path: Path, number: int) -> np.ndarray:
        if number == 0:
            hangs.wait(30)
            raise OSError(errno.EIO, "Input/output error")
        hangs.set()
        answers.wait(30)
        return np.zeros(1, np.uint8)

    files = FileSet(Path("/nowhere"), ("a/0", "a/1"), torch.zeros(2, dtype=torch.int64))
    began = time.monotonic()
    try:
        with pytest.raises(OSError, match="Input/output"):
            list(folder._stream(files, iter([torch.arange(2)]), load, 2))
        assert time.monotonic() - began < 10
    finally:
        answers.set()
