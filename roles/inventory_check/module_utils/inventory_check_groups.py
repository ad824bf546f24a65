"""Groups that plays do not find, and machines in the wrong one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from ansible.module_utils.inventory_check_files import Entry, InventoryFiles
from ansible.module_utils.inventory_check_problem import Problem, shown
from ansible.module_utils.inventory_check_variables import ALIKE

# The machine whose containers are the nodes: one that is missing is empty, as with most people.
LOCAL_CLUSTER = "container_hosts"
Groups = Mapping[str, Sequence[str]]


def group_problems(
    files: InventoryFiles,
    groups: Groups,
    hosts: Collection[str],
    playbooks: Mapping[str, Path],
    gpu_groups: Sequence[str],
) -> Iterator[Problem]:
    """Find groups that plays name and the inventory does not have, and those that no play finds.

    Args:
        files: where the inventory names its groups.
        groups: the inventory's groups and their hosts.
        hosts: the inventory's hosts.
        playbooks: names in plays, and the playbook of each.
        gpu_groups: those of the machines with GPUs of one vendor each, which may be missing.
    """
    # Where no YAML file names a group, an INI file does, or a program, whose author knows.
    is_yaml = bool(files.groups)
    # The group that other tools have for the machines is named where there is one.
    known = {"all", "ungrouped", *playbooks, *gpu_groups}
    of_machines = [name for name in groups if groups[name] and name not in known]
    likely = max(of_machines, key=lambda name: len(groups[name]), default="name-of-the-group")
    children = {
        "ini": f'"[trainers:children]", and "{likely}" in the line below',
        "toml": f'"[trainers]", and "children = [\'{likely}\']" in the line below',
        "program": f'"trainers": {{"children": ["{likely}"]}} of what it prints',
        "yaml": f'"trainers: {{children: {{{likely}: {{}}}}}}"',
    }["yaml" if is_yaml else files.form]
    if groups.get("ungrouped") and not of_machines and not is_yaml and files.form == "ini":
        children = '"[trainers]" in the line above the machines'
    for name, playbook in playbooks.items():
        if name in groups or name in hosts:
            continue
        empty = f'"{name}: {{hosts: {{}}}}"' if is_yaml else f'"[{name}]"'
        values = {"group": name, "playbook": playbook.name, "empty": empty}
        near = get_close_matches(name, set(groups) - {"all", "ungrouped"}, n=1, cutoff=0.7)
        if near:
            place = group_place(files, near[0])
            yield Problem("group_missing_near", {**place, **values, "near": near[0]})
        elif name == "trainers":
            yield Problem("group_trainers_empty", {"children": children})
        elif name != LOCAL_CLUSTER:
            yield Problem("group_missing", values)
    if groups.get("trainers") == [] and not groups.get("container_hosts"):
        yield Problem(
            "group_trainers_empty", {**group_place(files, "trainers"), "children": children}
        )

    # Set up beside the right group, a group with a slip in its name is used by nothing.
    expected = [*(name for name in playbooks if name in groups), *gpu_groups]
    for name in groups:
        near = get_close_matches(name, expected, n=1, cutoff=ALIKE)
        if name in expected or not near:
            continue
        strays = [host for host in groups[name] if host not in groups.get(near[0], [])]
        if strays:
            values = {"group": name, "host": strays[0], "near": near[0]}
            yield Problem("group_misspelt", group_place(files, name) | values)

    for gpu_group in gpu_groups:
        for host in groups.get(gpu_group, []):
            if host not in groups.get("trainers", []):
                values = {"host": host, "group": gpu_group}
                yield Problem("host_not_trainer", group_place(files, gpu_group, host) | values)
    # A node has one image, and none computes on GPUs of two vendors.
    group, other = gpu_groups
    for host in groups.get(other, []):
        if host in groups.get(group, []):
            values = {"group": group, "host": host, "other": other}
            yield Problem("gpus_of_two_vendors", group_place(files, other, host) | values)


def group_file_problems(files: InventoryFiles, groups: Groups) -> Iterator[Problem]:
    """Find files in group_vars whose name is nearly that of a group, so that nobody reads them.

    A name that is like no group's may belong to another inventory beside this one.
    """
    for name, file in files.group_files:
        near = get_close_matches(name, groups, n=1, cutoff=ALIKE)
        if name not in groups and near:
            values = {"file": shown(file, files.checkout), "group": name, "near": near[0]}
            yield Problem("group_file_misspelt", values)


def group_place(files: InventoryFiles, group: str, host: str = "") -> dict[str, str | int]:
    """Where a group, or a host in it, is named; nothing where no YAML file does."""
    entries: list[Entry] = [entry for entry in files.groups if entry.name == group]
    if host:
        entries = [e for e in files.hosts if (e.name, e.group) == (host, group)] + entries
    if not entries:
        return {}
    return {"file": shown(entries[0].file, files.checkout), "line": entries[0].line}
