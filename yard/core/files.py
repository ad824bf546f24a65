"""Small JSON files that are never half written."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

# Who may read and write a file, of which the umask takes its part.
ALL, OWNER = 0o666, 0o600


def write_json(path: Path, document: Any, mode: int = ALL) -> None:
    """Write a file as a whole or not at all, so that a kill leaves the old one."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", mode)


def write_text(path: Path, text: str, mode: int = ALL) -> None:
    """Write a file as a whole or not at all; folders above it are made.

    Two processes may write the same file at once, like the page of all runs: the later one wins.

    Args:
        mode: `OWNER` for what may hold a secret.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)  # of a killed process that had this id, perhaps with another mode
    try:
        with open(new, "x", encoding="utf-8", opener=partial(os.open, mode=mode)) as file:
            file.write(text)
        os.replace(new, path)
    except OSError:
        new.unlink(missing_ok=True)  # half a file would only fill a full disk
        raise


def read_json(path: Path) -> Any:
    """Read a file, or return None when it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def in_form(form: Any, value: Any) -> Any:
    """A decoded value in the form of a type: dataclasses, sequences of them, and what may be None.

    Whatever else the type says of a value is left to whoever wrote it.

    Raises:
        AttributeError, TypeError: it has other keys than a dataclass, or another form.
    """
    if isinstance(form, type) and is_dataclass(form):
        types = _types(form)
        return form(**{name: in_form(types.get(name), each) for name, each in value.items()})
    if get_origin(form) in (tuple, Sequence):
        return tuple(in_form(get_args(form)[0], each) for each in value)
    if isinstance(form, UnionType) and value is not None:
        return in_form(get_args(form)[0], value)
    return value


_types = cache(get_type_hints)


def read_object(path: Path) -> dict[str, Any]:
    """Read a file that holds a JSON object; what is missing or no object is an empty one."""
    document = read_json(path)
    return document if isinstance(document, dict) else {}


def read_list(path: Path) -> list[Any]:
    """Read a file that holds a JSON list; what is missing or no list is an empty one."""
    document = read_json(path)
    return document if isinstance(document, list) else []


def decoded_lines(text: str) -> list[Any]:
    """The JSON documents of a text, one a line, without what a crash cut off or is no JSON."""
    documents = []
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            documents.append(json.loads(line))
    return documents


def read_end(path: Path, size: int) -> str:
    """The text of a file, of a long one the whole lines in its last `size` bytes; "" of none."""
    try:
        with path.open("rb") as file:
            begin = max(0, path.stat().st_size - size)
            file.seek(begin)
            content = file.read(size)
    except OSError:
        return ""
    whole = content.find(b"\n") + 1 if begin else 0
    return content[whole:].decode("utf-8", errors="replace")


def room_of(folder: Path, counted: set[tuple[int, int]]) -> int:
    """Bytes that the files below a folder take on the disk; a file with several names counts once.

    Args:
        counted: files that were counted already, by device and inode; these are added.
    """
    total = 0
    for path in folder.rglob("*"):
        try:
            about = path.lstat()
        except OSError:
            continue  # it went meanwhile
        if (about.st_dev, about.st_ino) not in counted:
            counted.add((about.st_dev, about.st_ino))
            total += about.st_blocks * 512  # its unit, whatever the file system's is: stat(2)
    return total


def holds_files(folder: Path) -> bool:
    """Whether there is a file anywhere below a folder."""
    return any(path.is_file() for path in folder.rglob("*"))
