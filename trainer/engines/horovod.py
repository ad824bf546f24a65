"""Horovod."""

import io
import os
import pickle
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from trainer.engines.base import DEFAULT_OPTIONS, ExchangeOptions
from trainer.engines.flat import FlatGradients
from trainer.engines.tuning import BucketTuning
from trainer.heartbeat import waiting

# Without a name Horovod takes the type of the value for one, and waits for ever for ranks that have
# a value of another type.
_GATHERED, _BROADCAST = "gathered", "broadcast"

# Bytes of a pickled value that are broadcast at once: a checkpoint may have more than 2 GiB.
PIECE = 2**30

# Environment: the nice value of Horovod's own threads. Above 0 the exchange stands back behind the
# computing thread of the same core, and has the core to itself as soon as that one waits.
NICE = "TRAINYARD_EXCHANGE_NICE"

# From channels first to the order in which channels last lies in memory.
NHWC = (0, 2, 3, 1)


def contiguous_view(tensor: Tensor) -> Tensor:
    """A contiguous view of a channels-last tensor, because Horovod requires contiguous ones."""
    is_channels_last = tensor.dim() == len(NHWC) and not tensor.is_contiguous()
    return tensor.permute(NHWC) if is_channels_last else tensor


@contextmanager
def _nice_threads(nice: int) -> Iterator[None]:
    """Give the threads that start in here this nice value; Linux has one for each thread."""
    before = set(os.listdir("/proc/self/task"))
    yield
    for thread in set(os.listdir("/proc/self/task")) - before:
        os.setpriority(os.PRIO_PROCESS, int(thread), nice)


class HorovodEngine:
    """Gradients averaged by Horovod, over MPI or, between GPUs, NCCL.

    Attributes:
        gradients: those of the model that was distributed last, which are the ones it exchanges;
            None before, and where there is one rank.
    """

    name = "horovod"

    def __init__(self) -> None:
        import horovod.torch as hvd

        with _nice_threads(int(os.environ.get(NICE, "0"))):
            hvd.init()
        self._hvd = hvd
        self.rank: int = hvd.rank()
        self.local_rank: int = hvd.local_rank()
        self.world_size: int = hvd.size()
        self.gradients: FlatGradients | None = None
        self._tuning: BucketTuning | None = None

    def distribute(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        options: ExchangeOptions = DEFAULT_OPTIONS,
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Broadcast parameters, buffers and optimizer state; return both as they are.

        How many buckets gradients are sent in follows from the first steps, see `BucketTuning`,
        unless the options say it.
        """
        self.broadcast_state(model, optimizer)
        # One rank has nobody to exchange with.
        if self.world_size > 1:
            compression = getattr(self._hvd.Compression, options.compression)
            self.gradients = FlatGradients(model.parameters(), compression)
            self.gradients.split(options.buckets or 1)
            tuning = BucketTuning(self.gradients.size_bytes)
            is_open = options.buckets is None and len(tuning.candidates) > 1
            self._tuning = tuning if is_open else None
        return model, optimizer

    def accumulating(self, model: nn.Module) -> AbstractContextManager[None]:
        """Keep the gradients of this pass here."""
        return nullcontext() if self.gradients is None else self.gradients.accumulating()

    @contextmanager
    def synchronized(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Wait until Horovod's background thread has averaged the gradients."""
        if self.gradients is not None:
            with waiting():
                self.gradients.synchronize()
            if self._tuning is not None:
                self._tune(self.gradients, self._tuning)
        yield

    def broadcast_state(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Give every rank the parameters, buffers and optimizer state of rank 0."""
        state = {name: contiguous_view(value) for name, value in model.state_dict().items()}
        self._hvd.broadcast_parameters(state, root_rank=0)
        # Not Horovod's broadcast_optimizer_state: on a fresh optimizer it takes a step with
        # gradients of zero to have a state to send, and that step decays the weights.
        fresh = self._hvd.broadcast_object(optimizer.state_dict(), root_rank=0)
        optimizer.load_state_dict(fresh)

    def _tune(self, gradients: FlatGradients, tuning: BucketTuning) -> None:
        """Go on to the next number of buckets, in the end to the one that all ranks stay with."""
        tuning.step_ended()
        if not tuning.is_complete:
            gradients.split(tuning.candidate)
            return
        seconds = self.sum(torch.tensor(tuning.medians(), dtype=torch.float64)).tolist()
        count = self.broadcast(tuning.best(seconds))
        gradients.split(count)
        self._tuning = None
        by_count = ", ".join(
            f"{1000 * total / self.world_size:.1f} with {candidate}"
            for candidate, total in zip(tuning.candidates, seconds, strict=True)
        )
        print(f"buckets of gradients: {count}; ms per step: {by_count}", flush=True)

    def sum(self, values: Tensor) -> Tensor:
        with waiting():
            return self._hvd.allreduce(values, op=self._hvd.Sum)

    def gather(self, value: Any) -> list[Any]:
        return list(self._hvd.allgather_object(value, name=_GATHERED))

    def broadcast(self, value: Any) -> Any:
        """Broadcast of a pickled value, in pieces: Horovod counts the bytes of one in 32 bits."""
        stream = io.BytesIO()
        if self.rank == 0:
            pickle.dump(value, stream)
        size = self._hvd.broadcast_object(stream.tell(), root_rank=0, name=_BROADCAST)
        # Not a second copy of what rank 0 has.
        data = stream.getbuffer() if self.rank == 0 else bytearray(size)
        pieces = torch.frombuffer(data, dtype=torch.uint8).split(PIECE)
        for number, piece in enumerate(pieces):
            self._hvd.broadcast_(piece, root_rank=0, name=f"{_BROADCAST}.{number}")
        return value if self.rank == 0 else pickle.loads(data)

    def barrier(self) -> None:
        self._hvd.barrier()

    def close(self) -> None:
        """Stop Horovod's background thread and leave MPI."""
        self._hvd.shutdown()
