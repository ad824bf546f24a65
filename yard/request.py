"""A request to train: what was typed, checked against what there is."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from yard.errors import RequestError
from yard.inventory import Inventory, Model
from yard.recipe import Recipe

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


def resolve(request: TrainRequest, inventory: Inventory) -> Training:
    """Fill the request up from the recipe and the inventory and check it.

    A value comes from the request, else from the recipe, else from the model's entry in
    `training_models`, else from the inventory's `training_run_*` variables. The processes per
    node are else as many as every node has GPUs.

    Raises:
        RequestError: with every problem found, each naming what there is instead.
    """
    problems: list[str] = []
    model = inventory.models.get(request.model)
    if model is None:
        problems.append(_unknown("model", request.model, inventory.models))
        model = Model(request.model, "", {})
    defaults = {**model.defaults, **(request.recipe.defaults if request.recipe else {})}

    def value(name: str, asked: Any, unset: Any = None) -> Any:
        if asked is not None:
            return asked
        return defaults.get(name, inventory.defaults.get(name, unset))

    def number(
        label: str, name: str, asked: float | None, unset: float | None = None, whole: bool = True
    ) -> Any:
        found = value(name, asked, unset)
        if found is None:
            if model.name in inventory.models:
                problems.append(
                    f"{label}: not given, and training_models has none for {model.name}"
                )
        elif isinstance(found, bool) or not isinstance(found, int if whole else int | float):
            problems.append(f"{label} {found!r}: must be a {'whole ' if whole else ''}number")
        elif not (found > 0 and math.isfinite(found)):
            problems.append(f"{label} {found:g}: must be above 0")
        else:
            return found
        return None

    nodes = number("nodes", "node_count", request.nodes, 1)
    # A rank computes on one GPU.
    procs_per_node = number(
        "processes per node", "procs_per_node", request.procs_per_node, inventory.gpus_per_node or 1
    )
    epochs = number("epochs", "epochs", request.epochs)
    batch = number("batch", "batch_per_rank", request.batch)
    rate = number("learning rate", "learning_rate", request.lr, whole=False)
    least = request.min_nodes if request.min_nodes is not None else nodes
    if least is not None and least > len(inventory.nodes):
        problems.append(_too_many_nodes(least, inventory))
    for name, count in (("retries", request.retries), ("stall", request.stall or 0)):
        if count < 0:
            problems.append(f"{name} {count}: must be 0 or more")

    dataset_name = value("dataset", request.dataset)
    dataset = inventory.datasets.get(dataset_name)
    if dataset is None and (request.dataset is not None or model.name in inventory.models):
        problems.append(_unknown("dataset", str(dataset_name), inventory.datasets))
    available = dataset.train_images if dataset else None
    images: int | None = None
    asked_images = value("train_images", request.train_images)
    if asked_images not in (None, ALL_IMAGES):
        images = number("train images", "train_images", asked_images)
    if images is not None and available is not None and images > available:
        problems.append(f"train images {images:,}: {dataset_name} has {available:,}")
    usable = images if images is not None else available
    if None not in (nodes, procs_per_node, batch, usable):
        per_step = nodes * procs_per_node * batch
        if per_step > usable:
            problems.append(
                f"batch {batch}: one step of {nodes * procs_per_node} ranks takes {per_step:,} "
                f"images, more than the {usable:,} to train on"
            )

    chosen = {name: value(name, getattr(request, name)) for name in CHOSEN}
    for name, choice in chosen.items():
        if (
            choice is not None
            and name in inventory.choices
            and choice not in inventory.choices[name]
        ):
            problems.append(f"{name} {choice!r}: choose from {', '.join(inventory.choices[name])}")
    for name in sorted(request.options):
        if name in NAMED:
            problems.append(f"--set {name}: not a free option (see `yard train --help`)")
        elif inventory.options and name not in inventory.options:
            problems.append(_unknown_option(name, inventory.options))
    if problems:
        raise RequestError(problems)
    return Training(
        model=model.name,
        dataset=dataset_name,
        nodes=nodes,
        procs_per_node=procs_per_node,
        epochs=epochs,
        batch_per_rank=batch,
        learning_rate=float(rate),
        train_images=images,
        train_images_available=available,
        engine=chosen["engine"],
        precision=chosen["precision"],
        transport=chosen["transport"],
        options={**defaults.get("options", {}), **request.options},
        min_nodes=least,
        stall_seconds=request.stall,
    )


def check_nodes(nodes: int | None, inventory: Inventory) -> None:
    """Check a number of nodes to be set up; None leaves it to the inventory.

    Raises:
        RequestError: it is not above 0, or more than there can be.
    """
    if nodes is not None and nodes < 1:
        raise RequestError([f"nodes {nodes}: must be above 0"])
    if nodes is not None and nodes > len(inventory.nodes):
        raise RequestError([_too_many_nodes(nodes, inventory)])


def check_dataset(name: str, inventory: Inventory) -> None:
    """Check the name of a data set.

    Raises:
        RequestError: it is unknown; the message lists the known ones.
    """
    if name not in inventory.datasets:
        raise RequestError([_unknown("dataset", name, inventory.datasets)])


def _unknown(kind: str, name: str, entries: Mapping[str, Any]) -> str:
    """Say that a name is unknown, and list the known ones with their descriptions."""
    if not entries:
        return f"{kind} {name!r}: unknown, and this inventory names no {kind} (training_{kind}s)"
    width = max(len(entry) for entry in entries)
    known = [f"    {entry:<{width}}  {entries[entry].description}".rstrip() for entry in entries]
    return "\n".join([f"{kind} {name!r}: unknown; there are", *known])


def _unknown_option(name: str, options: Mapping[str, str]) -> str:
    width = max(map(len, options))
    known = [f"    {option:<{width}}  {text}" for option, text in options.items()]
    return "\n".join([f"--set {name}: unknown; there are", *known])


def _too_many_nodes(nodes: int, inventory: Inventory) -> str:
    names = ", ".join(inventory.nodes) or "none"
    if inventory.max_nodes is None:
        return f"nodes {nodes}: this inventory has {len(inventory.nodes)}: {names}"
    return (
        f"nodes {nodes}: this machine holds at most {len(inventory.nodes)} "
        f"(local_cluster_max_nodes): {names}"
    )


def parse_train_images(text: str) -> int | str:
    """Read `--train-images`: a count, or `all`.

    Raises:
        ValueError: it is neither.
    """
    return ALL_IMAGES if text == ALL_IMAGES else int(text)


def parse_nodes(text: str) -> tuple[int, int]:
    """Read `--nodes`: a count, or the least and the most, as in `2..4`.

    Raises:
        ValueError: it is neither, or the least is above the most.
    """
    least, _, most = text.partition("..")
    found = (int(least), int(most or least))
    if found[0] > found[1]:
        raise ValueError(text)
    return found


def parse_option(text: str, load: Callable[[str], Any]) -> tuple[str, Any]:
    """Read one `--set key=value`; `load` turns the value's text into a number, boolean or string.

    Raises:
        ValueError: there is no `=`, or no key before it.
    """
    key, separator, value = text.partition("=")
    if not (separator and key.isidentifier()):
        raise ValueError(f"{text!r} is not key=value")
    return key, load(value)
