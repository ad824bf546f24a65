"""One step of training, shared by the training loop and the benchmarks."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


def autocast(precision: str) -> torch.autocast:
    """The context in which the forward pass computes in the given precision.

    With `bf16` matrix products take bfloat16 operands; parameters, gradients and the exchange
    between ranks stay fp32 (Horovod cannot reduce bfloat16).
    """
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16")


@dataclass(frozen=True)
class TrainStep:
    """Forward, loss, backward, update.

    Attributes:
        model: in training mode.
        optimizer: as the engine returned it; its `step` waits for the averaged gradients.
        precision: "fp32" or "bf16".
        label_smoothing: share of the target spread over all classes.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    precision: str
    label_smoothing: float = 0.0

    def __call__(self, images: Tensor, labels: Tensor, learning_rate: float) -> Tensor:
        """Take a step and return this rank's mean loss before it, a scalar without gradient.

        Args:
            images: float32, batch x channels x height x width.
            labels: int64, batch.
            learning_rate: of this step.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad()
        with autocast(self.precision):
            logits = self.model(images)
        loss = functional.cross_entropy(
            logits.float(), labels, label_smoothing=self.label_smoothing
        )
        loss.backward()
        self.optimizer.step()
        return loss.detach()
