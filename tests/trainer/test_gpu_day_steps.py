"""The steps of `make gpu-day`, with the processor as a stand-in for the GPU, everything small.

It shows that the steps' own code runs, from the command to the document. What a GPU does is not
shown.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path("/checkout")
# Each starts Python at least once; most others do nothing that these do not.
STEPS = "products,two-ranks,gloo-two-ranks,resnet18"


@pytest.mark.promise("make gpu-day")
@pytest.mark.data
def test_steps_run_on_a_stand_in(small_cifar10: Path, tmp_path: Path) -> None:
    options: list[str | Path] = ["--python", sys.executable, "--out", tmp_path]
    options += ["--data", small_cifar10]
    done = subprocess.run(
        [sys.executable, CHECKOUT / "tests/gpu/day.py", "--stand-in", "--steps", STEPS, *options],
        capture_output=True,
        text=True,
    )
    document = json.loads((tmp_path / "gpu-day.json").read_text())
    results = {result["name"]: result for result in document["results"]}
    outcomes = {name: result["outcome"] for name, result in results.items()}
    assert outcomes == {
        "image": "left out",
        "torch": "passed",
        "products": "passed",
        "data": "passed",
        "two-ranks": "passed",
        "gloo-two-ranks": "passed",
        # A small model does not get there in an epoch.
        "resnet18": "failed",
    }, done.stdout + done.stderr
    assert done.returncode == 1
    assert "the mark is 95 %" in results["resnet18"]["reason"]
    assert results["gloo-two-ranks"]["figures"]["ranks"] == 2
    assert results["gloo-two-ranks"]["figures"]["wrong elements"] == 0
    assert results["two-ranks"]["figures"]["images/s"] > 0
    for name in ("products", "two-ranks"):
        assert results[name]["way"] == "straight"
    text = (tmp_path / "gpu-day.md").read_text()
    assert "A processor stood in for the GPU" in text
