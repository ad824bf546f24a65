"""Runs that an earlier version of Trainyard made, and what is said of those of a newer one.

`data/earlier/<commit>/` has manifest.json and summary.json as the code of that commit wrote them:
`write_manifest(read_manifest(run))` and `write_summary(summarise(read_run(run)))` there, of the
recorded run `killed` as it was at that commit. These are the commits after which one of the two had
other keys. All other files of the recorded runs are still those of the first commit.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from yard_command import DATA, RUN_ID, Yard

from yard.core.errors import OtherVersionError
from yard.core.project import Project
from yard.plays.inventory import read_inventory
from yard.runs.manifest import read_manifest
from yard.runs.retry import check_resumable
from yard.runs.setup_record import RECORD, read_record
from yard.runs.summary import read_summary

# By age. The first was made on 2026-11-20.
EARLIER = ("1f511a2", "c9d34ba", "d5c8917", "fbbee62", "c6abf8f", "8689350", "a393d63")
KEPT = ("manifest.json", "summary.json")


def test_no_earlier_form_is_left_out() -> None:
    assert {folder.name for folder in (DATA / "earlier").iterdir()} == set(EARLIER)


def run_of(commit: str, runs: Path) -> Path:
    """The run that was killed, in a directory as this commit left it."""
    run = runs / f"20261120T1120{EARLIER.index(commit):02d}Z{RUN_ID[16:]}"
    shutil.copytree(DATA / "runs/killed", run)
    for name in KEPT:
        text = (DATA / "earlier" / commit / name).read_text()
        run_id = json.loads(text)["run_id"]
        (run / name).write_text(text.replace(f'"{run_id}"', f'"{run.name}"'))
    return run


def newer(file: Path) -> None:
    """Have a file of a run say what only a later version knows."""
    file.write_text(json.dumps({**json.loads(file.read_text()), "of_a_later_version": True}))


@pytest.mark.promise("make runs")
def test_runs_of_all_earlier_versions_are_listed_and_compared(fresh: Yard) -> None:
    runs = [run_of(commit, fresh.root / "runs") for commit in EARLIER]
    table = fresh("runs")
    rows = [line.split() for line in table.stdout.splitlines() if line.startswith("2026")]
    # The newest stands first; all columns say what that version's own table said.
    assert [row[0] for row in rows] == [run.name for run in reversed(runs)]
    assert {row[1] for row in rows} == {"failed"}
    assert all("23.8 %" in " ".join(row) for row in rows)
    compared = fresh("report", ",".join(run.name for run in runs))
    assert compared.returncode == 0, compared.stderr


def test_the_report_and_the_logs_of_the_first_version(fresh: Yard) -> None:
    run = run_of("1f511a2", fresh.root / "runs")
    drawn = fresh("report", run.name)
    assert drawn.returncode == 0, drawn.stderr
    assert "was killed with signal 9" in (run / "report.html").read_text()
    assert "rank 1 of 2 on node2" in fresh("logs", run.name).stdout


@pytest.mark.parametrize("commit", EARLIER)
def test_a_run_goes_on_from_an_earlier_version(commit: str, tmp_path: Path) -> None:
    run = run_of(commit, tmp_path)
    (run / "checkpoints").mkdir()
    for name in ("epoch-1.pt", "epoch-1.pt.sha256"):
        (run / "checkpoints" / name).touch()
    check_resumable(run)
    summary, manifest = read_summary(run), read_manifest(run)
    assert summary is not None
    assert manifest is not None
    assert (summary.attempts, summary.warnings, manifest.gpus) == (1, (), {})


# Keys as of commit 1f511a2, which are those of today without `packages`; and one of tomorrow.
@pytest.mark.parametrize(("more", "is_known"), [({}, True), ({"of_a_later_version": 1}, False)])
def test_set_up_runs_where_the_record_of_the_last_one_is_not_known(
    more: dict[str, int], is_known: bool, fresh: Yard
) -> None:
    project = Project(fresh.root)
    inventory = read_inventory(project, fresh.root / "inventory/lab")
    record = {"when": "2026-11-20T12:00:00+00:00", "nodes": ["gpu01"], "datasets": [], **more}
    file = project.state(inventory.path) / RECORD
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**record, "fingerprint": {}}))
    assert (read_record(project, inventory) is not None) == is_known


@pytest.mark.parametrize("name", KEPT)
def test_a_run_of_a_newer_version_is_named_with_what_reads_it(name: str, tmp_path: Path) -> None:
    run = run_of("a393d63", tmp_path)
    newer(run / name)
    read = read_manifest if name == "manifest.json" else read_summary
    with pytest.raises(OtherVersionError) as caught:
        read(run)
    said = str(caught.value)
    assert said.startswith(f"{run.name}: {name} cannot be read by Trainyard ")
    assert "'of_a_later_version'" in said
    # What made it, and how to get that
    assert re.search(r"Trainyard [0-9.]+ made this run: read it with a checkout of \w{40},", said)


def test_a_run_of_a_newer_version_hides_no_other(ready: Yard) -> None:
    old, new = (run_of(commit, ready.root / "runs") for commit in ("1f511a2", "a393d63"))
    newer(new / "summary.json")
    refused = ready("report", new.name)
    assert refused.returncode == 2
    assert "made this run: read it with a checkout of" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "rank 1 of 2 on node2" in ready("logs", new.name).stdout
    listed = {
        line.split()[0]: line.split()[1] for line in ready("runs").stdout.splitlines() if line
    }
    assert (listed[old.name], listed[new.name]) == ("failed", "unreadable")
    assert ready("status").returncode == 0
