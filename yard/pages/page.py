"""HTML pages of one file each: they open from disk and need no network."""

from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from yard.core.words import duration
from yard.pages.plot import Columns


@dataclass(frozen=True)
class Number:
    """One of the key numbers at the top; `note` says what it means."""

    label: str
    value: str
    note: str = ""


def render(template: str, **values: Any) -> str:
    """Fill a template of `templates/` in. Everything but `Markup` is escaped."""
    return environment().get_template(template).render(**values)


def environment() -> Environment:
    """The templates, for one page: charts of a page share their columns of numbers."""
    made = Environment(
        loader=PackageLoader("yard.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["duration"] = duration
    made.filters["numbers"] = Columns().chart
    made.globals["vendored"] = vendored
    return made


def vendored(name: str) -> Markup:
    """The text of a file of `vendor/`, which needs no escaping inside a page."""
    return Markup((resources.files("yard.pages") / "vendor" / name).read_text(encoding="utf-8"))


def local_time(text: str | None) -> str:
    """An ISO time as people read it, in UTC."""
    return "" if text is None else f"{datetime.fromisoformat(text):%d %B %Y, %H:%M} UTC"
