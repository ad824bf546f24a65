"""Fills a request up from recipe and inventory, and finds everything that is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yard.core.errors import RequestError
from yard.plays.inventory import Dataset, Inventory, Model
from yard.request.job import ranks_on
from yard.request.training import ALL_IMAGES, NAMED, Training, TrainRequest
from yard.request.values import Values, listed, too_many_nodes, unknown

VALIDATION = "validation_fraction"
# Options that other engines do not have, and what they are where they are not used.
OF_HOROVOD = {"timeline": False, "buckets": None, "compression": "none"}


def resolve(request: TrainRequest, inventory: Inventory) -> Training:
    """Fill the request up from the recipe and the inventory and check it.

    A value comes from the request, else from the recipe, else from the model's entry in
    `training_models`, else from the inventory's `training_run_*` variables. The processes per
    node are else as many as it takes GPUs of each node, or as every node has.

    Raises:
        RequestError: with every problem found, each naming what there is instead.
    """
    training, problems = judge(request, inventory)
    if training is None or problems:
        raise RequestError(*problems)
    return training


def judge(request: TrainRequest, inventory: Inventory) -> tuple[Training | None, list[str]]:
    """What `resolve` returns, and the problems that it raises, to be told with others.

    The training is None where a number that it needs is missing or wrong.
    """
    resolver = _Resolver(request, inventory, [])
    return resolver.resolve(), resolver.problems


def check_nodes(nodes: int | None, inventory: Inventory) -> None:
    """Check a number of nodes to be set up; None leaves it to the inventory.

    Raises:
        RequestError: it is not above 0, or more than there can be.
    """
    if nodes is not None and nodes < 1:
        raise RequestError(f"nodes {nodes}: must be above 0")
    if nodes is not None and nodes > len(inventory.nodes):
        raise RequestError(too_many_nodes(nodes, inventory))


def check_dataset(name: str, inventory: Inventory) -> None:
    """Check the name of a data set.

    Raises:
        RequestError: it is unknown; the message lists the known ones.
    """
    if name not in inventory.datasets:
        raise RequestError(unknown("dataset", name, inventory.datasets))


@dataclass
class _Resolver(Values):
    request: TrainRequest
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        name = self.request.model
        model = self.inventory.models.get(name)
        if model is None:
            self.problems.append(unknown("model", name, self.inventory.models))
            model = Model(name, "", {})
        self.model = model

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Those of the model and the recipe."""
        recipe = self.request.recipe
        return {**self.model.defaults, **(recipe.defaults if recipe else {})}

    def resolve(self) -> Training | None:
        """The training; see `judge`."""
        request = self.request
        nodes, procs_per_node = self.world()
        gpus_per_node = self.gpus_per_node()
        slots = self.slots(procs_per_node, gpus_per_node)
        epochs = self.number("epochs", "epochs", request.epochs)
        batch = self.number("batch", "batch_per_rank", request.batch)
        rate = self.number("learning rate", "learning_rate", request.lr, whole=False)
        min_nodes = request.min_nodes if request.min_nodes is not None else nodes
        self.check_counts(min_nodes)
        self.check_gpus(gpus_per_node, min_nodes)
        name, dataset = self.dataset()
        images = self.train_images(name, dataset)
        available = dataset.train_images if dataset else None
        usable = images
        if images is None and available is not None:
            usable = available - self.held_out(available)
        if usable is not None and None not in (nodes, procs_per_node, batch):
            self.check_step(ranks_on(nodes, procs_per_node, slots), batch, usable)
        engine = self.choice("engine", request.engine)
        precision = self.choice("precision", request.precision)
        transport = self.choice("transport", request.transport)
        self.check_checkpoint_seconds()
        self.check_options()
        self.check_together(engine, batch, dataset)
        if None in (nodes, procs_per_node, epochs, batch, rate):
            return None
        return Training(
            model=self.model.name,
            dataset=name,
            nodes=nodes,
            procs_per_node=procs_per_node,
            gpus_per_node=gpus_per_node,
            slots=slots,
            epochs=epochs,
            batch_per_rank=batch,
            learning_rate=float(rate),
            train_images=images,
            train_images_available=available,
            engine=engine,
            precision=precision,
            transport=transport,
            options=self.options,
            min_nodes=min_nodes,
            stall_seconds=request.stall,
            checkpoint_seconds=request.checkpoint_seconds,
            test_only=request.test_only,
            own_data=dataset is not None and dataset.own,
        )

    def missing(self, label: str) -> None:
        """Say that a number is given nowhere; of an unknown model that is no news."""
        if self.model.name in self.inventory.models:
            self.problems.append(
                f"{label}: not given, and training_models has none for {self.model.name}"
            )

    def dataset(self) -> tuple[str, Dataset | None]:
        """The name of the data set, and what the inventory says of it."""
        name = self.value("dataset", self.request.dataset)
        dataset = self.inventory.datasets.get(name)
        may_be_named = self.model.name in self.inventory.models
        if dataset is None and (self.request.dataset is not None or may_be_named):
            self.problems.append(unknown("dataset", str(name), self.inventory.datasets))
        return name, dataset

    def train_images(self, name: str, dataset: Dataset | None) -> int | None:
        """How many images are trained on; None for all of the data set."""
        value = self.request.train_images
        if dataset is None or not dataset.own:
            # What the inventory says of the data sets that it knows.
            value = self.value("train_images", value)
        if value in (None, ALL_IMAGES):
            return None
        images: int | None = self.number("train images", "train_images", value)
        available = dataset.train_images if dataset else None
        if images is not None and available is not None and images > available:
            self.problems.append(f"train images {images:,}: {name} has {available:,}")
        elif images is not None and available is not None:
            held_out = self.held_out(available)
            if images > available - held_out:
                self.problems.append(
                    f"train images {images:,}: of the {available:,} of {name} {held_out:,} are "
                    f"held out for validation; ask for {available - held_out:,} or all, or for "
                    "VALIDATION=0"
                )
        return images

    def check_step(self, ranks: int, batch: int, usable: int) -> None:
        """See that there are enough images for one step."""
        if ranks * batch > usable:
            self.problems.append(
                f"batch {batch}: one step of {ranks} ranks takes {ranks * batch:,} "
                f"images, more than the {usable:,} to train on"
            )

    def check_checkpoint_seconds(self) -> None:
        """Check the distance of checkpoints within an epoch."""
        seconds = self.request.checkpoint_seconds
        if isinstance(seconds, int) and seconds < 0:
            self.problems.append(
                f"checkpoint seconds {seconds}: must be 0 or more; 0 takes them at the ends of "
                "epochs alone"
            )

    def check_options(self) -> None:
        """Check names and values given with `--set` or an option of their own."""
        options = self.inventory.options
        for name, value in sorted(self.request.options.items()):
            if name in NAMED:
                self.problems.append(
                    f"--set {name}: has an option of its own, or is set by the launch"
                )
            elif name in options:
                problem = options[name].problem(value)
                if problem:
                    self.problems.append(f"{name} {value!r}: {problem}")
            elif options:
                abouts = {known: option.about for known, option in options.items()}
                self.problems.append(listed(f"--set {name}", abouts, name))

    def check_together(
        self, engine: str | None, batch: int | None, dataset: Dataset | None
    ) -> None:
        """Check what is right by itself, and not beside another value."""
        options = self.options
        early_stop, schedule = options.get("early_stop"), options.get("schedule")
        if options.get(VALIDATION) == 0 and (early_stop or schedule == "plateau"):
            self.problems.append(
                "early_stop and schedule plateau need the validation split: leave VALIDATION=0 out"
            )
        request = self.request
        if options.get("freeze") == "backbone" and not (request.weights or request.resume):
            self.problems.append(
                "FREEZE=backbone: the head would learn from random features; give WEIGHTS= too"
            )
        parts = options.get("accumulate")
        if isinstance(parts, int) and parts > 0 and batch is not None and batch % parts:
            self.problems.append(f"accumulate {parts}: does not divide batch {batch}")
        if dataset is not None and dataset.image_size is not None:
            size = options.get("image_size", dataset.image_size)
            if size != dataset.image_size:
                said = f"image_size {size}: {dataset.name} has {dataset.image_size}"
                self.problems.append(said)
        for name, unused in OF_HOROVOD.items():
            if engine == "ddp" and options.get(name) not in (None, unused):
                self.problems.append(f"{name} {options[name]}: needs ENGINE=horovod")

    def held_out(self, available: int | None) -> int:
        """How many of so many training images are held out for validation, about."""
        option = self.inventory.options.get(VALIDATION)
        fraction = self.options.get(VALIDATION, option.default if option else None)
        if available is None or not isinstance(fraction, int | float) or not 0 < fraction < 1:
            return 0
        return round(fraction * available)

    @property
    def options(self) -> dict[str, Any]:
        """Those of the model or the recipe, and what the request says."""
        return {**self.defaults.get("options", {}), **self.request.options}
