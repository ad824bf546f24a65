"""Horovod."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from trainer.engines.base import DEFAULT_OPTIONS, ExchangeOptions
from trainer.heartbeat import waiting

# Without a name Horovod takes the type of the value for one, and waits for ever for ranks that have
# a value of another type.
_GATHERED, _BROADCAST = "gathered", "broadcast"

# Environment: the nice value of Horovod's own threads. Above 0 the exchange stands back behind the
# computing thread of the same core, and has the core to itself as soon as that one waits.
NICE = "TRAINYARD_EXCHANGE_NICE"

# From channels last to the order in which that lies in memory, and back.
_NHWC, _NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def _as_it_lies(tensor: Tensor) -> Tensor:
    """A contiguous view of a tensor that is channels last: Horovod takes none that is not."""
    lies_otherwise = tensor.dim() == len(_NHWC) and not tensor.is_contiguous()
    return tensor.permute(_NHWC) if lies_otherwise else tensor


class _AsTheyLie:
    """A compression of Horovod's that exchanges gradients in the order in which they lie."""

    def __init__(self, compression: Any) -> None:
        self._compression = compression

    def compress(self, tensor: Tensor) -> tuple[Tensor, tuple[Any, bool]]:
        view = _as_it_lies(tensor)
        compressed, context = self._compression.compress(view)
        return compressed, (context, view is not tensor)

    def decompress(self, tensor: Tensor, context: tuple[Any, bool]) -> Tensor:
        inner, permuted = context
        plain: Tensor = self._compression.decompress(tensor, inner)
        return plain.permute(_NCHW) if permuted else plain


@contextmanager
def _nice_threads(nice: int) -> Iterator[None]:
    """Give the threads that start in here this nice value; Linux has one for each thread."""
    before = set(os.listdir("/proc/self/task"))
    yield
    for thread in set(os.listdir("/proc/self/task")) - before:
        os.setpriority(os.PRIO_PROCESS, int(thread), nice)


class HorovodEngine:
    """Gradients averaged by Horovod over MPI, while the backward pass still runs."""

    name = "horovod"

    def __init__(self) -> None:
        import horovod.torch as hvd

        with _nice_threads(int(os.environ.get(NICE, "0"))):
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
        state = {name: _as_it_lies(value) for name, value in model.state_dict().items()}
        self._hvd.broadcast_parameters(state, root_rank=0)
        # Not Horovod's broadcast_optimizer_state: on a fresh optimizer it takes a step with
        # gradients of zero to have a state to send, and that step decays the weights.
        fresh = self._hvd.broadcast_object(optimizer.state_dict(), root_rank=0)
        optimizer.load_state_dict(fresh)
        wrapped = self._hvd.DistributedOptimizer(
            optimizer,
            named_parameters=model.named_parameters(),
            compression=_AsTheyLie(getattr(self._hvd.Compression, options.compression)),
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
        with waiting():
            optimizer.synchronize()
        with optimizer.skip_synchronize():
            yield

    def sum(self, values: Tensor) -> Tensor:
        """Allreduce."""
        with waiting():
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
