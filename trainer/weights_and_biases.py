"""Weights & Biases, where it is installed and asked for by the environment."""

import os
from pathlib import Path
from typing import Any

from trainer.metrics import Line, Listener

KEY, MODE = "WANDB_API_KEY", "WANDB_MODE"
# Seconds that training waits for the service to answer.
PATIENCE = 30.0


def start_wandb(run_dir: Path, config: dict[str, Any]) -> Listener | None:
    """Open a W&B run when there is a key in the environment, or the mode is "offline".

    Offline runs lie in `<run_dir>/wandb`, from where `wandb sync` sends them. A run that the
    service does not take is kept there too: training does not fail for want of it.

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
    # What ranks print has logs already, and nobody types an answer here.
    settings = wandb.Settings(console="off", init_timeout=PATIENCE, silent=True)
    asked = {"dir": run_dir, "name": config["model"], "config": config, "settings": settings}
    try:
        run = wandb.init(**asked)
    except wandb.Error as error:
        reason = str(error).partition("\n")[0]
        print(f"W&B does not take this run ({reason}); it is kept for `wandb sync`", flush=True)
        run = wandb.init(**asked, mode="offline")

    def listen(line: Line) -> None:
        values = {key: value for key, value in line.items() if isinstance(value, int | float)}
        run.log({f"{line['event']}/{key}": value for key, value in values.items()})
        if line["event"] == "end":
            run.finish()

    return listen
