"""Keeps the byte code of what Python imports from zip archives.

Ansible sends a module as a zip archive, with some fifty files that it imports. Python keeps byte
code beside files alone, so it compiles those anew for every task: two fifths of what a task costs.
Here byte code is kept by a hash of its source, in .trainyard/bytecode. The same code runs.

Python imports this module by itself where its folder is in PYTHONPATH (`kept_bytecode.py`).
"""

import _imp  # importlib itself uses it
import marshal
import os
import sys
import zipimport
from types import CodeType
from typing import Any

FOLDER = f"{os.path.dirname(os.path.abspath(__file__))}/../../../.trainyard/bytecode"
compile_source: Any = getattr(zipimport, "_compile_source", None)


def kept(path: str, source: bytes) -> CodeType:
    """The code of a source: what was kept of it, or else compiled now, and kept."""
    file = f"{FOLDER}/{_imp.source_hash(sys.hexversion, source).hex()}"
    try:
        with open(file, "rb") as stream:
            code: CodeType = marshal.load(stream)
    except (OSError, EOFError, ValueError, TypeError):
        code = compile_source(path, source)
        keep(file, code)
    else:
        # In tracebacks it has the path that it was imported from now.
        _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
    return code


def keep(file: str, code: CodeType) -> None:
    """Write a file, whole or not at all; where it cannot be written, nothing is kept."""
    new = f"{file}.{os.getpid()}"
    try:
        os.makedirs(FOLDER, exist_ok=True)
        with open(new, "wb") as stream:
            marshal.dump(code, stream)
        os.replace(new, file)
    except OSError:
        pass


if compile_source is not None:
    zipimport._compile_source = kept  # type: ignore[attr-defined]
