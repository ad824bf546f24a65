"""HTML pages of one file each: they open from disk and need no network."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from yard.core.words import duration
from yard.pages.plot import NARROW, WIDE, Chart, draw


@dataclass(frozen=True)
class Number:
    """One of the key numbers at the top; `note` says what it means."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Drawing:
    """A chart with its two drawings, of which the page shows the one that fits."""

    chart: Chart
    wide: Markup
    narrow: Markup


def drawings(charts: Iterable[Chart]) -> list[Drawing]:
    """Draw charts for wide and for narrow screens."""
    return [
        Drawing(chart, Markup(draw(chart, WIDE)), Markup(draw(chart, NARROW))) for chart in charts
    ]


def render(template: str, **values: Any) -> str:
    """Fill a template of `templates/` in. Everything but the drawings is escaped."""
    environment = Environment(
        loader=PackageLoader("yard.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = duration
    return environment.get_template(template).render(**values)


def local_time(text: str | None) -> str:
    """An ISO time as people read it, in UTC."""
    return "" if text is None else f"{datetime.fromisoformat(text):%d %B %Y, %H:%M} UTC"
