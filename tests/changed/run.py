"""Runs what the difference to a commit touches: `make test-changed BASE=main`.

A change is followed by imports and by what roles, scenarios and playbooks name, to the tests that
stand on it. What tests a changed thing itself always runs; what merely uses it runs as far as there
is time, the nearest first, and is listed otherwise. `make test-all` runs all.
"""

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "circles"))

from choose import (
    SCENARIO,
    TRAINER,
    UNIT,
    WHOLE,
    Choice,
    Item,
    build_graph,
    choose,
)
from differences import DifferenceError, base_commit, changed_files
from linters import commands
from units import read_seconds  # of tests/circles, found through the line above

ROOT = Path(__file__).resolve().parents[2]
BUDGET = 300
# Tests that need what playbooks/test_tools.yml brings.
TOOLED = (
    "tests/roles",
    "tests/yard/test_bootstrap",
    "tests/yard/test_doctor",
    "tests/yard/test_vault",
)


def show(choice: Choice, linters: Sequence[Sequence[str]]) -> None:
    """Print what was chosen and why."""

    def why(item: Item) -> str:
        return " <- ".join(reversed(item.reached.way[:-1])) or "itself changed"

    print(f"{len(linters)} linters for the files that changed")
    print(
        f"{len(choice.chosen)} to run, about {sum(item.seconds for item in choice.chosen):.0f} s:"
    )
    for item in choice.chosen:
        print(f"  {item.kind:<9} {item.name}  ({item.seconds:.0f} s)  <- {why(item)}")
    if choice.left:
        print(
            f"{len(choice.left)} more have no room in the time (BUDGET=); make test-all runs them:"
        )
        alike: dict[tuple[str, str], list[str]] = defaultdict(list)
        for item in choice.left:
            alike[item.kind, why(item)].append(item.name)
        for (kind, way), names in alike.items():
            print(f"  {kind:<9} {', '.join(names)}  <- {way}")
    if choice.texts:
        print(f"No test reads: {', '.join(choice.texts)}")
    if choice.unknown:
        print(f"Only make test-all shows what these touch: {', '.join(choice.unknown)}")
    sys.stdout.flush()


def test_commands(items: Sequence[Item]) -> list[list[str]]:
    """The commands that run the chosen tests, the quick kinds first."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for item in items:
        by_kind[item.kind].append(item.name)
    found = []
    if files := by_kind[UNIT]:
        if any(name.startswith(TOOLED) for name in files):
            found.append(
                ["ansible-playbook", "--inventory", "inventory/local", "playbooks/test_tools.yml"]
            )
        found.append(["pytest", "--numprocesses=logical", "--dist=loadfile", *files])
    if files := by_kind[TRAINER]:
        inside = " ".join(name.replace("tests/trainer", "/tests", 1) for name in files)
        found.append(["make", "unit-trainer", f"TESTS={inside}"])
    if names := by_kind[SCENARIO]:
        found.append(["molecule/run", *names])
    if files := by_kind[WHOLE]:
        found.append(["pytest", *files])
    return found


def run(commands_in_turn: Sequence[Sequence[str]]) -> bool:
    """Run commands one after the other, all of them; returns whether each succeeded."""
    results: dict[str, tuple[int, float]] = {}
    for command in commands_in_turn:
        print(f"\n== {' '.join(command)}", flush=True)
        began = time.monotonic()
        status = subprocess.run(command, cwd=ROOT).returncode
        results[" ".join(command[:4])] = (status, time.monotonic() - began)
    print()
    for command_line, (status, seconds) in results.items():
        print(f"{'FAILED' if status else 'passed'}  {seconds:4.0f} s  {command_line}")
    return all(status == 0 for status, _ in results.values())


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make test-changed", description=__doc__)
    parser.add_argument(
        "--base", help="commit to compare with; default: where origin/main was left"
    )
    parser.add_argument(
        "--budget", type=float, default=BUDGET, help="seconds (default %(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="print the choice, and run nothing")
    options = parser.parse_args(arguments)
    try:
        base = base_commit(ROOT, options.base)
    except DifferenceError as error:
        print(f"test-changed: {error}", file=sys.stderr)
        return 2
    files = changed_files(ROOT, base)
    print(f"{len(files)} files differ from {base[:12]}")
    if not files:
        return 0
    linters = commands(ROOT, files)
    seconds = {name.removeprefix("molecule/"): took for name, took in read_seconds(ROOT).items()}
    choice = choose(ROOT, build_graph(ROOT), files, options.budget, seconds)
    show(choice, linters)
    if options.list:
        return 0
    return 0 if run([*linters, *test_commands(choice.chosen)]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
