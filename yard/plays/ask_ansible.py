"""Prints what Ansible makes of an inventory, as JSON; passwords may be among it.

    python -m yard.plays.ask_ansible connections|environment INVENTORY CHECKOUT

`connections`: how it would reach every host, and become root there. It contacts nobody.
`environment`: in which programs of this machine reach packages.
"""

import json
import sys
from typing import Any

from ansible import constants
from ansible.cli.inventory import InventoryCLI
from ansible.errors import AnsibleError
from ansible.module_utils import basic
from ansible.plugins.loader import become_loader, connection_loader, init_plugin_loader
from ansible.template import Templar

# What is not one of a plugin's options, but said for a host.
OF_THE_HOST = (
    "ansible_connection",
    "ansible_become",
    "ansible_become_method",
    "ansible_python_interpreter",
)
SSH = ("ssh", "ansible.builtin.ssh")
SUDO = ("sudo", "ansible.builtin.sudo")
# Of group_vars/all/closed_network.yml
ENVIRONMENT = "closed_network_environment"


def main(question: str, inventory: str, checkout: str) -> None:
    command = InventoryCLI(
        ["ansible-inventory", "--list", "--inventory", inventory, "--playbook-dir", checkout]
    )
    command.parse()
    init_plugin_loader()
    # The variables of Vault are among them.
    loader, hosts, variables = command._play_prereqs()
    answers = {"connections": _connections, "environment": _environment}
    json.dump(answers[question](loader, hosts, variables), sys.stdout, default=str)


def _environment(loader: Any, hosts: Any, variables: Any) -> dict[str, str]:
    known = variables.get_vars(host=hosts.get_host("localhost"))
    templar = Templar(loader=loader, variables=known)
    found = templar.template(known[ENVIRONMENT]) if ENVIRONMENT in known else {}
    return {name: str(value) for name, value in found.items()}


def _connections(loader: Any, hosts: Any, variables: Any) -> dict[str, Any]:
    # Only plugins that were loaded have options.
    connection_loader.get(SSH[0], class_only=True)
    become_loader.get(SUDO[0], class_only=True)
    found = [
        _host(host.name, variables.get_vars(host=host), loader) for host in hosts.get_hosts("all")
    ]
    return {"least_python": list(basic._PY_MIN), "hosts": found}


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
    try:
        main(*sys.argv[1:])
    except AnsibleError as error:
        sys.exit(str(error))
