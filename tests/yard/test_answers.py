"""What a node says is of the form that is relied on, or it says nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from yard.operations.watching import _decoded
from yard.plays import contract
from yard.plays.answers import FORMS, is_answer
from yard.plays.events import MESSAGE_LENGTH, FailureRecord, parse_event
from yard.runs.cluster_state import UNREACHABLE, Answers

LOAD = {
    "cpu_percent": 1.5,
    "cores": 2,
    "memory_used_bytes": 1,
    "memory_bytes": 2,
    "disk_free_bytes": None,
    "disk_bytes": None,
    "gpus": [
        {
            "index": 0,
            "name": "a",
            "utilisation_percent": None,
            "memory_used_bytes": None,
            "memory_bytes": None,
        }
    ],
}
RUN = {
    "run": "20260101T000000Z_vit",
    "state": "running",
    "metric": None,
    "earlier": None,
    "said": "",
    "owner": None,
    "since": 1.0,
    "home": "/a",
    "nodes": ["node1"],
}
STATUS: dict[str, Any] = {"time": 1.0, "runs": [RUN], "load": LOAD, "apt": None, "trouble": None}
TRUE: dict[str, dict[str, Any]] = {
    contract.READ_STATUS: STATUS,
    contract.POLL_RUN: {
        "state": "running",
        "exit_status": None,
        "metrics": [{"step": 1}],
        "checkpoints": 0,
        "silences": [],
        "output": {"offset": 0, "text": "a"},
        "log_offset": 1,
    },
    contract.READ_LOGS: {"logs": {"rank-0.log": {"offset": 0, "end": 1, "text": "a"}}},
    contract.OFFER_CHECKPOINTS: {"names": ["last.pt"]},
    contract.END_RUN: {"launched": True, "checkpoints": ["last.pt"]},
    contract.CLEAN_UP: {
        "found": [{"kept": None, "kind": "image", "name": "a/b:1", "bytes": 1}],
        "trouble": "",
    },
}
LIES: list[tuple[str, dict[str, Any]]] = [
    (contract.READ_STATUS, {"trouble": "no_engine"}),
    (contract.READ_STATUS, {"trouble": {"code": "x", "values": {"a": [1]}}}),
    (contract.READ_STATUS, {"apt": "apt-get"}),
    (contract.READ_STATUS, {"apt": {"command": "apt-get", "pid": -1, "since": 1.0}}),
    (contract.READ_STATUS, {"time": "now"}),
    (contract.READ_STATUS, {"time": float("nan")}),
    (contract.READ_STATUS, {"time": 10**400}),
    (contract.READ_STATUS, {"time": True}),
    (contract.READ_STATUS, {"runs": {"run": 1}}),
    (contract.READ_STATUS, {"runs": [{**RUN, "run": "../../etc"}]}),
    (contract.READ_STATUS, {"runs": [{**RUN, "run": ".."}]}),
    (contract.READ_STATUS, {"runs": [{**RUN, "run": ["x"]}]}),
    (contract.READ_STATUS, {"runs": [{**RUN, "state": "\x1b[2J"}]}),
    (contract.READ_STATUS, {"runs": [{**RUN, "since": "x"}]}),
    (contract.READ_STATUS, {"runs": [{"run": "a"}]}),
    (contract.READ_STATUS, {"load": []}),
    (contract.READ_STATUS, {"load": {**LOAD, "more": 1}}),
    (contract.READ_STATUS, {"load": {**LOAD, "gpus": [1]}}),
    (contract.READ_STATUS, {"load": {**LOAD, "cores": -1}}),
    (contract.POLL_RUN, {"metrics": 7}),
    (contract.POLL_RUN, {"checkpoints": "soon"}),
    (contract.POLL_RUN, {"checkpoints": 10**400}),
    (contract.POLL_RUN, {"silences": {}}),
    (contract.POLL_RUN, {"exit_status": "0"}),
    (contract.POLL_RUN, {"output": "a"}),
    (contract.POLL_RUN, {"output": {"offset": -1, "text": "a"}}),
    (contract.POLL_RUN, {"output": {"offset": 0, "text": ["a"]}}),
    (contract.POLL_RUN, {"log_offset": "1"}),
    (contract.READ_LOGS, {"logs": []}),
    (contract.READ_LOGS, {"logs": {"rank-0.log": {"offset": "x", "end": 1, "text": "a"}}}),
    (contract.READ_LOGS, {"logs": {"rank-0.log": {"offset": -5, "end": 1, "text": "a"}}}),
    (contract.READ_LOGS, {"logs": {"rank-0.log": {"offset": 0, "text": "a"}}}),
    (contract.READ_LOGS, {"logs": {"rank-0.log": "a"}}),
    (contract.OFFER_CHECKPOINTS, {"names": "last.pt"}),
    (contract.OFFER_CHECKPOINTS, {"names": [{}]}),
    (contract.END_RUN, {"launched": "yes"}),
    (contract.END_RUN, {"checkpoints": None}),
    (contract.CLEAN_UP, {"found": [{"name": "a"}]}),
    (contract.CLEAN_UP, {"trouble": {}}),
]


def event(module: str, result: Any, kind: str = "runner_on_ok") -> dict[str, Any]:
    """An event of the node program as ansible-runner has it."""
    answered = {"verb": module, "answer": result, "changed": False}
    data = {"host": "node2", "task_action": contract.CALL_NODE, "res": answered}
    return {"event": kind, "received_at": 1.0, "event_data": data}


@pytest.mark.parametrize("verb", TRUE)
def test_what_a_node_answers_is_taken(verb: str) -> None:
    taken = parse_event(event(verb, TRUE[verb]))
    assert (taken.kind, taken.module, taken.result) == ("runner_on_ok", verb, TRUE[verb])


@pytest.mark.parametrize(
    "result",
    [{}, {"verb": "setup"}, {"verb": ["status"], "answer": STATUS}, {"answer": STATUS}]
    + [{"verb": verb, "answer": [TRUE[verb]]} for verb in TRUE],
)
def test_what_tells_no_verb_or_no_answer_is_none(result: dict[str, Any]) -> None:
    raw = event("", {})
    raw["event_data"] |= {"task_action": contract.CALL_NODE, "res": result}
    if result.get("verb") == "setup":
        assert parse_event(raw).result == result, "nobody reads what it answers"
    else:
        assert parse_event(raw).kind == "runner_on_unreachable"


def test_a_task_that_failed_tells_its_verb_and_why() -> None:
    raw = event("", {}, "runner_on_failed")
    failed = {"verb": "poll", "failed": True, "msg": "why"}
    raw["event_data"] |= {"task_action": f"trainyard.cluster.{contract.CALL_NODE}", "res": failed}
    taken = parse_event(raw)
    assert (taken.kind, taken.module, taken.result) == ("runner_on_failed", "poll", failed)


@pytest.mark.parametrize("module", TRUE)
def test_what_lacks_a_part_is_no_answer(module: str) -> None:
    for name in TRUE[module]:
        rest = {key: value for key, value in TRUE[module].items() if key != name}
        assert not is_answer(module, rest), name
    assert not is_answer(module, {})


def test_each_form_has_an_example() -> None:
    assert TRUE.keys() | {contract.CALL_NODE} == FORMS.keys()


@pytest.mark.parametrize(("module", "lie"), LIES)
def test_a_node_that_answers_something_else_cannot_be_reached(
    module: str, lie: dict[str, Any]
) -> None:
    for kind in ("runner_on_ok", "runner_retry"):
        taken = parse_event(event(module, {**TRUE[module], **lie}, kind))
        assert taken.kind == "runner_on_unreachable"
        assert taken.result == {"msg": f"node2 gave an answer of another form than {module} has"}


def test_an_answer_of_other_modules_is_theirs() -> None:
    assert parse_event(event("ansible.builtin.command", {"stdout": 1})).kind == "runner_on_ok"


@pytest.mark.parametrize(
    "problems",
    [5, "x", {"code": 1}, [5], [{"code": 1}], [{"code": [], "text": {}, "host": 7}], None],
)
def test_a_failure_with_problems_that_are_none_is_a_failure(problems: Any) -> None:
    failures = FailureRecord()
    raw = event("ping", {"msg": "no", "results": 7, "problems": problems}, "runner_on_failed")
    failures.take(parse_event(raw), raw["event_data"])
    assert [failure.message for failure in failures.fatal_failures()] == ["no"]
    for failure in failures.fatal_failures():
        for problem in failure.problems:
            assert isinstance(problem.code, str)
            assert isinstance(problem.host, str | None)


def test_a_message_without_end_is_cut() -> None:
    failures = FailureRecord()
    result = {"msg": "x" * 10**6, "module_stdout": "y" * 10**6}
    raw = event("ping", result, "runner_on_failed")
    failures.take(parse_event(raw), raw["event_data"])
    assert len(failures.fatal_failures()[0].message) < 3 * MESSAGE_LENGTH


@pytest.mark.parametrize("found", ["", "[]", "{}", "\x1b", json.dumps(STATUS)])
def test_what_a_shell_reads_of_a_node_is_looked_at_too(found: str, tmp_path: Path) -> None:
    assert _decoded(found) is None
    answers = Answers(tmp_path)
    answers.take("node2", _decoded(found))
    assert answers.state(1.0, ()).nodes[0].state == UNREACHABLE
    # It has no `apt`: what is not looked at there is not taken in.
    watched = {name: value for name, value in STATUS.items() if name != "apt"}
    logs = {"logs": {"r": {"rank-0.log": "a"}}}
    assert _decoded(json.dumps({**watched, **logs})) is not None
    assert _decoded(json.dumps({**STATUS, **logs})) is None
