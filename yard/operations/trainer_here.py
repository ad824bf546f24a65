"""Commands of the trainer in its image on this machine, on what a run left."""

from collections.abc import Sequence
from pathlib import Path

from yard.core.context import Context
from yard.core.errors import RequestError
from yard.operations.setup import run_operation
from yard.plays.inventory import Inventory
from yard.runs.manifest import Manifest, read_manifest


def checkpoint_of(context: Context, run: Path, which: str) -> tuple[Path, Manifest]:
    """A checkpoint of a run of the trainer, and the run's manifest.

    Args:
        which: best or last.

    Raises:
        RequestError: there is none.
    """
    manifest = read_manifest(run)
    if manifest is None or manifest.project is not None:
        raise RequestError(
            f"{run.name} did not train a model of the trainer; what it saved is in checkpoints/"
        )
    checkpoint = run / "checkpoints" / f"{which}.pt"
    if not checkpoint.is_file():
        raise RequestError(f"{context.project.shown(checkpoint)}: the run left no such checkpoint")
    # What last.pt and best.pt are links to has its checksum beside it.
    return checkpoint.resolve(), manifest


def run_trainer_here(
    context: Context,
    inventory: Inventory,
    command: str,
    checkpoint: Path,
    arguments: Sequence[str],
    *,
    to: Path,
    source: Path | None = None,
    datasets: Sequence[str] = (),
    own: tuple[str, Path] | None = None,
) -> None:
    """Run a command of the trainer on a checkpoint.

    Args:
        arguments: what else it takes; there `to` is /to and `source` is /source.
        datasets: those that it needs at /data, prepared on this machine.
        own: name and folder of a user's own data, for /own.
    """
    mounts: list[dict[str, str | bool]] = [
        {"source": str(checkpoint.parent), "target": "/checkpoints", "read_only": True},
        {"source": str(to), "target": "/to", "read_only": False},
    ]
    if source is not None:
        mounts.append({"source": str(source), "target": "/source", "read_only": True})
    if own is not None:
        mounts.append({"source": str(own[1]), "target": f"/own/{own[0]}", "read_only": True})
    variables = {
        "trainer_here_arguments": [
            *(command, "--checkpoint", f"/checkpoints/{checkpoint.name}"),
            *arguments,
        ],
        "trainer_here_mounts": [{"type": "bind", **mount} for mount in mounts],
        "trainer_here_datasets": list(datasets),
    }
    run_operation(context, "trainer_here", variables, inventory=inventory.path)
