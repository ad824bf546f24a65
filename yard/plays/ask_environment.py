"""Prints the environment in which programs of this machine reach packages, as JSON.

    python -m yard.plays.ask_environment INVENTORY CHECKOUT

A proxy's password may be among it.
"""

import json
import sys

from ansible.template import Templar

from yard.plays.ask_inventory import answer, open_inventory

# Of group_vars/all/closed_network.yml
VARIABLE = "closed_network_environment"


def main(inventory: str, checkout: str) -> None:
    loader, hosts, variables = open_inventory(inventory, checkout)
    known = variables.get_vars(host=hosts.get_host("localhost"))
    templar = Templar(loader=loader, variables=known)
    found = templar.template(known[VARIABLE]) if VARIABLE in known else {}
    json.dump({name: str(value) for name, value in found.items()}, sys.stdout)


if __name__ == "__main__":
    answer(main)
