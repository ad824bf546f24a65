"""`make clean-up`: what nothing needs any more, here and on the nodes; removed when told."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, Interrupted, OtherVersionError, RequestError
from yard.core.files import room_of
from yard.core.words import plural, size
from yard.operations.deletion import delete, goes_on_from, words_of_deletion
from yard.pages.index import write_index
from yard.plays.contract import CALL_NODE, CLEAN_UP
from yard.plays.events import Event, failure_message, shortened, unreachable_reason
from yard.plays.inventory import NATIVE, read_inventory
from yard.plays.play import fresh_log, play
from yard.runs.folder import RUN_ID, find_run, is_followed, list_runs, remove_run
from yard.runs.labels import Labels, read_labels
from yard.runs.summary import is_over, read_summary
from yard.screen.failures import show_failures
from yard.screen.plain_table import plain_table
from yard.screen.question import confirm

HERE = "control node"
# Where yard.operations.packages keeps what projects require.
PACKAGES = ".trainyard/packages"
DAY = 86400.0
# Days after which logs of commands, and packages that no run was launched with, are let go.
OLD_DAYS = 30
# Things that stay for one reason and have a row each; a site may have thousands of runs.
MOST_ALIKE = 5
# Why something stays, by the code of it.
REASONS = {
    "current": "the image in use",
    "in_use": "a container has it",
    "goes_on": "it goes on there: make stop RUN={name} ends it",
    "measured": "files that are not home: make stop RUN={name} brings them",
    "not_home": "files of a run that are not home: make attach RUN={name}",
    "unnamed": "the cache of image builds; docker image prune removes it",
    "installs": "it installs packages, perhaps of an interrupted set-up, and ends by itself",
    "young": "younger than the limit",
    "required": "a run that stays was launched with them",
    "no_limit": "runs stay unless DAYS= gives a limit",
    "followed": "a command follows it",
    "unfinished": "it has no result: make attach RUN={name}",
    "elsewhere": "a part of it is still on {hosts}: make attach RUN={name}",
    "other_version": "a newer version of Trainyard wrote it, or it is damaged",
    "named": "it was given the name {label}",
    "heir": "{heir} goes on from it and is not over",
    "labelled": "it was given tags or a note",
}


@dataclass(frozen=True)
class Thing:
    """Something that takes room.

    Attributes:
        place: a node, or `HERE`.
        kind: image, run, log, packages or process.
        bytes: None where that was not measured.
        kept: why it stays; empty where nothing needs it.
        path: what is removed, of a thing that lies here.
    """

    place: str
    kind: str
    name: str
    bytes: int | None
    kept: str
    path: Path | None = None


def clean_up(context: Context, run: str | None, days: int | None, remove: bool) -> Exit:
    """Show what nothing needs any more and what stays, and why; remove the former if told.

    Args:
        run: this one alone is deleted, after a question.
        days: runs that ended longer ago are let go; None keeps all.
        remove: else nothing is touched; of one run, without the question.

    Raises:
        RequestError: there is no such run, it is needed, or the answer was no.
    """
    if run is not None and days is not None:
        raise RequestError("RUN= deletes one run, and DAYS= is about all of them: give one of both")
    if run is not None:
        return _clean_up_run(context, run, remove)
    if days is not None and days < 1:
        raise RequestError("DAYS: must be at least 1")
    things = [*_things_here(context, days), *_things_on_nodes(context, remove)]
    unneeded = [thing for thing in things if not thing.kept]
    _show(context.console, "Removed" if remove else "Nothing needs", unneeded, "")
    _show(context.console, "Stays", [thing for thing in things if thing.kept], "why")
    if remove:
        for thing in unneeded:
            _remove(thing)
        write_index(context.project.runs)
    if unneeded and not remove:
        context.console.print("Nothing was removed. YES=1 removes what nothing needs.")
    elif not unneeded:
        context.console.print("There is nothing to remove.")
    return Exit.DONE


def _clean_up_run(context: Context, name: str, yes: bool) -> Exit:
    run = find_run(context.project.runs, name)
    question, done = words_of_deletion(run)
    confirm(context, question, yes)
    delete(run)
    context.console.print(escape(done))
    return Exit.DONE


def _things_here(context: Context, days: int | None) -> Iterator[Thing]:
    """What this checkout has: its runs, its logs, and the packages of projects."""
    now = time.time()
    used = set()
    counted: set[tuple[int, int]] = set()
    runs = list_runs(context.project.runs)
    unfinished = [run for run in runs if not is_over(run)]
    for run in runs:
        kept = _why_a_run_stays(run, days, now, unfinished)
        lock = run / "packages.txt"
        if kept and lock.is_file():
            used.add(lock.read_bytes())
        yield Thing(HERE, "run", run.name, room_of(run, counted), kept, run)
    for log in sorted(context.project.logs(context.inventory).glob("*.log")):
        is_old = now - log.stat().st_mtime > OLD_DAYS * DAY
        if is_old:
            yield Thing(HERE, "log", log.name, log.stat().st_size, "", log)
    for folder in sorted((context.project.root / PACKAGES).glob("*")):
        if not (folder / "packages.txt").is_file():
            continue
        kept = ""
        if (folder / "packages.txt").read_bytes() in used:
            kept = REASONS["required"]
        elif now - folder.stat().st_mtime <= OLD_DAYS * DAY:
            kept = REASONS["young"]
        yield Thing(HERE, "packages", folder.name, room_of(folder, counted), kept, folder)


def _why_a_run_stays(run: Path, days: int | None, now: float, unfinished: Sequence[Path]) -> str:
    try:
        summary = read_summary(run)
    except OtherVersionError:
        return REASONS["other_version"]
    code, values = "", {"name": run.name, "hosts": "", "label": ""}
    if is_followed(run):
        code = "followed"
    elif summary is None:
        code = "unfinished"
    elif summary.missing_hosts:
        code, values["hosts"] = "elsewhere", ", ".join(summary.missing_hosts)
    elif days is None:
        code = "no_limit"
    elif summary.name:
        code, values["label"] = "named", summary.name
    elif read_labels(run) != Labels():
        code = "labelled"
    elif now - (run / "summary.json").stat().st_mtime <= days * DAY:
        code = "young"
    elif heirs := [heir.name for heir in unfinished if goes_on_from(heir, run)]:
        code, values["heir"] = "heir", heirs[0]
    return REASONS[code].format(**values) if code else ""


def _things_on_nodes(context: Context, remove: bool) -> list[Thing]:
    """What the nodes have, and the engine here; removes what nothing needs if told."""
    things: list[Thing] = []

    def take(event: Event) -> None:
        if event.module not in (CALL_NODE, CLEAN_UP) or event.kind == "runner_on_start":
            return
        place = HERE if event.host == "localhost" else event.host
        if event.kind in ("runner_on_unreachable", "runner_on_failed"):
            if event.kind == "runner_on_unreachable":
                why = f"cannot be reached: {unreachable_reason(event.result)}"
            else:
                why = shortened(failure_message(event.result).strip())
            context.console.print(escape(f"{place}: {why}; it was not looked at"))
            return
        for found in event.result.get("found", []):
            # What a node keeps for a reason that is not known here it keeps all the same.
            code = found["kept"]
            if code == "not_home" and not RUN_ID.fullmatch(found["name"]):
                code = "measured"  # a verification or a benchmark, which cannot be attached to
            reason = REASONS.get(code, code) if code else ""
            kept = reason.replace("{name}", found["name"])
            things.append(Thing(place, found["kind"], found["name"], found["bytes"], kept))
        if event.result.get("trouble") and place != HERE:
            context.console.print(f"{place}: {event.result['trouble']}")

    inventory = read_inventory(context.project, context.inventory)
    # Nodes without an engine have their images as folders, of which nothing is removed.
    limit = ["localhost"] if inventory.runtime == NATIVE else []
    variables = {"clean_up_remove": remove}
    log = fresh_log(context, "clean_up")
    outcome = play(context, "clean_up", variables, take, log=log, limit=limit)
    if outcome.cancelled:
        raise Interrupted("interrupted; some of what was listed may be removed already")
    if not outcome.ok:
        show_failures(context, outcome)
        raise ClusterError("not all nodes could be looked at")
    return sorted(things, key=lambda thing: (thing.place, thing.kind, thing.name))


def _remove(thing: Thing) -> None:
    """Remove what lies here; of the nodes the playbook has."""
    if thing.path is None:
        return
    if thing.kind == "run":
        remove_run(thing.path)
    elif thing.path.is_dir():
        shutil.rmtree(thing.path)
    else:
        thing.path.unlink(missing_ok=True)


def _together(things: Sequence[Thing]) -> Iterator[Thing]:
    """The things; many of one place that stay for one reason have one row together."""
    alike: dict[tuple[str, str, str], list[Thing]] = {}
    for thing in things:
        alike.setdefault((thing.place, thing.kind, thing.kept), []).append(thing)
    for (place, kind, kept), group in alike.items():
        if kept and len(group) > MOST_ALIKE:
            room = sum(thing.bytes or 0 for thing in group)
            yield Thing(place, kind, plural(len(group), kind), room, kept)
        else:
            yield from group


def _show(console: Console, title: str, things: list[Thing], reason: str) -> None:
    if not things:
        return
    total = sum(thing.bytes or 0 for thing in things)
    console.print(f"\n[bold]{title}[/]: {plural(len(things), 'thing')}, {size(total)}")
    table = plain_table("where", "what", "name", "size", reason)
    for thing in _together(things):
        room = "" if thing.bytes is None else size(thing.bytes)
        table.add_row(*map(Text, (thing.place, thing.kind, thing.name, room, thing.kept)))
    console.print(table)
