"""What a learner takes from a checkpoint, what is the run's own, and that it steps as others do."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from compare_plain import loss_of, optimizer_of
from torch.testing import assert_close

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


@pytest.mark.parametrize(("model", "optimizer"), [("vit", "adamw"), ("cnn_b", "sgd")])
def test_losses_are_those_of_a_plain_loop(model: str, optimizer: str, asked: TrainConfig) -> None:
    """From the same parameters, with the same images."""
    learner = build(replace(asked, model=model, optimizer=optimizer))
    network = deepcopy(learner.network)
    plain = optimizer_of(network, {"optimizer": optimizer, "weight_decay": asked.weight_decay})
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
    for rate in (0.002, 0.004, 0.006):
        for group in plain.param_groups:
            group["lr"] = rate
        loss = loss_of(network(images), labels)
        plain.zero_grad()
        loss.backward()
        plain.step()
        assert_close(learner.step(images, labels, rate), loss.detach(), rtol=1e-5, atol=1e-6)
