"""Weights & Biases, where it is installed and asked for by the environment."""

import os
from pathlib import Path
from typing import Any

from trainer.metrics import Line, Listener

KEY, MODE = "WANDB_API_KEY", "WANDB_MODE"


def start_wandb(run_dir: Path, config: dict[str, Any]) -> Listener | None:
    """Open a W&B run when there is a key in the environment, or the mode is "offline".

    Offline runs lie in `<run_dir>/wandb`, from where `wandb sync` sends them.

    Returns:
        What takes the lines of `metrics.jsonl`, or None.
    """
    if not (os.environ.get(KEY) or os.environ.get(MODE) == "offline"):
        return None
    try:
        import wandb
    except ImportError:
        print(
            f"{KEY} or {MODE} is set, but the package wandb is not in this image: no W&B run. "
            "Build an image that has it, or unset the variable.",
            flush=True,
        )
        return None
    run = wandb.init(dir=run_dir, name=config["model"], config=config)

    def listen(line: Line) -> None:
        values = {key: value for key, value in line.items() if isinstance(value, int | float)}
        run.log({f"{line['event']}/{key}": value for key, value in values.items()})
        if line["event"] == "end":
            run.finish()

    return listen
