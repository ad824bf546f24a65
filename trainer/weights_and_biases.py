"""Weights & Biases, where it is installed and the environment switches it on."""

import os
from pathlib import Path
from typing import Any

from trainer.metrics import Listener, MetricsLine, class_accuracies

KEY, MODE = "WANDB_API_KEY", "WANDB_MODE"
# Seconds that training waits for the service to answer.
PATIENCE = 30.0
NO_PACKAGE = (
    "the package wandb is not in this image, so there is no W&B run; build an image that has it, "
    f"or unset {KEY} and {MODE}"
)


def start_wandb(run_dir: Path, config: dict[str, Any]) -> tuple[Listener | None, str]:
    """Open a W&B run when there is a key in the environment, or the mode is "offline".

    Offline runs lie in `<run_dir>/wandb`, from where `wandb sync` sends them. A run that the
    service does not take is kept there too: training does not fail for want of it.

    Returns:
        What takes the lines of `metrics.jsonl`, or None; and why the service has no such run, empty
        where it has or was not asked.
    """
    if not (os.environ.get(KEY) or os.environ.get(MODE) == "offline"):
        return None, ""
    try:
        import wandb
    except ImportError:
        print(f"{KEY} or {MODE} is set, but {NO_PACKAGE}", flush=True)
        return None, NO_PACKAGE
    # What ranks print has logs already, and nobody types an answer here.
    settings = wandb.Settings(console="off", init_timeout=PATIENCE, silent=True)
    options = {"dir": run_dir, "name": config["model"], "config": config, "settings": settings}
    refused = ""
    try:
        run = wandb.init(**options)
    except wandb.Error as error:
        reason = str(error).partition("\n")[0]
        if key := os.environ.get(KEY):
            reason = reason.replace(key, "***")
        refused = f"the service refused this run ({reason}). The run is kept for `wandb sync`"
        print(f"W&B: {refused}", flush=True)
        run = wandb.init(**options, mode="offline")

    def listen(line: MetricsLine) -> None:
        logged: dict[str, Any] = {
            f"{line.event}/{key}": value
            for key, value in line.to_json().items()
            if isinstance(value, int | float)
        }
        for name, accuracy in class_accuracies(line.results).items():
            logged[f"test_accuracy/{name}"] = accuracy
        if "test_confusion" in line.results:
            names, matrix = line.results["classes"], line.results["test_confusion"]
            rows = [[name, *row] for name, row in zip(names, matrix, strict=True)]
            logged["end/test_confusion"] = wandb.Table(columns=["truth", *names], data=rows)
        run.log(logged)
        if line.event == "end":
            run.finish()

    return listen, refused
