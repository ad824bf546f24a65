"""Draws the pictures of the documents anew, of recorded runs.

    PYTHONPATH=.:tests/machines .venv/bin/python tests/yard/pictures.py

It takes seconds, and needs no nodes. What the nodes tell is a stand-in.
"""

import tempfile
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

from chromium import Page, open_browser
from rich.console import Console
from test_live_report import half_way
from test_status import NOW, cluster, decoded, entry
from test_web import KEY, Site, opened, served

from yard.pages.report import write_live_report, write_report
from yard.runs.cluster_state import ClusterState
from yard.runs.folder import followed
from yard.runs.labels import label_run
from yard.runs.manifest import read_manifest, write_manifest
from yard.runs.metrics import read_metrics
from yard.screen.top_view import TopView

DOCS = Path(__file__).parents[2] / "docs"
GOING, FAILED = "20261120T140500Z_vit_cifar10_b64_e5_n2_p1", "20261119T090000Z_vit_cifar10_b64"
# A terminal, in columns and lines.
WIDE, HIGH = 110, 14
# How busy the processors of two nodes were, in percent.
BUSY = {"node1": (9.0,) * 20 + (95.0, 97.0, 92.0, 96.0, 60.0) * 8, "node2": (4.0, 6.0, 3.0) * 20}
# A report that goes on says how long ago it was drawn.
AGE = "(p) => /not been drawn/.test(p.textContent)"
WITHOUT_AGE = f"[...document.querySelectorAll('p')].find({AGE})?.remove()"


def main() -> None:
    """Draw all of them."""
    with tempfile.TemporaryDirectory() as folder, open_browser() as page:
        site = Site(Path(folder))
        run = called(site.run(), "first light", 2)
        called(site.run(FAILED, "killed"), None, 1)
        going = called(half_way(site.run(GOING, over=False)), "longer", 3)
        label_run(run, ["paper"], "the first that got to the end")
        newest = read_metrics(going / "metrics.jsonl")[-1]
        told = entry(GOING, metric=decoded(newest), since=NOW - 251, owner="ada@desk")
        site.nodes.tell(site.runs, node1=[told], node2=[])
        site.nodes.seen = replace(site.nodes.seen, history=BUSY)
        page.show_as(1280, dark=False, height=1000)
        with followed(going), served(site) as address:
            opened(page, f"{address}/?key={KEY}")
            page.wait_for("document.body.innerText.includes('node2')", 30)
            save("web", page)
        page.show_as(1280, dark=False, height=1350)
        for name, file in (
            ("report", write_report(run)),
            ("live-report", write_live_report(going, NOW, 10)),
        ):
            page.open(file.as_uri())
            page.wait_for("document.querySelectorAll('canvas').length")
            page.value(WITHOUT_AGE)
            save(name, page)
        page.show_as(1120, dark=False, height=420)
        screen = Path(folder) / "top.svg"
        screen.write_text(top(cluster(site.runs, node1=[told], node2=[])))
        page.open(screen.as_uri())
        save("top", page)


def called(run: Path, name: str | None, number: int) -> Path:
    """Give a recorded run a name and a number."""
    manifest = read_manifest(run)
    assert manifest is not None
    write_manifest(run, replace(manifest, name=name, number=number))
    return run


def top(state: ClusterState) -> str:
    """The screen of `make top` as SVG."""
    console = Console(record=True, width=WIDE, height=HIGH, file=StringIO())
    console.print(TopView(state=state, history=BUSY).render(WIDE, HIGH), height=HIGH)
    return console.export_svg(title="make top")


def save(name: str, page: Page) -> None:
    """Write what is seen of a page, without a bar to scroll it."""
    page.value("document.documentElement.style.overflow = 'hidden'")
    time.sleep(1)
    (DOCS / f"{name}.png").write_bytes(page.picture())


if __name__ == "__main__":
    main()
