"""A request to train: what was typed, checked against what there is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from yard.request.recipe import Recipe

ALL_IMAGES = "all"

# What has a flag of its own, or is decided by the launch, is no free option.
NAMED = {
    "batch_per_rank",
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
    "train_images",
    "world_size",
}

# What is chosen from a list of the inventory.
CHOSEN = ("engine", "precision", "transport")


@dataclass(frozen=True)
class TrainRequest:
    """What the user typed; None where nothing was said.

    Attributes:
        min_nodes: with how many nodes it is done at the least; None: with as many as `nodes` says.
        resume: run whose checkpoints are gone on from.
        retries: how often a failed run is started again.
        stall: seconds without a step after which a run counts as hanging; 0: never.
    """

    model: str
    recipe: Recipe | None = None
    nodes: int | None = None
    procs_per_node: int | None = None
    epochs: int | None = None
    batch: int | None = None
    lr: float | None = None
    dataset: str | None = None
    precision: str | None = None
    engine: str | None = None
    transport: str | None = None
    name: str | None = None
    train_images: int | str | None = None
    min_nodes: int | None = None
    resume: str | None = None
    retries: int = 0
    stall: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What was said, without what was not."""
        return {key: value for key, value in asdict(self).items() if value not in (None, {}, 0)}


@dataclass(frozen=True)
class Training:
    """A training with nothing left open, as the launch gets it.

    Attributes:
        nodes, min_nodes: how many at the most and at the least.
        train_images: size of the subset; None for the whole training set.
        train_images_available: size of the training set, where the inventory tells.
        engine, precision, transport, stall_seconds: None leaves them to the launch role's default.
        learning_rate: of the whole job, not of a rank.
    """

    model: str
    dataset: str
    nodes: int
    procs_per_node: int
    epochs: int
    batch_per_rank: int
    learning_rate: float
    train_images: int | None
    train_images_available: int | None
    engine: str | None
    precision: str | None
    transport: str | None
    options: Mapping[str, Any]
    min_nodes: int
    stall_seconds: int | None = None

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.nodes * self.procs_per_node

    @property
    def is_subset(self) -> bool:
        """Whether less than the whole training set is trained on."""
        return self.train_images is not None and self.train_images != self.train_images_available

    def to_json(self) -> dict[str, Any]:
        """The plain values, for the manifest."""
        return {**asdict(self), "world_size": self.world_size}

    def extravars(self) -> dict[str, Any]:
        """The launch role's variables; an unset one is left out and the role's default holds."""
        variables = {
            "training_run_model": self.model,
            "training_run_dataset": self.dataset,
            "training_run_node_count": self.nodes,
            "training_run_node_minimum": self.min_nodes,
            "training_run_procs_per_node": self.procs_per_node,
            "training_run_epochs": self.epochs,
            "training_run_batch_per_rank": self.batch_per_rank,
            "training_run_learning_rate": self.learning_rate,
            "training_run_train_images": self.train_images,
            "training_run_options": dict(self.options),
        }
        for name in (*CHOSEN, "stall_seconds"):
            if getattr(self, name) is not None:
                variables[f"training_run_{name}"] = getattr(self, name)
        return variables
