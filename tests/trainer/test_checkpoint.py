from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.checkpoint import Checkpoint
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


def checkpoint(step: TrainStep, steps: int) -> Checkpoint:
    return Checkpoint(
        model=step.model.state_dict(),
        optimizer=step.optimizer.state_dict(),
        step=steps,
        epoch=1,
        config={"model": "vit", "hosts": ["node1"], "train_images": None},
    )


def test_training_goes_on_from_a_checkpoint_as_if_never_stopped(tmp_path: Path) -> None:
    step = trained(3)
    checkpoint(step, 3).save(tmp_path / "checkpoints" / "last.pt")

    loaded = Checkpoint.load(tmp_path / "checkpoints" / "last.pt")
    again = trained(0)
    again.model.load_state_dict(loaded.model)
    again.optimizer.load_state_dict(loaded.optimizer)
    advance(step, 2)
    advance(again, 2)

    assert (loaded.step, loaded.epoch) == (3, 1)
    assert loaded.config == {"model": "vit", "hosts": ["node1"], "train_images": None}
    for one, other in zip(step.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_failed_saving_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "last.pt"
    checkpoint(trained(1), 1).save(path)

    def stop_halfway(content: Any, stream: Any) -> None:
        stream.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", stop_halfway)
    with pytest.raises(KeyboardInterrupt):
        checkpoint(trained(2), 2).save(path)
    assert Checkpoint.load(path).step == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["last.pt"]


def test_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    checkpoint(trained(1), 1).save(path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match="cannot read the checkpoint"):
        Checkpoint.load(path)
    with pytest.raises(DataError, match="cannot read the checkpoint"):
        Checkpoint.load(tmp_path / "none.pt")
