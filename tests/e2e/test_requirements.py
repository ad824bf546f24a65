"""Programs that nobody here wrote, with the packages that they require, on two nodes."""

import json
from pathlib import Path

import pytest
from commands import RUNS, Outcome, make
from formats import errors
from machines import in_machine

pytestmark = pytest.mark.usefixtures("ready_cluster")

# What is asked for below are words of these versions. The example of TorchX was written for an
# older torchmetrics.
REQUIREMENTS = """\
accelerate==1.15.0
pytorch-lightning==2.6.6
tensorboard
torchmetrics<0.11
torchx==0.7.0
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without a program of its own: what it runs is in packages."""
    folder = tmp_path_factory.mktemp("own") / "programs"
    folder.mkdir()
    (folder / "requirements.txt").write_text(REQUIREMENTS)
    return folder


def newest() -> Path:
    return (RUNS / "latest").resolve()


def log(rank: int) -> str:
    return (newest() / f"logs/rank-{rank}.log").read_text()


@pytest.fixture(scope="module")
def installed(programs: Path) -> tuple[Outcome, Path]:
    """A first run of the project, for which its packages are installed, and its directory."""
    outcome = make(
        "train", CODE=programs, ENTRY="-m accelerate.test_utils.scripts.test_sync", NODES=2
    )
    return outcome, newest()


def test_a_script_of_accelerate(installed: tuple[Outcome, Path]) -> None:
    outcome, run = installed
    assert outcome.status == 0, outcome.output
    # It says so where it is one process of several, and tests something else where it is alone.
    said = (run / "logs/rank-0.log").read_text()
    assert "Test Distributed `no_sync` context manager" in said
    assert errors(run) == []


def test_an_example_of_torchx_with_lightning_has_what_is_installed(
    installed: tuple[Outcome, Path], programs: Path
) -> None:
    outcome = make(
        "train",
        CODE=programs,
        ENTRY="-m torchx.examples.apps.lightning.train",
        SCRIPT_ARGS="--epochs 2 --output_path checkpoints --log_path outputs --skip_export",
        NODES=2,
    )
    assert outcome.status == 0, outcome.output
    assert "distributed_backend=gloo" in log(0) + log(1)
    assert "MEMBER: 2/2" in log(0) + log(1)
    assert (newest() / "workdir/checkpoints/last.ckpt").stat().st_size > 10_000
    # It writes no metrics of ours: its TensorBoard events are read.
    summary = json.loads((newest() / "summary.json").read_text())
    assert next(iter(summary["readings"])) == "val_loss"
    assert "val_loss" in (newest() / "report.html").read_text()
    # What the project requires was installed for the run before.
    assert "Adding" not in outcome.output
    manifest = json.loads((newest() / "manifest.json").read_text())
    identity = manifest["project"]["packages"]["id"]
    images = {
        in_machine(node, f"docker images --quiet --filter reference='*/*:*-{identity}'")
        for node in ("node1", "node2")
    }
    assert len(images) == 1
    assert images != {""}


def test_a_conflict_with_the_image_is_told_before_anything_is_done(
    installed: tuple[Outcome, Path], tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "requirements.txt").write_text("torch>=2.7\n")
    before = newest()
    outcome = make("train", CODE=tmp_path, NODES=2)
    assert outcome.status == 2
    assert "you require torch>=2.7 and torch==2.6.0+debian" in outcome.output
    assert newest() == before
    outcome = make("train", CODE=tmp_path, NODES=2, REQUIREMENTS="none")
    assert outcome.status == 0, outcome.output
    # Nothing of the other project is in the image that this one has.
    image = json.loads((newest() / "nodes/node1/facts.json").read_text())["image"]["name"]
    assert "-" not in image.partition(":")[2]
