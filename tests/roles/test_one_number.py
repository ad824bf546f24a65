"""Account, number, port and folder have one place: no role keeps a default of its own beside it.

That whole runs follow them is tests/e2e/test_other_numbers.py.
"""

from pathlib import Path
from typing import Any

import yaml
from ansible_here import Inventory
from role_files import ROLES

SITE = {
    "trainyard_user": "researcher",
    "trainyard_uid": 2777,
    "trainyard_root": "/data/lab",
    "training_node_ssh_port": 2300,
}
USUAL = ("trainer", 2000, "/srv/trainyard", 2222)


def is_usual(value: Any) -> bool:
    return value in USUAL or str(value).startswith(f"{USUAL[2]}/")


# The account of the image: on nodes its number counts, whatever it is called there.
OF_THE_IMAGE = {"training_run_user"}


def test_what_roles_take_for_granted_follows_the_site(tmp_path: Path) -> None:
    document = {"trainers": {"hosts": {"node1": {}}, "vars": SITE}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(document))
    seen = Inventory(tmp_path).hostvars["node1"]
    granted = {
        name
        for file in ROLES.parent.glob("roles/*/defaults/main.yml")
        for name, value in (yaml.safe_load(file.read_text()) or {}).items()
        if is_usual(value)
    }
    assert len(granted) > len(USUAL) * 2
    assert {name for name in granted if is_usual(seen.get(name, USUAL[0]))} == OF_THE_IMAGE
