"""The linters of `make lint`, for the files that changed."""

from collections.abc import Iterable, Sequence
from pathlib import Path

# What ansible-lint reads; the rest of the YAML is for other programs.
ANSIBLE = ("roles", "playbooks", "molecule", "group_vars", "inventory", "site.yml")
# Whose documentation is written from their arguments
DOCUMENTED = ("meta/argument_specs.yml", "meta/main.yml", "README.md", "defaults/main.yml")

Command = list[str]


def is_shell(file: Path) -> bool:
    """Whether a file begins as a script of sh or bash does."""
    with file.open("rb") as opened:
        first = opened.readline(200)
    return first.startswith(b"#!") and first.split(b"/")[-1].strip() in (
        b"sh",
        b"bash",
        b"env bash",
    )


def commands(root: Path, changed: Iterable[str]) -> list[Command]:
    """The commands that lint the changed files that are still there."""
    files = [file for file in changed if (root / file).is_file()]
    python = [file for file in files if file.endswith(".py")]
    yml = [file for file in files if file.endswith((".yml", ".yaml"))]
    ansible = [file for file in yml if Path(file).parts[0] in ANSIBLE]
    found: list[Command] = []
    if python:
        found += [["ruff", "check", *python], ["ruff", "format", "--check", *python]]
        found += mypy(root, python)
    if any(file.startswith(("yard/", "trainer/", "node/")) for file in python):
        found.append(["lint-imports", "--no-cache"])
    if yml:
        found.append(["yamllint", "--strict", *yml])
    if ansible:
        found.append(["ansible-lint", "--strict", "--offline", *ansible])
    if shell := [file for file in files if is_shell(root / file)]:
        found.append(["shellcheck", *shell])
    if images := [file for file in files if Path(file).name.startswith("Dockerfile")]:
        found.append(["hadolint", *images])
    for role in sorted({file.split("/")[1] for file in files if file.startswith("roles/")}):
        if any(file == f"roles/{role}/{name}" for file in files for name in DOCUMENTED):
            # They are written anew; the last command says whether one was stale.
            made = [f"roles/{role}/README.md", f"roles/{role}/defaults"]
            found.append(["aar-doc", f"roles/{role}", "markdown"])
            found.append(["aar-doc", f"roles/{role}", "defaults"])
            found.append(["git", "diff", "--exit-code", "--stat", "--", *made])
    return found


def mypy(root: Path, python: Sequence[str]) -> list[Command]:
    """The calls of mypy that hold the changed modules, as `make lint` groups them."""
    found: list[Command] = []
    packages = [
        name
        for name in ("yard", "trainer", "node")
        if any(f.startswith(f"{name}/") for f in python)
    ]
    if packages:
        found.append(["mypy", *(word for name in packages for word in ("-p", name))])
    scripts = [
        file
        for file in python
        if Path(file).parts[0] in ("roles", "playbooks", "molecule", "collection")
    ]
    if scripts:
        found.append(["mypy", *scripts])
    for folder in sorted({Path(file).parts[1] for file in python if file.startswith("tests/")}):
        if (root / "tests" / folder).is_dir():
            # From there, because folders of tests hold modules of the same names.
            there = ["env", f"--chdir=tests/{folder}"]
            shared = ["--cache-dir", "../../.mypy_cache"]
            found.append([*there, "mypy", *shared, "--config-file", "../../pyproject.toml", "."])
    return found
