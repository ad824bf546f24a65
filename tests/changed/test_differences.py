"""Which files differ from which commit."""

import subprocess
from pathlib import Path

import pytest
from differences import DifferenceError, base_commit, changed_files

pytestmark = pytest.mark.process


def git(root: Path, *arguments: str) -> str:
    """Run git as somebody."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone whose branch has one commit more than the main that it came from."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch=main")
    for name in ("kept", "edited", "removed", "old name"):
        (origin / name).write_text(f"{name}\n" * 20)
    (origin / ".gitignore").write_text("ignored\n")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message=first")
    root = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(origin), str(root))
    git(root, "switch", "--quiet", "--create", "branch")
    (root / "committed").write_text("committed\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message=second")
    return root


def test_what_the_branch_changed_and_what_is_not_committed(checkout: Path) -> None:
    (checkout / "edited").write_text("other\n")
    (checkout / "removed").unlink()
    git(checkout, "mv", "old name", "new name")
    (checkout / "new").touch()
    (checkout / "ignored").touch()
    expected = ["committed", "edited", "new", "new name", "old name", "removed"]
    assert changed_files(checkout, base_commit(checkout, None)) == expected
    assert changed_files(checkout, base_commit(checkout, "HEAD")) == expected[1:]


def test_a_branch_that_went_on_does_not_count(checkout: Path) -> None:
    git(checkout, "switch", "--quiet", "--create", "other", "origin/main")
    (checkout / "theirs").touch()
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "--message=theirs")
    git(checkout, "switch", "--quiet", "branch")
    assert changed_files(checkout, base_commit(checkout, "other")) == ["committed"]


def test_on_main_itself_the_last_commit_counts(checkout: Path) -> None:
    git(checkout, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert changed_files(checkout, base_commit(checkout, None)) == ["committed"]
    (checkout / "new").touch()
    assert changed_files(checkout, base_commit(checkout, None)) == ["new"]


def test_without_a_remote_the_last_commit_counts(checkout: Path) -> None:
    git(checkout, "remote", "remove", "origin")
    assert changed_files(checkout, base_commit(checkout, None)) == ["committed"]


def test_a_commit_that_is_none_is_refused(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(DifferenceError, match="is no commit of this checkout"):
        base_commit(checkout, "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    with pytest.raises(DifferenceError, match="has no commit"):
        base_commit(empty, None)
