"""Reads the values of options that are no plain numbers or words."""

from collections.abc import Callable
from typing import Any


def number_or(word: str, text: str) -> int | str:
    """Read a number, or the one word that is taken in its place.

    Raises:
        ValueError: it is neither.
    """
    return word if text == word else int(text)


def parse_nodes(text: str) -> tuple[int, int]:
    """Read `--nodes`: a count, or the least and the most, as in `2..4`.

    Raises:
        ValueError: it is neither, or the least is above the most.
    """
    least, _, most = text.partition("..")
    nodes = (int(least), int(most or least))
    if nodes[0] > nodes[1]:
        raise ValueError(text)
    return nodes


def parse_option(text: str, load: Callable[[str], Any]) -> tuple[str, Any]:
    """Read one `--set key=value`; `load` turns the value's text into a number, boolean or string.

    Raises:
        ValueError: there is no `=`, or no key before it.
    """
    key, separator, value = text.partition("=")
    if not (separator and key.isidentifier()):
        raise ValueError(f"{text!r} is not key=value")
    return key, load(value)


def as_number(value: Any) -> Any:
    """A value of YAML, which takes 1e-3 for a text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
