"""A GPU of this machine, and the NVIDIA GPUs as nvidia-smi tells of them."""

from __future__ import annotations

import csv
import re
import subprocess
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from .hardware import read_text

# Whose GPUs a node has, as the inventory's groups gpu_nodes and amd_nodes say it.
NVIDIA, AMD = "nvidia", "amd"
SMI = "nvidia-smi"
SMI_SECONDS = 20
# As a shell and timeout(1) have them: there is no such program, and it did not answer.
NO_PROGRAM, NO_ANSWER = 127, 124
# What is asked of every GPU. Drivers before 510 know no compute_cap, and those before 450 no mode
# of MIG (multi-instance GPU), which came with the A100.
CAPABILITY, MIG = "compute_cap", "mig.mode.current"
# Errors are those since the driver was loaded, of all memories of the card. The same is in
# `nvidia-smi -q -x` under names that differ by generation.
FIELDS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
    CAPABILITY,
    MIG,
)
NEWER_FIELDS = (CAPABILITY, MIG)
USER_FIELDS = ("gpu_uuid", "pid", "process_name")
# 'Field "compute_cap" is not a valid field to query.'
NO_FIELD = re.compile(r'"(?P<field>[\w.]+)" is not a valid field')
# What nvidia-smi prints for what a model does not have; anything else in brackets is an error.
NOT_TOLD = ("N/A", "Not Supported")
# What it prints in place of a GPU's line where the driver gives it no handle, by release:
# "Unable to determine the device handle for GPU 0000:34:00.0: Unknown Error", "… for
# GPU0000:34:00.0: …", "… for GPU1: 0000:34:00.0: …".
NO_HANDLE = re.compile(
    r"^Unable to determine the device handle for GPU ?(?:(?P<number>\d+): )?"
    r"(?P<slot>[0-9A-Fa-f]+:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d): *(?P<trouble>\S.*)$",
    re.MULTILINE,
)
# AMD's targets of Instinct cards with bfloat16 in their matrix cores: MI100 (gfx908), MI200
# (gfx90a), MI300 (gfx940 to 942), MI350 (gfx950).
BF16_TARGETS = re.compile(r"gfx9(08|0a|[45][0-9a-f])")
# Lets programs of several users share a GPU, and computes nothing itself.
SHARING_SERVERS = ("nvidia-cuda-mps-server",)


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes:
        uuid: its identity, which stays when cards are added: `GPU-…`.
        slot: its place on the bus: `00000000:3B:00.0`.
        driver: release of the driver: `550.163.01`.
        memory_bytes: its memory; 0 where it does not tell.
        celsius: its temperature; None where it does not tell.
        uncorrected_errors: of its memories, since the driver was loaded; 0 where it counts none.
        capability: compute capability, `8.0`, or AMD's target, `gfx90a`; empty where the driver
            does not tell.
        trouble: why it does not answer: `GPU is lost`; empty where it does. Of one without a
            handle no more is known than number, slot and driver: its UUID and model are empty.
        vendor: NVIDIA or AMD.
        device: the file of an AMD GPU that a container gets: `/dev/dri/renderD128`.
        mig: whether it is in MIG mode, in which a program gets a part of it or nothing.
    """

    index: int
    uuid: str
    model: str
    slot: str
    driver: str
    memory_bytes: int
    celsius: int | None
    uncorrected_errors: int
    capability: str
    trouble: str = ""
    vendor: str = NVIDIA
    device: str = ""
    mig: bool = False

    @property
    def branch(self) -> int:
        """Branch of the driver, the first part of its release; 0 where that is not known."""
        return int(self.driver.partition(".")[0] or 0)

    @property
    def multiplies_bf16(self) -> bool:
        """Whether it multiplies bfloat16 itself; no where its capability is not known.

        NVIDIA's do from 8.0 on (CUDA C++ Programming Guide, compute capabilities), AMD's Instinct
        from the MI100 on.
        """
        if self.vendor == AMD:
            return BF16_TARGETS.fullmatch(self.capability) is not None
        return bool(self.capability) and _numbers(self.capability) >= (8, 0)

    def asdict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class GpuUser:
    """A process that computes on a GPU: the GPU's UUID, its pid, its program."""

    gpu: str
    pid: int
    program: str


def read_gpus(seconds: float | None = None) -> tuple[list[Gpu], str]:
    """Ask for all GPUs of this machine.

    Args:
        seconds: how long nvidia-smi may take, see `ask`.

    Returns:
        The GPUs by number, and why they could not be asked (empty where they could). Where some
        have no handle, nvidia-smi's status says so of all, and the others are there all the same.
    """
    fields: tuple[str, ...] = FIELDS
    status, said = _query("gpu", fields, seconds)
    # It names one at a time.
    for _ in NEWER_FIELDS:
        unknown = NO_FIELD.search(said)
        if status == 0 or unknown is None or unknown["field"] not in NEWER_FIELDS:
            break
        fields = tuple(field for field in fields if field != unknown["field"])
        status, said = _query("gpu", fields, seconds)
    gpus = parse_gpus(said) if status == 0 or NO_HANDLE.search(said) else []
    if status != 0 and all(gpu.trouble for gpu in gpus):
        return [], said or f"{SMI} ended with status {status}"
    return gpus, ""


def loaded_release(sys: str) -> str:
    """Release of NVIDIA's driver in the kernel; empty where none is loaded."""
    return read_text(f"{sys}/module/nvidia/version")


def parse_gpus(said: str) -> list[Gpu]:
    """Read the lines of nvidia-smi.

    What a GPU does not tell is printed as `[N/A]`. One that fell off the bus may still have a line
    with what the driver remembers of it, and an error in place of its memory, or a sentence in
    place of the line (NO_HANDLE).
    """
    gpus = []
    for row in csv.reader(said.splitlines(), skipinitialspace=True):
        if len(row) < len(FIELDS) - len(NEWER_FIELDS):
            continue  # a warning: "WARNING: infoROM is corrupted at gpu 0000:3B:00.0"
        # Of the fields behind them an older driver was not asked; their values tell them apart.
        index, uuid, model, slot, driver, memory, celsius, errors, *newer = row
        gpus.append(
            Gpu(
                index=int(index),
                uuid=uuid,
                model=model,
                slot=slot,
                driver=driver,
                memory_bytes=2**20 * (_number(memory) or 0),
                celsius=_number(celsius),
                uncorrected_errors=_number(errors) or 0,
                capability=next(filter(re.compile(r"\d+\.\d+").fullmatch, newer), ""),
                trouble=trouble_of(memory),
                mig="Enabled" in newer,
            )
        )
    gpus += _without_handle(said, gpus)
    return sorted(gpus, key=lambda gpu: gpu.index)


def _without_handle(said: str, others: list[Gpu]) -> list[Gpu]:
    """GPUs of which nvidia-smi says that they have no handle.

    The others keep their numbers, so one whose number it does not say has the lowest that is left.
    """
    taken = {gpu.index for gpu in others}
    # All GPUs of a machine have one driver.
    driver = others[0].driver if others else ""
    gpus = []
    for match in sorted(NO_HANDLE.finditer(said), key=lambda match: not match["number"]):
        index = int(match["number"] or -1)
        if index < 0 or index in taken:
            index = next(number for number in count() if number not in taken)
        taken.add(index)
        gpus.append(
            Gpu(
                index=index,
                uuid="",
                model="",
                slot=match["slot"],
                driver=driver,
                memory_bytes=0,
                celsius=None,
                uncorrected_errors=0,
                capability="",
                trouble=match["trouble"].strip(),
            )
        )
    return gpus


def trouble_of(value: str) -> str:
    """The error that nvidia-smi prints in place of a value; empty for a value, or for none."""
    error = re.fullmatch(r"\[(.+)\]", value)
    return error[1] if error and error[1] not in NOT_TOLD else ""


def read_gpu_users() -> list[GpuUser]:
    """Ask who computes on the GPUs; nobody where they cannot be asked."""
    status, said = _query("compute-apps", USER_FIELDS)
    if status != 0:
        return []
    rows = csv.reader(said.splitlines(), skipinitialspace=True)
    users = [GpuUser(row[0], int(row[1]), row[2]) for row in rows if len(row) == len(USER_FIELDS)]
    return [user for user in users if not user.program.endswith(SHARING_SERVERS)]


def chosen_gpus(gpus: list[Gpu], names: str) -> tuple[list[Gpu], list[str]]:
    """Choose GPUs by name.

    Args:
        names: `all`, or numbers and UUIDs with commas between; empty for none.

    Returns:
        The GPUs, each once and in the order in which they are named, and the names that none has.
    """
    if names == "all":
        return gpus, []
    by_name = {name: gpu for gpu in gpus for name in (str(gpu.index), gpu.uuid) if name}
    asked = [name.strip() for name in names.split(",") if name.strip()]
    chosen = dict.fromkeys(by_name[name] for name in asked if name in by_name)
    return list(chosen), [name for name in asked if name not in by_name]


def runs_on(built_for: list[str], capability: str) -> bool:
    """Whether programs built for some compute capabilities run on a GPU of another.

    Those for X.y run on X.z where z is not smaller (CUDA C++ Programming Guide, binary
    compatibility).
    """
    major, minor = _numbers(capability)
    return any(
        other_major == major and other_minor <= minor
        for other_major, other_minor in map(_numbers, built_for)
    )


def _number(text: str) -> int | None:
    """A number; None for `[N/A]` and for errors."""
    return int(text) if text.isdecimal() else None


def _numbers(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major), int(minor)


def ask_smi(*arguments: str, seconds: float | None = None) -> tuple[int, str]:
    """Exit status and output of nvidia-smi, see `ask`."""
    return ask(SMI, *arguments, seconds=seconds)


def ask(program: str, *arguments: str, seconds: float | None = None) -> tuple[int, str]:
    """Exit status and output of a program, or NO_PROGRAM or NO_ANSWER with the reason.

    One that hangs in the driver does not even end when it is killed, so nobody waits for it then.

    Args:
        seconds: how long it may take; SMI_SECONDS where nothing is said.
    """
    seconds = SMI_SECONDS if seconds is None else seconds
    try:
        process = subprocess.Popen(
            [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        return NO_PROGRAM, f"there is no {program}"
    try:
        said, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return NO_ANSWER, f"{program} gave no answer within {seconds} s"
    return process.returncode, (said if process.returncode == 0 else said + complaint).strip()


def _query(what: str, fields: tuple[str, ...], seconds: float | None = None) -> tuple[int, str]:
    question = (f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits")
    return ask_smi(*question, seconds=seconds)
