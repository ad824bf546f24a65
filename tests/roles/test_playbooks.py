"""What playbooks decide before they touch a machine."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_here import LOADER, PLAYBOOKS, refusal

CHECKOUT = Path(__file__).parents[2]


def plays(playbook: str) -> list[dict[str, Any]]:
    path = str(CHECKOUT / playbook)
    found: list[dict[str, Any]] = LOADER.load_from_file(path, trusted_as_template=True)
    return found


@pytest.mark.parametrize("name", ["playbooks/remove.yml", "playbooks/rotate_keys.yml"])
def test_nothing_is_done_well_where_there_is_no_machine(name: str) -> None:
    assert plays(name)[0]["ansible.builtin.import_playbook"] == "any_machine.yml"
    (look,) = plays("playbooks/any_machine.yml")
    sources = {"ansible_inventory_sources": ["/sites/mine"]}
    for groups, are_there in (({}, False), ({"trainers": []}, False), ({"trainers": ["a"]}, True)):
        said = refusal(look["tasks"], {"groups": groups, **sources})
        assert bool(said) is not are_there
    said = refusal(look["tasks"], {"groups": {}, **sources})
    assert "There is no machine in group trainers of /sites/mine" in said
    assert "-i inventory/mysite" in said


@pytest.mark.parametrize(
    ("asked", "first", "has_roles"),
    [
        ("all", "trainer_image", True),
        ("all,dataset", "dataset", True),
        ("dataset", "dataset", False),
    ],
)
def test_which_roles_are_removed(asked: str, first: str, has_roles: bool) -> None:
    given = {"remove_roles": asked, "playbook_dir": str(PLAYBOOKS), "training_datasets": {}}
    loader = DataLoader()
    loader.set_basedir(str(PLAYBOOKS))
    templar = Templar(
        loader=loader, variables={**plays("playbooks/remove.yml")[-1]["vars"], **given}
    )
    wanted = templar.template(trust_as_template("{{ remove_wanted }}"))
    assert wanted[0] == first
    assert len(wanted) == len(set(wanted))
    assert ({"openmpi", "accounts", "ssh_trust"} <= set(wanted)) == has_roles
    assert ("dataset" in wanted) == ("dataset" in asked)


def test_a_node_that_is_asked_for_another_one_spoils_nothing() -> None:
    """It may be off, or have lost its Python: that is a matter of its own row."""
    found = 0
    for file in CHECKOUT.glob("roles/*/tasks/*.yml"):
        for task in yaml.safe_load(file.read_text()) or []:
            if task.get("delegate_to") == "{{ item }}":
                found += 1
                assert task.get("ignore_unreachable"), file
                assert task.get("ignore_errors"), file
    assert found >= 2
