"""Reading what ranks wrote. They may have put a link, a pipe or a device in the place of a file.

Root opens such paths one component after the other, each by the descriptor of the one before and
none of them through a link: what a rank changes meanwhile leads nowhere else.
"""

from __future__ import annotations

import codecs
import os
import stat
from contextlib import suppress
from typing import Any

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


def read_end(root: str, *parts: str, size: int, since: int = 0) -> tuple[int, bytes]:
    """Return the last `size` bytes of a plain file below `root`, and where in it they begin.

    Args:
        since: nothing in front of this offset is wanted, unless the file has become shorter.

    Raises:
        OSError: see `open_directory` and `open_file`.
    """
    directory = open_directory(root, *parts[:-1])
    try:
        descriptor = open_file(directory, parts[-1])
    finally:
        os.close(directory)
    with os.fdopen(descriptor, "rb") as file:
        end = os.fstat(descriptor).st_size
        offset = max(0, end - size, since if since <= end else 0)
        file.seek(offset)
        return offset, file.read(size)


def read_rank_file(run: str, *parts: str, size: int, since: int = 0) -> tuple[int, bytes]:
    """Return the end of a file that ranks wrote, as `read_end` does.

    When a run is over its files are moved to where they are brought home from: whoever still
    follows it must not miss the end.

    Args:
        run: directory of the run, as runs.directory has it.

    Raises:
        OSError: it is in neither place, or no plain file.
    """
    try:
        return read_end(run, "work", *parts, size=size, since=since)
    except OSError:
        return read_end(run, "collect", *parts, size=size, since=since)


def read_log(run: str, name: str, size: int, since: int) -> dict[str, Any]:
    """Return what is new in a rank's log, as a document of an answer.

    Args:
        size: at most so many bytes, the newest.
        since: where the answer before has ended, in bytes.

    Returns:
        `offset` and `end` in bytes, and `text`, which leaves a character that is not whole yet for
        the next time.

    Raises:
        OSError: see `read_rank_file`.
    """
    offset, content = read_rank_file(run, "logs", name, size=size, since=since)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    return {
        "offset": offset,
        "end": offset + len(content) - len(decoder.getstate()[0]),
        "text": text,
    }


def read_lines(run: str, *parts: str, size: int) -> list[str]:
    """Return the whole lines among the last `size` bytes of a file of ranks; none without a file.

    A line that is still being written is left for the next time.
    """
    try:
        offset, content = read_rank_file(run, *parts, size=size)
    except OSError:
        return []
    lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    # What was cut off in front belongs to a line that is not whole.
    return [line.decode(errors="replace") for line in (lines[1:] if offset else lines)]


def is_there(run: str, *parts: str) -> bool:
    """Tell whether ranks have written a plain file."""
    try:
        read_rank_file(run, *parts, size=0)
    except OSError:
        return False
    return True


def logs_of(run: str) -> dict[str, os.stat_result]:
    """Return what is known of each plain file among the logs of ranks, by name."""
    logs = {}
    for place in ("collect", "work"):
        try:
            descriptor = open_directory(run, place, "logs")
        except OSError:
            continue  # not there yet, or not any more
        try:
            for name in os.listdir(descriptor):
                with suppress(FileNotFoundError):
                    about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        logs[name] = about
        finally:
            os.close(descriptor)
    return logs
