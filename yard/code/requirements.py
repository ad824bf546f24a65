"""What a project requires beside the image: the file that says so, and what stands in it."""

import codecs
import os
import posixpath
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from yard.code.files import Files, rule_of
from yard.core.errors import RequestError

# The image's version of Python
PYTHON = "3.13"
# Asked for in place of a file, where there is one that shall not count.
NONE = "none"
FROM_REPOSITORY = (
    "a repository has no hash, so a rerun could get something else; put the package's folder into "
    "the project, or build a wheel of it into a folder that pip's setting find-links names, and "
    "require its version"
)
OF_CONDA = "names a build of conda; pip list --format=freeze prints versions for pip"
OF_FREEZE = "names a file of the machine that wrote it; pip list --format=freeze prints versions"
OF_FOLDER = (
    "the project's own files travel as they are, and are not installed; take the line out, or name "
    "another file with REQUIREMENTS="
)
OF_WHEEL = "name the package, and in a line of its own the folder of this file: --find-links folder"
REQUIREMENTS, PYPROJECT = NAMES = ("requirements.txt", "pyproject.toml")

# Where other tools have what a project requires: files, and tables of a pyproject.toml
_OTHER_FILES = re.compile(
    r"Pipfile|pixi\.toml|setup\.(?:py|cfg)|(?!docs?/|tests?/)(?:[\w.-]+/)?(?:"
    r"(?:env|environment|conda|python_env|cog|dependencies)[\w.-]*\.ya?ml"
    r"|(?:Docker|Container|Make)file(?:[.-][\w.-]+)?|[\w.-]+\.def"
    r"|(?:install|setup|bootstrap)[\w.-]*\.sh)"
    r"|(?!docs?/|tests?/)(?:.*/)?(?:_?requirements?|reqs|deps|dependencies)(?:[_/.-][\w.-]+)?\.(?:txt|in)",
    re.IGNORECASE,
)
# Those of them that may have another purpose, and what they have where they say it
_PERHAPS = re.compile(
    r"(?:.*/)?(?:setup\.(?:py|cfg)|\w+file[\w.-]*|[\w.-]+\.(?:sh|def))"
    r"|(?!(?:envs?|environments?|conda|requirements)/).*/.*\.ya?ml",
    re.IGNORECASE,
)
_INSTALLS = re.compile(
    r"install_requires|\b(?:pip3?|conda|mamba) install\b|^dependencies:", re.MULTILINE
)
_LOCKS = re.compile(r"(?:uv|poetry|pdm|pixi|Pipfile)\.lock|pylock(?:\.\w+)?\.toml")
# How a script says itself what it requires (PEP 723)
_SCRIPT = re.compile(r"^# /// script$.*?^# *dependencies", re.MULTILINE | re.DOTALL)
_TABLES = (
    *("tool.poetry.dependencies", "tool.poetry.group", "tool.uv.sources", "tool.pdm.source"),
    *("tool.pixi.dependencies", "tool.pixi.pypi-dependencies", "tool.hatch.envs.default"),
    *("project.optional-dependencies", "dependency-groups", "tool.flit.metadata.requires"),
    *("tool.uv.index", "tool.uv.find-links", "tool.uv.constraint-dependencies"),
    *("tool.uv.override-dependencies", "tool.uv.dev-dependencies", "tool.poetry.source"),
    "tool.pdm.dev-dependencies",
)
# What no file in the form of pip is called
_OF_OTHER_FORM = re.compile(
    r"(?!.*requirements[\w.-]*\.lock)"  # Rye's, which has it
    r".*\.(?:ya?ml|lock|toml|json|py|cfg|sh)|(?:.*/)?(?:Pipfile|Dockerfile)"
)
_MOST_NAMED = 6
# Characters at the head of a script that are looked at
_HEAD = 4096

# A line that brings in another file, one that names a repository, and one that names a folder or
# the project itself.
_NESTED = re.compile(r"(?:-r|--requirement|-c|--constraint)[\s=]*(\S+)")
_REPOSITORY = re.compile(r"(?:-e\s*|--editable[\s=]*)?(?:[^#@]*@\s*)?(?:git|hg|svn|bzr)\+")
_PLACE = re.compile(
    r"(?P<option>-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host|--no-index|--pre"
    r"|--no-binary|--only-binary|--prefer-binary|--require-hashes)"
    r"(?:[\s=]+(?P<place>\S+))?\s*(?:#.*)?"
)
# An option, or a package with one of its own other than its hashes
_OF_PACKAGE = re.compile(r"-(?!-hash)|.*\s--(?!hash)[a-z]")
_CONDA = re.compile(r"\w[\w.-]*=[^=\s]+(?:=\S*)?$")
_LOCAL = re.compile(
    r"(?:-e\b|--editable\b|\.|/|file:|~|\S+\s*@\s*(?:file:|\.)|[\w.-]+/(?!/)|[\w.-]+\.(?:whl|tar\.gz|zip)$)"
)
# An entry that names a package
_PACKAGE = re.compile(r"^[ \t]*\w", re.MULTILINE)


@dataclass(frozen=True)
class Requirements:
    """What stands in the file, and in those it names.

    Attributes:
        path: the file, below the project's folder.
        packages: of a `pyproject.toml` its dependencies; empty of a file that pip reads itself.
        texts: the text of every file that counts, by path.
    """

    path: str
    folder: Path
    packages: tuple[str, ...]
    texts: dict[str, str]

    def options(self) -> str:
        """The lines that say where packages come from, for pip: uv and pip are told the same.

        A folder is relative to the file that names it.
        """
        texts = {} if self.packages else self.texts
        lines = [self._option(path, line) for path in texts for _, line in _lines(texts[path])]
        return "".join(f"{line}\n" for line in dict.fromkeys(filter(None, lines)))

    def write(self, folder: Path) -> None:
        """Write the files into a folder, for uv: an entry a line, since it stops at a backslash."""
        for path, text in self.texts.items():
            lines = [self._option(path, line) or line for _, line in _lines(text)]
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _option(self, path: str, line: str) -> str:
        """An option in a line of a file, for any folder; empty where the line is none."""
        found = _PLACE.fullmatch(line)
        if not found:
            return ""
        option, place = found["option"], found["place"] or ""
        if option in ("-f", "--find-links") and "://" not in place:
            place = os.path.normpath((self.folder / path).parent / place)
        return f"{option} {place}".rstrip()


def find_requirements(files: Files, asked: str | None) -> Requirements | None:
    """Find what a project requires; None where it requires nothing.

    Args:
        asked: a file, or `none`; None looks for `requirements.txt`, then for the dependencies of a
            `pyproject.toml`.

    Raises:
        RequestError: the file asked for does not travel, or names what cannot be installed.
    """
    if asked == NONE:
        return None
    path = _settle(files, asked)
    if path is None:
        return None
    if posixpath.basename(path) == PYPROJECT:
        return _of_pyproject(files, path, asked is not None)
    problems: list[str] = []
    texts: dict[str, str] = {}
    _read(files, path, texts, problems)
    if problems:
        raise RequestError(*problems)
    return Requirements(path, files.folder, (), texts)


def not_read(files: Files, asked: str | None, found: Requirements | None) -> list[str]:
    """What of a project says what it requires, and counts for nothing: a sentence each.

    Whoever names a file, or `none`, knows.
    """
    if asked is not None:
        return []
    named = []
    tables: tuple[str, ...] = _TABLES
    if found is not None and not any(map(_PACKAGE.search, found.texts.values())):
        found, tables = None, (*_TABLES, "project.dependencies")  # it has remarks alone
    if found is None or found.path != REQUIREMENTS:
        named = [*_tables(files, tables), *filter(_LOCKS.fullmatch, files.travelling)]
    if found is None:
        named += [
            path
            for path, file in files.travelling.items()
            if path != REQUIREMENTS
            and _OTHER_FILES.fullmatch(path)
            and (not _PERHAPS.fullmatch(path) or _INSTALLS.search(_head(file.source)))
        ]
        named += [
            f"the head of {path}"
            for path, file in files.travelling.items()
            if path.endswith(".py") and "/" not in path and _SCRIPT.search(_head(file.source))
        ]
    warnings = [
        f"{name}: not read, for it does not travel: {rule_of(files, name)} leaves it out"
        for name in NAMES
        if found is None and name not in files.travelling and (files.folder / name).is_file()
    ]
    if named:
        shown = ", ".join(sorted(named)[:_MOST_NAMED])
        warnings.append(
            f"{shown}: not read; list what the program requires beside the image in "
            f"{REQUIREMENTS}, or in a file of that form named by REQUIREMENTS="
        )
    return warnings


def other_python(files: Files) -> list[str]:
    """Where a project says that the image's Python is none for it: a sentence."""
    wanted = _under(_pyproject(files), "project.requires-python")
    try:
        if not isinstance(wanted, str) or SpecifierSet(wanted).contains(f"{PYTHON}.0"):
            return []
    except InvalidSpecifier:
        return [
            f"{PYPROJECT}: requires-python {wanted!r} is no version specifier, and is not compared"
        ]
    return [f"{PYPROJECT}: requires-python is {wanted}, and the image has Python {PYTHON}"]


def _tables(files: Files, names: Iterable[str]) -> list[str]:
    """Those of some tables that a `pyproject.toml` has."""
    document = _pyproject(files)
    tables = []
    for name in names:
        table = _under(document, name)
        # Poetry's has the Python itself.
        if isinstance(table, dict | list) and [each for each in table if each != "python"]:
            tables.append(f"{PYPROJECT} [{name}]")
    return tables


def _pyproject(files: Files) -> dict[str, object]:
    """What stands in a project's `pyproject.toml`; nothing where that cannot be read."""
    if PYPROJECT not in files.travelling:
        return {}
    try:
        return tomllib.loads(_text(files.folder / PYPROJECT))
    except ValueError:
        return {}  # another file counts


def _under(document: object, name: str) -> object:
    """What stands in a document under a name with dots; None where there is nothing."""
    found = document
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _text(path: Path) -> str:
    """The text of a file, also as editors and shells on Windows write it."""
    content = path.read_bytes()
    encoding = "utf-8-sig"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif content[1:2] == b"\0":
        encoding = "utf-16-le"
    text = content.decode(encoding)
    if "\0" in text:
        raise ValueError("has bytes of 0")
    return text


def _head(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_HEAD)


def _settle(files: Files, asked: str | None) -> str | None:
    if asked is None:
        return next((name for name in NAMES if name in files.travelling), None)
    path = posixpath.normpath(asked)
    if path not in files.travelling:
        raise RequestError(
            f"requirements {asked}: no such file travels with the project; {NONE} means no packages"
        )
    if _OF_OTHER_FORM.fullmatch(path) and posixpath.basename(path) != PYPROJECT:
        raise RequestError(
            f"requirements {asked}: is not of the form of {REQUIREMENTS}, a package in each line; "
            "uv export makes one from a lock, uv pip compile from other files"
        )
    return path


def _of_pyproject(files: Files, path: str, asked: bool) -> Requirements | None:
    try:
        text = _text(files.folder / path)
        project = tomllib.loads(text).get("project", {})
    except ValueError as error:
        raise RequestError(f"{path}: {error}") from error
    if "dependencies" in project.get("dynamic", []):
        raise RequestError(
            f"{path}: its dependencies are dynamic, known only by a build; name a file with "
            f"REQUIREMENTS=, or give REQUIREMENTS={NONE}"
        )
    packages = project.get("dependencies", [])
    if not isinstance(packages, list) or not all(isinstance(entry, str) for entry in packages):
        raise RequestError(f"{path}: project.dependencies must be a list of words")
    itself = re.compile(rf"{re.escape(str(project.get('name')))}(?![\w.-])")
    problems = [
        f"{path}: {entry}: {FROM_REPOSITORY if _REPOSITORY.match(entry) else OF_FOLDER}"
        for entry in packages
        if _REPOSITORY.match(entry) or _LOCAL.match(entry) or itself.match(entry)
    ]
    if problems:
        raise RequestError(*problems)
    if not packages and asked:
        raise RequestError(f"requirements {path}: it has no project.dependencies")
    if not packages:
        return None
    return Requirements(path, files.folder, tuple(packages), {path: "\n".join(packages)})


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, with the number of each; a backslash continues one.

    A line with several options is yielded once for each option.
    """
    for found in re.finditer(r"(?:[^\n\\]|\\\r?\n|\\)+", text):
        line = re.sub(r"\\\r?\n", " ", found[0]).strip()
        parts = re.split(r"\s(?=-)", line.split(" #")[0]) if line.startswith("-") else [line]
        for part in parts:
            yield text.count("\n", 0, found.start()) + 1, part.strip()


def _read(files: Files, path: str, texts: dict[str, str], problems: list[str]) -> None:
    try:
        text = _text(files.folder / path)
    except ValueError as error:
        problems.append(f"{path}: {error}; save it in UTF-8")
        return
    texts[path] = text
    for number, entry in _lines(text):
        nested = _NESTED.match(entry)
        if nested and "://" not in nested[1]:
            name = posixpath.normpath(posixpath.join(posixpath.dirname(path), nested[1]))
            if name not in files.travelling:
                problems.append(f"{path}:{number}: {name}: does not travel with the project")
            elif name not in texts:
                _read(files, name, texts, problems)
        elif _REPOSITORY.match(entry):
            problems.append(f"{path}:{number}: {entry}: {FROM_REPOSITORY}")
        elif _LOCAL.match(entry):
            is_file = entry.endswith((".whl", ".tar.gz", ".zip"))
            why = OF_FREEZE if "@" in entry else OF_WHEEL if is_file else OF_FOLDER
            problems.append(f"{path}:{number}: {entry}: {why}")
        elif _CONDA.match(entry):
            problems.append(f"{path}:{number}: {entry}: {OF_CONDA}")
        elif not nested and not _PLACE.fullmatch(entry) and _OF_PACKAGE.match(entry.split(" #")[0]):
            problems.append(
                f"{path}:{number}: {entry}: an option that is not supported here; take it out, or "
                "set it in pip's settings (pip config)"
            )
