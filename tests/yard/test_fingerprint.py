"""Does set-up have to run again?"""

from yard_command import DATA, REPOSITORY, Yard

from yard.core.project import Project
from yard.plays.fingerprint import (
    SOURCES,
    changed_files,
    fingerprint_inventory,
    fingerprint_sources,
)
from yard.plays.inventory import parse_inventory


def test_every_source_is_there() -> None:
    assert [source for source in SOURCES if not (REPOSITORY / source).exists()] == []


def test_changes_are_seen_and_caches_are_not(fresh: Yard) -> None:
    project = Project(fresh.root)
    before = fingerprint_sources(project)
    assert "roles/training_run/tasks/main.yml" in before
    cache = fresh.root / "roles/training_run/library/__pycache__"
    cache.mkdir()
    (cache / "x.pyc").touch()
    (fresh.root / "notes.txt").touch()
    packages = fresh.root / "docker/notebook/requirements.txt"
    packages.parent.mkdir(parents=True)
    packages.touch()
    assert changed_files(before, fingerprint_sources(project)) == []
    (fresh.root / "site.yml").write_text("---\n")
    (fresh.root / "playbooks/data.yml").unlink()
    (fresh.root / "group_vars/new.yml").touch()
    assert changed_files(before, fingerprint_sources(project)) == [
        "group_vars/new.yml",
        "playbooks/data.yml",
        "site.yml",
    ]


def test_an_inventory_may_be_a_folder_or_a_file(fresh: Yard) -> None:
    folder = fresh.root / "inventory/lab"
    assert list(fingerprint_inventory(folder)) == ["inventory:lab/hosts.yml"]
    assert list(fingerprint_inventory(folder / "hosts.yml")) == ["inventory:hosts.yml"]
    for name in ("group_vars", "host_vars"):
        (folder / name).mkdir()
        (folder / name / "a.yml").touch()
    assert list(fingerprint_inventory(folder / "hosts.yml")) == [
        "inventory:hosts.yml",
        "inventory:group_vars/a.yml",
        "inventory:host_vars/a.yml",
    ]


def test_trainers_keep_their_order_and_groups_may_nest() -> None:
    document = {
        "_meta": {"hostvars": {"c": {"training_models": {"vit": {"epochs": 3}}}}},
        "trainers": {"hosts": ["c"], "children": ["rack2", "rack1"]},
        "rack1": {"hosts": ["a", "c"]},
        "rack2": {"hosts": ["b"]},
    }
    inventory = parse_inventory(document, DATA)
    assert inventory.trainers == ("c", "b", "a")
    assert inventory.nodes == inventory.trainers
    assert inventory.models["vit"].defaults == {"epochs": 3}
