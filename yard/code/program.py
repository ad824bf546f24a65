"""What is run of a project: its entry, and the arguments that start it."""

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

from yard.code.files import IGNORE, Files
from yard.core.errors import RequestError

# Looked for in this order where nobody says what is run.
ENTRIES = ("train.py", "main.py")

FORMS = "script.py, run.sh or -m package.module"


def find_program(files: Files, entry: str | None) -> tuple[str, ...]:
    """The arguments that start a project's entry, without those of the program.

    Args:
        entry: as it was asked for; None looks for one of `ENTRIES`.

    Raises:
        RequestError: there is no such entry, or it is not clear which one; the message says what
            there is.
    """
    if entry is None:
        entry = _default(files)
    module = re.fullmatch(r"-m\s+(\S+)", entry.strip())
    if module:
        return ("python3", "-m", _module(files, module[1]))
    if entry.strip().startswith("-"):
        raise RequestError(f"entry {entry!r}: must be {FORMS}; arguments go into SCRIPT_ARGS=")
    path = _script(files, entry)
    return ("bash" if path.endswith(".sh") else "python3", path)


def split_program(program: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The entry of a program, and its arguments: what `ENTRY=` and `SCRIPT_ARGS=` were."""
    if program[1] == "-m":
        return f"-m {program[2]}", program[3:]
    return program[1], program[2:]


def source_of(files: Files, program: tuple[str, ...]) -> str | None:
    """The Python file among those that travel with which a program begins; None where none does."""
    if program[:2] == ("python3", "-m"):
        return find_module(files, program[2])
    return program[1] if program[0] == "python3" else None


def find_module(files: Files, module: str) -> str | None:
    """The file of a module that lies in the project; of a package the one that `-m` runs."""
    path = module.replace(".", "/")
    names = (f"{path}.py", f"{path}/__main__.py")
    return next((name for name in names if name in files.travelling), None)


def _default(files: Files) -> str:
    there = [name for name in ENTRIES if name in files.travelling]
    if len(there) == 1:
        return there[0]
    if there:
        raise RequestError(f"entry: there are {' and '.join(there)}; say which with ENTRY=")
    ignored = [name for name in ENTRIES if (files.folder / name).is_file()]
    if ignored:
        raise RequestError(_not_travelling(files, ignored[0]))
    raise RequestError(
        f"entry: there is no {' or '.join(ENTRIES)}; ENTRY= says what to run\n{_scripts(files)}"
    )


def _module(files: Files, name: str) -> str:
    top = name.partition(".")[0]
    ours = any(path in (f"{top}.py",) or path.startswith(f"{top}/") for path in files.travelling)
    # One that does not lie here may be a module of the image: accelerate's, torch's own.
    if not all(part.isidentifier() for part in name.split(".")) or (
        ours and find_module(files, name) is None
    ):
        path = name.replace(".", "/")
        raise RequestError(f"entry -m {name}: there is no {path}.py or {path}/__main__.py")
    return name


def _script(files: Files, entry: str) -> str:
    path = posixpath.normpath(entry.strip())
    if Path(path).is_absolute() and Path(path).is_relative_to(files.folder):
        path = str(Path(path).relative_to(files.folder))
    if path not in files.travelling:
        if not path.startswith(("/", "../")) and (files.folder / path).is_file():
            raise RequestError(_not_travelling(files, path))
        alone = "; it is a file alone, arguments go into SCRIPT_ARGS=" * (" " in entry.strip())
        raise RequestError(f"entry {entry}: there is no such file{alone}\n{_scripts(files)}")
    if not path.endswith((".py", ".sh")):
        way = "; jupyter nbconvert --to script makes one of it" * path.endswith(".ipynb")
        raise RequestError(f"entry {entry}: must be {FORMS}{way}")
    return path


def _not_travelling(files: Files, path: str) -> str:
    return (
        f"entry {path}: does not travel, because it is left out by "
        f"{files.rules or 'a rule for caches and environments'}; take it out there, or include it "
        f"in {IGNORE}"
    )


def _scripts(files: Files) -> str:
    scripts = [path for path in files.travelling if path.endswith((".py", ".sh"))]
    # Those at the top first: an entry seldom lies deep.
    shown = sorted(scripts, key=lambda path: (path.count("/"), path))
    lines = [f"        {path}" for path in shown[:10]]
    if len(shown) > 10:
        lines.append(f"        and {len(shown) - 10} more")
    return "\n".join(["    there are", *(lines or ["        no .py and no .sh"])])
