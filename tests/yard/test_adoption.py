"""A run that was begun elsewhere, and what its nodes know of it."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from yard_command import DATA, RUN_ID

from yard.commands import stop
from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import adoption
from yard.plays.contract import READ_RECORD
from yard.plays.events import Event, Outcome, TaskFailure
from yard.plays.inventory import Inventory
from yard.runs.manifest import read_manifest

pytestmark = pytest.mark.process

HOME = "/home/ada/trainyard/runs/" + RUN_ID
OTHER = "20260101T000000Z_vit_cifar10_b64_e5_n2_p1"


@pytest.fixture
def record() -> dict[str, Any]:
    """What a node of a run has written down."""
    manifest = json.loads((DATA / "runs/succeeded/manifest.json").read_text())
    return {
        "run": RUN_ID,
        "owner": "ada@elsewhere",
        "home": HOME,
        "nodes": ["node1", "node2"],
        "since": 0.0,
        "manifest": {**manifest, "inventory_path": "/home/ada/evil", "hosts": []},
    }


@pytest.fixture
def find(tmp_path: Path, local: Inventory, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Looks for a run in a checkout without runs, whose nodes answer as a test says."""
    inventory = replace(local, trainers=("node1", "node2"))
    monkeypatch.setattr(adoption, "read_inventory", lambda project, path: inventory)

    def look(
        name: str,
        *answers: object,
        failures: tuple[TaskFailure, ...] = (),
        command: Callable[[Context, str], Any] = adoption.find_or_adopt,
    ) -> Any:
        def play(
            context: Context, playbook: str, variables: Any, on_event: Any, *, log: Path
        ) -> Outcome:
            assert (playbook, variables) == ("record", {"training_run_id": name})
            for answer in answers:
                result = {"record": answer}
                on_event(Event("runner_on_ok", 0.0, action=READ_RECORD, result=result))
            return Outcome("failed" if failures else "successful", failures, {})

        monkeypatch.setattr(adoption, "play", play)
        (tmp_path / "inventory/local").mkdir(parents=True, exist_ok=True)
        console = Console(file=io.StringIO(), width=200)
        context = Context(Project(tmp_path), tmp_path / "inventory/local", console, Interrupts())
        return command(context, name)

    return look


def test_a_run_that_its_nodes_know_gets_a_directory_here(
    find: Callable[..., Path], record: dict[str, Any], local: Inventory, tmp_path: Path
) -> None:
    run = find(RUN_ID, None, record, record)
    assert run == tmp_path / "runs" / RUN_ID
    assert (tmp_path / "runs/latest").resolve() == run
    manifest = read_manifest(run)
    assert manifest is not None
    assert (manifest.run_id, manifest.home, manifest.hosts) == (RUN_ID, HOME, ("node1", "node2"))
    # Where things are is not what a node says.
    assert manifest.inventory_path == str(local.path)
    assert find(RUN_ID) == run, "now it is known here"


def test_make_stop_ends_a_run_that_its_nodes_alone_know(
    find: Callable[..., Exit], record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch that finds its nodes held says `make stop RUN=`, whoever has begun that run."""
    monkeypatch.setattr(stop, "stop_ranks", lambda context, run: Outcome("successful", (), {}))
    monkeypatch.setattr(stop, "conclude", read_manifest)
    monkeypatch.setattr(stop, "show_result", lambda console, project, run, manifest: None)
    assert find(RUN_ID, record, command=stop.stop) == Exit.DONE


def test_no_node_names_a_folder_of_this_machine(
    find: Callable[..., Path], record: dict[str, Any]
) -> None:
    there = {"folder": "/home/ada/.ssh", "node": "node1"}
    project = {"program": ["python3", "x.py"], "notebook": there}
    run = find(RUN_ID, {**record, "manifest": {**record["manifest"], "project": project}})
    manifest = read_manifest(run)
    assert manifest is not None
    assert manifest.project == {"program": ["python3", "x.py"]}


@pytest.mark.parametrize("name", ["latest", "2026", "../../etc"])
def test_nodes_are_asked_for_whole_ids_alone(name: str, find: Callable[..., Path]) -> None:
    with pytest.raises(RequestError):
        find(name, {"manifest": {}})


def test_a_run_that_nobody_knows(find: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no runs yet"):
        find(OTHER, None, None)
    assert not (tmp_path / "runs" / OTHER).exists()


def test_nodes_that_cannot_be_asked_are_named(find: Callable[..., Path]) -> None:
    failed = TaskFailure("node1", "Ask every node", "", "", "Connection timed out", True)
    with pytest.raises(ClusterError, match="node1: Connection timed out"):
        find(OTHER, failures=(failed,))


def test_one_node_that_knows_it_is_enough(
    find: Callable[..., Path], record: dict[str, Any]
) -> None:
    failed = TaskFailure("node2", "Ask every node", "", "", "Connection timed out", True)
    assert find(RUN_ID, record, failures=(failed,)).name == RUN_ID


@pytest.mark.parametrize("manifest", [{}, {"run_id": RUN_ID}, [], None, "text"])
def test_what_is_no_manifest_is_refused(
    manifest: object, find: Callable[..., Path], record: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match="is not the record of a run"):
        find(RUN_ID, {**record, "manifest": manifest})
    assert not (tmp_path / "runs" / RUN_ID).exists()


def test_an_inventory_without_all_of_its_nodes_is_refused(
    find: Callable[..., Path], record: dict[str, Any]
) -> None:
    with pytest.raises(RequestError, match="runs on gpu07 too"):
        find(RUN_ID, {**record, "nodes": ["node1", "gpu07"]})
