"""Short runs in a row leave nothing: TRAINYARD_SHORT_RUNS=100 for a long row."""

import os
from pathlib import Path

import pytest
from commands import make
from machines import CHECKOUT, NODES, in_machine

# What the memory in use may grow by, in bytes. Of a hundred runs that is 3 MiB each.
SCATTER = 300 * 2**20
SHORT = {"MODEL": "cnn_a", "NODES": 2, "EPOCHS": 1, "TRAIN_IMAGES": 64, "BATCH": 16}


def processes_of_the_checkout() -> int:
    """Processes of the control node that have something to do with this checkout."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return sum(str(CHECKOUT) in line for line in lines)


def memory_in_use() -> int:
    """Bytes that are neither free nor a mere cache, on this machine, which carries the nodes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kibibytes = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)
    }
    return 1024 * (kibibytes["MemTotal"] - kibibytes["MemAvailable"])


def state(temporary: Path) -> dict[str, object]:
    """All that a run must leave as it was.

    Args:
        temporary: the folder for temporary files of the runs, and of nobody else.
    """
    found: dict[str, object] = {
        "temporary files": set(os.listdir(temporary)),
        "processes": processes_of_the_checkout(),
        "ansible": set(os.listdir(CHECKOUT / ".trainyard/tmp")),
    }
    for host in NODES:
        found[f"containers on {host}"] = in_machine(host, "docker ps --all --quiet")
        found[f"volumes on {host}"] = in_machine(host, "docker volume ls --quiet")
        found[f"files on {host}"] = in_machine(host, "ls -A /srv/trainyard/runs /tmp /dev/shm")
        found[f"processes on {host}"] = in_machine(
            host, "ps -e -o comm= | grep -c -E 'shim|python|mpirun|prte' || true"
        )
    return found


def test_runs_in_a_row_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # The first one may warm caches and connections.
    assert make("train", **SHORT).status == 0
    before, used = state(tmp_path), memory_in_use()
    runs = int(os.environ.get("TRAINYARD_SHORT_RUNS", "2"))
    for _ in range(runs):
        assert make("train", **SHORT).status == 0
    assert state(tmp_path) == before
    grown = memory_in_use() - used
    print(f"{runs} runs; the memory in use grew by {grown / 2**20:.0f} MiB")
    assert grown < SCATTER
