"""What git says of a folder: its revision, and which of its files are a matter of the project."""

import re
import subprocess
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError


def git_revision(folder: Path) -> dict[str, Any] | None:
    """Commit of a folder and whether its files differ from it.

    None without git, without a commit, and for a folder that git ignores as a whole.
    """
    if not _is_in_repository(folder):
        return None
    revision = _said(folder, "rev-parse", "--verify", "HEAD")
    if revision is None or _ignored(folder):
        return None
    return {
        "revision": revision.strip(),
        "dirty": bool(_said(folder, "status", "--porcelain", ".")),
    }


def difference(folder: Path) -> bytes:
    """How the files of a folder that git knows differ from the commit, as `git apply` reads it."""
    # A user's settings may put another program in git's place, colours, or names without a/ and b/.
    plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
    return _git(folder, "diff", "HEAD", *plain, "--relative", "--", ".").stdout


def follows_git(folder: Path) -> bool:
    """Whether git's rules decide over a folder: in a work tree, and not ignored as a whole.

    Raises:
        RequestError: it lies in a repository that git does not read for this user. To pass over
            its rules would let everything travel that they leave out.
    """
    if not _is_in_repository(folder):
        return False
    try:
        answer = _git(folder, "rev-parse", "--is-inside-work-tree")
    except FileNotFoundError:
        reason = "git is not installed here"
    else:
        if answer.returncode == 0:
            return not _ignored(folder)
        reason = answer.stderr.decode(errors="replace").strip()
    raise RequestError(
        f"{folder} is in a git repository that cannot be read: {reason}\n"
        "    mend that, or say in a file .trainyardignore what does not travel"
    )


def known_files(folder: Path) -> list[str]:
    """Paths below a folder that git knows or would add, those of repositories in it included."""
    paths = []
    for path in _listed(folder, "--cached", "--others", "--exclude-standard"):
        # A repository in the repository is listed by its name alone.
        inner = folder / path
        if inner.is_dir() and not inner.is_symlink():
            if (inner / ".git").exists():
                paths += [f"{path.rstrip('/')}/{below}" for below in known_files(inner)]
        else:
            paths.append(path)
    return list(dict.fromkeys(paths))


def missing_submodules(folder: Path) -> list[str]:
    """Paths below a folder where a repository belongs that was not fetched."""
    root = next(
        (each for each in (folder, *folder.parents) if (each / ".gitmodules").is_file()), None
    )
    if root is None:
        return []
    # Also of what came as an archive, where git knows of none.
    text = (root / ".gitmodules").read_text(encoding="utf-8", errors="replace")
    places = [root / path.strip() for path in re.findall(r"^\s*path\s*=(.+)$", text, re.MULTILINE)]
    return [
        str(place.relative_to(folder))
        for place in places
        if place.is_relative_to(folder) and not (place.is_dir() and any(place.iterdir()))
    ]


def ignored_paths(folder: Path) -> list[str]:
    """Paths below a folder that git's rules leave out; of a folder its own alone, with a slash."""
    paths = _listed(folder, "--others", "--ignored", "--exclude-standard", "--directory")
    # A folder in which everything is left out is listed, and then each of its files too.
    kept: list[str] = []
    for path in sorted(paths):
        if not (kept and kept[-1].endswith("/") and path.startswith(kept[-1])):
            kept.append(path)
    return kept


def ignoring_rule(folder: Path, path: str) -> str | None:
    """The rule by which git ignores a path, as `.gitignore:3 (data/)`; None where it does not."""
    said = _said(folder, "check-ignore", "--verbose", "--no-index", "--", path)
    if not said:
        return None
    file, line, pattern = said.partition("\t")[0].split(":", 2)
    return f"{file}:{line} ({pattern})"


def _is_in_repository(folder: Path) -> bool:
    return any((place / ".git").exists() for place in (folder, *folder.parents))


def _ignored(folder: Path) -> bool:
    """Whether git ignores a folder as a whole, like the runs of a checkout."""
    if (folder / ".git").exists():
        return False
    return _git(folder, "check-ignore", "--quiet", ".").returncode == 0


def _listed(folder: Path, *options: str) -> list[str]:
    answer = _git(folder, "ls-files", "-z", *options)
    # As Python names files: what is no UTF-8 is refused later, with its name.
    return [path.decode(errors="surrogateescape") for path in answer.stdout.split(b"\0") if path]


def _said(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails or is not installed."""
    try:
        answer = _git(folder, *arguments)
    except FileNotFoundError:
        return None
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else None


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    # Without the lock that `git status` would take, at which a commit of the user's would fail.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, check=False)
