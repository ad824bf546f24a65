"""One step of training, shared by the training loop and the benchmarks."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.engines import GradientExchange, NoExchange
from trainer.errors import NonFiniteLossError
from trainer.heartbeat import beat

AUTOCAST_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision: str, device: str = "cpu") -> torch.autocast:
    """The context in which the forward pass computes in the given precision.

    With `bf16` and `fp16` matrix products take operands of 16 bits; parameters, gradients and the
    exchange between ranks stay fp32 (Horovod cannot reduce bfloat16).
    """
    enabled = precision != "fp32"
    return torch.autocast(device, dtype=AUTOCAST_TYPES[precision], enabled=enabled)


def loss_scaler(precision: str, device: str = "cpu") -> torch.amp.GradScaler:
    """Return what keeps small gradients of `fp16` from becoming zero; it does nothing else."""
    return torch.amp.GradScaler(device, enabled=precision == "fp16")


@dataclass
class TrainStep:
    """Forward, loss, backward, exchange, update.

    Attributes:
        model: in training mode.
        optimizer: as the engine returned it.
        precision: "fp32", "bf16" or "fp16".
        label_smoothing: fraction of the target spread over all classes.
        exchange: the engine that averages the gradients.
        accumulate: parts that the batch is computed in, one after the other, to save memory.
        clip_norm: the largest norm that the gradients of all parameters together may have.
        scaler: of the loss, see `loss_scaler`; the default scales nothing.
        communication_seconds: how long the last step waited for the other ranks.
        right: how many images of the last step were classified right before it, a scalar.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    precision: str
    label_smoothing: float = 0.0
    exchange: GradientExchange = field(default_factory=NoExchange)
    accumulate: int = 1
    clip_norm: float | None = None
    scaler: torch.amp.GradScaler = field(default_factory=lambda: loss_scaler("fp32"))
    communication_seconds: float = field(default=0.0, init=False)
    right: Tensor = field(default_factory=lambda: torch.zeros(()), init=False)

    def __call__(self, images: Tensor, labels: Tensor, learning_rate: float) -> Tensor:
        """Take a step and return this rank's mean loss before it, a scalar without gradient.

        Args:
            images: float32, batch x channels x height x width.
            labels: int64, batch; or float32, batch x classes, the probabilities of a mixture.

        Raises:
            NonFiniteLossError: the loss is infinite or NaN; nothing was exchanged or updated. Only
                on CPUs: reading it would make an accelerator wait for every step.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad()
        parts = zip(images.chunk(self.accumulate), labels.chunk(self.accumulate), strict=True)
        total = torch.zeros((), device=images.device)
        self.right = torch.zeros((), device=images.device)
        for number, (part, targets) in enumerate(parts, start=1):
            is_last = number == self.accumulate
            with nullcontext() if is_last else self.exchange.accumulating(self.model):
                with autocast(self.precision, images.device.type):
                    logits = self.model(part)
                loss = functional.cross_entropy(
                    logits.float(), targets, label_smoothing=self.label_smoothing
                )
                if loss.is_cpu and not math.isfinite(loss.item()):
                    raise NonFiniteLossError(loss.item(), part)
                # Parts are of one size, so that the mean of their means is that of the batch.
                self.scaler.scale(loss / self.accumulate).backward()
            total += loss.detach() / self.accumulate
            # Of a mixture that is the class with the largest part.
            truth = targets if targets.ndim == 1 else targets.argmax(dim=1)
            self.right += (logits.argmax(dim=1) == truth).sum()
        self._update()
        beat()
        return total

    def _update(self) -> None:
        """Average, then unscale, then clip, then step: the norm is that of the true gradient."""
        start = perf_counter()
        with self.exchange.synchronized(self.optimizer):
            self.communication_seconds = perf_counter() - start
            self.scaler.unscale_(self.optimizer)
            if self.clip_norm is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
            self.scaler.step(self.optimizer)
        self.scaler.update()
