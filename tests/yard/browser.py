"""What a real browser makes of pages: opens them in Chromium, in frames as wide as screens."""

import atexit
import html
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from chromium import Page, open_browser

# A window cannot be as narrow as a phone, a frame can.
FRAME = '<iframe width="{width}" height="900" srcdoc="{page}"></iframe>'
CONTRASTS = """const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = (colour) => {
  const [r, g, b] = channels(colour).slice(0, 3).map((value) => value / 255).map(
      (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = at.ownerDocument.defaultView.getComputedStyle(at).backgroundColor;
    if ((channels(colour)[3] ?? 1) === 1) return colour;
  }
};
// The ratio of WCAG 2.2, 1 to 21, for every element that shows text of its own.
const contrasts = (shown) => [...shown.document.body.querySelectorAll("*")]
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .filter((e) => !["SCRIPT", "STYLE"].includes(e.tagName) && e.getClientRects().length)
  .map((e) => {
    const style = shown.getComputedStyle(e);
    const text = luminance(e instanceof shown.SVGElement ? style.fill : style.color);
    const paper = luminance(behind(e));
    const ratio = (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05);
    return [ratio, e.textContent.trim().slice(0, 40)];
  });
"""
# Of a window: the lowest contrast of all texts, and the text that has it.
CONTRAST = f"(shown) => {{{CONTRASTS} return contrasts(shown).sort((a, b) => a[0] - b[0])[0]; }}"
PROBE = """<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<style>iframe {{ border: 0; color-scheme: light dark; }}</style>
{frames}
<script>
{contrasts}const hover = (shown) => {{
  const over = shown.document.querySelector(".u-over");
  if (!over) return null;
  const box = over.getBoundingClientRect();
  over.dispatchEvent(new shown.MouseEvent(
      "mousemove", {{ clientX: box.right - 2, clientY: box.top + 60, movementX: 1 }}));
  return [...over.closest("figure").querySelectorAll(".legend th")].filter(
      (th) => th.getClientRects().length).map((th) => [th.innerText, th.nextSibling.innerText]);
}};
onload = () => {{
  const found = [...document.querySelectorAll("iframe")].map((frame) => {{
    const shown = frame.contentWindow, values = hover(shown);
    const [ratio, text] = contrasts(shown).sort((a, b) => a[0] - b[0])[0];
    return {{
      width: shown.innerWidth, scroll: shown.document.documentElement.scrollWidth, values,
      contrast: ratio, faintest: text, paper: luminance(behind(shown.document.body)),
    }};
  }});
  document.documentElement.dataset.probe = JSON.stringify(found);
}};
</script>"""
# What a reader does with a chart, and what there is to see of it then.
HANDS = """
const figureOf = (title) => [...document.querySelectorAll("figure")].find(
    (figure) => figure.querySelector("h3").textContent === title);
const drawn = () => new Promise((done) => setTimeout(done, 50));
// A pointer at parts of the width of a chart.
const mouse = (figure, type, part, rest = {}) => {
  const over = figure.querySelector(".u-over"), box = over.getBoundingClientRect();
  const place = { clientX: box.left + part * box.width, clientY: box.top + 60 };
  over.dispatchEvent(new MouseEvent(type, { ...place, movementX: 1, bubbles: true, ...rest }));
};
const finger = (figure, type, pointerId, part) => {
  const over = figure.querySelector(".u-over"), box = over.getBoundingClientRect();
  const clientX = box.left + part * box.width, pointerType = "touch";
  over.dispatchEvent(new PointerEvent(type, { clientX, pointerId, pointerType, bubbles: true }));
};
const drag = async (figure, from, to) => {
  mouse(figure, "mousemove", from);
  mouse(figure, "mousedown", from);
  mouse(figure, "mousemove", to);
  mouse(figure, "mouseup", to);
  await drawn();
};
const press = async (figure, ...keys) => {
  const plot = figure.querySelector(".plot");
  plot.focus();
  for (const key of keys) {
    plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    await drawn();
  }
};
const plotOf = (figure) => plots.find((plot) => figure.contains(plot.root));
const span = (figure) => [plotOf(figure).scales.x.min, plotOf(figure).scales.x.max];
const values = (figure) => Object.fromEntries([...figure.querySelectorAll(".legend th")].filter(
    (th) => th.getClientRects().length).map((th) => [th.innerText, th.nextSibling.innerText]));
// A chart's pixels: red, green, blue and opacity, 0 to 255, one after the other.
const pixels = (figure) => {
  const canvas = figure.querySelector("canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  return pen.getImageData(0, 0, canvas.width, canvas.height);
};
// How many of them have the colour of a CSS variable.
const coloured = (figure, name) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const rgb = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)), { data } = pixels(figure);
  let count = 0;
  for (let i = 0; i < data.length; i += 4)
    count += data[i + 3] > 250 && rgb.every((value, k) => Math.abs(data[i + k] - value) < 3);
  return count;
};
const told = async (act) => {
  let found;
  try { found = await act(); } catch (error) { console.error(error); }
  document.documentElement.dataset.probe = JSON.stringify(found ?? null);
};
"""


@dataclass(frozen=True)
class Shown:
    """A page as the browser shows it.

    Attributes:
        width, scroll: of the window, and what the page takes; more means it scrolls sideways.
        contrast, faintest: the lowest contrast of all texts, and the text that has it.
        paper: luminance of the page, 0 to 1.
        values: names and values that the pointer at the end of the first chart shows.
    """

    width: int
    scroll: int
    contrast: float
    faintest: str
    paper: float
    values: list[list[str]] | None


def show(pages: Sequence[tuple[Path, int]], dark: bool) -> tuple[list[Shown], list[str]]:
    """Open pages, each at a width; returns what is seen, and what the console was told."""
    frames = [
        FRAME.format(width=width, page=html.escape(page.read_text())) for page, width in pages
    ]
    found, console = _opened(PROBE.format(contrasts=CONTRASTS, frames="\n".join(frames)), dark)
    return [Shown(**entry) for entry in found], console


def do(page: Path, script: str, dark: bool = False, hasten: bool = False) -> Any:
    """Open a page 1,280 pixels wide and do something there.

    Args:
        script: the body of an asynchronous function, which knows what `HANDS` names.
        hasten: whether what the page waits for takes no time; drawing takes more.

    Returns:
        What the function returned, through JSON.
    """
    ending = f"<script>{HANDS}onload = () => told(async () => {{{script}}});</script>"
    found, console = _opened(page.read_text().replace("</body>", f"{ending}</body>"), dark, hasten)
    assert not console, console
    return found


def _opened(page: str, dark: bool, hasten: bool = False) -> tuple[Any, list[str]]:
    """Open a page that leaves something in `data-probe` of its root; the console's lines too."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.html"
        probe.write_text(page)
        root = "document.documentElement"
        found, console = opened(probe.as_uri(), f"{root}.dataset.probe", dark, hasten)
    return json.loads(found), console


def opened(
    address: str, expression: str, dark: bool = False, hasten: bool = False
) -> tuple[Any, list[str]]:
    """Open an address 1,280 pixels wide.

    Args:
        hasten: see `do`.

    Returns:
        What an expression comes to there, once that is something, and the console's lines.
    """
    # One that hastens hurries until it ends, whatever it shows.
    with open_browser() if hasten else shared_page() as page:
        if hasten:
            page.hasten()
        page.read_console()
        page.show_as(1280, dark, 1000)
        page.open(address)
        found = page.wait_for(expression, 120)
        return found, page.console.copy()


@contextmanager
def shared_page() -> Iterator[Page]:
    """One browser for all tests of this process: to start one takes longer than to use it."""
    page = _shared()
    try:
        yield page
    finally:
        page.open("about:blank")  # or its timers would come for ever
        page.console.clear()


@cache
def _shared() -> Page:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(open_browser())
