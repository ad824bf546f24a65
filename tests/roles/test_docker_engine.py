"""Settings merged into an engine's daemon.json, and taken out of it again."""

import json
from typing import Any

import pytest
from ansible.module_utils import docker_engine_merge

OURS = {"live-restore": True, "log-opts": {"max-size": "50m", "max-file": "3"}}

FILES: list[dict[str, Any]] = [
    {},
    {"debug": True},
    {"live-restore": False, "log-opts": {"labels": "a"}},
    {"log-opts": {}},
    {"log-opts": {"max-size": "1m", "labels": "a"}, "runtimes": {"nvidia": {"path": "x"}}},
    {"live-restore": True, "log-opts": {"max-size": "50m"}},
    {"log-opts": None},
]


@pytest.mark.parametrize("before", FILES, ids=json.dumps)
def test_what_was_merged_comes_out_again(before: dict[str, Any]) -> None:
    merged = docker_engine_merge.merged(before, OURS)
    assert merged["live-restore"] is True
    assert merged["log-opts"]["max-size"] == "50m"
    assert docker_engine_merge.merged(merged, OURS) == merged
    assert docker_engine_merge.without(merged, OURS, before) == before


def test_keys_of_others_stay() -> None:
    merged = docker_engine_merge.merged({"log-opts": {"labels": "a"}}, OURS)
    assert merged["log-opts"] == {"labels": "a", "max-size": "50m", "max-file": "3"}


def test_what_somebody_changed_since_is_theirs() -> None:
    now = docker_engine_merge.merged({}, OURS)
    now["runtimes"] = {"nvidia": {}}
    now["log-opts"]["max-size"] = "9m"
    del now["live-restore"]
    left = docker_engine_merge.without(now, OURS, {"live-restore": True})
    assert left == {"log-opts": {"max-size": "9m"}, "runtimes": {"nvidia": {}}}


@pytest.mark.parametrize("text", [None, "", " \n", "{}"])
def test_no_settings(text: str | None) -> None:
    assert docker_engine_merge.parsed(text) == {}


@pytest.mark.parametrize("text", ["{", "[]", '"a"'])
def test_refuses_what_holds_no_settings(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        docker_engine_merge.parsed(text)
