"""`make test-changed` itself, on a copy of this checkout with a small change."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import run as run_changed
from graph import Graph

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
# Quick, and it is touched by nothing but itself.
SMALL = "tests/circles/test_units.py"


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a checkout."""
    return subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this checkout in a repository of their own."""
    root = tmp_path_factory.mktemp("changed") / "checkout"
    # It may be somebody else's.
    git = ("git", "-c", f"safe.directory={CHECKOUT}")
    names = run(CHECKOUT, *git, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    assert names.returncode == 0, names.stderr
    for name in filter(None, names.stdout.split("\0")):
        if (CHECKOUT / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, root / name, follow_symlinks=False)
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=all")):
        done = run(root, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments)
        assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def copy(repository: Path) -> Iterator[Path]:
    """The same, for a change that goes again."""
    yield repository
    for arguments in (("checkout", "--quiet", "."), ("clean", "--force", "-dxq")):
        assert run(repository, "git", *arguments).returncode == 0


def make_test_changed(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the target with the environment of this very Python."""
    # The environment is that of the checkout that is tested: the copy does not take it for its own.
    made = [f"--old-file={sys.prefix}/{name}" for name in (".complete", ".testable")]
    return run(root, "make", "test-changed", f"VENV={sys.prefix}", *made, *options)


def test_a_small_change_is_linted_and_tested(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (copy / SMALL).open("a") as file:
        file.write("\n\ndef test_of_the_change() -> None:\n    assert True\n")
    told: list[list[str]] = []
    for name, value in (
        ("ROOT", copy),
        ("build_graph", lambda root: Graph()),
        ("run", told.extend),
    ):
        monkeypatch.setattr(run_changed, name, value)
    assert run_changed.main([]) == 1, "it tells that something failed"
    programs = [command[0] for command in told]
    assert programs == ["ruff", "ruff", "env", "pytest"]
    assert told[-1][-1] == SMALL
    monkeypatch.setattr(run_changed, "run", bool)
    assert run_changed.main([]) == 0


def test_what_fails_ends_nothing_and_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run_changed.run([["false", "first"], ["true", "second"]])
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said if line.endswith(("first", "second"))][-2:] == [
        *("FAILED", "passed"),
    ]


@pytest.mark.promise("make test-changed")
def test_the_choice_alone(copy: Path) -> None:
    (copy / "roles/hosts_file/tasks/main.yml").write_text("---\n")
    (copy / "pyproject.toml").write_text("")
    done = make_test_changed(copy, "ARGS=--list", "BUDGET=0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scenario  hosts_file" in done.stdout
    assert "more have no room" in done.stdout
    assert "history" in done.stdout
    assert "Only make test-all shows what these touch: pyproject.toml" in done.stdout
    assert not (copy / ".trainyard").exists()


def test_a_base_that_is_none(copy: Path) -> None:
    done = make_test_changed(copy, "BASE=no-such-branch")
    assert done.returncode == 2
    assert "no-such-branch (BASE=) is no commit of this checkout" in done.stderr


def test_nothing_changed(copy: Path) -> None:
    done = make_test_changed(copy, "BASE=HEAD")
    assert done.returncode == 0
    assert "0 files differ" in done.stdout
