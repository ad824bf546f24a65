"""What all who use a node have alike, and who agreed on it: a record that root keeps on the node.

Several operators may set up and use the same nodes, from different checkouts or machines. Each
set-up writes the settings that all share. Whoever has other values is refused, unless nobody else
uses the node.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from .problems import Problem, problem

# Where there is none nobody's set-up has written it yet.
PATH = "/var/lib/trainyard/site.json"


class SiteError(Exception):
    """The record is there and cannot be understood; the text names it."""


@dataclass(frozen=True)
class Operator:
    """Who sets up and uses a node.

    Attributes:
        operator: the checkout and the machine that it is on, one name for each.
        when: when that was, UTC.
    """

    operator: str
    who: str
    when: str = ""


@dataclass(frozen=True)
class Site:
    """What the operators of a node have agreed on.

    Attributes:
        written: who gave the settings.
        operators: all who agreed on the settings, `written` among them.
    """

    settings: Mapping[str, Any]
    nodes: Sequence[str]
    written: Operator
    operators: Sequence[Operator] = field(default_factory=tuple)

    def others(self, operator: str) -> list[Operator]:
        """Those who agreed on it, without this one."""
        return [entry for entry in self.operators if entry.operator != operator]


def now() -> str:
    """This moment, as a record has it."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def read_site() -> Site | None:
    """Return the record of a node; None where there is none.

    Raises:
        SiteError: there is something else.
    """
    try:
        with open(PATH, encoding="utf-8") as file:
            document = json.load(file)
        return Site(
            settings=dict(document["settings"]),
            nodes=tuple(document["nodes"]),
            written=Operator(**document["written"]),
            operators=tuple(Operator(**entry) for entry in document["operators"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SiteError(
            f"{PATH} is not a record of what operators agreed on ({error}). Remove it there; the "
            "next make setup writes it anew"
        ) from error


@contextmanager
def alone() -> Iterator[None]:
    """Keep other set-ups from reading the record before this one has written it."""
    os.makedirs(os.path.dirname(PATH), mode=0o755, exist_ok=True)
    # A file that root alone can open: who can open a directory can lock it for ever.
    descriptor = os.open(f"{PATH}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_site(site: Site) -> None:
    """Put a record there; only under `alone`."""
    document = {
        "settings": dict(site.settings),
        "nodes": list(site.nodes),
        "written": asdict(site.written),
        "operators": [asdict(entry) for entry in site.operators],
    }
    with open(f"{PATH}.new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    os.chmod(f"{PATH}.new", 0o644)
    os.replace(f"{PATH}.new", PATH)


def remove_site() -> None:
    """Remove the record, its lock, and their directory if nothing else is in it."""
    for path in (PATH, f"{PATH}.lock"):
        with suppress(FileNotFoundError):
            os.remove(path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(PATH))


def differences(site: Site, settings: Mapping[str, Any]) -> list[Problem]:
    """Return in which settings others differ from those of a node.

    A setting that one of both does not know is none: the version of the layout tells whether that
    matters.
    """
    return [
        problem(
            "site_differs",
            setting=name,
            there=_told(site.settings[name]),
            here=_told(settings[name]),
            operator=site.written.operator,
            who=site.written.who,
            when=site.written.when,
        )
        for name in sorted(settings)
        if name in site.settings and site.settings[name] != settings[name]
    ]


def _told(value: Any) -> Any:
    return "empty" if value in ("", []) else value


def missing_nodes(site: Site, nodes: Sequence[str]) -> list[Problem]:
    """Return that nodes are left out which others set up together with this one.

    They would lose the trust of the others. More nodes than before take nothing from anybody.
    """
    missing = [name for name in site.nodes if name not in nodes]
    if not missing:
        return []
    return [
        problem(
            "site_nodes_missing",
            nodes=", ".join(missing),
            operator=site.written.operator,
            who=site.written.who,
            when=site.written.when,
        )
    ]


def use_problems(site: Site | None, settings: Mapping[str, Any], operator: str) -> list[Problem]:
    """Return what keeps an operator from using a node: settings that others agreed on differ.

    Where nobody else uses it there is nobody to agree with: one checkout may have inventories that
    differ.
    """
    if site is None or not site.others(operator):
        return []
    return differences(site, settings)


def agree(
    site: Site | None,
    settings: Mapping[str, Any],
    nodes: Sequence[str],
    me: Operator,
    take_over: bool = False,
) -> tuple[Site, list[Problem]]:
    """Return the record after a set-up, and why that is refused; then the record stays.

    Args:
        take_over: set other values than others agreed on. These have then agreed on nothing.
    """
    wanted = Site(dict(settings), tuple(sorted(nodes)), me, (me,))
    if site is None:
        return wanted, []
    problems = differences(site, settings) + missing_nodes(site, nodes)
    if problems and site.others(me.operator) and not take_over:
        return site, problems
    if problems:
        return wanted, []
    known = me.operator in [entry.operator for entry in site.operators]
    operators = site.operators if known else (*site.operators, me)
    # What this version does not know stays.
    together = {**site.settings, **settings}
    is_written = (together, wanted.nodes) == (dict(site.settings), site.nodes)
    written = site.written if is_written else me
    return Site(together, wanted.nodes, written, operators), []
