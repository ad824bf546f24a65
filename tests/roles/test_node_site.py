"""Several operators of one node: what all have alike is compared, and nobody is put out unasked."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from node.check import site as training_node_site
from node.failure import RefusedError, VerbError
from node.verbs.site import SetUp as Arguments
from node.verbs.site import site

SETTINGS = {"training_node_uid": 2000, "cluster_network": "10.0.0.0/24"}
NODES = ["node2", "node1"]
ADA = "ws1-1:/home/ada/trainyard"
BOB = "ws2-2:/home/bob/trainyard"
SetUp = Callable[..., dict[str, Any]]


@pytest.fixture
def set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetUp:
    """Asks the verb for an operator, on a node whose record is in a folder of the test."""
    monkeypatch.setattr(training_node_site, "PATH", str(tmp_path / "lib/site.json"))

    def run(operator: str, settings: Mapping[str, Any] = SETTINGS, **more: Any) -> dict[str, Any]:
        arguments = {"who": operator.split("/")[2], "settings": dict(settings), "nodes": NODES}
        try:
            return site(Arguments(operator, **{**arguments, **more}))
        except RefusedError as error:
            texts = "; ".join(entry["text"] for entry in error.values["problems"])
            return {"failed": True, "msg": texts, **error.values}
        except VerbError as error:
            return {"failed": True, "msg": error.values["message"]}

    return run


def record() -> Any:
    """What is on the node."""
    return json.loads(Path(training_node_site.PATH).read_text())


def codes(result: Mapping[str, Any]) -> list[str]:
    """The problems that a set-up was refused for."""
    return [problem["code"] for problem in result["problems"]]


def test_who_sets_up_first_writes_the_record_and_a_second_time_changes_nothing(
    set_up: SetUp,
) -> None:
    assert set_up(ADA)["changed"]
    assert record()["settings"] == SETTINGS
    assert record()["nodes"] == ["node1", "node2"]
    assert [entry["operator"] for entry in record()["operators"]] == [ADA]
    assert Path(training_node_site.PATH).stat().st_mode & 0o777 == 0o644
    assert Path(f"{training_node_site.PATH}.lock").stat().st_mode & 0o777 == 0o600
    assert not set_up(ADA)["changed"]


def test_a_dry_run_leaves_nothing(set_up: SetUp) -> None:
    assert set_up(ADA, dry=True)["changed"]
    assert not Path(training_node_site.PATH).parent.exists()


def test_operators_who_agree_are_all_in_the_record_whoever_comes_again(set_up: SetUp) -> None:
    set_up(ADA)
    assert set_up(BOB)["changed"]
    assert record()["written"]["operator"] == ADA
    for operator in (ADA, BOB, ADA):
        # The order of the nodes in an inventory means nothing.
        assert not set_up(operator, nodes=sorted(NODES))["changed"]
    assert [entry["operator"] for entry in record()["operators"]] == [ADA, BOB]


def test_another_value_is_refused_with_both_and_with_who_set_it_and_when(set_up: SetUp) -> None:
    set_up(ADA)
    refused = set_up(BOB, SETTINGS | {"training_node_uid": 3000})
    assert refused["failed"]
    assert codes(refused) == ["site_differs"]
    when = record()["written"]["when"]
    said = f"training_node_uid is 2000, as set by {ADA} (ada, {when}), and here it is 3000"
    assert said in refused["msg"]
    assert "training_node_take_over" in refused["msg"]
    assert record()["settings"] == SETTINGS
    assert [entry["operator"] for entry in record()["operators"]] == [ADA]


def test_a_setting_that_is_empty_is_told_so(set_up: SetUp) -> None:
    set_up(ADA, SETTINGS | {"package_sources_no_proxy": ""})
    said = set_up(BOB, SETTINGS | {"package_sources_no_proxy": "example.org"})["msg"]
    assert "package_sources_no_proxy is empty, as set by" in said


def test_who_set_it_may_not_change_it_either_while_others_rely_on_it(set_up: SetUp) -> None:
    set_up(ADA)
    other = SETTINGS | {"training_node_uid": 3000}
    assert set_up(ADA, other)["changed"]
    set_up(BOB, other)
    assert codes(set_up(ADA)) == ["site_differs"]
    assert record()["settings"] == other


def test_whoever_takes_over_is_alone_until_the_others_agree(set_up: SetUp) -> None:
    set_up(ADA)
    other = SETTINGS | {"training_node_uid": 3000}
    assert set_up(BOB, other, take_over=True)["changed"]
    assert record()["written"]["operator"] == BOB
    assert [entry["operator"] for entry in record()["operators"]] == [BOB]
    assert codes(set_up(ADA)) == ["site_differs"]
    assert set_up(ADA, other)["changed"]


def test_to_take_over_without_a_difference_puts_nobody_out(set_up: SetUp) -> None:
    set_up(ADA)
    set_up(BOB, take_over=True)
    assert [entry["operator"] for entry in record()["operators"]] == [ADA, BOB]


def test_nodes_that_others_have_are_not_left_out_and_more_may_come(set_up: SetUp) -> None:
    set_up(ADA)
    assert codes(set_up(BOB, nodes=["node1"])) == ["site_nodes_missing"]
    assert set_up(BOB, nodes=[*NODES, "node3"])["changed"]
    assert record()["written"]["operator"] == BOB
    # One alone may take nodes away as before.
    assert set_up(BOB, nodes=["node1"], take_over=True)["changed"]
    assert not set_up(BOB, nodes=["node1"])["changed"]


def test_a_setting_that_one_side_does_not_know_is_no_difference(set_up: SetUp) -> None:
    set_up(ADA)
    assert set_up(BOB, {**SETTINGS, "new": 1})["changed"]
    assert not set_up(ADA)["changed"]
    assert record()["settings"] == {**SETTINGS, "new": 1}


def test_a_node_is_not_taken_away_from_others(set_up: SetUp) -> None:
    set_up(ADA)
    set_up(BOB)
    refused = set_up(BOB, state="absent")
    assert refused["failed"]
    assert ADA in refused["msg"]
    assert set_up(BOB, state="absent", take_over=True)["changed"]
    assert not Path(training_node_site.PATH).exists()
    assert not set_up(BOB, state="absent")["changed"]


def test_one_who_is_alone_may_take_it_away(set_up: SetUp) -> None:
    set_up(ADA)
    assert set_up(ADA, state="absent")["changed"]
    # Nor is there a lock, nor a directory for both.
    assert not Path(training_node_site.PATH).parent.exists()
    assert not set_up(ADA, state="absent")["changed"]
    assert not Path(training_node_site.PATH).parent.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"settings": 1}', "\0"])
def test_a_record_that_is_none_is_named(set_up: SetUp, text: str) -> None:
    set_up(ADA)
    Path(training_node_site.PATH).write_text(text)
    refused = set_up(ADA)
    assert refused["failed"]
    assert training_node_site.PATH in refused["msg"]
    assert Path(training_node_site.PATH).read_text() == text


def test_a_launch_is_refused_where_others_agreed_on_other_values(set_up: SetUp) -> None:
    other = SETTINGS | {"cluster_network": "10.9.0.0/24"}

    def launch(operator: str) -> list[str]:
        agreed = training_node_site.read_site()
        found = training_node_site.use_problems(agreed, other, operator)
        return [problem.code for problem in found]

    assert launch(BOB) == []  # nobody has set the node up, which other checks say
    set_up(ADA)
    assert launch(BOB) == ["site_differs"]
    # An inventory of the same checkout may differ while nobody else uses the node.
    assert launch(ADA) == []
    set_up(BOB)
    assert launch(ADA) == ["site_differs"]
    set_up(BOB, other, take_over=True)
    assert launch(ADA) == launch(BOB) == []
