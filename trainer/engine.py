"""What ties the ranks together. The training loop knows this protocol and nothing below it."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from trainer.errors import ConfigError


@dataclass(frozen=True)
class ExchangeOptions:
    """How gradients travel.

    Attributes:
        accumulate: backward passes whose gradients are summed before they are exchanged once.
        compression: "none", or "fp16" to halve what goes over the network.
    """

    accumulate: int = 1
    compression: str = "none"


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
        name: the configuration's word for it.
        rank: this process, from 0.
        local_rank: this process among those of its host, from 0.
        world_size: number of processes.
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

        Either of the two may come back wrapped; the loop uses what it gets.
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


# Without a name Horovod takes the type of the value for one, and waits for ever for ranks that have
# a value of another type.
_GATHERED, _BROADCAST = "gathered", "broadcast"


class HorovodEngine:
    """Gradients averaged by Horovod over MPI, while the backward pass still runs."""

    name = "horovod"

    def __init__(self) -> None:
        import horovod.torch as hvd

        hvd.init()
        self._hvd = hvd
        self.rank: int = hvd.rank()
        self.local_rank: int = hvd.local_rank()
        self.world_size: int = hvd.size()

    def distribute(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        options: ExchangeOptions = DEFAULT_OPTIONS,
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Broadcast parameters, buffers and optimizer state; wrap the optimizer."""
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        # Not Horovod's broadcast_optimizer_state: on a fresh optimizer it takes a step with
        # gradients of zero to have a state to send, and that step decays the weights.
        state = self._hvd.broadcast_object(optimizer.state_dict(), root_rank=0)
        optimizer.load_state_dict(state)
        wrapped = self._hvd.DistributedOptimizer(
            optimizer,
            named_parameters=model.named_parameters(),
            compression=getattr(self._hvd.Compression, options.compression),
            # Horovod adds up the gradients of these passes; the step divides its loss by them.
            backward_passes_per_step=options.accumulate,
        )
        return model, wrapped

    def accumulating(self, model: nn.Module) -> AbstractContextManager[None]:
        """Horovod counts the passes itself."""
        return nullcontext()

    @contextmanager
    def synchronized(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Wait for the background thread, and keep the optimizer from waiting a second time."""
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            yield

    def sum(self, values: Tensor) -> Tensor:
        """Allreduce."""
        return self._hvd.allreduce(values, op=self._hvd.Sum)

    def gather(self, value: Any) -> list[Any]:
        """Allgather of pickled values."""
        return list(self._hvd.allgather_object(value, name=_GATHERED))

    def broadcast(self, value: Any) -> Any:
        """Broadcast of a pickled value."""
        return self._hvd.broadcast_object(value, root_rank=0, name=_BROADCAST)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self._hvd.barrier()

    def close(self) -> None:
        """Stop Horovod's background thread and leave MPI."""
        self._hvd.shutdown()


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
        self.local_rank = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
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
        """Allreduce."""
        return torch.as_tensor(sum(self._world.allgather(values.numpy())))

    def gather(self, value: Any) -> list[Any]:
        """Allgather of pickled values."""
        return list(self._world.allgather(value))

    def broadcast(self, value: Any) -> Any:
        """Broadcast of a pickled value."""
        return self._world.bcast(value)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self._world.Barrier()

    def close(self) -> None:
        """Nothing to leave: mpi4py finalises MPI when the interpreter ends."""


ENGINES = {engine.name: engine for engine in (HorovodEngine, IndependentEngine)}


def start_engine(name: str) -> Engine:
    """Join the world.

    Raises:
        ConfigError: there is no such engine.
    """
    if name not in ENGINES:
        raise ConfigError(f"no engine {name!r}; there are: {', '.join(sorted(ENGINES))}")
    engine: Engine = ENGINES[name]()
    return engine
