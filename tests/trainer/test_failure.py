"""Why a rank ended, as it is written down."""

import errno
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from mpi_ranks import PLACES_OF_PROGRAMS

from trainer.errors import (
    CheckpointError,
    ClusterAddressError,
    ConfigError,
    DataError,
    DatasetMissingError,
    DivergenceError,
    FileDeniedError,
    GpuError,
    ShareGoneError,
    WorldError,
)
from trainer.failure import MESSAGE_BYTES, failure_record, note_failure, problem_of
from trainer.openmpi import RANK
from trainer.problems import Problem

Validate = Callable[[Any, str], None]

RUN_DIR = "/run/trainyard"
CASES = [
    (ConfigError("no model"), "wrong_configuration", {"message": "no model"}),
    (WorldError("asked were 2"), "wrong_world", {"message": "asked were 2"}),
    (
        ClusterAddressError(host="node1", network="10.0.0.0/24"),
        "no_cluster_address",
        {"host": "node1", "network": "10.0.0.0/24"},
    ),
    (
        DivergenceError("the loss became nan"),
        "loss_not_a_number",
        {"message": "the loss became nan"},
    ),
    (
        ShareGoneError("Host is down", path="/data/a/1", share="/data (cifs of //s/d)"),
        "share_gone",
        {"path": "/data/a/1", "share": "/data (cifs of //s/d)", "message": "Host is down"},
    ),
    (
        PermissionError(errno.EACCES, "Permission denied", "/data/a/1"),
        "file_denied",
        {"path": "/data/a/1"},
    ),
    (FileDeniedError(path="/data/a/1"), "file_denied", {"path": "/data/a/1"}),
    (DatasetMissingError(path="/data/a"), "dataset_missing", {"path": "/data/a"}),
    (DataError("it is damaged"), "dataset_damaged", {"message": "it is damaged"}),
    (CheckpointError("there is none"), "checkpoint_unusable", {"message": "there is none"}),
    (
        OSError(errno.EHOSTDOWN, os.strerror(errno.EHOSTDOWN), "/run/trainyard/checkpoints/a"),
        "file_system_gone",
        {"path": "/run/trainyard/checkpoints/a", "message": "Host is down"},
    ),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/a"), "disk_full", {"path": "/tmp/a"}),
    # What `write` raises: it knows no name.
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "disk_full", {"path": RUN_DIR}),
    (
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        "gpu_out_of_memory",
        {"message": "CUDA out of memory. Tried to allocate 2 GiB"},
    ),
    (
        GpuError(host="gpu01", message="Found no NVIDIA driver on your system."),
        "gpu_unusable",
        {"host": "gpu01", "message": "Found no NVIDIA driver on your system."},
    ),
    (KeyError("fc"), "python_error", {"error": "KeyError", "message": "'fc'"}),
    # A connection, not a file.
    (
        TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
        "python_error",
        {"error": "TimeoutError", "message": "[Errno 110] Connection timed out"},
    ),
]


@pytest.mark.parametrize(("error", "code", "values"), CASES)
def test_errors_have_codes(
    error: Exception, code: str, values: dict[str, str], validate: Validate
) -> None:
    problem = problem_of(error, RUN_DIR)
    assert problem == Problem(code, values)
    record = failure_record(3, problem)
    assert record["message"] == problem.text
    validate(record, "rank_failure")


def test_every_code_of_the_schema_is_tested() -> None:
    schema = json.loads(Path("/schemas/rank_failure.schema.json").read_text())
    codes = {case["properties"]["code"]["const"] for case in schema["oneOf"]}
    # Those of places are written by the ranks of a user's own program (test_program.py).
    assert codes == {code for _, code, _ in CASES} | PLACES_OF_PROGRAMS


def test_long_messages_are_cut(validate: Validate) -> None:
    record = failure_record(0, problem_of(ValueError("ä" * 100_000 + "\udcff"), RUN_DIR))
    for text in (record["message"], record["values"]["message"]):
        assert MESSAGE_BYTES - 2 <= len(text.encode()) <= MESSAGE_BYTES
    validate(record, "rank_failure")


def test_a_rank_notes_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validate: Validate
) -> None:
    monkeypatch.setenv(RANK, "2")
    monkeypatch.setenv("TRAINYARD_RUN_DIR", str(tmp_path))
    note_failure(ConfigError("epochs must be at least 1"))
    (path,) = (tmp_path / "failures").iterdir()
    record = json.loads(path.read_text())
    assert (path.name, record["rank"], record["host"]) == ("rank-2.json", 2, socket.gethostname())
    validate(record, "rank_failure")


def test_who_is_no_rank_notes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RANK, raising=False)
    monkeypatch.setenv("TRAINYARD_RUN_DIR", str(tmp_path))
    note_failure(ConfigError("epochs must be at least 1"))
    monkeypatch.setenv(RANK, "0")
    monkeypatch.delenv("TRAINYARD_RUN_DIR")
    note_failure(ConfigError("epochs must be at least 1"))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_second_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real ENOSPC, and nothing half written is left."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        disk = os.statvfs(directory)
        filler = Path(directory, "filler")
        filler.write_bytes(bytes(disk.f_bavail * disk.f_frsize - disk.f_frsize))
        monkeypatch.setenv(RANK, "0")
        monkeypatch.setenv("TRAINYARD_RUN_DIR", directory)
        note_failure(ValueError("x" * MESSAGE_BYTES))
        assert not list(Path(directory, "failures").glob("*"))
        filler.unlink()
        note_failure(ValueError("x"))
        assert [path.name for path in Path(directory, "failures").iterdir()] == ["rank-0.json"]


def test_the_message_is_still_printed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["python3", "-m", "trainer", "train", "--config", str(tmp_path / "config.json")],
        env={**os.environ, RANK: "1", "TRAINYARD_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    record = json.loads((tmp_path / "failures" / "rank-1.json").read_text())
    assert record["code"] == "wrong_configuration"
    assert done.stderr == f"trainer: {record['message']}\n"
