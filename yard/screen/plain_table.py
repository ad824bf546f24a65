"""The tables of the screen: headings and cells, without lines between them."""

from typing import Any

from rich.table import Column, Table


def plain_table(*headings: str | Column, gap: int = 2, **options: Any) -> Table:
    """An empty table whose long cells go on below themselves, unless a column says otherwise.

    Args:
        gap: blanks between two columns.
        options: further ones of `Table`.
    """
    columns = [
        Column(name, overflow="fold") if isinstance(name, str) else name for name in headings
    ]
    padding, style = (0, gap, 0, 0), {"header_style": "dim", **options}
    return Table(*columns, box=None, pad_edge=False, padding=padding, **style)


def numbers(*headings: str) -> list[Column]:
    """Columns of numbers, which end at one edge."""
    return [Column(name, justify="right") for name in headings]
