"""The configuration of a training run, read from the run directory's `config.json`."""

import dataclasses
import json
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.engines import BACKENDS, ENGINES
from trainer.errors import ConfigError
from trainer.schedule import SCHEDULES

# Policies of torchvision that change training images, on top of cuts and flips.
POLICIES = ("randaugment", "trivial")
CHOICES = {
    "engine": ENGINES,
    "backend": tuple(BACKENDS),
    "precision": ("fp32", "bf16", "fp16"),
    "optimizer": ("adamw", "sgd"),
    "compression": ("none", "fp16"),
    "schedule": SCHEDULES,
    "augment": ("none", "basic", *POLICIES),
    "freeze": ("none", "backbone"),
}
AT_LEAST_ONE = (
    *("epochs", "batch_per_rank", "accumulate", "reference_batch", "train_images", "image_size"),
    *("workers", "log_every_steps", "keep_checkpoints", "world_size", "buckets"),
    *("evaluate_every", "early_stop"),
)

FRACTIONS = ("warmup_fraction", "label_smoothing", "momentum", "ema", "validation_fraction")


@dataclass(frozen=True)
class TrainConfig:
    """One training run. A field without a default here is required in the file.

    Attributes:
        dataset: folder below `data_dir` with a prepared data set.
        run_dir: the run directory; metrics, logs and checkpoints go there.
        engine: what exchanges gradients; `independent` exchanges none.
        precision: number format of the forward and backward pass; parameters stay fp32.
        epochs: passes over the training images.
        batch_per_rank: images a rank sees in one step.
        learning_rate: peak rate; of the whole run unless `reference_batch` is set.
        weight_decay: on weight matrices only.
        warmup_fraction: fraction of all steps over which the rate rises from zero.
        label_smoothing: fraction of the target spread over all classes, 0 to 1.
        train_images: size of the class-balanced subset to train on; None for all that are not held
            out for validation.
        validation_fraction: of each class's training images that are held out, to choose `best.pt`
            by; 0 holds none out, and the last checkpoint is the best.
        evaluate_every: epochs from one validation to the next; there is one after the last epoch.
        early_stop: after so many validations in a row without a higher accuracy training ends;
            None for never.
        schedule: of the learning rate after the warm-up, see `trainer.schedule`.
        augment: what training images go through: "none"; "basic", cuts and flips; "randaugment" and
            "trivial", torchvision's policies on top of them.
        seed: of the parameters, the validation split, the subset, the order of images and the
            augmentation.
        log_every_steps: distance of two `step` lines in `metrics.jsonl`.
        optimizer: "adamw" or "sgd".
        momentum: of `sgd`, in Nesterov's form.
        reference_batch: number of images in a step that `learning_rate` is meant for; the rate
            follows the real number in proportion (Goyal et al., 2017). None takes it as it is.
        accumulate: parts that a rank computes its batch in, to save memory.
        clip_norm: the largest norm of the gradient; None does not clip.
        mixup, cutmix: Beta parameters of mixing images; 0 does not mix.
        ema: decay of the averaged parameters that are evaluated and kept; 0 averages none.
        channels_last: memory format of convolutions.
        compile: translate the model with `torch.compile`; needs a C++ compiler in the image.
        deterministic: refuse operations whose result depends on timing.
        compression: number format in which Horovod sends gradients.
        buckets: pieces in which Horovod sends gradients, each while the others are computed; None
            takes the number with which the first steps are fastest.
        image_size: edge in pixels that image files are scaled to; None for the usual 224.
        workers: threads of a rank that read image files; None for as many as it computes with.
        weights: file of weights to begin from, see `trainer.weights`; None for fresh ones.
        weights_sha256: its checksum; None does not compare it.
        test_only: whether nothing is trained, and all ranks test `weights`, a checkpoint of this
            trainer, on the test set of `dataset`.
        freeze: "backbone" has only the last layer learn, "none" all of them.
        resume_dir: folder of checkpoints to go on from; None starts anew.
        keep_checkpoints: how many of the newest checkpoints of ends of epochs stay, beside the
            best.
        checkpoint_seconds: after how long a checkpoint is taken within an epoch; 0 takes them at
            the ends of epochs alone, None as often as loses the least time, see
            `trainer.checkpoint_interval`.
        seconds_between_failures: how long a run on these nodes goes on without one, on average.
        backend: what engine `ddp` sends gradients with.
        slots: number of ranks on each of `hosts`, in their order; None: the same on each.
    """

    model: str
    dataset: str
    data_dir: str
    run_dir: str
    engine: str
    precision: str
    epochs: int
    batch_per_rank: int
    learning_rate: float
    weight_decay: float
    warmup_fraction: float
    label_smoothing: float
    train_images: int | None
    seed: int
    log_every_steps: int
    world_size: int
    hosts: tuple[str, ...]
    optimizer: str = "adamw"
    momentum: float = 0.9
    reference_batch: int | None = None
    accumulate: int = 1
    clip_norm: float | None = None
    mixup: float = 0.0
    cutmix: float = 0.0
    ema: float = 0.0
    channels_last: bool = False
    compile: bool = False
    deterministic: bool = False
    compression: str = "none"
    buckets: int | None = None
    timeline: bool = False
    image_size: int | None = None
    workers: int | None = None
    resume_dir: str | None = None
    keep_checkpoints: int = 3
    checkpoint_seconds: float | None = None
    validation_fraction: float = 0.05
    evaluate_every: int = 1
    early_stop: int | None = None
    weights: str | None = None
    weights_sha256: str | None = None
    test_only: bool = False
    freeze: str = "none"
    schedule: str = "cosine"
    augment: str = "basic"
    seconds_between_failures: float = 30 * 24 * 3600
    backend: str = "gloo"
    slots: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            _require(value in choices, f"{name} is {value!r}; choose from {', '.join(choices)}")
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            _require(value is None or value >= 1, f"{name} must be at least 1")
        _require(self.learning_rate > 0, "learning_rate must be above 0")
        _require(self.clip_norm is None or self.clip_norm > 0, "clip_norm must be above 0")
        for name in ("weight_decay", "mixup", "cutmix", "checkpoint_seconds"):
            value = getattr(self, name)
            _require(value is None or value >= 0, f"{name} must not be below 0")
        _require(self.seconds_between_failures > 0, "seconds_between_failures must be above 0")
        # A generator of torch's for processors uses no more bits of its seed.
        _require(0 <= self.seed < 2**32, f"seed must be at least 0 and below {2**32}")
        for name in FRACTIONS:
            _require(0 <= getattr(self, name) < 1, f"{name} must be at least 0 and below 1")
        _require(
            self.batch_per_rank % self.accumulate == 0,
            f"accumulate {self.accumulate} does not divide batch_per_rank {self.batch_per_rank}",
        )
        _require(
            self.validation_fraction > 0
            or (self.early_stop is None and self.schedule != "plateau"),
            "early_stop and schedule plateau need a validation split: validation_fraction is 0",
        )
        _require(self.engine == "horovod" or not self.timeline, "timeline needs engine 'horovod'")
        _require(self.engine == "horovod" or self.buckets is None, "buckets needs engine 'horovod'")
        _require(len(self.hosts) > 0, "hosts is empty")
        _require(len(set(self.hosts)) == len(self.hosts), "hosts names a host twice")
        if self.slots is None:
            _require(
                self.world_size % len(self.hosts) == 0,
                f"world_size {self.world_size} does not spread evenly over {len(self.hosts)} hosts",
            )
            return
        _require(
            len(self.slots) == len(self.hosts)
            and all(slots >= 1 for slots in self.slots)
            and sum(self.slots) == self.world_size,
            f"slots must be a number for each of the {len(self.hosts)} hosts, at least 1, and "
            f"{self.world_size} together, not {', '.join(map(str, self.slots))}",
        )

    @classmethod
    def from_file(cls, path: Path) -> "TrainConfig":
        """Read and check a configuration file.

        Raises:
            ConfigError: the file cannot be read, is not a JSON object, lacks a key, has one too
                many, or a value is of the wrong type or outside its range.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"the configuration {path} is not JSON: {error}") from error
        return cls.from_json(document)

    @classmethod
    def from_json(cls, document: Any) -> "TrainConfig":
        """Check a decoded JSON document; see `from_file` for the errors."""
        if not isinstance(document, dict):
            raise ConfigError("the configuration must be a JSON object")
        types_by_name = typing.get_type_hints(cls)
        fields = dataclasses.fields(cls)
        valid = [field.name for field in fields]
        unknown = sorted(set(document) - set(valid))
        missing = [
            field.name
            for field in fields
            if field.default is dataclasses.MISSING and field.name not in document
        ]
        if unknown:
            raise ConfigError(
                f"unknown key in the configuration: {', '.join(unknown)}; "
                f"valid are {', '.join(valid)}"
            )
        if missing:
            raise ConfigError(f"missing key in the configuration: {', '.join(missing)}")
        return cls(
            **{name: _typed(name, value, types_by_name[name]) for name, value in document.items()}
        )

    @property
    def peak_learning_rate(self) -> float:
        """The rate at the end of the warm-up, for the number of images in a step of this run."""
        if self.reference_batch is None:
            return self.learning_rate
        return self.learning_rate * self.batch_per_rank * self.world_size / self.reference_batch

    @property
    def ranks_by_host(self) -> dict[str, int]:
        """How many ranks each host must have."""
        even = self.world_size // len(self.hosts)
        return dict(zip(self.hosts, self.slots or [even] * len(self.hosts), strict=True))

    @property
    def exchange_buckets(self) -> int | None:
        """The number of buckets, where it may not follow from how long steps take."""
        # In which order ranks are added up depends on where a bucket begins.
        return 1 if self.buckets is None and self.deterministic else self.buckets

    def to_json(self) -> dict[str, Any]:
        """The configuration as plain JSON values, the inverse of `from_json`."""
        values = dataclasses.asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }


_PLURALS = {str: "strings", int: "integers"}


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


def _typed(name: str, value: Any, kind: Any) -> Any:
    """Return the value as the type; JSON tells integers from booleans, Python does not."""
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(member for member in typing.get_args(kind) if member is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        member = typing.get_args(kind)[0]
        if isinstance(value, list) and all(type(entry) is member for entry in value):
            return tuple(value)
        raise ConfigError(f"{name} must be a list of {_PLURALS[member]}, not {value!r}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{name} must be of type {kind.__name__}, not {value!r}")
    return value
