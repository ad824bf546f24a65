"""A whole training in a file, by name: `trainer/recipes/<name>.yml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from yard.core.errors import RequestError
from yard.core.project import Project

FOLDER = Path("trainer") / "recipes"


@dataclass(frozen=True)
class Recipe:
    """What a recipe says; a request that says otherwise wins.

    Attributes:
        measured: whether its result was measured, and where to read it.
    """

    description: str
    measured: str
    model: str
    dataset: str
    epochs: int
    batch_per_rank: int
    learning_rate: float
    train_images: int | str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """The values that take the place of the model's defaults."""
        names = ("dataset", "epochs", "batch_per_rank", "learning_rate", "train_images", "options")
        return {name: getattr(self, name) for name in names}


def read_recipe(project: Project, name: str) -> Recipe:
    """Read a recipe of the checkout.

    Raises:
        RequestError: there is none of that name; the message lists those there are. Or the file
            has other keys than a recipe has.
    """
    folder = project.root / FOLDER
    path = folder / f"{name}.yml"
    if name not in (file.stem for file in folder.glob("*.yml")):
        names = [f"    {file.stem}" for file in sorted(folder.glob("*.yml"))]
        raise RequestError("\n".join([f"recipe {name!r}: unknown; there are", *names]))
    try:
        return Recipe(**yaml.safe_load(path.read_text(encoding="utf-8")))
    except (TypeError, yaml.YAMLError) as error:
        expected = ", ".join(entry.name for entry in fields(Recipe))
        raise RequestError(f"{project.shown(path)}: {error}; a recipe has {expected}") from error
