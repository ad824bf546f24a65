"""Action: finds mistakes in an inventory, all together, before any machine is contacted.

Reads inventory, group_vars and the roles' argument_specs.yml in Ansible's own process, and fails
with a list of all mistakes, each with file, line and remedy. Changes nothing.

Takes the `sources` of the inventory, the directories of the `site`-wide group_vars and of the
`roles`, the `playbook` whose groups must exist, further variables that an inventory may set
(`known`), and old names of variables with their new ones (`renamed`). With `files_only` it fails
only where a file cannot be read, at which Ansible would stop as soon as it needs the variables of a
host; what the other files show is named together with it.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import ansible.module_utils
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.utils.addresses import parse_address
from ansible.plugins.action import ActionBase
from ansible.plugins.inventory import detect_range, expand_hostname_range
from ansible.vars.hostvars import HostVars, HostVarsVars

# Ansible packs a role's module_utils into what it sends to a node; an action runs here.
for role in ("inventory_check", "training_node"):
    ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / role / "module_utils"))

from ansible.module_utils.inventory_check_checks import (  # noqa: E402  # found through the line above
    Expectation,
    check_files,
    check_inventory,
    is_read,
)
from ansible.module_utils.inventory_check_files import InventoryFiles  # noqa: E402
from ansible.module_utils.inventory_check_problem import report  # noqa: E402

# A value that is another variable and nothing else.
REFERENCE = re.compile(r"\{\{ *(\w+) *\}\}")
# So many such steps are followed; then Ansible, which finds circles, has its turn.
DEPTH = 8


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Looks at the inventory on the control node, for all hosts at once."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the inventory; fails with all problems in the message where there are any."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _, options = self.validate_argument_spec(
            argument_spec={
                "sources": {"type": "list", "elements": "path", "required": True},
                "site": {"type": "path", "required": True},
                "roles": {"type": "path", "required": True},
                "playbook": {"type": "path", "required": True},
                "known": {"type": "list", "elements": "str", "default": []},
                "renamed": {"type": "dict", "default": {}},
                "files_only": {"type": "bool", "default": False},
            }
        )
        roles = Path(options["roles"]).resolve()
        files = InventoryFiles(options["sources"], Path(options["site"]), roles.parent)
        expectation = Expectation.of(roles, options["known"], options["renamed"])
        if options["files_only"]:
            problems = check_files(files, expectation) if files.unreadable else []
        else:
            groups = variables["groups"]
            known = _Known(groups["all"], variables["hostvars"], self._loader)
            playbook = Path(options["playbook"]).resolve()
            problems = check_inventory(
                *(files, expectation, groups, known.hosts(), playbook),
                *(_expand, known.written, known.computed),
            )
        if problems:
            return {"changed": False, "failed": True, "msg": report(problems)}
        return {"changed": False}


class _Known:
    """What is known of hosts, each asked for once."""

    def __init__(self, names: Iterable[str], hostvars: HostVars, loader: DataLoader) -> None:
        self._raw: dict[str, Mapping[str, Any]] = {host: hostvars.raw_get(host) for host in names}
        self._computed = {
            host: HostVarsVars(raw, loader=loader, host=host) for host, raw in self._raw.items()
        }

    def hosts(self) -> dict[str, dict[str, Any]]:
        """Names of the variables of each host, and the values of those that are read."""
        return {
            host: {name: self.computed(host, name) if is_read(name) else None for name in raw}
            for host, raw in self._raw.items()
        }

    def written(self, host: str, name: str) -> Any:
        """The value of a variable as it is written."""
        return self._raw[host][name]

    def computed(self, host: str, name: str) -> Any:
        """What comes of it; None where it cannot be computed."""
        raw = self._raw[host]
        # Most networks are "{{ cluster_network }}". To follow the name is ten times as fast as
        # Jinja, which compiles the template anew for every host.
        for _ in range(DEPTH):
            reference = REFERENCE.fullmatch(raw[name]) if isinstance(raw[name], str) else None
            if reference is None or reference[1] not in raw:
                break
            name = reference[1]
        try:
            return self._computed[host][name]
        except Exception:
            # Whatever a template raises. What is wrong with it is said where the value is used.
            return None


def _expand(pattern: str) -> list[str]:
    """Return the hosts that a key in an inventory stands for, as Ansible's YAML inventory does."""
    try:
        name, _ = parse_address(pattern, allow_ranges=True)
    except Exception:
        name = pattern  # what is no address to Ansible is a name to it
    if name and detect_range(name):
        return list(expand_hostname_range(name))
    return [name or pattern]
