"""`report.html`: what it holds, and how a real browser shows it."""

import html
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from yard.report import write_report
from yard.run import read_run
from yard.summary import summarise, write_summary

Recorded = Callable[[str], Path]
# A window cannot be as narrow as a phone, a frame can.
FRAME = """<!DOCTYPE html><meta name="color-scheme" content="light dark">
<iframe width="{width}" height="900" style="border: 0; color-scheme: light dark" srcdoc="{page}">
</iframe>
<script>
onload = () => {{
  const shown = document.querySelector("iframe").contentWindow;
  const style = shown.getComputedStyle(shown.document.body);
  document.documentElement.dataset.probe = [shown.document.documentElement.scrollWidth,
      shown.innerWidth, style.backgroundColor, style.color].join("|");
}};
</script>"""


def report_of(run: Path) -> Path:
    write_summary(run, summarise(read_run(run)))
    return write_report(run)


def test_a_success_shows_its_numbers_and_curves(recorded: Recorded) -> None:
    page = report_of(recorded("succeeded")).read_text()
    assert "vit on cifar10, 2 nodes: succeeded" in page
    for number in ("40.7 %", "1.614", "120.9", "2 ranks", "node1, node2"):
        assert number in page
    for title in ("Loss", "Test accuracy", "Throughput", "Learning rate"):
        assert f"<h2>{title}</h2>" in page
    assert page.count("<svg") == 8  # four charts, wide and narrow
    for link in ("logs/rank-0.log", "logs/rank-1.log", "ansible.log", "summary.json"):
        assert f'href="{link}"' in page


def test_the_curves_hold_the_data(recorded: Recorded) -> None:
    """The polyline of the training loss has a point for each of the 40 logged steps."""
    page = report_of(recorded("succeeded")).read_text()
    first_chart = page[page.index("<svg") : page.index("</svg>")]
    lines = re.findall(r'<path d="([^"]+)"[^>]*var\(--first\)', first_chart)
    assert max(len(re.findall("[ML]", line)) for line in lines) == 40


def test_a_failure_shows_the_diagnosis_escaped(recorded: Recorded) -> None:
    page = report_of(recorded("unknown")).read_text()
    assert "Why it failed" in page
    assert "node2, rank 1" in page
    assert "&lt;b&gt;the dog&lt;/b&gt; ate the gradients" in page
    assert "<b>the dog</b>" not in page


def test_without_a_step_there_are_no_curves(recorded: Recorded) -> None:
    page = report_of(recorded("unfit")).read_text()
    assert "No step was logged" in page
    assert "<svg" not in page


@pytest.mark.parametrize("case", ["succeeded", "killed", "unfit"])
def test_one_small_file_without_network(recorded: Recorded, case: str) -> None:
    page = report_of(recorded(case)).read_text()
    assert len(page) < 500_000
    assert not re.search(r"(?:https?:)?//\w", page), "an external address"
    assert "<script" not in page
    assert "<link" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    missing = set(re.findall(r'(?:href="|url\()#([^")]+)', page)) - set(ids)
    assert not missing


def test_drawing_again_changes_nothing(recorded: Recorded) -> None:
    run = recorded("succeeded")
    assert report_of(run).read_text() == report_of(run).read_text()


def shown(report: Path, width: int, dark: bool) -> tuple[int, int, str, str]:
    """Open a page in Chromium; returns its scroll width, own width, background and ink."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    assert browser, "this test needs chromium"
    page = report.with_name("probe.html")
    page.write_text(FRAME.format(width=width, page=html.escape(report.read_text())))
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    flags += " --disable-background-networking --disable-component-update"
    with tempfile.TemporaryDirectory() as profile:
        dom = subprocess.run(
            [
                browser,
                *flags.split(),
                f"--user-data-dir={profile}",
                "--window-size=1400,1000",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                "--dump-dom",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
    found = re.search(r'data-probe="(\d+)\|(\d+)\|([^|]+)\|([^"]+)"', dom)
    assert found, dom[:500]
    return int(found[1]), int(found[2]), found[3], found[4]


def brightness(colour: str) -> float:
    """Mean of red, green and blue, 0 to 255, of a CSS `rgb(...)`."""
    return sum(int(number) for number in re.findall(r"\d+", colour)[:3]) / 3


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("case", ["succeeded", "unfit"])
def test_a_browser_shows_it_at_both_widths_and_themes(
    recorded: Recorded, case: str, width: int
) -> None:
    report = report_of(recorded(case))
    light = shown(report, width, dark=False)
    dark = shown(report, width, dark=True)
    for scroll_width, own_width, background, ink in (light, dark):
        assert own_width == width
        assert scroll_width <= width, "the page scrolls sideways"
        assert abs(brightness(background) - brightness(ink)) > 150, "too little contrast"
    assert brightness(light[2]) - brightness(dark[2]) > 150
