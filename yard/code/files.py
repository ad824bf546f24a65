"""Which files of a folder travel with a run, and what is left out."""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from yard.code.git import follows_git, ignored_paths, ignoring_rule, known_files
from yard.core.errors import RequestError
from yard.core.words import first_names, plural, printable, size

IGNORE = ".trainyardignore"

# What may travel. A run copies its files to every node, and keeps them; data has a way of its own.
MAX_BYTES = 500 * 10**6
MAX_FILES = 20_000
# So many are looked at before it is clear that the folder holds no program: a second or two.
LOOKED_AT = 5 * MAX_FILES
# So many of what is left out are counted: a data set beside the program may have millions.
COUNTED = 20_000

# What is never part of a program: made from it, or made anew with another command.
NEVER = frozenset(
    {
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
    }
)
# Names of files that mostly hold passwords or keys
SECRET = re.compile(
    r"\.envrc|\w*\.env(?:\.(?!example|sample|template).*)?|.*\.(?:pem|key|p8|p12|pfx|ppk|keystore|jks)"
    r"|\.(?:netrc|pgpass|pypirc|npmrc|s3cfg|boto|htpasswd|vault_pass\w*|git-credentials|secrets?)"
    r"|\.(?:databrickscfg|my\.cnf)|.*\.(?:kdbx|keytab|ovpn|tfvars)|kubeconfig(?:\.ya?ml)?"
    r"|\.dockerconfigjson|rclone\.conf|\w*accesskeys\.csv|rootkey\.csv"
    r"|.*id_(?:rsa|dsa|ecdsa|ed25519)|(?:.*[_.-])?cred(?:ential)?s(?:\..*)?|.*[_-](?:key|adminsdk.*)\.json"
    r"|secrets?(?:\.\w+)?\.(?:ya?ml|json|toml|env|py|sh|ini|cfg|conf|txt)|.*\.tfstate"
    r"|passw(?:or)?ds?(?:\.(?:txt|csv|json))?|(?:kaggle|auth|(?:\w+_)?token)\.json"
    r"|(?:client_secret|service[_-]account).*\.json|(?:api|access|secret)[_-]?keys?\.(?:json|ya?ml|toml|py|env)"
    r"|(?:[.\w-]*[._-]|api|access)?(?:key|token)(?:\.txt)?",
    re.IGNORECASE,
)
# Folders and files of programs that keep theirs there
SECRET_FOLDER = re.compile(
    r"/\.(?:ssh|aws|gnupg|azure|kube|config/gcloud)/|/\.docker/config\.json$"
)
# A folder with this file is a virtual environment, whatever its name.
ENVIRONMENT = "pyvenv.cfg"

REMEDY = (
    f"    name what the program does not need in {IGNORE} (as in .gitignore), "
    "and put data on the nodes with: make data"
)


@dataclass(frozen=True)
class SourceFile:
    """A file that travels.

    Attributes:
        path: where it will lie, below the folder.
        source: where it is read; for a link what it points at.
        size: bytes, when it was found.
    """

    path: str
    source: Path
    size: int


@dataclass(frozen=True)
class LeftOut:
    """Files that a rule leaves out.

    Attributes:
        what: the pattern, or the path that git's rules name.
        files: how many, of which no more than `COUNTED` are counted.
    """

    what: str
    files: int

    def __str__(self) -> str:
        more = "more than " if self.files >= COUNTED else ""
        return f"{self.what}: {more}{plural(self.files, 'file')}"


@dataclass(frozen=True)
class Files:
    """The files of a folder.

    Attributes:
        travelling: those that go with the run, by path, in order.
        rules: whose rules say what is left out: `.trainyardignore`, `.gitignore`, both or none.
        left_out: what they leave out, the most files first.
    """

    folder: Path
    travelling: dict[str, SourceFile]
    rules: str | None
    left_out: tuple[LeftOut, ...]

    @property
    def bytes(self) -> int:
        """Size of those that travel."""
        return sum(file.size for file in self.travelling.values())


def find_files(folder: Path, ruled: bool = True) -> Files:
    """Find what travels: what git's rules and those of `.trainyardignore` do not leave out.

    The rules add up. Those of `.trainyardignore` come last, so that `!data/` there lets travel what
    git ignores. Files are looked at and not read.

    Args:
        ruled: whether there are rules; a snapshot has what they let through.

    Raises:
        RequestError: with all that cannot travel, or with the largest of what is too much.
    """
    survey = _Survey(folder.resolve())
    left_out = _LeftOut(survey.root)
    own = _read_rules(folder / IGNORE) if ruled and (folder / IGNORE).is_file() else None
    git = ruled and follows_git(survey.root)
    if git:
        survey.take(_allowed(own, left_out, _of_program(known_files(survey.root))))
        ignored = ignored_paths(survey.root)
        wanted = [] if own is None else list(_wanted(survey.root, own, ignored))
        survey.take(_of_program(wanted))
        for path in ignored:
            if not any(file == path or file.startswith(path) for file in wanted):
                left_out.count(path, path)
    else:
        survey.take(_walk(survey, left_out, own))
    rules = " and ".join([*([".gitignore"] if git else []), *([IGNORE] if own else [])]) or None
    survey.follow_links()
    survey.check()
    return Files(
        survey.root, dict(sorted(survey.files.items())), rules, tuple(left_out.most_first())
    )


@dataclass
class _Survey:
    """Looks at files, and remembers what of them can travel and what cannot."""

    root: Path
    files: dict[str, SourceFile] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stopped: bool = False

    def take(self, paths: Iterable[str]) -> None:
        """Look at the paths of files and links."""
        for path in paths:
            if len(self.files) >= LOOKED_AT:
                self.stopped = True
                return
            try:
                info = os.lstat(self.root / path)
            except FileNotFoundError:
                continue  # git knows it, and it has been deleted
            if not path.isprintable():
                said = printable(path)
                self.problems.append(f"the name of {said} cannot be printed; rename the file")
            elif stat.S_ISLNK(info.st_mode):
                self.links.append(path)
            else:
                self.add(path, self.root / path, info)

    def add(self, path: str, source: Path, info: os.stat_result) -> None:
        """Note a file, or why it cannot travel."""
        if not stat.S_ISREG(info.st_mode):
            kind = _kind(info.st_mode)
            self.problems.append(f"{path} is {kind}, which cannot travel; name it in {IGNORE}")
        elif not os.access(source, os.R_OK):
            self.problems.append(f"{path} may not be read; change its mode, or name it in {IGNORE}")
        else:
            self.files[path] = SourceFile(path, source, info.st_size)

    def follow_links(self) -> None:
        """Replace links by what they point at, as long as that is in the folder too."""
        plain = dict(self.files)
        for path in self.links:
            target = Path(os.path.realpath(self.root / path))
            said = f"{path} is a link to {printable(os.readlink(self.root / path))}"
            if not target.exists():
                self.problems.append(f"{said}, which is not there; remove it")
            elif target == self.root:
                self.problems.append(f"{said}, the folder itself; name it in {IGNORE}")
            elif not target.is_relative_to(self.root):
                self.problems.append(
                    f"{said}, out of the folder; put a copy in its place, or name it in {IGNORE}"
                )
            elif target.is_dir():
                inside = f"{target.relative_to(self.root)}/"
                below = [file for file in plain.values() if file.path.startswith(inside)]
                for file in below:
                    name = f"{path}/{file.path.removeprefix(inside)}"
                    self.files[name] = SourceFile(name, file.source, file.size)
                if not below:
                    self.problems.append(f"{said}, of which no file travels; name it in {IGNORE}")
            else:
                self.add(path, target, target.stat())

    def check(self) -> None:
        """See that what was found can travel.

        Raises:
            RequestError: it cannot, or there is too much of it, or nothing.
        """
        total = sum(file.size for file in self.files.values())
        if total > MAX_BYTES or len(self.files) > MAX_FILES:
            self.problems.append(self._too_much(total))
        if not self.files and not self.problems:
            self.problems.append(f"{self.root}: no file in it travels")
        if self.problems:
            raise RequestError(*self.problems)

    def _too_much(self, total: int) -> str:
        least = "at least " if self.stopped else ""
        lines = [
            f"{self.root}: {least}{size(total)} in {least}{plural(len(self.files), 'file')}: too "
            f"much to travel with a run; the limit is {size(MAX_BYTES)} in {MAX_FILES:,} files"
        ]
        lines += [
            f"    {path}  {size(bytes_)}, {plural(count, 'file')}"
            for path, bytes_, count in self._largest(total > MAX_BYTES)
        ]
        return "\n".join([*lines, REMEDY])

    def _largest(self, by_bytes: bool) -> list[tuple[str, int, int]]:
        sizes: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for file in self.files.values():
            top, slash, _ = file.path.partition("/")
            sizes[top + slash] += file.size
            counts[top + slash] += 1
        largest = (sizes if by_bytes else counts).most_common(5)
        return [(path, sizes[path], counts[path]) for path, _ in largest]


@dataclass
class _LeftOut:
    root: Path
    counts: Counter[str] = field(default_factory=Counter)

    def count(self, what: str, path: str) -> None:
        """Count a file, or the files below a folder, to what leaves them out."""
        if not _never(path):
            number = 1
            if path.endswith("/"):
                number = sum(
                    1 for _ in _below(self.root / path, COUNTED - self.counts[printable(what)])
                )
            self.counts[printable(what)] += number

    def most_first(self) -> Iterator[LeftOut]:
        for what, files in self.counts.most_common():
            if files:
                yield LeftOut(what, min(files, COUNTED))


def _walk(survey: _Survey, left_out: _LeftOut, rules: GitIgnoreSpec | None) -> Iterator[str]:
    """Yield the paths of what rules let travel; of folders they leave out what `!` names."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(survey.root / folder), key=lambda entry: entry.name)
        except PermissionError:
            said = printable(folder)
            survey.problems.append(f"{said} may not be read; name it in {IGNORE}")
            continue
        if folder and any(entry.name == ENVIRONMENT for entry in entries):
            continue
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            path = f"{folder}{entry.name}{'/' if is_folder else ''}"
            if _never(path):
                continue
            pattern = None if rules is None else _pattern(rules, path)
            if rules is not None and pattern is not None:
                wanted = list(_of_program(list(_wanted(survey.root, rules, [path] * is_folder))))
                yield from wanted
                if not wanted:
                    left_out.count(pattern, path)
            elif is_folder:
                folders.append(path)
            else:
                yield path


def _allowed(
    rules: GitIgnoreSpec | None, left_out: _LeftOut, paths: Iterable[str]
) -> Iterator[str]:
    for path in paths:
        pattern = None if rules is None else _pattern(rules, path)
        if pattern is None:
            yield path
        else:
            left_out.count(pattern, path)


def _wanted(root: Path, rules: GitIgnoreSpec, ignored: Iterable[str]) -> Iterator[str]:
    """Yield the files among what is left out that the rules name with `!`."""
    if not any(pattern.include is False for pattern in rules.patterns):
        return
    for path in ignored:
        below = [path]
        if path.endswith("/"):
            below = [
                os.path.relpath(os.path.join(folder, name), root)
                for folder, _, names in os.walk(root / path)
                for name in names
            ]
        yield from (file for file in below if rules.check_file(file).include is False)


def rule_of(files: Files, path: str) -> str:
    """The rule that leaves out a file of the folder, for people."""
    return named_rule(files, path) or "a rule for caches and environments"


def named_rule(files: Files, path: str) -> str | None:
    """The rule of a file of rules that leaves out a path, whether it is there or not."""
    own = files.folder / IGNORE
    pattern = _pattern(_read_rules(own), path) if own.is_file() else None
    if pattern is not None:
        return f"{IGNORE} ({pattern})"
    return ignoring_rule(files.folder, path)


def left_behind(files: Files, value: str, is_data: bool) -> str | None:
    """Why what a path names is here, and will not be on the nodes; None where it will, or is not.

    Args:
        is_data: whether a folder counts too; another may be one that the program writes to.
    """
    place = files.folder / value
    try:
        if not (place.is_file() or (is_data and place.is_dir() and any(place.iterdir()))):
            return None
        path = os.path.relpath(place, files.folder)
    except (OSError, ValueError):  # no path, or one that may not be read
        return None
    if {"dev", "data"} & {*place.parts[1:2]}:
        return None
    if path.startswith("../"):
        return (
            "is a path of this machine; containers have the project, and in /data/<name> what "
            "make data SOURCE= NAME= put there"
        )
    if path == "." or any(f"{each}/".startswith(f"{path}/") for each in files.travelling):
        return None
    rule = rule_of(files, path + "/" * place.is_dir())
    if SECRET.fullmatch(place.name):
        return (
            f"does not travel: {rule} leaves it out; keys and passwords reach the "
            "ranks by training_run_secrets"
        )
    return (
        f"does not travel: {rule} leaves it out; a line !{path} in {IGNORE} includes it; data "
        "goes with make data"
    )


def looks_secret(files: Files) -> list[str]:
    """A warning for the files that travel and are called as secrets are."""
    named = [
        path
        for path in files.travelling
        if SECRET.fullmatch(path.rpartition("/")[2]) or SECRET_FOLDER.search(f"/{path}")
    ]
    if not named:
        return []
    return [
        f"{first_names(named, 5)}: looks like a secret, and travels with the run to every node; "
        f"a line in {IGNORE} leaves it out"
    ]


def _pattern(rules: GitIgnoreSpec, path: str) -> str | None:
    found = rules.check_file(path)
    if not found.include or found.index is None:
        return None
    return str(getattr(rules.patterns[found.index], "pattern", path))


def _read_rules(path: Path) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(path.read_text(encoding="utf-8-sig").splitlines())
    except ValueError as error:  # also of what is no UTF-8
        raise RequestError(f"{path}: {error}") from error


def _of_program(paths: list[str]) -> Iterator[str]:
    """Leave out what is never part of a program, even where git has it."""
    environments = tuple(
        path.removesuffix(ENVIRONMENT) for path in paths if path.endswith(f"/{ENVIRONMENT}")
    )
    return (path for path in paths if not _never(path) and not path.startswith(environments))


def _never(path: str) -> bool:
    return not NEVER.isdisjoint(path.split("/"))


def _below(folder: Path, most: int) -> Iterator[None]:
    """Yield once for each file below a folder, and no more often than asked for."""
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NEVER]
        for _ in names:
            if most <= 0:
                return
            most -= 1
            yield None


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"
