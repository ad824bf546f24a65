"""The verdict on a cluster, on the screen and on its page."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from yard.core.typed import TYPES_YARD
from yard.pages.verification import write_verification_page
from yard.runs.verdict import Check, Verdict
from yard.screen.verdict import show_findings, show_hardware
from yard.screen.verdict_cells import HARDWARE_HEADINGS, check_rows, hardware_cells


def gpu_state(node: str, ok: bool) -> Check:
    value = "answers" if ok else "GPU is lost"
    return Check("GPU state", ok=ok, where=(node,), value=value, limit="", unit="")


def test_a_node_passes_where_all_that_it_has_of_a_kind_passes() -> None:
    checks = [gpu_state("node1", True), gpu_state("node1", False), gpu_state("node2", True)]
    (row,) = check_rows([*checks, gpu_state("node2", True)])
    assert (row[0], row[1]) == (
        False,
        ("GPU state", "1 of 2 nodes", "answers, GPU is lost", ""),
    )
    (row,) = check_rows([gpu_state("node1", True), gpu_state("node1", True)])
    assert (row[0], row[1][1]) == (True, "1 node")


PORT = {
    "name": "mlx5_0:1",
    "link": "InfiniBand",
    "state": "ACTIVE",
    "rate": "200 Gb/sec (4X HDR)",
    "interface": "ib0",
}
NODE = {
    "cpu": {"model": "Xeon", "usable": 8, "cores": 8, "threads": 8, "numa_nodes": 1},
    "memory_bytes": 2**36,
    "disks": [],
    "gpus": [],
    "nics": [{"name": "ib0", "megabits_per_second": None}],
}
TEXT = "RDMA is there (mlx5_0:1) and TRANSPORT=tcp does not take it [sic]"
VERDICT = {
    "ok": True,
    "began_at": 1795600000.0,
    "seconds": 12.0,
    "hosts": ["node1", "node2"],
    "faults": [],
    "notes": [{"code": "rdma_unused", "hosts": ["node1", "node2"], "text": TEXT}],
    "checks": [],
    "bandwidth_gigabits": [[None, None], [None, None]],
    "latency_milliseconds": [[None, None], [None, None]],
}


def test_what_a_node_has_for_rdma_is_said_with_who_takes_it() -> None:
    assert hardware_cells(NODE)[-1] == "none"
    ways = {"ucx": "mlx5_0:1", "nccl": "mlx5_0:1"}
    assert hardware_cells({**NODE, "rdma": [PORT], "ways": ways})[-1] == (
        "mlx5_0:1 InfiniBand 200 Gb/sec (4X HDR) ACTIVE; UCX takes mlx5_0:1, NCCL takes mlx5_0:1"
    )
    assert len(HARDWARE_HEADINGS) == len(hardware_cells(NODE)) + 1  # and the node's name


def test_what_is_worth_knowing_is_on_the_screen_and_on_the_page(tmp_path: Path) -> None:
    verdict = Verdict.from_json(VERDICT)
    console = Console(file=io.StringIO(), width=100)
    show_findings(console, verdict)
    assert isinstance(console.file, io.StringIO)
    assert f"node1, node2  {TEXT}" in console.file.getvalue()
    page = write_verification_page(tmp_path, verdict).read_text()
    assert "Worth knowing" in page
    assert TEXT in page
    # A verdict of an earlier version has none.
    earlier = {key: value for key, value in VERDICT.items() if key != "notes"}
    assert Verdict.from_json(earlier).notes == ()


def test_the_last_line_names_who_is_at_fault() -> None:
    cause = {"reason": "memory: 1 GB", "remedy": "make setup", "times": 1}
    document = {
        **VERDICT,
        "ok": False,
        "faults": [{"who": who, "causes": [cause]} for who in ("node2", "node1 to node3")],
    }
    console = Console(file=io.StringIO(), width=100)
    show_findings(console, Verdict.from_json(document, lambda remedy: f"{remedy} INVENTORY=lab"))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert "    make setup INVENTORY=lab" in lines
    assert lines[-1] == "Not fit: node2, node1 to node3; 2 nodes looked at, 12 s"


@pytest.mark.parametrize(
    ("width", "begins"),
    [
        (200, ("node    processor", "node1   Xeon        8 ", "node2   Xeon        8 ")),
        (80, ("node1, node2", "  processor  Xeon", "  cores      8")),
    ],
)
def test_hardware_that_does_not_fit_the_screen_is_told_line_by_line(
    width: int, begins: tuple[str, ...]
) -> None:
    nics = [{"name": f"network{number}", "megabits_per_second": 10_000} for number in range(4)]
    console = Console(file=io.StringIO(), width=width)
    show_hardware(console, {host: {**NODE, "nics": nics} for host in ("node1", "node2")})
    show_hardware(console, {})
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(map(str.startswith, lines, begins)), lines
    assert len(lines) < 12


def test_on_a_terminal_a_long_cause_is_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TYPES_YARD, "1")
    cause = {"reason": "memory " * 20, "remedy": "look " * 12 + "make verify", "times": 1}
    faults = [{"who": "node2", "causes": [cause]}]
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None)
    show_findings(console, Verdict.from_json({**VERDICT, "ok": False, "faults": faults}))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue().splitlines()
    first = said.index(next(line for line in said if line.startswith("node2  memory")))
    assert [line[:8] for line in said[first + 1 : first + 5]] == [
        *("    memo", "    memo"),
        *("    look", "    look"),
    ]
    assert "yard verify" in console.file.getvalue()


def test_large_numbers_are_readable() -> None:
    check = Check("open files", True, ("node1",), 1048576, "at least 4096 files", "files")
    (row,) = check_rows([check])
    assert row[1][2] == "1,048,576 files"
