"""The learner: a model, its optimizer and its step, made anew or from a checkpoint."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from trainer.checkpoint import Checkpoint
from trainer.config import TrainConfig
from trainer.engines import Engine, ExchangeOptions
from trainer.errors import ConfigError
from trainer.models import build_model
from trainer.optimizer import adamw, sgd
from trainer.step import TrainStep, loss_scaler
from trainer.weights import adopt, freeze_backbone, read_weights


@dataclass(frozen=True)
class Learner:
    """A model in training.

    Attributes:
        network: the model itself, whatever an engine or a compiler has wrapped around it.
        averaged: the moving average of its parameters, or None.
    """

    network: nn.Module
    averaged: AveragedModel | None
    train_step: TrainStep

    @property
    def evaluated(self) -> nn.Module:
        """The model whose results count."""
        return self.averaged if self.averaged is not None else self.network

    def step(self, images: Tensor, labels: Tensor, learning_rate: float) -> Tensor:
        loss = self.train_step(images, labels, learning_rate)
        if self.averaged is not None:
            self.averaged.update_parameters(self.network)
        return loss


def build_learner(
    config: TrainConfig,
    classes: int,
    image_size: int,
    engine: Engine,
    device: torch.device,
    resumed: Checkpoint | None,
) -> Learner:
    """Make what the configuration asks for, the same on every rank.

    Args:
        image_size: edge of the images in pixels.
        resumed: the checkpoint to go on from; None starts anew.

    Raises:
        ConfigError: there is no such model, no compiler for `compile`, or the weights to begin from
            are of another network.
        CheckpointError: these weights cannot be read.
    """
    torch.manual_seed(config.seed)
    memory_format = torch.channels_last if config.channels_last else torch.contiguous_format
    network = build_model(config.model, classes, image_size)
    if config.weights is not None and resumed is None:
        made_new = adopt(network, read_weights(Path(config.weights), config.weights_sha256))
        told = filter(None, (f"begins from {Path(config.weights).name}", made_new))
        print("; ".join(told), flush=True)
    if config.freeze == "backbone":
        freeze_backbone(network)
    network = network.to(device, memory_format=memory_format)
    if resumed is not None:
        network.load_state_dict(resumed.model)
    rate = config.peak_learning_rate
    if config.optimizer == "sgd":
        optimizer = sgd(network, rate, config.weight_decay, config.momentum)
    else:
        optimizer = adamw(network, rate, config.weight_decay)
    options = ExchangeOptions(config.compression, config.exchange_buckets)
    model, optimizer = engine.distribute(network, optimizer, options)
    averaged = None
    if config.ema:
        average = get_ema_multi_avg_fn(config.ema)
        averaged = AveragedModel(network, multi_avg_fn=average, use_buffers=True)
    scaler = loss_scaler(config.precision, device.type)
    if resumed is not None:
        # Into what the engine returned, which need not be what went in. It brings the options of
        # the run before, weight decay and momentum among them; this run's own are those that count.
        own = [dict(group) for group in optimizer.param_groups]
        optimizer.load_state_dict(resumed.optimizer)
        for group, mine in zip(optimizer.param_groups, own, strict=True):
            group.update({name: value for name, value in mine.items() if name != "params"})
        # Of a run without scaled losses there is none.
        if resumed.scaler:
            scaler.load_state_dict(resumed.scaler)
        if averaged is not None and resumed.ema is not None:
            averaged.load_state_dict(resumed.ema)
    train_step = TrainStep(
        compiled(model) if config.compile else model,
        optimizer,
        config.precision,
        config.label_smoothing,
        exchange=engine,
        accumulate=config.accumulate,
        clip_norm=config.clip_norm,
        scaler=scaler,
    )
    # From here on ranks may differ: where layers drop out values, each rank drops out others.
    torch.manual_seed(config.seed + engine.rank)
    learner = Learner(network, averaged, train_step)
    if resumed is not None:
        if len(resumed.rng) == engine.world_size:
            restore_random_state(resumed.rng[engine.rank])
        if resumed.ranks:
            restore_buffers(learner, resumed.ranks, engine)
    return learner


def compiled(model: nn.Module) -> nn.Module:
    """Translate a model with `torch.compile`, at its first step.

    Raises:
        ConfigError: it needs a compiler, for CPUs and for GPUs, and there is none.
    """
    if shutil.which("g++") is None:
        raise ConfigError("compile needs a C++ compiler, and this image has none")
    return torch.compile(model)


def local_buffers(learner: Learner) -> dict[str, dict[str, Tensor]]:
    """Buffers of the model and the averaged model by name: in an epoch, each rank has its own.

    The running means of batch normalisation are averaged over the ranks where an epoch ends.
    """
    return {
        kind: {name: buffer.detach().to("cpu", copy=True) for name, buffer in model.named_buffers()}
        for kind, model in _models(learner).items()
    }


def restore_buffers(learner: Learner, ranks: list[dict[str, Any]], engine: Engine) -> None:
    """Put the buffers back to what `local_buffers` saw on this rank.

    Where there was another number of ranks all get the mean, as at the end of an epoch.

    Args:
        ranks: what `local_buffers` returned on every rank, by rank.
    """
    is_same_world = len(ranks) == engine.world_size
    for kind, model in _models(learner).items():
        for name, buffer in model.named_buffers():
            # An averaged model may be new in the run that goes on.
            values = [rank[kind][name] for rank in ranks if name in rank.get(kind, {})]
            if not values:
                continue
            if is_same_world:
                buffer.copy_(values[engine.rank])
            elif buffer.is_floating_point():
                buffer.copy_(torch.stack(values).mean(dim=0))


def _models(learner: Learner) -> dict[str, nn.Module]:
    models: dict[str, nn.Module] = {"model": learner.network}
    return models | ({"ema": learner.averaged} if learner.averaged is not None else {})


def random_state() -> dict[str, Tensor]:
    """State of this process's random generators, by device."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_random_state(state: dict[str, Tensor]) -> None:
    """Put the generators back to where `random_state` saw them."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
