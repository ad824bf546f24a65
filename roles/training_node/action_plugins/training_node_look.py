"""Action: tells in one call which roles would change something on a node, or say something of it.

Takes C(roles) by name, in the order in which they are applied, and C(place) as the action
C(training_node) does. What a role wants stands in its variable C(<role>_look), which the verb
C(look) of the node program takes. A role without one, or whose own settings make none, looks at the
node itself: it is always named. Returns C(roles), those that are to be applied, and C(alike), by
role what has to be the same on all nodes.
"""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

# The action beside this one
NODE = ModuleType("training_node")
NODE.__file__ = str(Path(__file__).with_name("training_node.py"))
SourceFileLoader(NODE.__name__, NODE.__file__).exec_module(NODE)
BASE: Any = NODE.ActionModule

Result = dict[str, Any]


class ActionModule(BASE):  # type: ignore[misc]  # Ansible's classes have no types
    """Asks the node program for a summary."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Look."""
        result: Result = ActionBase.run(self, tmp, task_vars)
        variables = task_vars or {}
        named = list(self._task.args["roles"])
        looks = {role: look for role in named if (look := self._look(role, variables))}
        arguments = {"roles": looks, "summary": True}
        place = self._task.args.get("place")
        told: Result = self.ask({"verb": "look", "arguments": arguments, "place": place}, variables)
        if "answer" not in told:
            return told
        differing, alike = told["answer"].get("roles"), told["answer"].get("alike")
        if not isinstance(differing, list) or not isinstance(alike, dict):
            return {**result, "failed": True, "msg": "what it says is not an answer to a look"}
        roles = [role for role in named if role in differing or role not in looks]
        return {**result, "roles": roles, "alike": alike}

    def _look(self, role: str, variables: Result) -> Any:
        """Return what a role wants; nothing where its settings cannot be: the role says why."""
        try:
            return self._templar.template(variables.get(f"{role}_look"))
        except AnsibleError:
            return None
