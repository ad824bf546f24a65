#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: in what an engine differs from what the role would make of it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: docker_engine_look
short_description: Tells in what a Docker engine differs from what it is to be
description:
  - Asks the engine, dpkg and systemd, and reads the settings, the package source and the group that
    may talk to the engine, all in one go. Changes nothing.
  - Without any difference the role has nothing to do and nothing to refuse.
author: Trainyard
options:
  socket:
    description: The engine's socket.
    type: path
    required: true
  owner:
    description: The role in whose record the packages are.
    type: str
    default: docker_engine
  packages:
    description: Packages that are to be installed.
    type: list
    elements: str
    default: []
  other_package:
    description: The package of the other source, which is not to be installed.
    type: str
    required: true
  files:
    description: >-
      Files of the package source and of the proxy. One without text and checksum is not to be
      there.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file.
        type: path
        required: true
      text:
        description: What is in it.
        type: str
      checksum:
        description: The checksum of what is in it, with the algorithm in front, as C(sha256:...).
        type: str
      mode:
        description: Its mode.
        type: str
        default: "0644"
  options:
    description: What is merged into the engine's settings.
    type: dict
    default: {}
  settings:
    description: The engine's settings.
    type: path
    required: true
  record:
    description: Directory for what was there before the role came.
    type: path
    required: true
  users:
    description: Who may talk to the engine.
    type: list
    elements: str
    default: []
  systemd:
    description: Whether systemd runs the engine.
    type: bool
    required: true
"""

EXAMPLES = r"""
- name: Look at the engine
  docker_engine_look:
    socket: /var/run/docker.sock
    packages: [docker.io]
    other_package: docker-ce
    settings: /etc/docker/daemon.json
    record: /var/lib/trainyard/docker_engine
    systemd: true
"""

RETURN = r"""
answers:
  description: Whether an engine answers.
  returned: always
  type: bool
other_installed:
  description: Whether the package of the other source is installed.
  returned: always
  type: bool
network:
  description: What has the engine listen on the network, as units and options file say it.
  returned: always
  type: list
  elements: str
stopped:
  description: >-
    Whether systemd has no engine that runs, and none that a use of its socket starts. What is
    written before it is started is read then.
  returned: always
  type: bool
files:
  description: Those of O(files) that are not as they are to be.
  returned: always
  type: list
  elements: str
replaced:
  description: Units that run on although their package was replaced.
  returned: always
  type: list
  elements: str
unread:
  description: >-
    Settings that are in the file and that the engine runs without, as after a run that was cut off
    before it restarted the engine. Without systemd none is named: nothing would restart it.
  returned: always
  type: list
  elements: str
differences:
  description: In what the machine differs from what it is to be.
  returned: always
  type: list
  elements: str
"""

import grp
import hashlib
import pwd
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_engine_plan import SettingsError, make_plan
from ansible.module_utils.docker_engine_socket import EngineError, answers, info
from ansible.module_utils.docker_engine_units import (
    Units,
    is_stopped,
    network_lines,
    read_units,
    replaced_units,
    runs_and_starts,
)
from ansible.module_utils.packages_records import (
    LIST_COMMAND,
    names_with,
    output_of,
    parse_packages,
    unsettled,
)

# Where an engine without systemd has its options.
OPTIONS_FILE = Path("/etc/default/docker")
GROUP = "docker"
# What an engine tells of settings that it runs with, by their names in its file.
TOLD = {"live-restore": "LiveRestoreEnabled", "log-driver": "LoggingDriver"}
MIRRORS = "registry-mirrors"


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


def access_differences(module: AnsibleModule) -> Iterator[str]:
    """Compare who may talk to the engine."""
    users, record = module.params["users"], Path(module.params["record"])
    unknown = [name for name in users if not user_exists(name)]
    if unknown:
        yield f"there is no user {', '.join(unknown)}"
    if members() != sorted(set(users)):
        yield f"the group {GROUP} has other members"
    if not (has_attributes(module, record, "0755") and (record / "members").exists()):
        yield "there is no record of who was in the group before"


def is_in_swarm(told: Mapping[str, Any]) -> bool:
    """Whether an engine that tells of itself is part of a swarm, or about to be."""
    return bool(told) and told.get("Swarm", {}).get("LocalNodeState") != "inactive"


def unread_settings(told: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """Return the names of settings that an engine runs without.

    Args:
        told: what it tells of itself.
        options: what it is to run with, of all its settings.
    """
    runs_with = {name: told[key] for name, key in TOLD.items() if key in told}
    mirrors = (told.get("RegistryConfig") or {}).get("Mirrors") or []
    # It tells them with a slash at the end, however they are written.
    runs_with[MIRRORS] = [url.rstrip("/") for url in mirrors]
    wanted = {**options, MIRRORS: [url.rstrip("/") for url in options.get(MIRRORS, ())]}
    return [name for name in runs_with if name in options and runs_with[name] != wanted[name]]


def differences(
    module: AnsibleModule, units: Units, responds: bool, told: Mapping[str, Any]
) -> Iterator[str]:
    """Compare the machine with what the role would make of it.

    Args:
        responds: whether an engine answers.
        told: what it tells of itself; nothing where it does not.
    """
    parameters = module.params
    missing = unsettled(parameters["owner"], parameters["packages"])
    if missing:
        yield f"packages: {', '.join(missing)}"
    yield from access_differences(module)
    if not responds:
        yield "no engine answers"
    if parameters["systemd"] and not runs_and_starts(units):
        yield "the engine does not run as a unit that starts with the machine"
    try:
        settings, record = Path(parameters["settings"]), Path(parameters["record"])
        plan = make_plan(settings, record, parameters["options"], absent=False)
    except SettingsError as error:
        yield str(error)
        return
    if plan.changed:
        yield f"{settings} has other settings"
    elif plan.settings.get("live-restore") and is_in_swarm(told):
        yield "the engine is part of a swarm"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "path", "required": True},
            "owner": {"type": "str", "default": "docker_engine"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "other_package": {"type": "str", "required": True},
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
            "settings": {"type": "path", "required": True},
            "record": {"type": "path", "required": True},
            "users": {"type": "list", "elements": "str", "default": []},
            "systemd": {"type": "bool", "required": True},
        },
        supports_check_mode=True,
    )
    module.check_mode = True  # attributes are compared, not set
    responds = answers(module.params["socket"])
    told: dict[str, Any] = {}
    silent = []
    try:
        told = info(module.params["socket"]) if responds else {}
    except EngineError as error:
        silent = [f"the engine does not tell of itself: {error}"]
    units = read_units() if module.params["systemd"] else {}
    result: dict[str, Any] = {
        "answers": responds,
        "stopped": is_stopped(units),
        "files": [
            file["path"] for file in module.params["files"] if not is_as_wanted(module, file)
        ],
        "network": network_lines(units, OPTIONS_FILE),
        "replaced": replaced_units(units),
        "unread": unread_settings(told, module.params["options"]) if units and told else [],
    }
    try:
        installed = names_with("installed", parse_packages(output_of(LIST_COMMAND)))
        found = list(differences(module, units, responds, told))
    except RuntimeError as error:
        # What cannot be read here is said by the task that needs it.
        installed, found = [], [str(error)]
    other = module.params["other_package"]
    result["other_installed"] = other in installed
    found += [f"{other} is installed"] if result["other_installed"] else []
    found += [f"{path} is not as it is to be" for path in result["files"]]
    found += [*result["network"], *(f"{unit} was replaced" for unit in result["replaced"])]
    found += [*silent, *(f"the engine runs without {name}" for name in result["unread"])]
    module.exit_json(changed=False, differences=found, **result)


if __name__ == "__main__":
    main()
