"""Reads small files of sysfs about devices."""

from pathlib import Path


def read_text(path: Path) -> str:
    """What is in a file; empty where there is none, or the device does not tell.

    A port without an address in this place, say, answers EINVAL.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
