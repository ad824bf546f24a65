"""What goes wrong with the GPUs of a run while it goes on, as its end finds it.

Answers are recorded; the kernel's lines are in the form of
docs.nvidia.com/deploy/xid-errors.
"""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_machines import RECORDED, have_smi_hang

from node.machine import gpu_faults as faults
from node.machine import gpus as training_node_gpus
from node.machine.gpus import Gpu, parse_gpus

LOG = """[  100.100000] NVRM: Xid (PCI:0000:0f:00): 79, pid=1234, GPU has fallen off the bus.
[  200.200000] NVRM: Xid (PCI:0000:07:00): 31, pid=77, name=python3, Ch 0000000a, MMU Fault
[  300.300000] NVRM: Xid (PCI:0000:0f:00): 48, pid='<unknown>', Double Bit ECC Error
"""


def recorded(machine: str) -> list[Gpu]:
    found: list[Gpu] = parse_gpus(json.loads((RECORDED / f"{machine}.json").read_text())["gpus"])
    return found


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the machine tell this at the end of a run."""

    def tell(gpus: list[Gpu], silent: str = "", log: str = "") -> None:
        monkeypatch.setattr(faults, "read_gpus", lambda: (gpus, silent))
        monkeypatch.setattr(faults, "kernel_log", lambda: log)

    return tell


BEFORE = [gpu.asdict() for gpu in recorded("a100-550")]


def test_a_run_on_which_nothing_happened_has_no_faults(later: Any) -> None:
    later(recorded("a100-550"))
    assert faults.gpu_faults(BEFORE, 0.0) == []


def test_a_run_without_gpus_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(faults, "read_gpus")
    assert faults.gpu_faults([], 0.0) == []


@pytest.mark.parametrize(
    ("machine", "code", "values"),
    [
        ("a100-550-lost", "gpu_lost", {"message": "GPU is lost"}),
        ("a100-550-ecc-errors", "gpu_ecc_errors", {"errors": 2}),
    ],
)
def test_the_gpu_that_fell_ill_is_named(
    machine: str, code: str, values: dict[str, Any], later: Any
) -> None:
    later(recorded(machine))
    who = {"gpu": 1, "model": "NVIDIA A100-SXM4-40GB"}
    assert faults.gpu_faults(BEFORE, 0.0) == [(code, {**who, **values})]
    # A GPU of other runs is none of this one's.
    assert faults.gpu_faults(BEFORE[:1], 0.0) == []
    # It was so before the run began.
    ill = [gpu.asdict() for gpu in recorded(machine)]
    assert faults.gpu_faults(ill, 0.0) == []


def test_a_driver_that_answers_no_more_has_lost_them_all(later: Any) -> None:
    later([], silent="Unable to determine the device handle for GPU0000:07:00.0:\nUnknown Error")
    found = faults.gpu_faults(BEFORE, 0.0)
    assert [code for code, _ in found] == ["gpu_lost", "gpu_lost"]
    assert found[0][1]["message"].endswith("GPU0000:07:00.0: Unknown Error")


def test_a_gpu_that_has_no_handle_any_more_is_lost_and_no_other(later: Any) -> None:
    said = json.loads((RECORDED / "a100-550.json").read_text())["gpus"].splitlines()
    said[1] = "Unable to determine the device handle for GPU1: 0000:0F:00.0: Unknown Error"
    later(parse_gpus("\n".join(said)))
    ((code, values),) = faults.gpu_faults(BEFORE, 0.0)
    assert (code, values["gpu"], values["message"]) == ("gpu_lost", 1, "Unknown Error")
    # It was so before the run began.
    assert faults.gpu_faults([gpu.asdict() for gpu in parse_gpus("\n".join(said))], 0.0) == []


def test_a_gpu_that_is_listed_no_more_is_lost(later: Any) -> None:
    later(recorded("a100-550")[:1])
    ((code, values),) = faults.gpu_faults(BEFORE, 0.0)
    assert (code, values["gpu"], values["message"]) == ("gpu_lost", 1, "it is no longer there")


def test_what_an_earlier_version_noted_is_read(later: Any) -> None:
    later(recorded("a100-550-ecc-errors"))
    noted = [{key: gpu[key] for key in gpu if key != "uncorrected_errors"} for gpu in BEFORE]
    assert faults.gpu_faults(noted, 0.0) == []


@pytest.mark.process
def test_a_program_that_hangs_in_the_driver_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_smi_hang(tmp_path, monkeypatch)
    monkeypatch.setattr(training_node_gpus, "SMI_SECONDS", 0.2)
    status, said = training_node_gpus.ask_smi()
    assert (status, said) == (
        training_node_gpus.NO_ANSWER,
        "nvidia-smi gave no answer within 0.2 s",
    )


def test_the_drivers_faults_count_from_the_beginning_of_the_run(later: Any) -> None:
    later(recorded("a100-550"), log=LOG)
    assert [values["xids"] for _, values in faults.gpu_faults(BEFORE, 0.0)] == ["48, 79"]
    ((code, values),) = faults.gpu_faults(BEFORE, 250.0)
    assert (code, values["gpu"], values["xids"]) == ("gpu_xid_errors", 1, "48")
    assert faults.gpu_faults(BEFORE, 400.0) == []


def test_the_same_bus_of_another_domain_is_another_card(later: Any) -> None:
    ours = [{**BEFORE[0], "slot": "00000000:0F:00.0"}, {**BEFORE[1], "slot": "00000003:0F:00.0"}]
    later(recorded("a100-550"), log=LOG.replace("PCI:0000:0f", "PCI:0003:0f"))
    ((code, values),) = faults.gpu_faults(ours, 0.0)
    assert (code, values["gpu"], values["xids"]) == ("gpu_xid_errors", 1, "48, 79")


def test_the_faults_of_a_part_of_a_gpu_are_those_of_the_gpu() -> None:
    log = "[ 1.5] NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 48, pid=77, name=python3, Double Bit ECC\n"
    assert faults.xids(log) == {"0000:3b:00": [48]}


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("00000000:3B:00.0", "0000:3b:00"),
        ("0000:3b:00", "0000:3b:00"),
        ("3b:00.0", "0000:3b:00"),
        ("00010000:01:00.0", "10000:01:00"),
    ],
)
def test_a_place_on_the_bus_is_written_in_one_way(text: str, slot: str) -> None:
    assert faults.bus_slot(text) == slot


def test_the_worst_is_told_first(later: Any) -> None:
    ill = [replace(gpu, uncorrected_errors=3) for gpu in recorded("a100-550")]
    ill[1] = replace(ill[1], trouble="GPU is lost", uncorrected_errors=0)
    later(ill, log=LOG)
    told = [(code, values["gpu"]) for code, values in faults.gpu_faults(BEFORE, 0.0)]
    assert told == [("gpu_lost", 1), ("gpu_ecc_errors", 0), ("gpu_xid_errors", 1)]


def test_a_files_age_is_told_on_the_clock_of_the_kernels_log(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.touch()
    os.utime(path, (time.time() - 30,) * 2)
    age = time.clock_gettime(time.CLOCK_MONOTONIC) - faults.seconds_since_start(str(path))
    assert age == pytest.approx(30, abs=5)
