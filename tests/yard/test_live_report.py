"""The report of a run that goes on: what it says, how often it is drawn, how it shows itself."""

import http.server
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser import do, opened, show
from extend import lines_of, sample_the_nodes, write_lines
from stand_in_nodes import YardHere

from yard.core.errors import RequestError
from yard.operations.live_report import LiveReport
from yard.pages import report
from yard.pages.report import write_live_report, write_report
from yard.runs.folder import REPORT_ERROR, followed
from yard.runs.manifest import read_manifest, write_manifest
from yard.runs.record import read_run
from yard.runs.summary import summarise, write_summary

Recorded = Callable[[str], Path]
GOES_ON = "The run is under way."


@pytest.fixture
def under_way(recorded: Recorded) -> Path:
    """A run that is half-way."""
    return half_way(recorded("succeeded"))


def half_way(run: Path) -> Path:
    """Take from a run that is over what its directory on the control node has not half-way."""
    write_lines(run / "metrics.jsonl", lines_of(run)[:25])
    for name in ("logs", "nodes", "ranks"):
        shutil.rmtree(run / name, ignore_errors=True)
    for name in ("exit_status", "world.json", "config.json"):
        (run / name).unlink(missing_ok=True)
    manifest = read_manifest(run)
    assert manifest is not None
    write_manifest(run, manifest.with_launch(finished_at=None, playbook="running"))
    return run


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def test_it_shows_how_the_run_stands_and_the_last_one_how_it_ended(under_way: Path) -> None:
    began = read_run(under_way).manifest.started_at
    text = write_live_report(under_way, began + 265, 10).read_text()
    assert '<span class="badge running">running</span>' in text
    assert "vit on cifar10, 2 nodes: running after 4 min 25 s" in text
    assert GOES_ON in text
    assert "every 10 s" in text
    assert "location.reload()" in text
    assert "<h3>Loss</h3>" in text
    # 210 of 390 steps in 251 s, the last of them 3 s ago.
    assert re.search(r"<dt>Time left</dt>\s*<dd>3 min 3\d s", text)
    assert "collecting <b>" not in text
    assert "Why it failed" not in text
    write_summary(under_way, summarise(read_run(under_way)))
    last = write_report(under_way).read_text()
    assert GOES_ON not in last
    assert "location.reload()" not in last


def test_it_shows_the_nodes_and_their_gpus_while_the_run_goes_on(under_way: Path) -> None:
    """Samples of a node come home every few minutes."""
    sample_the_nodes(under_way, hosts=2, gpus=2)
    began = read_run(under_way).manifest.started_at
    text = write_live_report(under_way, began + 265, 10).read_text()
    assert GOES_ON in text
    for title in ("CPU", "Memory of the nodes", "GPU", "GPU memory", "GPU temperature"):
        assert f"<h3>{title}</h3>" in text


def test_before_the_first_step_there_is_nothing_to_excuse(under_way: Path) -> None:
    (under_way / "metrics.jsonl").unlink()
    text = write_live_report(under_way, read_run(under_way).manifest.started_at + 5, 10).read_text()
    assert GOES_ON in text
    assert "there are no curves" not in text


def test_it_is_drawn_every_ten_seconds_at_most(under_way: Path, clock: Clock) -> None:
    live = LiveReport(under_way)
    page = under_way / "report.html"
    assert live.draw_if_due() == page
    assert under_way.name in (under_way.parent / "index.html").read_text()
    page.unlink()
    clock.now += 9.9
    assert live.draw_if_due() is None
    assert not page.exists()
    clock.now += 0.2
    assert live.draw_if_due() == page
    clock.now += 10
    # Who follows it has been told where it is.
    assert live.draw_if_due() is None


def test_a_costly_drawing_is_made_less_often(
    under_way: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 3 s: at 1 % of the time it is due again after 300 s."""
    drawn = []

    def draw(run: Path, now: float, seconds: float, output: Sequence[str]) -> None:
        clock.now += 3
        drawn.append(seconds)

    monkeypatch.setattr(report, "write_live_report", draw)
    live = LiveReport(under_way)
    live.draw_if_due()
    clock.now += 296
    live.draw_if_due()
    assert len(drawn) == 1
    clock.now += 2
    live.draw_if_due()
    assert drawn == [10.0, 300.0]


@pytest.mark.parametrize("error", [ZeroDivisionError, OSError])
def test_a_failure_while_drawing_does_not_disturb_the_run(
    error: type[Exception], under_way: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Path, now: float, seconds: float, output: Sequence[str]) -> None:
        raise error("no")

    live = LiveReport(under_way)
    with monkeypatch.context() as patched:
        patched.setattr(report, "write_live_report", fail)
        assert live.draw_if_due() is None
    assert error.__name__ in (under_way / REPORT_ERROR).read_text()
    clock.now += 5
    assert live.draw_if_due() is None, "it is not tried again at once"
    clock.now += 5
    assert live.draw_if_due() == under_way / "report.html"
    assert not (under_way / REPORT_ERROR).exists()


def test_a_run_that_has_its_result_is_not_drawn_as_one_that_goes_on(
    under_way: Path, clock: Clock
) -> None:
    write_summary(under_way, summarise(read_run(under_way)))
    assert LiveReport(under_way).draw_if_due() is None
    assert not (under_way / "report.html").exists()


def test_a_run_that_is_followed_has_it(ready: YardHere) -> None:
    page = ready.root / "runs/latest/report.html"
    texts: list[str] = []

    def look() -> None:
        texts.append(page.read_text())
        assert not (ready.root / "runs/latest/summary.json").exists()

    ready.during = {"Follow the run": [lambda: None, look]}
    done = ready("train", "--model", "vit", "--nodes", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert GOES_ON in texts[0]
    run = (ready.root / "runs/latest").resolve()
    assert re.search(rf"^Report: runs/{run.name}/report.html$", done.stdout, re.MULTILINE)
    assert done.stdout.count("Report: ") == 1
    assert GOES_ON not in page.read_text()


@contextmanager
def served(*pages: str) -> Iterator[tuple[str, list[str]]]:
    """Serve a page each time it is asked for, the last one for ever; yields its address."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/report.html":  # the icon that browsers look for
                self.send_error(404)
                return
            asked.append(self.path)
            body = pages[min(len(asked), len(pages)) - 1].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/report.html", asked
    finally:
        server.shutdown()
        server.server_close()


def with_script(page: str, script: str) -> str:
    return page.replace("</body>", f"<script>{script}</script></body>")


@pytest.mark.process
def test_a_browser_shows_it_anew_until_the_run_has_ended(under_way: Path) -> None:
    """The reader stays where he was, and the last drawing is not asked for again.

    He zooms to the newest steps by step, and to two minutes that are over by time: the newest steps
    are others then, the two minutes are not.
    """
    began = read_run(under_way).manifest.started_at
    lines = lines_of(under_way)
    sample_the_nodes(under_way)
    write_lines(under_way / "metrics.jsonl", lines[:20])
    before = write_live_report(under_way, began + 80, 2).read_text()
    write_lines(under_way / "metrics.jsonl", lines)
    after = write_live_report(under_way, began + 80, 2).read_text()
    write_summary(under_way, summarise(read_run(under_way)))
    looks = """
    const steps = axes.get("count step"), minutes = axes.get("clock time since the command");
    onload = () => {
      scrollTo(0, 321);
      steps.zoom(100, steps.all[1]);
      minutes.zoom(60, 180);
      sessionStorage.steps = steps.all[1];
    };
    """
    sees = """
    onload = () => {
      const keys = ["count step", "clock time since the command"];
      const ranges = keys.map((key) => axes.get(key).range);
      sessionStorage.seen = [scrollY, ...ranges.flat().map(Math.round)];
    };
    """
    first, second = with_script(before, looks), with_script(after, sees)
    last = with_script(
        write_report(under_way).read_text(),
        "document.documentElement.dataset.seen = [sessionStorage.seen, sessionStorage.steps];",
    )
    with served(first, second, last) as (address, asked):
        root = "document.documentElement"
        (seen, shown), _ = opened(
            address, f"{root}.dataset.seen && [{root}.dataset.seen, {root}.outerHTML]"
        )
    assert len(asked) == 3
    assert GOES_ON not in shown
    assert seen == "321,100,210,60,180,160"


@pytest.mark.process
def test_who_looks_at_a_value_is_not_disturbed(under_way: Path) -> None:
    """The page is shown anew after 2 s, but not within 10 s of the last look at a value."""
    page = write_live_report(under_way, read_run(under_way).manifest.started_at + 80, 2)
    text = page.read_text()
    assert text.count("location.reload()") == 1
    page.write_text(text.replace("location.reload()", "(window.shownAnew ??= Date.now())"))
    found = do(
        page,
        """
        const began = Date.now();
        await new Promise((done) => setTimeout(done, 1000));
        mouse(figureOf("Loss"), "mousemove", 0.5);
        await new Promise((done) => setTimeout(done, 8000));
        const early = window.shownAnew;
        await new Promise((done) => setTimeout(done, 6000));
        return [early ?? null, window.shownAnew - began];
        """,
        hasten=True,
    )
    early, shown = found
    assert early is None
    assert 11_000 <= shown <= 13_000


@pytest.mark.process
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_as_readable_as_the_last_one(under_way: Path, dark: bool) -> None:
    """It is of a year ago, so it also says that nothing has drawn it for long."""
    page = write_live_report(under_way, read_run(under_way).manifest.started_at + 80, 10)
    shots, console = show([(page, width) for width in (390, 1280)], dark)
    assert not console
    for shown in shots:
        assert shown.scroll <= shown.width
        assert shown.contrast >= 4.5, f"{shown.faintest!r} is hard to read"


def test_the_report_of_a_followed_run_is_the_live_one(under_way: Path) -> None:
    page = write_live_report(under_way, read_run(under_way).manifest.started_at + 265, 10)
    with followed(under_way):
        assert write_report(under_way) == page
        assert GOES_ON in page.read_text()
    with pytest.raises(RequestError, match="no summary yet"):
        write_report(under_way)
