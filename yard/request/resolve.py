"""Fills a request up from recipe and inventory, and finds everything that is wrong with it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yard.core.errors import RequestError
from yard.plays.inventory import Dataset, Inventory, Model
from yard.request.training import ALL_IMAGES, CHOSEN, NAMED, Training, TrainRequest


def resolve(request: TrainRequest, inventory: Inventory) -> Training:
    """Fill the request up from the recipe and the inventory and check it.

    A value comes from the request, else from the recipe, else from the model's entry in
    `training_models`, else from the inventory's `training_run_*` variables. The processes per
    node are else as many as every node has GPUs.

    Raises:
        RequestError: with every problem found, each naming what there is instead.
    """
    resolver = _Resolver(request, inventory)
    training = resolver.resolve()
    if training is None or resolver.problems:
        raise RequestError(resolver.problems)
    return training


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


@dataclass
class _Resolver:
    """Resolves one request.

    Attributes:
        problems: everything that is wrong, in the order in which it is looked at.
        model: the one asked for; an empty one in its place where it is unknown.
        defaults: of the model and the recipe.
    """

    request: TrainRequest
    inventory: Inventory
    problems: list[str] = field(default_factory=list)
    model: Model = field(init=False)
    defaults: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        name = self.request.model
        model = self.inventory.models.get(name)
        if model is None:
            self.problems.append(_unknown("model", name, self.inventory.models))
            model = Model(name, "", {})
        recipe = self.request.recipe
        self.model = model
        self.defaults = {**model.defaults, **(recipe.defaults if recipe else {})}

    def resolve(self) -> Training | None:
        """The training; None where a number that it needs is missing or wrong."""
        request, inventory = self.request, self.inventory
        nodes = self.number("nodes", "node_count", request.nodes, 1)
        # A rank computes on one GPU.
        procs_per_node = self.number(
            "processes per node",
            "procs_per_node",
            request.procs_per_node,
            inventory.gpus_per_node or 1,
        )
        epochs = self.number("epochs", "epochs", request.epochs)
        batch = self.number("batch", "batch_per_rank", request.batch)
        rate = self.number("learning rate", "learning_rate", request.lr, whole=False)
        min_nodes = request.min_nodes if request.min_nodes is not None else nodes
        self.check_counts(min_nodes)
        name, dataset = self.dataset()
        images = self.train_images(name, dataset)
        available = dataset.train_images if dataset else None
        usable = images if images is not None else available
        if usable is not None and None not in (nodes, procs_per_node, batch):
            self.check_step(nodes * procs_per_node, batch, usable)
        chosen = {option: self.choice(option) for option in CHOSEN}
        self.check_options()
        if None in (nodes, procs_per_node, epochs, batch, rate):
            return None
        return Training(
            model=self.model.name,
            dataset=name,
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
            options={**self.defaults.get("options", {}), **request.options},
            min_nodes=min_nodes,
            stall_seconds=request.stall,
        )

    def value(self, name: str, typed: Any, fallback: Any = None) -> Any:
        """A value: as typed, else of recipe or model, else of the inventory, else the fallback."""
        if typed is not None:
            return typed
        return self.defaults.get(name, self.inventory.defaults.get(name, fallback))

    def number(
        self,
        label: str,
        name: str,
        typed: float | None,
        fallback: float | None = None,
        whole: bool = True,
    ) -> Any:
        """A number above 0; None where it is missing or wrong, which is then a problem.

        Args:
            label: what the problem calls it.
        """
        number = self.value(name, typed, fallback)
        if number is None:
            if self.model.name in self.inventory.models:
                self.problems.append(
                    f"{label}: not given, and training_models has none for {self.model.name}"
                )
        elif isinstance(number, bool) or not isinstance(number, int if whole else int | float):
            self.problems.append(f"{label} {number!r}: must be a {'whole ' if whole else ''}number")
        elif not (number > 0 and math.isfinite(number)):
            self.problems.append(f"{label} {number:g}: must be above 0")
        else:
            return number
        return None

    def check_counts(self, min_nodes: int | None) -> None:
        """Check the least number of nodes, and the counts that may be 0."""
        if min_nodes is not None and min_nodes > len(self.inventory.nodes):
            self.problems.append(_too_many_nodes(min_nodes, self.inventory))
        for name, count in (("retries", self.request.retries), ("stall", self.request.stall or 0)):
            if count < 0:
                self.problems.append(f"{name} {count}: must be 0 or more")

    def dataset(self) -> tuple[str, Dataset | None]:
        """The name of the data set, and what the inventory says of it."""
        name = self.value("dataset", self.request.dataset)
        dataset = self.inventory.datasets.get(name)
        may_be_named = self.model.name in self.inventory.models
        if dataset is None and (self.request.dataset is not None or may_be_named):
            self.problems.append(_unknown("dataset", str(name), self.inventory.datasets))
        return name, dataset

    def train_images(self, name: str, dataset: Dataset | None) -> int | None:
        """How many images are trained on; None for all of the data set."""
        value = self.value("train_images", self.request.train_images)
        if value in (None, ALL_IMAGES):
            return None
        images: int | None = self.number("train images", "train_images", value)
        available = dataset.train_images if dataset else None
        if images is not None and available is not None and images > available:
            self.problems.append(f"train images {images:,}: {name} has {available:,}")
        return images

    def check_step(self, ranks: int, batch: int, usable: int) -> None:
        """See that there are enough images for one step."""
        if ranks * batch > usable:
            self.problems.append(
                f"batch {batch}: one step of {ranks} ranks takes {ranks * batch:,} "
                f"images, more than the {usable:,} to train on"
            )

    def choice(self, option: str) -> str | None:
        """What is chosen from a list of the inventory; None leaves it to the launch role."""
        choice: str | None = self.value(option, getattr(self.request, option))
        choices = self.inventory.choices.get(option)
        if choice is not None and choices is not None and choice not in choices:
            self.problems.append(f"{option} {choice!r}: choose from {', '.join(choices)}")
        return choice

    def check_options(self) -> None:
        """Check the names given with `--set`."""
        options = self.inventory.options
        for name in sorted(self.request.options):
            if name in NAMED:
                self.problems.append(f"--set {name}: not a free option (see `yard train --help`)")
            elif options and name not in options:
                self.problems.append(_unknown_option(name, options))


def _unknown(kind: str, name: str, entries: Mapping[str, Model] | Mapping[str, Dataset]) -> str:
    """Say that a name is unknown, and list the known ones with their descriptions."""
    if not entries:
        return f"{kind} {name!r}: unknown, and this inventory names no {kind} (training_{kind}s)"
    return _listed(f"{kind} {name!r}", {entry: entries[entry].description for entry in entries})


def _unknown_option(name: str, options: Mapping[str, str]) -> str:
    return _listed(f"--set {name}", options)


def _listed(unknown: str, descriptions: Mapping[str, str]) -> str:
    width = max(map(len, descriptions))
    lines = [f"    {name:<{width}}  {text}".rstrip() for name, text in descriptions.items()]
    return "\n".join([f"{unknown}: unknown; there are", *lines])


def _too_many_nodes(nodes: int, inventory: Inventory) -> str:
    names = ", ".join(inventory.nodes) or "none"
    if inventory.max_nodes is None:
        return f"nodes {nodes}: this inventory has {len(inventory.nodes)}: {names}"
    return (
        f"nodes {nodes}: this machine holds at most {len(inventory.nodes)} "
        f"(local_cluster_max_nodes): {names}"
    )
