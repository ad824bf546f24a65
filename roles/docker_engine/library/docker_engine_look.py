#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: in what an engine differs from what the role would make of it."""

from __future__ import annotations

import grp
import hashlib
import json
import pwd
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_engine_group import (
    GroupPlan,
    Note,
    make_group_plan,
    note_of_members,
)
from ansible.module_utils.docker_engine_kept import is_pending
from ansible.module_utils.docker_engine_plan import SettingsError, make_plan, read
from ansible.module_utils.docker_engine_units import (
    Units,
    is_stopped,
    network_lines,
    read_units,
    replaced_units,
    runs_and_starts,
    unit_flags,
)
from ansible.module_utils.packages_records import (
    DIRECTORY,
    LIST_COMMAND,
    bare_name,
    names_with,
    output_of,
    parse_packages,
    read_records,
    unsettled,
)
from ansible.module_utils.training_node.engine.docker import EngineError, ask

# Where an engine without systemd has its options.
OPTIONS_FILE = Path("/etc/default/docker")
GROUP = "docker"
# Seconds that an engine may take. One that its socket has just started takes some.
PATIENCE = 30.0


def has_attributes(module: AnsibleModule, path: Path, mode: str) -> bool:
    """Whether a file or directory is root's and has this mode. The module must be in a dry run."""
    wanted = {"owner": "root", "group": "root", "mode": mode}
    arguments = module.load_file_common_arguments(wanted, path=str(path))
    return path.exists() and not module.set_fs_attributes_if_different(arguments, False)


def is_as_wanted(module: AnsibleModule, file: Mapping[str, str | None]) -> bool:
    """Whether a file is what it is to be."""
    path, text, checksum = Path(file["path"] or ""), file["text"], file["checksum"]
    if text is None and checksum is None:
        return not path.exists()
    if not has_attributes(module, path, file["mode"] or ""):
        return False
    content = path.read_bytes()
    if text is not None:
        return content == text.encode()
    algorithm, _, digest = (checksum or "").partition(":")
    return hashlib.new(algorithm, content).hexdigest() == digest


def members() -> list[str] | None:
    """Return who is in the group that may talk to the engine; None where there is no such group."""
    try:
        return sorted(grp.getgrnam(GROUP).gr_mem)
    except KeyError:
        return None


def user_exists(name: str) -> bool:
    """Whether the machine knows a user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def group_plan(parameters: Mapping[str, Any]) -> GroupPlan | None:
    """Compare who may talk to the engine; None where the role goes and never touched the group."""
    now, record = members() or [], Path(parameters["record"])
    absent = parameters["state"] == "absent"
    noted, before = read(record / "group.json"), read(record / "members")
    if noted is not None:
        note = Note(**json.loads(noted))
    elif before is not None:
        # Of a role before this one, which had nobody in the group but who was named.
        note = note_of_members(before.replace(",", " ").split(), now)
    elif absent:
        return None
    else:
        note = note_of_members(now, now)
    return make_group_plan(
        now, note, parameters["users"], exclusive=parameters["exclusive"], absent=absent
    )


def access_differences(module: AnsibleModule, plan: GroupPlan | None) -> Iterator[str]:
    """Compare who may talk to the engine."""
    users, record = module.params["users"], Path(module.params["record"])
    unknown = [name for name in users if not user_exists(name)]
    if unknown:
        yield f"there is no user {', '.join(unknown)}"
    if members() is None or (plan and (plan.joins or plan.leaves)):
        yield f"the group {GROUP} has other members"
    noted = json.loads(read(record / "group.json") or "null")
    if not has_attributes(module, record, "0755") or noted != (plan and asdict(plan.note)):
        yield "there is no record of who was in the group before"


def held(packages: Iterable[str]) -> list[str]:
    """Return those of the packages that apt holds."""
    holds = {bare_name(name) for name in output_of(["apt-mark", "showhold"]).split()}
    return sorted(holds & set(packages))


def ask_engine() -> tuple[dict[str, Any] | None, list[str]]:
    """Return what the engine tells of itself, None where none answers, and what was wrong."""
    try:
        if ask("GET", "/_ping", PATIENCE)[0] != HTTPStatus.OK:
            return None, []
    except EngineError:
        return None, []
    try:
        status, answer = ask("GET", "/info", PATIENCE)
        told = json.loads(answer) if status == HTTPStatus.OK else None
    except (EngineError, ValueError) as error:
        return {}, [f"the engine does not tell of itself: {error}"]
    if not isinstance(told, dict):
        return {}, [f"the engine does not tell of itself: status {status}"]
    return told, []


def is_in_swarm(told: Mapping[str, Any]) -> bool:
    """Whether an engine that tells of itself is part of a swarm, or about to be."""
    return bool(told) and told.get("Swarm", {}).get("LocalNodeState") != "inactive"


def differences(
    module: AnsibleModule,
    units: Units,
    group: GroupPlan | None,
    missing: list[str],
    told: Mapping[str, Any] | None,
) -> Iterator[str]:
    """Compare the machine with what the role would make of it.

    Args:
        group: what is to become of the group.
        missing: packages that are to come.
        told: what the engine tells of itself; None where it does not answer.
    """
    parameters = module.params
    if missing:
        yield f"packages: {', '.join(missing)}"
    yield from access_differences(module, group)
    if told is None:
        yield "no engine answers"
    if parameters["systemd"] and not runs_and_starts(units):
        yield "the engine does not run as a unit that starts with the machine"
    try:
        settings, record = Path(parameters["settings"]), Path(parameters["record"])
        options, defaults = parameters["options"], parameters["defaults"]
        plan = make_plan(settings, record, options, False, defaults, unit_flags(units))
    except SettingsError as error:
        yield str(error)
        return
    if plan.changed:
        yield f"{settings} has other settings"
    elif plan.keeps_containers and is_in_swarm(told or {}):
        yield "the engine is part of a swarm"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "owner": {"type": "str", "default": "docker_engine"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "other_package": {"type": "str", "required": True},
            "conflicts": {"type": "list", "elements": "str", "default": []},
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "path": {"type": "path", "required": True},
                    "text": {"type": "str"},
                    "checksum": {"type": "str"},
                    "mode": {"type": "str", "default": "0644"},
                },
            },
            "options": {"type": "dict", "default": {}},
            "defaults": {"type": "dict", "default": {}},
            "settings": {"type": "path", "required": True},
            "record": {"type": "path", "required": True},
            "kept": {"type": "path", "required": True},
            "users": {"type": "list", "elements": "str", "default": []},
            "exclusive": {"type": "bool", "default": False},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "systemd": {"type": "bool", "required": True},
        },
        supports_check_mode=True,
    )
    module.check_mode = True  # attributes are compared, not set
    told, found = ask_engine()
    units = read_units() if module.params["systemd"] else {}
    group = group_plan(module.params)
    absent = module.params["state"] == "absent"
    result: dict[str, Any] = {
        "answers": told is not None,
        "stopped": is_stopped(units),
        "files": [
            file["path"] for file in module.params["files"] if not is_as_wanted(module, file)
        ],
        "network": network_lines(units, OPTIONS_FILE),
        "replaced": replaced_units(units),
        "pending": is_pending(Path(module.params["kept"])),
        # Without a group nobody comes back into it. One who is gone would be refused.
        "joins": [name for name in group.joins if user_exists(name)]
        if group and not (absent and members() is None)
        else [],
        "leaves": group.leaves if group else [],
        "unnamed": group.unnamed if group else [],
        "group_note": asdict(group.note) if group else {},
    }
    installed: list[str] = []
    ours: set[str] = set()
    holds: list[str] = []
    try:
        installed = names_with("installed", parse_packages(output_of(LIST_COMMAND)))
        missing = unsettled(module.params["owner"], module.params["packages"])
        ours = set(read_records(DIRECTORY).get(module.params["owner"], []))
        others = set(module.params["conflicts"]) & set(installed)
        holds = held({*map(bare_name, missing), *others}) if missing else []
        found += differences(module, units, group, missing, told)
    except RuntimeError as error:
        # What cannot be read here is said by the task that needs it.
        found.append(str(error))
    other = module.params["other_package"]
    result["other_installed"] = other in installed
    result["foreign"] = sorted(set(module.params["conflicts"]) & set(installed) - ours)
    result["held"] = holds
    found += [f"{other} is installed"] if result["other_installed"] else []
    found += [f"{path} is not as it is to be" for path in result["files"]]
    found += [*result["network"], *(f"{unit} was replaced" for unit in result["replaced"])]
    found += ["the engine was not started with what is written"] if result["pending"] else []
    module.exit_json(changed=False, differences=found, **result)


if __name__ == "__main__":
    main()
