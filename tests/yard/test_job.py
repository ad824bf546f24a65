"""The end of a verification or a benchmark before its time, from another terminal."""

import os
from pathlib import Path

import pytest
from rich.console import Console
from stand_in_nodes import KilledError, YardHere

from yard.commands import stop as stopping
from yard.core.context import Context
from yard.core.files import read_object, write_json
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.plays.events import Outcome
from yard.plays.fingerprint import RUNTIME
from yard.plays.inventory import CONTAINER, NATIVE, read_inventory
from yard.runs.folder import STOP_MARK
from yard.runs.measurements import BENCHMARK, REQUEST, VERIFICATION, Kind, open_measurement

COMMANDS = {
    VERIFICATION: ("verify", "--checks", "containers"),
    BENCHMARK: ("bench", "--models", "vit"),
}
both = pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: COMMANDS[kind][0])


@both
def test_stop_ends_it(ready: YardHere, kind: Kind) -> None:
    def ask() -> None:
        (directory,) = ready.root.glob(f"{kind.folder}/{kind.prefix}*")
        (directory / STOP_MARK).touch()

    ready.during = {"Follow the run": [ask]}
    done = ready(*COMMANDS[kind])
    (directory,) = ready.root.glob(f"{kind.folder}/{kind.prefix}*")
    name = directory.name
    assert done.returncode == 130, done.stdout + done.stderr
    assert f" {name}\n" in done.stdout
    assert f"stopped by make stop; {kind.folder}/{name} has " in done.stderr
    assert (directory / "exit_status").read_text() == "130\n"


@both
def test_stop_ends_what_a_killed_yard_has_left(ready: YardHere, kind: Kind) -> None:
    def die() -> None:
        raise KilledError

    ready.during = {"Follow the run": [die]}
    with pytest.raises(KilledError):
        ready(*COMMANDS[kind])
    (directory,) = ready.root.glob(f"{kind.folder}/{kind.prefix}*")
    name = directory.name
    # The beginning of an id is enough, as for runs.
    stopped = ready("stop", name[:-3])
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert f"{name} has ended; {kind.folder}/{name} has what was done" in stopped.stdout
    assert (directory / "exit_status").read_text() == "130\n"


@both
def test_one_that_has_its_result_is_left_alone(ready: YardHere, kind: Kind) -> None:
    directory = ready.root / kind.folder / f"{kind.prefix}20261122T010203Z"
    directory.mkdir(parents=True)
    (directory / kind.result).write_text("{}")
    stopped = ready("stop", directory.name)
    assert stopped.returncode == 0
    assert f"{directory.name} had ended before" in stopped.stdout
    assert not (directory / "stop_requested").exists()


@pytest.fixture
def stopped_with(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, str | None]]:
    """The inventory and the runtime of each stop, none of which goes to a node."""
    asked: list[tuple[Path, str | None]] = []

    def note(context: Context, directory: Path, inventory: Path) -> Outcome:
        asked.append((inventory, os.environ.get(RUNTIME)))
        return Outcome("successful", (), {})

    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.setattr(stopping, "stop_on_nodes", note)
    return asked


@pytest.mark.parametrize(
    ("ran", "told", "then"),
    [
        (NATIVE, None, NATIVE),
        (CONTAINER, NATIVE, CONTAINER),
        (CONTAINER, None, None),
        # A version that did not note it; and a word that is none.
        (None, NATIVE, NATIVE),
        ("podman", None, None),
    ],
)
def test_it_is_stopped_as_it_was_begun(
    fresh: YardHere,
    stopped_with: list[tuple[Path, str | None]],
    ran: str | None,
    told: str | None,
    then: str | None,
) -> None:
    project = Project(fresh.root)
    lab = fresh.root / "inventory/lab"
    if ran == NATIVE:
        os.environ[RUNTIME] = NATIVE
    directory = open_measurement(project, BENCHMARK, read_inventory(project, lab), {})
    assert read_object(directory / REQUEST)["runtime"] == (NATIVE if ran == NATIVE else CONTAINER)
    write_json(directory / REQUEST, {**read_object(directory / REQUEST), "runtime": ran})
    os.environ.pop(RUNTIME, None)
    if told:
        os.environ[RUNTIME] = told
    context = Context(project, project.own_inventory, Console(), Interrupts())
    stopping.stop(context, directory.name)
    assert stopped_with == [(lab, then)]


def test_what_comes_home_meanwhile_does_not_choose_the_machines(
    fresh: YardHere,
    stopped_with: list[tuple[Path, str | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(fresh.root)
    lab = fresh.root / "inventory/lab"
    directory = open_measurement(project, BENCHMARK, read_inventory(project, lab), {})
    looks = iter((True, False))

    def ends(path: Path) -> bool:
        other = {"inventory": str(project.own_inventory), "runtime": NATIVE}
        write_json(path / REQUEST, other)
        return next(looks)

    (directory / STOP_MARK).touch()
    monkeypatch.setattr(stopping, "is_followed", ends)
    context = Context(project, project.own_inventory, Console(), Interrupts())
    stopping.stop(context, directory.name)
    assert stopped_with == [(lab, None)]


def test_what_goes_with_trainings_alone_says_so(ready: YardHere) -> None:
    (ready.root / "runs/verify-20261122T010203Z").mkdir(parents=True)
    for command in ("attach", "logs", "report"):
        refused = ready(command, "verify-20261122T010203Z")
        assert refused.returncode == 2
        assert "is a verification of the cluster, no training" in refused.stderr
        assert "make stop RUN=verify-20261122T010203Z ends it" in refused.stderr
    unknown = ready("stop", "verify-2025")
    assert unknown.returncode == 2
    assert "run 'verify-2025': unknown; the newest are" in unknown.stderr
