"""What a checkout keeps of the machines of one inventory, another inventory does not touch."""

import shutil
from pathlib import Path
from typing import Any

import yaml
from ansible_here import Inventory
from role_files import ROLES

from yard.core.project import inventory_name

# The keys, names and choices of the machines of an inventory.
KEPT = ("ssh_trust_control_directory", "ssh_trust_control_name", "package_sources_trusted")


def write(file: Path) -> Path:
    file.parent.mkdir(parents=True)
    node: dict[str, Any] = {"hosts": {"node1": {}}}
    file.write_text(yaml.safe_dump({"trainers": node, "gpu_nodes": node}))
    return file


def test_each_inventory_has_a_folder_as_yard_names_it(tmp_path: Path) -> None:
    folders = [write(tmp_path / f"{name}/hosts.yml").parent for name in ("lab", "my site")]
    inventories = [*folders, write(tmp_path / "sites/lab.yml")]
    seen = [Inventory(path).hostvars["node1"] for path in inventories]
    states = [variables["trainyard_inventory_state"] for variables in seen]
    assert [Path(state).name for state in states] == list(map(inventory_name, inventories))
    # Nodes of one name have other keys, and perhaps other GPUs.
    for name in (*KEPT, "trainer_image_fit_file"):
        assert len({variables[name] for variables in seen}) == len(seen)
    for variables in seen:
        # It stands at the end of a line of keys, whose last word it is.
        assert len(variables["ssh_trust_control_name"].split()) == 1


def test_a_copy_of_the_local_cluster_has_keys_of_its_own(tmp_path: Path) -> None:
    own = ROLES.parent / "inventory/local"
    copy = tmp_path / "mine"
    copy.mkdir()
    shutil.copy(own / "hosts.yml", copy)
    places = {
        Inventory(path).hostvars["localhost"]["local_cluster_directory"] for path in (own, copy)
    }
    assert {Path(place).name for place in places} == {"local", "mine"}
