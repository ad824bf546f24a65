"""What a run writes beside its metrics: TensorBoard's files, samples of the node."""

import importlib.util
import json
import os
import struct
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from trainer.metrics import MetricsLine, Position
from trainer.tensorboard import EventWriter, masked_crc
from trainer.utilisation import AmdGpus, Gpus, GpuSample, UtilisationSampler


def records(path: Path) -> list[bytes]:
    """The records of a TFRecord file, all checked by their checksums."""
    content, data_of_records = path.read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        data = content[12 : 12 + length]
        assert content[8:12] == struct.pack("<I", masked_crc(content[:8]))
        assert content[12 + length : 16 + length] == struct.pack("<I", masked_crc(data))
        data_of_records.append(data)
        content = content[16 + length :]
    return data_of_records


def test_checksum_is_crc32c() -> None:
    # The check value of CRC-32C is E3069283 (RFC 3720); masked as TFRecord does.
    crc = 0xE3069283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_events_hold_the_scalars(tmp_path: Path) -> None:
    position = Position(300, 400, 1, 1, 19200)
    with closing(EventWriter(tmp_path)) as write:
        write(MetricsLine("start", 12.5, position, loss=0.5))
        write(MetricsLine("step", 12.5, position, loss=0.5))
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    version, event = records(path)
    assert version.endswith(b"brain.Event:2")
    # Bytes as protoc's own encoder gives them: wall_time, step (300 is AC 02), summary.
    value = b"\x0a\x0atrain/loss" + b"\x15" + struct.pack("<f", 0.5)
    summary = b"\x0a" + bytes([len(value)]) + value
    assert event == (
        b"\x09"
        + struct.pack("<d", 12.5)
        + b"\x10\xac\x02"
        + b"\x2a"
        + bytes([len(summary)])
        + summary
    )


def test_events_hold_what_the_end_says_of_classes(tmp_path: Path) -> None:
    results = {"classes": ["cat", "dog", "none"], "test_confusion": [[3, 1, 0], [0, 2, 0], [0] * 3]}
    with closing(EventWriter(tmp_path)) as write:
        write(MetricsLine("end", 12.5, Position(1, 1, 1, 1, 9), results=results))
    (path,) = tmp_path.iterdir()
    _, event = records(path)
    for tag, value in ((b"test_accuracy/cat", 0.75), (b"test_accuracy/dog", 1.0)):
        assert tag + b"\x15" + struct.pack("<f", value) in event
    assert b"test_accuracy/none" not in event
    table = b"|  | cat | dog | none |\n| --- | --- | --- | --- |\n| cat | 3 | 1 | 0 |\n"
    assert table + b"| dog | 0 | 2 | 0 |\n| none | 0 | 0 | 0 |" in event
    # Bytes as protoc's own encoder gives them: metadata, with its plugin_data.
    assert event.endswith(b"\x4a\x08\x0a\x06\x0a\x04text")


def test_samples_name_memory_by_rank(tmp_path: Path) -> None:
    path = tmp_path / "nodes" / "node1" / "utilisation.jsonl"
    with UtilisationSampler(path, lambda: {3: os.getpid()}, every=0.05):
        deadline = time.monotonic() + 10
        while not (path.exists() and path.read_text().count("\n") >= 2):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    first, *_ = map(json.loads, path.read_text().splitlines())
    named = {"time", "cpu_percent", "memory_bytes", "rss_bytes", "gpus", "connected"}
    assert (set(first), first["connected"]) == (named, None)
    assert list(first["rss_bytes"]) == ["3"]
    own = psutil.Process().memory_info().rss
    assert abs(first["rss_bytes"]["3"] - own) < 0.2 * own
    assert own < first["memory_bytes"] * 2
    assert 0 <= first["cpu_percent"] <= 100


def test_without_a_driver_there_are_no_gpus() -> None:
    # The package that asks is in the image; there is nothing here that would answer.
    assert importlib.util.find_spec("pynvml") is not None
    assert Gpus().sample() == []


def test_nvml_is_asked_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of NVML's library, which knows no power; its names are those of the package."""
    import pynvml

    class Nvml:
        NVMLError = pynvml.NVMLError
        nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
        nvmlClocksThrottleReasonSwThermalSlowdown = 0x20

        def nvmlInit(self) -> None:
            """It is there."""

        def nvmlDeviceGetCount(self) -> int:
            return 2

        def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
            return index

        def nvmlDeviceGetName(self, handle: int) -> str:
            return f"card {handle}"

        def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
            return SimpleNamespace(gpu=41 + handle, memory=3)

        def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
            return SimpleNamespace(used=5, total=9)

        def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

        def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
            assert sensor == pynvml.NVML_TEMPERATURE_GPU
            return 60

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
            return (0x1 | 0x4, 0x20)[handle]

    assert {name for name in vars(Nvml) if name.startswith(("nvml", "NVML"))} <= vars(pynvml).keys()
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    assert Gpus().sample() == [
        GpuSample(0, "card 0", 41, 5, None, 60, False),
        GpuSample(1, "card 1", 42, 5, None, 60, True),
    ]


def test_a_container_tells_of_the_amd_gpus_that_it_was_given(tmp_path: Path) -> None:
    """Files stand for the cards of a node; the third is of another vendor, the second not given."""
    drm, dri = tmp_path / "drm", tmp_path / "dri"
    dri.mkdir()
    for minor, vendor in ((130, "0x1002"), (129, "0x1002"), (128, "0x10de"), (131, "0x1002")):
        card = tmp_path / f"devices/0000:{minor - 100:02x}:00.0"
        told = {
            "vendor": vendor,
            "device": "0x740f",
            "gpu_busy_percent": "87",
            "mem_info_vram_used": "11743232",
            "hwmon/hwmon7/power1_average": "41000000",
            "hwmon/hwmon7/temp2_input": "37000",
        }
        for name, text in told.items():
            (card / name).parent.mkdir(parents=True, exist_ok=True)
            (card / name).write_text(f"{text}\n")
        (drm / f"renderD{minor}").mkdir(parents=True)
        (drm / f"renderD{minor}/device").symlink_to(card)
        if minor != 129:
            (dri / f"renderD{minor}").touch()
    (tmp_path / "devices/0000:1f:00.0/product_name").write_text("AMD Instinct MI210\n")
    (tmp_path / "devices/0000:1f:00.0/gpu_busy_percent").unlink()
    gpus = AmdGpus(drm, dri)
    assert gpus.sample() == [
        GpuSample(0, "AMD GPU 0x740f", 87, 11743232, 41.0, 37.0, None),
        GpuSample(1, "AMD Instinct MI210", None, 11743232, 41.0, 37.0, None),
    ]
    assert AmdGpus(drm, tmp_path / "none").sample() == []
