"""What the programs share that `ask` starts: an inventory as Ansible has it, and their end."""

import sys
from collections.abc import Callable
from typing import Any

from ansible.cli.inventory import InventoryCLI
from ansible.errors import AnsibleError
from ansible.plugins.loader import init_plugin_loader


def open_inventory(inventory: str, checkout: str) -> tuple[Any, Any, Any]:
    """Return Ansible's loader, its inventory, and its variables, Vault's passwords included."""
    command = InventoryCLI(
        ["ansible-inventory", "--list", "--inventory", inventory, "--playbook-dir", checkout]
    )
    command.parse()
    init_plugin_loader()
    loader, hosts, variables = command._play_prereqs()
    return loader, hosts, variables


def answer(main: Callable[[str, str], None]) -> None:
    """Run a program with its two arguments, INVENTORY and CHECKOUT."""
    try:
        main(*sys.argv[1:])
    except AnsibleError as error:
        sys.exit(str(error))
