"""Which files differ from a commit."""

import subprocess
from pathlib import Path


class DifferenceError(Exception):
    """There is no such commit to compare with."""


def git(root: Path, *arguments: str) -> str | None:
    """Run git in a checkout; returns what it printed, None if it failed."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def base_commit(root: Path, wanted: str | None) -> str:
    """The commit to compare with.

    Args:
        wanted: a branch, a tag or a commit: the difference begins where this checkout left it. None
            takes origin/main, and on main itself the commit before, if nothing is uncommitted.

    Raises:
        DifferenceError: `wanted` is no commit of this checkout, or it has none at all.
    """
    head = git(root, "rev-parse", "HEAD")
    if head is None:
        raise DifferenceError(f"{root} has no commit")
    found = git(root, "merge-base", "HEAD", wanted or "origin/main")
    if found is None and wanted:
        raise DifferenceError(f"{wanted} (BASE=) is no commit of this checkout")
    if wanted is None and found in (None, head):
        # On main itself: what is uncommitted, else the last commit.
        last = git(root, "rev-parse", "HEAD~1")
        found = head if last is None or uncommitted(root) else last
    assert found is not None
    return found.strip()


def uncommitted(root: Path) -> list[str]:
    """Files that differ from the last commit, those that git does not know included."""
    return changed_files(root, "HEAD")


def changed_files(root: Path, base: str) -> list[str]:
    """Files that differ from a commit, by their paths in the checkout; removed ones included."""
    # Without renames: both names count.
    differ = git(root, "diff", "--name-only", "--no-renames", "-z", base) or ""
    unknown = git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return sorted(name for name in set((differ + unknown).split("\0")) if name)
