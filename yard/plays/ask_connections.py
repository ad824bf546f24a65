"""Prints how Ansible would reach every host of an inventory, and become root there, as JSON.

    python -m yard.plays.ask_connections INVENTORY CHECKOUT

Passwords are among it. It contacts nobody.
"""

import json
import sys
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils import basic
from ansible.plugins.loader import become_loader, connection_loader
from ansible.template import Templar

from yard.plays.ask_inventory import answer, open_inventory

# What is not one of a plugin's options, but said for a host.
OF_THE_HOST = (
    "ansible_connection",
    "ansible_become",
    "ansible_become_method",
    "ansible_python_interpreter",
)
SSH = ("ssh", "ansible.builtin.ssh")
SUDO = ("sudo", "ansible.builtin.sudo")


def main(inventory: str, checkout: str) -> None:
    loader, hosts, variables = open_inventory(inventory, checkout)
    # Only plugins that were loaded have options.
    connection_loader.get(SSH[0], class_only=True)
    become_loader.get(SUDO[0], class_only=True)
    found = [
        _host(host.name, variables.get_vars(host=host), loader) for host in hosts.get_hosts("all")
    ]
    least = list(basic._PY_MIN)
    json.dump({"least_python": least, "hosts": found}, sys.stdout, default=str)


def _host(name: str, variables: dict[str, Any], loader: Any) -> dict[str, Any]:
    """What Ansible's plugins would be told of one host."""
    templar = Templar(loader=loader, variables=variables)

    def resolved(names: Any) -> dict[str, Any]:
        return {name: templar.template(variables[name]) for name in names if name in variables}

    try:
        said = resolved(OF_THE_HOST)
        ssh, sudo = (
            constants.config.get_plugin_options(
                kind, plugin, variables=resolved(constants.config.get_plugin_vars(kind, plugin))
            )
            for kind, plugin in (("connection", SSH[0]), ("become", SUDO[0]))
        )
    except AnsibleError as error:
        return {"host": name, "problem": str(error)}
    connection = str(said.get("ansible_connection", constants.DEFAULT_TRANSPORT))
    method = str(said.get("ansible_become_method", constants.DEFAULT_BECOME_METHOD))
    return {
        "host": name,
        "plugin": "ssh" if connection in SSH else connection,
        "method": "sudo" if method in SUDO else method,
        # The playbooks say `become: true`; a host may say otherwise.
        "become": said.get("ansible_become", True),
        "python": said.get("ansible_python_interpreter", constants.INTERPRETER_PYTHON),
        "ssh": ssh,
        "sudo": sudo,
    }


if __name__ == "__main__":
    answer(main)
