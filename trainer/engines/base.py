"""What ties the ranks together. The training loop knows this protocol and nothing below it."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ExchangeOptions:
    """How gradients travel.

    Attributes:
        compression: "none", or "fp16" to halve what goes over the network.
        buckets: pieces that gradients are sent in, each as soon as it is complete; None leaves
            that to the engine.
    """

    compression: str = "none"
    buckets: int | None = None


DEFAULT_OPTIONS = ExchangeOptions()


class GradientExchange(Protocol):
    """What a step of training needs of an engine."""

    def accumulating(self, model: nn.Module) -> AbstractContextManager[None]:
        """The context of a forward and backward pass that others follow before the exchange."""
        ...

    def synchronized(self, optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
        """The context in which gradients are averaged and the optimizer may use them.

        Entering it waits for the other ranks.
        """
        ...


class NoExchange:
    """Gradients stay where they are."""

    def accumulating(self, model: nn.Module) -> AbstractContextManager[None]:
        """Nothing to hold back."""
        return nullcontext()

    def synchronized(self, optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
        """Nothing to wait for."""
        return nullcontext()


class Engine(GradientExchange, Protocol):
    """The exchange between ranks.

    Attributes:
        rank: this process, from 0.
        local_rank: this process among those of its host, from 0.
    """

    name: str
    rank: int
    local_rank: int
    world_size: int

    def distribute(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        options: ExchangeOptions = DEFAULT_OPTIONS,
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Give every rank the state of rank 0, and return what exchanges gradients from then on.

        Either of the two may come back wrapped. Train with what comes back; for evaluation and
        checkpoints keep the model that went in, whose parameters it shares.
        """
        ...

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over all ranks; every rank must call it with the same shape."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank; every rank must call it."""
        ...

    def broadcast(self, value: Any) -> Any:
        """Return the value of rank 0; every rank must call it."""
        ...

    def barrier(self) -> None:
        """Wait until every rank is here."""
        ...

    def close(self) -> None:
        """Leave the world in good order; every rank must call it."""
        ...
