"""PyTorch's own DistributedDataParallel."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainer import openmpi
from trainer.engines.base import DEFAULT_OPTIONS, ExchangeOptions
from trainer.errors import ConfigError
from trainer.network import cluster_address, listen

# For every backend of the configuration, the one of torch.distributed. NCCL moves
# what is in GPU memory and nothing else; what the loop sums for its logs is in main memory.
BACKENDS = {"gloo": "gloo", "mpi": "mpi", "nccl": "cpu:gloo,cuda:nccl"}


class DdpEngine:
    """Gradients averaged by DistributedDataParallel, in buckets, while the backward pass runs.

    Works under mpirun, with every backend, and under torchrun, with all but MPI.
    """

    name = "ddp"

    def __init__(self, backend: str) -> None:
        available = {
            "gloo": dist.is_gloo_available(),
            "mpi": dist.is_mpi_available(),
            "nccl": dist.is_nccl_available() and torch.cuda.is_available(),
        }
        if not available[backend]:
            there = ", ".join(name for name in available if available[name])
            raise ConfigError(f"backend {backend!r} does not work here; there are: {there}")
        # Its functions keep the group that there is at their import, as a default argument. Where
        # DistributedDataParallel is the first to import them, there is one. The threads of that
        # group then run on after it is left, and one that lets go of a tensor while the interpreter
        # ends aborts the rank.
        from torch.distributed.nn import functional  # noqa: F401

        # A process can be in several groups; the first one is the default that others build on.
        if dist.is_initialized():
            self.group = dist.new_group(backend=BACKENDS[backend])
        else:
            _join_world(backend)
            self.group = dist.group.WORLD
        self.rank: int = dist.get_rank()
        self.world_size: int = dist.get_world_size()
        # torchrun's name for it, else Open MPI's.
        self.local_rank = int(os.environ.get("LOCAL_RANK") or openmpi.local_rank())

    def distribute(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        options: ExchangeOptions = DEFAULT_OPTIONS,
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Broadcast parameters, buffers and optimizer state; wrap the model.

        Raises:
            ConfigError: gradients shall be compressed. PyTorch's hook for it fails with the torch
                of the image ("IndexError: map::at" when gradients are unpacked).
        """
        if options.compression != "none":
            raise ConfigError(f"compression {options.compression!r} needs engine 'horovod'")
        state = [optimizer.state_dict()]
        dist.broadcast_object_list(state, src=0, group=self.group)
        optimizer.load_state_dict(state[0])
        # Buffers, the running means of batch norms, stay those of the rank, as with Horovod.
        # Gradients live in the buckets that are sent: one copy less.
        wrapped = DistributedDataParallel(
            model,
            process_group=self.group,
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
        )
        return wrapped, optimizer

    def accumulating(self, model: nn.Module) -> AbstractContextManager[None]:
        """Keep DistributedDataParallel from sending what this pass computes."""
        assert isinstance(model, DistributedDataParallel)
        held_back: AbstractContextManager[None] = model.no_sync()
        return held_back

    def synchronized(self, optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
        """Nothing left to wait for: the backward pass has waited at its end."""
        return nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total, group=self.group)
        return total

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=self.group)
        return values

    def broadcast(self, value: Any) -> Any:
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self.group)
        return values[0]

    def barrier(self) -> None:
        dist.barrier(group=self.group)

    def close(self) -> None:
        """Leave the group; models that were distributed must be gone.

        Gloo's threads are joined when the last reference to their backend goes, and may need the
        interpreter's lock before, to let go of a tensor. Only Python's own reference gives that
        lock up meanwhile. A model's went last once in many runs, and the rank hung at its end.
        """
        backend = self.group._get_backend(torch.device("cpu"))
        dist.destroy_process_group(self.group)
        del self.group
        del backend


def _join_world(backend: str) -> None:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _join_torchrun(backend)
        return
    if backend == "mpi":
        dist.init_process_group("mpi")
        return
    from mpi4py import MPI  # here, because importing it joins MPI

    # Rank 0 keeps the store by which the others find each other, on the training network alone
    # and on whichever port is free; MPI, which is up, tells the others where.
    world = MPI.COMM_WORLD
    rank, world_size = world.Get_rank(), world.Get_size()
    listener = listen(cluster_address()) if rank == 0 else None
    host, port = world.bcast(listener.getsockname()[:2] if listener else None)
    store = dist.TCPStore(
        host,
        port,
        world_size,
        is_master=rank == 0,
        wait_for_workers=False,
        master_listen_fd=listener.detach() if listener else None,
        use_libuv=False,
    )
    dist.init_process_group(BACKENDS[backend], store=store, rank=rank, world_size=world_size)


def _join_torchrun(backend: str) -> None:
    """Enter the default group by the store that torchrun has and names in the environment.

    PyTorch's own way, `env://`, asks for a store over libuv, which Debian's torch lacks.
    """
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size,
        is_master=rank == 0 and os.environ["TORCHELASTIC_USE_AGENT_STORE"] != "True",
        use_libuv=False,
    )
    # torchrun may start the ranks again; what they left in the store is not for the next ones.
    attempt = dist.PrefixStore(f"/attempt_{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group(BACKENDS[backend], store=attempt, rank=rank, world_size=world_size)
