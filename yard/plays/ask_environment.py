"""Prints the environment in which programs of this machine reach packages, as JSON.

    python -m yard.plays.ask_environment INVENTORY CHECKOUT

A program of its own: Ansible reads its settings when it is imported, and a proxy's password may be
among what it prints, so that it goes through a pipe and into no log or callback of Ansible.
"""

import json
import sys

from ansible.cli.inventory import InventoryCLI
from ansible.errors import AnsibleError
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar

# Of group_vars/all/closed_network.yml
VARIABLE = "closed_network_environment"


def main(inventory: str, checkout: str) -> int:
    """Print one JSON document; return the exit status."""
    command = InventoryCLI(
        ["ansible-inventory", "--list", "--inventory", inventory, "--playbook-dir", checkout]
    )
    command.parse()
    init_plugin_loader()
    loader, hosts, variables = command._play_prereqs()
    known = variables.get_vars(host=hosts.get_host("localhost"))
    templar = Templar(loader=loader, variables=known)
    found = templar.template(known[VARIABLE]) if VARIABLE in known else {}
    json.dump({name: str(value) for name, value in found.items()}, sys.stdout)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except AnsibleError as error:
        sys.exit(str(error))
