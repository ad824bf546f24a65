"""Which runs and files of this checkout nothing needs any more, and why others stay."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from yard_command import DATA, Yard

from yard.commands import clean_up
from yard.core.context import Context
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.runs.folder import followed
from yard.runs.record import read_run
from yard.runs.summary import summarise, write_summary

Make = Callable[..., Path]


@pytest.fixture
def ended(tmp_path: Path) -> Make:
    """Makes a run that ended so many days ago."""

    def make(run_id: str, days: float, **changes: object) -> Path:
        run = tmp_path / "runs" / run_id
        shutil.copytree(DATA / "runs/succeeded", run)
        summary = replace(summarise(read_run(run)), **{"name": None, **changes})  # type: ignore[arg-type]
        write_summary(run, summary)
        moment = time.time() - days * clean_up.DAY
        os.utime(run / "summary.json", (moment, moment))
        return run

    return make


def why(run: Path, days: int | None, *unfinished: Path) -> str:
    return clean_up._why_a_run_stays(run, days, time.time(), unfinished)


def test_runs_past_the_limit_go(ended: Make) -> None:
    assert why(ended("old", 31), 30) == ""
    assert why(ended("young", 29), 30) == "younger than the limit"


def test_all_runs_stay_without_a_limit(ended: Make) -> None:
    assert why(ended("old", 4000), None) == "runs stay unless DAYS= gives a limit"


def test_many_that_stay_for_one_reason_have_one_row() -> None:
    runs = [clean_up.Thing(clean_up.HERE, "run", f"r{n}", 1000, "no limit") for n in range(9)]
    other = clean_up.Thing("node1", "image", "a", None, "in use")
    shown = [(thing.name, thing.bytes) for thing in clean_up._together([*runs, other])]
    assert shown == [("9 runs", 9000), ("a", None)]
    assert [*clean_up._together(runs[:5])] == runs[:5]
    needless = [replace(run, kept="") for run in runs]
    assert [*clean_up._together(needless)] == needless, "each that is removed is named"


def test_what_somebody_may_miss_stays(ended: Make) -> None:
    assert why(ended("named", 31, name="paper"), 30) == "it was given the name paper"
    parts = ended("parts", 31, missing_hosts=("node2",))
    assert why(parts, 30) == "a part of it is still on node2: make attach RUN=parts"
    unfinished = ended("unfinished", 31)
    (unfinished / "summary.json").unlink()
    assert why(unfinished, 30) == "it has no result: make attach RUN=unfinished"
    newer = ended("newer", 31)
    text = (newer / "summary.json").read_text()
    (newer / "summary.json").write_text(text.replace('"status"', '"state"'))
    assert why(newer, 30) == "a newer version of Trainyard wrote it, or it is damaged"
    run = ended("followed", 31)
    with followed(run):
        assert why(run, 30) == "a command follows it"
    # Its nodes are others' as yet: WAIT=1.
    waits = ended("waits", 31)
    document = json.loads((waits / "manifest.json").read_text())
    document["request"]["resume"] = run.name
    (waits / "manifest.json").write_text(json.dumps(document))
    assert why(run, 30, waits) == "waits goes on from it and is not over"


def test_packages_of_a_run_that_stays_stay_however_old_they_are(
    ended: Make, tmp_path: Path
) -> None:
    run = ended("20260101T000000Z_own_none_b0_e0_n2_p1", 4000)
    (run / "packages.txt").write_text("required\n")
    for name, days in (("required", 60), ("old", 60), ("young", 1)):
        layer = tmp_path / clean_up.PACKAGES / name
        layer.mkdir(parents=True)
        (layer / "packages.txt").write_text(f"{name}\n")
        moment = time.time() - days * clean_up.DAY
        os.utime(layer, (moment, moment))
    project = Project(tmp_path)
    context = Context(project, project.own_inventory, Console(), Interrupts())

    def kept(days: int | None) -> dict[str, str]:
        things = clean_up._things_here(context, days)
        return {thing.name: thing.kept for thing in things if thing.kind == "packages"}

    young = "younger than the limit"
    used = "a run that stays was launched with them"
    assert kept(None) == {"old": "", "required": used, "young": young}
    assert kept(30) == {"old": "", "required": "", "young": young}


def test_a_limit_below_a_day_is_refused(ready: Yard) -> None:
    done = ready("clean-up", "--days", "0")
    assert done.returncode == 2
    assert "DAYS: must be at least 1" in done.stdout + done.stderr


def test_a_node_that_cannot_tell_hides_no_other(ready: Yard) -> None:
    assert ready("setup").returncode == 0
    (ready.root / "nodes/node2/broken").touch()
    said = ready("clean-up")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "node2: there is no room; it was not looked at" in said.stdout
    assert "trainyard/trainer:old" in said.stdout


def test_nothing_is_removed_until_it_is_told(ready: Yard) -> None:
    run = ready.root / "runs/20260101T000000Z_vit_cifar10_b64_e2_n2_p1"
    shutil.copytree(DATA / "runs/succeeded", run)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "name": None}))
    write_summary(run, replace(summarise(read_run(run)), name=None))
    log = ready.root / ".trainyard/local/log/old.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("old\n")
    long_ago = time.time() - 60 * clean_up.DAY
    for path in (run / "summary.json", log):
        os.utime(path, (long_ago, long_ago))
    ready.environment["COLUMNS"] = "200"
    said = ready("clean-up", "--days", "30")
    assert said.returncode == 0, said.stdout + said.stderr
    needless, _, stays = said.stdout.partition("Stays")
    for name in (run.name, "old.log", "trainyard/trainer:old"):
        assert name in needless
    assert "trainyard/trainer:now" in stays
    assert "the image in use" in stays
    words = " ".join(stays.split())
    assert "it goes on there: make stop RUN=bench-20260101T000000Z ends it" in words
    assert "files that are not home: make stop RUN=verify-20260101T000000Z brings them" in words
    assert "apt-get (pid 12), since 2026-01-01 00:00 UTC" in words
    assert "it installs packages, perhaps of an interrupted set-up" in words
    assert run.is_dir()
    assert log.is_file()
    assert ready("clean-up", "--days", "30", "--yes").returncode == 0
    assert not run.exists()
    assert not log.exists()
    assert (ready.root / "removed").read_text() == "True\n"
