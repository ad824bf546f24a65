"""What `make verify` reads out of nvidia-smi, whose answers are in `data/gpus`."""

import json
from pathlib import Path
from typing import Any

import pytest

from node.check import gpu_health as module
from node.machine.gpus import parse_gpus

RECORDED = Path(__file__).parents[1] / "roles/data/gpus"
MODEL = "NVIDIA A100-SXM4-40GB"
# Lines of the kernel's log in the form of docs.nvidia.com/deploy/xid-errors.
LOG = """[ 100.1] NVRM: Xid (PCI:0000:0f:00): 79, pid=1234, GPU has fallen off the bus.
[ 200.2] NVRM: Xid (PCI:0000:07:00): 31, pid=77, name=python3, Ch 0000000a, MMU Fault
[ 300.3] NVRM: Xid (PCI:0000:0f:00): 48, pid='<unknown>', Double Bit ECC Error
"""


def recorded(machine: str, log: str = "", more: str = "") -> list[dict[str, Any]]:
    """The GPUs of a machine."""
    said = json.loads((RECORDED / f"{machine}.json").read_text())
    gpus = parse_gpus(said["gpus"] + more)
    found: list[dict[str, Any]] = module.state_of(gpus, said["table"], log)
    return found


def faults(gpus: list[dict[str, Any]], count: int, model: str = MODEL) -> dict[str, Any]:
    """Subject and value by code."""
    checks = module.gpu_checks(gpus, "", count, model, 85)
    return {check.code: (check.subject, check.value) for check in checks if check.code}


@pytest.mark.parametrize(
    ("machine", "driver", "cuda", "model", "gigabytes", "count"),
    [
        ("t4-535", "535.183.01", "12.2", "NVIDIA T4", 16, 4),
        ("a100-550", "550.163.01", "12.4", MODEL, 40, 2),
        ("h100-580", "580.65.06", "13.0", "NVIDIA H100 80GB HBM3", 80, 2),
    ],
)
def test_healthy_cards_are_read(
    machine: str, driver: str, cuda: str, model: str, gigabytes: int, count: int
) -> None:
    gpus = recorded(machine)
    assert [gpu["index"] for gpu in gpus] == list(range(count))
    assert {(gpu["driver"], gpu["cuda"], gpu["model"]) for gpu in gpus} == {(driver, cuda, model)}
    assert {gpu["memory_bytes"] for gpu in gpus} == {gigabytes * 2**30}
    assert faults(gpus, count, model) == {}


def test_the_cuda_of_newer_drivers_is_read() -> None:
    # sgl-project/sglang#27487
    table = (
        "| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     "
        "CUDA UMD Version: 13.3     |"
    )
    said = json.loads((RECORDED / "a100-550.json").read_text())["gpus"]
    assert {gpu["cuda"] for gpu in module.state_of(parse_gpus(said), table, "")} == {"13.3"}


@pytest.mark.parametrize(
    ("machine", "code", "value"),
    [
        ("a100-550-hot", "gpu_hot", 91),
        ("a100-550-ecc-errors", "gpu_ecc_errors", 2),
        ("a100-550-lost", "gpu_lost", "GPU is lost"),
    ],
)
def test_the_bad_card_is_named(machine: str, code: str, value: Any) -> None:
    assert faults(recorded(machine), 3) == {code: ("GPU 1", value)}


def test_faults_of_the_kernels_log_are_given_to_their_card() -> None:
    gpus = recorded("a100-550", LOG)
    # A program's own fault (31) says nothing about the card.
    assert [gpu["xids"] for gpu in gpus] == [[], [48, 79]]
    assert faults(gpus, 2) == {"gpu_xid_errors": ("GPU 1", "48, 79")}


def test_a_card_without_a_handle_is_lost() -> None:
    more = "Unable to determine the device handle for GPU2: 0000:47:00.0: Unknown Error\n"
    assert faults(recorded("a100-550", more=more), 3) == {"gpu_lost": ("GPU 2", "Unknown Error")}


def test_another_number_and_another_model_are_named() -> None:
    found = faults(recorded("a100-550"), 4, "NVIDIA H100 80GB HBM3")
    assert found == {"gpus_missing": ("", 2), "gpu_other_model": ("GPU 1", MODEL)}


def test_a_warning_is_no_card() -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:0F:00.0\n"
    assert recorded("a100-550", more=warning) == recorded("a100-550")


def test_what_a_card_does_not_tell_is_no_fault() -> None:
    # Cards for screens count no errors, and some do not tell their temperature.
    said = "0, GPU-1, NVIDIA RTX A5000, 00000000:81:00.0, 550.163.01, 24564, [N/A], [N/A], 8.6\n"
    (gpu,) = module.state_of(parse_gpus(said), "", "")
    assert (gpu["celsius"], gpu["uncorrected_errors"], gpu["trouble"]) == (None, 0, "")


def test_a_driver_that_does_not_answer_is_a_finding() -> None:
    (found,) = module.gpu_checks([], "NVIDIA-SMI has failed", 8, "", 85)
    assert found.code == "gpus_silent"
    assert "NVIDIA-SMI has failed" in found.reason()
