"""Action: the public keys that the control node has, and in what its pair is not as it is to be.

Returns C(user_keys), C(rotation), whether there is a second key, and C(pair_differences). It reads
files of the control node alone, as whoever plays.
"""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.plugins.action import ActionBase

DIRECTORY_MODE = 0o700


def shared(name: str) -> Any:
    """A module that this role has in common with the node program."""
    module = ModuleType(name)
    file = Path(__file__).parents[1] / "module_utils" / f"{name}.py"
    SourceFileLoader(name, str(file)).exec_module(module)
    return module


LINES, PAIR = shared("ssh_trust_lines"), shared("ssh_trust_pair")


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Looks at one pair."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Look."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "key": {"type": "path", "required": True, "no_log": False},
                # End of the name of the second key, which a rotation brings
                "next": {"type": "str", "default": ""},
                "comment": {"type": "str", "required": True},
            }
        )
        key = Path(options["key"])
        second = f"{key}{options['next']}.pub"
        try:
            keys = [LINES.read_public_key(Path(f"{key}.pub"))]
            keys += [LINES.read_public_key(Path(second))] if options["next"] else []
        except ValueError as error:
            return {"failed": True, "msg": str(error)}
        return {
            "changed": False,
            "pair_differences": PAIR.pair_differences(
                key, DIRECTORY_MODE, None, options["comment"]
            ),
            "user_keys": [line for line in keys if line],
            "rotation": len(keys) > 1 and keys[1] is not None,
        }
