"""What a node tells of itself: how busy it is, and how far its runs are."""

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from node.machine import load as machine
from node.runs import listing

RUN = "20261120T112000Z_vit"


class FakeNvml:
    """The part of NVIDIA's driver that is asked, on a machine with three GPUs.

    The second one tells nothing of itself, the third has fallen off the bus.
    """

    BASE = 0x7F0000000001

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 3
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:
        handle._obj.value = self.BASE + index
        return 15 if index == 2 else 0

    def nvmlDeviceGetName(self, handle: Any, name: Any, size: int) -> int:
        name.value = b"H100"
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle: Any, told: Any) -> int:
        told._obj.gpu, told._obj.memory = 87, 12
        return 0 if handle.value == self.BASE else 3

    def nvmlDeviceGetMemoryInfo(self, handle: Any, told: Any) -> int:
        told._obj.total, told._obj.free, told._obj.used = 80 * 10**9, 50 * 10**9, 30 * 10**9
        return 0 if handle.value == self.BASE else 3


def look_at(proc: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> Any:
    (proc / "stat").write_text(f"cpu  {line}\ncpu0 1 2 3\n")
    monkeypatch.setattr(machine, "PROC", str(proc))
    return machine.ProcessorLook()


@pytest.mark.parametrize(
    ("later", "percent"),
    [
        # user nice system idle iowait irq softirq steal guest guest_nice
        ("130 0 120 1025 25 0 0 0 30 0", 50.0),
        ("100 0 100 1100 0 0 0 0 0 0", 0.0),
        ("200 0 100 1000 0 0 0 0 99 0", 100.0),
        ("100 0 100 1000 0 0 0 0 0 0", None),
    ],
)
def test_the_processor_is_busy_where_it_is_not_idle(
    later: str, percent: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look_at(tmp_path, monkeypatch, "100 0 100 1000 0 0 0 0 0 0")
    assert before.percent_until(look_at(tmp_path, monkeypatch, later)) == percent


def test_memory_that_programs_could_have_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\nHugePages_Total:  0\n"
    (tmp_path / "meminfo").write_text(text)
    monkeypatch.setattr(machine, "PROC", str(tmp_path))
    assert machine.memory() == {
        "memory_bytes": 1000 * 1024,
        "memory_used_bytes": 400 * 1024,
    }


def test_the_disk_is_that_of_the_runs_and_may_be_away(tmp_path: Path) -> None:
    told = machine.disk(str(tmp_path))
    assert 0 <= (told["disk_free_bytes"] or -1) <= (told["disk_bytes"] or -1)
    assert set(machine.disk(str(tmp_path / "away")).values()) == {None}


def test_gpus_are_asked_of_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", {"libnvidia-ml.so.1": FakeNvml()}.__getitem__)
    assert machine.Gpus().sample() == [
        {
            **{"index": 0, "name": "H100", "utilisation_percent": 87},
            **{"memory_used_bytes": 30 * 10**9, "memory_bytes": 80 * 10**9},
        },
        {
            **{"index": 1, "name": "H100", "utilisation_percent": None},
            **{"memory_used_bytes": None, "memory_bytes": None},
        },
    ]


def test_the_driver_is_let_go_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    nvml = FakeNvml()
    monkeypatch.setattr(nvml, "nvmlShutdown", lambda: ended.append(True), raising=False)
    monkeypatch.setattr(ctypes, "CDLL", {"libnvidia-ml.so.1": nvml}.__getitem__)
    gpus = machine.Gpus()
    gpus.close()
    gpus.close()
    assert (gpus.sample(), ended) == ([], [True])


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "NVML", "libof-no-driver.so")
    gpus = machine.Gpus()
    assert gpus.sample() == []
    gpus.close()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node whose engine has one running container, of `RUN`."""
    container = {"Labels": {"trainyard.run": RUN}, "State": "running"}
    monkeypatch.setattr(listing, "containers", lambda *asked: [container])
    (tmp_path / RUN / "work/logs").mkdir(parents=True)
    return tmp_path


def state(root: Path) -> dict[str, Any]:
    (run,) = listing.runs_of(str(root), "node2")
    assert run["run"] == RUN
    told: dict[str, Any] = run
    return told


def test_a_node_without_metrics_runs_when_its_ranks_have_begun(root: Path) -> None:
    (root / RUN / "work/logs/mpirun.log").touch()
    assert state(root)["state"] == "starting"
    (root / RUN / "work/logs/rank-1.log").touch()
    assert state(root)["state"] == "running"
    assert (state(root)["metric"], state(root)["nodes"]) == (None, ["node2"])
    assert state(root)["said"] == ""
    (root / RUN / "work/logs/rank-0.log").write_text("x" * 9000 + "\r 40%|##  | 40/100")
    assert state(root)["said"].endswith("x\r 40%|##  | 40/100")
    assert len(state(root)["said"]) == 2000
    (root / RUN / "work/metrics.jsonl").write_text('{"step": 1}\n')
    assert state(root)["said"] == ""


def test_what_has_no_container_has_ended(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / RUN / "work/logs/rank-1.log").touch()
    monkeypatch.setattr(listing, "containers", lambda *asked: [])
    assert state(root)["state"] == "ended"


@pytest.mark.parametrize(
    ("lines", "earlier"),
    [
        # Of an attempt that went on from step 3, its beginning.
        ([("start", 0), ("step", 5), ("start", 3), ("step", 4), ("step", 6)], ("start", 3)),
        # Of a long run whose beginning is out of reach, the first line that is read.
        ([("step", 40), ("epoch", 40), ("step", 50)], ("step", 40)),
    ],
)
def test_the_pace_begins_with_the_newest_attempt(
    lines: list[tuple[str, int]], earlier: tuple[str, int], root: Path
) -> None:
    told = [{"event": event, "step": step} for event, step in lines]
    text = "".join(json.dumps(line) + "\n" for line in [{"word": 1}, *told])
    (root / RUN / "work/metrics.jsonl").write_text(
        text + '["odd"]\n{\n' + text.splitlines()[-1] + "\n"
    )
    run = state(root)
    assert run["metric"] == told[-1]
    assert (run["earlier"]["event"], run["earlier"]["step"]) == earlier
