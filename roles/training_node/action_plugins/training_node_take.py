"""Action: takes a node for a run, and brings the code of the run there.

Its options are those of the action C(training_node) without C(verb), for the verb C(take), but for
C(code): here it is the folder of each part on the control node, C(trainer) and C(project). Only
files that the node lacks are sent; a launch whose code has not changed costs no connection more.
Returns what the verb answers, each word in its form.
"""

import re
import tempfile
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.plugins.action import ActionBase

# The action beside this one
NODE = ModuleType("training_node")
NODE.__file__ = str(Path(__file__).with_name("training_node.py"))
SourceFileLoader(NODE.__name__, NODE.__file__).exec_module(NODE)
BASE: Any = NODE.ActionModule
# What node and control node both know of code: in a checkout a link leads there.
LISTING = Path(__file__).parents[1] / "module_utils/training_node/runs/code_listing.py"
CODE: Any = ModuleType("code_listing")
SourceFileLoader("code_listing", str(LISTING)).exec_module(CODE)
CodeError: type[Exception] = CODE.CodeError

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


def malformed(taken: Mapping[str, Any]) -> str:
    """Return the name of what a node says in a form that no node has; empty where there is none."""
    return next((name for name, fits in FORMS.items() if not fits(taken.get(name))), "")


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and PUBLIC_KEY.fullmatch(value) is not None


def _is_gpu(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and type(entry.get("index")) is int
        and isinstance(entry.get("uuid"), str)
    )


FORMS: Mapping[str, Callable[[Any], bool]] = {
    "gpus": lambda value: isinstance(value, list) and all(map(_is_gpu, value)),
    "port": lambda value: type(value) is int and 0 < value <= LAST_PORT,
    "part": lambda value: isinstance(value, int | float) and 0 < value <= 1,
    "cores": lambda value: type(value) is int and value > 0,
    "host_key": _is_key,
    "client_key": _is_key,
}


class ActionModule(BASE):  # type: ignore[misc]  # Ansible's classes have no types
    """Has the node take, and then receive where files are missing."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Take the node."""
        result: Result = ActionBase.run(self, tmp, task_vars)
        options = dict(self._task.args["arguments"])
        folders = {name: folder for name, folder in options["code"].items() if folder}
        try:
            code = {name: CODE.list_code(folder) for name, folder in folders.items()}
            told = self._have("take", {**options, "code": code}, task_vars)
            if "answer" not in told:
                return told
            taken = told["answer"]
            if wrong := malformed(taken):
                said = f"what it says of its {wrong} is of no form that a node has: look at it"
                return {**result, "failed": True, "msg": f"{options['host']}: {said}"}
            if missing := wanted(taken.get("missing"), code):
                sent = {name: options[name] for name in ("run_id", "root", "gid", "host")}
                with tempfile.NamedTemporaryFile(suffix=".tar.gz") as archive:
                    CODE.pack({folders[name]: code[name] for name in folders}, missing, archive)
                    archive.flush()
                    received = self._have(
                        "receive", {**sent, "code": code}, task_vars, archive.name
                    )
                if "answer" not in received:
                    return received
        except (CodeError, OSError) as error:
            return {**result, "failed": True, "msg": f"The code of the run: {error}"}
        return {**result, "changed": True, **{name: taken[name] for name in FORMS}}

    def _have(
        self, verb: str, arguments: Result, task_vars: Result | None, attachment: str | None = None
    ) -> Result:
        """Have the node do something: what the action C(training_node) returns."""
        place = self._task.args.get("place")
        options = {"verb": verb, "arguments": arguments, "place": place, "attachment": attachment}
        told: Result = self.ask(options, task_vars or {})
        return told
