"""Errors of syntax in a project, found before anything is started."""

import ast
import os
import re
import sys
import warnings
from pathlib import Path, PurePosixPath

from yard.code.files import Files, left_behind, named_rule, rule_of
from yard.code.starts import started_in_python

# That of the trainer image. An older one here does not know all of its syntax.
IMAGE_PYTHON = (3, 13)
# What came in between: f-strings in f-strings, `type X = ...`, `def f[T](x)`, `class A[T]`.
NEWER = re.compile(r"""\b(?:[rR]?[fF]|[fF][rR])["']|^\s*type\s+\w|\b(?:def|class)\s+\w+\s*\[""")

# How a module is called that was compiled for one Python
COMPILED = re.compile(r".*\.cpython-(3)(\d+)[\w-]*\.so")
# A module in the folder that Python looks into, and names that libraries import. What Python has
# imported before the program stays, and its own `test` nobody imports.
MODULE = re.compile(r"(?P<name>\w+)(?:\.py|/__init__\.py)")
TAKEN = (sys.stdlib_module_names - {*sys.builtin_module_names, "site", "test", "this"}) | {
    *("torch", "torchvision", "numpy", "horovod", "mpi4py", "yaml", "PIL"),
}
# Of Python until 3.12
GONE = {
    *("aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "imp"),
    *("lib2to3", "mailcap", "nntplib", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib"),
    *("uu", "xdrlib"),
}
# Beginnings of paths to data in a project, and paths of this machine alone: below a folder such as
# /home or /mnt, and not hidden
DATA = re.compile(r"(?:\./)?[\w-]*(?:data|images|inputs?|corp(?:us|ora))[\w-]*/", re.IGNORECASE)
OF_MACHINE = re.compile(
    r"/(?!(?:bin|boot|etc|lib\w*|opt|proc|run|sbin|sys|tmp|usr|var)/)\w[^/]*/(?!.*/\.)[\w-].*"
)
# Read for their syntax: a file of code larger than this is none that a person has written.
MAX_BYTES = 2_000_000


def syntax_errors(
    files: Files, start: str, as_module: bool = False, per_rank: bool = True
) -> tuple[list[str], list[str], dict[str, str]]:
    """Check a file, and those of the project that it imports at the beginning, without running.

    Args:
        as_module: whether it is started by `-m`, which looks for modules from the top folder.
        per_rank: whether each rank is one of it, and not each node.

    Returns:
        What is wrong for certain, and what may only be too new for the Python of this machine, lie
        where Python does not look, or start ranks; each with file, line and the line's text. And
        the modules that are neither Python's nor the project's, with the line that imports each.
    """
    wrong: list[str] = []
    doubtful: list[str] = []
    foreign: dict[str, str] = {}
    own = {part.partition(".")[0] for each in files.travelling for part in each.split("/")}
    root = "" if as_module else start.rpartition("/")[0] + "/" * ("/" in start)
    waiting = [start, *(_packages(files, start.removesuffix(".py")) if as_module else [])]
    seen = set(waiting)
    while waiting:
        path = waiting.pop(0)
        file = files.travelling[path]
        if file.size > MAX_BYTES:
            continue
        content = file.source.read_bytes()
        if b"\0" in content:
            wrong.append(f"{path}: has zero bytes, as UTF-16 does: save it in UTF-8")
            continue
        try:
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(content, path)
        except SyntaxError as error:
            line = (error.text or "").strip()
            newer = _may_be_newer(error)
            text = f"{path}:{error.lineno}: {error.msg}" + ", or newer than the Python here" * newer
            (doubtful if newer else wrong).append(text + (f"\n    {line}" if line else ""))
        else:
            if path == start and not as_module and b"__package__" not in content:
                wrong += _without_package(tree, path)
            if path == start and b"sys.path" not in content:
                doubtful += _out_of_path(files, tree, path, root)
                doubtful += _not_there(files, tree, path, root)
                doubtful += _shadowing(files, root)
            imported, missing = _imported(files, tree, path)
            wrong += missing
            doubtful += [each for each in _imported_later(files, tree, path) if each not in wrong]
            doubtful += started_in_python(files, tree, path, per_rank)
            doubtful += _paths(files, tree, path)
            for name, place in _foreign(files, own, tree, path):
                foreign.setdefault(name, place)
            new = [name for name in imported if name not in seen]
            seen.update(new)
            waiting += new
    return wrong, doubtful, foreign


def _without_package(tree: ast.Module, path: str) -> list[str]:
    """What a script imports by a dot: it has no package."""
    module = path.removesuffix(".py").replace("/", ".")
    way = f'start it by ENTRY="-m {module}", or ' if "/" in path else ""
    return [
        f"{path}:{node.lineno}: imports {'.' * node.level}{node.module or ''}, and a script has no "
        f"package: {way}take the dot out"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def of_other_pythons(files: Files) -> list[str]:
    """A warning for the modules that travel and were not compiled for the image's Python."""
    found = [(path, COMPILED.fullmatch(path)) for path in files.travelling]
    named = [
        path for path, match in found if match and tuple(map(int, match.groups())) != IMAGE_PYTHON
    ]
    image = ".".join(map(str, IMAGE_PYTHON))
    return [
        f"{', '.join(named[:5])}: compiled for another Python than the image's {image}, which "
        f"cannot import it; require a package with a wheel for {image}, or compile it for that"
    ] * bool(named)


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

    names = _named(tree)
    found = {
        name: f"{path}:{line}: imports {name}, which is in {place or 'the top folder'}, not on "
        "Python's path: add that to sys.path, or start the program by a run.sh that sets "
        f"PYTHONPATH={place or '.'}"
        for place in ("", "src/")
        for line, name, _ in names
        if not has(root, name) and has(place, name)
    }
    return list(found.values())


def _named(tree: ast.Module) -> list[tuple[int, str, str]]:
    """What a module imports by absolute names at its beginning: line, first part and whole name."""
    return [
        (node.lineno, name.partition(".")[0], name)
        for node in tree.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    ]


def _paths(files: Files, tree: ast.Module, path: str) -> list[str]:
    """The paths in a module of what is here and will not be on the nodes: the first of each kind.

    Of those in the project such as are called as data is: a program writes to others.
    """
    found: dict[bool, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "/" in node.value:
            value = os.path.expanduser(node.value)
            is_of_machine = value.startswith("/")
            looked_at = (OF_MACHINE if is_of_machine else DATA).match(value)
            if looked_at and (why := left_behind(files, value, is_data=True)):
                found.setdefault(is_of_machine, []).append(f"{node.lineno}: {node.value}: {why}")
    return [
        f"{path}:{first}" + (f" (and {len(more)} more)" if more else "")
        for first, *more in found.values()
    ]


def _foreign(files: Files, own: set[str], tree: ast.Module, path: str) -> list[tuple[str, str]]:
    """What a module imports that is neither Python's nor anywhere in the project, and its place.

    Args:
        own: the names of all files and folders of the project, without their endings.
    """
    return [
        (name, f"{path}:{line}")
        for line, name, _ in _named(tree)
        if (name not in sys.stdlib_module_names or name in {*GONE, "distutils"})
        and name not in own
        and not any(map(Path.exists, (files.folder / name, files.folder / f"{name}.py")))
    ]


def _not_there(files: Files, tree: ast.Module, path: str, root: str) -> list[str]:
    """What a program imports at its beginning of its own packages, and is nowhere.

    Args:
        root: the folder that Python looks into, with a slash behind.
    """
    found = []
    for line, first, name in _named(tree):
        place = root + name.replace(".", "/")
        if first == name or f"{root}{first}/__init__.py" not in files.travelling:
            continue
        beginnings = (f"{place}.", f"{place}/")
        there = any(map(Path.exists, (files.folder / place, files.folder / f"{place}.py")))
        if there or any(each.startswith(beginnings) for each in files.travelling):
            continue
        rule = named_rule(files, f"{place}/")
        found.append(
            f"{path}:{line}: imports {name}, and {root}{first}/ here has no such module"
            + (f"; {rule} leaves it out, of git clones too" if rule else "")
        )
    return found


def _shadowing(files: Files, root: str) -> list[str]:
    """A warning for the modules beside a program that are in the way of Python's or the image's."""
    found = [
        path
        for path in files.travelling
        if path.startswith(root)
        and (match := MODULE.fullmatch(path[len(root) :]))
        and match["name"] in TAKEN
    ]
    return [
        f"{', '.join(found[:5])}: has the name of a module of Python or the image, and would be "
        "imported in its place, by libraries too; rename it"
    ] * bool(found)


def _packages(files: Files, module: str) -> list[str]:
    """What Python runs of the packages that a module lies in, before it."""
    parents = [f"{parent}/__init__.py" for parent in PurePosixPath(module).parents]
    return [path for path in parents if path in files.travelling]


def _imported(
    files: Files, tree: ast.Module, path: str, more: str = ""
) -> tuple[list[str], list[str]]:
    """What a module imports of the project always: outside of functions and of `try`.

    Args:
        more: another folder in which modules may be looked for, with a slash behind.

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
    places = dict.fromkeys(("", f"{folder}/" if folder else "", more))
    found, wrong = [], []
    for line, name in names:
        candidates = [
            f"{place}{name}{ending}" for place in places for ending in (".py", "/__init__.py")
        ]
        travelling = [candidate for candidate in candidates if candidate in files.travelling][:1]
        found += travelling
        for place in places:
            found += _packages(files, f"{place}{name}")
        there = next((each for each in candidates if (files.folder / each).is_file()), None)
        if there and not travelling:
            rule = rule_of(files, there)
            wrong.append(f"{path}:{line}: imports {there}, which {rule} leaves out of what travels")
    return list(dict.fromkeys(found)), list(dict.fromkeys(wrong))


def _imported_later(files: Files, tree: ast.Module, path: str) -> list[str]:
    """The modules that do not travel and may be imported: in a function or branch, or from src/."""
    tried = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        for inner in ast.walk(node)
    }
    statements: list[ast.stmt] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in tried
    ]
    return _imported(files, ast.Module(statements, []), path, "src/")[1]
