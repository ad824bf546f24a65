"""Commands that people are told to give reach, when they are pasted, the same nodes as before."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from yard_command import Yard

from yard.commands import notebook
from yard.core.context import Context
from yard.core.errors import ClusterError, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import readiness
from yard.plays.fingerprint import RUNTIME
from yard.plays.inventory import CONTAINER, NATIVE, Inventory
from yard.plays.remedy import addressed, reaching
from yard.request.own_data import check_own_data


@pytest.fixture(autouse=True)
def _as_typed_without_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUNTIME, raising=False)


@pytest.mark.parametrize(
    ("inventory", "runtime", "command"),
    [
        ("inventory/local", None, "make setup"),
        ("inventory/local", NATIVE, "make setup RUNTIME=native"),
        ("inventory/lab", None, "make setup INVENTORY=inventory/lab"),
        ("inventory/lab", CONTAINER, "make setup INVENTORY=inventory/lab RUNTIME=container"),
        ("sites/my lab.yml", None, "make setup INVENTORY='sites/my lab.yml'"),
    ],
)
def test_what_a_command_has_to_say(
    inventory: str, runtime: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime:
        monkeypatch.setenv(RUNTIME, runtime)
    project = Project(Path("/checkout"))
    assert addressed("make setup", project, project.root / inventory) == command


def test_a_sentence_has_commands_that_reach_the_same_nodes() -> None:
    project = Project(Path("/checkout"))
    for text, told in (
        (
            "make doctor ON=node4 says why; make setup, then make stop RUN=a",
            "make doctor INVENTORY=inventory/lab ON=node4 says why; make setup "
            "INVENTORY=inventory/lab, then make stop RUN=a",
        ),
        ("run: make data DATASET=x INVENTORY=inventory/lab", None),
        ("make settings", None),
    ):
        assert reaching(text, project, project.root / "inventory/lab") == (told or text)
        assert reaching(text, project, project.own_inventory) == text


def test_an_inventory_is_the_same_however_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert addressed("make setup", Project(tmp_path), Path("inventory/local")) == "make setup"


def test_set_up_without_root_stays_without_root(fresh: Yard) -> None:
    fresh.environment[RUNTIME] = NATIVE
    done = fresh("--inventory", "inventory/lab", "train", "--model", "vit", "--nodes", "2")
    assert done.returncode == 3
    assert "run: make setup INVENTORY=inventory/lab RUNTIME=native\n" in done.stderr


def test_the_way_back_to_a_notebook(lab: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNTIME, NATIVE)
    project = Project(lab.path.parents[1])
    monkeypatch.chdir(project.root)
    context = Context(project, lab.path, Console(), Interrupts())
    back, end = notebook._ways(context, "beta", Path("runs/one")).splitlines()
    assert "make notebook NODE=beta INVENTORY=inventory/lab RUNTIME=native " in back
    # The run knows its inventory.
    assert "make stop RUN=one " in end


def test_data_that_cannot_be_had_again(
    lab: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RequestError("it is gone")

    monkeypatch.setattr(readiness, "put_own_data", refuse)
    inventory = replace(lab, path=tmp_path / "inventory/second")
    context = Context(Project(tmp_path), inventory.path, Console(), Interrupts())
    own = check_own_data("faces", "https://data.example.com/faces.tar", None, lab)
    with pytest.raises(ClusterError) as caught:
        readiness._put_again(context, inventory, own)
    command = "make data SOURCE=https://data.example.com/faces.tar NAME=faces"
    assert str(caught.value).endswith(f"run: {command} INVENTORY=inventory/second")


def test_a_training_names_no_option_that_it_has_not(
    lab: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role asks for SOURCE=, which `make data` takes and `make train` does not."""

    def refuse(*_: object) -> None:
        raise ClusterError("data.yml failed")

    monkeypatch.setattr(readiness, "put_dataset", refuse)
    context = Context(Project(tmp_path), lab.path, Console(), Interrupts())
    with pytest.raises(ClusterError, match=r"run: make data DATASET=imagenet .*SOURCE=path"):
        readiness._put(context, lab, "imagenet")
