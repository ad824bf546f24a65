"""What `make status` says of nodes and runs, whichever line of its metrics is the newest."""

import io
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from yard_command import DATA, RUN_ID, Yard, made

from yard.core.project import Project
from yard.operations import state
from yard.operations.state import left_runs
from yard.runs.cluster_state import Answers, ClusterState, known_line
from yard.runs.folder import followed
from yard.runs.metrics import Metric, read_metrics
from yard.screen.cluster_tables import run_line, show_cluster
from yard.screen.top_view import TopView
from yard.screen.training_view import progress_of

RECORDED = read_metrics(DATA / "runs/succeeded/metrics.jsonl")
STEPS = [metric for metric in RECORDED if metric.event == "step"]
GPU = {
    **{"index": 0, "name": "H100", "utilisation_percent": 87},
    **{"memory_used_bytes": 30 * 10**9, "memory_bytes": 80 * 10**9},
}
LOAD = {
    **{"cpu_percent": 61.5, "cores": 8, "memory_used_bytes": 4 * 10**9, "memory_bytes": 16 * 10**9},
    **{"disk_free_bytes": 71 * 10**9, "disk_bytes": 270 * 10**9, "gpus": [GPU]},
}
NOW = 1_795_174_000.0


def entry(run: str = RUN_ID, **changes: Any) -> dict[str, Any]:
    """A run as a node tells of it."""
    return {
        **{
            "run": run,
            "state": "running",
            "metric": None,
            "earlier": None,
            "said": "",
            "nodes": ["node1"],
        },
        **{"owner": None, "since": None, "home": None},
        **changes,
    }


def decoded(metric: Metric) -> Any:
    return json.loads(metric.to_line())


def cluster(tmp_path: Path, unfinished: tuple[str, ...] = (), **runs: Any) -> ClusterState:
    """What nodes come to that have these runs; None stands for one that does not answer."""
    answers = Answers(tmp_path)
    for host, entries in runs.items():
        answer = None if entries is None else {"runs": entries, "load": LOAD, "time": NOW}
        answers.take(host, answer)
    return answers.state(NOW, unfinished)


def shown(state: ClusterState, inventory: str = "inventory/local") -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    project = Project(DATA / "checkout")
    show_cluster(console, project, project.root / inventory, state)
    return console.export_text()


@pytest.mark.parametrize("metric", RECORDED, ids=lambda metric: f"{metric.event} {metric.step}")
def test_every_line_tells_step_and_epoch(metric: Metric) -> None:
    position = f"step {metric.step}/{metric.steps} · epoch {metric.epoch}/{metric.epochs}"
    assert progress_of(known_line(decoded(metric))).startswith(position)


def test_an_evaluation_tells_its_accuracy() -> None:
    evaluated = next(metric for metric in RECORDED if metric.event == "epoch")
    assert evaluated.test_accuracy is not None
    assert f"test accuracy {100 * evaluated.test_accuracy:.1f} %" in progress_of(evaluated)
    validated = replace(evaluated, test_accuracy=None, validation_accuracy=0.5)
    assert "validation accuracy 50.0 %" in progress_of(validated)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"step": 40, "steps": 469, "loss": 2.10432}, "step 40/469 · loss 2.104"),
        ({"epoch": 1, "acc": 0.9, "event": "epoch"}, "epoch 1 · acc 0.900"),
        ({"word": "only"}, ""),
        ([1], ""),
        (None, ""),
    ],
)
def test_another_program_s_line_tells_what_is_in_it(line: Any, text: str) -> None:
    assert progress_of(known_line(line)) == text


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (" 10%|#  | 1/9 [00:05<00:40, 1it/s]\r 40%|##  | 40/100 [00:20<00:30, 2it/s, loss=0.5]",
         "step 40/100 · loss 0.500"),
        ("Epoch 2: 50%|#  | 5/10 [00:05<00:05, 1.0it/s]\nsaved\n", "step 5/10 · epoch 2"),
        ("0%|\x1b[31m| 1/0 [00", ""),
        ("no bar\n", ""),
        # More than a node sends is not searched.
        ("40%|##  | 4/10 [00:20<00:30, 2it/s]\n" + "x" * 2000, ""),
    ],
)  # fmt: skip
def test_a_program_that_writes_no_metrics_has_the_progress_of_its_bar(
    said: str, text: str, tmp_path: Path
) -> None:
    (run,) = cluster(tmp_path, node1=[entry()], node2=[entry(said=said)]).runs
    assert progress_of(run.newest) == text
    line = {"step": 1, "steps": 2}
    (run,) = cluster(tmp_path, node1=[entry(metric=line)], node2=[entry(said=said)]).runs
    assert progress_of(run.newest) == "step 1/2"


def test_progress_is_that_of_the_run_and_stands_once(tmp_path: Path) -> None:
    """Only the first node has metrics; the second one runs all the same."""
    lines = {"metric": decoded(STEPS[11]), "earlier": decoded(RECORDED[0])}
    state = cluster(tmp_path, node1=[entry(**lines)], node2=[entry()], node3=[], node4=None)
    assert [(node.host, node.state) for node in state.nodes] == [
        ("node1", "busy"),
        ("node2", "busy"),
        ("node3", "free"),
        ("node4", "unreachable"),
    ]
    assert [node.runs[0].state for node in state.nodes[:2]] == ["running", "running"]
    (run,) = state.runs
    assert (run.state, run.hosts) == ("running", ("node1", "node2"))
    text = shown(state)
    assert text.count(f"step {STEPS[11].step}/390") == 1
    for words in ("62 %", "4.0 GB of 16 GB", "87 %", "71 GB"):
        assert text.count(words) == 3, words  # the fourth node is silent


def test_the_time_left_follows_from_the_pace_of_this_attempt(tmp_path: Path) -> None:
    """It went on from step 200, of which its pace knows nothing, and the newest line is 3 s old."""
    start = {**decoded(RECORDED[0]), "step": 200, "time": NOW - 103}
    newest = {**decoded(STEPS[11]), "step": 250, "time": NOW - 3}
    (run,) = cluster(tmp_path, node1=[entry(metric=newest, earlier=start)]).runs
    assert run.seconds_left == pytest.approx(2.0 * 140 - 3)
    run = replace(run, since=NOW - 103)
    assert run_line(run, NOW).startswith("for 1 min 43 s · 4:37 left · step 250")


@pytest.mark.parametrize(
    ("earlier", "metric"),
    [
        (None, {"step": 9, "steps": 10, "time": NOW}),
        ({"step": 9, "steps": 10, "time": NOW}, {"step": 9, "steps": 10, "time": NOW + 1}),
        ({"step": 9, "steps": 10, "time": NOW}, {"step": 3, "steps": 10, "time": NOW + 1}),
        ({"step": 1, "steps": 10, "time": NOW}, {"step": 3, "time": NOW + 1}),
        ({"step": 1, "steps": 10, "time": NOW}, {"step": 3, "steps": 10, "time": NOW}),
        ({"step": 1, "steps": 10}, {"step": 3, "steps": 10, "time": NOW + 1}),
        ({"loss": 1.0}, {"word": "only"}),
    ],
)
def test_no_time_left_is_made_up(earlier: Any, metric: Any, tmp_path: Path) -> None:
    (run,) = cluster(tmp_path, node1=[entry(metric=metric, earlier=earlier)]).runs
    assert run.seconds_left is None


def test_runs_that_only_nodes_or_only_this_checkout_know(tmp_path: Path) -> None:
    (tmp_path / RUN_ID).mkdir()
    others = entry("20260101T000000Z_vit", home="/home/ada/runs/20260101T000000Z_vit")
    state = cluster(
        tmp_path,
        (RUN_ID, "20270101T000000Z_vit"),
        node1=[entry(home=str(tmp_path / RUN_ID)), others],
        # What keeps runs off a node is no run.
        node2=[entry("setup", home="")],
    )
    assert {run.run: run.known for run in state.runs} == {
        RUN_ID: True,
        others["run"]: False,
        "setup": True,
    }
    assert state.lost == ("20270101T000000Z_vit",)
    text = shown(state)
    assert "20260101T000000Z_vit: was started in another checkout" in text
    assert "make attach RUN=20270101T000000Z_vit ends it" in text
    assert "setup: was started" not in text
    # Only nodes know it, so whoever pastes this has to say which nodes; a run from here knows them.
    known = shown(state, "inventory/lab")
    lab = Project(DATA / "checkout").shown(DATA / "checkout/inventory/lab")
    assert f"make attach RUN={others['run']} INVENTORY={lab} follows it from here" in known
    assert "make attach RUN=20270101T000000Z_vit ends it" in known


def test_what_is_left_of_a_run_hides_none_that_goes_on(tmp_path: Path) -> None:
    left = entry("20260101T000000Z_left", state="ended", since=1.0)
    state = cluster(tmp_path, node1=[left, entry("20260102T000000Z_goes_on", since=2.0)])
    assert [run.state for run in state.runs] == ["running", "ended"]
    assert [run.state for run in state.nodes[0].runs] == ["running", "ended"]
    view = TopView(state=state)
    with (console := Console(width=120, file=io.StringIO())).capture() as capture:
        console.print(view.render(120, 24))
    (row,) = [line for line in capture.get().splitlines() if line.startswith("node1")]
    assert row.split()[1] == "running"
    view.chosen["cluster"] = left["run"]
    with console.capture() as capture:
        console.print(view.render(120, 24))
    assert f"it has ended: make attach RUN={left['run']} fetches its files" in capture.get()


def test_a_run_that_somebody_follows_is_not_left(tmp_path: Path) -> None:
    for name in ("followed", "left", "over"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text('{"inventory_path": "/lab"}')
    (tmp_path / "over/summary.json").write_text("{}")
    with followed(tmp_path / "followed"):
        assert left_runs(tmp_path, Path("/lab")) == ["left"]
    assert left_runs(tmp_path, Path("/lab")) == ["followed", "left"]
    # The nodes of another inventory know nothing of it.
    assert left_runs(tmp_path, Path("/local")) == []


@pytest.mark.parametrize("trouble", [None, {"code": "no_engine", "values": {"message": "none"}}])
def test_a_run_is_not_given_up_while_a_node_of_it_tells_nothing(
    trouble: dict[str, Any] | None, tmp_path: Path
) -> None:
    (tmp_path / RUN_ID).mkdir()
    (tmp_path / RUN_ID / "manifest.json").write_text('{"hosts": ["node1", "node2"]}')
    answers = Answers(tmp_path)
    answers.take("node1", {"runs": [], "load": LOAD, "time": NOW})
    silent = trouble and {"runs": [], "load": LOAD, "time": NOW, "trouble": trouble}
    answers.take("node2", silent)
    found = answers.state(NOW, [RUN_ID])
    assert (found.lost, found.unheard) == ((), (RUN_ID,))
    assert f"once it does, make attach RUN={RUN_ID}" in shown(found)
    answers.take("node2", {"runs": [], "load": LOAD, "time": NOW})
    assert answers.state(NOW, [RUN_ID]).lost == (RUN_ID,)


def test_what_begins_or_ends_while_the_nodes_are_asked_is_not_left(
    ready: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = ready.root / "runs/left"
    left.mkdir(parents=True)
    path = str(ready.root / "inventory/local")
    (left / "manifest.json").write_text(json.dumps({"inventory_path": path}))
    ready.environment["INVENTORY"] = "inventory/local"  # as make says it
    assert json.loads(ready("status", "--json").stdout)["lost"] == ["left"]
    looks = iter([["ends", "left"], ["left", "begins"]])
    monkeypatch.setattr(state, "left_runs", lambda runs, inventory: next(looks))
    assert json.loads(ready("status", "--json").stdout)["lost"] == ["left"]


def test_a_loss_that_is_no_number_has_no_place_in_json(tmp_path: Path) -> None:
    line = {**decoded(STEPS[11]), "loss": float("nan")}
    state = cluster(tmp_path, node1=[entry(metric=line)])
    text = json.dumps(state.to_json(), allow_nan=False)
    assert sorted(json.loads(text)["runs"][0]["values"]) == ["accuracy", "images_per_second", "lr"]


def test_who_holds_which_gpus_of_a_node(tmp_path: Path) -> None:
    state = cluster(tmp_path, node1=[entry("a", gpus=[0, 1]), entry("b", gpus=[2])])
    text = shown(state)
    assert "a (GPU 0, 1)" in text
    assert "b (GPU 2)" in text
    (node,) = state.to_json()["nodes"]
    assert [(run["run"], run["gpus"]) for run in node["runs"]] == [("a", (0, 1)), ("b", (2,))]
    # What has the whole node has no list.
    assert "(GPU" not in shown(cluster(tmp_path, node1=[entry("a", gpus=[])]))


def test_a_gpu_that_does_not_tell_is_no_idle_one(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    silent = {**LOAD, "cpu_percent": None, "gpus": [{**GPU, "utilisation_percent": None}]}
    answers.take("node1", {"runs": [], "load": silent, "time": NOW})
    lines = shown(answers.state(NOW, ())).splitlines()
    assert lines[1].split() == [
        "node1",
        "free",
        "-",
        "4.0",
        "GB",
        "of",
        "16",
        "GB",
        "-",
        "71",
        "GB",
    ]


@pytest.mark.promise("make status")
def test_the_command_prints_a_table_or_one_document(ready: Yard) -> None:
    newest, earlier = ({"step": n, "steps": 10, "time": NOW + n, "loss": 0.5} for n in (4, 2))
    newest["odd"] = float("nan")
    apt = {"command": "apt-[/get]", "pid": 4711, "since": time.time() - 200}
    said = {"runs": [entry(metric=newest, earlier=earlier)], "time": NOW + 5, "apt": apt}
    (ready.root / "nodes/node1/status.json").write_text(json.dumps(said))
    (ready.root / "nodes/node2/unplugged").touch()
    table = ready("status")
    assert table.returncode == 0, table.stdout + table.stderr
    assert "step 4/10 · loss 0.500" in table.stdout
    assert f"{RUN_ID}: was started in another checkout" in table.stdout
    assert "node1: apt-[/get] (pid 4711) installs packages, for 3 min " in table.stdout
    told = ready("status", "--json")
    document = json.loads(told.stdout, parse_constant=pytest.fail)
    assert [node["state"] for node in document["nodes"]] == ["busy", "unreachable"]
    assert document["nodes"][0]["load"]["cpu_percent"] == 61.5
    assert document["nodes"][0]["apt"] == apt
    (run,) = document["runs"]
    assert (run["run"], run["known"], run["hosts"]) == (RUN_ID, False, ["node1"])
    assert (run["step"], run["steps"], run["values"]) == (4, 10, {"loss": 0.5})
    assert run["seconds_left"] == 5.0
    assert document["lost"] == []


def test_a_node_that_does_not_know_its_runs_has_a_row_with_the_reason(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.take("node1", {"runs": [entry()], "load": LOAD, "time": NOW, "trouble": None})
    for host, code, values in (
        ("node2", "no_engine", {"message": "no engine answers"}),
        ("node3", "no_directory", {"path": "/srv/runs"}),
        ("node4", "{odd}", {}),
        ("node7", "drained", {"path": "/srv/runs/.drained", "reason": "fan [/x]"}),
    ):
        trouble = {"code": code, "values": values}
        answers.take(host, {"runs": [], "load": LOAD, "time": NOW, "trouble": trouble})
    answers.miss("node5", "no answer", "silent for 5 s")
    answers.miss("node6", "unreachable", "no route [/x] to it")
    state = answers.state(NOW, ())
    assert [node["state"] for node in state.to_json()["nodes"]] == [
        *("busy", "no engine", "not set up", "no answer", "no answer", "unreachable", "drained"),
    ]
    text = shown(state)
    assert text.count("62 %") == 5  # how busy they are is known of those that answer
    for line in (
        "node2: no engine answers: systemctl status docker tells more there",
        "node3: there is no /srv/runs: run make setup",
        "node4: {odd}",
        "node5: silent for 5 s",
        "node6: no route [/x] to it",
        "node7: fan [/x]; no run starts there until /srv/runs/.drained is removed",
        "make doctor says what mends it",
    ):
        assert line in text


def test_the_name_that_a_run_was_given_stands_before_its_id(tmp_path: Path) -> None:
    (tmp_path / RUN_ID).mkdir()
    (tmp_path / RUN_ID / "manifest.json").write_text('{"name": "baseline [x]"}')
    state = cluster(tmp_path, node1=[entry()])
    lines = shown(state).splitlines()
    (named,) = [number for number, line in enumerate(lines) if line.startswith("baseline [x] ")]
    assert lines[named + 1].strip() == RUN_ID
    assert state.to_json()["runs"][0]["name"] == "baseline [x]"
    assert state.nodes[0].runs[0].shown == "baseline [x]"


def test_one_node_that_fails_hides_none_of_the_others(ready: Yard) -> None:
    failed = {"failed": True, "msg": "there is no python3"}
    (ready.root / "nodes/node1/status.json").write_text(json.dumps(failed))
    silent = {"failed": True, "msg": "timed out", "timedout": {"period": 5}}
    (ready.root / "nodes/node2/status.json").write_text(json.dumps(silent))
    told = ready("status")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "node1: there is no python3" in told.stdout
    assert "node2: silent for 5 s" in told.stdout


@pytest.mark.process
def test_make_status_json_asks_for_the_document() -> None:
    """`JSON=1` is the flag; without it there is none."""
    assert made("status", "JSON=1").endswith(" status --json")
    assert made("status").endswith(" status")
