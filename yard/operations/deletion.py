"""Deletes one run, unless somebody needs it, and names the runs that went on from it."""

from pathlib import Path

from yard.core.errors import RequestError
from yard.core.files import read_object, room_of
from yard.core.words import size
from yard.pages.index import write_index
from yard.runs.folder import followed, is_followed, list_runs, remove_run
from yard.runs.overview import overview_of
from yard.runs.summary import is_over, read_summary


def check_deletable(run: Path) -> list[str]:
    """See that a run is over and whole here; returns the runs that went on from it.

    Raises:
        RequestError: it is under way, a part of it is on a node, or one that goes on from it is.
    """
    summary = read_summary(run)
    problem = ""
    if is_followed(run):
        problem = f"it is under way: make stop RUN={run.name} ends it"
    elif summary is None:
        problem = f"it has no result, and may be on its nodes: make stop RUN={run.name} ends it"
    elif summary.missing_hosts:
        hosts = ", ".join(summary.missing_hosts)
        problem = f"a part of it is still on {hosts}: make attach RUN={run.name} brings it home"
    heirs = [other for other in list_runs(run.parent) if goes_on_from(other, run)]
    unfinished = [heir.name for heir in heirs if not is_over(heir)]
    if not problem and unfinished:
        problem = f"{unfinished[0]} goes on from it and is not over"
    if problem:
        raise RequestError(f"{run.name} stays: {problem}")
    return [heir.name for heir in heirs]


def words_of_deletion(run: Path) -> tuple[str, str]:
    """The question before a run is deleted, and what to say once it is.

    Raises:
        RequestError: see `check_deletable`.
    """
    heirs = check_deletable(run)
    about = ", ".join(filter(None, (overview_of(run).name, size(room_of(run, set())))))
    gone_on = f" {', '.join(heirs)} went on from it." if heirs else ""
    return (
        f"Delete {run.name} ({about}) with all its files?{gone_on}",
        f"deleted {run.name} ({about}).{gone_on}",
    )


def delete(run: Path) -> None:
    """Delete the directory of a run, and draw the page of all runs anew.

    Raises:
        RequestError: see `check_deletable`.
    """
    check_deletable(run)
    try:
        with followed(run):
            remove_run(run)
    except FileNotFoundError as error:
        raise RequestError(f"run {run.name!r}: somebody else deletes it") from error
    write_index(run.parent)


def goes_on_from(heir: Path, run: Path) -> bool:
    """Whether a run was begun from the checkpoints or weights of another."""
    manifest = read_object(heir / "manifest.json")
    request, configuration = manifest.get("request"), manifest.get("configuration")
    resumed = isinstance(request, dict) and request.get("resume") == run.name
    weights = configuration.get("weights") if isinstance(configuration, dict) else None
    return resumed or (isinstance(weights, str) and run.name in Path(weights).parts)
