"""What `yard` writes has the form that schemas/ describes."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extend import lines_of, time_the_steps
from jsonschema import Draft202012Validator
from stand_in_nodes import YardHere
from yard_command import DATA, REPOSITORY

SCHEMAS = sorted((REPOSITORY / "schemas").glob("*.schema.json"))
CASES = sorted(path.name for path in (DATA / "runs").iterdir())


def errors(schema: str, document: Any) -> list[str]:
    """What is wrong with a document, a line each."""
    text = (REPOSITORY / "schemas" / f"{schema}.schema.json").read_text()
    validator = Draft202012Validator(json.loads(text))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_the_schema_is_one(path: Path) -> None:
    Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize("case", CASES)
def test_recorded_runs(recorded: Callable[[str], Path], case: str) -> None:
    run = recorded(case)
    assert errors("manifest", json.loads((run / "manifest.json").read_text())) == []
    if (run / "metrics.jsonl").exists():
        # The recorded trainer did not time its steps yet.
        time_the_steps(run)
        assert [error for line in lines_of(run) for error in errors("metrics", line)] == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, ready_checkout: Path) -> list[Path]:
    """A run that went well, and one that failed."""
    root = tmp_path_factory.mktemp("schemas") / "checkout"
    shutil.copytree(ready_checkout, root, symlinks=True)
    for options in ((), ("--set", "fate=killed")):
        YardHere(root)("train", "--model", "vit", "--nodes", "2", *options)
    return sorted(root.glob("runs/2*"))


def test_what_a_run_writes(runs: list[Path]) -> None:
    documents = [
        (name, json.loads((run / f"{name}.json").read_text()))
        for run in runs
        for name in ("manifest", "summary")
    ]
    assert [error for name, document in documents for error in errors(name, document)] == []
    ends = [document["status"] for name, document in documents if name == "summary"]
    assert ends == ["succeeded", "failed"]


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (("verify", "--checks", "nodes,ssh"), "runs/verify-*"),
        (("bench", "--models", "vit", "--rounds", "1", "--seconds", "1"), "bench/bench-*"),
    ],
    ids=["verify", "bench"],
)
def test_what_a_measurement_was_asked_for(
    ready: YardHere, command: tuple[str, ...], folder: str
) -> None:
    ready.during = {"Take the nodes": [lambda: os.kill(os.getpid(), signal.SIGINT)]}
    assert ready(*command).returncode == 130
    (path,) = ready.root.glob(f"{folder}/request.json")
    request = json.loads(path.read_text())
    assert errors("request", request) == []
    assert request["runtime"] == "container"


@pytest.mark.parametrize(
    ("schema", "change"),
    [
        ("summary", {"status": "fine"}),
        ("summary", {"test_accuracy": 38.1}),
        ("summary", {"more": 1}),
        ("manifest", {"started_at": "yesterday"}),
        ("manifest", {"hosts": "node1"}),
        ("request", {"checks": []}),
        ("request", {"runtime": "podman"}),
    ],
)
def test_what_is_wrong_is_refused(runs: list[Path], schema: str, change: dict[str, Any]) -> None:
    documents = {
        "request": {"inventory": "/inventory", "checks": ["ssh"]},
        "manifest": json.loads((DATA / "runs/succeeded/manifest.json").read_text()),
        "summary": json.loads((runs[0] / "summary.json").read_text()),
    }
    assert errors(schema, documents[schema]) == []
    assert errors(schema, {**documents[schema], **change})
