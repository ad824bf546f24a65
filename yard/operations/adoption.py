"""Finds a run that was begun from another checkout or control node, from what its nodes know."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import ClusterError, Interrupted, RequestError
from yard.plays.contract import READ_RECORD
from yard.plays.events import Event
from yard.plays.inventory import read_inventory
from yard.plays.play import fresh_log, play
from yard.runs.folder import RUN_ID, adopt_run
from yard.runs.manifest import Manifest, write_manifest
from yard.runs.measurements import find_training


def find_or_adopt(context: Context, name: str) -> Path:
    """Return the directory of a training; make it where only the nodes know the run.

    Raises:
        RequestError: nobody knows it.
        ClusterError: what the nodes know of it is no record of a run, or not all could be asked.
    """
    try:
        return find_training(context.project, name)
    except RequestError:
        if not RUN_ID.fullmatch(name):
            raise
        record = _ask(context, name)
        if record is None:
            raise
    return _adopt(context, name, record)


def _ask(context: Context, run_id: str) -> Mapping[str, Any] | None:
    """What the nodes know of a run; None where none does."""
    records = []

    def take(event: Event) -> None:
        if event.module == READ_RECORD and isinstance(event.result.get("record"), Mapping):
            records.append(event.result["record"])

    context.console.print(f"{escape(run_id)} is not known here. Asking the nodes ...")
    variables = {"training_run_id": run_id}
    outcome = play(context, "record", variables, take, log=fresh_log(context, "record"))
    if outcome.cancelled:
        raise Interrupted("interrupted")
    if not records and outcome.failures:
        reasons = [f"    {failure.host}: {failure.message}" for failure in outcome.failures]
        raise ClusterError("\n".join([f"{run_id}: not all nodes could be asked", *reasons]))
    return records[0] if records else None


def _adopt(context: Context, run_id: str, record: Mapping[str, Any]) -> Path:
    inventory = read_inventory(context.project, context.inventory)
    try:
        nodes = tuple(host for host in map(str, record["nodes"]) if host in inventory.trainers)
        manifest = Manifest.from_json(record["manifest"])
        manifest = replace(
            manifest,
            run_id=run_id,
            # Of a notebook: which folder its files go back to is a word of the node's. They stay
            # in the run's directory.
            project=manifest.project
            and {name: value for name, value in manifest.project.items() if name != "notebook"},
            hosts=nodes,
            inventory=context.project.shown(inventory.path),
            inventory_path=str(inventory.path),
            home=str(record["home"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ClusterError(
            f"what the nodes know of {run_id} is not the record of a run: {error!r}. If it was "
            "started without yard, playbooks/attach.yml goes on with it"
        ) from error
    if len(nodes) < len(record["nodes"]):
        missing = ", ".join(host for host in map(str, record["nodes"]) if host not in nodes)
        raise RequestError(f"{run_id} runs on {missing} too, which this inventory does not have")
    run = adopt_run(context.project.runs, run_id)
    write_manifest(run, manifest)
    context.console.print(
        f"{escape(run_id)} was begun by {escape(str(record.get('owner')))} in "
        f"{escape(str(record['home']))}; it is followed from here now"
    )
    return run
