"""Lines of known_hosts and authorized_keys whose last word says whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

# What stands behind the key of a control node in the place of a node's name, with `:<name>` where
# several set up the same nodes. No host of an inventory can have a colon in its name.
CONTROL_NODE = "control-node"
HEADER = "# Written by Ansible, role ssh_trust. The last word of a line is the node's name."


def read_public_key(path: Path) -> str | None:
    """Return type and key of a public key's file without its comment; None where there is none.

    Raises:
        ValueError: the file does not hold a public key; a sentence for people, with the remedy.
    """
    try:
        words = path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return None
    if len(words) < 2:
        raise ValueError(
            f"ssh_trust: {path} does not hold a public key. Nothing was changed. Remove it "
            "together with its private key and run this again: then a new one is made."
        )
    return " ".join(words[:2])


def lines_of(text: str, names: Iterable[str], user: str) -> list[str]:
    """Return the lines of these nodes: of their host keys, and of their keys for this user."""
    owners = {owner for name in names for owner in (name, f"{user}@{name}")}
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line for line in lines if line.split()[-1:] and line.split()[-1] in owners]


def lines_of_control_nodes(text: str, user: str, own: str, replaced: Iterable[str]) -> list[str]:
    """Return the lines of other control nodes: each replaces its own key and no other one's.

    Args:
        own: the name of this control node, as it stands behind its key. Where it has a part behind
            a slash, for one of its inventories, it had the name before the slash once.
        replaced: lines that are written anew. A key that one of them has is this control node's,
            whatever it was called before.
    """
    keys = {key_of(line) for line in replaced}
    names = {own, own.partition("/")[0]}
    found = []
    for line in text.splitlines():
        owner = line.split()[-1] if line.split() else ""
        name = owner.removeprefix(f"{user}@")
        is_control_node = name == CONTROL_NODE or name.startswith(f"{CONTROL_NODE}:")
        if owner != name and is_control_node and name not in names and key_of(line) not in keys:
            found.append(line)
    return found


def key_of(line: str) -> str:
    """Return type and key of a line of authorized_keys, without its options and its owner."""
    return " ".join(line.split()[-3:-1])


def text_of(lines: Sequence[str]) -> str:
    """Return the text of a file with these lines.

    They are sorted without regard to case, as Jinja sorts, so that files of earlier versions of
    this role stay as they are.
    """
    return "\n".join([HEADER, *sorted(lines, key=str.lower), ""])
