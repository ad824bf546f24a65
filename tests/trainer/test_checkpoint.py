from pathlib import Path

import pytest
import torch

from trainer.checkpoint import Checkpoint, CheckpointFolder, load_newest
from trainer.errors import DataError
from trainer.models.vit import ViT, ViTSize
from trainer.optimizer import adamw
from trainer.step import TrainStep

SIZE = ViTSize(image_size=8, patch_size=4, width=16, depth=1, heads=2)


def trained(steps: int) -> TrainStep:
    torch.manual_seed(1)
    model = ViT(SIZE, classes=3)
    step = TrainStep(model, adamw(model, 0.01, 0.05), "fp32")
    advance(step, steps)
    return step


def advance(step: TrainStep, steps: int) -> None:
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        step(torch.randn(4, 3, 8, 8, generator=generator), torch.tensor([0, 1, 2, 0]), 0.01)


def checkpoint(step: TrainStep, steps: int, epoch: int = 1, epoch_images: int = 0) -> Checkpoint:
    return Checkpoint(
        model=step.model.state_dict(),
        optimizer=step.optimizer.state_dict(),
        scaler={},
        ema=None,
        rng=[{"cpu": torch.get_rng_state()}],
        sampler={"seed": 1, "epoch": epoch},
        step=steps,
        epoch=epoch,
        accuracy=0.5,
        best_accuracy=0.5,
        config={"model": "vit", "hosts": ["node1"], "train_images": None},
        epoch_images=epoch_images,
    )


def test_training_goes_on_from_a_checkpoint_as_if_never_stopped(tmp_path: Path) -> None:
    step = trained(3)
    checkpoint(step, 3).save(tmp_path / "checkpoints" / "epoch-1.pt")

    loaded = Checkpoint.load(tmp_path / "checkpoints" / "epoch-1.pt")
    again = trained(0)
    again.model.load_state_dict(loaded.model)
    again.optimizer.load_state_dict(loaded.optimizer)
    advance(step, 2)
    advance(again, 2)

    assert (loaded.step, loaded.epoch) == (3, 1)
    assert loaded.config == {"model": "vit", "hosts": ["node1"], "train_images": None}
    for one, other in zip(step.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_every_piece_is_told_and_the_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.checkpoint.PIECE", 1000)
    sizes: list[int] = []
    path = tmp_path / "epoch-1.pt"
    checkpoint(trained(1), 1).save(path, lambda: sizes.append(scratch_size(tmp_path)))
    size = path.stat().st_size
    pieces = -(-size // 1000)
    # Hashed before there is a file, then written, each on the disk before the next.
    written = [min(size, 1000 * piece) for piece in range(1, pieces + 1)]
    assert sizes == [0] * pieces + written
    assert Checkpoint.load(path).step == 1


def scratch_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(".epoch-1.pt.*"))


def test_failed_saving_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    folder.add(checkpoint(trained(1), 1), is_best=True)

    def stop_halfway(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trainer.checkpoint.PIECE", 1000)
    monkeypatch.setattr("trainer.checkpoint.os.fdatasync", stop_halfway)
    with pytest.raises(KeyboardInterrupt):
        folder.add(checkpoint(trained(2), 2, epoch=2), is_best=True)
    assert Checkpoint.load(tmp_path / "last.pt").step == 1
    assert not list(tmp_path.glob("epoch-2*.pt"))
    assert not list(tmp_path.glob(".epoch-2*"))


def test_newest_and_best_stay(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    step = trained(1)
    for epoch in range(1, 6):
        folder.add(checkpoint(step, epoch, epoch), is_best=epoch == 2)
    kept = sorted(path.name for path in tmp_path.glob("epoch-*.pt"))
    assert kept == ["epoch-2.pt", "epoch-4.pt", "epoch-5.pt"]
    assert len(list(tmp_path.glob("*.sha256"))) == 3
    assert Checkpoint.load(tmp_path / "last.pt").epoch == 5
    assert Checkpoint.load(tmp_path / "best.pt").epoch == 2


def test_of_those_within_an_epoch_the_newest_stays_until_the_epoch_ends(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=1)
    step = trained(1)

    def add(steps: int, epoch: int, epoch_images: int = 0) -> list[str]:
        folder.add(checkpoint(step, steps, epoch, epoch_images), is_best=epoch_images == 0)
        names = sorted(path.name for path in tmp_path.glob("epoch-*.pt"))
        assert sorted(f"{name}.sha256" for name in names) == sorted(
            path.name for path in tmp_path.glob("*.sha256")
        )
        assert load_newest(tmp_path, pytest.fail).step == steps
        assert Checkpoint.load(tmp_path / "last.pt").step == steps
        return names

    assert add(90, 0, 90) == ["epoch-0-step-90.pt"]
    assert add(100, 1) == ["epoch-1.pt"]
    assert add(105, 1, 5) == ["epoch-1-step-105.pt", "epoch-1.pt"]
    # Of a world with more ranks, which counts fewer steps.
    assert add(95, 1, 30) == ["epoch-1-step-95.pt", "epoch-1.pt"]
    assert Checkpoint.load(tmp_path / "best.pt").step == 100
    assert add(200, 2) == ["epoch-2.pt"]


def test_of_several_worlds_the_most_images_are_the_newest(tmp_path: Path) -> None:
    """Attempts with one rank, then with two, whose files came home to one folder."""
    for steps, images in ((70, 560), (40, 640), (65, 520)):
        one = checkpoint(trained(1), steps, 3, images)
        one.save(tmp_path / one.name)
    assert load_newest(tmp_path, pytest.fail).step == 40
    (tmp_path / "epoch-3-step-40.pt").write_bytes(b"")
    told: list[str] = []
    assert load_newest(tmp_path, told.append).step == 70
    assert len(told) == 1


def test_damaged_checkpoint_within_an_epoch_is_refused_too(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=3)
    folder.add(checkpoint(trained(1), 9, 9), is_best=False)
    folder.add(checkpoint(trained(1), 10, 9, 4), is_best=False)
    (tmp_path / "epoch-9-step-10.pt").write_bytes(b"")
    # Neither is one of the run's.
    (tmp_path / "epoch-9-step-x.pt").touch()
    (tmp_path / "epoch-best.pt").touch()
    told: list[str] = []
    assert load_newest(tmp_path, told.append).step == 9
    assert len(told) == 1
    assert "epoch-9-step-10.pt: its sha256 is" in told[0]


def test_damaged_checkpoint_is_refused_and_the_one_before_taken(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=3)
    for epoch in (9, 10):
        folder.add(checkpoint(trained(1), epoch, epoch), is_best=False)
    path = tmp_path / "epoch-10.pt"
    content = bytearray(path.read_bytes())
    # In the middle of the parameters, where torch itself would not notice.
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    told: list[str] = []
    assert load_newest(tmp_path, told.append).epoch == 9
    assert len(told) == 1
    assert "refused: cannot read the checkpoint" in told[0]
    assert "epoch-10.pt: its sha256 is" in told[0]

    (tmp_path / "epoch-9.pt.sha256").unlink()
    with pytest.raises(DataError, match="all 2 are damaged"):
        load_newest(tmp_path, told.append)
    with pytest.raises(DataError, match="there is no epoch-<n>"):
        load_newest(tmp_path / "none", told.append)
