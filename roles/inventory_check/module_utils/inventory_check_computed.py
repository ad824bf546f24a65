"""Values that no file of YAML shows: of INI files, of the command line, of templates."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ansible._internal._datatag._tags import Origin, SourceWasEncrypted
from ansible.module_utils.inventory_check_files import YAML_SUFFIXES, InventoryFiles
from ansible.module_utils.inventory_check_problem import Problem, shown
from ansible.module_utils.inventory_check_roles import Declared, role_of
from ansible.module_utils.inventory_check_variables import AS_OPTION, Finding, value_finding

# A problem shows the value, so these are passed over.
SECRET = re.compile(r".*(secret|password|token|environment|proxy|key).*")
TEMPLATE = re.compile(r"\{\{|\{%")
# What a lookup costs or asks for is not known. It is Ansible's, where the value is used.
LOOKUP = re.compile(r"\b(lookup|query|q)\(")
# Where ansible-runner has what a command of Trainyard's gives, which looked at it itself.
COMMANDS = "env/extravars"

# Of a host and the name of a variable
Value = Callable[[str, str], Any]


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
    site = {str(definition.file.resolve()) for definition in files.site}
    found: dict[tuple[str, str], tuple[Problem, list[str]]] = {}
    for host, names in names_of_hosts.items():
        for name in names:
            option = AS_OPTION.get(name, name)
            if option not in options or SECRET.fullmatch(name):
                continue
            value = written(host, name)
            origin = Origin.get_tag(value)
            if not _is_hidden(value, origin, site):
                continue
            finding = _finding(name, computed(host, name), options[option], declared)
            if finding:
                place = _place(origin, files.checkout)
                problem = Problem(finding[0], {**place, **finding[1]})
                found.setdefault((str(place), problem.text), (problem, []))[1].append(host)
    for problem, hosts in found.values():
        place = {} if "file" in problem.values else {"hosts": ",".join(hosts)}
        yield Problem(problem.code, place | problem.values)


def _is_hidden(value: Any, origin: Origin | None, site: set[str]) -> bool:
    """Whether the nodes of YAML do not show a value; the site's own follow from others."""
    path = origin.path if origin else None
    if path and (_real(path) in site or path.endswith(COMMANDS)):
        return False
    text = str(value)
    if SourceWasEncrypted.is_tagged_on(value) or LOOKUP.search(text):
        return False
    return path is None or Path(path).suffix not in YAML_SUFFIXES or bool(TEMPLATE.search(text))


@cache
def _real(path: str) -> str:
    return str(Path(path).resolve())


def _finding(
    name: str, value: Any, option: Mapping[str, Any], declared: Declared
) -> Finding | None:
    role = role_of(AS_OPTION.get(name, name), declared)
    if not (isinstance(value, list) and option.get("options")):
        return value_finding(name, value, option, role)
    entry = {"type": "dict", "options": option["options"]}
    return next(filter(None, (value_finding(name, each, entry, role) for each in value)), None)


def _place(origin: Origin | None, checkout: Path) -> dict[str, Any]:
    if origin is None:
        return {}
    if origin.path is None:
        return {"file": str(origin.description).strip("<>").removeprefix("CLI option ").strip("'")}
    line = {"line": origin.line_num} if origin.line_num else {}
    return {"file": shown(Path(origin.path), checkout), **line}
