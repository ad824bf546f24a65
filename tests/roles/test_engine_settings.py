"""Settings merged into an engine's daemon.json, and taken out of it again."""

import json
from typing import Any

import pytest
from role_modules import engine_settings

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
    merged = engine_settings.merged(before, OURS)
    assert merged["live-restore"] is True
    assert merged["log-opts"]["max-size"] == "50m"
    assert engine_settings.merged(merged, OURS) == merged
    assert engine_settings.without(merged, OURS, before) == before


def test_keys_of_others_stay() -> None:
    merged = engine_settings.merged({"log-opts": {"labels": "a"}}, OURS)
    assert merged["log-opts"] == {"labels": "a", "max-size": "50m", "max-file": "3"}


def test_what_somebody_changed_since_is_theirs() -> None:
    now = engine_settings.merged({}, OURS)
    now["runtimes"] = {"nvidia": {}}
    now["log-opts"]["max-size"] = "9m"
    del now["live-restore"]
    left = engine_settings.without(now, OURS, {"live-restore": True})
    assert left == {"log-opts": {"max-size": "9m"}, "runtimes": {"nvidia": {}}}


@pytest.mark.parametrize("text", [None, "", " \n", "{}"])
def test_no_settings(text: str | None) -> None:
    assert engine_settings.parsed(text) == {}


@pytest.mark.parametrize("text", ["{", "[]", '"a"'])
def test_refuses_what_holds_no_settings(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        engine_settings.parsed(text)
