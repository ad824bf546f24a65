"""What a learner takes from a checkpoint, and what is the run's own."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from trainer.checkpoint import Checkpoint
from trainer.config import TrainConfig
from trainer.engines.independent import IndependentEngine
from trainer.learner import Learner, build_learner

CPU = torch.device("cpu")


@pytest.fixture
def asked(config: dict[str, Any]) -> TrainConfig:
    """A run of one rank with momentum and weight decay."""
    sgd: dict[str, Any] = {"model": "cnn_a", "optimizer": "sgd", "momentum": 0.9}
    return TrainConfig(
        **{**config, **sgd, "weight_decay": 0.05, "world_size": 1, "engine": "independent"}
    )


def build(config: TrainConfig, resumed: Checkpoint | None = None) -> Learner:
    return build_learner(config, 10, 32, IndependentEngine(), CPU, resumed)


def checkpoint(learner: Learner) -> Checkpoint:
    """The state of a learner after a step."""
    loss = learner.network(torch.zeros(1, 3, 32, 32)).sum()
    loss.backward()
    optimizer = learner.train_step.optimizer
    optimizer.step()
    return Checkpoint(
        model=learner.network.state_dict(),
        optimizer=optimizer.state_dict(),
        scaler={},
        ema=None,
        rng=[],
        sampler={},
        step=1,
        epoch=0,
        accuracy=-1.0,
        best_accuracy=-1.0,
        config={},
    )


def options(learner: Learner) -> list[tuple[float, float]]:
    groups = learner.train_step.optimizer.param_groups
    return [(group["momentum"], group["weight_decay"]) for group in groups]


def test_weight_decay_and_momentum_are_those_of_this_run(asked: TrainConfig) -> None:
    before = build(asked)
    kept = checkpoint(before)
    changed = replace(asked, momentum=0.5, weight_decay=0.1)
    after = build(changed, kept)
    assert options(after) == options(build(changed)) != options(before)
    # The state that goes with the parameters has come.
    states = after.train_step.optimizer.state_dict()["state"]
    assert len(states) == len(list(after.network.parameters()))
    assert all("momentum_buffer" in state for state in states.values())


def test_a_run_in_fp16_goes_on_from_one_without_scaled_losses(
    asked: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = checkpoint(build(asked))
    scaler = torch.amp.GradScaler("cpu")
    monkeypatch.setattr("trainer.learner.loss_scaler", lambda precision, device: scaler)
    build(asked, kept)
    assert scaler.is_enabled()
