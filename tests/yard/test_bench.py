import io
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from yard.commands.bench import position
from yard.pages.bench_plot import draw_bench
from yard.screen.bench_tables import show_bench


@pytest.fixture
def result() -> dict[str, Any]:
    """Results of two ranks on a processor without bf16, so that one arm is missing."""
    speeds = {
        "one_rank": 62.4,
        "minimal": 63.0,
        "independent": 125.0,
        "synthetic": 126.3,
        "horovod": 122.5,
        "ddp_mpi": 117.1,
        "ddp_gloo": 110.9,
        "ddp_torchrun": 109.8,
    }
    ratios = {
        "horovod_over_ideal": 0.98,
        "ddp_mpi_over_ideal": 0.937,
        "ddp_gloo_over_ideal": 0.887,
        "ddp_torchrun_over_ideal": 0.878,
        "horovod_over_best_ddp": 1.046,
        "loop_over_minimal": 0.991,
        "real_over_synthetic": 0.99,
    }
    return {
        "hosts": ["node1", "node2"],
        "world_size": 2,
        "threads": 1,
        "device": "cpu",
        "labels": {
            "arms": {
                "independent": "all ranks, no communication",
                "synthetic": "all ranks, no communication, synthetic data",
                "bf16": "all ranks, no communication, bf16",
                "horovod": "Horovod",
                "ddp_mpi": "DDP, MPI",
                "ddp_gloo": "DDP, Gloo",
                "ddp_nccl": "DDP, NCCL",
                "ddp_torchrun": "DDP, torchrun",
            },
            "ratios": {
                "horovod_over_ideal": "Horovod / no communication",
                "bf16_over_fp32": "bf16 / fp32",
            },
            "matmul": {
                "one_rank": "one rank alone",
                "distributed": "one product, all ranks together",
            },
        },
        "efficiencies": {
            arm: f"{arm}_over_ideal"
            for arm in ("horovod", "ddp_mpi", "ddp_gloo", "ddp_nccl", "ddp_torchrun")
        },
        "matmul": {
            "size": 2048,
            "gflops": {"one_rank": 101.5, "all_ranks": 99.8, "distributed": 187.2},
        },
        "allreduce": [
            {"engine": engine, "bytes": size, "seconds": seconds * size, "gigabytes_per_second": 1}
            for engine, seconds in (("horovod", 3e-9), ("ddp_mpi", 2e-9), ("ddp_gloo", 4e-9))
            for size in (4096, 2**20)
        ],
        "throughput": {"vit": {"images_per_second": speeds, "ratios": ratios}},
    }


def test_tables(result: dict[str, Any]) -> None:
    out = io.StringIO()
    show_bench(Console(file=out, width=120), result)
    lines = [line.split("  ") for line in out.getvalue().splitlines()]
    shown = {words[0]: words[-1].strip() for words in lines}
    assert shown["2 ranks on 2 nodes, 1 thread a rank, on processors; medians over all turns"]
    assert shown["Horovod"] == "122.5"
    assert shown["Horovod / no communication"] == "0.980"
    # What nothing was measured of
    assert not {"all ranks, no communication, bf16", "DDP, NCCL", "bf16 / fp32"} & set(shown)
    assert shown["4 KiB"] == "0.02"
    assert shown["one product, all ranks together"] == "187.2"


def test_plot(result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "bench" / "results.svg"
    draw_bench(result, path)
    assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    text = path.read_text()
    assert "vit, DDP, torchrun" in text
    assert "NCCL" not in text
    before = path.read_bytes()
    result["throughput"]["vit"]["ratios"]["horovod_over_ideal"] = 0.5
    draw_bench(result, path)
    assert path.read_bytes() != before


def test_position_tells_what_is_left() -> None:
    whats = ["matrix products", "allreduce", "vit, round 1", "vit, round 2", "vit, round 3"]
    # The first two are over at once, a round takes a minute.
    lines = [
        {"what": what, "done": done, "parts": 7, "time": max(0, done - 2) * 60.0}
        for done, what in enumerate(whats)
    ]
    assert position(lines[:1]) == "part 1 of 7 · matrix products"
    assert position(lines[:3]) == "part 3 of 7 · vit, round 1"
    assert position(lines) == "part 5 of 7 · 3:00 left · vit, round 3"
