"""Weights & Biases without a network: what a run keeps, and what it keeps to itself."""

import json
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mpi_ranks import TIMEOUT, launch

from trainer import weights_and_biases
from trainer.metrics import MetricsLine, Position
from trainer.weights_and_biases import start_wandb

KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)


def records(path: Path) -> Iterator[Any]:
    """Records of a W&B run file: protobuf messages in LevelDB's log format, after 7 bytes.

    Blocks of 32 KiB; a record is crc32, length, kind (1 whole, 2 first, 3 middle, 4 last), data.
    https://github.com/google/leveldb/blob/main/doc/log_format.md
    """
    from wandb.proto import wandb_internal_pb2

    content, position, parts = path.read_bytes(), 7, b""
    assert content[:4] == b":W&B"
    while position < len(content):
        room = 32768 - position % 32768
        if room < 7:
            position += room
            continue
        length, kind = struct.unpack("<HB", content[position + 4 : position + 7])
        parts += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(parts)
            parts = b""


def history(run_dir: Path) -> list[dict[str, Any]]:
    """What a run's only W&B run was given to log."""
    (path,) = run_dir.glob("wandb/offline-run-*/run-*.wandb")
    return [
        {
            item.key or item.nested_key[0]: json.loads(item.value_json)
            for item in record.history.item
        }
        for record in records(path)
        if record.WhichOneof("record_type") == "history"
    ]


def holding(directory: Path, text: str) -> list[Path]:
    return [
        path
        for path in directory.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def test_unasked_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start_wandb(tmp_path, {"model": "vit"}) == (None, "")
    assert capsys.readouterr().out == ""


def test_without_its_package_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setitem(sys.modules, "wandb", None)
    listen, refused = start_wandb(tmp_path, {"model": "vit"})
    told = capsys.readouterr().out
    assert listen is None
    assert "wandb is not in this image" in refused
    assert refused in told
    assert KEY not in told


def test_out_of_reach_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setattr(weights_and_biases, "PATIENCE", 5.0)
    listen, refused = start_wandb(tmp_path, {"model": "vit"})
    assert listen is not None
    assert "refused this run" in refused
    assert KEY not in refused
    position = Position(1, 1, 1, 1, 64)
    listen(MetricsLine("step", 1.5, position, loss=0.5))
    listen(MetricsLine("end", 2.5, position, loss=0.25))
    told = capsys.readouterr()
    assert "The run is kept for `wandb sync`" in told.out
    assert KEY not in told.out + told.err
    # A run's file is written by a process of wandb's, to its end when a program leaves.
    import wandb

    wandb.teardown()
    assert [line.get("step/loss", line.get("end/loss")) for line in history(tmp_path)] == [
        0.5,
        0.25,
    ]
    assert holding(tmp_path, KEY) == []


@pytest.mark.data
def test_offline_run_has_the_metrics_and_no_key(
    config: dict[str, Any], make_run_dir: Callable[[dict[str, Any]], Path]
) -> None:
    run_dir = make_run_dir({**config, "model": "cnn_a"})
    environment = run_dir / "environment"
    environment.write_text(f"WANDB_API_KEY={KEY}\nWANDB_MODE=offline\nWANDB_NOTES=a 'b' $HOME\n")

    assert launch(run_dir).wait(timeout=TIMEOUT) == 0, (run_dir / "logs/rank-0.log").read_text()

    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    kept = history(run_dir)
    losses = [line["loss"] for line in lines if line["event"] == "step"]
    assert [line["step/loss"] for line in kept if "step/loss" in line] == losses
    (accuracy,) = (line["end/test_accuracy"] for line in kept if "end/test_accuracy" in line)
    assert accuracy == lines[-1]["test_accuracy"]
    assert "end/loss" in kept[-1]
    matrix = lines[-1]["test_confusion"]
    assert kept[-1]["test_accuracy/cat"] == matrix[3][3] / sum(matrix[3])
    (table,) = run_dir.rglob("test_confusion*.table.json")
    assert json.loads(table.read_text())["data"][3] == ["cat", *matrix[3]]
    # The environment arrived as it was written, and the key went nowhere from there.
    assert holding(run_dir / "wandb", "a 'b' $HOME") != []
    assert holding(run_dir, KEY) == [environment]
