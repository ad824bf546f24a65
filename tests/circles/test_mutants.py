"""What of mutation tests is computed here, and not by mutmut."""

import pytest
from mutants import module_name, modules_of, results, share, survivors, table
from units import ROOT

# As `mutmut results --all true` has it
SAID = """
    node.verdict.nodes.x__same__mutmut_1: killed
    node.verdict.nodes.x__same__mutmut_2: survived
    node.verdict.cluster.xǁClusterǁ__init____mutmut_1: timeout
    node.verdict.cluster.xǁClusterǁ__init____mutmut_2: no tests
    node.runs.lock.x_take__mutmut_1: not checked
"""
MODULES = ["node/verdict/cluster.py", "node/verdict/nodes.py"]


def test_modules_are_those_of_files_and_folders_that_have_code_of_ours() -> None:
    named = ["node/verdict/nodes.py", "trainer/optimizers.py", "docs/run.md", "gone.py", "Makefile"]
    assert modules_of(named) == ["node/verdict/nodes.py"]
    of_room = modules_of(["node/verdict"])
    assert set(MODULES) < set(of_room)
    assert "node/verdict/__init__.py" not in of_room
    assert all((ROOT / module).is_file() for module in of_room)


def test_what_no_test_noticed_is_counted_and_listed() -> None:
    found = results(SAID, MODULES)
    assert len(found) == 4
    assert survivors(found) == ["node.verdict.nodes.x__same__mutmut_2"]
    assert share(found.values()) == pytest.approx(200 / 3)
    assert [" ".join(line.split()[:7]) for line in table(found).splitlines()] == [
        "node.verdict.cluster 1 mutants, 100.0 % noticed; 1",
        "node.verdict.nodes 2 mutants, 50.0 % noticed; 0",
        "all 3 mutants, 66.7 % noticed; 1",
    ]
    assert table({"node.a.x_b__mutmut_1": "no tests"}).startswith("node.a      0 mutants,       -")
    assert module_name("node/verdict/nodes.py") == "node.verdict.nodes"
