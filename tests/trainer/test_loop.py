"""The loop ends before it keeps what is no number any more."""

import math
from types import SimpleNamespace as Fake
from typing import Any

import pytest

from trainer import loop
from trainer.errors import DivergenceError
from trainer.loop import TrainingLoop
from trainer.progress import Progress


class Kept:
    """Stands for the metrics and the checkpoints: what was written and what was saved."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def write(self, event: str, *values: Any, **named: Any) -> None:
        self.events.append(event)

    def save(self, *values: Any) -> None:
        self.events.append("checkpoint")

    def finish(self) -> None:
        self.events.append("finish")


@pytest.mark.parametrize("training", [math.nan, math.inf, 2.0])
def test_nothing_is_kept_of_an_epoch_whose_loss_is_no_number(
    training: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the steps that were looked at, every tenth perhaps, were well."""
    validation = math.nan if math.isfinite(training) else 2.0
    kept, meter = Kept(), Fake(mean_loss=lambda engine: training)
    sampler = Fake(batches=1, batch_per_rank=1, world_size=1)
    config = Fake(
        epochs=1, warmup_fraction=0.0, peak_learning_rate=0.1, precision="fp32", schedule="cosine"
    )
    data: Any = Fake(train=Fake(sampler=sampler))
    evaluated = Fake(loss=validation, accuracy=0.1)
    monkeypatch.setattr(loop, "settle_batch_norm", lambda *arguments: None)
    monkeypatch.setattr(loop, "validate", lambda *arguments: evaluated)
    monkeypatch.setattr(TrainingLoop, "_train_epoch", lambda *arguments: None)
    monkeypatch.setattr(TrainingLoop, "_position", lambda *arguments: None)
    training_loop = TrainingLoop(config, Fake(), data, Fake(), kept, kept)  # type: ignore[arg-type]
    with pytest.raises(DivergenceError, match="at the end of epoch 1"):
        training_loop.run(Fake(progress=Progress(), meter=meter, loss=0.0, accuracy=0.0))  # type: ignore[arg-type]
    assert kept.events == ["start"]
