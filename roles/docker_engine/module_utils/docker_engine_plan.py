# Copyright Trainyard. Apache-2.0
"""What the engine's settings file and the note of what was there before are to hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.module_utils.docker_engine_merge import merged, parsed, without


class SettingsError(Exception):
    """The settings cannot be; the message says why, and what to do."""


@dataclass(frozen=True)
class Plan:
    """The settings as they are and as they are to be.

    Attributes:
        text: what is in the file; None where there is none.
        new: what is to be in it; None where it goes.
        settings: the settings of `new`.
        note: what is to be in the note.
        changed: whether file or note differ from that.
    """

    text: str | None
    new: str | None
    settings: dict[str, Any]
    note: dict[str, Any]
    changed: bool


def read(path: Path) -> str | None:
    """Return the text of a file, None where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def note_file(record: Path) -> Path:
    """Return where the note lies, in the directory that its owner gave."""
    return record / "settings.json"


def make_plan(path: Path, record: Path, options: Mapping[str, Any], absent: bool) -> Plan:
    """Compare the settings file with the options that are to be in it.

    Args:
        path: the engine's settings.
        record: directory of the note.
        options: what is merged into the settings.
        absent: the options are taken out, not put in.

    Raises:
        SettingsError: the file is not JSON, or the engine would listen on the network.
    """
    text = read(path)
    noted = json.loads(read(note_file(record)) or "null")
    if absent and noted is None:
        return Plan(text, text, {}, {}, changed=False)
    wished = {} if absent else dict(options)
    before = noted["before"] if noted else text
    try:
        now, earlier = parsed(text), parsed(before)
    except ValueError as error:
        raise SettingsError(
            f"docker_engine: {path} cannot be read as JSON: {error}. Nothing was changed. "
            "Mend it, or move it away."
        ) from error
    settings = merged(without(now, noted["options"], earlier) if noted else now, wished)
    hosts = settings.get("hosts") or []
    network = [host for host in hosts if not host.startswith(("unix:", "fd:"))]
    if network and not absent:
        raise SettingsError(
            f"docker_engine: with hosts {', '.join(network)} in {path} the engine would listen "
            "on the network, where whoever reaches it is root. Nothing was changed. Take them out."
        )
    new: str | None
    if absent and settings == earlier:
        new = before
    elif absent and not settings:
        new = None  # what others had merged in before is gone too
    elif settings == now and text is not None:
        new = text
    else:
        new = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    note = {"before": before, "options": wished}
    return Plan(text, new, settings, note, changed=new != text or absent or note != noted)
