"""Several trainings that differ in some values: seeds, and all combinations of a sweep."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

from yard.core.errors import RequestError
from yard.request.parse import as_number, parse_option
from yard.request.training import TrainRequest

# What a sweep may name beside options of the trainer.
FIELDS = ("batch", "engine", "epochs", "lr", "model", "nodes", "precision", "train_images")
SEED = "seed"
# More would not end on the same day.
MOST = 100


def read_sweep(text: str, load: Callable[[str], Any]) -> dict[str, list[Any]]:
    """Read `lr=1e-3,3e-4 batch=32,64`.

    Args:
        load: turns the text of a value into a number, boolean or string.

    Raises:
        RequestError: it has another form.
    """
    values: dict[str, list[Any]] = {}
    for part in text.split():
        try:
            name, listed = parse_option(part, str)
        except ValueError as error:
            raise RequestError(f"SWEEP: {error}; it is like lr=1e-3,3e-4 batch=32,64") from error
        values[name] = [as_number(load(value)) for value in listed.split(",") if value]
        if not values[name]:
            raise RequestError(f"SWEEP: {name} has no value")
    return values


def cases_of(
    request: TrainRequest, sweep: dict[str, list[Any]], seeds: int
) -> dict[str, TrainRequest]:
    """The trainings by a label that says what is theirs, like `lr=0.001 batch=32 seed=2`.

    Args:
        sweep: values by name, of which each combination is trained.
        seeds: how many seeds each combination is trained with, from that of the request on, else 1.

    Raises:
        RequestError: they are too many, or one contradicts another.
    """
    if seeds > 1 and SEED in sweep:
        raise RequestError("SEEDS= and seed= in SWEEP=: give one of them")
    # Before they are made: they may be more than the memory holds.
    count = seeds * math.prod(map(len, sweep.values()))
    if count > MOST:
        raise RequestError(f"{count:,} trainings: {MOST} at the most")
    values = dict(sweep)
    if seeds > 1:
        first = request.options.get(SEED, 1)
        values[SEED] = [first + number for number in range(seeds)]
    combinations = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    return {label_of(each): _with(request, each) for each in combinations}


def label_of(values: dict[str, Any]) -> str:
    """What is told of one of them."""
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )


def _with(request: TrainRequest, values: dict[str, Any]) -> TrainRequest:
    named = {name: value for name, value in values.items() if name in FIELDS}
    options = {name: value for name, value in values.items() if name not in FIELDS}
    if "nodes" in named:
        named["min_nodes"] = None
    return replace(request, **named, options={**request.options, **options})
