"""Ranks that do not exchange gradients."""

import time
from typing import Any

import torch
from torch import Tensor, nn

from trainer import openmpi
from trainer.engines.base import DEFAULT_OPTIONS, ExchangeOptions, NoExchange

# Seconds between two looks of a rank that waits.
BARRIER_LOOK = 0.001


class IndependentEngine(NoExchange):
    """No exchange of gradients: every rank trains its own model on its own shard.

    The benchmarks measure against it, for it is what data-parallel training would reach if
    communication cost nothing. Ranks speak to each other, over plain MPI, only where the loop
    asks: for the check of the world, for the sums in the logs, at a barrier.
    """

    name = "independent"

    def __init__(self) -> None:
        from mpi4py import MPI  # here, because importing it joins MPI

        self._world = MPI.COMM_WORLD
        self.rank: int = self._world.Get_rank()
        self.local_rank = openmpi.local_rank()
        self.world_size: int = self._world.Get_size()

    def distribute(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        options: ExchangeOptions = DEFAULT_OPTIONS,
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Return both as they are; the common seed already gave all ranks the same parameters."""
        return model, optimizer

    def sum(self, values: Tensor) -> Tensor:
        return torch.as_tensor(sum(self._world.allgather(values.numpy())))

    def gather(self, value: Any) -> list[Any]:
        return list(self._world.allgather(value))

    def broadcast(self, value: Any) -> Any:
        return self._world.bcast(value)

    def barrier(self) -> None:
        """Wait until every rank is here, asleep: a benchmark may measure the others meanwhile."""
        arrived = self._world.Ibarrier()
        while not arrived.Test():
            time.sleep(BARRIER_LOOK)

    def close(self) -> None:
        """Nothing to leave: MPI ends with the process, see `trainer.openmpi.leave_mpi`."""
