"""Whether the GPUs of this machine can do what a run wants of them, and if not, why."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..engine.containers import is_native
from ..engine.gpus import gpu_specification, has_runtime
from ..machine.amd import count_amd_cards, driver_trouble, read_amd_gpus, read_amd_users
from ..machine.cdi import SpecificationError
from ..machine.gpus import (
    AMD,
    NVIDIA,
    Gpu,
    GpuUser,
    chosen_gpus,
    loaded_release,
    read_gpu_users,
    read_gpus,
    runs_on,
)
from ..machine.hardware import cards_on_bus
from .problems import Problem, problem

# What an image for GPUs says of itself: the CUDA in it, the oldest branch of the driver that takes
# that, and the compute capabilities that it is built for (docker/trainer/Dockerfile.cuda).
CUDA, DRIVER, CAPABILITIES = "trainyard.cuda", "trainyard.driver", "trainyard.capabilities"
# The same of an image for AMD GPUs, whose capabilities are targets (Dockerfile.rocm there).
ROCM = "trainyard.rocm"
# Vendor and class of NVIDIA's GPUs in /sys: VGA or 3D controller. Which driver fits a card is a
# matter of role nvidia_driver, whose modules are not at hand where a run is launched.
NVIDIA_CARD, DISPLAYS = "0x10de", ("0x0300", "0x0302")
# What NVML and nvidia-smi say where the kernel has another release of the driver than the programs.
MISMATCH = re.compile("driver/library version mismatch", re.IGNORECASE)


@dataclass(frozen=True)
class GpuFit:
    """What a run can have of the machine's GPUs.

    Attributes:
        problems: why it cannot compute on them; empty where it can.
        idle: of a run that takes some GPUs of the node, those that neither a run holds nor anybody
            else's process computes on.
    """

    gpus: list[Gpu] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    idle: list[Gpu] = field(default_factory=list)


def look_at_gpus(
    names: str,
    image: str,
    labels: Mapping[str, str] | None,
    sys: str,
    wanted: int = 0,
    held: Collection[str] = (),
    vendor: str = NVIDIA,
) -> GpuFit:
    """Look at the GPUs that the inventory gives to a run.

    Args:
        names: which, see `chosen_gpus`.
        labels: of the image; None where the machine does not hold it, which is said elsewhere.
        wanted: number of those that the run takes; 0 for all of them.
        held: UUIDs of those that other runs hold, whose processes compute there.
    """
    amd = vendor == AMD
    there, trouble = read_amd_gpus(sys) if amd else read_gpus()
    if trouble:
        silent = (
            why_amd_silent(trouble, sys)
            if amd
            else why_silent(trouble, cards_on_bus(sys, NVIDIA_CARD, DISPLAYS))
        )
        return GpuFit(problems=[silent])
    chosen, missing = chosen_gpus(there, names)
    if not there:
        return GpuFit(problems=[problem("gpu_absent", **said_of(vendor))])
    problems = [
        problem(
            "gpu_not_there",
            gpu=name,
            present=", ".join(str(gpu.index) for gpu in there),
            **said_of(vendor),
        )
        for name in missing
    ]
    lost = [
        problem(
            "gpu_lost",
            gpu=gpu.index,
            model=gpu.model or f"in slot {gpu.slot}",
            message=gpu.trouble,
            **said_of(vendor),
        )
        for gpu in chosen
        if gpu.trouble
    ]
    in_parts = [
        problem("gpu_in_mig_mode", gpu=gpu.index, model=gpu.model) for gpu in chosen if gpu.mig
    ]
    if labels is not None:
        problems += (amd_image_problems if amd else image_problems)(chosen, image, labels)
    free = [gpu for gpu in chosen if gpu.uuid not in held and not gpu.trouble and not gpu.mig]
    users = user_problems(free, read_amd_users(sys) if amd else read_gpu_users())
    busy = {user.values["gpu"] for user in users}
    idle = [gpu for gpu in free if gpu.index not in busy]
    # A run that takes some finds others than those that are lost, in MIG mode or in use, as long as
    # there are enough.
    if wanted and len(idle) >= wanted:
        return GpuFit(chosen, problems, idle)
    in_the_way = users if len(idle) < (wanted or len(free)) else []
    return GpuFit(chosen, [*lost, *in_parts, *problems, *in_the_way], idle)


def why_silent(trouble: str, cards: int) -> Problem:
    """The reason why GPUs cannot be asked.

    Args:
        trouble: what nvidia-smi said, or why it could not be run.
        cards: number of NVIDIA's GPUs on the bus.
    """
    message = " ".join(trouble.split())
    if MISMATCH.search(trouble):
        return problem("gpu_driver_mismatch")
    if not cards:
        return problem("gpu_absent")
    # As nvidia-smi says it where there is no module in the kernel, NVML_ERROR_DRIVER_NOT_LOADED.
    if "there is no nvidia-smi" in trouble or "communicate with the NVIDIA driver" in trouble:
        return problem("gpu_driver_missing", cards=cards, message=message)
    return problem("gpu_silent", message=message)


def said_of(vendor: str) -> dict[str, str]:
    """The value of a problem that has words of its own for AMD."""
    return {"vendor": vendor} if vendor == AMD else {}


def why_amd_silent(trouble: str, sys: str) -> Problem:
    """The reason why AMD GPUs cannot be asked.

    Args:
        trouble: what rocm-smi said, or why it could not be asked.
    """
    words, cards = said_of(AMD), count_amd_cards(sys)
    message = " ".join(trouble.split())
    if not cards:
        return problem("gpu_absent", **words)
    if driver_trouble(sys):
        return problem("gpu_driver_missing", cards=cards, message=message, **words)
    return problem("gpu_silent", message=message, **words)


def image_problems(gpus: list[Gpu], image: str, labels: Mapping[str, str]) -> list[Problem]:
    """Whether the driver takes the image's CUDA, and the GPUs run what is in it."""
    if ROCM in labels:
        return [problem("image_of_other_gpus", image=image, has="AMD", wanted="NVIDIA")]
    if CUDA not in labels:
        return [problem("image_without_cuda", image=image)]
    cuda, needed = labels[CUDA], int(labels[DRIVER])
    old = [gpu for gpu in gpus if gpu.driver and gpu.branch < needed]
    if old:
        # All GPUs of a machine have one driver.
        values: dict[str, Any] = {"driver": old[0].driver, "needed": needed}
        return [problem("gpu_driver_old", image=image, cuda=cuda, **values)]
    built_for = labels[CAPABILITIES].split()
    return [
        _not_built_for(gpu, image, built_for)
        for gpu in gpus
        if gpu.capability and not runs_on(built_for, gpu.capability)
    ]


def amd_image_problems(gpus: list[Gpu], image: str, labels: Mapping[str, str]) -> list[Problem]:
    """Whether the image is for AMD GPUs, and has code for these.

    The driver is no matter: ROCm runs with the drivers of releases around its own (AMD, "user and
    kernel-space support matrix"), and that of a distribution's kernel has no release at all.
    """
    if CUDA in labels:
        return [problem("image_of_other_gpus", image=image, has="NVIDIA", wanted="AMD")]
    if ROCM not in labels:
        return [problem("image_without_rocm", image=image)]
    built_for = labels[CAPABILITIES].split()
    return [
        _not_built_for(gpu, image, built_for, **said_of(AMD))
        for gpu in gpus
        if gpu.capability not in built_for
    ]


def _not_built_for(gpu: Gpu, image: str, built_for: list[str], **words: str) -> Problem:
    return problem(
        "gpu_not_built_for",
        gpu=gpu.index,
        model=gpu.model,
        capability=gpu.capability,
        image=image,
        capabilities=", ".join(built_for),
        **words,
    )


def user_problems(gpus: list[Gpu], users: list[GpuUser]) -> list[Problem]:
    """What computes on these GPUs already, of all who compute."""
    index_of = {gpu.uuid: gpu.index for gpu in gpus}
    return [
        problem("gpu_busy", gpu=index_of[user.gpu], pid=user.pid, program=user.program)
        for user in users
        if user.gpu in index_of
    ]


def specification_problems(sys: str) -> list[Problem]:
    """Whether containers here can be given NVIDIA's GPUs.

    Raises:
        EngineError: the engine does not answer.
    """
    try:
        specification = gpu_specification()
    except SpecificationError as error:
        return [problem("gpu_specification_missing", message=str(error))]
    if specification is None:
        if is_native():
            return [problem("gpu_specification_missing", message="there is none")]
        return [] if has_runtime() else [problem("gpu_runtime_missing")]
    loaded = loaded_release(sys)
    # Where none is loaded, that is said of the driver.
    if not loaded or specification.release in ("", loaded):
        return []
    values = {"path": specification.path, "release": specification.release, "driver": loaded}
    return [problem("gpu_specification_old", **values)]
