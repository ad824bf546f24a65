# Copyright Trainyard. Apache-2.0
"""Keeps the byte code of what Python imports from zip archives.

Ansible sends each module as a zip archive, with some fifty files that it imports. Python keeps byte
code beside files alone, so it compiles those anew for every task: a third and more of what a task
costs a node. Here byte code is kept under the name that its source has in the archive, and used
again for a source that has not changed. The same code runs.

Installed as `sitecustomize.py` in a folder of PYTHONPATH, which Python then imports by itself, it
keeps byte code beside itself. It needs no other file, and runs with each Python that Ansible has on
nodes.
"""

from __future__ import annotations

import _imp  # importlib itself takes its hash from there
import marshal
import os
import sys
import zipimport
from contextlib import suppress
from types import CodeType
from typing import Any

# Bytes of one hash
HASH = 8
compile_source: Any = getattr(zipimport, "_compile_source", None)


def hash_of(content: bytes) -> bytes:
    """Return a hash that is another one for another version of Python."""
    return _imp.source_hash(sys.hexversion, content)


def place(folder: str, path: str) -> str:
    """Return the file for the byte code of a source, by the name that it has in its archive."""
    name = path.rpartition(".zip/")[2].replace("/", ".")
    return f"{folder}/{name}.{sys.implementation.cache_tag}"


def read(file: str, source: bytes) -> CodeType | None:
    """Return what is kept of a source; None where it is of another source, or damaged."""
    try:
        with open(file, "rb") as stream:
            kept = stream.read()
    except OSError:
        return None
    content = kept[2 * HASH :]
    if kept[: 2 * HASH] != hash_of(source) + hash_of(content):
        return None
    code: CodeType = marshal.loads(content)
    return code


def write(file: str, source: bytes, code: CodeType) -> None:
    """Keep the byte code of a source; where it cannot be written, nothing is kept."""
    content = marshal.dumps(code)
    new = f"{file}.{os.getpid()}"
    with suppress(OSError):
        try:
            with open(new, "wb") as stream:
                stream.write(hash_of(source) + hash_of(content) + content)
            os.replace(new, file)
        except OSError:
            os.remove(new)  # a part of it, from a disk that is full


def keep(folder: str) -> None:
    """Have this process keep byte code in a folder, and take it from there."""

    def compiled(path: str, source: bytes) -> CodeType:
        file = place(folder, path)
        code = read(file, source)
        if code is None:
            code = compile_source(path, source)
            write(file, source, code)
        else:
            # In tracebacks it has the path that it was imported from now.
            _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
        return code

    if compile_source is not None:
        zipimport._compile_source = compiled  # type: ignore[attr-defined]


def without(folder: str, paths: list[str]) -> list[str]:
    """Return the paths that are not the folder's."""
    return [path for path in paths if os.path.abspath(path) != folder]


def leave_to_others(folder: str) -> None:
    """Take the folder out of the paths on which Python looks for modules.

    Programs that a module starts run as they do without it, and a `sitecustomize` of the machine's
    own is imported as well.
    """
    paths = without(folder, os.environ["PYTHONPATH"].split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    if not paths:
        del os.environ["PYTHONPATH"]
    sys.path[:] = without(folder, sys.path)
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # the machine's
    except ImportError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = this


if __name__ == "sitecustomize":
    keep(os.path.dirname(os.path.abspath(__file__)))
    leave_to_others(os.path.dirname(os.path.abspath(__file__)))
