"""Errors of syntax in a project, found before anything is started."""

import ast
import re
import sys
import warnings

from yard.code.files import Files, rule_of

# That of the trainer image. An older one here does not know all of its syntax.
IMAGE_PYTHON = (3, 13)
# What came in between: f-strings in f-strings, `type X = ...`, `def f[T](x)`, `class A[T]`.
NEWER = re.compile(r"""\b(?:[rR]?[fF]|[fF][rR])["']|^\s*type\s+\w|\b(?:def|class)\s+\w+\s*\[""")

# Read for their syntax: a file of code larger than this is none that a person has written.
MAX_BYTES = 2_000_000


def syntax_errors(files: Files, start: str, as_module: bool = False) -> tuple[list[str], list[str]]:
    """Check a file, and those of the project that it imports at the beginning, without running.

    Args:
        as_module: whether it is started by `-m`, which looks for modules from the top folder.

    Returns:
        What is wrong for certain, and what may only be too new for the Python of this machine, or
        lie where Python does not look; each with file, line and the line's text.
    """
    wrong: list[str] = []
    doubtful: list[str] = []
    root = "" if as_module else start.rpartition("/")[0] + "/" * ("/" in start)
    waiting, seen = [start], {start}
    while waiting:
        path = waiting.pop(0)
        file = files.travelling[path]
        if file.size > MAX_BYTES:
            continue
        try:
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(file.source.read_bytes(), path)
        except SyntaxError as error:
            line = (error.text or "").strip()
            text = f"{path}:{error.lineno}: {error.msg}" + (f"\n    {line}" if line else "")
            (doubtful if _may_be_newer(error) else wrong).append(text)
        except ValueError as error:  # a byte 0
            wrong.append(f"{path}: {error}")
        else:
            if path == start and b"sys.path" not in file.source.read_bytes():
                doubtful += _out_of_path(files, tree, path, root)
            imported, missing = _imported(files, tree, path)
            wrong += missing
            new = [name for name in imported if name not in seen]
            seen.update(new)
            waiting += new
    return wrong, doubtful


def _may_be_newer(error: SyntaxError) -> bool:
    """Whether a newer Python may read what this one does not."""
    if sys.version_info >= IMAGE_PYTHON:
        return False
    return error.msg.startswith("f-string") or bool(NEWER.search(error.text or ""))


def _out_of_path(files: Files, tree: ast.Module, path: str, root: str) -> list[str]:
    """The modules of the project that a program imports from where Python does not look.

    Args:
        root: the folder that Python looks into, with a slash behind.
    """

    def has(place: str, name: str) -> bool:
        return bool({f"{place}{name}.py", f"{place}{name}/__init__.py"} & files.travelling.keys())

    names = [
        (node.lineno, name.partition(".")[0])
        for node in tree.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else _named(node))
    ]
    found = {
        name: f"{path}:{line}: imports {name}, which lies in {place or 'the top folder'}, where "
        "Python does not look: have the program add that to sys.path, or start it by a run.sh that "
        f"sets PYTHONPATH={place or '.'}"
        for place in ("", "src/")
        for line, name in names
        if not has(root, name) and has(place, name)
    }
    return list(found.values())


def _named(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


def _imported(files: Files, tree: ast.Module, path: str) -> tuple[list[str], list[str]]:
    """What a module imports of the project always: outside of functions and of `try`.

    Returns:
        The files that travel, and what is wrong: modules that are there and do not travel.
    """
    folder = path.rpartition("/")[0]
    names: list[tuple[int, str]] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name.replace(".", "/")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").replace(".", "/")
            if node.level:
                above = [part for part in folder.split("/") if part]
                base = "/".join([*above[: len(above) - node.level + 1], *filter(None, [base])])
            inner = [f"{base}/{alias.name}".lstrip("/") for alias in node.names]
            names += [(node.lineno, name) for name in (base, *inner)]
    # Modules are looked for beside the script that is run, and in the working directory for `-m`.
    places = ["", f"{folder}/"] if folder else [""]
    found, wrong = [], []
    for line, name in names:
        candidates = [
            f"{place}{name}{ending}" for place in places for ending in (".py", "/__init__.py")
        ]
        travelling = [candidate for candidate in candidates if candidate in files.travelling][:1]
        found += travelling
        there = next((each for each in candidates if (files.folder / each).is_file()), None)
        if there and not travelling:
            rule = rule_of(files, there)
            wrong.append(f"{path}:{line}: imports {there}, which {rule} leaves out of what travels")
    return list(dict.fromkeys(found)), list(dict.fromkeys(wrong))
