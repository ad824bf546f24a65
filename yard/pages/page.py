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
    # Charts of a page share their columns of numbers.
    return TEMPLATES.get_template(template).render(columns=Columns(), **values)


def vendored(name: str) -> Markup:
    """The text of a file of `vendor/`, which needs no escaping inside a page."""
    return Markup((resources.files("yard.pages") / "vendor" / name).read_text(encoding="utf-8"))


def local_time(text: str | None) -> str:
    """An ISO time as people read it, in UTC."""
    return "" if text is None else f"{datetime.fromisoformat(text):%d %B %Y, %H:%M} UTC"


# Templates take longer to compile than to fill in, and a launch makes four pages.
TEMPLATES = Environment(
    loader=PackageLoader("yard.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["duration"] = duration
TEMPLATES.globals["vendored"] = vendored
