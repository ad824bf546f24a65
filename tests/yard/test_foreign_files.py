"""What ranks leave behind is foreign text: whatever it is, the run is summed up and shown."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from extend import make_project
from yard_command import REPOSITORY

from yard.code.snapshot import FOLDER
from yard.core.console import ForeignTextConsole
from yard.core.project import Project
from yard.operations.ending import conclude
from yard.operations.packages import LOCK
from yard.runs.folder import ATTEMPTS, REPORT_ERROR, STOP_MARK
from yard.runs.gathering import GATHERED
from yard.runs.labels import FILE as LABELS
from yard.runs.metrics import Metric, read_every_line
from yard.runs.record import rank_log_files
from yard.runs.summary import read_summary
from yard.runs.verdict import HARDWARE, VERDICT
from yard.screen.result import show_result

DEEP = "[" * 100_000

STEP = {
    "event": "step",
    "time": 1795175100.9,
    "step": 3,
    "steps": 4,
    "epoch": 1,
    "epochs": 2,
    "loss": 1.5,
    "accuracy": None,
    "images_per_second": 10,
    "lr": 0.1,
}


FILES = [
    ("world.json", "[]"),
    ("world.json", '{"ranks": 5}'),
    ("world.json", '{"ranks": [{"rank": "first", "host": 1}], "world_size": {}}'),
    ("world.json", '{"ranks": [], "versions": ["torch"], "world_size": 2}'),
    ("world.json", DEEP),
    ("config.json", "[1]"),
    ("config.json", '{"epochs": "many", "model": 7, "batch_per_rank": [1]}'),
    ("exit_status", "zero"),
    ("ranks/0.json", "[]"),
    ("ranks/0.json", '{"rank": [], "host": {}, "ended_at": null, "exit_status": "x"}'),
    ("failures/rank-0.json", "7"),
    ("failures/rank-0.json", '{"code": "no_such_code", "values": [], "rank": "x"}'),
    ("failures/rank-0.json", '{"code": "disk_full", "values": {}}'),
    ("failures/launcher.json", '{"code": 1}'),
    ("nodes/node1/findings.json", "[null, 1, {}]"),
    ("nodes/node1/container.json", '[{"Image": 1, "Config": null}]'),
    ("nodes/node1/utilisation.jsonl", '{"time": []}\n7\n'),
    ("nodes/node1/facts.json", '{"gpu_devices": [7, {"index": []}]}'),
    ("logs/rank-x.log", "no rank"),
    ("logs/rank-99999999999999999999.log", "no rank"),
    ("logs/rank-0.log", "rank 0 of 2 on \x1b]0;title\x07 (pid 1)\nTraceback\n\x1b[2J"),
    ("metrics.jsonl", '7\n[1]\n{"event": "step"}\n' + DEEP + "\n"),
]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_the_run_is_summed_up(
    recorded: Callable[[str], Path], tmp_path: Path, name: str, text: str
) -> None:
    check_summed_up(recorded("unknown"), tmp_path, name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *FILES,
        ("metrics.jsonl", '{"loss": 1e999}\n{"step": 1e308, "loss": -1}\n{"a\\u001b[2J": 1}\n'),
        ("metrics.jsonl", '{"step": 9, "epochs": 0, "steps": 0, "l": 1}\n{"step": 2, "l": 1e308}'),
        ("metrics.jsonl", '{"__proto__": 1, "<script>": 2, "{{x}}": 3, "%s": -1e308}\n'),
        ("readings.jsonl", "[]\n7\n"),
        ("failures/torch-0.json", '{"message": {"message": ["x"], "extraInfo": 1}}'),
        ("logs/rank-1.log", 'rank\nTraceback (most recent call last):\n  File "/", line 0\n\nE\n'),
        ("outputs/events.out.tfevents.1", "\x00\xff" * 999),
        ("ranks/0.json", '{"rank": 0, "host": "a", "ended_at": 1e400, "exit_status": 1}'),
        (
            "ranks/0.json",
            '{"rank": 0, "host": "a", "started_at": NaN, "ended_at": 1, "exit_status": 1}',
        ),
    ],
)
def test_the_run_of_a_program_is_summed_up(
    recorded: Callable[[str], Path], tmp_path: Path, name: str, text: str
) -> None:
    run = recorded("unknown")
    make_project(run)
    check_summed_up(run, tmp_path, name, text)
    assert "None" not in (run / "report.html").read_text()


def check_summed_up(run: Path, tmp_path: Path, name: str, text: str) -> None:
    """Put a file into a run, and see that the run gets its summary and its report."""
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_text(text)
    summary = conclude(run)
    assert read_summary(run) == summary
    assert summary.status == "failed"
    assert (run / "report.html").is_file()
    assert not (run / "report-error.log").exists()
    screen = io.StringIO()
    show_result(ForeignTextConsole(file=screen, width=200), Project(tmp_path), run, summary)
    assert "\x1b" not in screen.getvalue()


def test_only_a_rank_s_log_is_one(tmp_path: Path) -> None:
    (tmp_path / "logs/rank-2.log").mkdir(parents=True)
    for name in ("rank-1.log", "rank-x.log", "rank-0.log", "rank-.log", "rank-1\n.log"):
        (tmp_path / "logs" / name).touch()
    assert list(rank_log_files(tmp_path)) == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"event": "joke"},
        {"event": ["step"]},
        {"time": "now"},
        {"step": 1.5},
        {"steps": True},
        {"loss": "low"},
        {"lr": [0.1]},
        {"communication_seconds": "long"},
        # JSON's numbers have no end, and no float holds these.
        *({name: 10**400} for name in ("time", "step", "steps", "epoch", "loss", "images")),
    ],
)
def test_a_line_of_another_form_is_no_metric(change: dict[str, object], tmp_path: Path) -> None:
    assert Metric.from_json(STEP) is not None
    assert Metric.from_json({**STEP, **change}) is None
    for name in STEP:
        assert Metric.from_json({key: STEP[key] for key in STEP if key != name}) is None
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"\xff\n" + json.dumps(STEP).encode() + b"\nnull\n")
    assert [metric.step for metric in read_every_line(file)] == [3]


def test_text_does_not_steer_the_terminal() -> None:
    screen = io.StringIO()
    console = ForeignTextConsole(
        file=screen, width=80, force_terminal=True, color_system="standard", highlight=False
    )
    console.print("[red]a\x1b]0;title\x07b\x9b2J[/]\tc\u202ed", soft_wrap=True)
    shown = screen.getvalue()
    assert shown.startswith("\x1b[31ma␛]0;title")
    assert "\x1b]" not in shown
    assert not any(character in shown for character in "\x07\x9b\u202e")


def test_no_node_brings_a_record_that_is_written_here() -> None:
    text = (REPOSITORY / "roles/training_run/vars/main.yml").read_text()
    kept_out = yaml.safe_load(text)["training_run_pull"]
    for name in ("manifest.json", "summary.json", "report.html", "ansible.log", ATTEMPTS, FOLDER):
        assert f"--exclude=/{name}" in kept_out, name
    for name in (LABELS, REPORT_ERROR, STOP_MARK, LOCK, GATHERED, VERDICT, HARDWARE):
        assert f"--exclude=/{name}" in kept_out, name
