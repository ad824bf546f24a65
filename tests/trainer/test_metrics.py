import json
import time
from contextlib import closing
from pathlib import Path

from trainer.metrics import MetricsWriter, Position

KEYS = [
    *("event", "time", "step", "steps", "epoch", "epochs", "images"),
    *("loss", "accuracy", "images_per_second", "lr"),
]


def test_lines_have_always_the_same_keys_and_are_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    before = time.time()
    with closing(MetricsWriter(path)) as metrics:
        metrics.write("start", Position(0, 20, 1, 2, 0))
        metrics.write(
            "step",
            Position(5, 20, 1, 2, 640),
            loss=2.25,
            images_per_second=120.0,
            learning_rate=0.001,
        )
        start, step = map(json.loads, path.read_text().splitlines())
    assert list(start) == list(step) == KEYS
    assert before <= start.pop("time") <= step.pop("time") <= time.time()
    numbers: dict[str, float | None]
    numbers = {"loss": None, "accuracy": None, "images_per_second": None, "lr": None}
    place = {"steps": 20, "epoch": 1, "epochs": 2}
    assert start == {"event": "start", "step": 0, "images": 0, **place, **numbers}
    numbers |= {"loss": 2.25, "images_per_second": 120.0, "lr": 0.001}
    assert step == {"event": "step", "step": 5, "images": 640, **place, **numbers}


def test_the_first_line_has_what_is_noted_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with closing(MetricsWriter(path, notes={"wandb_refused": "no network"})) as metrics:
        metrics.write("start", Position(0, 20, 1, 2, 0))
        metrics.write("step", Position(5, 20, 1, 2, 640))
    start, step = map(json.loads, path.read_text().splitlines())
    assert start["wandb_refused"] == "no network"
    assert "wandb_refused" not in step


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        with closing(MetricsWriter(path)) as metrics:
            metrics.write("step", Position(step, 2, 1, 1, step), loss=1.0)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2]
