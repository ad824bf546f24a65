"""The page of a run of a program of the user's own."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import show
from extend import end_ranks, make_project, sample_the_nodes, write_lines

from yard.operations.ending import conclude
from yard.pages.comparison import write_comparison
from yard.pages.index import write_index
from yard.pages.reading_charts import MOST_CHARTS, curve_of, names_left_out, reading_charts
from yard.pages.report import write_report
from yard.pages.timeline import program_timeline
from yard.runs.readings import known_readings
from yard.runs.record import read_run, read_spells

LONG = "a number whose name is as long as a name may be, /of 64 letters/"


def lines() -> list[dict[str, Any]]:
    """Two epochs of a program: a line each ten steps, and one of each epoch without a step."""
    steps = [
        {
            "time": 1795173612.0 + step,
            "step": step,
            "steps": 200,
            "acc": 0.4 + step / 1000,
            LONG: 1e7 / step,
            "loss": 2.5 * math.exp(-step / 90),
        }
        for step in range(10, 201, 10)
    ]
    return [*steps[:10], {"epoch": 1, "val/acc": 0.41}, *steps[10:], {"epoch": 2, "val/acc": 0.5}]


@pytest.fixture
def run(recorded: Callable[[str], Path]) -> Path:
    """A run of a program that ended well, said much and left files."""
    run = recorded("succeeded")
    sample_the_nodes(run)
    make_project(run)
    end_ranks(run, 0, 0)
    write_lines(run / "metrics.jsonl", lines())
    for file in ("code/train.py", "outputs/model.pt", "nodes/node2/outputs/a.txt"):
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_text("x = 1\n")
    return run


def points(written: list[dict[str, Any]], name: str, retried: bool = False) -> Any:
    curve = curve_of(known_readings(written), name, retried)
    return curve.x_label, [x for x, _ in curve.points]


def test_every_number_has_a_chart_and_the_loss_is_the_first(run: Path) -> None:
    conclude(run)
    page = (run / "report.html").read_text()
    titles = re.findall(r"<h3>([^<]+)</h3>", page[page.index("<h2>Metrics</h2>") :])
    assert titles[:4] == ["loss", "acc", "val/acc", LONG]
    assert "None" not in page
    assert "digits, 2 nodes: succeeded" in page
    assert "val/acc in value by epoch" in page
    assert "loss in value by step" in page
    assert "CPU in % of the cores" in page


def test_its_files_are_a_click_away(run: Path) -> None:
    conclude(run)
    page = (run / "report.html").read_text()
    for link in ("code/", "outputs/", "nodes/node2/outputs/", "logs/rank-0.log", "metrics.jsonl"):
        assert f'href="{link}"' in page
    assert "python3 train.py --lr 1" in page


def test_without_metrics_the_page_says_how_to_write_some(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    conclude(run)
    page = (run / "report.html").read_text()
    assert "the program reported no numbers" in page
    assert "<h2>Metrics</h2>" not in page


def test_what_did_not_come_home_is_in_the_report(run: Path) -> None:
    finding = {"code": "files_refused", "values": {"files": 3, "names": "a <b>pipe</b>"}}
    (run / "nodes/node1").mkdir(parents=True, exist_ok=True)
    (run / "nodes/node1/findings.json").write_text(json.dumps([finding]))
    conclude(run)
    page = (run / "report.html").read_text()
    refused = "3 files of ranks on node1, refused because runs leave no such files"
    assert f"Not fetched: {refused} (a &lt;b&gt;pipe" in page


def test_the_x_axis_is_what_there_is() -> None:
    steps = [{"step": 5, "a": 1}, {"epoch": 1, "a": 2}, {"step": 7, "a": 3, "b": 1}]
    assert points(steps, "a") == ("step", [5, 7])
    assert points([{"epoch": 0.5, "a": 1}, {"epoch": 1, "a": 2}], "a") == ("epoch", [0.5, 1])
    assert points([{"a": 1}, {"b": 1}, {"a": 2}], "a") == ("line", [1, 2])


def test_steps_that_begin_anew_with_each_epoch_are_counted_on() -> None:
    written = [{"epoch": e, "step": s, "a": 1} for e in (1, 2) for s in (10, 20, 30)]
    assert points(written, "a") == ("step", [10, 20, 30, 40, 50, 60])
    for line in written:
        del line["epoch"]
    assert points(written, "a") == ("line", [1, 2, 3, 4, 5, 6])


def test_steps_that_were_done_again_replace_what_they_came_to() -> None:
    written = [{"step": step, "a": n} for n, step in enumerate((1, 2, 3, 4, 3, 4, 5))]
    curve = curve_of(known_readings(written), "a", retried=True)
    assert curve.points == ((1, 0), (2, 1), (3, 4), (4, 5), (5, 6))


def test_a_retry_goes_on_on_the_same_steps(run: Path) -> None:
    """Launched once, a program whose steps go back counts something else with them."""
    again = [{"step": step, "loss": 1.0} for step in (1, 2, 3, 2, 3, 4)]
    write_lines(run / "metrics.jsonl", again)
    conclude(run)
    assert "loss in value by line" in (run / "report.html").read_text()
    (run / "attempts/1").mkdir(parents=True)
    conclude(run)
    assert "loss in value by step" in (run / "report.html").read_text()


def test_charts_are_limited_and_the_rest_is_named(run: Path) -> None:
    many = [{"step": 1, **{f"k{number}": number for number in range(30)}}]
    readings = known_readings(many)
    assert len(reading_charts(readings)) == MOST_CHARTS
    assert names_left_out(readings) == [f"k{number}" for number in range(24, 30)]
    write_lines(run / "metrics.jsonl", many)
    conclude(run)
    page = (run / "report.html").read_text()
    assert "These have none: k24, k25, k26, k27, k28, k29." in page
    assert page.count("<h3>k") == MOST_CHARTS


def test_the_time_line_goes_by_the_ranks(run: Path) -> None:
    record = read_run(run)
    timeline = program_timeline(record.manifest, read_spells(run))
    assert timeline is not None
    assert [(segment.kind, segment.label) for segment in timeline.segments] == [
        ("ready", "getting ready"),
        ("training", "running"),
        ("collecting", "collecting"),
    ]
    first = run / "attempts/1"
    first.mkdir(parents=True)
    (run / "ranks").rename(first / "ranks")
    end_ranks(run, 0, 0)
    path = run / "ranks/0.json"
    path.write_text(path.read_text().replace("1795173610.5", "1795173710.5"))
    path = run / "ranks/1.json"
    path.write_text(path.read_text().replace("1795173610.5", "1795173710.5"))
    again = program_timeline(record.manifest, read_spells(run))
    assert again is not None
    assert [moment.label for moment in again.retries] == ["retry 1"]


def test_it_stands_beside_runs_of_the_trainer(run: Path, tmp_path: Path) -> None:
    conclude(run)
    other = run.with_name(run.name.replace("112000", "112100"))
    other.mkdir()
    for name in ("manifest.json", "metrics.jsonl", "exit_status"):
        (other / name).write_bytes((run / name).read_bytes())
    conclude(other)
    page = write_comparison(run.parent, [run, other]).read_text()
    assert "None" not in page
    assert page.count("<h3>loss</h3>") == 1
    index = write_index(run.parent).read_text()
    assert "None" not in index
    assert '<td class="n" data-label="loss">0.271</td>' in index
    assert index.count("<svg") == 2


@pytest.mark.process
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_it_on_desk_and_phone(run: Path, dark: bool) -> None:
    conclude(run)
    (run / "nodes/node1").mkdir(parents=True, exist_ok=True)
    finding = {"code": "files_refused", "values": {"files": 3, "names": "a/" + "b" * 300}}
    (run / "nodes/node1/findings.json").write_text(json.dumps([finding]))
    conclude(run)
    pages = [(write_report(run), width) for width in (390, 1280)]
    seen, console = show(pages, dark)
    assert not console
    for shown in seen:
        assert shown.scroll <= shown.width
        assert shown.contrast >= 4.5, f"{shown.faintest!r} is hard to read"
