"""A project as a user names it: a folder with a program."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.code.files import Files, find_files, left_behind, looks_secret
from yard.code.git import git_revision, missing_submodules
from yard.code.program import find_program
from yard.code.requirements import Requirements, find_requirements, not_read, other_python
from yard.code.settings import RANK, Settings, read_settings, split
from yard.code.starts import (
    check_start,
    commands_of,
    doubtful_starts,
    lfs_pointers,
    programs_of,
)
from yard.code.syntax import of_other_pythons, syntax_errors
from yard.core.errors import RequestError
from yard.core.project import Project
from yard.core.words import printable

# The longest name of a project; it stands in the ids of runs and in labels of containers.
NAME_LENGTH = 40
# What a program that goes on from a checkpoint has somewhere: the folder's name, a word of the
# libraries that load one, or an option of its own for it.
_LOADS = re.compile(
    r"TRAINYARD_CHECKPOINT_DIR|checkpoint_dir|load_state|load_checkpoint|load_model|from_pretrained"
    r"|\bload\(|ckpt|resume|restore",
    re.IGNORECASE,
)
# What an option is called that takes a folder of data
_OF_DATA = re.compile(r"data|input|images|train|corpus|src", re.IGNORECASE)
# Files that may say it, and how much of each is read, in characters.
_TEXTS = (".py", ".sh", ".yml", ".yaml", ".toml", ".json", ".cfg")
_READ = 1 << 20


@dataclass(frozen=True)
class OwnCode:
    """A project with nothing left open.

    Attributes:
        name: of the folder, as it may stand in an id: of a to z, 0 to 9 and `-`.
        per: `rank` or `node`: how many of it are started.
        requirements: what it requires; None where that is nothing.
        warnings: what may be wrong, and cannot be told here for certain.
        foreign: the modules that it imports of packages, with the place where it does.
    """

    name: str
    shown: str
    files: Files
    program: tuple[str, ...]
    per: str
    settings: Settings
    requirements: Requirements | None
    warnings: tuple[str, ...]
    foreign: dict[str, str]
    git: dict[str, Any] | None


def read_code(
    checkout: Project,
    typed: str,
    entry: str | None = None,
    script_args: str | None = None,
    launch: str | None = None,
    requirements: str | None = None,
    snapshot_of: str | None = None,
    on_cpus: bool = False,
) -> OwnCode:
    """Look at a project, and settle what is run of it. What is typed wins over `trainyard.yml`.

    Args:
        snapshot_of: the project, where the folder is the snapshot of a run, which goes as it is.
        on_cpus: whether no node has GPUs.

    Raises:
        RequestError: with all that is wrong with it.
    """
    folder = check_folder(checkout, typed)
    problems: list[str] = []
    warnings: list[str] = []
    settings, files, required = Settings(), None, None
    program: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    foreign: dict[str, str] = {}
    try:
        settings = read_settings(folder)
    except RequestError as error:
        problems += error.problems
    try:
        arguments = settings.args if script_args is None else split(script_args)
    except ValueError as error:
        problems.append(f"SCRIPT_ARGS= {script_args}: {error}")
    for argument in (*arguments, *settings.resume_args):
        if not _can_be_passed(argument):
            problems.append(f"argument {argument!a}: must be text in UTF-8 without a byte 0")
    try:
        files = find_files(folder, ruled=snapshot_of is None)
        asked = requirements or settings.requirements
        required = find_requirements(files, asked)
        warnings += [*not_read(files, asked, required), *other_python(files)]
        program = find_program(files, entry or settings.entry)
        per_rank = (launch or settings.launch or RANK) == RANK
        wrong, scripts = check_start(files, program, per_rank)
        problems += wrong
        warnings += [
            f"{path}: is an empty submodule, not fetched yet: git submodule update --init"
            for path in missing_submodules(folder)
        ]
        warnings += [
            *looks_secret(files),
            *lfs_pointers(files),
            *doubtful_starts(files, program, scripts, per_rank, on_cpus),
        ]
        started = programs_of(files, program, scripts)
        warnings += [*of_other_pythons(files), *_paths_left_behind(files, arguments)]
        warnings += [
            f"{path}: {said.removeprefix('argument ')}"
            for path, words in commands_of(files, scripts)
            for said in _paths_left_behind(files, tuple(words))
        ]
        for source, as_module in started:
            wrong, doubtful, needed = syntax_errors(files, source, as_module, per_rank)
            foreign = {**needed, **foreign}
            # Of several programs in a script not every one may be run.
            (problems if len(started) == 1 else warnings).extend(wrong)
            warnings += doubtful
    except RequestError as error:
        problems += error.problems
    if problems or files is None:
        raise RequestError(*problems)
    return OwnCode(
        name=snapshot_of or project_name(folder),
        shown=checkout.shown(folder),
        files=files,
        program=(*program, *arguments),
        per=launch or settings.launch or RANK,
        settings=settings,
        requirements=required,
        warnings=tuple(warnings),
        foreign=foreign,
        git=git_revision(folder),
    )


def check_folder(checkout: Project, typed: str) -> Path:
    """The folder of a project.

    Raises:
        RequestError: it is none, or holds this checkout with its runs.
    """
    folder = Path(typed).expanduser()
    if not folder.exists():
        raise RequestError(f"CODE={typed}: there is no such folder")
    if not folder.is_dir():
        raise RequestError(
            f"CODE={typed}: is not a folder; name the folder, and the file in ENTRY="
        )
    folder = folder.resolve()
    if not str(folder).isprintable():
        raise RequestError(f"CODE={printable(str(folder))}: has a name that cannot be printed")
    if checkout.root.resolve().is_relative_to(folder):
        raise RequestError(
            f"CODE={typed}: holds this checkout of Trainyard, with its runs; name a folder in it"
        )
    return folder


def _paths_left_behind(files: Files, arguments: tuple[str, ...]) -> list[str]:
    """A warning for each argument that names what is here and will not be on the nodes.

    Of folders those that hold data: others may be where the program writes.
    """
    options = zip(("", *arguments), arguments, strict=False)
    parted = [(before, argument, *argument.rpartition("=")[::2]) for before, argument in options]
    return [
        f"argument {argument}: {why}"
        for before, argument, option, value in parted
        if (why := left_behind(files, value, bool(_OF_DATA.search(option or before))))
    ]


def _can_be_passed(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in argument


def project_name(folder: Path) -> str:
    """A folder's name as it may stand in ids and labels."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")
    return name[:NAME_LENGTH].rstrip("-") or "project"


def seems_to_load(code: OwnCode) -> bool:
    """Whether anything in a program's text, or its arguments, may have it load a checkpoint.

    A module of the image or a package may do it unseen: then its arguments say so, mostly.
    """
    texts = [" ".join(code.program)]
    for path, file in code.files.travelling.items():
        if Path(path).suffix in _TEXTS:
            with file.source.open(encoding="utf-8", errors="replace") as text:
                texts.append(text.read(_READ))
    return any(_LOADS.search(text) for text in texts)
