"""Where a rank computes."""

import torch


def pick_device(local_rank: int) -> torch.device:
    """Return the GPU whose number is the rank's on its host, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all its work; a GPU works while the program goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
