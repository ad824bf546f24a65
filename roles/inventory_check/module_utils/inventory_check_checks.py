"""All checks of an inventory: of its files alone, and of what Ansible made of them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.inventory_check_addresses import (
    ADDRESSES,
    RUN_PORT,
    Places,
    address_problems,
    host_name_problems,
    network_problems,
    port_problems,
    reach_problems,
)
from ansible.module_utils.inventory_check_closed_network import READ as CLOSED_NETWORK
from ansible.module_utils.inventory_check_closed_network import closed_network_problems
from ansible.module_utils.inventory_check_computed import Value, computed_problems
from ansible.module_utils.inventory_check_files import InventoryFiles
from ansible.module_utils.inventory_check_groups import group_file_problems, group_problems
from ansible.module_utils.inventory_check_problem import Problem
from ansible.module_utils.inventory_check_roles import (
    Declared,
    declared_variables,
    groups_of_plays,
)
from ansible.module_utils.inventory_check_variables import (
    name_problems,
    scope_problems,
    type_problems,
)

TRAINERS = "trainers"
# Machines with GPUs of NVIDIA, and of AMD.
GPU_GROUPS = ("gpu_nodes", "amd_nodes")
# Variables whose values the checks read, beside all that end in _network.
READ = (*ADDRESSES, RUN_PORT, "ansible_host", "ansible_port", "ansible_connection")


class Expectation(NamedTuple):
    """What an inventory is held against.

    Attributes:
        declared: the variables of each role.
        known: further variables that an inventory may set.
        renamed: old names of variables, with the new ones.
    """

    declared: Declared
    known: Sequence[str]
    renamed: Mapping[str, str]

    @classmethod
    def of(cls, roles: Path, known: Sequence[str], renamed: Mapping[str, str]) -> "Expectation":
        """Read what the roles declare."""
        return cls(declared_variables(roles), known, renamed)


def is_read(name: str) -> bool:
    """Whether the checks read the value of a variable."""
    return name in READ or name.endswith("_network") or name in CLOSED_NETWORK


def check_files(
    files: InventoryFiles,
    expectation: Expectation,
    names_of_hosts: Mapping[str, Collection[str]] | None = None,
) -> list[Problem]:
    """Find what the files alone show; names_of_hosts has what Ansible knows from elsewhere."""
    return [
        *files.problems,
        *name_problems(files, names_of_hosts or {}, *expectation),
        *type_problems(files, expectation.declared),
        *scope_problems(files),
    ]


def check_inventory(
    files: InventoryFiles,
    expectation: Expectation,
    groups: Mapping[str, Sequence[str]],
    hosts: Mapping[str, Mapping[str, Any]],
    playbook: Path,
    expand: Callable[[str], Iterable[str]],
    written: Value,
    computed: Value,
) -> list[Problem]:
    """Find all that is wrong with an inventory.

    Args:
        groups: the groups as Ansible has them, with the hosts of each.
        hosts: names of all variables of each host; the values of those that `is_read` says.
        playbook: the playbook whose groups must exist.
        expand: gives the hosts that a pattern such as gpu[01:16] stands for.
        written, computed: give the value of a variable of a host, before and after templates.
    """
    playbooks = groups_of_plays(playbook)
    trainers = groups.get(TRAINERS, [])
    # Ansible may manage other machines with the same inventory.
    ours_by_group = (*playbooks, TRAINERS, *GPU_GROUPS)
    members = {host for name in ours_by_group for host in groups.get(name, [])}
    ours = {host: variables for host, variables in hosts.items() if host in members}
    places = Places(files, expand)
    in_files = check_files(files, expectation, hosts)
    # An entry of a list with a template in it was looked at without that.
    told = {problem.text.partition(": ")[2] for problem in in_files}
    computed_ones = computed_problems(files, hosts, expectation.declared, written, computed)
    return [
        *group_problems(files, groups, hosts, playbooks, GPU_GROUPS),
        *group_file_problems(files, groups),
        *in_files,
        *(each for each in computed_ones if each.text.partition(": ")[2] not in told),
        *host_name_problems(places, ours, trainers),
        *reach_problems(places, ours),
        *network_problems(places, hosts, trainers, expectation.declared),
        *address_problems(places, ours, trainers),
        *port_problems(places, ours, trainers, expectation.declared),
        *closed_network_problems(places, ours),
    ]
