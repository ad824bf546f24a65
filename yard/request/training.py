"""A request to train: what was typed, checked against what there is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from yard.request.job import Job, Request
from yard.request.recipe import Recipe

ALL_IMAGES = "all"
# As often as loses the least time
AUTO = "auto"
# What a comparison of one node with several keeps: the images of a rank in a step, or of all ranks
RANK_BATCH, GLOBAL_BATCH = HOLD = ("rank-batch", "global-batch")

# Options of the trainer with a flag of their own, which is the same as --set with that name.
OPTIONS = {
    "--seed": "seed",
    "--optimizer": "optimizer",
    "--weight-decay": "weight_decay",
    "--schedule": "schedule",
    "--augment": "augment",
    "--evaluate-every": "evaluate_every",
    "--early-stop": "early_stop",
    "--freeze": "freeze",
    "--validation": "validation_fraction",
}

# What has a flag of its own, or is decided by the launch, is no free option.
NAMED = {
    "batch_per_rank",
    "checkpoint_seconds",
    "data_dir",
    "dataset",
    "engine",
    "epochs",
    "hosts",
    "learning_rate",
    "model",
    "precision",
    "resume_dir",
    "run_dir",
    "seconds_between_failures",
    "slots",
    "test_only",
    "train_images",
    "weights",
    "weights_sha256",
    "world_size",
}

# Fields of a training that the inventory says again; they are no part of the manifest.
OF_THE_INVENTORY = ("slots", "own_data")


@dataclass(frozen=True)
class TrainRequest(Request):
    """What the user typed; None where nothing was said.

    Attributes:
        checkpoint_seconds: after how long a checkpoint is taken within an epoch, or AUTO; 0: never.
        weights: the run or the file that it begins from.
        test_only: whether this is a checkpoint that is tested, and nothing is trained.
    """

    model: str
    recipe: Recipe | None = None
    epochs: int | None = None
    batch: int | None = None
    lr: float | None = None
    precision: str | None = None
    engine: str | None = None
    train_images: int | str | None = None
    checkpoint_seconds: int | str | None = None
    weights: str | None = None
    test_only: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Training(Job):
    """A training with nothing left open, as the launch gets it.

    Attributes:
        train_images: size of the subset; None for the whole training set.
        train_images_available: size of the training set, where the inventory tells.
        engine, precision, checkpoint_seconds: None leaves them to the launch role's default.
        learning_rate: of the whole job, not of a rank.
        own_data: whether the data set is of a user's own.
        weights, weights_sha256: the file of this machine that it begins from; None for fresh ones.
        test_only: see `TrainRequest`.
    """

    dataset: str
    epochs: int
    batch_per_rank: int
    learning_rate: float
    train_images: int | None
    train_images_available: int | None
    engine: str | None
    precision: str | None
    options: Mapping[str, Any]
    checkpoint_seconds: int | str | None = None
    own_data: bool = False
    weights: str | None = None
    weights_sha256: str | None = None
    test_only: bool | None = None

    @property
    def label(self) -> str:
        """`<model>_<dataset>_b<batch>_e<epochs>_n<nodes>_p<processes>`."""
        if self.test_only:
            return f"{self.model}_{self.dataset}_test_n{self.nodes}_p{self.procs_per_node}"
        return (
            f"{self.model}_{self.dataset}_b{self.batch_per_rank}_e{self.epochs}"
            f"_n{self.nodes}_p{self.procs_per_node}"
        )

    @property
    def is_subset(self) -> bool:
        """Whether less than the whole training set is trained on."""
        return self.train_images is not None and self.train_images != self.train_images_available

    def to_json(self) -> dict[str, Any]:
        values = {**asdict(self), "world_size": self.world_size}
        return {name: value for name, value in values.items() if name not in OF_THE_INVENTORY}

    def extravars(self) -> dict[str, Any]:
        """The launch role's variables; an unset one is left out and the role's default holds."""
        variables = {
            **super().extravars(),
            "training_run_epochs": self.epochs,
            "training_run_batch_per_rank": self.batch_per_rank,
            "training_run_learning_rate": self.learning_rate,
            "training_run_train_images": self.train_images,
            "training_run_options": dict(self.options),
        }
        if self.test_only:
            variables["training_run_options"]["test_only"] = True
        if self.own_data:
            variables["training_run_own_data"] = True
        for name in ("engine", "precision", "checkpoint_seconds", "weights", "weights_sha256"):
            if getattr(self, name) is not None:
                variables[f"training_run_{name}"] = getattr(self, name)
        return variables
