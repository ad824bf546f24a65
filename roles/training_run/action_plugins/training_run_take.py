# Copyright Trainyard. Apache-2.0
"""Action: takes a node for a run, and brings the code of the run there.

What it takes and returns stands in library/training_run_take.py, but for C(code): here it is the
folder of each part on the control node, C(trainer) and C(project). Only files that the node lacks
are sent; a launch whose code has not changed costs no connection more.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ansible.module_utils
from ansible.plugins.action import ActionBase

# Ansible packs a role's module_utils into what it sends to a node; an action runs here.
ansible.module_utils.__path__.append(str(Path(__file__).parents[1] / "module_utils"))

from ansible.module_utils.training_run_listing import (  # noqa: E402  # found through the line above
    CodeError,
    list_code,
    pack,
)

Result = dict[str, Any]

# A node may answer anything; its port and its keys stand in files of all nodes of the run, where
# another line would pin what it likes for any host, or let in whom it likes.
LAST_PORT = 65535
PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]+={0,2}")


def wanted(missing: Any, code: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the contents that a node lacks.

    Args:
        missing: what it answered.
        code: of each part, path to SHA-256.

    Raises:
        CodeError: it asks for something else than the run's code.
    """
    known = {digest for listing in code.values() for digest in listing.values()}
    if not isinstance(missing, list) or not all(
        isinstance(digest, str) and digest in known for digest in missing
    ):
        raise CodeError("the node asks for contents that are none of it")
    return missing


def strange_in(taken: Mapping[str, Any]) -> str:
    """Return the name of what a node says in a form that no node has; empty where there is none."""
    gpus, port, part, cores = (taken.get(name) for name in ("gpus", "port", "part", "cores"))
    fits = {
        "gpus": isinstance(gpus, list) and all(map(_is_gpu, gpus)),
        "port": type(port) is int and 0 < port <= LAST_PORT,
        "part": isinstance(part, int | float) and 0 < part <= 1,
        "cores": type(cores) is int and cores > 0,
        "host key": _is_key(taken.get("host_key")),
        "client key": _is_key(taken.get("client_key")),
    }
    return next((name for name, is_so in fits.items() if not is_so), "")


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and PUBLIC_KEY.fullmatch(value) is not None


def _is_gpu(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and type(entry.get("index")) is int
        and isinstance(entry.get("uuid"), str)
    )


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Runs training_run_take, and training_run_code where files are missing."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Take the node."""
        result: Result = super().run(tmp, task_vars)
        options = dict(self._task.args)
        folders = {name: folder for name, folder in options["code"].items() if folder}
        try:
            code = {name: list_code(folder) for name, folder in folders.items()}
            taken: Result = self._execute_module(
                module_name="training_run_take",
                module_args={**options, "code": code},
                task_vars=task_vars,
            )
            if taken.get("failed") or taken.get("unreachable"):
                return taken
            strange = strange_in(taken)
            if strange:
                said = f"what it says of its {strange} is of no form that a node has: look at it"
                return {**result, "failed": True, "msg": f"{options['host']}: {said}"}
            missing = wanted(taken.get("missing"), code)
            if not missing:
                return taken
            received = self._send(options, folders, code, missing, task_vars)
        except (CodeError, OSError) as error:
            return {**result, "failed": True, "msg": f"The code of the run: {error}"}
        return received if received.get("failed") or received.get("unreachable") else taken

    def _send(
        self,
        options: Result,
        folders: Mapping[str, str],
        code: Mapping[str, Mapping[str, str]],
        missing: list[str],
        task_vars: Result | None,
    ) -> Result:
        """Send what the node lacks."""
        directory = self._make_tmp_path()
        try:
            remote = self._connection._shell.join_path(directory, "code.tar.gz")
            with tempfile.NamedTemporaryFile(suffix=".tar.gz") as archive:
                pack({folders[name]: code[name] for name in folders}, missing, archive)
                archive.flush()
                self._transfer_file(archive.name, remote)
            received: Result = self._execute_module(
                module_name="training_run_code",
                module_args={
                    "run_id": options["run_id"],
                    "root": options["root"],
                    "gid": options["gid"],
                    "code": dict(code),
                    "archive": remote,
                    "host": options["host"],
                },
                task_vars=task_vars,
            )
        finally:
            self._remove_tmp_path(directory)
        return received
