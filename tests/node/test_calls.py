"""One request in, one answer out, whatever is asked: in a process of its own, as it is called."""

import ast
import io
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from node_program import answered

from node import calls
from node.calls import CallError
from node.forms import Attachment
from node.runs.listing import drained_by
from node.verbs.probe import Needs, path_problems

PROGRAM = Path(calls.__file__).parent


def call(request: bytes) -> tuple[int, Any]:
    """Exit status and document; the program says nothing else."""
    command = [sys.executable, "-I", str(PROGRAM)]
    done = subprocess.run(command, input=request, capture_output=True, check=False, cwd="/")
    assert done.stderr == b""
    (line,) = done.stdout.splitlines()
    return done.returncode, json.loads(line)


def answer(request: bytes) -> str:
    return calls.answer(io.BytesIO(request))


def add_verb(monkeypatch: pytest.MonkeyPatch, name: str, function: Any, looks: bool = True) -> None:
    """Have the program know a verb of a test."""
    module = types.ModuleType(name)
    setattr(module, name, function)
    monkeypatch.setitem(calls.VERBS, name, looks)
    monkeypatch.setitem(sys.modules, f"node.verbs.{name}", module)


def status_of(root: Path) -> bytes:
    arguments = {"root": str(root), "host": "node1"}
    return json.dumps({"verb": "status", "arguments": arguments}).encode()


@pytest.mark.process
def test_a_machine_that_was_never_set_up_says_so_and_how_busy_it_is(tmp_path: Path) -> None:
    exit_status, told = call(status_of(tmp_path / "none"))
    assert exit_status == 0
    assert told["answer"]["trouble"] == {
        "code": "no_directory",
        "values": {"path": str(tmp_path / "none")},
    }
    assert told["answer"]["load"]["memory_bytes"] > 0
    assert told["answer"]["runs"] == []


def test_a_machine_without_an_engine_says_so_and_how_busy_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.engine.docker.SOCKET", str(tmp_path / "none"))
    told = json.loads(answer(status_of(tmp_path)))["answer"]
    assert told["trouble"]["code"] == "no_engine"
    assert str(tmp_path / "none") in told["trouble"]["values"]["message"]
    assert told["load"]["disk_bytes"] > 0


def test_a_node_that_is_out_of_use_says_why(tmp_path: Path) -> None:
    assert drained_by(str(tmp_path)) == ("", "")
    mark = tmp_path / ".drained"
    mark.write_text("the fan is broken\nmore\n")
    assert drained_by(str(tmp_path)) == (str(mark), "the fan is broken")
    (found,) = path_problems(Needs("", str(tmp_path), "", "", 0, 0, 0, 0, 0, 0))
    assert found.text == f"it is drained: the fan is broken: {found.remedy}"
    mark.write_text("")
    assert drained_by(str(tmp_path)) == (str(mark), "no reason is given")
    mark.unlink()
    mark.mkdir()
    assert drained_by(str(tmp_path)) == (str(mark), "its reason cannot be read (Is a directory)")


def test_a_folder_of_an_account_begins_at_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRAINYARD_NATIVE", ".trainyard/node1")
    runs = tmp_path / ".trainyard/node1/runs"
    (runs / "20260101T000000Z_vit").mkdir(parents=True)
    told = json.loads(answer(status_of(Path(".trainyard/node1/runs"))))["answer"]
    assert [run["state"] for run in told["runs"]] == ["ended"]
    assert told["trouble"] is None


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"", "no_request"),
        (b"\xff", "no_request"),
        (b"[]", "no_request"),
        (b"[" * 100_000, "no_request"),
        (b'{"verb": "status"}', "no_request"),
        (b'{"verb": "status", "arguments": {}, "more": 1}', "no_request"),
        (b'{"verb": "sh", "arguments": {}}', "unknown_verb"),
        (b'{"verb": ["status"], "arguments": {}}', "unknown_verb"),
        (b'{"verb": "status", "arguments": []}', "wrong_arguments"),
        (b'{"verb": "status", "arguments": {"root": "/x"}}', "wrong_arguments"),
        (b'{"verb": "status", "arguments": {"root": "/x", "host": [1]}}', "wrong_type"),
        (b" " * (calls.MOST_ASKED + 1), "request_too_large"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: bytes, code: str) -> None:
    with pytest.raises(CallError) as refused:
        answer(request_)
    assert (refused.value.code, refused.value.exit_status) == (code, 2)


@pytest.mark.process
def test_a_refusal_has_a_status_and_a_code() -> None:
    exit_status, told = call(b'{"verb": "sh", "arguments": {}}')
    assert exit_status == 2
    values = {"verb": "sh", "verbs": sorted(calls.VERBS)}
    assert told == {"error": {"code": "unknown_verb", "values": values}}


def test_a_verb_that_breaks_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: dict[str, Any] = {}
    add_verb(monkeypatch, "breaks", lambda: nothing["nothing"])
    with pytest.raises(CallError) as broken:
        answer(b'{"verb": "breaks", "arguments": {}}')
    assert (broken.value.exit_status, broken.value.values["kind"]) == (1, "KeyError")
    assert broken.value.values["place"].startswith(f"{__file__}:")


def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    add_verb(monkeypatch, "much", lambda: {"text": "x" * calls.MOST_ANSWERED})
    with pytest.raises(CallError, match="answer_too_large"):
        answer(b'{"verb": "much", "arguments": {}}')


def test_nothing_that_a_rank_nests_reaches_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_NATIVE", str(tmp_path / "native"))
    work = tmp_path / "runs/r/work"
    work.mkdir(parents=True)
    deep = '{"step": 1, "deep": ' + "[" * 300 + "]" * 300 + "}\n"
    (work / "metrics.jsonl").write_text(deep + "[" * 30_000 + "\n" + deep)
    (run,) = json.loads(answer(status_of(tmp_path / "runs")))["answer"]["runs"]
    assert run["metric"] == {"step": 1}


def test_a_verb_that_cannot_says_why(tmp_path: Path) -> None:
    with pytest.raises(CallError) as failed:
        answered("watch", root=str(tmp_path / "none"), host="node1")
    assert (failed.value.exit_status, failed.value.code) == (1, "no_directory")
    assert failed.value.values == {"path": str(tmp_path / "none")}


def test_a_dry_run_looks_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[bool] = []

    def note() -> dict[str, Any]:
        done.append(True)
        return {}

    for name, looks in (("looks", True), ("changes", False)):
        add_verb(monkeypatch, name, note, looks)
        dry = {"verb": name, "arguments": {}, "check": True}
        told = json.loads(answer(json.dumps(dry).encode()))
        assert told == {"answer": {} if looks else None, "changed": False}
    assert done == [True]
    assert json.loads(answer(b'{"verb": "changes", "arguments": {}}'))["changed"] is True


def test_what_is_sent_along_follows_the_line_of_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def size(name: str, attachment: Attachment) -> dict[str, Any]:
        return {name: len(attachment.read())}

    size.__annotations__.update(name="str", attachment="Attachment")
    add_verb(monkeypatch, "size", size)
    assert answered("size", b"a\nb\n", name="bytes") == {"bytes": 4}


@pytest.mark.parametrize("verb", sorted(calls.VERBS))
def test_every_verb_says_what_it_takes(verb: str) -> None:
    with pytest.raises(CallError) as refused:
        answered(verb, nonsense=1)
    assert (refused.value.code, refused.value.exit_status) == ("wrong_arguments", 2)
    assert refused.value.values["arguments"]
    assert "nonsense" not in refused.value.values["arguments"]


def test_nothing_asks_zip_for_what_python_3_9_does_not_have() -> None:
    """Ruff knows its syntax, and not the arguments of its functions."""
    asked = [
        f"{path.relative_to(PROGRAM)}:{node.lineno}"
        for path in sorted(PROGRAM.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "strict"
    ]
    assert asked == []
