"""Which nodes a run gets, and what is said where it cannot start."""

from pathlib import Path
from typing import Any

import pytest
from role_files import action_plugin

plugin = action_plugin("training_run", "training_run_choose")

IMAGE = "trainyard/trainer:1f2e3d4c5b6a"
FIT = {"problems": [], "image_id": "sha256:1"}
HELD = {
    "code": "held",
    "values": {"run": "r", "owner": "ada", "since": "2026-11-22 18:00 UTC"},
    "text": "it is held by run r of ada since 2026-11-22 18:00 UTC: wait for it",
}
MISSING = {
    "code": "no_directory",
    "values": {"path": "/srv/trainyard/runs"},
    "text": "there is no /srv/trainyard/runs: run make setup",
}
UNFIT = {"problems": [HELD, MISSING], "image_id": "sha256:1"}
DOWN = {"unreachable": True, "msg": "Task failed: Connection timed out\n"}
BROKEN = {"failed": True, "msg": "Timed out after 60 s"}


def choose(
    count: int, minimum: int, failed: dict[str, int] | None = None, **probes: dict[str, Any]
) -> Any:
    slots = dict.fromkeys(probes, 1) | {host: 0 for host in probes if host.startswith("bare")}
    return plugin.choose(probes, count, minimum, IMAGE, failed or {}, slots)


def test_the_first_fit_nodes_are_chosen_in_the_order_of_the_inventory() -> None:
    choice = choose(2, 2, b=FIT, c=UNFIT, a=FIT, d=FIT)
    assert choice.nodes == ("b", "a")
    assert choice.problems == ()


def test_a_node_that_failed_gives_its_place_to_another_one() -> None:
    choice = choose(2, 2, {"a": 1}, a=FIT, b=FIT, c=FIT)
    assert choice.nodes == ("b", "c")
    assert choice.left_out == ("a: it was at fault in an attempt before",)


def test_it_is_said_why_others_are_left_out_where_enough_are_fit() -> None:
    choice = choose(1, 1, a=DOWN, b=FIT, c=UNFIT, d=FIT)
    assert choice.nodes == ("b",)
    assert choice.left_out == (
        "a: unreachable: Connection timed out",
        f"c: {HELD['text']}; {MISSING['text']}",
    )


def test_a_node_that_failed_is_taken_where_no_other_one_is_fit() -> None:
    choice = choose(3, 1, {"a": 1}, a=FIT, b=FIT, c=UNFIT)
    assert choice.nodes == ("a", "b")


def test_a_node_that_failed_twice_is_out() -> None:
    choice = choose(2, 1, {"a": 2, "gone": 2}, a=FIT, b=FIT)
    assert choice.nodes == ("b",)
    assert choice.left_out == ("a: it was at fault in 2 attempts of this run",)
    choice = choose(2, 2, {"a": 2}, a=FIT, b=FIT)
    assert choice.message.splitlines() == [
        "Too few nodes: 2 needed, 1 fit. Nothing was started.",
        "a: it was at fault in 2 attempts of this run",
        "b: fit, image sha256:1",
    ]
    assert choice.problems[1].values == {"failures": 2}


def test_fewer_than_wanted_are_enough_where_the_request_says_so() -> None:
    assert choose(3, 1, a=FIT, b=DOWN).nodes == ("a",)


def test_too_few_nodes_are_refused_with_what_each_node_is() -> None:
    choice = choose(3, 3, a=FIT, b=UNFIT, c=DOWN, d=BROKEN, e={})
    assert choice.message.splitlines() == [
        "Too few nodes: 3 needed, 1 fit. Nothing was started.",
        "a: fit, image sha256:1",
        f"b: {HELD['text']}; {MISSING['text']}",
        "c: unreachable: Connection timed out",
        "d: Timed out after 60 s",
        "e: could not be looked at",
    ]
    assert [(entry.host, entry.code) for entry in choice.problems] == [
        (None, "too_few_nodes"),
        ("b", "held"),
        ("b", "no_directory"),
        ("c", "unreachable"),
        ("d", "no_answer"),
        ("e", "no_answer"),
    ]
    assert choice.problems[0].values == {"minimum": 3, "fit": 1}
    assert choice.problems[1].values == HELD["values"]
    assert choice.problems[3].values == {"message": "Connection timed out"}


def test_nodes_with_different_images_are_refused() -> None:
    other = {"problems": [], "image_id": "sha256:2"}
    choice = choose(2, 2, a=FIT, b=other)
    assert choice.message.splitlines() == [
        f"The nodes hold different images under the name {IMAGE}. Nothing was started.",
        "a: fit, image sha256:1",
        "b: fit, image sha256:2",
    ]
    assert [entry.code for entry in choice.problems] == ["images_differ"]


def test_the_image_of_a_node_that_is_not_chosen_does_not_matter() -> None:
    other = {"problems": [], "image_id": "sha256:2"}
    assert choose(1, 1, a=FIT, b=other).nodes == ("a",)


def test_a_transport_without_a_profile_is_refused() -> None:
    assert plugin.check_transport("tcp", ["tcp", "ucx"]) is None
    refused = plugin.check_transport("infiniband", ["tcp", "ucx"])
    assert refused.code == "unknown_transport"
    assert refused.text == "Transport infiniband is not known; there are tcp, ucx."


RUN = "20261120T112000Z_vit_cifar10_b64_e5_n2_p1"


@pytest.mark.parametrize("manifest", [None, f'{{"run_id": "{RUN}"}}'])
def test_a_run_may_find_its_own_files_when_it_is_launched_again(
    manifest: str | None, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    assert plugin.check_folder(tmp_path, RUN, is_name_made=False) is None
    assert plugin.check_folder(tmp_path / "none", RUN, is_name_made=True) is None


@pytest.mark.parametrize(
    ("file", "content", "is_name_made"),
    [
        ("manifest.json", '{"run_id": "another"}', False),
        ("manifest.json", "{", False),
        # The folder of all runs
        ("another/manifest.json", '{"run_id": "another"}', False),
        ("exit_status", "0", True),
    ],
)
def test_files_of_another_run_are_refused(
    file: str, content: str, is_name_made: bool, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    refused = plugin.check_folder(tmp_path, RUN, is_name_made)
    assert refused.code == "foreign_folder"
    assert refused.text.startswith(f"{tmp_path} holds files of another run")


@pytest.mark.parametrize("code", sorted(plugin.SENTENCES))
def test_every_sentence_is_filled_in_with_the_values_of_its_problem(
    code: str, tmp_path: Path
) -> None:
    (tmp_path / "exit_status").touch()
    choices = [
        *choose(2, 2, a=DOWN, b=BROKEN).problems,
        *choose(2, 2, {"a": 2}, a=FIT, b=FIT).problems,
        *choose(2, 2, a=FIT, b={"problems": [], "image_id": ""}).problems,
        *choose(1, 1, a={"problems": [], "address": "a\nb"}).problems,
        *choose(1, 1, bare=FIT).problems,
        plugin.check_transport("x", ["tcp"]),
        plugin.check_folder(tmp_path, RUN, is_name_made=True),
    ]
    assert {entry.text for entry in choices if entry.code == code}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("problems", "none"),
        ("problems", [5]),
        ("problems", [{"code": "held"}]),
        ("problems", [{**HELD, "more": 1}]),
        ("problems", [{**HELD, "values": "x"}]),
        ("image_id", {"a": 1}),
        ("image_id", "sha256:1\n"),
        ("image_id", "../../etc"),
        # Further lines would be settings of ssh, and names of hosts, in the containers of others.
        ("address", "10.0.0.1\n    ProxyCommand touch /tmp/x"),
        ("address", "10.0.0.1,0.0.0.0/0"),
        ("address", '10.0.0.1" ssh-ed25519 A'),
        ("address", ""),
        ("address", ["10.0.0.1"]),
        ("cores", "many"),
        ("cores", -1),
        ("cores", 10**30),
        ("cores", True),
        ("gpus", 1.5),
        ("gpus", 1000),
        ("gpu_devices", {}),
        ("hardware", "x"),
        ("bf16", "yes"),
    ],
)
def test_a_node_that_answers_something_else_is_not_fit(name: str, value: Any) -> None:
    told = {
        **FIT,
        "address": "10.0.0.1",
        "cores": 2,
        "gpus": 0,
        "gpu_devices": [],
        "hardware": {},
        "bf16": False,
    }
    assert choose(1, 1, a=told).nodes == ("a",)
    choice = choose(1, 1, a={**told, name: value})
    assert choice.nodes == ()
    assert [(entry.code, entry.values) for entry in choice.problems[1:]] == [
        ("strange_answer", {"name": name})
    ]
    assert choose(1, 1, a={**told, name: value}, b=told).nodes == ("b",)


@pytest.mark.parametrize("address", ["10.0.0.11", "fd00::1", "fe80::1%eth0", "node-1.example.org"])
def test_addresses_that_there_are(address: str) -> None:
    assert choose(1, 1, a={**FIT, "address": address}).nodes == ("a",)


def test_a_node_that_carries_no_ranks_has_no_part() -> None:
    choice = choose(2, 1, bare1=FIT, a=FIT, bare2=DOWN)
    assert (choice.nodes, choice.problems) == (("a",), ())
    refused = choose(2, 2, bare1=FIT, a=FIT, bare2=DOWN)
    assert [(entry.host, entry.code) for entry in refused.problems] == [
        (None, "too_few_nodes"),
        ("bare1", "no_slots"),
        ("bare2", "unreachable"),
    ]
    assert "training_node_slots does not say how many ranks it carries" in refused.message
