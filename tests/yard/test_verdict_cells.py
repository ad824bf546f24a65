"""The rows of checks in the verdict on a cluster."""

from yard.runs.verdict import Check
from yard.screen.verdict_cells import check_rows


def gpu_state(node: str, ok: bool) -> Check:
    value = "answers" if ok else "GPU is lost"
    return Check("GPU state", ok=ok, where=(node,), value=value, limit="", unit="")


def test_a_node_passes_where_all_that_it_has_of_a_kind_passes() -> None:
    checks = [gpu_state("node1", True), gpu_state("node1", False), gpu_state("node2", True)]
    (row,) = check_rows([*checks, gpu_state("node2", True)])
    assert (row.ok, row.cells) == (
        False,
        ("GPU state", "1 of 2 nodes", "answers, GPU is lost", ""),
    )
    (row,) = check_rows([gpu_state("node1", True), gpu_state("node1", True)])
    assert (row.ok, row.cells[1]) == (True, "1 nodes")
