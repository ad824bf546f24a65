"""`make rerun`: what a run did, once more."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from yard import STARTED_AT
from yard.code.program import split_program
from yard.code.requirements import NONE
from yard.code.snapshot import FOLDER
from yard.commands.train import train
from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.operations.packages import LOCK
from yard.operations.runtime import as_it_ran
from yard.plays.remedy import addressed
from yard.request.own_code import ProjectRequest
from yard.request.training import ALL_IMAGES, TrainRequest
from yard.runs.manifest import Manifest
from yard.runs.measurements import find_training
from yard.runs.notebook_files import notebook_of
from yard.runs.record import read_run


def rerun(context: Context, name: str) -> Exit:
    """Launch anew what a run was, in its inventory: a project as it was then, from its snapshot.

    Raises:
        RequestError: the snapshot of its project is gone, or what it asked for is there no more.
    """
    run = find_training(context.project, name)
    manifest = read_run(run).manifest
    as_it_ran(context, manifest)
    there = replace(context, inventory=Path(manifest.inventory_path))
    about = notebook_of(manifest)
    if about is not None:
        command = f"make notebook NODE={about['node']}"
        raise RequestError(
            f"{run.name}: is a notebook; start one: "
            f"{addressed(command, there.project, there.inventory)}"
        )
    return train(there, request_of(run, manifest), STARTED_AT)


def request_of(run: Path, manifest: Manifest) -> TrainRequest | ProjectRequest:
    """The request that leads to the same run: what was typed, with what it came to filled in.

    Raises:
        RequestError: the snapshot of its project is gone.
    """
    configuration, typed = manifest.configuration, manifest.request
    if manifest.project is None:
        images = configuration["train_images"]
        return TrainRequest(
            model=configuration["model"],
            epochs=configuration["epochs"],
            batch=configuration["batch_per_rank"],
            lr=configuration["learning_rate"],
            precision=configuration.get("precision"),
            engine=configuration.get("engine"),
            train_images=ALL_IMAGES if images is None else images,
            checkpoint_seconds=configuration.get("checkpoint_seconds"),
            weights=configuration.get("weights"),
            test_only=configuration.get("test_only"),
            options=configuration["options"],
            **_common(configuration, typed),
        )
    if not (run / FOLDER).is_dir():
        raise RequestError(f"{run.name}: its {FOLDER}/, from which it would run again, is gone")
    packages = manifest.project.get("packages")
    entry, arguments = split_program(manifest.project["program"])
    return ProjectRequest(
        code=str(run / FOLDER),
        project=configuration["model"],
        entry=entry,
        script_args=shlex.join(arguments),
        launch=manifest.project["per"],
        grace=typed.get("grace"),
        requirements=packages["path"] if packages else NONE,
        lock=str(run / LOCK) if packages else None,
        **_common(configuration, typed),
    )


def _common(configuration: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    from_request = {
        name: typed[name] for name in ("name", "resume", "retries", "on") if name in typed
    }
    return {
        "nodes": configuration["nodes"],
        "min_nodes": configuration.get("min_nodes"),
        "gpus_per_node": configuration.get("gpus_per_node"),
        "procs_per_node": configuration["procs_per_node"],
        "dataset": configuration["dataset"],
        "transport": configuration.get("transport"),
        "stall": configuration.get("stall_seconds"),
        **from_request,
    }
