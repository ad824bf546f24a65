"""`make provision`, `destroy` and `provision-check`: machines that are rented."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from yard.core.console import ForeignTextConsole
from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, Interrupted, RequestError
from yard.core.words import plural
from yard.operations.renting import (
    check_library,
    look_for_machines,
    look_for_plan,
    look_for_things,
    make_machines,
    remove_things,
)
from yard.plays.fingerprint import VARIABLES
from yard.plays.remedy import addressed
from yard.request.site import MOST_HOURS, ROLE, Site, list_sites, read_hours, read_site
from yard.runs.setup_record import forget_setup
from yard.screen.question import confirm
from yard.screen.rented_tables import show_found, show_plan, show_things

# More machines than this are a slip of the keyboard.
MOST_MACHINES = 256
# The file of an inventory that asks EC2, and all files that `make provision` writes there.
SOURCE = "machines.aws_ec2.yml"
GROUPS = "groups.yml"
WRITTEN = (GROUPS, "known_hosts.txt", SOURCE)
# It stands in the head of the files that are YAML.
MARK = "# Written by `make provision`"


def provision(context: Context, path: Path, count: int, hours: float | None, yes: bool) -> Exit:
    """Have as many machines as asked for, after a look at what it costs and a question.

    Args:
        hours: from now to a new deadline, of machines that are there too; None leaves theirs.

    Raises:
        RequestError: the request or the site file has mistakes, or the answer was no.
        ClusterError: AWS refuses, or a task failed. Running it again goes on.
    """
    site = read_site(context.project, path, renting=True)
    problems = []
    if not 1 <= count <= MOST_MACHINES:
        problems.append(
            f"COUNT={count}: must be from 1 to {MOST_MACHINES}; make destroy gives all back"
        )
    if hours is not None:
        try:
            site = replace(site, hours=read_hours(hours))
        except ValueError:
            problems.append(f"HOURS={hours:g}: must be from 0.1 to {MOST_HOURS:g}")
    inventory = site.inventory(context.project)
    others = _files_of_others(inventory)
    if others:
        problems.append(
            f"name: {context.project.shown(inventory)} is an inventory of your own "
            f"({', '.join(others)}): give the site another name in {context.project.shown(path)}"
        )
    problems += _other_region(context, site)
    if problems:
        raise RequestError(*problems)
    check_library()
    extravars = {
        **site.extravars(),
        f"{ROLE}_count": count,
        f"{ROLE}_prolong": hours is not None,
        f"{ROLE}_inventory": str(inventory),
    }
    plan = look_for_plan(context, extravars)
    show_plan(context.console, site, plan)
    question = _question(plan)
    if question:
        confirm(context, question, yes)
    with _costs_are_said(context, site):
        changed = make_machines(context, extravars, plan)
    shown = shlex.quote(context.project.shown(inventory))
    context.console.print(
        f"{plural(count, 'machine')} in {shown}. "
        f"Next: {addressed('make setup', context.project, inventory)}"
        if changed
        else "Nothing to change.",
        markup=False,
    )
    return Exit.DONE


def destroy(context: Context, path: Path, yes: bool) -> Exit:
    """Give back all that carries the site's tag, after a question, and see that nothing is left.

    Raises:
        RequestError: the site file has mistakes or another region than the machines, or the answer
            was no.
        ClusterError: AWS refuses, something is left, or machines that were rented are not found.
    """
    site = read_site(context.project, path)
    problems = _other_region(context, site)
    if problems:
        raise RequestError(*problems)
    check_library()
    with _costs_are_said(context, site):
        things = look_for_things(context, site.scope())
    where = f"{site.region} carries the tag trainyard:site={site.name}"
    if things:
        show_things(context.console, things)
        machines = sum(thing["type"] == "instance" for thing in things)
        confirm(
            context,
            f"Remove {plural(len(things), 'thing')}, {plural(machines, 'machine')} of them with "
            "all that is on their disks?",
            yes,
        )
        with _costs_are_said(context, site):
            remove_things(context, site.scope())
        context.console.print(f"Removed. Asked again: nothing in {where}.")
    elif _source(context, site).is_file():
        source = shlex.quote(context.project.shown(_source(context, site)))
        raise ClusterError(
            f"Nothing in {where} for the credentials in use, but {source} was written for machines "
            "there: is AWS_PROFILE that of make provision? Nothing was removed here. Where all was "
            f"given back already, or removed by hand: rm {source}"
        )
    else:
        context.console.print(f"There is nothing to remove: nothing in {where}.")
    _forget(context, site)
    return Exit.DONE


def provision_check(context: Context, path: Path | None, as_json: bool) -> Exit:
    """Name the machines of all sites, and the command that gives those back which are overdue.

    Args:
        path: the site file whose region is looked at; None looks at those of all site files.
        as_json: print one JSON document instead, which docs/rented-machines.md describes.

    Returns:
        UNFIT where a machine is past its deadline, else BAD_REQUEST where a file of `sites/` has
        mistakes: machines of that site are named where their region is looked at for another one.

    Raises:
        RequestError: the site file has mistakes, or none is there or can be read.
    """
    project = context.project
    sites, problems = list_sites(project)
    if path is not None:
        sites = [read_site(project, path), *(site for site in sites if site.path != path)]
        regions, problems = [sites[0].region], []
    else:
        regions = sorted({site.region for site in sites})
        if not sites:
            raise RequestError(*(problems or ["sites/ has no site file; SITE= names one"]))
    check_library()
    # In a document there is no room for progress and failures.
    aside = replace(context, console=ForeignTextConsole(stderr=True)) if as_json else context
    things = look_for_machines(aside, regions)
    commands = _commands(context, sites, [thing for thing in things if thing["overdue"]])
    if as_json:
        ok = not commands and not problems
        document = {"regions": regions, "machines": things, "commands": commands}
        print(json.dumps({"ok": ok, **document, "problems": problems}, indent=2))
    else:
        where = ", ".join(regions)
        if things:
            show_found(context.console, things)
        if commands:
            context.console.print("Past their deadline, and still paid for. To give them back:")
            for command in commands:
                context.console.print(f"  {command}", soft_wrap=True, markup=False)
        else:
            context.console.print(f"Nothing in {where} is past its deadline.")
    for problem in problems:
        print(f"yard: {problem}", file=sys.stderr)
    return Exit.UNFIT if commands else Exit.BAD_REQUEST if problems else Exit.DONE


@contextmanager
def _costs_are_said(context: Context, site: Site) -> Iterator[None]:
    """Say what a command that did not come to its end may have left at EC2."""
    try:
        yield
    except (ClusterError, Interrupted) as error:
        file = shlex.quote(context.project.shown(site.path))
        raise type(error)(
            f"{error}\nmachines that are rented run on, and cost: make provision-check SITE={file} "
            f"names them, make destroy SITE={file} gives them back"
        ) from error


def _question(plan: Mapping[str, Any]) -> str:
    """What is to be agreed to; empty where nothing costs and nothing is lost."""
    parts = []
    if plan["make"]:
        parts.append(f"rent {plural(len(plan['make']), 'machine')}")
    if plan["prolong"]:
        parts.append(
            f"give {plural(len(plan['prolong']), 'machine')} time until {plan['deadline']}"
        )
    if plan["remove"]:
        names = ", ".join(machine["name"] for machine in plan["remove"])
        parts.append(f"give back {names} with all that is on their disks")
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}?" if text else ""


def _commands(
    context: Context, sites: Sequence[Site], overdue: Sequence[Mapping[str, Any]]
) -> list[str]:
    """A command for each site of machines that are overdue."""
    commands = []
    for name, region in dict.fromkeys((thing["site"], thing["region"]) for thing in overdue):
        files = [site.path for site in sites if (site.name, site.region) == (name, region)]
        if files:
            commands.append(f"make destroy SITE={shlex.quote(context.project.shown(files[0]))}")
            continue
        mine = [t for t in overdue if (t["site"], t["region"]) == (name, region)]
        # Its file is elsewhere: AWS's own program takes the ids.
        for kind, verb in (
            ("instance", "terminate-instances --instance-ids"),
            ("volume", "delete-volume --volume-id"),
        ):
            ids = [thing["id"] for thing in mine if thing["type"] == kind]
            groups = [ids] if kind == "instance" and ids else [[one] for one in ids]
            commands += [f"aws ec2 {verb} {' '.join(g)} --region {region}" for g in groups]
    return commands


def _source(context: Context, site: Site) -> Path:
    """The file by which the site's inventory asks EC2; there while machines are rented."""
    return site.inventory(context.project) / SOURCE


def _other_region(context: Context, site: Site) -> list[str]:
    """What is wrong where machines were rented in another region than the site file says.

    In the file's region there is nothing of them, or something of somebody else's: the inventory
    would be written anew or removed, and they would be paid for with nobody knowing of them.
    """
    source = _source(context, site)
    if not source.is_file():
        return []
    shown, file = context.project.shown(source), context.project.shown(site.path)
    try:
        document = yaml.safe_load(source.read_text(encoding="utf-8"))
        regions = [str(region) for region in document["regions"]]
    except (ValueError, TypeError, KeyError, yaml.YAMLError):
        return [
            f"{shown}: does not say in which region machines were rented: give it back its line "
            f"regions: [{site.region}], with their region"
        ]
    if regions == [site.region]:
        return []
    return [
        f"{file}: region: is {site.region}, and {shown} was written for machines in "
        f"{', '.join(regions)}: give {file} that region and make destroy first, or give the site "
        "another name"
    ]


def _files_of_others(inventory: Path) -> list[str]:
    """Files of an inventory that somebody made by hand; none where `make provision` made it."""
    if not inventory.exists() or (inventory / SOURCE).is_file():
        return []
    if not inventory.is_dir():
        return [inventory.name]
    # Without the source they are what is left when somebody has removed that by hand.
    # Variables people put beside them, and they stay after `make destroy`.
    known = VARIABLES + (WRITTEN if _is_ours(inventory / GROUPS) else ())
    return sorted(entry.name for entry in inventory.iterdir() if entry.name not in known)[:3]


def _is_ours(groups: Path) -> bool:
    try:
        return MARK in groups.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _forget(context: Context, site: Site) -> None:
    """Remove what was written here; files that somebody put beside them stay."""
    inventory = site.inventory(context.project)
    if inventory.is_dir() and not _files_of_others(inventory):
        for name in WRITTEN:
            (inventory / name).unlink(missing_ok=True)
        if not any(inventory.iterdir()):
            inventory.rmdir()
    forget_setup(context.project, inventory)
