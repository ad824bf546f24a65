# Copyright Trainyard. Apache-2.0
"""Action: lays out a local cluster: names, addresses, images and processor cores of its `nodes`.

Those that are `containers` and those that are `virtual` machines, with disk and tap, are returned
by themselves as well. Looks at nothing and changes nothing.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import ansible.module_utils
from ansible.plugins.action import ActionBase

# Ansible looks in a role's module_utils for what modules import, and not for an action.
ansible.module_utils.__path__.append(str(Path(__file__).parents[1] / "module_utils"))

from ansible.module_utils.local_cluster_nodes import lay_out  # noqa: E402  # found through the line above


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Computes, and looks at nothing."""

    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the nodes."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "name": {"type": "str", "required": True},
                "size": {"type": "int", "required": True},
                "network": {"type": "str", "required": True},
                "images": {"type": "list", "elements": "str", "required": True},
                "cores": {"type": "int", "required": True},
                "virtual": {"type": "list", "elements": "str", "default": []},
                "directory": {"type": "path", "required": True},
                "taps": {"type": "str", "required": True},
                "gpus": {"type": "dict", "default": {}},
            }
        )
        machines = options["gpus"]
        try:
            nodes = lay_out(
                options["name"],
                options["size"],
                options["network"],
                options["images"],
                options["cores"],
            )
        except ValueError as error:
            return {"failed": True, "msg": f"local_cluster: {error} (local_cluster_network)"}
        plain = {node.name for node in nodes if node.name not in options["virtual"]}
        strange = sorted(set(machines) - plain)
        if strange:
            return {
                "failed": True,
                "msg": f"local_cluster: {', '.join(strange)} cannot have GPUs (local_cluster_gpus):"
                " a node that is a container can, by its name: node1, node2, ...",
            }
        return {
            "changed": False,
            "nodes": [asdict(node) for node in nodes],
            "containers": [
                # A node without GPUs is described as ever, so that it is not made anew.
                asdict(node) | ({"gpus": machines[node.name]} if node.name in machines else {})
                for node in nodes
                if node.name in plain
            ],
            "virtual": [
                {
                    **asdict(node),
                    "disk": f"{options['directory']}/{node.name}.disk",
                    "tap": options["taps"] + node.name.removeprefix("node"),
                }
                for node in nodes
                if node.name in options["virtual"]
            ],
        }
