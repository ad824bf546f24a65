"""The pages: what they hold, and how a real browser shows them."""

import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import show
from chart_numbers import numbers_of, points_of
from extend import retry, sample_the_nodes, time_the_steps
from rich.console import Console
from test_verdict import NODE, VERDICT
from yard_command import DATA, RUN_ID

from yard.core.errors import RequestError
from yard.pages import report
from yard.pages.charts import node_charts, training_charts
from yard.pages.comparison import write_comparison
from yard.pages.index import write_index
from yard.pages.page import vendored
from yard.pages.report import draw_report, write_report
from yard.pages.spark import spark, thin
from yard.pages.timeline import timeline_of
from yard.pages.verification import write_verification_page
from yard.runs.folder import REPORT_ERROR, list_runs
from yard.runs.metrics import read_every_line, read_metrics
from yard.runs.overview import listed_run, overview_of
from yard.runs.record import read_run
from yard.runs.summary import summarise, write_summary
from yard.runs.utilisation import read_utilisation
from yard.runs.verdict import Verdict
from yard.screen.tables import show_runs

Recorded = Callable[[str], Path]
RUNS = [f"20261120T112{number}00Z_vit_cifar10_b64_e5_n2_p1" for number in range(3)]


def report_of(run: Path) -> Path:
    write_summary(run, summarise(read_run(run)))
    return write_report(run)


def several_runs(folder: Path) -> Path:
    """Two runs that are over, of different batch, and one that is not."""
    for name in RUNS:
        copy_run("succeeded", folder / "runs" / name)
    changed = folder / "runs" / RUNS[1] / "config.json"
    changed.write_text(changed.read_text().replace('"batch_per_rank": 64', '"batch_per_rank": 128'))
    manifest = folder / "runs" / RUNS[1] / "manifest.json"
    manifest.write_text(
        manifest.read_text().replace('"batch_per_rank": 64', '"batch_per_rank": 128')
    )
    for name in RUNS[:2]:
        report_of(folder / "runs" / name)
    return folder / "runs"


def copy_run(case: str, run: Path) -> None:
    """Copy a recorded run; its id is its folder's name."""
    shutil.copytree(DATA / "runs" / case, run)
    manifest = run / "manifest.json"
    manifest.write_text(manifest.read_text().replace(RUN_ID, run.name))


def test_a_success_shows_its_numbers_and_curves(recorded: Recorded) -> None:
    page = report_of(recorded("succeeded")).read_text()
    assert "vit on cifar10, 2 nodes: succeeded" in page
    for number in ("40.7 %", "1.614", "120.9", "2 ranks", "node1, node2"):
        assert number in page
    for title in ("Loss", "Accuracy", "Throughput", "Learning rate"):
        assert f"<h3>{title}</h3>" in page
    assert len(numbers_of(page)) == 4
    assert re.search(r'aria-label="Loss in cross entropy by step: training from .* to 1.590;', page)
    for link in ("logs/rank-0.log", "logs/rank-1.log", "ansible.log", "summary.json"):
        assert f'href="{link}"' in page


def test_the_curves_hold_the_data(recorded: Recorded) -> None:
    """The line of the training loss has a point for each of the 40 logged steps."""
    run = recorded("succeeded")
    page = report_of(run).read_text()
    training, test = points_of(page, 0).values()
    logged = [metric for metric in read_metrics(run / "metrics.jsonl") if metric.event == "step"]
    assert [x for x, _ in training] == [metric.step for metric in logged]
    assert [y for _, y in training] == pytest.approx([metric.loss for metric in logged])
    assert len(training) == 40
    assert len(test) == 5
    # Loss, accuracy, throughput and learning rate have the same steps, which are written once.
    assert sum(isinstance(one["x"], str) for c in numbers_of(page) for one in c["series"]) == 2


def test_without_scripts_a_chart_says_how_its_curves_begin_and_end(recorded: Recorded) -> None:
    page = report_of(recorded("succeeded")).read_text()
    said = re.findall(r"<noscript>.*?</noscript>", page)
    assert len(said) == 4
    assert "Loss in cross entropy by step: training from" in said[0]


def test_the_library_is_the_one_that_was_looked_at() -> None:
    folder = Path(report.__file__).parent / "vendor/uplot"
    sums = dict(line.split()[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name not in ("README.md", "SHA256SUMS")
    }
    version = re.search(r"\(v([\d.]+)\)", vendored("uplot/uPlot.iife.min.js"))
    assert version
    assert (folder / "README.md").read_text().startswith(f"# uPlot {version[1]}\n")


def test_a_failure_shows_the_diagnosis_escaped(recorded: Recorded) -> None:
    page = report_of(recorded("unknown")).read_text()
    assert "Why it failed" in page
    assert "node2, rank 1" in page
    assert "&lt;b&gt;the dog&lt;/b&gt; ate the gradients" in page
    assert "<b>the dog</b>" not in page


def test_without_a_step_there_are_no_curves(recorded: Recorded) -> None:
    page = report_of(recorded("unfit")).read_text()
    assert "No step was logged" in page
    assert "<figure" not in page


@pytest.mark.parametrize("case", ["succeeded", "killed", "unfit"])
def test_one_small_file_without_network(recorded: Recorded, case: str) -> None:
    page = report_of(recorded(case)).read_text()
    assert len(page) < 500_000
    library = vendored("uplot/uPlot.iife.min.js")
    head, _ = library.split("\n", 1)
    assert page.count(library) == 1
    # The library's first line is a comment with its home.
    addresses = re.findall(r"(?:https?:)?//\w", page.replace(head, ""))
    assert not addresses, "an external address"
    assert not re.search(r"<link|<img|<script [^>]*src|@import|url\((?!#)", page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    missing = set(re.findall(r'(?:href="|url\()#([^")]+)', page)) - set(ids)
    assert not missing


def test_drawing_again_changes_nothing(recorded: Recorded) -> None:
    run = recorded("succeeded")
    assert report_of(run).read_text() == report_of(run).read_text()


def test_the_parts_of_a_step_are_shown_where_they_were_measured(recorded: Recorded) -> None:
    run = recorded("succeeded")
    assert "Step time" not in report_of(run).read_text()
    time_the_steps(run)
    page = report_of(run).read_text()
    for legend in ("compute 89 %", "communication 9.5 %", "data 1.2 %"):
        assert f'"label": "{legend}"' in page
    (stacked,) = [chart for chart in numbers_of(page) if chart["stacked"]]
    assert len(stacked["series"]) == 3


@pytest.mark.promise("row 25")
def test_the_nodes_are_shown_where_they_were_sampled(recorded: Recorded) -> None:
    run = recorded("succeeded")
    sample_the_nodes(run)
    page = report_of(run).read_text()
    assert "CPU in % of the cores by time since the command: node1 from 93 to" in page
    assert "GPU" not in page
    assert "Memory of the ranks" in page


def test_gpus_and_many_nodes(recorded: Recorded) -> None:
    """Twelve nodes of eight GPUs: mean and range instead of 96 lines."""
    run = recorded("succeeded")
    sample_the_nodes(run, hosts=12, gpus=8)
    page = report_of(run).read_text()
    for title in ("GPU", "GPU memory", "GPU power", "GPU temperature"):
        assert f"<h3>{title}</h3>" in page
    assert "Mean of 96; the band goes from lowest to highest." in page
    assert len(page) < 500_000


def test_a_retry_goes_on_on_one_time_line(recorded: Recorded) -> None:
    """Died after step 200, went on from the checkpoint of step 156: what was lost is faint."""
    run = recorded("succeeded")
    retry(run, died_after=200, resumed_from=156)
    metrics = read_every_line(run / "metrics.jsonl")
    (loss, *_) = training_charts(metrics)
    faint = [series for series in loss.series if series.faint]
    assert [x for x, _ in faint[0].points] == [150, 160, 170, 180, 190, 200]
    (training,) = [series for series in loss.series if series.label == "training"][-1:]
    assert [x for x, _ in training.points] == [1, *range(10, 391, 10)]
    assert [(mark.x, mark.label) for mark in loss.marks] == [(156, "retry 1")]

    as_one = read_metrics(run / "metrics.jsonl")
    assert [metric.event for metric in as_one].count("start") == 1
    assert [metric.step for metric in as_one] == sorted(metric.step for metric in as_one)
    assert len(as_one) == len(metrics) - 6  # five steps that were done twice, and a start

    timeline = timeline_of(read_run(run).manifest, metrics)
    assert timeline is not None
    kinds = [segment.kind for segment in timeline.segments]
    assert kinds[:4] == ["ready", "training", "ready", "training"]
    assert timeline.segments[2].seconds == pytest.approx(23)
    assert sum(timeline.share(s.seconds) for s in timeline.segments) == pytest.approx(100, abs=0.1)
    # What the first attempt left is put aside; its samples are part of the picture all the same.
    sample_the_nodes(run)
    first = run / "attempts/1"
    (first / "nodes/node1").mkdir(parents=True)
    (run / "nodes/node1/utilisation.jsonl").rename(first / "nodes/node1/utilisation.jsonl")
    (first / "logs").mkdir()
    (first / "logs/rank-0.log").touch()
    page = report_of(run).read_text()
    assert '<a href="attempts/1/logs/rank-0.log">attempt 1: rank-0</a>' in page
    assert ": node1 from 93 to" in page
    assert "retry 1, from step 156" in page
    charts = numbers_of(page)
    assert len(charts) == 7
    assert all([mark["label"] for mark in chart["marks"]] == ["retry 1"] for chart in charts)


def test_gpus_have_the_numbers_of_their_node(recorded: Recorded) -> None:
    run = recorded("succeeded")
    sample_the_nodes(run, hosts=3, gpus=2)
    # The container of a run with GPUS_PER_NODE= counts those that it was given from 0 on.
    for host, devices in (
        ("node1", [{"index": 3}, {"index": 1}]),
        ("node2", [{"index": 4}]),  # others than those that it saw
        ("node3", [{"index": 5}, {"index": "6"}, None]),
    ):
        (run / f"nodes/{host}/facts.json").write_text(json.dumps({"gpu_devices": devices}))
    seen = {
        host: [gpu.index for gpu in samples[0].gpus]
        for host, samples in read_utilisation(run).items()
    }
    assert seen == {"node1": [1, 3], "node2": [0, 1], "node3": [0, 1]}
    (chart,) = [chart for chart in node_charts(read_utilisation(run), 0.0) if chart.title == "GPU"]
    assert [series.label for series in chart.series][:2] == ["node1 GPU 1", "node1 GPU 3"]


@pytest.mark.promise("make report", "make report RUN=a,b")
def test_a_comparison_has_every_run_in_every_curve_and_what_differs(tmp_path: Path) -> None:
    runs = several_runs(tmp_path)
    page = write_comparison(runs, [runs / name for name in RUNS[:2]]).read_text()
    charts = numbers_of(page)
    assert len(charts) == 5
    curves = [[(one["label"], one["colour"]) for one in chart["series"]] for chart in charts]
    assert curves == [[("A", "--c1"), ("B", "--c2")]] * 5
    assert re.search(r"<td[^>]*>64</td><td[^>]*>128</td>", page)
    assert "batch_per_rank" in page
    assert '<th scope="row">epochs</th>' not in page, "the same everywhere"
    assert 'Test accuracy</th><td data-label="A">40.7 %</td><td data-label="B">40.7 %</td>' in page
    assert "What was changed" not in page
    for few in ([runs / RUNS[0]], [runs / RUNS[0], runs / RUNS[0]]):
        with pytest.raises(RequestError, match="2 to 8 different runs"):
            write_comparison(runs, few)
    with pytest.raises(RequestError, match="no summary yet"):
        write_comparison(runs, [runs / RUNS[0], runs / RUNS[2]])


def test_a_comparison_begins_with_what_a_person_changed(tmp_path: Path) -> None:
    runs = several_runs(tmp_path)
    for name, lr, seconds in ((RUNS[0], 0.1, 3.0), (RUNS[1], 0.2, 9.0)):
        path = runs / name / "manifest.json"
        document = json.loads(path.read_text())
        document["request"] |= {"options": {"optimizer": "sgd", "ema": lr}}
        if name == RUNS[1]:
            document["request"]["resume"] = RUNS[0]
        document["code"] |= {"revision": f"{lr:.1f}" * 13 + "f"}
        document["configuration"] |= {
            "seconds_between_failures": seconds,
            "weights_sha256": "ab" * 32 + name,
        }
        path.write_text(json.dumps(document))
        code = runs / name / "code/src"
        code.mkdir(parents=True)
        (code / "train.py").write_text(f"import torch\nlr = {lr}\n<b>\n")
        (code / "same.py").write_text("same\n")
        (code / "model.bin").write_bytes(b"\xff" + name.encode())
        (code / "link").symlink_to("/etc/passwd")
    (runs / RUNS[1] / "code/new.py").write_text("new\n")
    page = write_comparison(runs, [runs / name for name in RUNS[:2]]).read_text()
    changed = page[page.index("What was changed") : page.index("<details>")]
    for row in ("ema", "resumed from", RUNS[0]):
        assert row in changed
    assert "optimizer" not in changed, "the same everywhere"
    assert ">0.20.20.20.2<" in changed, "a revision is as long as people need it"
    for line in ("-lr = 0.1", "+lr = 0.2", " &lt;b&gt;", "src/model.bin differs", "+new"):
        assert line in changed
    assert "same.py" not in changed
    assert "batch_per_rank" in page[page.index("<details>") :]
    for unread in ("seconds_between_failures", "sha256", "root:"):
        assert unread not in page
    third = Path(shutil.copytree(runs / RUNS[1], runs / f"{RUNS[1]}_3"))
    page = write_comparison(runs, [runs / RUNS[0], runs / RUNS[1], third]).read_text()
    assert "\n+++ B/src/train.py" in page
    assert "\n+++ C/src/train.py" in page


def test_the_page_of_all_runs(tmp_path: Path) -> None:
    runs = several_runs(tmp_path)
    (runs / RUNS[1] / "summary.json").write_text('{"from": "another version", "diagnosis": null}')
    page = write_index(runs).read_text()
    assert [page.index(name) for name in reversed(RUNS)] == sorted(map(page.index, RUNS))
    statuses = re.findall(r'<span class="badge (\w+)">', page)
    assert statuses == ["unfinished", "unreadable", "succeeded"]
    assert f'<a href="{RUNS[0]}/report.html">first light</a>' in page
    assert f'href="{RUNS[2]}/report.html"' not in page
    assert page.count('<td class="n" data-label="nodes">2</td>') == 3
    assert '<td class="n" data-label="accuracy">40.7 %</td>' in page
    assert "<code>MODEL=vit NODES=2" in page


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path) -> None:
    runs = several_runs(tmp_path)
    (runs / RUNS[1] / "manifest.json").write_text('{"from": "another version"}')
    (runs / RUNS[2] / "manifest.json").write_text("[cut off")
    page = write_index(runs).read_text()
    assert page.count('<span class="badge unreadable">') == 2
    assert all(name in page for name in RUNS)
    out = io.StringIO()
    show_runs(Console(file=out, width=200), [overview_of(run) for run in reversed(list_runs(runs))])
    lines = [line for line in out.getvalue().splitlines() if line.startswith("2026")]
    assert [line.split()[1] for line in lines] == ["unreadable", "unreadable", "succeeded"]


def test_a_failure_while_drawing_does_not_lose_the_run(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded("succeeded")
    write_summary(run, summarise(read_run(run)))
    with monkeypatch.context() as patched:
        patched.setattr(report, "training_charts", lambda metrics: 1 / 0)
        draw_report(run)
    assert "ZeroDivisionError" in (run / REPORT_ERROR).read_text()
    assert not (run / "report.html").exists()
    draw_report(run)
    assert (run / "report.html").is_file()
    assert not (run / REPORT_ERROR).exists()


def test_a_curve_in_a_table_keeps_its_spikes() -> None:
    points = [(float(x), 100.0 if x == 51_234 else 1.0) for x in range(100_000)]
    kept = thin(points, 48)
    assert len(kept) <= 48
    assert (51_234, 100) in kept
    assert spark(points[:1]) == ""
    assert spark([(0, 1), (1, 3), (2, 2)]).count("L") == 2
    assert "M2.0 12.0L94.0 12.0" in spark([(0, 5), (1, 5)]), "a flat line is in the middle"


def test_a_loss_that_is_not_a_number_leaves_a_chart(recorded: Recorded) -> None:
    run = recorded("succeeded")
    text = (run / "metrics.jsonl").read_text().replace('"loss": 1.5901', '"loss": NaN')
    (run / "metrics.jsonl").write_text(text)
    assert "nan" not in report_of(run).read_text().lower()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A page of each kind."""
    runs = several_runs(tmp_path_factory.mktemp("pages"))
    time_the_steps(runs / RUNS[0])
    sample_the_nodes(runs / RUNS[0], gpus=2)
    retry(runs / RUNS[0], died_after=200, resumed_from=156)
    drawn = [write_report(runs / RUNS[0])]
    for number, case in enumerate(("unknown", "unfit")):
        run = runs / f"20261120T11300{number}Z_vit_cifar10_b64_e5_n2_p1"
        copy_run(case, run)
        drawn.append(report_of(run))
    drawn.append(write_comparison(runs, [runs / name for name in RUNS[:2]]))
    return [*drawn, write_index(runs), verification_page(runs / "verify-20261120T114000Z")]


def verification_page(folder: Path) -> Path:
    folder.mkdir()
    (folder / "nodes.json").write_text(json.dumps({"node1": NODE, "node2": NODE}))
    of_a_pair = {"limit": "at_least", "threshold_text": "at least 1 Gbit/s", "unit": "Gbit/s"}
    checks = [
        {"name": "bandwidth", "pair": pair, "value": value, "ok": value > 1, **of_a_pair}
        for pair, value in ((("node1", "node2"), 9.4), (("node2", "node1"), 0.3))
    ]
    causes = [{"reason": "port: " + "x" * 60, "remedy": "make exec CMD='nft list'", "times": 2}]
    document = {
        **VERDICT,
        "ok": False,
        "checks": checks,
        "faults": [{"who": "node2", "causes": causes}],
        "bandwidth_gigabits": [[None, 9.4], [0.3, None]],
    }
    return write_verification_page(folder, Verdict.from_json(document))


@pytest.mark.process
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_the_pages_on_desk_and_phone(pages: list[Path], dark: bool) -> None:
    shots = [(page, width) for page in pages for width in (390, 1280)]
    seen, console = show(shots, dark)
    assert not console
    for (page, width), shown in zip(shots, seen, strict=True):
        assert shown.width == width
        assert shown.scroll <= width, f"{page.name} scrolls sideways at {width} pixels"
        # 4.5 is what WCAG 2.2 asks of text of this size (level AA).
        assert shown.contrast >= 4.5, f"{page.name}: {shown.faintest!r} is hard to read"
        assert (shown.paper < 0.1) == dark
    assert seen[0].values == [["step", "390"], ["training", "1.59"], ["test set", "1.645"]]


def test_runs_that_were_asked_for_other_things_do_not_look_alike(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("succeeded")
    write_summary(run, summarise(read_run(run)))
    listed = listed_run(run, overview_of(run))
    assert (listed["run_id"], listed["status"]) == (run.name, "succeeded")
    assert (listed["learning_rate"], listed["seed"], listed["train_images"]) == (0.001, 1, 10000)
    assert (listed["engine"], listed["precision"]) == ("horovod", "fp32")
    assert (listed["test_accuracy"], listed["best_epoch"]) == (0.407, None)
    (run / "manifest.json").write_text("{")
    assert listed_run(run, overview_of(run))["status"] == "unreadable"
