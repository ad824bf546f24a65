"""What of a failed run is put aside, and which failures another attempt cannot mend."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from yard.commands.train import check_same_training, judge_all
from yard.core.errors import RequestError
from yard.core.project import Project
from yard.plays.inventory import Inventory, Option
from yard.request.resolve import resolve
from yard.request.training import TrainRequest
from yard.runs.findings import Finding
from yard.runs.folder import count_attempts
from yard.runs.manifest import read_manifest, write_manifest
from yard.runs.record import RunRecord
from yard.runs.retry import (
    check_resumable,
    epochs_done,
    nodes_of,
    put_attempt_aside,
    resume_variables,
    worth_another,
)

Record = Callable[[str], RunRecord]


def test_a_killed_rank_is_worth_another_attempt(record: Record) -> None:
    found = worth_another(record("killed"))
    assert found is not None
    assert found.host == "node2"


def test_what_would_fail_again_is_not(record: Record) -> None:
    killed = record("killed")
    finding = Finding("wrong_configuration", {"message": "unknown key: sed"}, "", "node1", 0)
    assert worth_another(replace(killed, findings=(finding,))) is None


@pytest.mark.parametrize("case", ["succeeded", "stopped", "unfit"])
def test_nor_what_did_not_fail(record: Record, case: str) -> None:
    assert worth_another(record(case)) is None


def test_an_attempt_is_put_aside_and_what_goes_on_stays(recorded: Callable[[str], Path]) -> None:
    run = recorded("killed")
    (run / "checkpoints").mkdir()
    for name in ("epoch-1.pt", "epoch-1.pt.sha256"):
        (run / "checkpoints" / name).touch()
    place = put_attempt_aside(run)
    assert (place.name, count_attempts(run)) == ("1", 2)
    assert (place / "logs/rank-1.log").is_file()
    assert sorted(path.name for path in run.iterdir()) == [
        "ansible.log",
        "attempts",
        "checkpoints",
        "manifest.json",
        "metrics.jsonl",
    ]
    # The attempts had these nodes; the next one may get others.
    assert nodes_of(run) == ("node1", "node2")
    manifest = read_manifest(run)
    assert manifest is not None
    write_manifest(run, replace(manifest, hosts=("node2", "node3")))
    assert nodes_of(run) == ("node1", "node2", "node3")
    (place / "manifest.json").unlink()  # of an earlier version
    assert nodes_of(run) == ()
    assert resume_variables(run, same_run=True) == {
        "training_run_resume_from": str(run / "checkpoints"),
        "training_run_metrics_from": str(run / "metrics.jsonl"),
    }
    assert list(resume_variables(run, same_run=False)) == ["training_run_resume_from"]


def test_a_checkpoint_with_all_epochs_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for name in ("epoch-2.pt", "epoch-3.pt", "epoch-3-step-50.pt"):
        (folder / name).write_bytes(name.encode())
        digest = hashlib.sha256(name.encode()).hexdigest()
        (folder / f"{name}.sha256").write_text(f"{digest}  {name}\n")
    assert epochs_done(tmp_path, 3) == 3
    assert epochs_done(tmp_path, 4) is None
    (folder / "epoch-3.pt").write_bytes(b"damaged")
    assert epochs_done(tmp_path, 3) is None
    (folder / "epoch-3.pt.sha256").write_text("")
    assert epochs_done(tmp_path, 3) is None
    (folder / "epoch-3.pt.sha256").unlink()
    assert epochs_done(tmp_path, 3) is None


def test_a_checkpoint_that_did_not_come_home_whole_is_none(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("killed")
    (run / "checkpoints").mkdir()
    (run / "checkpoints/epoch-0-step-60.pt").touch()
    (run / "checkpoints/last.pt").symlink_to("epoch-0-step-60.pt")
    assert list(resume_variables(run, same_run=True)) == ["training_run_metrics_from"]
    (run / "checkpoints/epoch-0-step-60.pt.sha256").touch()
    assert "training_run_resume_from" in resume_variables(run, same_run=True)


def test_a_run_without_checkpoint_cannot_be_gone_on_from(recorded: Callable[[str], Path]) -> None:
    with pytest.raises(RequestError, match="no checkpoint"):
        check_resumable(recorded("killed"))


@pytest.mark.process
def test_what_cannot_go_on_is_told_before_a_machine_is_touched(
    recorded: Callable[[str], Path], lab: Inventory
) -> None:
    run = recorded("succeeded")
    asked = TrainRequest(model="vit", options={"validation_fraction": 0})
    check_same_training(resolve(asked, lab), run, lab)
    options = {"optimizer": "sgd", "seed": 2}
    other = resolve(TrainRequest(model="vit", options=options), lab)
    (run / "config.json").write_text('{"optimizer": "adamw", "seed": 1}')
    with pytest.raises(RequestError) as caught:
        check_same_training(replace(other, model="cnn_a"), run, lab)
    model, optimizer, seed, validation = caught.value.problems
    assert model.startswith(f"model cnn_a: {run.name} was trained with vit")
    assert optimizer.startswith(f"optimizer sgd: {run.name} was trained with adamw")
    assert seed.startswith(f"seed 2: {run.name} was trained with 1")
    assert validation.endswith("go on with VALIDATION=0")


def test_what_is_not_said_counts_as_what_it_then_is(
    recorded: Callable[[str], Path], lab: Inventory
) -> None:
    run = recorded("succeeded")
    world = json.loads((run / "world.json").read_text())
    split = {"train_images": 640, "validation_images": 2500, "train_images_available": 50_000}
    (run / "world.json").write_text(json.dumps({**world, **split}))
    config = {"optimizer": "sgd", "seed": 2, "freeze": "backbone", "image_size": 64}
    (run / "config.json").write_text(json.dumps(config))
    defaults = {"seed": 1, "optimizer": "adamw", "freeze": "none", "image_size": None}
    options = {
        name: Option("", default=value)
        for name, value in {**defaults, "validation_fraction": 0.05}.items()
    }
    site = replace(lab, options=options)
    with pytest.raises(RequestError) as caught:
        check_same_training(resolve(TrainRequest("vit"), site), run, site)
    assert [problem.partition(" was ")[0] for problem in caught.value.problems] == [
        f"{said}: {run.name}"
        for said in (
            *("optimizer adamw", "seed 1", "freeze none", "train_images 10000"),
            "image_size unsaid",
        )
    ]
    same = TrainRequest("vit", options=config, train_images=640, resume=run.name)
    check_same_training(resolve(same, site), run, site)
    # All of the images that are not held out, said and unsaid.
    (run / "world.json").write_text(json.dumps({**world, **split, "train_images": 47_500}))
    for images in ("all", 47_500):
        check_same_training(resolve(replace(same, train_images=images), site), run, site)


def test_all_that_is_wrong_with_what_it_begins_from_is_told_at_once(
    recorded: Callable[[str], Path], lab: Inventory
) -> None:
    run = recorded("succeeded")
    (run / "checkpoints").mkdir()
    (run / "checkpoints/epoch-5.pt").touch()
    (run / "checkpoints/epoch-5.pt.sha256").touch()
    request = TrainRequest("cnn_a", resume=run.name, weights="none.pt", train_images=60_000)
    with pytest.raises(RequestError) as caught:
        judge_all(Project(run.parents[1]), request, lab)
    images, weights, model, validation = caught.value.problems
    assert images == "train images 60,000: cifar10 has 50,000"
    assert weights.startswith("WEIGHTS= and RESUME=")
    assert model.startswith(f"model cnn_a: {run.name} was trained with vit")
    assert validation.endswith("go on with VALIDATION=0")
