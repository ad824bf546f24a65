"""Runs what the difference to a commit touches: `make test-changed BASE=main`.

A change is followed by imports and by what roles, scenarios and playbooks name, to the tests that
stand on it. What tests a changed thing itself always runs; what merely uses it runs as far as there
is time, the nearest first, and is listed otherwise. `make test-all` runs all.
"""

import argparse
import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from choose import SCENARIO, TRAINER, UNIT, WHOLE, Choice, Item, build_graph, choose
from differences import DifferenceError, base_commit, changed_files
from linters import commands

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".trainyard/changed"
SECONDS = STATE / "seconds.json"
SECONDS_OF_SCENARIOS = ROOT / ".trainyard/molecule/seconds.json"
BUDGET = 300
# Tests that need what playbooks/test_tools.yml brings.
TOOLED = (
    "tests/roles",
    "tests/yard/test_bootstrap",
    "tests/yard/test_doctor",
    "tests/yard/test_vault",
)


def read_seconds() -> dict[str, float]:
    """What scenarios and files of tests took here, by name."""
    found: dict[str, float] = {}
    for file in (SECONDS_OF_SCENARIOS, SECONDS):
        if file.is_file():
            found |= json.loads(file.read_text())
    return found


def note_seconds(report: Path) -> None:
    """Keep how long each file of tests took, from pytest's report."""
    took: dict[str, float] = defaultdict(float)
    for case in ET.parse(report).iter("testcase"):
        took[case.get("classname", "").replace(".", "/") + ".py"] += float(case.get("time", 0))
    known = json.loads(SECONDS.read_text()) if SECONDS.is_file() else {}
    seconds = {name: round(value, 1) for name, value in took.items() if (ROOT / name).is_file()}
    SECONDS.write_text(json.dumps({**known, **seconds}, indent=1, sort_keys=True))


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
        found.append(["pytest", "--numprocesses=logical", f"--junitxml={STATE}/unit.xml", *files])
    if files := by_kind[TRAINER]:
        inside = " ".join(name.replace("tests/trainer", "/tests", 1) for name in files)
        found.append(["make", "unit-trainer", f"TESTS={inside}"])
    if names := by_kind[SCENARIO]:
        found.append(["molecule/run", *names])
    if files := by_kind[WHOLE]:
        found.append(["pytest", f"--junitxml={STATE}/whole.xml", *files])
    return found


def run(commands_in_turn: Sequence[Sequence[str]]) -> bool:
    """Run commands one after the other, all of them; returns whether each succeeded."""
    results: dict[str, tuple[int, float]] = {}
    for command in commands_in_turn:
        print(f"\n== {' '.join(command)}", flush=True)
        began = time.monotonic()
        status = subprocess.run(command, cwd=ROOT).returncode
        results[" ".join(command[:4])] = (status, time.monotonic() - began)
        for option in command:
            report = Path(option.removeprefix("--junitxml="))
            if option.startswith("--junitxml=") and report.is_file():
                note_seconds(report)
    print()
    for command_line, (status, seconds) in results.items():
        print(f"{'FAILED' if status else 'passed'}  {seconds:4.0f} s  {command_line}")
    return all(status == 0 for status, _ in results.values())


def main(arguments: Sequence[str], measured: Mapping[str, float] | None = None) -> int:
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
    seconds = read_seconds() if measured is None else measured
    choice = choose(ROOT, build_graph(ROOT), files, options.budget, seconds)
    show(choice, linters)
    if options.list:
        return 0
    STATE.mkdir(parents=True, exist_ok=True)
    return 0 if run([*linters, *test_commands(choice.chosen)]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
