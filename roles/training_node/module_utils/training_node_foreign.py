# Copyright Trainyard. Apache-2.0
"""Reading what ranks wrote. They may have put a link, a pipe or a device in the place of a file.

Root opens such paths one component after the other, each by the descriptor of the one before and
none of them through a link: what a rank changes meanwhile leads nowhere else.
"""

from __future__ import annotations

import os
import stat

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe waits for whoever writes into it.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_directory(root: str, *parts: str) -> int:
    """Return a descriptor of a directory below `root`, which itself is trusted.

    Raises:
        OSError: there is none, or a link or something else is in the place of one on the way.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            above = descriptor
            descriptor = os.open(part, DIRECTORY, dir_fd=above)
            os.close(above)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_file(directory: int, name: str) -> int:
    """Return a descriptor of a plain file in a directory, for reading.

    Raises:
        OSError: there is none, or something else is in its place.
    """
    descriptor = os.open(name, FILE, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(f"{name} is no plain file")
    return descriptor


def read_end(root: str, *parts: str, size: int) -> tuple[int, bytes]:
    """Return the last `size` bytes of a plain file below `root`, and where in it they begin.

    Raises:
        OSError: see `open_directory` and `open_file`.
    """
    directory = open_directory(root, *parts[:-1])
    try:
        descriptor = open_file(directory, parts[-1])
    finally:
        os.close(directory)
    with os.fdopen(descriptor, "rb") as file:
        offset = max(0, os.fstat(descriptor).st_size - size)
        file.seek(offset)
        return offset, file.read(size)


def read_lines(root: str, *parts: str, size: int) -> list[str]:
    """Return the whole lines among the last `size` bytes of a plain file; none where there is none.

    A line that is still being written is left for the next time.
    """
    try:
        offset, content = read_end(root, *parts, size=size)
    except OSError:
        return []
    lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    # What was cut off in front belongs to a line that is not whole.
    return [line.decode(errors="replace") for line in (lines[1:] if offset else lines)]


def is_there(root: str, *parts: str) -> bool:
    """Tell whether a plain file is there."""
    try:
        read_end(root, *parts, size=0)
    except OSError:
        return False
    return True


def names_in(root: str, *parts: str) -> list[str]:
    """Return the names in a directory, in order; none where there is no such directory."""
    try:
        descriptor = open_directory(root, *parts)
    except OSError:
        return []
    try:
        return sorted(os.listdir(descriptor))
    finally:
        os.close(descriptor)
