"""Which GPUs a run can have, and why it cannot compute on them.

What nvidia-smi says is replayed: the lines of a healthy driver have the form of those in
`data/gpus` (recorded), the refusals are quoted from public
threads, named beside each. `test_gpus_on_stand_in.py` replays whole answers.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.local_cluster_gpus import GpuMachine

from node.check import gpu_fit as fit
from node.engine import gpus as engine_gpus
from node.machine import cdi, gpus
from node.verbs import probe

RECORDED = Path(__file__).parent / "data/gpus"
DRIVER = "550.163.01"
UUID = "GPU-00000074-0000-0000-0000-00000000000"
CUDA12 = {
    "trainyard.cuda": "12.8",
    "trainyard.driver": "525",
    "trainyard.capabilities": "7.5 8.0 8.6 9.0",
}
CUDA13 = {**CUDA12, "trainyard.cuda": "13.0", "trainyard.driver": "580"}


def lines(driver: str, count: int = 1, capability: str = "7.5", model: str = "Tesla T4") -> str:
    """What nvidia-smi says of GPUs that are alike."""
    return "".join(
        f"{index}, {UUID}{index}, {model}, 00000000:{index + 1:02X}:00.0, {driver}, 15360"
        f", 40, 0, {capability}\n"
        for index in range(count)
    )


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have nvidia-smi say this of GPUs and of those who compute on them."""

    def replay(status: int, said: str, users: str = "") -> None:
        def query(what: str, fields: tuple[str, ...], _: object = None) -> tuple[int, str]:
            if what == "compute-apps":
                return status, users
            if status == 0 or gpus.CAPABILITY in fields or "not a valid field" not in said:
                return status, said
            return 0, ", ".join(lines("470.82.01").split(", ")[:-1])

        monkeypatch.setattr(gpus, "_query", query)

    return replay


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """A bus with one of NVIDIA's GPUs on it."""
    device = tmp_path / "bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x1eb8")):
        (device / name).write_text(text)
    return tmp_path


def found(names: str, labels: dict[str, str] | None, sys: Path) -> tuple[list[int], list[Any]]:
    """Numbers of the GPUs that a run can have, and the problems."""
    told = fit.look_at_gpus(names, "trainer:1", labels, str(sys))
    return [gpu.index for gpu in told.gpus], told.problems


def codes(labels: dict[str, str] | None, sys: Path, names: str = "all") -> list[str]:
    return [problem.code for problem in found(names, labels, sys)[1]]


@pytest.mark.parametrize(
    ("names", "chosen", "missing"),
    [
        ("all", [0, 1, 2, 3], []),
        ("", [], []),
        ("2, 0", [2, 0], []),
        (f"{UUID}1,1,1", [1], []),
        ("0,4", [0], ["4"]),
        (f"{UUID}9", [], [f"{UUID}9"]),
    ],
)
def test_gpus_are_chosen_by_number_and_uuid(
    names: str, chosen: list[int], missing: list[str]
) -> None:
    there = gpus.parse_gpus(lines("550.163.01", 4))
    ours, lacking = gpus.chosen_gpus(there, names)
    assert ([gpu.index for gpu in ours], lacking) == (chosen, missing)


def test_what_a_gpu_does_not_tell_is_left_out() -> None:
    (gpu,) = gpus.parse_gpus(
        "0, GPU-1, Quadro K600, 00000000:01:00.0, 470.82.01, [N/A], [N/A], [N/A], [N/A]\n"
    )
    told = (gpu.memory_bytes, gpu.celsius, gpu.uncorrected_errors, gpu.capability, gpu.branch)
    assert told == (0, None, 0, "", 470)


@pytest.mark.parametrize("machine", ["a100-550", "a100-550-lost"])
def test_the_lines_are_those_of_the_program(machine: str) -> None:
    said = json.loads((RECORDED / f"{machine}.json").read_text())["gpus"]
    model, uuid = "NVIDIA A100-SXM4-40GB", "GPU-12345678-1234-1234-1234-12345678000"
    slots, memory = ("07", "0F", "47"), 40 * 2**30
    ours = [
        gpus.Gpu(
            index, f"{uuid}{index}", model, f"00000000:{slot}:00.0", DRIVER, memory, 33, 0, "8.0"
        )
        for index, slot in zip(range(len(said.splitlines())), slots, strict=False)
    ]
    if machine == "a100-550-lost":
        ours[1] = replace(ours[1], memory_bytes=0, celsius=None, trouble="GPU is lost")
    assert gpus.parse_gpus(said) == ours
    assert gpus.parse_gpus(f"{said}WARNING: infoROM is corrupted at gpu 0000:47:00.0\n") == ours


def test_a_gpu_that_fell_off_the_bus_is_named(answer: Any, bus: Path) -> None:
    said = json.loads((RECORDED / "a100-550-lost.json").read_text())
    answer(0, said["gpus"])
    chosen, (problem,) = found("all", CUDA12, bus)
    assert (chosen, problem.code) == ([0, 1, 2], "gpu_lost")
    assert "its GPU 1, NVIDIA A100-SXM4-40GB, does not answer: GPU is lost" in problem.text
    assert codes(CUDA12, bus, names="0,2") == []


def test_a_run_on_some_gpus_passes_one_over_that_is_lost(answer: Any, bus: Path) -> None:
    answer(0, json.loads((RECORDED / "a100-550-lost.json").read_text())["gpus"])
    told = fit.look_at_gpus("all", "trainer:1", CUDA12, str(bus), wanted=2)
    assert (told.problems, [gpu.index for gpu in told.idle]) == ([], [0, 2])
    many = fit.look_at_gpus("all", "trainer:1", CUDA12, str(bus), wanted=3)
    assert [problem.code for problem in many.problems] == ["gpu_lost"]


# What nvidia-smi prints in place of the line of a GPU that the driver cannot even open, by release:
# NVIDIA/open-gpu-kernel-modules#387, meta-llama/llama-models#200, and newer ones with a number.
NO_HANDLE = [
    "Unable to determine the device handle for GPU 0000:02:00.0: Unknown Error",
    "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error",
    "Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error",
]


@pytest.mark.parametrize("status", [0, 255])
@pytest.mark.parametrize("words", NO_HANDLE)
def test_a_gpu_without_a_handle_is_lost_and_no_other(
    words: str, status: int, answer: Any, bus: Path
) -> None:
    there = lines(DRIVER, 4).splitlines()
    answer(status, "\n".join([there[0], words, *there[2:]]))
    chosen, (problem,) = found("all", CUDA12, bus)
    assert (chosen, problem.code) == ([0, 1, 2, 3], "gpu_lost")
    assert "its GPU 1, in slot 0000:02:00.0, does not answer: Unknown Error" in problem.text
    assert codes(CUDA12, bus, names="0,2,3") == []
    # A run that takes some finds others.
    told = fit.look_at_gpus("all", "trainer:1", CUDA12, str(bus), wanted=3)
    assert (told.problems, [gpu.index for gpu in told.idle]) == ([], [0, 2, 3])


def test_gpus_without_a_handle_have_the_numbers_that_are_left() -> None:
    there = lines(DRIVER, 5).splitlines()
    lost = "Unable to determine the device handle for GPU{}: Unknown Error"
    said = [there[0], lost.format(" 0000:02:00.0"), there[2], there[4]]
    said += [lost.format("3: 0000:04:00.0"), lost.format("4: 0000:09:00.0")]
    told = gpus.parse_gpus("\n".join(said))
    assert [(gpu.index, gpu.slot[-7:-2]) for gpu in told] == [
        *((0, "01:00"), (1, "09:00"), (2, "03:00"), (3, "04:00"), (4, "05:00"), (5, "02:00")),
    ]
    assert {gpu.driver for gpu in told} == {DRIVER}


def test_where_no_gpu_has_a_handle_the_node_is_silent(answer: Any, bus: Path) -> None:
    answer(255, NO_HANDLE[0])
    assert codes(CUDA12, bus) == ["gpu_silent"]
    answer(0, NO_HANDLE[0])
    assert codes(CUDA12, bus) == ["gpu_lost"]


def test_a_gpu_in_mig_mode_is_no_whole_gpu(answer: Any, bus: Path) -> None:
    modes = ("Disabled", "Enabled", "[N/A]")  # the last of a GPU that has no such mode
    told = lines(DRIVER, 3, "8.0", "NVIDIA A100-SXM4-40GB").splitlines()
    answer(0, "\n".join(f"{row}, {mode}" for row, mode in zip(told, modes, strict=True)))
    (problem,) = found("all", CUDA12, bus)[1]
    assert problem.code == "gpu_in_mig_mode"
    assert "its GPU 1, NVIDIA A100-SXM4-40GB, is in MIG mode" in problem.text
    assert "nvidia-smi -i 1 -mig 0" in problem.remedy
    assert codes(CUDA12, bus, names="0,2") == []
    # A run that takes some finds others.
    some = fit.look_at_gpus("all", "trainer:1", CUDA12, str(bus), wanted=2)
    assert (some.problems, [gpu.index for gpu in some.idle]) == ([], [0, 2])


@pytest.mark.parametrize("known", [(), ("compute_cap",), ("mig.mode.current",)])
def test_fields_that_a_driver_does_not_know_are_not_asked_for(
    known: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before 450 know neither, those before 510 know the mode of MIG alone."""
    old = gpus.FIELDS[:-2]
    values = dict(
        zip(gpus.FIELDS, f"{lines('470.82.01').strip()}, Enabled".split(", "), strict=True)
    )

    def query(what: str, fields: tuple[str, ...], _: object = None) -> tuple[int, str]:
        for field in fields:
            if field not in (*old, *known):
                return 2, f'Field "{field}" is not a valid field to query.'
        return 0, ", ".join(values[field] for field in fields)

    monkeypatch.setattr(gpus, "_query", query)
    (gpu,), trouble = gpus.read_gpus()
    assert (gpu.driver, trouble) == ("470.82.01", "")
    assert (gpu.capability, gpu.mig) == (
        "7.5" if "compute_cap" in known else "",
        "mig.mode.current" in known,
    )


def test_a_driver_that_knows_no_capability_is_read(answer: Any) -> None:
    # NVIDIA/TensorRT-LLM#735; canonical/inference-snaps#89 has the words.
    answer(2, 'Field "compute_cap" is not a valid field to query.')
    (gpu,), trouble = gpus.read_gpus()
    assert (gpu.driver, gpu.capability, trouble) == ("470.82.01", "", "")


@pytest.mark.promise("row 36")
@pytest.mark.parametrize("driver", ["535.183.01", "550.163.01", "580.65.06"])
@pytest.mark.parametrize(
    ("labels", "cuda", "needed"), [(CUDA12, "12.8", 525), (CUDA13, "13.0", 580)]
)
def test_a_driver_that_is_too_old_for_the_image_is_named(
    driver: str, labels: dict[str, str], cuda: str, needed: int, answer: Any, bus: Path
) -> None:
    answer(0, lines(driver, 4))
    chosen, problems = found("all", labels, bus)
    assert chosen == [0, 1, 2, 3]
    if int(driver[:3]) >= needed:
        assert problems == []
        return
    # Once, not once a GPU, and with both releases.
    (problem,) = problems
    assert problem.code == "gpu_driver_old"
    assert all(word in problem.text for word in (driver, cuda, str(needed), "trainer:1"))


@pytest.mark.parametrize(
    ("capability", "fits"),
    [
        *(("7.5", True), ("8.0", True), ("8.6", True), ("8.7", True), ("8.9", True), ("9.0", True)),
        # Older than what it is built for, in the same generation and before it, and newer.
        *(("7.0", False), ("6.1", False), ("10.0", False), ("12.0", False)),
    ],
)
def test_a_gpu_that_the_image_is_not_built_for_is_named(
    capability: str, fits: bool, answer: Any, bus: Path
) -> None:
    answer(0, lines("580.65.06", 2, capability, "NVIDIA X"))
    problems = found("1", CUDA12, bus)[1]
    assert [problem.code for problem in problems] == ([] if fits else ["gpu_not_built_for"])
    if not fits:
        assert "its GPU 1, NVIDIA X, has compute capability " + capability in problems[0].text


@pytest.mark.parametrize(
    ("vendor", "capability", "multiplies"),
    [
        *(("nvidia", "7.5", False), ("nvidia", "8.0", True), ("nvidia", "12.0", True)),
        *(("nvidia", "", False), ("amd", "gfx906", False), ("amd", "gfx908", True)),
        *(("amd", "gfx90a", True), ("amd", "gfx942", True), ("amd", "gfx1030", False)),
    ],
)
def test_a_gpu_multiplies_bf16_by_its_capability(
    vendor: str, capability: str, multiplies: bool
) -> None:
    (told,) = gpus.parse_gpus(lines(DRIVER))
    gpu = replace(told, vendor=vendor, capability=capability)
    assert gpu.multiplies_bf16 == multiplies


def test_an_image_for_processors_is_refused(answer: Any, bus: Path) -> None:
    answer(0, lines("580.65.06"))
    assert codes({"trainyard.transports": "tcp ucx"}, bus) == ["image_without_cuda"]
    # Where it is not there at all, that is said once.
    assert codes(None, bus) == []


def test_gpus_that_are_not_there_are_named(answer: Any, bus: Path) -> None:
    answer(0, lines("580.65.06", 2))
    chosen, (problem,) = found("0,5", CUDA13, bus)
    assert (chosen, problem.code) == ([0], "gpu_not_there")
    assert "gives GPU 5 to runs, but it has only GPU 0, 1" in problem.text


def test_who_computes_on_a_gpu_is_named(answer: Any, bus: Path) -> None:
    users = f"{UUID}0, 71, /usr/bin/python3\n{UUID}1, 72, nvidia-cuda-mps-server\n"
    answer(0, lines("580.65.06", 2), users)
    (problem,) = found("all", CUDA13, bus)[1]
    assert problem.text.startswith("its GPU 0 is in use by /usr/bin/python3 (pid 71)")
    assert codes(CUDA13, bus, names="1") == []


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (127, "there is no nvidia-smi", "gpu_driver_missing"),
        (
            # NVIDIA/nvidia-docker#988
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.",
            "gpu_driver_missing",
        ),
        (
            # pop-os/nvidia-graphics-drivers-470#18
            18,
            "Failed to initialize NVML: Driver/library version mismatch",
            "gpu_driver_mismatch",
        ),
        # NVIDIA/nvidia-docker#1730
        (255, "Failed to initialize NVML: Unknown Error", "gpu_silent"),
        (6, "No devices were found", "gpu_silent"),
        (124, "nvidia-smi gave no answer within 20 s", "gpu_silent"),
    ],
)
def test_why_they_cannot_be_asked(
    status: int, said: str, code: str, answer: Any, bus: Path, tmp_path: Path
) -> None:
    answer(status, said)
    chosen, (problem,) = found("all", CUDA13, bus)
    assert (chosen, problem.code) == ([], code)
    # Without a card on the bus, its programs do not matter; a reboot helps all the same.
    bare = codes(CUDA13, tmp_path / "none")
    assert bare == ["gpu_driver_mismatch" if code == "gpu_driver_mismatch" else "gpu_absent"]


ALONE: dict[str, Any] = {"Runtimes": {"runc": {}}}
TOOLKIT: dict[str, Any] = {"Runtimes": {"runc": {}, "nvidia": {}}}


@pytest.mark.parametrize(("labels", "of_image"), [(CUDA12, []), (CUDA13, ["gpu_driver_old"])])
@pytest.mark.parametrize(
    ("engine", "written", "code"),
    [
        (ALONE, DRIVER, "gpu_runtime_missing"),  # before Docker 25 it knows no such key
        ({**ALONE, "CDISpecDirs": None}, DRIVER, "gpu_runtime_missing"),
        (TOOLKIT, "", ""),
        ("reads", DRIVER, ""),
        ("reads", "", "gpu_runtime_missing"),
        ("reads", "535.183.01", "gpu_specification_old"),
        ("reads", "unreadable", "gpu_specification_missing"),
        ("reads both", "unreadable", ""),
        ("native", DRIVER, ""),
        ("native", "", "gpu_specification_missing"),
        ("native", "535.183.01", "gpu_specification_old"),
    ],
)
def test_each_way_to_gpus_is_looked_at_and_the_image_in_each(
    engine: Any,
    written: str,
    code: str,
    labels: dict[str, str],
    of_image: list[str],
    answer: Any,
    bus: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gang check of launches by CDI, by NVIDIA's runtime, and without an engine."""
    answer(0, lines(DRIVER))
    folder = bus / "cdi"
    folder.mkdir()
    if written:
        document = GpuMachine("a100", 1, written).specification()
        text = "{" if written == "unreadable" else json.dumps(document)
        (folder / "nvidia.json").write_text(text)
    (bus / "module/nvidia").mkdir(parents=True)
    (bus / "module/nvidia/version").write_text(f"{DRIVER}\n")
    native = engine == "native"
    for module in (engine_gpus, fit, probe):
        monkeypatch.setattr(module, "is_native", lambda: native)
    monkeypatch.setattr(cdi.find_specification, "__defaults__", ([str(folder)],))
    if isinstance(engine, str):
        base = TOOLKIT if engine == "reads both" else ALONE
        engine = {**base, "CDISpecDirs": [str(folder)]}
    monkeypatch.setattr(engine_gpus, "get", lambda path: engine)
    monkeypatch.setattr(probe, "require_engine", lambda: None)
    for name in ("ask_strays", "containers"):
        monkeypatch.setattr(probe, name, lambda _: [])
    trainer = {"Id": "sha256:1", "Config": {"Labels": labels}}
    monkeypatch.setattr(probe, "image", lambda reference: trainer)
    needs = probe.Needs("trainer:1", "", "", "", 0, 0, 0, 0, 0, 0, gpus="all", sys=str(bus))
    asked = probe.ask_engine(needs)
    problems = [*asked.problems, *probe.look_for_gpus(needs, asked).problems]
    assert [problem.code for problem in problems] == [code] * bool(code) + of_image
