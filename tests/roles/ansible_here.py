"""What Ansible makes of a role's variables and conditions, asked of Ansible in this process."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.loader import connection_loader, init_plugin_loader
from ansible.plugins.vars import host_group_vars
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from role_files import ROLES, import_file

init_plugin_loader()
LOADER = DataLoader()
PLAYBOOKS = ROLES.parent / "playbooks"


def module_answer(role: str, name: str, **arguments: Any) -> dict[str, Any]:
    """What a module of a role answers."""
    module = import_file(ROLES / role / "library" / f"{name}.py")
    with (
        patch_module_args(arguments),
        redirect_stdout(io.StringIO()) as said,
        pytest.raises(SystemExit),
    ):
        module.main()
    answer: dict[str, Any] = json.loads(said.getvalue())
    return answer


def tasks_of(role: str, name: str) -> list[dict[str, Any]]:
    """The tasks of a file of a role, those of its blocks in their place."""
    path = ROLES / role / f"tasks/{name}.yml"
    return list(_flat(LOADER.load_from_file(str(path), trusted_as_template=True)))


def _flat(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        if "block" not in task:
            yield task
            continue
        for inner in _flat(task["block"]):
            whens = [*_listed(task.get("when", [])), *_listed(inner.get("when", []))]
            yield {**inner, "when": whens}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class Host:
    """A host with the variables of a role, and what is given beside them."""

    def __init__(self, role: str, given: Mapping[str, Any], name: str = "localhost") -> None:
        variables: dict[str, Any] = {"inventory_hostname": name, "ansible_facts": {}}
        for part in ("defaults", "vars"):
            path = ROLES / role / part / "main.yml"
            if path.exists():
                variables |= LOADER.load_from_file(str(path), trusted_as_template=True) or {}
        self.role = role
        self.variables = variables | dict(given)

    def value(self, expression: str, **further: Any) -> Any:
        """What an expression of Jinja comes to."""
        return self.template(trust_as_template(f"{{{{ {expression} }}}}"), **further)

    def template(self, value: Any, **further: Any) -> Any:
        """What a value of a file of the role comes to."""
        variables = {**self.variables, **further}
        return Templar(loader=LOADER, variables=variables).template(value)

    def refused(self, name: str, **further: Any) -> str:
        """What the first assertion of a file of tasks says that does not hold; "" where all do."""
        return refusal(tasks_of(self.role, name), {**self.variables, **further})


def refusal(tasks: Iterable[Mapping[str, Any]], variables: Mapping[str, Any]) -> str:
    """What the first assertion of tasks says that does not hold; "" where all do."""
    for task in tasks:
        checked = task.get("ansible.builtin.assert")
        if checked is None:
            continue
        templar = Templar(loader=LOADER, variables={**variables, **task.get("vars", {})})
        if not all(map(templar.evaluate_conditional, _listed(task.get("when", [])))):
            continue
        if not all(map(templar.evaluate_conditional, _listed(checked["that"]))):
            return str(templar.template(checked["fail_msg"]))
    return ""


class Inventory:
    """An inventory as a playbook of this checkout has it.

    Attributes:
        hostvars: the variables of each host, with those of the checkout's group_vars/.
        groups: the hosts of each group.
    """

    def __init__(self, path: Path, extra: Mapping[str, Any] | None = None) -> None:
        self.loader = DataLoader()
        self.loader.set_basedir(str(PLAYBOOKS))
        self.path = path
        manager = InventoryManager(loader=self.loader, sources=[str(path)])
        for name, value in {"ansible_inventory_sources": [str(path)], **(extra or {})}.items():
            manager.groups["all"].set_variable(name, value)
        # It remembers which files of variables there were at this path.
        host_group_vars.FOUND.clear()
        variables = VariableManager(loader=self.loader, inventory=manager)
        self.hostvars = HostVars(manager, variables, self.loader)
        self.groups: dict[str, list[str]] = manager.get_groups_dict()
        self._manager, self._variables = manager, variables

    def plays(self, playbook: Path) -> list[tuple[str, list[str]]]:
        """The name of each play and its hosts, as `ansible-playbook --list-hosts` has them."""
        loaded = Playbook.load(str(playbook), variable_manager=self._variables, loader=self.loader)
        told = []
        for play in loaded.get_plays():
            variables = self._variables.get_vars(play=play)
            play.post_validate(Templar(loader=self.loader, variables=variables))
            hosts = self._manager.list_hosts(play.hosts)
            told.append((play.name, [host.name for host in hosts]))
        return told

    def act(self, plugin: ModuleType, **arguments: Any) -> dict[str, Any]:
        """What an action answers that needs no connection."""
        task = Task()
        task.args = arguments
        variables = {"groups": self.groups, "hostvars": self.hostvars}
        templar = Templar(loader=self.loader, variables=variables)
        context = PlayContext()
        connection = connection_loader.get("local", context)
        action = plugin.ActionModule(task, connection, context, self.loader, templar, None)
        try:
            answer: dict[str, Any] = action.run(None, variables)
        except AnsibleError as error:
            return {"failed": True, "msg": str(error)}
        return answer
