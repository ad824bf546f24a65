"""verdict.json, as the judgement code makes it, against schemas/verdict.schema.json."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from test_node_verdict import HOSTS, THRESHOLDS, Containers, Measured, containers, good

from node.verdict import judgement
from node.verdict.cluster import Cluster
from node.verdict.containers import Containers as Jobs
from node.verdict.finding import GPU_PROBLEMS, NODE_PROBLEMS, OTHER, REMEDIES
from node.verdict.notes import Transport, notes

__all__ = ["containers", "good"]  # fixtures

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/verdict.schema.json").read_text())


def verdict(measured: Measured, containers: Containers) -> dict[str, Any]:
    """The document as it is read from the file."""
    cluster = Cluster(measured, THRESHOLDS)
    jobs = Jobs(**containers)
    findings = judgement.judge(cluster, None, jobs)
    known = notes(cluster, Transport("tcp", rdma=False))
    document = judgement.document(cluster, findings, known, jobs.ranks, began_at=1e9)
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def errors(document: dict[str, Any]) -> list[str]:
    """Where a document differs from the schema."""
    validator = Draft202012Validator(SCHEMA)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@pytest.fixture
def bad(good: Measured) -> Measured:
    """A node that is down, one that a run holds, and a pair that does not log in."""
    good["node4"] = {"probe": {"unreachable": True, "msg": "Connection timed out"}}
    good["node1"]["probe"]["run"] = "20261120T120000Z_vit"
    good["node1"]["ssh"]["logins"]["node2"]["trouble"] = "Permission denied (publickey)."
    for answer in good.values():
        answer.pop("pairs", None)
    return good


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_verdict_on_a_good_cluster(good: Measured, containers: Containers) -> None:
    for host in HOSTS:
        for match in good[host]["pairs"]["matches"].values():
            match.update({"from": 1e9, "until": 1e9 + 2})
    for rank in containers["ranks"]:
        for entry in rank["bandwidth"]:
            entry["algorithm_gigabits_per_second"] = entry["bus_gigabits_per_second"] / 1.5
    document = verdict(good, containers)
    assert errors(document) == []
    assert document["ok"] is True
    assert document["bandwidth_gigabits"][0] == [None, 9.0, 9.0, 9.0]
    assert document["latency_milliseconds"][0] == [None, 0.1, 0.1, 0.1]
    assert len(document["matches"]) == 6
    assert {entry["code"] for entry in document["checks"]} == {None}


def test_the_verdict_on_a_bad_cluster(bad: Measured, containers: Containers) -> None:
    containers.update(ranks=[], rank_logs={}, log="", troubles={"node1": "in use"})
    document = verdict(bad, containers)
    assert errors(document) == []
    assert document["ok"] is False
    faults = {fault["who"]: fault["causes"] for fault in document["faults"]}
    assert [cause["code"] for cause in faults["node1"]][:2] == ["held", "container_failed"]
    assert faults["node1 to node2"][0]["code"] == "ssh_key_refused"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.update(extra=1),
        lambda document: document["checks"][0].pop("threshold"),
        lambda document: document["checks"][0].update(pair=["node1", "node2"]),
        lambda document: document["checks"][0].pop("host"),
        lambda document: document["checks"][0].update(code="no_such_code"),
        lambda document: document["checks"][0].update(limit="at least"),
    ],
)
def test_what_is_no_verdict_is_refused(bad: Measured, containers: Containers, spoil: Any) -> None:
    containers.update(ranks=[], rank_logs={}, log="")
    document = verdict(bad, containers)
    assert errors(document) == []
    spoil(document)
    assert len(errors(document)) == 1


def test_the_schema_has_every_code() -> None:
    codes = [
        *REMEDIES,
        *NODE_PROBLEMS,
        OTHER,
        *GPU_PROBLEMS,
    ]
    assert SCHEMA["$defs"]["code"]["enum"] == codes


def test_no_object_of_the_schema_takes_further_keys() -> None:
    def objects(node: Any) -> list[Any]:
        if isinstance(node, list):
            return [found for entry in node for found in objects(entry)]
        if not isinstance(node, dict):
            return []
        inner = [found for entry in node.values() for found in objects(entry)]
        return [*([node] if "properties" in node else []), *inner]

    assert len(objects(SCHEMA)) == 7
    for node in objects(SCHEMA):
        assert node["additionalProperties"] is False
        assert set(node["required"]) <= set(node["properties"])
        for name, entry in node["properties"].items():
            assert "description" in entry or "$ref" in entry, name


def test_what_is_worth_knowing_is_part_of_the_verdict(
    good: Measured, containers: Containers
) -> None:
    port = {"name": "mlx5_0:1", "link": "InfiniBand", "state": "ACTIVE", "rate": "100 Gb/sec"}
    for host in HOSTS:
        good[host]["node"] |= {"interface": "ib0", "rdma": [{**port, "interface": "ib0"}]}
        good[host].pop("pairs")
    document = {**verdict(good, containers), "allreduce": []}
    assert errors(document) == []
    (note,) = document["notes"]
    assert (note["code"], note["hosts"]) == ("rdma_unused", list(HOSTS))
