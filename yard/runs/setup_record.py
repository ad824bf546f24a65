"""What the last set-up of an inventory left behind, and whether it still holds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from yard.core.files import in_form, read_json, write_json
from yard.core.project import Project
from yard.plays.fingerprint import (
    INVENTORY_PREFIX,
    changed_files,
    concerns_image_alone,
    fingerprint_inventory,
    fingerprint_sources,
)
from yard.plays.inventory import Inventory

# Its file, in the folder of what is remembered about an inventory.
RECORD = "setup.json"


@dataclass(frozen=True)
class SetupRecord:
    """What the last successful set-up left behind, `.trainyard/<inventory>/setup.json`.

    Attributes:
        when: ISO 8601, UTC.
        nodes: members of group `trainers` afterwards.
        datasets: data sets put on these nodes since.
        packages: what projects require, added to the image and brought to these nodes since.
        fingerprint: checksums of what set-up read, by file.
    """

    when: str
    nodes: tuple[str, ...]
    datasets: tuple[str, ...]
    fingerprint: Mapping[str, str]
    packages: tuple[str, ...] = ()


def read_record(project: Project, inventory: Inventory) -> SetupRecord | None:
    """Read the record of the last set-up.

    None when there was none, or another version of yard wrote it in a form that is not known here:
    then set-up runs, and writes it anew.
    """
    document = read_json(_record_file(project, inventory))
    try:
        record: SetupRecord = in_form(SetupRecord, {"nodes": (), "datasets": (), **document})
    except (AttributeError, TypeError):
        return None
    return record


def forget_setup(project: Project, inventory: Path) -> None:
    """Remove the record, because the nodes it speaks of, or the inventory, are gone or new."""
    (project.state(inventory) / RECORD).unlink(missing_ok=True)


@dataclass(frozen=True)
class Staleness:
    """What of the last set-up does not hold any more.

    Attributes:
        reasons: why set-up has to run; empty when it has not.
        image_alone: a new trainer image on the nodes is all that is wanted.
    """

    reasons: tuple[str, ...] = ()
    image_alone: bool = False


def find_staleness(project: Project, inventory: Inventory, nodes: int) -> Staleness:
    """See what has to be done before `nodes` nodes can train."""
    if len(inventory.trainers) < nodes:
        return Staleness((f"there are {len(inventory.trainers)} of {nodes} nodes",))
    record = read_record(project, inventory)
    if record is None:
        return Staleness(("it has not been done from this checkout",))
    now = fingerprint_sources(project) | fingerprint_inventory(inventory.path)
    changed = changed_files(record.fingerprint, now)
    if not changed:
        return Staleness()
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    reason = f"{changed[0]}{more} changed since {record.when}"
    return Staleness((reason,), image_alone=concerns_image_alone(changed))


def write_record(project: Project, inventory: Inventory, record: SetupRecord) -> None:
    """Write the record of a set-up that went well."""
    write_json(_record_file(project, inventory), asdict(record))


def note_on_nodes(project: Project, inventory: Inventory, kind: str, name: str) -> None:
    """Add what was put on the nodes since the last set-up, if there was one.

    Args:
        kind: `datasets` or `packages`.
    """
    record = read_record(project, inventory)
    if record is not None:
        changes: dict[str, Any] = {kind: tuple(dict.fromkeys((*getattr(record, kind), name)))}
        write_record(project, inventory, replace(record, **changes))


def forget_packages(project: Project, inventory: Inventory) -> None:
    """Note that a node lacks what was noted."""
    record = read_record(project, inventory)
    if record is not None:
        write_record(project, inventory, replace(record, packages=()))


def note_image(project: Project, inventory: Inventory, sources: Mapping[str, str]) -> None:
    """Note that the nodes have the image of these sources, and are otherwise as set-up left them.

    Args:
        sources: the fingerprint as it was before the image was built.
    """
    record = read_record(project, inventory)
    if record is None:
        return
    inventories = {
        name: checksum
        for name, checksum in record.fingerprint.items()
        if name.startswith(INVENTORY_PREFIX)
    }
    # What was added for projects was added to the image before.
    fingerprint = inventories | dict(sources)
    write_record(project, inventory, replace(record, fingerprint=fingerprint, packages=()))


def _record_file(project: Project, inventory: Inventory) -> Path:
    return project.state(inventory.path) / RECORD
