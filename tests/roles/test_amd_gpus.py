"""AMD GPUs: what is read of them, what keeps a run off, and what its container gets.

No hardware: the machine is a stand-in, see `amd_machine.py`; what rocm-smi says was recorded from
Debian's real program on such a tree.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from amd_machine import GPUS, MI210, UUIDS, AmdMachine, recorded, write
from ansible_here import Host
from test_launch_arguments import CONTAINER, START

from node.check import gpu_fit as fit
from node.check import gpu_health
from node.machine import amd, gpus
from node.machine import gpu_faults as training_node_gpu_faults
from node.runs import container as training_run_container
from node.verbs import start

CHECKOUT = Path(__file__).parents[2]
ROCM = {"trainyard.rocm": "7.1", "trainyard.capabilities": "gfx908 gfx90a gfx942"}
CUDA = {"trainyard.cuda": "12.8", "trainyard.driver": "525", "trainyard.capabilities": "8.0"}
RENDER = ["/dev/dri/renderD129", "/dev/dri/renderD128"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AmdMachine:
    machine = AmdMachine(tmp_path)
    monkeypatch.setattr(amd, "KFD", str(machine.kfd))
    monkeypatch.setattr(amd, "SMI_OF_AMD", "/nonexistent/rocm-smi")
    monkeypatch.setenv("PATH", f"{machine.root}/bin:/usr/bin:/bin")
    return machine


def look(
    machine: AmdMachine, names: str = "all", labels: dict[str, str] | None = None, **more: Any
) -> Any:
    labels = ROCM if labels is None else labels
    return fit.look_at_gpus(names, "trainer:1", labels, str(machine.sys), vendor="amd", **more)


def codes(machine: AmdMachine, **more: Any) -> list[str]:
    return [problem.code for problem in look(machine, **more).problems]


@pytest.mark.process
def test_the_gpus_have_the_form_of_nvidias(machine: AmdMachine) -> None:
    """rocm-smi's number 0 is the card on the lower bus, which the kernel lists second."""
    told, trouble = amd.read_amd_gpus(str(machine.sys))
    assert trouble == ""
    assert [gpu.asdict() for gpu in told] == [
        {
            "index": index,
            "uuid": UUIDS[index],
            "model": MI210,
            "slot": slot,
            "driver": "6.10.5",
            "memory_bytes": 68702699520,
            "celsius": 34,
            "uncorrected_errors": 0,
            "capability": "gfx90a",
            "trouble": "",
            "vendor": "amd",
            "device": RENDER[index],
            "mig": False,
        }
        for index, slot in enumerate(("0000:43:00.0", "0000:63:00.0"))
    ]
    assert told[0].asdict().keys() == gpus.parse_gpus(NVIDIA_LINE)[0].asdict().keys()


NVIDIA_LINE = "0, GPU-1, Tesla T4, 00000000:01:00.0, 550.163.01, 15360, 40, 0, 7.5\n"


@pytest.mark.parametrize(
    ("version", "target"),
    [
        (90000, "gfx900"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (100300, "gfx1030"),
        (110001, "gfx1101"),
    ],
)
def test_a_target_has_the_name_that_compilers_know(version: int, target: str) -> None:
    """rocm-smi 6.1.2 calls 90010 gfx9010, which no compiler knows."""
    assert amd.target_of(version) == target


@pytest.mark.parametrize(
    ("card", "model"),
    [
        # github.com/ROCm/rocm_smi_lib issue 159
        ({"Card Series": "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2"}, "AMD INSTINCT MI200"),
        # github.com/easybuilders/easybuild-framework pull request 3978, release 4.5
        ({"Card series": "Arcturus GL-XL [AMD Instinct MI100]"}, "Arcturus GL-XL"),
        # github.com/ROCm/legacy-rocm-build issue 1351: a card whose name the release does not know
        ({"Card series": "0x738c", "Card Model": "0x0c34"}, "AMD GPU 0x0c34"),
        # github.com/sebhildebrandt/systeminformation pull request 960, release 6.2.4
        ({"Device Name": "Phoenix3"}, "Phoenix3"),
        ({"Card Series": "N/A"}, "AMD GPU gfx90a"),
    ],
)
def test_the_model_is_found_in_all_releases(
    machine: AmdMachine, card: dict[str, str], model: str
) -> None:
    nodes = amd.kfd_nodes(str(machine.sys))
    (gpu,) = amd.parse_cards(
        {"card4": {"PCI Bus": "0000:63:00.0", **card}, "system": {}}, nodes, str(machine.sys)
    )
    assert (gpu.index, gpu.model[: len(model)]) == (4, model)


def test_a_temperature_may_be_of_the_junction_alone(machine: AmdMachine) -> None:
    """Instinct MI300, and what a card does not tell (same pull request 960, `N/A`)."""
    cards = recorded("mi210")
    cards["card0"] = {
        name: "N/A" if name == "Temperature (Sensor edge) (C)" else text
        for name, text in cards["card0"].items()
    }
    cards["card1"] |= dict.fromkeys(amd.SENSORS, "N/A")
    hot, untold = amd.parse_cards(cards, amd.kfd_nodes(str(machine.sys)), str(machine.sys))
    assert (hot.celsius, hot.trouble, untold.celsius, untold.trouble) == (37, "", None, "")


@pytest.mark.process
def test_a_card_for_displays_and_a_card_without_a_number_of_its_own(machine: AmdMachine) -> None:
    path = machine.topology / "3/properties"
    path.write_text(path.read_text().replace("unique_id 5847760019078012339", "unique_id 0"))
    path = machine.topology / "2/properties"
    path.write_text(path.read_text().replace("gfx_target_version 90010", "gfx_target_version 0"))
    (gpu,) = amd.read_amd_gpus(str(machine.sys))[0]
    assert (gpu.index, gpu.uuid) == (0, "PCI-0000:43:00.0")


@pytest.mark.process
def test_a_healthy_node_is_fit(machine: AmdMachine) -> None:
    told = look(machine)
    assert (told.problems, [gpu.index for gpu in told.idle]) == ([], [0, 1])
    assert [gpu.device for gpu in look(machine, UUIDS[1]).gpus] == [RENDER[1]]


def test_the_driver_is_missing(machine: AmdMachine) -> None:
    machine.unload()
    (problem,) = look(machine).problems
    assert problem.code == "gpu_driver_missing"
    assert "it has AMD GPUs (2), but no driver for them answers: amdgpu is not loaded" in (
        problem.text
    )
    assert "modprobe amdgpu" in problem.remedy
    assert "nvidia" not in problem.text.lower()
    assert not (machine.root / "asked").exists(), "rocm-smi is not asked then"


def test_there_is_no_kfd(machine: AmdMachine) -> None:
    machine.kfd.unlink()
    (problem,) = look(machine).problems
    assert problem.code == "gpu_driver_missing"
    assert f"there is no {machine.kfd}" in problem.text


def test_there_is_no_card(machine: AmdMachine) -> None:
    machine.unload()
    for _, _, bus, *_ in GPUS:
        write(machine.device(bus) / "vendor", "0x10de")
    (problem,) = look(machine).problems
    assert (problem.code, "lspci -d 1002:" in problem.remedy) == ("gpu_absent", True)


def test_nobody_waits_for_rocm_smi_where_the_kernel_lists_no_gpu(machine: AmdMachine) -> None:
    """There release 6.1.2 never ends: it did not within 10 minutes on such a tree."""
    for node, *_ in GPUS:
        (machine.topology / f"{node}/properties").write_text("simd_count 0\n")
    assert codes(machine) == ["gpu_silent"]
    assert not (machine.root / "asked").exists()


@pytest.mark.process
def test_rocm_smi_is_missing_or_says_nothing(
    machine: AmdMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.root / "bin/rocm-smi").write_text("#!/bin/sh\necho ERROR >&2\n")
    (problem,) = look(machine).problems
    assert "cannot be asked: rocm-smi says nothing" in problem.text
    (machine.root / "bin/rocm-smi").write_text("#!/bin/sh\necho WARNING: no data\n")
    (problem,) = look(machine).problems
    assert "cannot be asked: rocm-smi says WARNING: no data" in problem.text
    monkeypatch.setenv("PATH", "/nonexistent")
    (problem,) = look(machine).problems
    assert "cannot be asked: there is no rocm-smi: run make setup" in problem.text


@pytest.mark.process
def test_a_card_that_cannot_be_read_is_lost(machine: AmdMachine) -> None:
    """The real program left out load and temperature of one, and remembered its memory."""
    machine.say("mi210-unreadable")
    (problem,) = look(machine).problems
    assert problem.code == "gpu_lost"
    assert "its GPU 0, Aldebaran/MI200 [Instinct MI210], does not answer" in problem.text
    assert "grep -i amdgpu" in problem.remedy
    assert [gpu.index for gpu in look(machine, wanted=1).idle] == [1]
    assert codes(machine, wanted=1) == []


@pytest.mark.process
def test_a_gpu_in_use_is_busy(machine: AmdMachine) -> None:
    machine.process(os.getpid(), GPUS[0][1], 1_200_000_000)
    (problem,) = look(machine).problems
    assert problem.code == "gpu_busy"
    assert re.search(rf"its GPU 1 is in use by \S.* \(pid {os.getpid()}\)", problem.text)
    assert codes(machine, held=[UUIDS[1]]) == []
    assert codes(machine, names="0") == []


@pytest.mark.process
def test_a_gpu_that_is_not_there(machine: AmdMachine) -> None:
    (problem,) = look(machine, "0,5").problems
    assert (problem.code, problem.values["present"]) == ("gpu_not_there", "0, 1")
    assert "rocm-smi" in problem.remedy


@pytest.mark.process
@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ({}, "image_without_rocm"),
        (CUDA, "image_of_other_gpus"),
        ({**ROCM, "trainyard.capabilities": "gfx906 gfx942"}, "gpu_not_built_for"),
    ],
)
def test_the_image_must_fit(machine: AmdMachine, labels: dict[str, str], code: str) -> None:
    assert set(codes(machine, labels=labels)) == {code}


def test_an_image_for_amd_is_refused_on_nvidias_gpus() -> None:
    there = gpus.parse_gpus(NVIDIA_LINE)
    (problem,) = fit.image_problems(there, "trainer:1", ROCM)
    assert problem.text.startswith(
        "it has NVIDIA GPUs, and the image trainer:1 is for those of AMD"
    )
    assert "INVENTORY=" in problem.remedy


@pytest.mark.process
def test_the_end_of_a_run_finds_what_went_wrong(
    machine: AmdMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys = str(machine.sys)
    before = [gpu.asdict() for gpu in amd.read_amd_gpus(sys)[0]]
    faults = training_node_gpu_faults
    monkeypatch.setattr(faults, "read_amd_gpus", lambda: amd.read_amd_gpus(sys))
    monkeypatch.setattr(faults, "kernel_log", lambda: "")
    monkeypatch.delattr(faults, "read_gpus")
    assert faults.gpu_faults(before, 0.0) == []
    write(machine.device(GPUS[0][2]) / "ras/umc_err_count", "ue: 2\nce: 5")
    ecc = ("gpu_ecc_errors", {"gpu": 1, "model": MI210, "errors": 2})
    assert faults.gpu_faults(before, 0.0) == [ecc]
    machine.say("mi210-unreadable")
    lost = ("gpu_lost", {"gpu": 0, "model": MI210, "message": amd.UNREADABLE})
    assert faults.gpu_faults(before, 0.0) == [lost, ecc]
    machine.unload()
    assert [code for code, _ in faults.gpu_faults(before, 0.0)] == ["gpu_lost", "gpu_lost"]


@pytest.mark.process
def test_verify_judges_them_like_nvidias(
    machine: AmdMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_health, "kernel_log", lambda: "")

    def faults(count: int, model: str) -> list[str]:
        told, trouble = gpu_health.read_gpus("amd", str(machine.sys))
        checks = gpu_health.gpu_checks(told, trouble, count, model, 85)
        return [check.code for check in checks if check.code]

    assert faults(2, MI210) == []
    assert faults(4, "MI300X") == ["gpus_missing", "gpu_other_model", "gpu_other_model"]
    assert gpu_health.driver_release(str(machine.sys)) == "6.10.5"
    machine.say("mi210-unreadable")
    assert faults(2, MI210) == ["gpu_lost"]
    machine.unload()
    assert faults(2, MI210) == ["gpus_silent"]
    assert gpu_health.driver_release(str(machine.sys)) == ""


def test_the_driver_of_the_distributions_kernel_has_its_release(machine: AmdMachine) -> None:
    (machine.sys / "module/amdgpu/version").unlink()
    assert gpu_health.driver_release(str(machine.sys)) == os.uname().release


def test_the_load_is_that_of_the_kernels_files(
    machine: AmdMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(machine.device(0x43) / "gpu_busy_percent", 87)
    write(machine.device(0x63) / "product_name", "AMD Instinct MI210")
    (machine.device(0x63) / "gpu_busy_percent").unlink()
    samples = amd.sample_amd_gpus(str(machine.sys))
    shown = ("index", "name", "utilisation_percent", "memory_used_bytes")
    assert [tuple(sample[name] for name in shown) for sample in samples] == [
        (0, "AMD GPU gfx90a", 87, 11743232),
        (1, "AMD Instinct MI210", None, 11743232),
    ]


def host_configuration(
    monkeypatch: pytest.MonkeyPatch, kfd: Path, files: Sequence[Path] = (), **more: Any
) -> dict[str, Any]:
    """Of a container with these files of GPUs, with a stand-in for /dev/kfd."""
    monkeypatch.setattr(training_run_container, "KFD", str(kfd))
    asked = START.container._replace(render_devices=[str(file) for file in files])
    container = replace(CONTAINER, run=START._replace(container=asked), **more)
    configuration: dict[str, Any] = container.host_configuration()
    return configuration


def test_a_container_gets_its_gpus_and_their_groups(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("kfd", "renderD128", "renderD129")]
    for file, gid in zip(files, (105, 105, 44), strict=True):
        write(file, "")
        with suppress(PermissionError):  # only root gives files away
            os.chown(file, -1, gid)
    kfd, first, second = files
    given = host_configuration(monkeypatch, kfd, [first])
    assert [device["PathOnHost"] for device in given["Devices"]] == [str(kfd), str(first)]
    assert {device["CgroupPermissions"] for device in given["Devices"]} == {"rw"}
    assert given["GroupAdd"] == [str(first.stat().st_gid)]
    assert "DeviceRequests" not in given
    rdma = ("/dev/infiniband/uverbs0",)
    both = host_configuration(monkeypatch, kfd, [first, second], rdma=rdma)
    groups = {file.stat().st_gid for file in files}
    assert both["GroupAdd"] == [str(gid) for gid in sorted(groups)]
    assert both["Devices"][-1]["PathOnHost"] == "/dev/infiniband/uverbs0"
    assert both["Ulimits"] == [
        {"Name": "core", "Soft": 0, "Hard": -1},
        {"Name": "memlock", "Soft": -1, "Hard": -1},
    ]


def test_a_container_without_gpus_gets_no_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = host_configuration(monkeypatch, tmp_path / "kfd")
    assert not {"Devices", "GroupAdd"} & given.keys()


@pytest.mark.parametrize("path", ["/dev/sda", "/dev/dri/card0", "/dev/dri/renderD128/../../sda"])
def test_a_node_cannot_have_another_file_given_to_a_container(path: str) -> None:
    assert start.RENDER.fullmatch("/dev/dri/renderD128")
    assert not start.RENDER.fullmatch(path)


@pytest.mark.parametrize(
    ("group", "wanted", "given"),
    [
        ("amd_nodes", 0, ["", RENDER]),
        ("amd_nodes", 1, ["", RENDER[1:]]),
        ("gpu_nodes", 0, ["all", []]),
        ("gpu_nodes", 1, ["1", []]),
        ("other", 0, ["", []]),
    ],
)
def test_a_run_hands_on_what_its_node_has(group: str, wanted: int, given: list[Any]) -> None:
    """NVIDIA's by number, AMD's as files: what roles training_node and training_run make of it."""
    devices = [
        {"uuid": uuid, "index": index, "device": RENDER[index]} for index, uuid in enumerate(UUIDS)
    ]
    held = [{"uuid": UUIDS[1], "index": 1}] if wanted else []
    settings = {
        "training_node_probed": {"answer": {"gpu_devices": devices}},
        "training_run_taken": {"gpus": held, "part": 1.0},
        "training_run_gpus_per_node": wanted,
        # What the container has beside these.
        "trainer_image_reference": "image",
        "training_run_user": "trainer",
        "training_run_dataset": "cifar10",
    }
    groups = {
        "group_names": ["trainers", group],
        "groups": {"trainers": ["node1"], group: ["node1"]},
    }
    node = Host("training_node", {**groups, "ansible_play_hosts": ["node1"]}, "node1")
    run = Host("training_run", {**node.variables, **settings}, "node1")
    container = run.value("training_run_container")
    assert [container["gpus"], container["render_devices"]] == given
    assert run.value("'rocm-smi' in training_node_packages") == (group == "amd_nodes")


@pytest.mark.promise("row 33")
def test_the_image_for_amd_can_be_built() -> None:
    entry = yaml.safe_load((CHECKOUT / "docker/trainer/rocm.yml").read_text())["rocm"]
    variables = yaml.safe_load((CHECKOUT / "roles/trainer_image/vars/main.yml").read_text())
    lists = CHECKOUT / "docker/trainer/requirements"
    recipe = variables["trainer_image_recipes"]["rocm"]
    assert recipe["lists"] == ["horovod", "rocm-index", "rocm"]
    assert f"\ntorch=={entry['torch']}\n" in (lists / "rocm-index.txt").read_text()
    # What pip takes from PyPI has a hash; PyTorch is none of it.
    locked = (lists / "rocm.txt").read_text()
    assert not re.search(r"^(torch|torchvision|nvidia-c\w+|triton)==", locked, re.M)
    dockerfile = (CHECKOUT / "docker/trainer" / recipe["dockerfile"]).read_text()
    assert f"AS {recipe['stage']}\n" in dockerfile
    assert dockerfile.count(f"ARG TORCH_VERSION={entry['torch']}\n") == 1
    assert dockerfile.count(f'ARG CAPABILITIES="{" ".join(entry["capabilities"])}"\n') == 2
    assert 'trainyard.transports="tcp ucx rccl"' in dockerfile
    transports = yaml.safe_load((CHECKOUT / "group_vars/all/transport.yml").read_text())
    assert transports["training_transports"]["rccl"]["needs_gpu"] is True
    cleaned = (CHECKOUT / "playbooks/clean_up.yml").read_text()
    assert "- trainyard/trainer-rocm\n" in cleaned
