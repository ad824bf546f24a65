# Copyright Trainyard. Apache-2.0
"""Lines of known_hosts and authorized_keys whose last word says whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

HEADER = "# Written by Ansible, role ssh_trust. The last word of a line is the node's name."


def read_public_key(path: Path) -> str | None:
    """Return type and key of a public key's file without its comment; None where there is none.

    Raises:
        ValueError: the file does not hold a public key.
    """
    try:
        words = path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return None
    if len(words) < 2:
        raise ValueError(f"{path} does not hold a public key")
    return " ".join(words[:2])


def lines_of(text: str, names: Iterable[str], user: str) -> list[str]:
    """Return the lines of these nodes: of their host keys, and of their keys for this user."""
    owners = {owner for name in names for owner in (name, f"{user}@{name}")}
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line for line in lines if line.split()[-1:] and line.split()[-1] in owners]


def text_of(lines: Sequence[str]) -> str:
    """Return the text of a file with these lines.

    They are sorted without regard to case, as Jinja sorts, so that files of earlier versions of
    this role stay as they are.
    """
    return "\n".join([HEADER, *sorted(lines, key=str.lower), ""])
