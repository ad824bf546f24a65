"""A rank that was given GPUs computes on them, or ends and says why not.

There is no GPU here: what PyTorch says is replayed, in the words of public threads.
"""

import socket
import time

import pytest
import torch

from trainer.device import Marks, find_device, pick_device
from trainer.errors import GpuError
from trainer.launch.settings import GPUS

# lllyasviel/Fooocus#1313
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version"
)
# pytorch/pytorch#81883
NO_KERNEL = (
    "CUDA error: no kernel image is available for execution on the device\n"
    "CUDA kernel errors might be asynchronously reported at some other API call"
)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GPUS, "2")


def test_without_gpus_it_computes_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GPUS, raising=False)
    assert pick_device(0) == torch.device("cpu")


@pytest.mark.usefixtures("given")
def test_what_this_pytorch_says_is_the_reason() -> None:
    with pytest.raises(GpuError) as caught:
        pick_device(0)
    assert caught.value.problem.code == "gpu_unusable"
    assert caught.value.problem.values["host"] == socket.gethostname()
    # The image's PyTorch, really asked: Debian's, or one of those with CUDA.
    said = "Torch not compiled with CUDA enabled"
    if torch.version.cuda:
        said = "Found no NVIDIA driver on your system"
    assert said in str(caught.value)


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("said", [TOO_OLD, f"\n{TOO_OLD}"])
def test_a_driver_that_is_too_old_ends_the_rank(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(torch.cuda, "init", init)
    assert find_device(0) == (torch.device("cpu"), TOO_OLD)


@pytest.mark.usefixtures("given")
def test_gpus_that_are_missing_end_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device(0)[1] == "PyTorch sees 1 GPUs, and 2 were given to the run"


@pytest.mark.usefixtures("given")
def test_a_gpu_without_kernels_ends_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    def ones(size: int, device: torch.device) -> torch.Tensor:
        assert device == torch.device("cuda", 1)  # rank 3 of a node with two
        raise RuntimeError(NO_KERNEL)

    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch, "ones", ones)
    assert find_device(3) == (torch.device("cpu"), NO_KERNEL.partition("\n")[0])


def test_marks_tell_the_times_between_them() -> None:
    marks = Marks(torch.device("cpu"))
    for pause in (0.02, 0.05, 0.0):
        marks.set()
        time.sleep(pause)
    first, second = marks.seconds()
    assert first >= 0.02
    assert second >= 0.05
