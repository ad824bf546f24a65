"""What the engine is asked for where a run has GPUs."""

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.local_cluster_gpus import GpuMachine

from node.engine import gpus as engine_gpus
from node.engine.containers import EngineError
from node.machine import gpus

MACHINE = GpuMachine("a100", 3, "550.163.01")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What an engine that reads specifications, of three GPUs, tells of itself."""
    (tmp_path / "nvidia.json").write_text(json.dumps(MACHINE.specification()))
    told: dict[str, Any] = {"Runtimes": {"runc": {}}, "CDISpecDirs": [str(tmp_path)]}
    there = gpus.parse_gpus(MACHINE.answers()["gpus"])
    monkeypatch.setattr(engine_gpus, "read_gpus", lambda: (there, ""))
    monkeypatch.setattr(engine_gpus, "get", lambda path: told)
    return told


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("all", ["0", "1", "2"]),
        ("2, 0", ["2", "0"]),
        (MACHINE.uuids[1], ["1"]),
    ],
)
def test_gpus_are_asked_for_by_the_names_of_the_specification(
    engine: dict[str, Any], asked: str, names: list[str]
) -> None:
    assert engine_gpus.gpu_host_configuration(asked) == {
        "DeviceRequests": [
            {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={name}" for name in names]}
        ]
    }


@pytest.mark.parametrize(
    ("asked", "count", "devices"), [("all", -1, []), ("1, 0", 0, ["1", "0"]), ("0", 0, ["0"])]
)
def test_an_older_engine_is_asked_for_them_in_its_own_way(
    engine: dict[str, Any], asked: str, count: int, devices: list[str]
) -> None:
    del engine["CDISpecDirs"]
    request = {
        "Driver": "nvidia",
        "Capabilities": [["gpu", "compute", "utility"]],
        "Count": count,
        "DeviceIDs": devices,
    }
    assert engine_gpus.gpu_host_configuration(asked) == {"DeviceRequests": [request]}
    engine["Runtimes"]["nvidia"] = {}
    with_runtime = {"DeviceRequests": [request], "Runtime": "nvidia"}
    assert engine_gpus.gpu_host_configuration(asked) == with_runtime


def test_no_gpus_are_asked_for_without_a_question() -> None:
    assert engine_gpus.gpu_host_configuration("") == {}


def test_what_the_specification_lacks_is_named(engine: dict[str, Any], tmp_path: Path) -> None:
    less = GpuMachine("a100", 2, "550.163.01").specification()
    (tmp_path / "nvidia.json").write_text(json.dumps(less))
    with pytest.raises(EngineError, match=r"nvidia\.json has no device for GPU 2"):
        engine_gpus.gpu_host_configuration("2")
    (tmp_path / "nvidia.json").write_text("{")
    with pytest.raises(EngineError, match=r"nvidia\.json: "):
        engine_gpus.gpu_host_configuration("0")
    engine["Runtimes"]["nvidia"] = {}
    assert engine_gpus.gpu_host_configuration("0")["Runtime"] == "nvidia"


def test_an_account_without_an_engine_needs_a_specification(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine_gpus, "is_native", lambda: True)
    monkeypatch.setattr(engine_gpus, "find_specification", lambda: None)
    with pytest.raises(EngineError, match="there is no CDI specification"):
        engine_gpus.gpu_host_configuration("0")
