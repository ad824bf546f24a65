"""Where a rank computes."""

import os
import socket
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch

from trainer.errors import GpuError
from trainer.launch.settings import GPUS


def pick_device(local_rank: int) -> torch.device:
    """Return the GPU whose number is the rank's on its host, or the CPU where the run has none.

    Raises:
        GpuError: the run was given GPUs, and PyTorch cannot compute on this rank's.
    """
    device, trouble = find_device(local_rank)
    if trouble:
        raise GpuError(host=socket.gethostname(), message=trouble)
    return device


def find_device(local_rank: int) -> tuple[torch.device, str]:
    """Return the rank's device, and why it is the CPU although the run was given GPUs.

    Where PyTorch cannot compute on GPUs, `torch.cuda.is_available` says no and nothing more. The
    reason comes from its initialisation, and from a sum on the GPU: one that the build has no
    kernels for is found there.
    """
    given = int(os.environ.get(GPUS, "0"))
    cpu = torch.device("cpu")
    if not given and not torch.cuda.is_available():
        return cpu, ""
    try:
        torch.cuda.init()
        count = torch.cuda.device_count()
        if count < given:
            return cpu, f"PyTorch sees {count} GPUs, and {given} were given to the run"
        device = torch.device("cuda", local_rank % count)
        torch.cuda.set_device(device)
        torch.ones(1, device=device).sum().item()
    except (AssertionError, RuntimeError) as error:
        # AssertionError: a PyTorch that is built without CUDA. What follows the first line of
        # CUDA's errors is advice for those who debug kernels.
        return cpu, str(error).strip().partition("\n")[0]
    return device, ""


class Marks:
    """Moments at which the device has finished all work that was queued before.

    A GPU records them itself while it works. Waiting for it at each moment would drain its queue.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._moments: list[Any] = []

    def set(self) -> None:
        """Note a moment."""
        if self._device.type != "cuda":
            self._moments.append(perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._moments.append(event)

    def seconds(self) -> list[float]:
        """Wait for the device; return the times between each moment and the next."""
        wait_for(self._device)
        if self._device.type != "cuda":
            return [end - begin for begin, end in pairwise(self._moments)]
        # In milliseconds
        return [begin.elapsed_time(end) / 1000 for begin, end in pairwise(self._moments)]


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all its work; a GPU works while the program goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
