"""Values that no node of YAML shows: of INI files, of the command line, of templates."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.inventory_check_files import InventoryFiles
from ansible.module_utils.inventory_check_problem import Problem, shown
from ansible.module_utils.inventory_check_roles import Declared, role_of
from ansible.module_utils.inventory_check_variables import AS_OPTION, Finding, value_finding

# A problem shows the value, so these are passed over.
SECRET = re.compile(r".*(secret|password|token|environment|proxy|key).*")
TEMPLATE = re.compile(r"\{\{|\{%")
# What a lookup costs or asks for is not known. It is Ansible's, where the value is used.
LOOKUP = re.compile(r"\b(lookup|query|q)\(")
# In a file of INI, in a line of its own or behind a host
SETTING = re.compile(r"(?:^|\s)(\w+)\s*=")

# Of a host and the name of a variable
Value = Callable[[str, str], Any]


class _Place(NamedTuple):
    """Where a variable is set; `owner` is the host or the pattern it is set for, `value` a text."""

    file: Path
    line: int
    owner: str
    value: str


def computed_problems(
    files: InventoryFiles,
    names_of_hosts: Mapping[str, Mapping[str, Any]],
    declared: Declared,
    written: Value,
    computed: Value,
) -> Iterator[Problem]:
    """Find values of roles' variables that cannot be, where `type_problems` could not see them.

    Args:
        names_of_hosts: names of the variables of each host.
        written: gives a value as it was written, templates and all.
        computed: gives what comes of it for a host; None where it cannot be computed yet.
    """
    options = {name: option for names in declared.values() for name, option in names.items()}
    # The site's own follow from others, and what is no template has been looked at.
    site = {definition.name for definition in files.site}
    known = {(each.name, each.value) for each in files.site} | {
        (each.name, each.value) for each in files.definitions if not TEMPLATE.search(each.value)
    }
    places = _places(files)
    found: dict[tuple[str, str], tuple[Problem, list[str]]] = {}
    for host, names in names_of_hosts.items():
        for name in names:
            option = AS_OPTION.get(name, name)
            if option not in options or SECRET.fullmatch(name):
                continue
            value = written(host, name)
            text = str(value)
            place = _place(places.get(name, []), host, text)
            # Of a name that stands nowhere, a file that is encrypted may have the value.
            unseen = place is None and files.encrypted
            of_site = place is None and name in site and isinstance(value, list | dict)
            if unseen or of_site or (name, text) in known or LOOKUP.search(text):
                continue
            finding = _finding(name, computed(host, name), options[option], declared)
            if finding:
                at = (
                    {"file": shown(place.file, files.checkout), "line": place.line} if place else {}
                )
                problem = Problem(finding[0], {**at, **finding[1]})
                found.setdefault((str(at), problem.text), (problem, []))[1].append(host)
    for problem, hosts in found.values():
        at = {} if "file" in problem.values else {"hosts": ",".join(hosts)}
        yield Problem(problem.code, at | problem.values)


def _places(files: InventoryFiles) -> dict[str, list[_Place]]:
    """Where each variable is set, but for the site-wide group_vars."""
    places: dict[str, list[_Place]] = {}
    for each in files.definitions[: len(files.definitions) - len(files.site)]:
        place = _Place(each.file, each.line, each.owner, each.value)
        places.setdefault(each.name, []).append(place)
    for file, text in files.texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            owner = line.split(None, 1)[0] if line.strip() else ""
            for name in SETTING.findall(line):
                places.setdefault(name, []).append(_Place(file, number, owner, ""))
    return places


def _place(places: list[_Place], host: str, text: str) -> _Place | None:
    """The likeliest of the places that may set a value: one with its text, then one of the host."""
    return max(places, key=lambda place: (place.value == text, place.owner == host), default=None)


def _finding(
    name: str, value: Any, option: Mapping[str, Any], declared: Declared
) -> Finding | None:
    role = role_of(AS_OPTION.get(name, name), declared)
    if not (isinstance(value, list) and option.get("options")):
        return value_finding(name, value, option, role)
    entry = {"type": "dict", "options": option["options"]}
    return next(filter(None, (value_finding(name, each, entry, role) for each in value)), None)
