"""Tables of documents whose rows tests write: of what they measured, and of what they saw."""

from collections.abc import Iterable, Mapping, Sequence


def row(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def table(columns: Sequence[str], rows: Iterable[str]) -> str:
    """The whole table with these rows."""
    return "\n".join((row(columns), row(["---"] * len(columns)), *rows)) + "\n"


def merge(
    text: str, begin: str, end: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]
) -> str:
    """Put rows into a document: each takes the place of the row of its name, or comes last.

    Args:
        begin, end: the lines of the document between which the table is.
        rows: cells by name; the first cell is the name.
    """
    before, rest = text.split(begin)
    old, after = rest.split(end)
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in old.split("\n")[3:] if line}
    lines |= {name: row(cells) for name, cells in rows.items()}
    return f"{before}{begin}\n{table(columns, lines.values())}\n{end}{after}"
