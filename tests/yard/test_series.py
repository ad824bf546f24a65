"""Seeds and sweeps: which trainings they are, that they go on, and what they come to."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console
from yard_command import Yard, made

from yard.commands import series as command
from yard.core.context import Context
from yard.core.errors import Detached, Exit, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.pages import series
from yard.plays.inventory import Inventory
from yard.request.series import cases_of, read_sweep
from yard.request.training import TrainRequest
from yard.runs.series import Measure, Row, best_of

VIT = TrainRequest("vit")
# Of a training by what its name ends with; one that is not here fails.
ACCURACIES = {
    **{"lr=0.01 seed=1": 0.5, "lr=0.01 seed=2": 0.7, "lr=0.1 seed=1": 0.4, "lr=0.1 seed=2": 0.4},
    **{"batch=32": 0.5, "batch=64": 0.6},
}

Train = Callable[..., tuple[Exit, str, list[str]]]


def test_a_sweep_is_every_combination() -> None:
    sweep = read_sweep("lr=1e-3,3e-4 batch=32,64 deterministic=true", yaml.safe_load)
    assert sweep == {"lr": [1e-3, 3e-4], "batch": [32, 64], "deterministic": [True]}
    cases = cases_of(TrainRequest("vit", options={"ema": 0.9}), sweep, 1)
    assert list(cases) == [
        "lr=0.001 batch=32 deterministic=True",
        "lr=0.001 batch=64 deterministic=True",
        "lr=0.0003 batch=32 deterministic=True",
        "lr=0.0003 batch=64 deterministic=True",
    ]
    last = cases["lr=0.0003 batch=64 deterministic=True"]
    assert (last.lr, last.batch, last.options) == (3e-4, 64, {"ema": 0.9, "deterministic": True})


def test_a_sweep_over_nodes_has_no_least_number() -> None:
    """NODES=2..4 says it of all of them."""
    request = TrainRequest("vit", nodes=4, min_nodes=2)
    cases = cases_of(request, {"nodes": [1, 2]}, 1)
    assert [(case.nodes, case.min_nodes) for case in cases.values()] == [(1, None), (2, None)]
    assert cases_of(request, {"lr": [0.1]}, 1)["lr=0.1"].min_nodes == 2


def test_seeds_begin_at_that_of_the_request() -> None:
    cases = cases_of(TrainRequest("vit", options={"seed": 5}), {"epochs": [1]}, 3)
    assert list(cases) == ["epochs=1 seed=5", "epochs=1 seed=6", "epochs=1 seed=7"]
    assert list(cases_of(VIT, {}, 2)) == ["seed=1", "seed=2"]


@pytest.mark.parametrize(
    ("text", "said"), [("lr", "'lr' is not key=value"), ("lr=", "lr has no value")]
)
def test_a_sweep_of_another_form_is_refused(text: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read_sweep(text, yaml.safe_load)
    with pytest.raises(RequestError, match="give one of them"):
        cases_of(VIT, {"seed": [1]}, 2)
    with pytest.raises(RequestError, match="120 trainings: 100 at the most"):
        cases_of(VIT, {"lr": [0.1] * 120}, 1)
    with pytest.raises(RequestError, match="2,000,000,000,000 trainings"):
        cases_of(VIT, {"lr": [0.1, 0.2]}, 10**12)


@pytest.fixture
def train(tmp_path: Path, lab: Inventory, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Train without machines; returns status, what is shown, and what was trained this time."""
    done: dict[Path, str] = {}
    begun: list[str] = []

    def stand_in(context: Context, case: TrainRequest, started_at: float, waits: bool) -> Exit:
        label = str(case.name).partition(", ")[2]
        begun.append(label)
        if label == stops.get("at") == "batch=64":
            raise Detached
        if label == stops.get("at"):
            return Exit.INTERRUPTED
        if label not in ACCURACIES:
            return Exit.FAILED
        done[tmp_path / f"run-{len(done)}"] = str(case.name)
        return Exit.DONE

    def overview(run: Path) -> Any:
        return SimpleNamespace(name=done[run], status="succeeded")

    def summary(run: Path) -> Any:
        accuracy = ACCURACIES[done[run].partition(", ")[2]]
        measured = {"validation_accuracy": accuracy, "test_accuracy": accuracy - 0.1}
        return SimpleNamespace(run_id=run.name, final_loss=1.0, images_per_second=None, **measured)

    stops: dict[str, str | None] = {}
    for name, function in (
        *(("train", stand_in), ("overview_of", overview), ("read_summary", summary)),
        *(("list_runs", lambda runs: list(done)), ("read_inventory", lambda *given: lab)),
    ):
        monkeypatch.setattr(command, name, function)
    monkeypatch.setattr(series, "read_run", lambda run: SimpleNamespace(metrics=()))

    def go(
        sweep: str, seeds: int = 1, stop: str | None = None, request: TrainRequest = VIT
    ) -> tuple[Exit, str, list[str]]:
        begun.clear()
        stops["at"] = stop
        text = io.StringIO()
        console = Console(file=text, width=80)
        context = Context(Project(tmp_path), tmp_path, console, Interrupts())
        try:
            status = command.train_series(context, request, sweep, seeds)
        except Detached as error:
            status = error.status
        return status, text.getvalue(), list(begun)

    return go


def test_the_best_is_that_of_the_validation_split(train: Train, tmp_path: Path) -> None:
    status, text, begun = train("lr=1e-2,1e-1", seeds=2)
    assert (status, len(begun)) == (Exit.DONE, 4)
    assert "60.0 ± 14.1 %" in text
    assert "Best on the validation split: lr=0.01" in text
    (path,) = (tmp_path / "runs").glob("series-*/series.json")
    document = json.loads(path.read_text())
    assert document["best"] == "lr=0.01"
    assert document["rows"][0]["validation_accuracy"]["mean"] == pytest.approx(0.6)
    assert [row["runs"] for row in document["rows"]] == [["run-0", "run-1"], ["run-2", "run-3"]]
    page = path.with_suffix(".html").read_text()
    assert "Best on the validation split: lr=0.01" in page
    assert '<a href="../run-3/report.html">' in page
    assert "60.0 ± 14.1 %" in page
    # All of it is there, so that nothing is trained again.
    status, text, begun = train("lr=1e-2,1e-1", seeds=2)
    assert (status, begun) == (Exit.DONE, [])
    assert "60.0 ± 14.1 %" in text


def test_it_goes_on_after_an_interruption_and_past_a_failure(train: Train) -> None:
    status, text, begun = train("batch=32,48,64", stop="batch=48")
    assert (status, begun) == (Exit.INTERRUPTED, ["batch=32", "batch=48"])
    assert "The same command goes on with what is left" in text
    status, text, begun = train("batch=32,48,64")
    assert (status, begun) == (Exit.FAILED, ["batch=48", "batch=64"])
    assert "batch=48  failed" in text
    assert "Best on the validation split: batch=64" in text


def test_a_seed_that_failed_is_seen_in_the_table(train: Train, tmp_path: Path) -> None:
    """Of three there are two; ACCURACIES has no third."""
    status, text, _ = train("lr=1e-2", seeds=3)
    assert status == Exit.FAILED
    assert "lr=0.01  2 of 3" in text
    (page,) = (tmp_path / "runs").glob("series-*/series.html")
    assert "<small>1 failed</small>" in page.read_text()


def test_a_run_that_is_left_to_the_background_is_not_the_last(train: Train) -> None:
    status, text, begun = train("batch=32,64,128", stop="batch=64")
    assert (status, begun) == (Exit.DONE, ["batch=32", "batch=64"])
    assert "Once it is over, the same command goes on with what is left." in text


def test_another_request_of_the_same_name_is_trained_anew(train: Train, tmp_path: Path) -> None:
    for epochs in (1, 2):
        request = TrainRequest("vit", name="../mine", epochs=epochs)
        status, text, begun = train("batch=32,64", request=request)
        assert (status, begun) == (Exit.DONE, ["batch=32", "batch=64"])
        assert "2 trainings: ../mine-" in text
    assert len(list((tmp_path / "runs").glob("series-*/series.json"))) == 2


def test_the_nodes_that_are_named_are_those_it_is_judged_by(train: Train, lab: Inventory) -> None:
    with pytest.raises(RequestError, match="nodes 2: this inventory has 1: beta"):
        train("nodes=1,2", request=TrainRequest("vit", on=["beta"]))
    status, _, begun = train("batch=32,64", request=TrainRequest("vit", on=["beta"]))
    assert (status, begun) == (Exit.DONE, ["batch=32", "batch=64"])


def test_all_of_them_begin_from_the_same_weights(train: Train, tmp_path: Path) -> None:
    """`latest` would be the run of the one before."""
    for typed in ("latest", "runs/latest"):
        with pytest.raises(RequestError, match="WEIGHTS=latest: each of these trainings is a new"):
            train("batch=32,64", request=TrainRequest("vit", weights=typed))
    with pytest.raises(RequestError, match="no such file"):
        train("batch=32,64", request=TrainRequest("vit", weights="none.pt"))
    (tmp_path / "w.pt").touch()
    status, *_ = train("batch=32", request=TrainRequest("vit", weights=str(tmp_path / "w.pt")))
    assert status == Exit.DONE


def test_a_value_that_is_none_is_said(train: Train) -> None:
    with pytest.raises(RequestError, match="SWEEP: while parsing"):
        train("lr={,1")


def test_all_that_is_wrong_with_any_of_them_is_told_first(train: Train) -> None:
    with pytest.raises(RequestError) as refusal:
        train("batch=0,64 epochs=0")
    assert list(refusal.value.problems) == ["epochs 0: must be above 0", "batch 0: must be above 0"]


@pytest.mark.process
def test_the_target_of_make(fresh: Yard) -> None:
    told = made("train", "MODEL=vit", "SEEDS=3", "SWEEP=lr=1e-3,3e-4 batch=32,64")
    assert "--seeds='3' --sweep='lr=1e-3,3e-4 batch=32,64'" in told
    done = fresh("train", "--code", ".", "--seeds", "2")
    assert (done.returncode, "SEEDS= (--seeds): the trainer's own" in done.stderr) == (2, True)


def test_the_best_is_chosen_among_several_that_have_an_accuracy() -> None:
    def row(label: str, accuracy: float | None) -> Row:
        measure = None if accuracy is None else Measure(accuracy, None)
        return Row(label, 1, (label,), measure, None, None, None)

    none, worse, better = row("none", None), row("worse", 0.4), row("better", 0.5)
    assert best_of([]) is best_of([none, better]) is None
    assert best_of([none, better, worse]) is better
