"""What a list of runs says, what people say of a run, and how one is deleted."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from browser import do
from rich.console import Console
from yard_command import DATA, REPOSITORY, Yard, made

from yard.core.errors import RequestError
from yard.core.files import room_of
from yard.operations.deletion import check_deletable, delete
from yard.pages.index import write_index
from yard.runs.folder import find_run, followed
from yard.runs.labels import FILE, Labels, label_run, read_labels
from yard.runs.overview import matching, overview_of
from yard.runs.record import read_run
from yard.runs.summary import summarise, write_summary
from yard.screen.tables import show_runs

Recorded = Callable[[str], Path]


def ended(run: Path, **changes: object) -> Path:
    write_summary(run, replace(summarise(read_run(run)), **changes))  # type: ignore[arg-type]
    return run


def heir_of(run: Path, name: str, **manifest: object) -> Path:
    heir = run.with_name(name)
    shutil.copytree(run, heir)
    document = json.loads((run / "manifest.json").read_text())
    (heir / "manifest.json").write_text(json.dumps({**document, "run_id": name, **manifest}))
    return heir


def test_a_run_is_found_by_all_that_is_said_of_it(recorded: Recorded) -> None:
    run = ended(heir_of(recorded("killed"), "20261121T000000Z_vit", number=7))
    label_run(run, ["paper", "paper", "lr-3"], "the one that died")
    (run / "manifest.json").write_text(
        (run / "manifest.json").read_text().replace('"run_id"', '"owner": "ada@desk", "run_id"', 1)
    )
    overview = overview_of(run)
    assert overview.labels == Labels(("paper", "lr-3"), "the one that died")
    assert overview.arguments.startswith("MODEL=vit NODES=2")
    assert find_run(run.parent, "vit-7") == run
    for words in (
        "",
        "vit-7",
        "FAILED paper",
        "ada@ died",
        "model=vit",
        run.name[:20],
        overview.cause[:12],
    ):
        assert matching([overview], words) == [overview], words
    assert matching([overview], "failed pepper") == []
    out = io.StringIO()
    show_runs(Console(file=out, width=200), [overview])
    text = out.getvalue()
    for shown in (
        "vit-7 first light #paper #lr-3",
        "the one that died",
        overview.cause,
        "MODEL=vit",
        "ada@desk",
    ):
        assert shown in text
    wide = io.StringIO()
    show_runs(Console(file=wide, width=200, force_terminal=True, color_system=None), [overview])
    assert re.search(r"^.{70,82}failed", wide.getvalue(), re.M), "not far apart"
    narrow = io.StringIO()
    show_runs(Console(file=narrow, width=80), [overview])
    lines = narrow.getvalue().splitlines()
    assert all(line.startswith((" ", "run ", run.name)) for line in lines), "the rest is indented"
    assert max(map(len, narrow.getvalue().splitlines())) <= 80
    assert re.search(rf"^{run.name} +failed", narrow.getvalue(), re.M), "whole, to be copied"
    page = write_index(run.parent).read_text()
    for shown in ('<span class="tag">paper</span>', "the one that died", "ada@desk", "vit-7 ·"):
        assert shown in page


def test_a_run_that_is_followed_trains_or_waits(recorded: Recorded) -> None:
    run = recorded("succeeded")
    assert overview_of(run).status == "unfinished"
    document = json.loads((run / "manifest.json").read_text())
    with followed(run):
        assert overview_of(run).status == "running"
        (run / "manifest.json").write_text(json.dumps({**document, "hosts": []}))
        assert overview_of(run).status == "waiting"


@pytest.mark.parametrize(
    ("tags", "note"), [(["a b"], None), ([f"t{n}" for n in range(21)], None), (None, "two\nlines")]
)
def test_what_is_no_tag_or_note_is_refused(
    recorded: Recorded, tags: list[str] | None, note: str | None
) -> None:
    run = recorded("succeeded")
    label_run(run, ["kept"], "kept")
    with pytest.raises(RequestError):
        label_run(run, tags, note)
    assert read_labels(run) == Labels(("kept",), "kept")
    (run / FILE).write_text('{"tags": ["<b>"], "note": 3}')
    assert read_labels(run) == Labels()


def test_a_run_that_somebody_needs_is_not_deleted(recorded: Recorded) -> None:
    run = recorded("succeeded")
    with pytest.raises(RequestError, match=f"make stop RUN={run.name} ends it"):
        check_deletable(run)
    ended(run)
    with followed(run), pytest.raises(RequestError, match="it is under way"):
        delete(run)
    ended(run, missing_hosts=("node2",))
    with pytest.raises(RequestError, match="still on node2: make attach"):
        delete(run)
    ended(run)
    heir = heir_of(run, "20261121T000000Z_heir", request={"resume": run.name})
    assert check_deletable(run) == [heir.name]
    (heir / "summary.json").unlink()
    with pytest.raises(RequestError, match=f"{heir.name} goes on from it and is not over"):
        delete(run)
    assert run.is_dir()
    shutil.rmtree(heir)
    document = json.loads((run / "manifest.json").read_text())
    weights = {**document["configuration"], "weights": str(run / "checkpoints/best.pt")}
    other = heir_of(run, "20261122T000000Z_other", configuration=weights)
    assert check_deletable(run) == [other.name]
    (run.parent / "latest").symlink_to(run.name)
    delete(run)
    assert not run.exists()
    assert os.readlink(run.parent / "latest") == other.name
    assert run.name not in (run.parent / "index.html").read_text()


def test_a_file_of_two_names_takes_room_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a/file").write_bytes(bytes(100_000))
    os.link(tmp_path / "a/file", tmp_path / "b/file")
    os.link(tmp_path / "a/file", tmp_path / "a/again")
    counted: set[tuple[int, int]] = set()
    assert 100_000 <= room_of(tmp_path / "a", counted) < 110_000
    assert room_of(tmp_path / "b", counted) == 0
    assert room_of(tmp_path / "b", set()) >= 100_000


@pytest.mark.promise(
    "make tag",
    "make tag RUN= TAGS=paper NOTE=",
    "make runs FIND=failed",
    "make clean-up RUN=",
)
def test_tags_are_given_and_found_and_a_run_deleted_by_commands(fresh: Yard) -> None:
    run = fresh.root / "runs/20261120T112000Z_vit_cifar10_b64_e5_n2_p1"
    shutil.copytree(DATA / "runs/succeeded", run)
    ended(run)
    said = fresh("tag", "latest" if (run.parent / "latest").exists() else "vit", "--tags", "good")
    assert (said.returncode, said.stdout) == (0, f"{run.name}: #good\n"), said.stderr
    listed = json.loads(fresh("runs", "--json", "--find", "good", "--last", "1").stdout)
    assert [(one["run_id"], one["tags"]) for one in listed] == [(run.name, "good")]
    assert listed[0]["bytes"] > 10_000
    assert "no run has all of these words: bad" in fresh("runs", "--find", "bad").stdout
    assert fresh("tag", "vit", "--tags", "").stdout == f"{run.name}: no tags and no note\n"
    asked = fresh("clean-up", "vit")
    assert (asked.returncode, run.is_dir()) == (2, True)
    assert "Delete" in asked.stderr
    assert "YES=1" in asked.stderr
    done = fresh("clean-up", "vit", "--yes")
    assert (done.returncode, run.exists()) == (0, False), done.stderr


@pytest.mark.process
def test_empty_variables_of_make_take_tags_away() -> None:
    assert "--tags=''" in made("tag", "TAGS=", "RUN=a")
    assert "--note='it'\\''s'" in made("tag", "NOTE=it's")
    assert made("clean-up", "RUN=a b", "YES=1").endswith("clean-up 'a b'  --yes")


@pytest.mark.process
def test_the_page_on_disk_filters_and_sorts(recorded: Recorded) -> None:
    run = ended(recorded("succeeded"))
    slow = ended(heir_of(run, "20261121T000000Z_slow"), seconds_total=9999.0, status="failed")
    label_run(slow, ["odd"], "")
    seen = do(
        write_index(run.parent),
        """
        const search = document.querySelector("input");
        const rows = [...document.querySelectorAll("tbody tr")];
        const names = (some) => some.map((row) => row.id);
        const order = () => names([...document.querySelectorAll("tbody tr")]);
        const type = (text) => {
          search.value = text;
          search.oninput();
          return names(rows.filter((row) => !row.hidden));
        };
        const heads = [...document.querySelectorAll("th button")];
        const press = (name) => heads.find((head) => head.textContent === name).click();
        const found = [type("ODD failed"), type("nothing"), type("")];
        press("time");
        const down = order();
        press("time");
        // No heading is broken where its column has nothing, and another one much.
        document.querySelector("td.what").append(" a long cause".repeat(20));
        for (const cell of document.querySelectorAll("td.curve")) cell.replaceChildren();
        const lines = [...document.querySelectorAll("thead th")].map((head) => {
          const text = document.createRange();
          text.selectNodeContents(head.querySelector("button") ?? head);
          return new Set([...text.getClientRects()].map((box) => box.top)).size;
        });
        return [...found, down, order(), Math.max(...lines)];
        """,
    )
    assert seen == [
        [slow.name],
        [],
        [slow.name, run.name],
        [slow.name, run.name],
        [run.name, slow.name],
        1,
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [["-m", "yard", "runs", "--csv"], ["yard/make_help.py", "Makefile", "all"]]
)
def test_a_reader_that_has_seen_enough_is_no_error(words: list[str]) -> None:
    there, ours = os.pipe()
    os.close(there)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TRAINYARD_TYPES_YARD": "1"},
        stdout=ours,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(ours)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_error(fresh: Yard, closed: str) -> None:
    command = shlex.join(fresh.command("stop", "nosuch"))
    done = subprocess.run(
        ["bash", "-c", f"{command} {closed}"],
        cwd=fresh.root,
        env=fresh.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr in ("", "yard: run 'nosuch': there are no runs yet\n")
