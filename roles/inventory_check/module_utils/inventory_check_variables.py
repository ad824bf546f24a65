"""Variables that nothing reads, that have another name by now, or that are of the wrong type."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.inventory_check_files import Definition, InventoryFiles, literal
from ansible.module_utils.inventory_check_problem import Problem, shown
from ansible.module_utils.inventory_check_roles import Declared, role_of
from ansible.module_utils.inventory_check_values import trouble
from ansible.module_utils.training_node.setup.accounts_lists import Group, user_of
from ansible.module_utils.training_node.setup.accounts_problems import problems_of_entry

# How alike two names must be for one to be taken for a slip of the other (difflib's ratio).
ALIKE = 0.85
# What the machine that builds the image reads, and the nodes as well.
FOR_ALL = ("trainer_image_target", "trainyard_uid")
# Variables of roles, with the site-wide setting that gives several of them the same value.
ALIKE_EVERYWHERE = {
    "training_node_uid": "trainyard_uid",
    "training_node_gid": "trainyard_uid",
    "trainer_image_uid": "trainyard_uid",
}
# Site-wide variables that are an option of a role, or a part of it.
AS_OPTION = {
    "site_accounts": "accounts_users",
    "trainyard_native_root": "training_node_native_root",
    "trainyard_root": "training_node_root",
    "trainyard_runtime": "training_node_runtime",
    "trainyard_uid": "training_node_uid",
    "trainyard_user": "ssh_trust_user",
}
KINDS = {list: "a list", dict: "a mapping", bool: "true or false", int: "a number", str: "a text"}
Finding = tuple[str, dict[str, Any]]


def name_problems(
    files: InventoryFiles,
    names_of_hosts: Mapping[str, Collection[str]],
    declared: Declared,
    known: Iterable[str],
    renamed: Mapping[str, str],
) -> Iterator[Problem]:
    """Find variables that no role and no site-wide file knows, and old names.

    Args:
        files: what the inventory's files set.
        names_of_hosts: names of the variables of each host, wherever they come from.
        declared: the variables of each role.
        known: further variables that an inventory may set.
        renamed: old names of variables, with the new ones.
    """
    site = {definition.name for definition in files.site}
    # A name with a role's prefix is the role's to know, wherever it is set.
    names = {name for name in {*known, *site} if not role_of(name, declared)}
    names.update(*declared.values())

    def find(name: str) -> Finding | None:
        if name in renamed:
            return "variable_renamed", {"variable": name, "new": renamed[name]}
        if name in names:
            return None
        role = role_of(name, declared)
        if role:
            return _unknown(name, name, names, role)
        if near := get_close_matches(name, names, n=1, cutoff=ALIKE):
            return "site_variable_misspelt", {"variable": name, "near": near[0]}
        return None

    yield from _of_definitions(files.definitions, files, lambda definition: find(definition.name))
    # From what has no lines: INI files, scripts, encrypted files, the command line.
    located = {definition.name for definition in files.definitions}
    for name in sorted({name for each in names_of_hosts.values() for name in each} - located):
        if finding := find(name):
            hosts = [host for host, each in names_of_hosts.items() if name in each]
            yield Problem(finding[0], {"hosts": ",".join(hosts), **finding[1]})


def type_problems(files: InventoryFiles, declared: Declared) -> Iterator[Problem]:
    """Find values of the wrong type, as far as no template hides them.

    A role's variable is held against its argument_specs.yml; a site-wide one against what the
    site's own file has.
    """
    examples = {definition.name: definition for definition in files.site}
    options = {name: option for names in declared.values() for name, option in names.items()}

    def find(definition: Definition) -> Finding | None:
        example = examples.get(definition.name)
        if example is None or example is definition:
            return None
        try:
            wanted, value = literal(example.node), literal(definition.node)
        except ValueError:
            return None
        if wanted is None or value is None or _is_like(value, wanted):
            return None
        values = {"variable": definition.name, "kind": _kind(value), "declared": _kind(wanted)}
        place = {"site_file": shown(example.file, files.checkout), "site_line": example.line}
        return "site_variable_kind", values | place

    for definition in files.definitions:
        name = AS_OPTION.get(definition.name, definition.name)
        if name in options:
            role = role_of(name, declared)
            parts = list(_parts(definition, options[name]))
            for part, option in parts:
                yield from _of_definitions([part], files, partial(_role_type, option, role))
            if role == "accounts":
                lines: dict[tuple[str, str], int] = {}
                owned = [part for part, _ in parts]
                yield from _of_definitions(owned, files, partial(_listed_twice, lines))
        else:
            yield from _of_definitions([definition], files, find)


def scope_problems(files: InventoryFiles) -> Iterator[Problem]:
    """Find variables that other parts read too, and that are set for some alone."""
    site = {definition.name for definition in files.site}

    def find(definition: Definition) -> Finding | None:
        setting = ALIKE_EVERYWHERE.get(definition.name)
        if setting in site and definition not in files.site:
            return "variable_follows", {"variable": definition.name, "setting": setting}
        if definition.name not in FOR_ALL or definition.group == "all":
            return None
        whom = definition.owner or f"group {definition.group}"
        return "variable_not_for_all", {"variable": definition.name, "whom": whom}

    return _of_definitions(files.definitions, files, find)


def _of_definitions(
    definitions: Iterable[Definition],
    files: InventoryFiles,
    find: Callable[[Definition], Finding | None],
) -> Iterator[Problem]:
    for definition in definitions:
        if finding := find(definition):
            place = {"file": shown(definition.file, files.checkout), "line": definition.line}
            yield Problem(finding[0], place | finding[1])


def _unknown(variable: str, name: str, names: Iterable[str], role: str) -> Finding:
    """Say that a role has no such variable, or an entry of a variable no such key."""
    values = {"variable": variable, "role": role}
    if near := get_close_matches(str(name), list(names), n=1, cutoff=ALIKE):
        return "role_variable_misspelt", values | {"near": near[0]}
    return "role_variable_unknown", values


def _parts(
    definition: Definition, option: Mapping[str, Any]
) -> Iterator[tuple[Definition, Mapping[str, Any]]]:
    """Yield what is held against the specification: each entry of a list of mappings by itself.

    So a mistake has the line of its entry, and what is a template hides its key alone.
    """
    node = definition.node
    if not (isinstance(node, yaml.SequenceNode) and option.get("options")):
        yield definition, option
        return
    for entry in node.value:
        known = dict(option["options"])
        if isinstance(entry, yaml.MappingNode):
            entry = yaml.MappingNode(entry.tag, [*_readable(entry, known)], entry.start_mark)
        part = definition._replace(node=entry, line=entry.start_mark.line + 1)
        yield part, {"type": "dict", "options": known}


def _readable(entry: yaml.MappingNode, known: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values without those that only Ansible knows, which leave `known` too."""
    for key, value in entry.value:
        try:
            literal(value)
        except ValueError:
            if known.pop(key.value, None) is not None:
                continue
            value = yaml.ScalarNode("tag:yaml.org,2002:null", "")  # its key is none, all the same
        yield key, value


def _role_type(option: Mapping[str, Any], role: str, definition: Definition) -> Finding | None:
    declared = option.get("type", "str")
    kind = {yaml.SequenceNode: list, yaml.MappingNode: dict}.get(type(definition.node))
    try:
        value = literal(definition.node)
    except ValueError:
        # Whether it is a list or a mapping can be seen all the same, unless it is all template.
        if kind is None or kind.__name__ == declared or declared == "raw":
            return None
        value = kind()
    return value_finding(definition.name, value, option, role)


def value_finding(name: str, value: Any, option: Mapping[str, Any], role: str) -> Finding | None:
    """Say why a value cannot be that of a role's variable, or an entry of it; None where it can.

    Args:
        option: what the role's specification says of it.
    """
    if value is None:
        return None
    values = {"variable": name, "role": role}
    declared = option.get("type", "str")
    # Ansible takes "a,b" for a list where it validates, and the role would then get a text.
    if isinstance(value, list | dict) != (declared in ("list", "dict")) and declared != "raw":
        wanted = {"list": "a list", "dict": "a mapping", "str": "a text"}.get(declared, declared)
        return "role_variable_kind", values | {"kind": _kind(value), "declared": wanted}
    keys = option.get("options", {}) if isinstance(value, dict) else {}
    for key in value if keys else ():
        if key not in keys:
            return _unknown(f"{name}.{key}", key, keys, role)
    spec = {key: entry for key, entry in option.items() if key not in ("default", "required")}
    result = ArgumentSpecValidator({name: spec}).validate({name: value})
    if result.error_messages:
        reason = "; ".join(result.error_messages).rstrip(".")
        return "role_variable_type", values | {"reason": reason}
    valid = result.validated_parameters[name]
    if reason := trouble(name, valid, option) or trouble(name, value, option):
        return "role_variable_type", values | {"reason": reason}
    if role == "accounts" and isinstance(value, dict) and "name" in value:
        entry = Group(**valid) if "gid" in option["options"] else user_of(valid)
        for problem in problems_of_entry(entry):
            return "account_invalid", values | {"reason": problem}
    return None


def _listed_twice(lines: dict[tuple[str, str], int], entry: Definition) -> Finding | None:
    """Say of what an account or a group cannot share that an entry before has it, and note it."""
    pairs = entry.node.value if isinstance(entry.node, yaml.MappingNode) else ()
    for key, value in pairs:
        if key.value in ("name", "uid", "gid") and value.value:
            first = lines.setdefault((key.value, value.value), entry.line)
            if first != entry.line:
                reason = (
                    f"{key.value} {value.value} is listed in line {first} too. Give each its own."
                )
                return "account_invalid", {"variable": entry.name, "reason": reason}
    return None


def _is_like(value: Any, wanted: Any) -> bool:
    """Whether a value can stand for another: a list for a list, a number for a number."""
    if isinstance(wanted, list | dict) or isinstance(value, list | dict):
        return isinstance(value, type(wanted))
    if isinstance(wanted, bool):
        return isinstance(value, bool)
    if isinstance(wanted, int | float):
        try:
            return not isinstance(value, bool) and float(value) is not None
        except ValueError:
            return False
    return True


def _kind(value: Any) -> str:
    name = next((words for kind, words in KINDS.items() if isinstance(value, kind)), "a number")
    return name if isinstance(value, list | dict) else f"{name} ({value})"
