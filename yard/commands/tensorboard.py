"""`make tensorboard`: TensorBoard over the runs, for this machine alone."""

import subprocess
import sys
from pathlib import Path

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.runs.folder import OUTPUTS
from yard.runs.gathering import EVENTS

# Nobody else is served: TensorBoard asks nobody who they are.
HOST = "127.0.0.1"
# Where the trainer writes its events, and where a project may have.
TRAINERS = "tensorboard"
PLACES = (TRAINERS, *OUTPUTS)
# How often runs are looked for whose events have come home meanwhile, in seconds.
LOOK_EVERY = 5.0
LAST_PORT = 65535


def tensorboard(context: Context, port: int) -> Exit:
    """Serve what the runs wrote for TensorBoard, until Ctrl-C."""
    runs = context.project.runs
    if not 0 <= port <= LAST_PORT:
        raise RequestError(f"PORT={port}: must be a port, 1 to {LAST_PORT}, or 0 for a free one")
    if not event_folders(runs):
        places = ", ".join(f"runs/<run>/{name}/" for name in PLACES)
        raise RequestError(f"no run has TensorBoard events yet: {places}")
    view = context.project.root / ".trainyard" / "tensorboard"
    link_events(runs, view)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(view)]
    # TensorBoard's faster loader keeps files open and never sees what takes their place: the events
    # of a run that goes on come home as whole new files.
    command.append("--load_fast=false")
    server = subprocess.Popen([*command, "--host", HOST, "--port", str(port)])
    try:
        while True:
            try:
                return Exit.DONE if server.wait(LOOK_EVERY) == 0 else Exit.FAILED
            except subprocess.TimeoutExpired:
                link_events(runs, view)
    except KeyboardInterrupt:
        return Exit.DONE
    finally:
        server.terminate()
        server.wait()


def event_folders(runs: Path) -> dict[str, Path]:
    """The folders with events, by run; `runs/latest` would show a run twice.

    Those of a project's own files are named after the folder too.
    """
    return {
        run.name if name == TRAINERS else f"{run.name}_{name}": run / name
        for run in sorted(runs.glob("*"))
        if run.is_dir() and not run.is_symlink()
        for name in PLACES
        if next((run / name).rglob(EVENTS), None) is not None
    }


def link_events(runs: Path, view: Path) -> None:
    """Make `view` a folder with a link for every run, and nothing else, so that runs are named."""
    view.mkdir(parents=True, exist_ok=True)
    folders = event_folders(runs)
    for link in view.iterdir():
        if link.is_symlink() and link.name not in folders:
            link.unlink()
    for name, folder in folders.items():
        link = view / name
        if not link.is_symlink():
            link.symlink_to(folder.absolute())
