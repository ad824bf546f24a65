"""The project's own look at GPUs, with the real nvidia-smi on NVIDIA's mock of its library.

Skipped where the tools are not there; the outputs that they give are kept in `data/gpus`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import record_gpus
import yaml
from ansible.module_utils import cluster_check_gpus as health
from ansible.module_utils import cluster_check_nodes
from ansible.module_utils.cluster_check_cluster import Cluster, Thresholds
from ansible.module_utils.local_cluster_gpu_tools import (
    TOOLS,
    GpuToolsError,
    fetch_hook,
    fetch_smi,
    find_tools,
)
from ansible.module_utils.local_cluster_gpus import KERNEL, GpuMachine, configure
from ansible.module_utils.trainer_image_fit import choose_image, read_images, read_node
from gpu_machines import CHECKOUT, GPU_CACHE, FakeDriver
from role_files import ROLES

from node.check import gpu_fit as fit
from node.machine import load as training_node_load
from node.machine.gpu_faults import gpu_faults
from node.machine.gpus import read_gpus

TABLE = yaml.safe_load((CHECKOUT / "docker/trainer/cuda.yml").read_text())
# What images say of themselves, by the CUDA in them: 13.0, 12.8, and 12.6 of cuda12-legacy.
IMAGES = {
    image["cuda"]: {
        "trainyard.cuda": image["cuda"],
        "trainyard.driver": str(image["driver"]),
        "trainyard.capabilities": " ".join(image["capabilities"]),
    }
    for image in TABLE.values()
}
DRIVERS = {"535": "535.183.01", "550": "550.163.01", "580": "580.65.06"}

# What an engine tells of itself, without NVIDIA's toolkit and with it. Debian's 20.10.24 and 26.1.5
# are asked themselves in molecule/nvidia_container_toolkit (verify_tasks/gang.yml).
BEFORE = {"Runtimes": {"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}}}
AFTER = {"Runtimes": {**BEFORE["Runtimes"], "nvidia": {"path": "nvidia-container-runtime"}}}
THRESHOLDS = Thresholds(
    same_releases=("openmpi", "docker"),
    clock_seconds=1.0,
    bandwidth_gigabits=1.0,
    latency_milliseconds=10.0,
    allreduce_gigabits=0.5,
    gpu_slowness=1.15,
)

Drive = Callable[[str, int, str], FakeDriver]


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Give this machine GPUs: `drive("t4", 4, "550.163.01")`."""

    def make(profile: str, count: int, driver: str) -> FakeDriver:
        made = FakeDriver(tmp_path / "machine", profile, count, driver)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        return made

    return make


def problems_of(driver: FakeDriver, cuda: str, names: str = "all") -> list[Any]:
    """What the gang check finds at a machine for an image of a CUDA."""
    sys_of_machine = str(driver.root / KERNEL / "sys")
    found: list[Any] = fit.look_at_gpus(names, "trainer:1", IMAGES[cuda], sys_of_machine).problems
    return found


def faults_of(count: int, model: str = "", celsius: float = 85) -> dict[str, str]:
    """What `make verify` finds at this machine: subject by code."""
    told, trouble = health.read_gpus()
    checks = health.gpu_checks(told, trouble, count, model, celsius)
    return {coded.code: coded.check.subject for coded in checks if coded.code}


def verdicts(
    driver: FakeDriver, cuda: str, count: int, engine: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Codes of the gang check, and those of `make verify`, for this machine and an image.

    Args:
        driver: of the machine.
        cuda: of the image.
        count: number of GPUs that the inventory says it has.
        engine: what its engine tells of itself.
    """
    problems = [*fit.runtime_problems(engine), *problems_of(driver, cuda)]
    told, trouble = health.read_gpus()
    checks = health.gpu_checks(told, trouble, count, "", 85)
    probe = {
        "checks": [],
        "run": "",
        "image_id": "sha256:1",
        "gpus": len(told),
        "problems": [found.asdict() for found in problems],
    }
    node = {
        "checks": [check.asdict() for check in checks],
        "releases": {"openmpi": "5.0.7", "docker": "26.1"},
    }
    cluster = Cluster({"node1": {"probe": probe, "node": node}}, THRESHOLDS)
    findings = cluster_check_nodes.judge_nodes(cluster)
    return [found.code for found in problems], [found.code for found in findings if not found.ok]


@pytest.fixture
def pascal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A profile of ours, which NVIDIA's mock does not have: a GTX 1080, made of that of the T4."""
    try:
        tools = find_tools(CHECKOUT, os.environ.get(TOOLS, ""))
    except GpuToolsError as error:
        pytest.skip(str(error))
    profile = yaml.safe_load((tools / "configs/mock-nvml-config-t4.yaml").read_text())
    card = profile["device_defaults"]
    card |= {"name": "NVIDIA GeForce GTX 1080", "architecture": "pascal"}
    card["compute_capability"] = {"major": 6, "minor": 1}
    card["memory"] |= {"total_bytes": 8 * 2**30, "free_bytes": 8 * 2**30 - 300 * 2**20}
    card["pci"]["device_id"] = 0x1B8010DE
    ours = tmp_path / "tools"
    (ours / "configs").mkdir(parents=True)
    (ours / "configs/mock-nvml-config-gtx1080.yaml").write_text(yaml.safe_dump(profile))
    (ours / "lib").symlink_to(tools / "lib")
    (ours / "bin").symlink_to(tools / "bin")
    monkeypatch.setenv(TOOLS, str(ours))
    return "gtx1080"


@pytest.mark.parametrize("cuda", IMAGES)
@pytest.mark.parametrize("branch", DRIVERS)
def test_an_image_is_held_against_the_driver(branch: str, cuda: str, drive: Drive) -> None:
    driver = drive("a100", 2, DRIVERS[branch])
    codes = [problem.code for problem in problems_of(driver, cuda)]
    assert codes == (["gpu_driver_old"] if cuda == "13.0" and branch != "580" else [])
    if codes:
        (problem,) = problems_of(driver, cuda)
        assert DRIVERS[branch] in problem.text
        assert "580" in problem.text


@pytest.mark.parametrize(
    ("profile", "cuda", "code"),
    [
        ("t4", "12.8", ""),
        ("t4", "13.0", ""),
        ("b200", "12.8", "gpu_not_built_for"),
        ("b200", "13.0", ""),
        # 8.9 runs what is built for 8.0
        ("l40s", "13.0", ""),
    ],
)
def test_an_image_is_held_against_the_capability(
    profile: str, cuda: str, code: str, drive: Drive
) -> None:
    codes = [code] * bool(code)
    assert verdicts(drive(profile, 1, "580.65.06"), cuda, 1, AFTER) == (codes, codes)


@pytest.mark.parametrize("cuda", IMAGES)
@pytest.mark.parametrize("branch", DRIVERS)
def test_launch_and_verify_say_the_same_of_driver_and_image(
    branch: str, cuda: str, drive: Drive
) -> None:
    driver = drive("a100", 2, DRIVERS[branch])
    codes = ["gpu_driver_old"] if cuda == "13.0" and branch != "580" else []
    assert verdicts(driver, cuda, 2, AFTER) == (codes, codes)


@pytest.mark.parametrize("branch", DRIVERS)
def test_a_gpu_that_is_too_old_gets_the_image_that_knows_it(
    branch: str, drive: Drive, pascal: str
) -> None:
    driver = drive(pascal, 1, DRIVERS[branch])
    newest = "gpu_not_built_for" if branch == "580" else "gpu_driver_old"
    for cuda, codes in (("13.0", [newest]), ("12.8", ["gpu_not_built_for"]), ("12.6", [])):
        assert verdicts(driver, cuda, 1, AFTER) == (codes, codes)
    (problem,) = problems_of(driver, "12.8")
    assert "NVIDIA GeForce GTX 1080, has compute capability 6.1" in problem.text
    # What make setup chooses by.
    names: dict[str, Any] = {"__name__": "nvidia_driver_foresee"}
    path = ROLES / "nvidia_driver/library/nvidia_driver_foresee.py"
    exec(compile(path.read_text(), str(path), "exec"), names)
    by_driver, by_bus_alone = read_gpus()[0], list[Any]()
    for answered in (by_driver, by_bus_alone):
        gpus = names["merge"](answered, str(driver.root / KERNEL / "sys"))
        node = read_node("a", {"loaded": DRIVERS[branch], "installs": 0, "gpus": gpus})
        assert choose_image(read_images(TABLE), [node]).name == "cuda12-legacy"


def test_an_engine_without_the_toolkit_is_named(drive: Drive) -> None:
    driver = drive("t4", 2, "550.163.01")
    codes = ["gpu_runtime_missing"]
    assert verdicts(driver, "12.8", 2, BEFORE) == (codes, codes)
    assert verdicts(driver, "12.8", 2, AFTER) == ([], [])


def test_an_image_for_processors_is_named(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IMAGES, "none", {"trainyard.transports": "tcp ucx"})
    codes = ["image_without_cuda"]
    assert verdicts(drive("t4", 2, "550.163.01"), "none", 2, AFTER) == (codes, codes)


def test_no_driver_is_named(drive: Drive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = drive("t4", 4, "550.163.01")
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = problems_of(driver, "12.8")
    assert problem.code == "gpu_driver_missing"
    assert "NVIDIA GPUs (4)" in problem.text
    assert faults_of(4) == {"gpus_silent": ""}
    assert verdicts(driver, "12.8", 4, AFTER) == (["gpu_driver_missing"], ["gpus_silent"])


def test_a_healthy_machine_is_healthy(drive: Drive) -> None:
    drive("a100", 3, "535.183.01")
    assert faults_of(3, "NVIDIA A100-SXM4-40GB") == {}
    told, _ = health.read_gpus()
    assert {(gpu["driver"], gpu["cuda"]) for gpu in told} == {("535.183.01", "12.2")}
    assert faults_of(4, "NVIDIA H100")["gpus_missing"] == ""


@pytest.mark.parametrize(
    ("driver", "change", "code"),
    [
        ("550.163.01", {"thermal": {"temperature_gpu_c": 95}}, "gpu_hot"),
        ("550.163.01", {"failure": {"mode": "ecc_uncorrectable"}}, "gpu_ecc_errors"),
        ("550.163.01", {"failure": {"mode": "lost"}}, "gpu_lost"),
        ("535.183.01", {"failure": {"mode": "ecc_uncorrectable"}}, "gpu_ecc_errors"),
        ("535.183.01", {"failure": {"mode": "fallen_off_bus"}}, "gpu_lost"),
    ],
)
def test_verify_names_the_gpu_that_is_ill(
    driver: str, change: dict[str, Any], code: str, drive: Drive
) -> None:
    machine = drive("t4", 4, driver)
    machine.change(2, **change)
    assert faults_of(4) == {code: "GPU 2"}
    # The gang check refuses what cannot compute, and lets the rest be.
    lost = code == "gpu_lost"
    assert [found.code for found in problems_of(machine, "12.8")] == ["gpu_lost"] * lost
    assert problems_of(machine, "12.8", names="0,1,3") == []


@pytest.mark.parametrize("release", ["535.183.01", "550.163.01"])
@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("fallen_off_bus", "gpu_lost"),
        ("lost", "gpu_lost"),
        ("ecc_uncorrectable", "gpu_ecc_errors"),
    ],
)
def test_the_end_of_a_run_names_the_gpu_that_fell_ill(
    release: str, mode: str, code: str, drive: Drive
) -> None:
    machine = drive("a100", 3, release)
    before = [gpu.asdict() for gpu in read_gpus()[0]]
    assert gpu_faults(before, 0.0) == []
    machine.change(1, failure={"mode": mode})
    ((found, values),) = gpu_faults(before, 0.0)
    assert (found, values["gpu"], values["model"]) == (code, 1, "NVIDIA A100-SXM4-40GB")
    assert gpu_faults([before[0], before[2]], 0.0) == []


@pytest.mark.parametrize("release", ["535.183.01", "550.163.01"])
def test_a_gpu_in_mig_mode_is_named(release: str, drive: Drive) -> None:
    machine = drive("a100", 3, release)
    machine.change(1, mig={"mode_current": "enabled", "mode_pending": "enabled"})
    codes = ["gpu_in_mig_mode"]
    assert verdicts(machine, "12.8", 3, AFTER) == (codes, codes)
    assert problems_of(machine, "12.8", names="0,2") == []


def test_a_process_on_a_gpu_is_named(drive: Drive) -> None:
    driver = drive("t4", 2, "550.163.01")
    driver.change(1, processes=[{"pid": 4711, "type": "C", "name": "python3"}])
    (problem,) = problems_of(driver, "12.8")
    assert problem.text.startswith("its GPU 1 is in use by python3 (pid 4711)")
    assert problems_of(driver, "12.8", names="0") == []


SAMPLE = """
import sys, types, json
sys.modules["training_node_load"] = load = types.ModuleType("training_node_load")
exec(open(sys.argv[1]).read(), load.__dict__)
print(json.dumps(load.Gpus().sample()))
"""


def sampled() -> list[dict[str, Any]]:
    """Ask the library itself, in a process of its own: the loader reads its environment once."""
    command = [sys.executable, "-c", SAMPLE, training_node_load.__file__]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    told: list[dict[str, Any]] = json.loads(answer.stdout)
    return told


def test_the_load_is_that_of_the_gpu_that_it_names(drive: Drive) -> None:
    driver = drive("t4", 3, "550.163.01")
    driver.change(2, utilization={"gpu": 87}, memory={"used_bytes": 3 * 2**30})
    last = sampled()[2]
    assert (last["index"], last["utilisation_percent"], last["name"]) == (2, 87, "NVIDIA T4")
    driver.change(1, failure={"mode": "fallen_off_bus"})
    # Whether a lost card has a handle differs by the state it is in; the others keep their number.
    told = {gpu["index"]: gpu["utilisation_percent"] for gpu in sampled()}
    assert (told[0], told.get(1), told[2]) == (0, None, 0)


def test_the_role_of_the_driver_misses_a_lost_gpu(drive: Drive) -> None:
    driver = drive("t4", 4, "550.163.01")
    names: dict[str, Any] = {"__name__": "nvidia_driver_look"}
    path = ROLES / "nvidia_driver/library/nvidia_driver_look.py"
    exec(compile(path.read_text(), str(path), "exec"), names)
    told, trouble = names["ask_smi"]()
    assert ([gpu["index"] for gpu in told], trouble) == (["0", "1", "2", "3"], "")
    assert told[0]["slot"] == "00000000:3B:00.0"
    driver.change(3, failure={"mode": "lost"})
    assert [gpu["index"] for gpu in names["ask_smi"]()[0]] == ["0", "1", "2"]
    cards = names["find_cards"](str(driver.root / KERNEL / "sys"))
    assert len(cards) == 4


@pytest.mark.parametrize("name", record_gpus.MACHINES)
def test_what_was_recorded_is_what_the_tools_say(name: str, tmp_path: Path) -> None:
    kept = json.loads((record_gpus.FOLDER / f"{name}.json").read_text())
    assert record_gpus.ask(name, tmp_path) == kept


def test_tools_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(GpuToolsError, match=r"TRAINYARD_GPU_TOOLS name a folder that has"):
        find_tools(tmp_path / "checkout")
    with pytest.raises(GpuToolsError, match="has profile, count, driver, and may have"):
        GpuMachine.read({"profile": "t4", "count": 1})
    with pytest.raises(GpuToolsError, match=r"driver 999\.1 is of none of the branches 525"):
        GpuMachine.read({"profile": "t4", "count": 1, "driver": "999.1"})


def test_a_profile_that_is_not_there_is_named() -> None:
    try:
        tools = find_tools(CHECKOUT)
    except GpuToolsError as error:
        pytest.skip(str(error))
    with pytest.raises(GpuToolsError, match="no GPU profile 'k80'; there are a100, b200"):
        configure(tools, GpuMachine("k80", 1, "550.163.01"))
    with pytest.raises(GpuToolsError, match="profile t4 has 1 to 4 GPUs"):
        configure(tools, GpuMachine("t4", 5, "550.163.01"))


def test_without_a_way_to_nvidia_smi_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        GpuToolsError, match=r"Install them, or put the program there as \S+-trixie"
    ):
        fetch_smi("trixie", tmp_path)
    (tmp_path / "nvidia-smi-trixie").touch()
    assert fetch_smi("trixie", tmp_path) == tmp_path / "nvidia-smi-trixie"


@pytest.mark.process
def test_nothing_is_left_where_apt_has_no_lists_of_debian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "apt.conf"
    settings.write_text(f'Dir::State::lists "{tmp_path}/none";\n')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    with pytest.raises(GpuToolsError, match="cannot be fetched"):
        fetch_smi("trixie", tmp_path / "cache")
    assert list((tmp_path / "cache").glob("*")) == []


def test_the_hook_of_the_toolkit_is_nvidias() -> None:
    try:
        hook = fetch_hook(find_tools(CHECKOUT, os.environ.get(TOOLS, "")), GPU_CACHE)
    except GpuToolsError as error:
        pytest.skip(str(error))
    done = subprocess.run([hook, "--version"], capture_output=True, text=True)
    assert "version 1.20.0" in done.stdout + done.stderr


@pytest.mark.process
def test_a_hook_that_cannot_be_built_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(GpuToolsError, match=r"has neither bin/nvidia-container-runtime-hook nor"):
        fetch_hook(tmp_path, cache)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/nvidia-container-toolkit-1.20.0.tar.xz").write_text("no archive")
    with pytest.raises(GpuToolsError, match="it takes gcc, and Go or a way to PyPI"):
        fetch_hook(tmp_path, cache)
    assert list(cache.glob("*")) == []
