"""RUNTIME=: what keeps ranks apart from the rest of a node, and what is refused without root."""

import json
import os
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from yard_command import DATA, REPOSITORY, Yard

from yard.core.context import Context
from yard.core.errors import RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations.runtime import as_it_ran
from yard.plays.fingerprint import RUNTIME, fingerprint_inventory
from yard.plays.inventory import CONTAINER, NATIVE, parse_inventory
from yard.runs.manifest import read_manifest

LAB = ("--inventory", "inventory/lab")
FROM_ENVIRONMENT = "{{ lookup('ansible.builtin.env', 'TRAINYARD_RUNTIME') or 'container' }}"


@pytest.mark.parametrize(
    ("said", "environment", "runtime"),
    [
        (FROM_ENVIRONMENT, None, CONTAINER),
        (FROM_ENVIRONMENT, NATIVE, NATIVE),
        (NATIVE, None, NATIVE),
        (CONTAINER, CONTAINER, CONTAINER),
    ],
)
def test_the_inventory_says_it_or_else_the_command(
    said: str, environment: str | None, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment:
        monkeypatch.setenv(RUNTIME, environment)
    assert parse_inventory(saying(said), REPOSITORY / "inventory/local").runtime == runtime


def saying(runtime: str) -> dict[str, Any]:
    """An inventory of one node, as ansible-inventory prints it."""
    return {
        "trainers": {"hosts": ["alpha"]},
        "_meta": {"hostvars": {"alpha": {"trainyard_runtime": runtime}}},
    }


@pytest.mark.parametrize(("said", "told"), [(CONTAINER, NATIVE), (NATIVE, CONTAINER)])
def test_a_command_that_contradicts_the_inventory_is_refused(
    said: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUNTIME, told)
    words = f"runtime {told}: the inventory says trainyard_runtime: {said}"
    with pytest.raises(RequestError, match=words):
        parse_inventory(saying(said), REPOSITORY / "inventory/local")


def test_another_word_is_refused(fresh: Yard) -> None:
    fresh.environment[RUNTIME] = "podman"
    done = fresh(*LAB, "train", "--model", "vit", "--nodes", "2")
    assert done.returncode == 2
    assert done.stderr == "yard: runtime podman: there are container and native\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("verify",), "each launch checks its nodes"),
        (("remove", "--yes"), "make exec CMD='rm -r ~/.trainyard' INVENTORY=inventory/lab"),
    ],
)
def test_what_works_as_root_is_refused_without(
    fresh: Yard, command: tuple[str, ...], words: str
) -> None:
    fresh.environment[RUNTIME] = NATIVE
    done = fresh(*LAB, *command)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (fresh.root / "runs").exists()


def test_another_runtime_asks_for_set_up_and_is_in_the_manifest(ready: Yard) -> None:
    arguments = ("train", "--model", "vit", "--nodes", "1", "--epochs", "1")
    ready.environment[RUNTIME] = NATIVE
    done = ready(*arguments)
    assert "Setting up: inventory:TRAINYARD_RUNTIME changed" in done.stdout
    assert "without root and containers" in done.stdout
    manifest = json.loads((ready.root / "runs/latest/manifest.json").read_text())
    assert manifest["configuration"]["runtime"] == NATIVE


def test_the_fingerprint_of_those_who_say_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUNTIME, raising=False)
    inventory = Project(REPOSITORY).root / "inventory/local"
    before = fingerprint_inventory(inventory)
    monkeypatch.setenv(RUNTIME, NATIVE)
    assert fingerprint_inventory(inventory) == {**before, f"inventory:{RUNTIME}": NATIVE}


@pytest.mark.process
def test_make_hands_it_to_whatever_it_starts() -> None:
    told = subprocess.run(
        ["make", "--eval", "told: ; @echo runtime=$$TRAINYARD_RUNTIME", "told", "RUNTIME=native"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "runtime=native\n"


@pytest.mark.parametrize(
    ("ran", "told", "then"),
    [
        (NATIVE, None, NATIVE),
        (CONTAINER, NATIVE, CONTAINER),
        (NATIVE, NATIVE, NATIVE),
        (CONTAINER, None, None),
        # What a node says of a run that was begun elsewhere.
        ("podman", None, None),
        ([NATIVE], None, None),
    ],
)
def test_a_run_is_looked_for_as_it_was_started(
    ran: object, told: str | None, then: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**os.environ, **({RUNTIME: told} if told else {})}
    monkeypatch.setattr(os, "environ", environment)
    checkout = DATA / "checkout"
    begun = read_manifest(DATA / "runs/killed")
    assert begun is not None
    configuration = {**begun.configuration, "runtime": ran}
    manifest = replace(
        begun, configuration=configuration, inventory_path=str(checkout / "inventory/lab")
    )
    context = Context(Project(checkout), checkout / "inventory/lab", Console(), Interrupts())
    as_it_ran(context, manifest)
    assert environment.get(RUNTIME) == then
