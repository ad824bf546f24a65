"""How containers here get NVIDIA's GPUs: by a CDI specification, or by NVIDIA's runtime."""

from __future__ import annotations

from typing import Any

from ..machine.cdi import NVIDIA_GPU, Specification, SpecificationError, find_specification
from ..machine.gpus import chosen_gpus, read_gpus
from .containers import EngineError, is_native
from .docker import get

# As NVIDIA's container toolkit calls it (nvidia-ctk runtime configure).
RUNTIME = "nvidia"


def has_runtime() -> bool:
    """Whether the engine knows NVIDIA's runtime.

    Raises:
        EngineError: it does not answer.
    """
    return RUNTIME in get("/info")["Runtimes"]


def gpu_specification() -> Specification | None:
    """What containers here get of the GPUs; None where there is no specification that is read.

    An engine reads some from Docker 25 on, with `features.cdi`.

    Raises:
        SpecificationError: there is one that cannot be read, and nothing else that gives GPUs.
        EngineError: the engine does not answer.
    """
    if is_native():
        return find_specification()
    folders = get("/info").get("CDISpecDirs")
    try:
        return find_specification(folders) if folders else None
    except SpecificationError:
        if has_runtime():
            return None
        raise


def gpu_host_configuration(gpus: str) -> dict[str, Any]:
    """The part of a container's HostConfig that gives it GPUs.

    Args:
        gpus: `all`, or numbers and UUIDs with commas between; empty for none.

    Raises:
        EngineError: there is no way to give them, or the specification lacks one.
    """
    if not gpus:
        return {}
    try:
        specification = gpu_specification()
        if specification is not None:
            names = specification.names_of(chosen_gpus(read_gpus()[0], gpus)[0])
            devices = [f"{NVIDIA_GPU}={name}" for name in names]
            return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": devices}]}
    except SpecificationError as error:
        raise EngineError(str(error)) from error
    if is_native():
        raise EngineError("there is no CDI specification of NVIDIA's GPUs")
    every = gpus == "all"
    request = {
        "Driver": "nvidia",
        # Computing, and asking for load and temperature; nothing for a screen.
        "Capabilities": [["gpu", "compute", "utility"]],
        "Count": -1 if every else 0,
        "DeviceIDs": [] if every else [name.strip() for name in gpus.split(",")],
    }
    # The engine's own way calls a hook that NVIDIA's toolkit refuses in all but its oldest mode,
    # and that wants libnvidia-container. The runtime works in every mode.
    return {"DeviceRequests": [request], **({"Runtime": RUNTIME} if has_runtime() else {})}
