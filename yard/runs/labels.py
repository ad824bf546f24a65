"""`labels.json`: what people say of a run afterwards, as tags and a note."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from yard.core.errors import RequestError
from yard.core.files import read_object, write_json

FILE = "labels.json"
TAG = re.compile(r"[\w.+-]{1,40}")
MOST_TAGS, MOST_CHARACTERS = 20, 1000


@dataclass(frozen=True)
class Labels:
    """Tags are words to search by, the note is a line of text."""

    tags: tuple[str, ...] = ()
    note: str = ""


def read_labels(run: Path) -> Labels:
    """What was said of a run; nothing where the file has another form."""
    document = read_object(run / FILE)
    tags, note = document.get("tags"), document.get("note")
    try:
        return (
            _checked(tags, note) if isinstance(tags, list) and isinstance(note, str) else Labels()
        )
    except RequestError:
        return Labels()


def tags_in(text: str) -> list[str]:
    """The tags of a line, between which there are commas or spaces."""
    return text.replace(",", " ").split()


def label_run(run: Path, tags: Sequence[str] | None, note: str | None) -> Labels:
    """Replace the tags of a run, its note, or both; None leaves what is there.

    Raises:
        RequestError: a tag or the note has characters that it may not have, or there are too many.
    """
    before = read_labels(run)
    labels = _checked(before.tags if tags is None else tags, before.note if note is None else note)
    write_json(run / FILE, asdict(labels))
    return labels


def _checked(tags: Sequence[object], note: str) -> Labels:
    problems = [
        f"tag {tag!r}: takes up to 40 letters, digits and . _ + -"
        for tag in tags
        if not isinstance(tag, str) or not TAG.fullmatch(tag)
    ]
    if len(tags) > MOST_TAGS:
        problems.append(f"tags: {MOST_TAGS} at the most")
    if len(note) > MOST_CHARACTERS or (note and not note.isprintable()):
        problems.append(f"note: one line of up to {MOST_CHARACTERS:,} characters")
    if problems:
        raise RequestError(*problems)
    return Labels(tuple(dict.fromkeys(map(str, tags))), note.strip())
