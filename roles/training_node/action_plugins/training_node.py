"""Ansible action: has the node program (node/ of the checkout) do something on a node.

Sends one request and reads one answer, over Ansible's own connection and C(become). A node without
this version of the program is brought it first. Returns C(verb) and C(answer), whose words are the
node's: whoever uses one looks at its form before. Where there is no answer the task fails with a
C(msg) for people, and C(code) and C(values) for programs; where a run cannot begin, with
C(problems), a list of host, code, values and text. A dry run skips verbs that change something.

Arguments:
    verb: what is to be done; node/calls.py lists the verbs.
    arguments: of the verb, by name.
    place: folder of the node's with the program, absolute or relative to the account's home; where
        it is not said, C(training_node_program).
    attachment: a file of the control node that the verb takes along.
    carried: arguments that a task with C(until) takes from the answer that it had before, by name.
"""

import hashlib
import json
import re
import shlex
import signal
from collections.abc import Mapping
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

Result = dict[str, Any]

# The node program: in a checkout a link, and in the collection a folder.
PROGRAM = Path(__file__).parents[1] / "module_utils" / "training_node"
ARRIVAL = PROGRAM / "arrival.py"
# Where neither the host nor ansible.cfg names a path, but a way to find one.
PYTHON = "python3"
# Of an answer, in characters, and how deep its lists and objects may be.
MOST_ANSWERED = 8 << 20
DEEPEST = 20
# Of an error as a whole, of each of its values in a sentence, and of what is no answer.
MOST_OF_ERROR = 64 << 10
MOST_OF_VALUE = 2200
MOST_SAID = 300
# A node that says that it lacks the program is there: so much longer it may take, in seconds.
BRING_SECONDS = 30
NO_PROGRAM = 127

ARGUMENTS = {
    "verb": {"type": "str", "required": True},
    "arguments": {"type": "dict", "default": {}},
    # Not of the kind `path`, which would take a ~ for this account's home.
    "place": {"type": "str"},
    "attachment": {"type": "path"},
    "carried": {"type": "list", "elements": "str", "default": []},
}
SENTENCES = {
    "no_python": "there is no {python}: python3 is needed, which `make bootstrap` installs",
    "python_too_old": "its python3 is {version}, and 3.9 is the oldest that will do: set "
    "ansible_python_interpreter of this host to a newer one",
    "not_own": "{path} is {mode} of user {uid}, so that others could put a program there: see who "
    "made it, then remove it or give it to root with mode 0755",
    "not_usable": "the node program cannot be used in {path}: {message}: see who made it",
    "not_stored": "the node program could not be stored in {path}: {message}",
    "damaged": "the node program arrived damaged: try again",
    "answer_too_large": "its answer has {bytes} bytes, and {most} are the most",
    "broken": "the node program failed at {place} with {kind}: {message}",
    "wrong_arguments": "{verb} takes {arguments}",
    "wrong_type": "{verb}: {argument} is no {type}",
    "failed": "{message}",
    "code_not_brought": "The code of the run could not be brought here: {message}",
    "ended_before_start": "The run was ended before it had started.",
    "files_not_written": "The files of the run could not be written: {message}",
    "no_directory": "there is no {path}: run make setup",
    "no_notebook": "The Jupyter server did not listen within {seconds} s. Its output is in "
    "logs/rank-0.log of the run.",
    "no_run_directory": "The directory of the run could not be made: {message}",
    "not_laid_ready": "Checkpoints and events could not be laid ready: {message}",
    "not_reserved": "{host}: no {purpose}, because {message}, so nobody can tell whether a run is "
    "on it: start it",
    "run_over": "The run is over: what it left comes home with its end.",
    "secret_of_lines": "training_run_secrets: the value of {name} must be one line",
    "sshd_silent": "sshd in the container does not listen on {address} port {port}. The container "
    "said:\n{said}",
    "no_answer": "what it says is not an answer of the node program (status {status}): {said}",
}


def _arrival() -> Any:
    """The module of the node program that both sides have."""
    module = ModuleType("arrival")
    SourceFileLoader("arrival", str(ARRIVAL)).exec_module(module)
    return module


def sentence(code: str, values: Mapping[str, Any]) -> str:
    """Return what an error is for people, however odd its values are."""
    with suppress(KeyError, ValueError, IndexError, AttributeError):
        return SENTENCES[code].format_map({k: str(v)[:MOST_OF_VALUE] for k, v in values.items()})
    return f"the node program answers {code} {json.dumps(values)[:MOST_SAID]}"


def failure(code: str, **values: Any) -> Result:
    """Return an error in the form in which the node program says one."""
    return {"error": {"code": code, "values": values}}


def refusal(host: str, values: Mapping[str, Any]) -> Result | None:
    """Return why a run cannot begin, as a task fails with it; None where that has no such form.

    Args:
        host: that was asked: none can say that another one is at fault.
        values: of the error.
    """
    outcome, problems = values.get("outcome"), values.get("problems")
    if not isinstance(problems, list) or not all(map(_is_problem, problems)):
        return None
    texts = "; ".join(entry["text"] for entry in problems)
    return {
        "msg": f"{outcome}{texts}",
        "problems": [{"host": host, **entry} for entry in problems],
    }


def _is_problem(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"code", "values", "text"}
        and all(isinstance(entry[name], str) for name in ("code", "text"))
        and isinstance(entry["values"], dict)
    )


def words_of_ssh(message: str) -> str:
    """Return what ssh said last of a host that it does not reach, without Ansible's words before.

    ssh says of a host key that has changed a dozen lines, and what it comes to in the last two.
    """
    said = re.sub(r"^.*? (?:over|via) ssh: ", "", message.strip(), flags=re.DOTALL)
    return " ".join(said.splitlines()[-2:])


def is_shallow(value: Any) -> bool:
    """Tell whether a value is no deeper than any answer: what handles it further calls itself."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return not level


def read_answer(status: int, said: str, complaint: str) -> Result:
    """Return the document with which a node answers, C(answer) or C(error).

    A node may say anything, and a shell something before the answer.

    Args:
        status: exit status.
        said, complaint: standard output and error.
    """
    line = said.rstrip("\n").rpartition("\n")[2]
    with suppress(ValueError, RecursionError):
        document = json.loads(line) if len(line) <= MOST_ANSWERED else None
        if isinstance(document, dict) and is_shallow(document):
            answer, changed = document.get("answer", 0), document.get("changed", False)
            if (answer is None or isinstance(answer, dict)) and isinstance(changed, bool):
                return {"answer": answer, "changed": changed}
            error = document.get("error")
            if (
                len(line) <= MOST_OF_ERROR
                and isinstance(error, dict)
                and isinstance(error.get("code"), str)
                and isinstance(error.get("values"), dict)
            ):
                return {"error": {"code": error["code"], "values": error["values"]}}
    last = (complaint.strip() or said.strip()[-MOST_SAID:]).rpartition("\n")[2][-MOST_SAID:]
    return failure("no_answer", status=status, said=last or "nothing")


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Calls the node program."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Call it, and bring it first where the node lacks it."""
        result: Result = super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(ARGUMENTS)
        variables = task_vars or {}
        options["arguments"] |= self._carried(options["carried"], variables)
        return {**result, **self.ask(options, variables)}

    def ask(self, options: Result, variables: Result) -> Result:
        """Return what the task of a call ends with: C(answer), or that it failed, and why.

        Args:
            options: verb, arguments, place and attachment.
            variables: of the host.
        """
        told = self.call(options, variables)
        result: Result = {"verb": options["verb"]}
        if "answer" in told and told["answer"] is not None:
            return {**result, **told}
        if "answer" in told and self._task.check_mode:
            return {**result, "skipped": True}
        # Of a verb that was to do something it is no answer that nothing was done.
        error = told.get("error") or failure("no_answer", status=0, said="null")["error"]
        code, values = error["code"], error["values"]
        host = str(variables.get("inventory_hostname"))
        refused = refusal(host, values) if code == "refused" else None
        said = refused or {"msg": sentence(code, values), "code": code, "values": values}
        return {**result, "failed": True, **said}

    def _carried(self, names: list[str], variables: Result) -> Result:
        """Return arguments from the answer before: Ansible fills a task's in once, not again."""
        before = variables.get(self._task.register) if self._task.register else None
        answer = before.get("answer") if isinstance(before, Mapping) else None
        known: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
        return {name: known[name] for name in names if name in known}

    def call(self, options: Result, task_vars: Result) -> Result:
        """Return the document with which the node answers.

        Args:
            options: verb, arguments, place and attachment.
            task_vars: of the host.
        """
        asked = {"verb": options["verb"], "arguments": options["arguments"]}
        if self._task.check_mode:
            asked["check"] = True
        request = json.dumps(asked).encode() + b"\n"
        if options.get("attachment"):
            request += Path(options["attachment"]).read_bytes()
        where = self._task.delegate_to
        there = task_vars["ansible_delegated_vars"][where] if where else task_vars
        own = self._templar.template(there.get("ansible_python_interpreter"))
        python = str(own or constants.config.get_config_value("INTERPRETER_PYTHON"))
        if not python.startswith("/"):
            python = PYTHON
        package: bytes = _arrival().read_package(str(PROGRAM))
        place = options["place"] or self._templar.template(task_vars["training_node_program"])
        lies = (python, place, hashlib.sha256(package).hexdigest())
        told = self._ask("call", *lies, request)
        if told.get("error", {}).get("code") == "absent":
            # What the keyword `timeout` of a task sets, which is for a node that says nothing.
            if left := signal.alarm(0):
                signal.alarm(left + BRING_SECONDS)
            told = self._ask("bring", *lies, package)
            if "answer" in told:
                told = self._ask("call", *lies, request)
        return told

    def _ask(self, what: str, python: str, place: str, digest: str, sent: bytes) -> Result:
        """Run arrival.py on the node.

        Of ActionBase two methods that begin with an underscore, as collections of others use them:
        there are no public ones for a command with standard input over connection and become
        (ansible.builtin.script and raw call them too).
        """
        command = [python, "-I", "-c", ARRIVAL.read_text(), what, place, digest]
        environment = self._compute_environment_string()
        try:
            done = self._low_level_execute_command(
                f"{environment} {shlex.join(command)}".strip(), in_data=sent
            )
        except AnsibleConnectionFailure as error:
            raise AnsibleConnectionFailure(words_of_ssh(str(error))) from None
        if done["rc"] == NO_PROGRAM and not done["stdout"]:
            return failure("no_python", python=python)
        return read_answer(done["rc"], done["stdout"], done["stderr"])
