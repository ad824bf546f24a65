"""What the account of the ranks may not read or write, on nodes: root may do everything there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import RUNS, make
from machines import NODES, RUN_ROOT, in_machine
from test_own_data import DATA
from verdicts import verify

pytestmark = pytest.mark.usefixtures("ready_cluster")

READS = """
import os, pathlib, time
data = pathlib.Path(os.environ["TRAINYARD_DATA_DIR"])
for path in sorted(data.rglob("*.csv")):
    print(path.name, len(path.read_bytes()), flush=True)
time.sleep(120)
"""


@contextmanager
def mode(host: str, path: str, kept: str) -> Iterator[None]:
    """A path of a node that nobody but root may use."""
    before = in_machine(host, f"stat --format %a {path} && chmod {kept} {path}")
    try:
        yield
    finally:
        in_machine(host, f"chmod {before} {path}")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's program, which reads data that lie on both nodes."""
    folder = tmp_path_factory.mktemp("permissions")
    (folder / "secret").mkdir()
    (folder / "secret/labels.csv").write_text("a,1\n")
    (folder / "reads").mkdir()
    (folder / "reads/train.py").write_text(READS)
    assert make("data", SOURCE=folder / "secret", NAME="e2e-secret").status == 0
    return folder / "reads"


def test_a_verification_names_what_ranks_could_not_read_or_write() -> None:
    with mode(NODES[0], DATA, "700"), mode(NODES[1], RUN_ROOT, "700"):
        verdict = verify("nodes")
    assert verdict.outcome.status == 3
    assert {name: {*verdict.causes(name)} for name in NODES} == {
        NODES[0]: {"readable"},
        NODES[1]: {"writable"},
    }
    for said in (f"readable {DATA}", f"writable {RUN_ROOT}"):
        assert f"{said}: Permission denied" in verdict.outcome.output


def test_a_run_is_not_begun_on_data_that_its_ranks_could_not_read(program: Path) -> None:
    with mode(NODES[1], f"{DATA}/e2e-secret", "700"):
        outcome = make("train", CODE=program, DATASET="e2e-secret", NODES=2)
    assert outcome.status == 3
    assert f"the data set in {DATA}/e2e-secret cannot be read: Permission denied" in outcome.output
    assert NODES[1] in outcome.output
    assert in_machine(NODES[0], f"ls {RUN_ROOT}") == ""


def test_a_rank_that_may_not_read_a_file_is_named_with_it(program: Path) -> None:
    with mode(NODES[1], f"{DATA}/e2e-secret/labels.csv", "600"):
        outcome = make("train", CODE=program, DATASET="e2e-secret", NODES=2)
    assert outcome.status == 1
    diagnosis = json.loads((RUNS / "latest/summary.json").read_text())["diagnosis"]
    found = [diagnosis[name] for name in ("signature", "host", "rank")]
    assert found == ["file_denied", NODES[1], 1]
    said = "The account of the ranks may not read or write /data/e2e-secret/labels.csv"
    assert said in outcome.output
