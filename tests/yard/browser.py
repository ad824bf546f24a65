"""What a real browser makes of pages: opens them in Chromium, in frames as wide as screens."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A window cannot be as narrow as a phone, a frame can.
FRAME = '<iframe width="{width}" height="900" srcdoc="{page}"></iframe>'
PROBE = """<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<style>iframe {{ border: 0; color-scheme: light dark; }}</style>
{frames}
<script>
const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = (colour) => {{
  const [r, g, b] = channels(colour).slice(0, 3).map((value) => value / 255).map(
      (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}};
const behind = (element) => {{
  for (let at = element; at; at = at.parentElement) {{
    const colour = at.ownerDocument.defaultView.getComputedStyle(at).backgroundColor;
    if ((channels(colour)[3] ?? 1) === 1) return colour;
  }}
}};
// The ratio of WCAG 2.2, 1 to 21, for every element that shows text of its own.
const contrasts = (shown) => [...shown.document.body.querySelectorAll("*")]
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .filter((e) => !["SCRIPT", "STYLE"].includes(e.tagName) && e.getClientRects().length)
  .map((e) => {{
    const style = shown.getComputedStyle(e);
    const text = luminance(e instanceof shown.SVGElement ? style.fill : style.color);
    const paper = luminance(behind(e));
    const ratio = (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05);
    return [ratio, e.textContent.trim().slice(0, 40)];
  }});
const hover = (shown) => {{
  const plot = [...shown.document.querySelectorAll(".plot")].find((p) => p.getClientRects().length);
  if (!plot) return null;
  const box = plot.getBoundingClientRect();
  plot.dispatchEvent(new shown.PointerEvent(
      "pointermove", {{ clientX: box.right - 12, clientY: box.top + 60 }}));
  const tip = plot.closest("figure").querySelector(".tip"), around = tip.getBoundingClientRect();
  return {{ text: tip.hidden ? "" : tip.innerText, right: around.right, left: around.left }};
}};
onload = () => {{
  const found = [...document.querySelectorAll("iframe")].map((frame) => {{
    const shown = frame.contentWindow, tip = hover(shown);
    const [ratio, text] = contrasts(shown).sort((a, b) => a[0] - b[0])[0];
    return {{
      width: shown.innerWidth, scroll: shown.document.documentElement.scrollWidth, tip,
      contrast: ratio, faintest: text, paper: luminance(behind(shown.document.body)),
    }};
  }});
  document.documentElement.dataset.probe = JSON.stringify(found);
}};
</script>"""
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
    --disable-background-networking --disable-component-update --enable-logging=stderr"""


@dataclass(frozen=True)
class Shown:
    """A page as the browser shows it.

    Attributes:
        width, scroll: of the window, and what the page takes; more means it scrolls sideways.
        contrast, faintest: the lowest contrast of all texts, and the text that has it.
        paper: luminance of the page, 0 to 1.
        tip: text, left and right of what hovering over the end of the first chart shows.
    """

    width: int
    scroll: int
    contrast: float
    faintest: str
    paper: float
    tip: dict[str, Any] | None


def show(pages: Sequence[tuple[Path, int]], dark: bool) -> tuple[list[Shown], list[str]]:
    """Open pages, each at a width; returns what is seen, and what the console was told."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    assert browser, "this test needs chromium"
    frames = [
        FRAME.format(width=width, page=html.escape(page.read_text())) for page, width in pages
    ]
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.html"
        probe.write_text(PROBE.format(frames="\n".join(frames)))
        done = subprocess.run(
            [
                browser,
                *FLAGS.split(),
                f"--user-data-dir={folder}/profile",
                "--window-size=1400,1000",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                "--dump-dom",
                probe.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    found = re.search(r'data-probe="([^"]+)"', done.stdout)
    assert found, done.stdout[-500:] + done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return [Shown(**entry) for entry in json.loads(html.unescape(found[1]))], console
