"""For programs that run under Trainyard, and on their own as well: a call in place of a convention.

    import trainyard_run

    trainyard_run.log(step=step, steps=len(batches), loss=loss.item())

Needs nothing but Python. A copy of this file beside a program runs without Trainyard too: then
nothing is written, and the folders are below the working directory.
"""

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any


def log(**numbers: Any) -> None:
    """Report numbers: `step`, `steps`, `epoch`, `epochs`, `loss`, and any others.

    Those of NumPy and PyTorch count too: a loss need not be taken out of its tensor.
    They are appended to $TRAINYARD_METRICS, a JSON object a line, by rank 0 alone: the progress bar
    and the report show them. What is no number is left out, with a warning: no program is to end
    for it.
    """
    path = os.environ.get("TRAINYARD_METRICS")
    if path and os.environ.get("RANK", "0") == "0":
        line = {"time": time.time()}
        for name, value in numbers.items():
            try:
                line[name] = _number(value)
            except Exception as error:  # a class of anybody's may raise anything
                warnings.warn(f"trainyard_run.log: {name} is not logged: {error}", stacklevel=2)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _number(value: Any) -> Any:
    """The number in a scalar of NumPy, a tensor with one value, a fraction and the like."""
    kind = type(value).__name__
    if hasattr(value, "reshape"):
        # Those that have one value alone, of whatever shape
        if len(value.reshape(-1)) != 1:
            raise TypeError(f"{kind} of the shape {tuple(value.shape)}; give its mean, say")
        value = value.item()
    elif hasattr(value, "__float__") and not isinstance(value, int):
        value = float(value)
    if not isinstance(value, (int, float)):
        raise TypeError(f"{kind} is no number")
    return value


def output_dir() -> Path:
    """Where results go that come home as `outputs/`."""
    return _folder("TRAINYARD_OUTPUT_DIR", "outputs")


def checkpoint_dir() -> Path:
    """Where checkpoints go. A run that starts again finds here what the one before left."""
    return _folder("TRAINYARD_CHECKPOINT_DIR", "checkpoints")


def data_dir() -> Path:
    """Where the data set is that the run was asked to have, or the folder of all data sets."""
    return Path(os.environ.get("TRAINYARD_DATA_DIR", "data"))


def _folder(variable: str, name: str) -> Path:
    folder = Path(os.environ.get(variable, name))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
