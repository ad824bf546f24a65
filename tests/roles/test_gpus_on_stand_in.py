"""The project's own look at GPUs, with the stand-in for nvidia-smi, and with recorded answers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.local_cluster_gpus import GpuMachine, GpuMachineError
from ansible.module_utils.trainer_image_fit import choose_image, read_images, read_node
from gpu_machines import CHECKOUT, RECORDED, FakeDriver
from role_files import ROLES

from node.check import gpu_fit as fit
from node.check import gpu_health as health
from node.check.problems import problem
from node.machine import gpu_faults, gpus
from node.machine.gpus import ask_smi, read_gpu_users, read_gpus
from node.verdict import nodes
from node.verdict.cluster import Cluster, Thresholds

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

# Codes of an engine that gives no GPUs to containers, and of one that does (test_gpu_fit.py).
BEFORE, AFTER = ["gpu_runtime_missing"], list[str]()
THRESHOLDS = Thresholds(
    same_releases=["openmpi", "docker"],
    clock_seconds=1.0,
    bandwidth_gigabits=1.0,
    latency_milliseconds=10.0,
    loss_percent=1.0,
    allreduce_gigabits=0.5,
    gpu_slowness=1.15,
)

Drive = Callable[[str, int, str], FakeDriver]


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Drive:
    """Give this machine GPUs: `drive("t4", 4, "550.163.01")`; `process` starts their program."""

    def make(profile: str, count: int, driver: str) -> FakeDriver:
        made = FakeDriver(tmp_path / "machine", GpuMachine(profile, count, driver))
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        if request.node.get_closest_marker("process") is None:
            monkeypatch.setattr(gpus, "ask", made.ask)
        # What the kernel of this machine has seen of its own GPUs is of no interest.
        for module in (health, gpu_faults):
            monkeypatch.setattr(module, "kernel_log", str)
        return made

    return make


def problems_of(driver: FakeDriver, cuda: str, names: str = "all") -> list[Any]:
    """What the gang check finds at a machine for an image of a CUDA."""
    told = fit.look_at_gpus(names, "trainer:1", IMAGES[cuda], str(driver.sys))
    found: list[Any] = told.problems
    return found


def faults_of(count: int, model: str = "", celsius: float = 85) -> dict[str, str]:
    """What `make verify` finds at this machine: subject by code."""
    told, trouble = health.read_gpus()
    checks = health.gpu_checks(told, trouble, count, model, celsius)
    return {check.code: check.subject for check in checks if check.code}


def verdicts(
    driver: FakeDriver, cuda: str, count: int, engine: list[str]
) -> tuple[list[str], list[str]]:
    """Codes of the gang check, and those of `make verify`, for this machine and an image.

    Args:
        driver: of the machine.
        cuda: of the image.
        count: number of GPUs that the inventory says it has.
        engine: codes of what is found of its engine.
    """
    problems = [*map(problem, engine), *problems_of(driver, cuda)]
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
    findings = nodes.judge_nodes(cluster)
    return [found.code for found in problems], [found.code for found in findings if not found.ok]


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
    for found in problems_of(driver, cuda):
        assert DRIVERS[branch] in found.text
        assert "580" in found.text


@pytest.mark.parametrize("branch", DRIVERS)
def test_a_gpu_that_is_too_old_gets_the_image_that_knows_it(branch: str, drive: Drive) -> None:
    driver = drive("gtx1080", 1, DRIVERS[branch])
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
        merged = names["merge"](answered, str(driver.sys))
        node = read_node("a", {"loaded": DRIVERS[branch], "installs": 0, "gpus": merged})
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


@pytest.mark.process
def test_no_driver_is_named(drive: Drive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = drive("t4", 4, "550.163.01")
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = problems_of(driver, "12.8")
    assert problem.code == "gpu_driver_missing"
    assert "NVIDIA GPUs (4)" in problem.text
    assert faults_of(4) == {"gpus_silent": ""}
    assert verdicts(driver, "12.8", 4, AFTER) == (["gpu_driver_missing"], ["gpus_silent"])


def test_a_healthy_machine_is_healthy(drive: Drive) -> None:
    driver = drive("a100", 3, "535.183.01")
    assert health.driver_release(str(driver.sys)) == "535.183.01"
    assert faults_of(3, "NVIDIA A100-SXM4-40GB") == {}
    told, _ = health.read_gpus()
    assert {(gpu["driver"], gpu["cuda"]) for gpu in told} == {("535.183.01", "12.2")}
    assert faults_of(4, "NVIDIA H100")["gpus_missing"] == ""


@pytest.mark.parametrize("driver", ["535.183.01", "550.163.01"])
@pytest.mark.parametrize(
    ("state", "code"),
    [("hot 95", "gpu_hot"), ("errors", "gpu_ecc_errors"), ("lost", "gpu_lost")],
)
def test_verify_names_the_gpu_that_is_ill(driver: str, state: str, code: str, drive: Drive) -> None:
    machine = drive("t4", 4, driver)
    machine.change(f"2 {state}")
    assert faults_of(4) == {code: "GPU 2"}
    # The gang check refuses what cannot compute, and lets the rest be.
    lost = code == "gpu_lost"
    assert [found.code for found in problems_of(machine, "12.8")] == ["gpu_lost"] * lost
    assert problems_of(machine, "12.8", names="0,1,3") == []


@pytest.mark.parametrize("release", ["535.183.01", "550.163.01"])
@pytest.mark.parametrize(("state", "code"), [("lost", "gpu_lost"), ("errors", "gpu_ecc_errors")])
def test_the_end_of_a_run_names_the_gpu_that_fell_ill(
    release: str, state: str, code: str, drive: Drive
) -> None:
    machine = drive("a100", 3, release)
    before = [gpu.asdict() for gpu in read_gpus()[0]]
    assert gpu_faults.gpu_faults(before, 0.0) == []
    machine.change(f"1 {state}")
    ((found, values),) = gpu_faults.gpu_faults(before, 0.0)
    assert (found, values["gpu"], values["model"]) == (code, 1, "NVIDIA A100-SXM4-40GB")
    assert gpu_faults.gpu_faults([before[0], before[2]], 0.0) == []


@pytest.mark.parametrize("release", ["535.183.01", "550.163.01"])
def test_a_gpu_in_mig_mode_is_named(release: str, drive: Drive) -> None:
    machine = drive("a100", 3, release)
    machine.change("1 mig")
    codes = ["gpu_in_mig_mode"]
    assert verdicts(machine, "12.8", 3, AFTER) == (codes, codes)
    assert problems_of(machine, "12.8", names="0,2") == []


def test_a_process_on_a_gpu_is_named(drive: Drive) -> None:
    driver = drive("t4", 2, "550.163.01")
    driver.change("1 busy 4711 python3")
    (problem,) = problems_of(driver, "12.8")
    assert problem.text.startswith("its GPU 1 is in use by python3 (pid 4711)")
    assert problems_of(driver, "12.8", names="0") == []


@pytest.mark.process
def test_the_role_of_the_driver_misses_a_lost_gpu(drive: Drive) -> None:
    driver = drive("t4", 4, "550.163.01")
    names: dict[str, Any] = {"__name__": "nvidia_driver_look"}
    path = ROLES / "nvidia_driver/library/nvidia_driver_look.py"
    exec(compile(path.read_text(), str(path), "exec"), names)
    told, trouble = names["look_at_gpus"]()
    assert ([gpu["index"] for gpu in told], trouble) == (["0", "1", "2", "3"], "")
    assert told[0]["slot"] == "00000000:07:00.0"
    driver.change("3 lost")
    assert [gpu["index"] for gpu in names["look_at_gpus"]()[0]] == ["0", "1", "2"]
    cards = names["find_cards"](str(driver.sys))
    assert len(cards) == 4


@pytest.mark.process
@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.json")))
def test_what_was_recorded_is_answered_as_it_was(name: str, drive: Drive) -> None:
    recorded = drive("t4", 1, "550.163.01").replay(name)
    for what, fields in (("gpu", gpus.FIELDS), ("compute-apps", gpus.USER_FIELDS)):
        question = (f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits")
        answer = recorded["gpus" if what == "gpu" else "users"]
        assert ask_smi(*question) == (0, answer.strip())
    assert ask_smi() == (0, recorded["table"].strip())


@pytest.mark.parametrize(
    ("recorded", "state"),
    [
        ("a100-550-lost", "1 lost"),
        ("a100-550-ecc-errors", "1 errors"),
        ("a100-550-hot", "1 hot 91"),
        ("a100-550-busy", "1 busy 4711 python3"),
    ],
)
def test_a_state_is_as_it_was_recorded(recorded: str, state: str, drive: Drive) -> None:
    machine = drive("a100", 3, "550.163.01")
    machine.change(state)
    changed = read_gpus()[0], read_gpu_users()
    machine.change()
    answers = machine.replay(recorded)
    # Of this machine, what differs is where its GPUs are and what they are called.
    theirs = [gpu.uuid for gpu in gpus.parse_gpus(answers["gpus"])]
    uuids = dict(zip(theirs, [gpu.uuid for gpu in changed[0]], strict=True))
    told = [replace(gpu, uuid=uuids[gpu.uuid]) for gpu in read_gpus()[0]]
    users = [replace(user, gpu=uuids[user.gpu]) for user in read_gpu_users()]
    assert (told, users) == changed


@pytest.mark.process
def test_nothing_else_is_answered(drive: Drive) -> None:
    drive("t4", 1, "550.163.01")
    status, said = ask_smi("--query-gpu=index,fan.speed", "--format=csv,noheader,nounits")
    assert (status, said) == (2, 'Field "fan.speed" is not a valid field to query.')
    for question in (["-L"], ["-q", "-x"], ["--query-gpu=index", "--format=csv"]):
        status, said = ask_smi(*question)
        assert status == 1
        assert "Trainyard does not ask" in said


@pytest.mark.parametrize(
    ("driver", "capability", "mig"), [("470.82.01", "", True), ("440.33.01", "", False)]
)
def test_an_old_driver_is_asked_what_it_knows(
    driver: str, capability: str, mig: bool, drive: Drive
) -> None:
    drive("a100", 1, "550.163.01").change("0 mig", f"all driver {driver}")
    (gpu,), trouble = read_gpus()
    assert (gpu.driver, gpu.capability, gpu.mig, trouble) == (driver, capability, mig, "")


@pytest.mark.process
def test_a_driver_that_hangs_or_complains_is_named(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = drive("t4", 1, "550.163.01")
    machine.change("all says 18 Failed to initialize NVML: Driver/library version mismatch")
    assert [found.code for found in problems_of(machine, "12.8")] == ["gpu_driver_mismatch"]
    machine.change("all hangs")
    monkeypatch.setattr(gpus, "SMI_SECONDS", 0.3)
    (problem,) = problems_of(machine, "12.8")
    assert (problem.code, faults_of(1)) == ("gpu_silent", {"gpus_silent": ""})


def test_gpus_are_those_whose_files_are_there(drive: Drive) -> None:
    machine = drive("a100", 4, "550.163.01")
    devices = machine.root / "dev"
    devices.mkdir()
    for name in ("nvidiactl", "nvidia1", "nvidia3"):
        (devices / name).touch()
    told, _ = read_gpus()
    assert [(gpu.index, gpu.slot) for gpu in told] == [
        (0, "00000000:0F:00.0"),
        (1, "00000000:4E:00.0"),
    ]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"profile": "t4", "count": 1}, "has profile, count, driver, and may have"),
        (
            {"profile": "t4", "count": 1, "driver": "999.1"},
            r"999\.1 is of none of the branches 525",
        ),
        ({"profile": "k80", "count": 1, "driver": "550.163.01"}, "no GPU profile 'k80'; there are"),
        ({"profile": "t4", "count": 9, "driver": "550.163.01"}, "has 1 to 8 GPUs, not 9"),
    ],
)
def test_machines_that_cannot_be_are_refused(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(GpuMachineError, match=says):
        GpuMachine.read(entry)
