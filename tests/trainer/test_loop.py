"""What the loop makes of validations, and that it keeps nothing that is no number any more."""

import math
from collections.abc import Callable
from types import SimpleNamespace as Fake
from typing import Any

import pytest

from trainer import loop
from trainer.errors import DivergenceError
from trainer.loop import TrainingLoop
from trainer.progress import Progress
from trainer.schedule import PATIENCE


class Kept:
    """Stands for the metrics and the checkpoints: what was written and what was saved."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.accuracies: list[float] = []
        self.rates: list[float] = []

    def write(self, event: str, *values: Any, **named: Any) -> None:
        self.events.append(event)

    def save(self, progress: Progress, accuracy: float, loss: float) -> None:
        self.events.append("checkpoint")
        self.accuracies.append(accuracy)

    def finish(self) -> None:
        self.events.append("finish")

    def load_best(self, last_epoch: int) -> None:
        self.events.append(f"best of {last_epoch}")


Run = Callable[..., Kept]


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def run(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Go through epochs with these results of validations, after those of the run before."""

    def validate(results: list[tuple[float, float]]) -> Any:
        loss, accuracy = results.pop(0)
        return Fake(loss=loss, accuracy=accuracy, top5=None)

    def train(self: TrainingLoop, epoch: int, meter: Any) -> None:
        self._count_step()
        kept.rates.append(self._learning_rate())

    def go(
        *results: tuple[float, float], training: float = 2.0, done: int = 0, **asked: Any
    ) -> Kept:
        meter = Fake(
            means=lambda engine: (training, 0.3, 0.0),
            images_per_second=lambda ranks: None,
            seconds_per_step=lambda: None,
        )
        settings = {
            **{"epochs": 1, "warmup_fraction": 0.0, "peak_learning_rate": 0.1, "precision": "fp32"},
            **{"schedule": "constant", "evaluate_every": 1, "early_stop": None, **asked},
        }
        sampler = Fake(batches=1, batch_per_rank=1, world_size=1)
        data: Any = Fake(train=Fake(sampler=sampler), description=Fake(classes=()))
        left = list(results[done:])
        monkeypatch.setattr(loop, "settle_batch_norm", lambda *arguments: None)
        monkeypatch.setattr(loop, "validate", lambda *arguments: validate(left))
        monkeypatch.setattr(loop, "test", lambda *arguments: None)
        monkeypatch.setattr(loop, "Meter", lambda: meter)
        monkeypatch.setattr(TrainingLoop, "_train_epoch", train)
        learner: Any = Fake()
        given: Any = Fake(**settings), Fake(world_size=1), data, learner, kept, kept
        progress = Progress(step=done, epoch=done, validations=results[:done])
        start: Any = Fake(progress=progress, meter=meter, loss=2.0, accuracy=0.25)
        TrainingLoop(*given).run(start)
        return kept

    return go


@pytest.mark.parametrize("training", [math.nan, math.inf, 2.0])
def test_nothing_is_kept_of_an_epoch_whose_loss_is_no_number(
    training: float, run: Run, kept: Kept
) -> None:
    """Also where the steps that were looked at, every tenth perhaps, were well."""
    validation = math.nan if math.isfinite(training) else 2.0
    with pytest.raises(DivergenceError, match="at the end of epoch 1"):
        run((validation, 0.1), training=training)
    assert kept.events == ["start"]


def test_validates_every_so_many_epochs_and_after_the_last(run: Run) -> None:
    assert run((2.0, 0.2), (1.5, 0.4), (1.2, 0.5), epochs=5, evaluate_every=2).accuracies == [
        *(-1.0, 0.2, -1.0, 0.4, 0.5)
    ]


@pytest.mark.parametrize("done", [0, 1, 3, 4])
def test_ends_where_validations_get_no_better(
    done: int, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a run that goes on, and one that was cut off after what was its last epoch."""
    results = ((2.0, 0.2), (1.0, 0.4), (0.9, 0.4), (0.8, 0.3))
    kept = run(*results, epochs=9, early_stop=2, done=done)
    taken = [accuracy for _, accuracy in results[done:]]
    assert kept.accuracies == (taken or [0.25])
    assert kept.events[-3:] == ["finish", "best of 4", "end"]
    assert "early stop: no higher accuracy in 2 validations in a row" in capsys.readouterr().out


@pytest.mark.parametrize("done", [0, PATIENCE, PATIENCE + 1])
def test_plateau_takes_a_tenth_of_the_rate(done: int, run: Run) -> None:
    results = ((1.0, 0.4),) * (PATIENCE + 3)
    kept = run(*results, epochs=len(results), schedule="plateau", done=done)
    rates = [0.1] * (PATIENCE + 1) + [0.01] * 2
    assert kept.rates == pytest.approx(rates[done:])
