"""`summary.json` from recorded runs."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_schemas import errors

from yard.core.errors import Exit
from yard.operations.stop import note_ended
from yard.pages.report import Curves, report_page
from yard.plays.contract import END_RUN
from yard.plays.events import Event
from yard.runs.metrics import Metric
from yard.runs.record import RunRecord, read_run
from yard.runs.summary import (
    first_step_time,
    read_summary,
    run_exit_status,
    summarise,
    write_summary,
)

Record = Callable[[str], RunRecord]

# What DESIGN.md promises to whoever reads the file.
PROMISED = {
    "run_id",
    "status",
    "exit_status",
    "model",
    "dataset",
    "engine",
    "precision",
    "world_size",
    "hosts",
    "batch_per_rank",
    "epochs",
    "steps",
    "images_per_second",
    "final_loss",
    "test_accuracy",
    "seconds_total",
    "seconds_to_first_step",
    "started_at",
    "finished_at",
    "diagnosis",
}


def test_succeeded(record: Record) -> None:
    summary = summarise(record("succeeded"))
    assert (summary.status, summary.exit_status) == ("succeeded", Exit.DONE)
    assert (summary.model, summary.dataset) == ("vit", "cifar10")
    assert (summary.engine, summary.precision) == ("horovod", "fp32")
    assert (summary.world_size, summary.hosts) == (2, ("node1", "node2"))
    assert (summary.steps, summary.epochs, summary.batch_per_rank) == (390, 5, 64)
    assert (summary.final_loss, summary.test_accuracy) == (1.6142, 0.407)
    assert summary.images_per_second == 120.87
    assert summary.train_images == 10000
    assert summary.train_images_available == 50000
    assert summary.test_images == 10000
    assert summary.seconds_to_first_step == 13.058
    assert summary.seconds_total is not None
    assert summary.seconds_total > 400
    assert summary.started_at == "2026-11-20T11:20:00.000+00:00"
    assert summary.diagnosis is None


def test_validation_and_test_are_told_apart(record: Record) -> None:
    """An older trainer looked at the test set after each epoch; this one at the end alone."""
    done = record("succeeded")
    *before, epoch, end = done.metrics
    assert (epoch.event, epoch.loss, epoch.test_loss) == ("epoch", None, 1.6446)
    now = [
        replace(epoch, loss=1.6142, validation_loss=1.7, validation_accuracy=0.39),
        replace(end, test_accuracy=0.41, best_epoch=4, best_test_accuracy=0.42),
    ]
    unseen = [replace(m, test_loss=None, test_accuracy=None) for m in (*before, now[0])]
    summary = summarise(replace(done, metrics=(*unseen, now[1])))
    assert (summary.validation_accuracy, summary.validation_loss) == (0.39, 1.7)
    assert (summary.test_accuracy, summary.best_epoch) == (0.41, 4)
    assert summary.best_test_accuracy == 0.42
    unfinished = summarise(replace(done, metrics=tuple(unseen)))
    assert (unfinished.test_accuracy, unfinished.validation_accuracy) == (None, 0.39)


def test_classes_have_their_part_of_the_matrix(record: Record) -> None:
    done = record("succeeded")
    *before, end = done.metrics
    line = json.loads(replace(end, test_accuracy=0.5, test_loss=1.0, test_top5=0.9).to_line())
    matrix = [[6, 4, 0], [1, 0, 9], [0, 0, 0]]
    known = Metric.from_json({**line, "classes": ["cat", "dog", "<b>"], "test_confusion": matrix})
    assert known is not None
    summary = summarise(replace(done, metrics=(*before, known)))
    assert summary.test_classes == {"cat": 0.6, "dog": 0.0, "<b>": None}
    assert (list(summary.test_confusion), summary.test_top5) == (matrix, 0.9)
    page = report_page(summary, done, Curves(None, {}), {})
    assert "60.0 %, taken for dog 40.0 %" in page
    assert page.index("taken for &lt;b&gt; 90.0 %") < page.index("60.0 %, taken for dog")


def test_classes_of_one_name_have_no_matrix(record: Record) -> None:
    """They would be one line of the page, and the rows of the matrix two."""
    line = json.loads(record("succeeded").metrics[-1].to_line())
    metric = Metric.from_json({**line, "classes": ["a", "a"], "test_confusion": [[1, 2], [3, 4]]})
    assert metric is not None
    assert (metric.classes, metric.test_confusion) == (None, None)


@pytest.mark.parametrize("matrix", [[[1, 2]], [[1], [2]], [[1, -1], [0, 1]], 7, [[1, "2"], [3, 4]]])
def test_a_matrix_that_is_none_is_left_out(record: Record, matrix: Any) -> None:
    line = json.loads(record("succeeded").metrics[-1].to_line())
    metric = Metric.from_json({**line, "classes": ["a", "b"], "test_confusion": matrix})
    assert metric is not None
    assert (metric.classes, metric.test_confusion) == (None, None)


@pytest.mark.parametrize(("accuracy", "is_told"), [(0.1, True), (0.108, True), (0.112, False)])
def test_a_run_that_only_guesses_is_told_so(record: Record, accuracy: float, is_told: bool) -> None:
    done = record("succeeded")
    *before, end = done.metrics
    world = replace(done.world, classes=10)
    tested = replace(end, test_accuracy=accuracy)
    warnings = summarise(replace(done, metrics=(*before, tested), world=world)).warnings
    assert any("what guessing among 10 classes gives" in text for text in warnings) is is_told


def test_failed_keeps_the_numbers_it_reached(record: Record) -> None:
    summary = summarise(record("killed"))
    assert (summary.status, summary.exit_status) == ("failed", Exit.FAILED)
    assert summary.launcher_exit_status == 137
    assert summary.steps == 110
    assert summary.test_accuracy == 0.238
    assert summary.images_per_second is not None
    assert summary.diagnosis is not None


def test_stopped_has_no_diagnosis(record: Record) -> None:
    summary = summarise(record("stopped"))
    assert (summary.status, summary.exit_status) == ("stopped", Exit.INTERRUPTED)
    assert summary.diagnosis is None
    assert summary.test_accuracy is None
    assert summary.final_loss is not None


def test_a_finished_run_is_not_called_stopped(record: Record) -> None:
    done = replace(record("succeeded"), stop_requested=True)
    launch = replace(done.manifest.launch, playbook="cancelled")
    done = replace(done, manifest=replace(done.manifest, launch=launch))
    assert summarise(done).status == "succeeded"


def test_a_failed_collection_is_no_success(record: Record) -> None:
    done = record("succeeded")
    launch = replace(done.manifest.launch, playbook="failed")
    assert summarise(replace(done, manifest=replace(done.manifest, launch=launch))).status == (
        "failed"
    )


def test_mpirun_alone_does_not_prove_a_training(record: Record) -> None:
    done = record("succeeded")
    endless = tuple(metric for metric in done.metrics if metric.event != "end")
    assert summarise(replace(done, metrics=endless)).status == "failed"


def test_a_refused_gang_is_an_unfit_cluster(record: Record) -> None:
    summary = summarise(record("unfit"))
    assert (summary.status, summary.exit_status) == ("failed", Exit.UNFIT)
    assert (summary.world_size, summary.steps) == (None, 0)
    assert summary.seconds_to_first_step is None


def test_a_later_attempt_that_finds_too_few_nodes_has_failed(record: Record) -> None:
    unfit = record("unfit")
    assert run_exit_status(replace(unfit, attempts=2)) == Exit.FAILED


def test_first_step_is_dated_within_what_was_seen(record: Record) -> None:
    seen = record("succeeded")
    launch = seen.manifest.launch
    assert launch.first_step_after is not None
    assert launch.first_step_before is not None

    def with_clock_off_by(seconds: float) -> float | None:
        metrics = tuple(replace(metric, time=metric.time + seconds) for metric in seen.metrics)
        return first_step_time(replace(seen, metrics=metrics))

    claimed = next(metric.time for metric in seen.metrics if metric.event == "step")
    assert with_clock_off_by(0) == claimed
    assert with_clock_off_by(3600) == launch.first_step_before
    assert with_clock_off_by(-3600) == launch.first_step_after


def test_written_as_promised_and_read_back(recorded: Callable[[str], Path]) -> None:
    for case in ("succeeded", "killed"):
        run = recorded(case)
        summary = summarise(read_run(run))
        write_summary(run, summary)
        assert set(json.loads((run / "summary.json").read_text())) >= PROMISED
        assert read_summary(run) == summary
        run.rename(run.with_name(case))


def test_what_happened_to_gpus_is_a_warning_where_the_run_got_over_it(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("succeeded")
    values = {"gpu": 1, "model": "NVIDIA A100-SXM4-40GB", "errors": 2}
    findings = run / "nodes/node2/findings.json"
    findings.parent.mkdir(parents=True, exist_ok=True)
    findings.write_text(json.dumps([{"code": "gpu_ecc_errors", "values": values}]))
    assert errors("findings", json.loads(findings.read_text())) == []
    (warning,) = summarise(read_run(run)).warnings
    assert warning.startswith("GPU 1 of node2 had uncorrected errors of its memory during the run")


def test_a_node_that_had_nothing_of_the_run_misses_no_log(recorded: Callable[[str], Path]) -> None:
    """Ctrl-C while containers start: some nodes have none yet, and no log to wait for."""
    run = recorded("stopped")
    for name in ("container.json", "container.log"):
        (run / "nodes/node1" / name).unlink(missing_ok=True)
    assert summarise(read_run(run)).missing_hosts == ("node1",)
    ended = {"launched": False, "checkpoints": [], "left": True}
    event = Event("runner_on_ok", 1.0, action=END_RUN, host="node1", result=ended)
    note_ended(run, event)
    assert summarise(read_run(run)).missing_hosts == ("node1",), "its files have still to come"
    note_ended(run, replace(event, result={**ended, "left": False}))
    assert summarise(read_run(run)).missing_hosts == ()
    (run / "nodes/node1/findings.json").write_text('[{"code": "engine_gone", "values": {}}]')
    assert summarise(read_run(run)).missing_hosts == ("node1",)
    note_ended(run, replace(event, host="another", result={**ended, "left": False}))
    assert not (run / "nodes/another").exists()
    note_ended(run.parent, event)  # what is no run has no record
