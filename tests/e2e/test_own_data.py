"""Data of a user's own: put on the nodes by make data NAME=, and read by a program on two nodes."""

import hashlib
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from commands import RUNS, make
from machines import NODES, in_machine
from PIL import Image

pytestmark = pytest.mark.usefixtures("ready_cluster")

DATA = "/srv/trainyard/data"
# Prints what it finds, and whether it can change it.
READS = """
import hashlib, os, pathlib
data = pathlib.Path(os.environ["TRAINYARD_DATA_DIR"])
for path in sorted(data.rglob("*")):
    if path.is_file():
        print("found", path, hashlib.sha256(path.read_bytes()).hexdigest(), flush=True)
try:
    (data / "train" / "planted").write_text("")
except OSError as error:
    print("cannot write:", error.strerror, flush=True)
"""


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder."""
    folder = tmp_path_factory.mktemp("own") / "faces"
    (folder / "train").mkdir(parents=True)
    (folder / "train/a.bin").write_bytes(bytes(range(256)) * 20_000)
    (folder / "labels.csv").write_text("a,1\n")
    return folder


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A user's program that reads the data."""
    (tmp_path / "reads").mkdir()
    (tmp_path / "reads/train.py").write_text(READS)
    (tmp_path / "reads/trainyard.yml").write_text("data: e2e-faces\n")
    return tmp_path / "reads"


def log(rank: int) -> str:
    return (RUNS / f"latest/logs/rank-{rank}.log").read_text()


def checksum(node: str, name: str) -> str:
    return in_machine(node, f"sha256sum {DATA}/{name}").split()[0]


@pytest.mark.promise("make data", "make data SOURCE=folder-or-URL NAME=faces")
def test_a_program_reads_it_on_every_node_and_cannot_change_it(faces: Path, program: Path) -> None:
    """The second node lost it, and gets it again when a training asks."""
    assert make("data", SOURCE=faces, NAME="e2e-faces").status == 0
    in_machine(NODES[1], f"rm --recursive {DATA}/e2e-faces")
    outcome = make("train", CODE=program, NODES=2)
    assert outcome.status == 0, outcome.output
    digest = hashlib.sha256((faces / "train/a.bin").read_bytes()).hexdigest()
    for rank in range(2):
        assert f"found /data/e2e-faces/train/a.bin {digest}" in log(rank)
        assert "found /data/e2e-faces/labels.csv" in log(rank)
        assert "cannot write: Read-only file system" in log(rank)


@pytest.fixture
def mounted() -> Iterator[str]:
    """A folder in a file system that is mounted on each node, in the place of a share."""
    share = "/srv/e2e-share"
    for node in NODES:
        in_machine(
            node,
            f"mkdir --parents {share} && mount -t tmpfs -o mode=755,uid=2000 share {share} && "
            f"mkdir --parents {share}/faces/train && echo {node} > {share}/faces/where",
        )
    yield f"{share}/faces"
    for node in NODES:
        in_machine(node, f"umount {share} && rmdir {share}")


def test_a_program_reads_a_folder_that_the_nodes_have(program: Path, mounted: str) -> None:
    outcome = make("train", CODE=program, DATASET=mounted, NODES=2)
    assert outcome.status == 0, outcome.output
    for rank, node in enumerate(NODES[:2]):
        digest = hashlib.sha256(f"{node}\n".encode()).hexdigest()
        assert f"found /data{mounted}/where {digest}" in log(rank)
        assert "Read-only file system" in log(rank)
    in_machine(NODES[1], f"rm --recursive {mounted}/train {mounted}/where")
    outcome = make("train", CODE=program, DATASET=mounted, NODES=2)
    assert outcome.status == 3
    assert f"there is no folder {mounted}, or nothing is in it" in outcome.output
    outcome = make("train", CODE=program, DATASET="/srv/trainyard/runs", NODES=2)
    assert outcome.status == 3
    assert "no rank may see /srv/trainyard/runs" in outcome.output


def test_what_a_disk_damaged_is_mended_and_the_rest_stays(faces: Path) -> None:
    assert make("data", SOURCE=faces, NAME="e2e-faces").status == 0
    file = f"{DATA}/e2e-faces/train/a.bin"
    inodes = [in_machine(node, f"stat --format %i {file}") for node in NODES]
    in_machine(
        NODES[1],
        f"touch --reference {file} /tmp/time && printf x | dd of={file} bs=1 seek=9 conv=notrunc "
        f"status=none && touch --reference /tmp/time {file}",
    )
    assert make("data", SOURCE=faces, NAME="e2e-faces").status == 0
    digest = hashlib.sha256((faces / "train/a.bin").read_bytes()).hexdigest()
    assert [checksum(node, "e2e-faces/train/a.bin") for node in NODES] == [digest, digest]
    after = [in_machine(node, f"stat --format %i {file}") for node in NODES]
    assert after[0] == inodes[0]
    assert after[1] != inodes[1]


@pytest.fixture
def address(faces: Path, tmp_path: Path) -> Iterator[str]:
    """A server of an archive of the folder."""
    shutil.make_archive(str(tmp_path / "faces"), "gztar", faces.parent, faces.name)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/faces.tar.gz"
        listening.shutdown()


def test_an_archive_is_fetched_and_unpacked(address: str, faces: Path) -> None:
    outcome = make("data", SOURCE=address, NAME="e2e-fetched")
    assert outcome.status == 0, outcome.output
    digest = hashlib.sha256((faces / "train/a.bin").read_bytes()).hexdigest()
    for node in NODES:
        assert checksum(node, "e2e-fetched/train/a.bin") == digest


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"NAME": "cifar10", "SOURCE": "."}, "choose another name"),
        ({"NAME": "e2e-void", "SOURCE": "{void}"}, "there is no file in it"),
        ({"NAME": "e2e-gone", "SOURCE": "http://127.0.0.1:1/x.tar"}, "cannot be fetched"),
    ],
    ids=["a known name", "an empty folder", "no server"],
)
def test_is_refused_before_a_node_is_touched(
    asked: dict[str, str], said: str, tmp_path: Path
) -> None:
    typed = {key: value.format(void=tmp_path) for key, value in asked.items()}
    outcome = make("data", **typed)
    assert outcome.status == 2
    assert said in outcome.output
    assert "e2e-void" not in in_machine(NODES[0], f"find {DATA} -maxdepth 2")


def test_damaged_images_are_named_before_anything_is_sent(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        for number in range(3):
            path = tmp_path / "photos" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40, 40), "navy").save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    outcome = make("data", SOURCE=path.parents[1], NAME="e2e-photos")
    assert outcome.status == 3
    assert "in 1 of 2 folders images are damaged:" in outcome.output
    assert "bob: cannot decode 2.png" in outcome.output
    assert "e2e-photos" not in in_machine(NODES[0], f"find {DATA} -maxdepth 2")
    path.write_bytes(whole)
    assert make("data", SOURCE=path.parents[1], NAME="e2e-photos").status == 0
    assert checksum(NODES[1], "e2e-photos/bob/2.png") == hashlib.sha256(whole).hexdigest()


def test_a_name_that_nobody_put_is_refused(program: Path) -> None:
    outcome = make("train", CODE=program, DATASET="e2e-nobody", NODES=2)
    assert outcome.status == 2
    assert "make data SOURCE=folder-or-URL NAME=name" in outcome.output
