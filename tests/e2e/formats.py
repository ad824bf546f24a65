"""What real runs wrote has the form that schemas/ describes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from machines import CHECKOUT

# Files of a run or a verification, relative to its directory, with the schema of each.
FILES = {
    "manifest.json": "manifest",
    "summary.json": "summary",
    "verdict.json": "verdict",
    "request.json": "request",
    "failures/launcher.json": "launcher_failures",
    "failures/rank-*.json": "rank_failure",
    "nodes/*/findings.json": "findings",
}


def errors(directory: Path) -> list[str]:
    """What is wrong with the files of a run, a line each."""
    return [
        f"{name}: {error}"
        for name, schema, document in _documents(directory)
        for error in _errors(schema, document)
    ]


def _documents(directory: Path) -> Iterator[tuple[str, str, Any]]:
    for pattern, schema in FILES.items():
        for path in directory.glob(pattern):
            yield str(path.relative_to(directory)), schema, json.loads(path.read_text())
    metrics = directory / "metrics.jsonl"
    for line in metrics.read_text().splitlines() if metrics.exists() else []:
        yield "metrics.jsonl", "metrics", json.loads(line)


def _errors(schema: str, document: Any) -> list[str]:
    text = (CHECKOUT / f"schemas/{schema}.schema.json").read_text()
    validator = Draft202012Validator(json.loads(text))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
