"""The module that programs report by, and what the image adds to Python beside it."""

import importlib
import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

SOURCE = "docker/trainer/python/trainyard_run.py"
# It is on the path in the image alone.
trainyard_run: Any = importlib.import_module(Path(SOURCE).stem)


def test_numbers_of_numpy_and_torch_are_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_METRICS", str(tmp_path / "metrics.jsonl"))
    monkeypatch.setenv("RANK", "0")
    numbers = {
        "step": np.int64(3),
        "loss": torch.tensor(0.5, requires_grad=True),
        "accuracy": np.float32(0.25),
        "rate": torch.tensor([2]),
        "part": Fraction(1, 4),
        "half": torch.tensor(1.5, dtype=torch.bfloat16),
        "cost": Decimal("2.5"),
    }
    trainyard_run.log(**numbers)
    line = json.loads((tmp_path / "metrics.jsonl").read_text())
    del line["time"]
    assert line == {
        **{"step": 3, "loss": 0.5, "accuracy": 0.25, "rate": 2},
        **{"part": 0.25, "half": 1.5, "cost": 2.5},
    }


class Meter:
    """Gives its value in a way of its own, and not always."""

    def __float__(self) -> float:
        raise RuntimeError("nothing was measured")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.ones(2, 3), r"losses is not logged: Tensor of the shape \(2, 3\)"),
        (np.zeros(0), r"losses is not logged: ndarray of the shape \(0,\)"),
        ([torch.ones(2)], "losses is not logged: list is no number"),
        ("0.5", "losses is not logged: str is no number"),
        (Meter(), "losses is not logged: nothing was measured"),
        (np.complex64(1), r"losses is not logged: .*complex"),
        (object(), "losses is not logged: object is no number"),
    ],
)
def test_what_is_no_number_ends_no_program(
    value: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The argument is named, and the others count."""
    monkeypatch.setenv("TRAINYARD_METRICS", str(tmp_path / "metrics.jsonl"))
    monkeypatch.setenv("RANK", "0")
    with pytest.warns(UserWarning, match=said):
        trainyard_run.log(step=3, losses=value)
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["step"] == 3


def test_a_crash_says_in_which_line_it_was(tmp_path: Path) -> None:
    """By what Python in the image imports at its start."""
    program = tmp_path / "train.py"
    program.write_text("import ctypes\ndef step():\n    ctypes.string_at(0)\nstep()\n")
    environment = {**os.environ, "TRAINYARD_OUTPUT_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, program], env=environment, stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGSEGV
    assert f'File "{program}", line 3 in step'.encode() in done.stderr
