"""Horovod's own optimizer, which the benchmark compares this package's exchange with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import horovod.torch as hvd
import torch
from torch import Tensor, nn

from trainer.engines import DEFAULT_OPTIONS, ExchangeOptions, HorovodEngine
from trainer.engines.horovod import NHWC, contiguous_view

# From the order in which channels last lies in memory to channels first.
NCHW = tuple(NHWC.index(dimension) for dimension in range(len(NHWC)))


class _InMemoryOrder:
    """Wraps a compression of Horovod's to exchange gradients in their order in memory."""

    def __init__(self, compression: Any) -> None:
        self._compression = compression

    def compress(self, tensor: Tensor) -> tuple[Tensor, tuple[Any, bool]]:
        view = contiguous_view(tensor)
        compressed, context = self._compression.compress(view)
        return compressed, (context, view is not tensor)

    def decompress(self, tensor: Tensor, context: tuple[Any, bool]) -> Tensor:
        inner, permuted = context
        plain: Tensor = self._compression.decompress(tensor, inner)
        return plain.permute(NCHW) if permuted else plain


class HorovodOptimizerEngine(HorovodEngine):
    """Gradients averaged by `horovod.torch.DistributedOptimizer`, one by one.

    It takes one backward pass a step.
    """

    def distribute(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        options: ExchangeOptions = DEFAULT_OPTIONS,
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Broadcast parameters, buffers and optimizer state; wrap the optimizer."""
        self.broadcast_state(model, optimizer)
        wrapped = hvd.DistributedOptimizer(
            optimizer,
            named_parameters=model.named_parameters(),
            compression=_InMemoryOrder(getattr(hvd.Compression, options.compression)),
        )
        return model, wrapped

    @contextmanager
    def synchronized(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Wait for the background thread, and keep the optimizer from waiting a second time."""
        wrapped: Any = optimizer
        wrapped.synchronize()
        with wrapped.skip_synchronize():
            yield
