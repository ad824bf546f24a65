"""`bench/results.svg`: what each engine reaches of the ideal."""

from collections.abc import Mapping
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

# Of the bars of a model, in the order of the arms.
COLOURS = ("#2a78d6", "#c2571a", "#3f8f5b", "#8a8f98", "#8a5fb0", "#b08a2a")
# Of the plot, in pixels.
LABEL_WIDTH, IDEAL_WIDTH, BAR_HEIGHT, TITLE_HEIGHT = 190, 420, 22, 36


def draw_bench(result: Mapping[str, Any], path: Path) -> None:
    """Draw what each engine reaches of the ideal, a bar for each model and engine, as SVG.

    Args:
        result: `bench.json`; its `efficiencies` name the ratio to draw for each arm.
    """
    rows: list[str] = []
    top = TITLE_HEIGHT
    for model, training in result["throughput"].items():
        for (arm, name), colour in zip(result["efficiencies"].items(), cycle(COLOURS)):
            ratio = training["ratios"].get(name)
            if ratio is None:
                continue  # not every engine works everywhere
            middle = top + (BAR_HEIGHT - 4) / 2
            rows.append(
                f'<text x="{LABEL_WIDTH - 8}" y="{middle}" text-anchor="end">'
                f"{escape(model)}, {escape(result['labels']['arms'][arm])}</text>"
                f'<rect x="{LABEL_WIDTH}" y="{top}" width="{ratio * IDEAL_WIDTH:.1f}" '
                f'height="{BAR_HEIGHT - 4}" fill="{colour}"/>'
                f'<text x="{LABEL_WIDTH + ratio * IDEAL_WIDTH - 6:.1f}" y="{middle}" '
                'text-anchor="end" fill="#ffffff">'
                f"{100 * ratio:.1f}</text>"
            )
            top += BAR_HEIGHT
        top += BAR_HEIGHT // 2
    ideal = LABEL_WIDTH + IDEAL_WIDTH
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{ideal + 60}" height="{top}" '
        'font-family="sans-serif" font-size="13" dominant-baseline="middle" fill="#5b6470">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{LABEL_WIDTH}" y="{TITLE_HEIGHT / 2}">training throughput, percent of the '
        "same ranks without communication</text>"
        f"{''.join(rows)}"
        f'<path d="M{ideal} {TITLE_HEIGHT - 4}V{top - BAR_HEIGHT // 2}" stroke="#5b6470"/></svg>'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawing + "\n", encoding="utf-8")
