"""What containers get of a machine's devices, by its CDI specifications."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.machine.cdi import Edits, SpecificationError, find_specification
from node.machine.gpus import Gpu, parse_gpus

# As `nvidia-ctk cdi generate` of toolkit 1.20 writes it, in part.
DOCUMENT: dict[str, Any] = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
        {
            "name": "1",
            "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1", "hostPath": "/host/1"}]},
        },
    ],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [{"path": "/dev/nvidiactl"}],
        "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook"}],
        "mounts": [
            {
                "hostPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01",
                "containerPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01",
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
        ],
    },
}


def gpus(count: int) -> list[Gpu]:
    form = "{0}, GPU-{0}, NVIDIA A100, 00000000:0{0}:00.0, 550.163.01, 40960, 33, 0, 8.0, Disabled"
    return parse_gpus("\n".join(map(form.format, range(count))))


def write(path: Path, document: Any) -> str:
    """Write a specification; return its folder."""
    path.parent.mkdir(exist_ok=True)
    text = yaml.safe_dump(document) if path.suffix == ".yaml" else json.dumps(document)
    path.write_text(text)
    return str(path.parent)


@pytest.mark.parametrize("name", ["nvidia.json", "nvidia.yaml"])
def test_a_container_gets_the_gpus_that_it_asks_for(name: str, tmp_path: Path) -> None:
    found = find_specification([write(tmp_path / "cdi" / name, DOCUMENT)])
    assert found is not None
    assert found.release == "550.163.01"
    assert found.names_of(gpus(2)) == ["0", "1"]
    library = DOCUMENT["containerEdits"]["mounts"][0]["hostPath"]
    assert found.edits(["1"]) == Edits(
        environment={"NVIDIA_VISIBLE_DEVICES": "void"},
        devices={"/dev/nvidiactl": "/dev/nvidiactl", "/host/1": "/dev/nvidia1"},
        mounts={library: library},
    )
    with pytest.raises(SpecificationError, match="no device for GPU 2"):
        found.names_of(gpus(3))
    with pytest.raises(SpecificationError, match=r"no device nvidia[.]com/gpu=7"):
        found.edits(["7"])


def test_gpus_may_be_named_by_uuid(tmp_path: Path) -> None:
    device = {"name": "GPU-0", "containerEdits": {}}
    folder = write(tmp_path / "cdi/a.json", {**DOCUMENT, "devices": [device]})
    found = find_specification([folder])
    assert found is not None
    assert found.names_of(gpus(1)) == ["GPU-0"]


def test_the_later_folder_counts(tmp_path: Path) -> None:
    older = write(tmp_path / "etc/nvidia.json", DOCUMENT)
    text = json.dumps(DOCUMENT).replace("550.163.01", "580.65.06")
    newer = write(tmp_path / "run/nvidia.yaml", json.loads(text))
    write(tmp_path / "run/other.json", {"kind": "other.org/thing", "devices": []})
    found = find_specification([older, newer])
    assert found is not None
    assert (found.release, found.path) == ("580.65.06", f"{newer}/nvidia.yaml")
    assert find_specification([str(tmp_path / "none")]) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", "[]"),
        ("a.json", '{"kind": "nvidia.com/gpu"}'),
        ("a.yaml", "kind: ["),
    ],
)
def test_one_that_is_none_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecificationError, match=name):
        find_specification([str(tmp_path)])


def test_yaml_needs_a_package_and_json_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    with pytest.raises(SpecificationError, match="is YAML: install python3-yaml, or write JSON"):
        find_specification([str(tmp_path)])
    write(tmp_path / "nvidia.json", DOCUMENT)
    found = find_specification([str(tmp_path)])
    assert found is not None
    assert set(found.devices) == {"0", "1"}
