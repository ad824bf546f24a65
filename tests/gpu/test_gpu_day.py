"""The frame of `make gpu-day`: time, results, the end without a GPU. No step computes here.

tests/trainer/test_gpu_day_steps.py takes the steps themselves, with a processor in the GPU's place.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import day as program
import pytest
import steps as all_steps
import ways
from day import conclude, go, machine_facts, take
from record import FAILED, LEFT_OUT, PASSED, STRAIGHT, Record, Result, merged
from steps import STEPS, Day, LeftOutError, Step, StepError, Training, Turn, named
from ways import CHECKOUT, CommandError, Container, Straight, find_image, run

from node.machine.gpus import read_gpus

# What NVIDIA's nvidia-smi prints, cut to what is read
SMI = """#!/bin/sh
case "$1" in
--query-gpu=*) echo '0, GPU-1, NVIDIA H100 80GB, 00000000:3B:00.0, 580.65.06, 81559, 31, 0, 9.0';;
-L) echo 'GPU 0: NVIDIA H100 80GB (UUID: GPU-1)';;
*) echo '| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0     |';;
esac
"""
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


def program_on_path(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, script: str) -> Path:
    """Put a program in front of those of its name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return path


def make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`make gpu-day` of this checkout."""
    return subprocess.run(
        ["make", "--no-print-directory", "--directory", str(CHECKOUT), "gpu-day", *arguments],
        capture_output=True,
        text=True,
    )


def new_day(folder: Path, gpus: int = 1) -> Day:
    """A day on a machine with CIFAR-10."""
    for name in ("work", "logs", "data/cifar10", "made"):
        (folder / name).mkdir(parents=True)
    (folder / "data/cifar10/dataset.json").write_text("{}")
    seen = {"gpus": [{"capability": "9.0"}], "horovod": False}
    day = Day(Record({}), folder / "work", folder / "logs", folder / "data", folder / "made", gpus)
    day.way, day.seen = Straight("python3"), seen
    return day


@pytest.fixture
def day(tmp_path: Path) -> Day:
    return new_day(tmp_path / "day")


def turn_of(day: Day, name: str, seconds: float = 1000) -> Turn:
    """A step under way."""
    return Turn(day, Result(name, name, PASSED), time.monotonic() + seconds)


class Python:
    """In place of the Python with torch: prints a configuration, and trains by writing metrics.

    Attributes:
        accuracies: what an epoch reaches, from the first on; the last one is that of all further.
        rate: images a second.
        configs: of all trainings.
    """

    def __init__(self, accuracies: Sequence[float], rate: float) -> None:
        self.accuracies, self.rate = accuracies, rate
        self.configs: list[dict[str, Any]] = []
        self.fails = False

    def run(self, arguments: Sequence[str | Path], seconds: float, log: Path | None = None) -> str:
        assert arguments[1] == "config"
        pairs = (str(argument).partition("=") for argument in arguments[2:])
        document = {"epochs": 1, **{key: json.loads(value) for key, _, value in pairs}}
        self.configs.append(document)
        return json.dumps(document)

    def run_ranks(
        self, number: int, arguments: Sequence[str | Path], seconds: float, log: Path | None = None
    ) -> str:
        document = json.loads(Path(arguments[-1]).read_text())
        lines = []
        for epoch in range(1, document["epochs"] + 1):
            for step in (2, 4):
                images = 1000 * step
                lines.append(
                    {"event": "step", "epoch": epoch, "step": 10 * epoch + step, "loss": 2.0}
                    | {"images": images, "time": images / self.rate}
                )
            accuracy = self.accuracies[min(epoch, len(self.accuracies)) - 1]
            lines.append({"event": "epoch", "epoch": epoch, "validation_accuracy": accuracy})
        lines.append({**lines[-2], "event": "end", "test_accuracy": accuracy})
        path = Path(document["run_dir"]) / "metrics.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        if self.fails and document["epochs"] > 1:
            raise CommandError("exit status 1: python3", "CUDA error: an illegal memory access")
        return ""


def python_of(
    monkeypatch: pytest.MonkeyPatch, accuracies: Sequence[float] = (0.5,), rate: float = 20_000
) -> Python:
    """Let all that would run in a Python with torch be done by a stand-in for it."""
    python = Python(accuracies, rate)
    monkeypatch.setattr(Straight, "run", lambda _, *arguments: python.run(*arguments))
    monkeypatch.setattr(Straight, "run_ranks", lambda _, *arguments: python.run_ranks(*arguments))
    return python


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo gone >&2; exit 127", "gone"),
        (f'echo "{NO_DRIVER}"; exit 9', NO_DRIVER),
    ],
    ids=["none", "no_driver"],
)
def test_no_gpu_is_no_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    program_on_path(monkeypatch, tmp_path / "bin", "nvidia-smi", f"#!/bin/sh\n{script}\n")
    done = make(f"OUT={tmp_path / 'out'}")
    assert f"No GPU: {reason}. 0 tests run.\n" in done.stderr
    assert "Error 5" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.process
def test_make_hands_its_options_on() -> None:
    listed = make("ARGS=--list", "STEPS=vit,products")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["products", "vit"]
    wrong = make("STEPS=coffee")
    assert "no step coffee; there are: image, torch," in wrong.stderr
    assert "Error 2" in wrong.stderr
    dry = make("--dry-run", "MINUTES=9", "OUT=/o", "IMAGE=i", "PYTHON=p", "DATA=d")
    for words in ("--minutes='9'", "--out='/o'", "--image='i'", "--python='p'", "--data='d'"):
        assert words in dry.stdout


@pytest.mark.process
def test_a_gpu_without_torch_runs_no_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program_on_path(monkeypatch, tmp_path / "bin", "nvidia-smi", SMI)
    python = program_on_path(
        monkeypatch, tmp_path / "bin", "no-torch", "#!/bin/sh\necho no torch; exit 1\n"
    )
    out = tmp_path / "out"
    # Data alone are no test.
    (tmp_path / "data/cifar10").mkdir(parents=True)
    (tmp_path / "data/cifar10/dataset.json").write_text('{"train_images": 50000}')
    options: list[str | Path] = ["--out", out, "--python", python, "--image", "trainyard/none:here"]
    options += ["--data", tmp_path / "data"]
    done = subprocess.run(
        [sys.executable, CHECKOUT / "tests/gpu/day.py", *options],
        # Without docker
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:/nowhere"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (5, "0 tests run.\n"), done.stdout
    results = json.loads((out / "gpu-day.json").read_text())["results"]
    reasons = {result["name"]: result["reason"] for result in results}
    assert reasons["image"] == "there is no docker on this machine"
    assert reasons["torch"].endswith("no-torch: no torch")
    no_torch = "no torch here sees the GPU, neither in an image nor in a Python"
    assert {reasons[name] for name in ("products", "data", "one-rank", "vit")} == {no_torch}
    assert "| driver | 580.65.06 |" in (out / "gpu-day.md").read_text()


@pytest.mark.process
def test_facts_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program_on_path(monkeypatch, tmp_path, "nvidia-smi", SMI)
    found = machine_facts(read_gpus()[0])
    assert found["GPUs"] == "NVIDIA H100 80GB (81,559 MiB)"
    assert found["newest CUDA that the driver takes"] == "13.0"
    assert all(found.values())


@pytest.mark.process
def test_facts_stay_when_only_the_document_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program, "CHECKOUT", tmp_path)
    assert program.version() == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for path in ("trainer/loop.py", "docs/gpu-day.md"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text("1")
    for command in (["init"], ["add", "."], ["commit", "--message", "a"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    before = program.version()
    assert len(before) == 12
    (tmp_path / "docs/gpu-day.md").write_text("2")
    assert program.version() == before
    (tmp_path / "trainer/loop.py").write_text("2")
    assert program.version() == f"{before}, with changes"


class Clock:
    """Time that passes when a step says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def step(self, name: str, takes: float, estimate: float, limit: float, **more: Any) -> Step:
        """A step that takes so long, or until it must be over."""

        def taken(turn: Turn) -> None:
            turn.figure("seconds that it had", turn.left())
            self.now += min(takes, turn.left())
            if error := more.get("raises"):
                raise error

        return Step(name, name, estimate, limit, taken, more.get("is_long", False))


# Steps that the record knows the order of
ONE, TWO, THREE, FOUR = (step.name for step in STEPS[:4])


def test_what_has_no_room_in_the_time_is_left_out_and_named(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    steps = [
        clock.step(ONE, takes=60, estimate=10, limit=90),
        clock.step(TWO, takes=1, estimate=50, limit=90),
        clock.step(THREE, takes=1, estimate=30, limit=30),
    ]
    go(day, steps, 100, lambda: None)
    results = day.record.results
    assert [result.outcome for result in results.values()] == [PASSED, LEFT_OUT, PASSED]
    assert results[TWO].reason == "it takes about 50 s, and 40 s are left"


def test_a_step_has_its_limit_and_a_long_one_leaves_time_for_the_others(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    steps = [
        clock.step(ONE, takes=500, estimate=10, limit=200),
        clock.step(TWO, takes=5000, estimate=10, limit=2000, is_long=True),
        clock.step(THREE, takes=30, estimate=100, limit=200),
        clock.step(FOUR, takes=0, estimate=50, limit=9999),
    ]
    go(day, steps, 1000, lambda: None)
    had = [r.figures["seconds that it had"] for r in day.record.results.values()]
    assert had == [200, 1000 - 200 - 100 - 50, 150, 120]


def test_a_step_that_fails_ends_nothing_and_all_is_written_after_each(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    steps = [
        clock.step(ONE, 1, 1, 9, raises=StepError("the product is wrong")),
        clock.step(TWO, 1, 1, 9, raises=CommandError("exit status 1: x", "CUDA error")),
        clock.step(THREE, 1, 1, 9, raises=LeftOutError("no compiler")),
        clock.step(FOUR, 1, 1, 9, raises=KeyError("torch")),
    ]
    written: list[list[str]] = []
    go(day, steps, 100, lambda: written.append([r.outcome for r in day.record.results.values()]))
    results = day.record.results
    assert written == [
        [FAILED],
        [FAILED, FAILED],
        [FAILED, FAILED, LEFT_OUT],
        [FAILED, FAILED, LEFT_OUT, FAILED],
    ]
    assert (results[ONE].reason, results[TWO].output) == ("the product is wrong", "CUDA error")
    # Figures of a step that failed later on stay.
    assert all(result.figures for result in results.values())
    assert results[FOUR].reason == "KeyError: 'torch'"
    assert "Traceback" in results[FOUR].output
    assert conclude(day.record, results) == 1


def test_what_an_earlier_call_showed_stays_where_this_one_has_no_time(day: Day) -> None:
    earlier = Result(ONE, ONE, PASSED, figures={"images/s": 12.5})
    day.record.add(earlier, [ONE])
    go(day, [Step(ONE, ONE, 100, 100, lambda _: None)], time.monotonic() + 1, lambda: None)
    assert day.record.results[ONE] is earlier


def test_exit_status() -> None:
    def status(*outcomes: str) -> int:
        new = {str(number): Result("n", "t", word) for number, word in enumerate(outcomes)}
        return conclude(Record({}), new)

    assert status(PASSED, LEFT_OUT) == 0
    assert status(PASSED, FAILED) == 1
    assert status(LEFT_OUT, LEFT_OUT) == 5
    assert status() == 5


@pytest.mark.process
def test_a_command_that_takes_too_long_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(CommandError, match="not over within 1 s") as caught:
        run(["sh", "-c", "sleep 60 & echo $!; wait"], 1, log=log)
    child = int(caught.value.output)
    assert log.read_text() == f"{child}\n"
    stat = Path(f"/proc/{child}/stat")
    deadline = time.monotonic() + 5

    def is_alive() -> bool:
        # Who takes it over, where it is not init, may leave a zombie.
        try:
            return stat.read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    while is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.process
def test_a_command_that_fails_shows_its_end(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="exit status 3: sh -c") as caught:
        run(["sh", "-c", "seq 100; exit 3"], 10)
    assert caught.value.output.splitlines() == [str(number) for number in range(61, 101)]
    with pytest.raises(CommandError, match="No such file or directory"):
        run(["no-such-program"], 10)
    with pytest.raises(CommandError, match="no time is left for"):
        run(["true"], 0)


def test_results_of_the_same_machine_go_on_and_those_of_another_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "gpu-day.json"
    first = Record({"GPUs": "T4"})
    first.add(Result(ONE, ONE, PASSED, figures={"images/s": 3.5}), [ONE])
    first.write(path)
    again, word = merged(Record({"GPUs": "T4"}), path)
    assert again == first
    assert word.endswith("has 1 results of this machine; they stay")
    other, word = merged(Record({"GPUs": "H100"}), path)
    assert (other.results, path.exists()) == ({}, False)
    (aside,) = tmp_path.glob("gpu-day-*.json")
    assert Record.read(aside) == first
    assert aside.name in word


def test_the_document() -> None:
    record = Record({"GPUs": "T4", "driver": "550.163.01"})
    order = [ONE, TWO, THREE]
    figures: dict[str, str | int | float] = {"images/s": 12345.6, "wrong": 0, "ratio": 1.23456}
    record.add(Result(THREE, "ViT", LEFT_OUT, "no time"), order)
    record.add(Result(ONE, "products", PASSED, way=STRAIGHT, seconds=2, figures=figures), order)
    record.add(Result(TWO, "sums", FAILED, "a | b", STRAIGHT, output="NCCL: ```\nno"), order)
    text = record.document()
    assert "Steps: 1 passed, 1 failed, 1 left out." in text
    assert "| driver | 550.163.01 |" in text
    rows = [
        line for line in text.splitlines() if line.startswith(("| products", "| sums", "| ViT"))
    ]
    assert rows[0].startswith("| products | passed | straight | 2 s | ")
    assert rows[1].startswith("| sums | **failed** | straight | 0 s | ")
    assert rows[1].endswith("| a \\| b |")
    assert rows[2].startswith("| ViT | left out | - | - | ")
    assert rows[3:] == [
        "| products | images/s | 12,346 |",
        "| products | wrong | 0 |",
        "| products | ratio | 1.235 |",
    ]
    assert "```\nNCCL: '''\nno\n```" in text
    assert "stood in for the GPU" not in text
    record.stand_in = True
    assert "no figure here is one of a GPU" in record.document()


def test_speed_is_that_between_lines_of_the_last_epoch(tmp_path: Path) -> None:
    def lines(*entries: tuple[int, int, int, float]) -> str:
        keys = ("epoch", "step", "images", "time")
        documents = [{"event": "step", **dict(zip(keys, entry, strict=True))} for entry in entries]
        return "".join(json.dumps(document) + "\n" for document in documents)

    path = tmp_path / "metrics.jsonl"
    # The first step compiles; between epochs there is an evaluation.
    whole = lines((1, 1, 10, 0.0), (1, 20, 200, 50.0), (2, 40, 400, 90.0), (2, 60, 600, 91.0))
    path.write_text(whole + '{"event": "step", "epoch": 2, "sta')
    assert Training(tmp_path).images_per_second() == 200.0
    path.write_text(lines((1, 1, 10, 0.0), (1, 20, 200, 50.0)))
    with pytest.raises(StepError, match="too few lines"):
        Training(tmp_path).images_per_second()


@pytest.mark.parametrize(
    ("gpus", "said", "error"),
    [
        (1, "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000", LeftOutError),
        (1, "NCCL error: unhandled system error", CommandError),
        (2, "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000", CommandError),
    ],
    ids=["one_gpu", "other_error", "two_gpus"],
)
def test_nccl_may_refuse_two_ranks_on_one_gpu(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    said: str,
    error: type[Exception],
) -> None:
    turn = turn_of(new_day(tmp_path / "day", gpus), "nccl-two-ranks")

    def refused(way: Straight, *_: Any) -> str:
        turn.log.write_text(said)
        raise CommandError("exit status 1: torchrun", said)

    monkeypatch.setattr(Straight, "run_ranks", refused)
    with pytest.raises(error):
        all_steps.nccl_two_ranks(turn)


def test_wrong_sums_and_products_do_not_pass(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    product = {"gpu": 0, "seconds": 0.02, "wrong": 3}
    found: dict[str, Any] = {"edge": 8192, "products": [product]}
    monkeypatch.setattr(Turn, "measure", lambda *_, **__: found)
    turn = turn_of(day, "products")
    with pytest.raises(StepError, match="not the one of the processor"):
        all_steps.products(turn)
    assert 54 < float(turn.result.figures["GPU 0, float32 product of 8192 x 8192, TFLOP/s"]) < 56
    product["wrong"] = 0
    all_steps.products(turn)
    found = {"world_size": 1, "checks": 15, "wrong": 0, "bandwidths": []}
    all_steps.sums(turn, "nccl", 1)
    with pytest.raises(StepError, match="ranks are missing"):
        all_steps.sums(turn, "nccl", 2)


def test_torch_that_sees_no_gpu_or_too_few_does_not_pass(day: Day) -> None:
    gpu = {"model": "T4", "capability": "7.5", "memory_bytes": 2**34}
    seen = {"torch": "2.10.0", "device": "cuda", "trouble": "", "gpus": [gpu]}
    all_steps.must_compute(turn_of(day, "torch"), seen)
    with pytest.raises(StepError, match="driver is too old"):
        all_steps.must_compute(
            turn_of(day, "torch"), {**seen, "device": "cpu", "trouble": "driver is too old"}
        )
    day.gpus = 2
    with pytest.raises(StepError, match="torch sees 1 GPUs, and nvidia-smi shows 2"):
        all_steps.must_compute(turn_of(day, "torch"), seen)


def test_a_recipe_takes_the_epochs_that_have_time(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_of(monkeypatch, accuracies=(0.2, 0.952))
    Clock(monkeypatch)
    turn = turn_of(day, "resnet18", seconds=300)
    all_steps.resnet18_recipe(turn)
    # An epoch takes 1.1 * 50,000 / 20,000 s.
    epochs = int((0.85 * 300 - 30) / 2.75)
    assert python.configs[-1]["epochs"] == epochs
    assert python.configs[-1]["precision"] == "bf16"
    assert turn.result.reason == f"{epochs} epochs, which had time, in place of 200"
    assert turn.result.figures["accuracy on the test set, last epoch, %"] == pytest.approx(95.2)


def test_a_recipe_that_misses_its_mark_does_not_pass(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_of(monkeypatch, accuracies=(0.949,), rate=1e6)
    turn = turn_of(day, "resnet18")
    with pytest.raises(StepError, match=r"94\.90 % after 200 of the recipe's 200 epochs; the mark"):
        all_steps.resnet18_recipe(turn)
    # One that ends early leaves what it had.
    python.fails = True
    turn = turn_of(day, "vit")
    with pytest.raises(CommandError):
        all_steps.vit_recipe(turn)
    assert turn.result.figures["epochs, of the recipe's 200"] == 200


def test_a_recipe_is_left_out_on_a_slow_gpu_and_without_its_data(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_of(monkeypatch, rate=500)
    with pytest.raises(LeftOutError, match="500 images/s: 7 epochs would fit, of 200"):
        all_steps.resnet18_recipe(turn_of(day, "resnet18"))
    (day.data / "cifar10/dataset.json").unlink()
    with pytest.raises(LeftOutError, match="CIFAR-10 is not here"):
        all_steps.resnet18_recipe(turn_of(day, "resnet18"))


def test_speeds_that_could_be_measured_stay_beside_those_that_could_not(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {"fp32": 100.0, "bf16": 250.0}

    def rate(turn: Turn, model: str, precision: str) -> float:
        if precision not in speeds:
            raise CommandError("exit status 1: python3", "CUDA out of memory")
        return speeds[precision]

    monkeypatch.setattr(Turn, "rate", rate)
    result = take(day, next(step for step in STEPS if step.name == "precisions"), 100)
    assert (result.outcome, result.output) == (FAILED, "CUDA out of memory")
    assert "resnet18 in fp16: exit status 1" in result.reason
    assert result.figures["vit, bf16 over fp32"] == 2.5


def test_without_a_compiler_compilation_is_left_out(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rate(turn: Turn, model: str, precision: str, compile: bool = False) -> float:
        if compile:
            raise CommandError("exit status 2: x", "compile needs a C++ compiler, and this ...")
        return 100.0

    monkeypatch.setattr(Turn, "rate", rate)
    with pytest.raises(LeftOutError, match="no C\\+\\+ compiler"):
        all_steps.compiled(turn_of(day, "compile"))


DOCKER = """#!/bin/sh
echo "$*" >>"{calls}"
case "$1" in
images) cat "{images}";;
run) echo ran;;
esac
"""

CDI = {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]}
ASKED: dict[str, Any] = {"DeviceRequests": [{"Driver": "nvidia"}]}


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """In place of docker: notes how it is called; returns what tells that."""
    images, calls = tmp_path / "images", tmp_path / "calls"
    images.write_text(
        "trainyard/trainer:111\ntrainyard/trainer-cuda13:222-compiler\n"
        "trainyard/trainer-cuda12-legacy:333\ntrainyard/trainer-cuda13:444\n"
    )
    script = DOCKER.format(images=images, calls=calls)
    program_on_path(monkeypatch, tmp_path / "bin", "docker", script)
    return lambda: calls.read_text().splitlines()


@pytest.mark.process
def test_the_newest_image_for_gpus_is_taken(docker: Callable[[], list[str]]) -> None:
    assert find_image(None) == "trainyard/trainer-cuda12-legacy:333"
    assert find_image("mine:1") == "mine:1"


@pytest.mark.process
def test_containers_get_the_gpus_and_are_removed(
    docker: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "gpu_host_configuration", lambda gpus: ASKED)
    way = Container("an:image", [tmp_path], tmp_path)
    assert way.run_ranks(2, ["-m", "trainer", "train"], 10) == "ran\n"
    begun, removed = docker()
    assert " --gpus all " in begun
    assert "--runtime" not in begun
    assert " --env=TRAINYARD_GPUS=1 " in begun
    assert begun.endswith(
        "an:image mpirun -n 2 --map-by :OVERSUBSCRIBE --bind-to none python3 -m trainer train"
    )
    name = begun.split(" --name ")[1].split()[0]
    assert removed == f"rm --force {name}"
    stand_in = Container("an:image", [tmp_path], tmp_path, stand_in=True)
    stand_in.run(["-V"], 10)
    assert "--gpus" not in docker()[-2]
    assert "TRAINYARD_GPUS" not in docker()[-2]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"DeviceRequests": [CDI]}, "--device nvidia.com/gpu=0 --device nvidia.com/gpu=1"),
        ({**ASKED, "Runtime": "nvidia"}, "--runtime nvidia --gpus all"),
        (ASKED, "--gpus all"),
    ],
)
def test_containers_get_gpus_as_runs_do(
    given: dict[str, Any], arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "gpu_host_configuration", {"all": given}.__getitem__)
    assert ways.gpu_arguments() == arguments.split()


def test_steps_come_in_the_order_of_worth_whatever_the_request_says() -> None:
    assert [step.name for step in named("vit, products")] == ["products", "vit"]
    assert named(None) == list(STEPS)
    assert all(step.estimate <= step.limit for step in STEPS)
    # What every GPU has time for, within the 40 minutes
    assert sum(step.estimate for step in STEPS) < 60 * program.MINUTES
