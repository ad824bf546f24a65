#!/usr/bin/env python3
"""Runs the compact set of tests (`make test`), or all in shards (`make test-all SHARD=1/6`).

    tiers.py test                  # each promise once; the first tier that fails is the last
    tiers.py test --until SECONDS  # in CI: and then others, the longest not run first
    tiers.py all --shard 2/6       # its part of everything, whatever fails
    tiers.py report                # what all shards found, and what none of them ran

Results are in .trainyard/results, as JUnit XML with the log of each tier beside it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from last_run import NEVER, note_last_run, oldest_first, read_last_run
from promises import of_compact_set, read_marks, read_promises
from results import (
    FAILED,
    PASSED,
    Case,
    closing_line,
    passed_units,
    read_cases,
    read_file,
    seconds_of,
    table,
    write_cases,
)
from units import (
    KINDS,
    LINT,
    ROOT,
    SCENARIO,
    TRAINER,
    UNIT,
    UNIT_TESTS,
    WHOLE,
    Unit,
    find_units,
    fitting,
    note_seconds,
    split,
)

RESULTS = ROOT / ".trainyard/results"
PLAY = ("ansible-playbook", "--inventory", "inventory/local")
# pytest's statuses of a run that found nothing wrong; 5 is that no test was left to run
GOOD = (0, 5)
# The part of the tests that is meant: see tests/conftest.py
COMPACT, REST, ALL = "compact", "rest", "all"


class Tiers:
    """Runs one kind of tests after the other.

    Attributes:
        folder: where results and logs are written.
        again: whether whole runs that fail are run once more.
        took: seconds of each tier.
        flaky: a line about each whole run that failed and then passed.
    """

    def __init__(self, folder: Path, again: bool = False) -> None:
        self.folder = folder
        self.again = again
        self.took: dict[str, float] = {}
        self.flaky: list[str] = []
        self._image: subprocess.Popen[bytes] | None = None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def begin_image(self) -> None:
        """Begin with the image of the trainer's tests, which keeps one core busy for minutes."""
        with (self.folder / "image.log").open("wb") as log:
            self._image = subprocess.Popen(
                [*PLAY, "playbooks/test_image.yml"], cwd=ROOT, stdout=log, stderr=log
            )

    def end_image(self) -> None:
        """Wait for the image. The trainer's tier plays it again, and says what went wrong."""
        if self._image is not None:
            self._image.wait()
            self._image = None

    def give_up_image(self) -> None:
        """End the build that nobody waits for any more."""
        if self._image is not None:
            self._image.terminate()
            self.end_image()

    def run(self, kind: str, names: Sequence[str] = (), part: str = ALL) -> bool:
        """Run the tests of one kind; returns whether all passed.

        Args:
            kind: one of KINDS.
            names: of units; none means all of the kind.
            part: COMPACT, REST or ALL.
        """
        tier = kind if part != REST else f"{kind}-rest"
        print(f"\n\033[1m== {tier}\033[0m", flush=True)
        if kind == TRAINER:
            self.end_image()
        began = time.monotonic()
        good = self._run(kind, names, part, tier)
        if not good and kind == WHOLE and self.again:
            good = self._run_again(tier)
        seconds = time.monotonic() - began
        self.took[tier] = seconds
        if kind == LINT and good:
            write_cases(self.folder / f"{tier}.xml", LINT, [Case(LINT, LINT, PASSED, seconds)])
        elif not good and not self._says_what_failed(kind, tier):
            # Not a test: what it needs, or pytest itself
            log = str(self.folder / f"{tier}.log")
            case = Case(tier, tier, FAILED, seconds, f"see {log}")
            write_cases(self.folder / f"{tier}-itself.xml", LINT, [case])
        print(f"== {tier} {'passed' if good else 'FAILED'} in {seconds:.0f} s", flush=True)
        return good

    def _says_what_failed(self, kind: str, tier: str) -> bool:
        """Whether the results of a tier have a test that failed."""
        files = [self.folder / f"{tier}.xml"]
        files = [*(self.folder / TRAINER).glob("*.xml")] if kind == TRAINER else files
        found = [read_file(file, ROOT) for file in files if file.is_file()]
        return any(case.result == FAILED for cases in found for case in cases.values())

    def _run(self, kind: str, names: Sequence[str], part: str, tier: str) -> bool:
        report = f"--junit-xml={self.folder / tier}.xml"
        pytest = ["pytest", report, "-o", f"junit_suite_name={kind}", f"--part={part}"]
        if kind == UNIT:
            tools = [*PLAY, "playbooks/test_tools.yml"]
            # A file in one process: what its tests share is made once.
            side_by_side = ("--numprocesses=logical", "--dist=loadfile")
            tests = [*pytest, *side_by_side, *(names or UNIT_TESTS)]
            return self._command(tools, tier) == 0 and self._command(tests, tier) in GOOD
        if kind == WHOLE:
            tests = [*pytest, "--durations=20", *(names or ["tests/e2e"])]
            return self._command(tests, tier) in GOOD
        if kind == SCENARIO:
            chosen = [name.removeprefix("molecule/") for name in names]
            short = ["--short"] if part == COMPACT else []
            return self._command(["molecule/run", report, *short, *chosen], tier) == 0
        if kind == TRAINER:
            return self._command(["make", "unit-trainer", f"RESULTS={self.folder}"], tier) == 0
        return self._command(["make", LINT], tier) == 0

    def _run_again(self, tier: str) -> bool:
        """Run once more what has failed; a test that passes then is flaky, and ends nothing."""
        file = self.folder / f"{tier}.xml"
        cases = read_file(file, ROOT).values() if file.is_file() else []
        failed = [f"{case.unit}::{case.name}" for case in cases if case.result == FAILED]
        if not failed:  # pytest itself has failed
            return False
        again = f"{tier}-again"
        print(f"\n== {again}: {', '.join(failed)}", flush=True)
        report = [f"--junit-xml={self.folder / again}.xml", "-o", f"junit_suite_name={WHOLE}"]
        good = self._command(["pytest", *report, *failed], again) == 0
        logs = f"{self.folder / tier}.log, {self.folder / again}.log"
        self.flaky += [f"FLAKY {name}: failed, then passed: {logs}" for name in failed if good]
        return good

    def _command(self, command: Sequence[str], tier: str) -> int:
        """Run a command onto the terminal and into a log; returns its status."""
        with (
            (self.folder / f"{tier}.log").open("ab") as log,
            subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            assert process.stdout is not None
            while piece := os.read(process.stdout.fileno(), 65536):
                sys.stdout.buffer.write(piece)
                sys.stdout.flush()
                log.write(piece)
        return process.returncode

    def close(self) -> list[Case]:
        """Print how long each tier took and how all ended; returns the results."""
        cases = read_cases(self.folder, ROOT)
        print()
        for tier, seconds in self.took.items():
            print(f"{tier:<14}{seconds:6.0f} s")
        for case in cases:
            if case.result == FAILED:
                print(f"FAILED {case.unit}::{case.name}  {case.why}")
        print("".join(f"{line}\n" for line in self.flaky), end="")
        print(closing_line(cases, sum(self.took.values())), flush=True)
        return cases


def run_compact(tiers: Tiers) -> bool:
    """Prove each promise once, until a tier fails; returns whether all passed."""
    try:
        for kind in KINDS:
            if kind == LINT:
                tiers.begin_image()
            names = compact_scenarios() if kind == SCENARIO else []
            if not tiers.run(kind, names, COMPACT):
                return False
        return True
    finally:
        tiers.give_up_image()


def compact_scenarios() -> list[str]:
    """Names of the scenarios that prove a promise which `make test` proves."""
    promises = of_compact_set(read_promises(ROOT))
    scenarios = {unit.name for unit in find_units() if unit.kind == SCENARIO}
    proofs = {mark.test for mark in read_marks(ROOT) if mark.promise in promises}
    return sorted(proofs & scenarios)


def of_the_rest(units: Iterable[Unit]) -> list[Unit]:
    """What the compact set leaves out: scenarios as a whole, and all files with tests beside it."""

    def is_left(unit: Unit) -> bool:
        if unit.kind == UNIT:
            return "mark.process" in (ROOT / unit.name).read_text()
        return unit.kind in (SCENARIO, WHOLE)

    return [unit for unit in units if is_left(unit)]


def run_rest(tiers: Tiers, until: float, compact: Mapping[str, float]) -> bool:
    """Run of the rest what has time, the longest not run first; returns whether all passed.

    Args:
        until: Unix seconds.
        compact: seconds that each tier has taken here.
    """
    last = read_last_run()
    rest = oldest_first(of_the_rest(find_units()), last, clock=int(until))
    known = {unit.name: unit.seconds for unit in find_units()}
    # Machines differ: this one is to the one of tests/seconds.yml as its lint to that of the other.
    slowness = max(1.0, compact[LINT] / known[LINT])
    chosen = fitting(rest, (until - time.time()) / slowness)
    good = True
    for kind, names in by_kind(chosen).items():
        good = tiers.run(kind, names, REST) and good
    left = [unit for unit in rest if unit not in chosen]
    print(f"\nOf the rest {len(chosen)} of {len(rest)} were run. Not run, and when each last was:")
    for unit in left:
        print(f"  {unit.name:<45} {last.get(unit.name, NEVER)}")
    return good


def by_kind(units: Iterable[Unit]) -> dict[str, list[str]]:
    """Names of units, by their kind, in the order in which kinds are run."""
    names = defaultdict(list)
    for unit in units:
        names[unit.kind].append(unit.name)
    return {kind: sorted(names[kind]) for kind in KINDS if names[kind]}


def commit() -> str:
    """The commit of this checkout."""
    shown = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return shown.stdout.strip()


def note(names: Iterable[str]) -> None:
    """Write down which units have passed as a whole, for the record that people commit."""
    note_last_run(names, datetime.now(UTC).date().isoformat(), commit())


def test(until: float | None) -> bool:
    """The compact set, and in CI some of the rest; returns whether all passed."""
    tiers = Tiers(RESULTS / "test", again=until is not None)
    good = run_compact(tiers)
    if good and until is not None:
        good = run_rest(tiers, until, dict(tiers.took))
        rest = tiers.folder.glob("*-rest.xml")
        note(passed_units(case for file in rest for case in read_file(file, ROOT).values()))
    tiers.close()
    return good


def run_shard(shard: str, seconds: bool) -> bool:
    """One shard of all tests, whatever fails; returns whether all passed."""
    number, count = (int(part) for part in shard.split("/"))
    units = find_units()
    tiers = Tiers(RESULTS / f"all/shard-{number}-of-{count}")
    good = True
    for kind, names in by_kind(split(units, count)[number - 1]).items():
        good = tiers.run(kind, names) and good
    cases = tiers.close()
    note(passed_units(cases))
    if seconds:
        note_seconds(seconds_of(cases))
    return good


def report(folder: Path) -> bool:
    """Print what all shards found; returns whether all was run and passed."""
    cases, units = read_cases(folder, ROOT), find_units()
    print("\n".join(table(cases, units)))
    print(closing_line(cases, sum(case.seconds for case in cases)))
    ran = {case.unit for case in cases}
    return all(case.result != FAILED for case in cases) and all(unit.name in ran for unit in units)


def shard_name(text: str) -> str:
    """Check the name of a shard: 2/6."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard: it is like 2/6, the second of six")
    return text


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="tests/circles/tiers.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    compact = commands.add_parser("test")
    compact.add_argument("--until", type=float, help="Unix seconds: when the rest is to end")
    everything = commands.add_parser("all")
    everything.add_argument("--shard", type=shard_name, default="1/1", help="2/6 (default 1/1)")
    everything.add_argument(
        "--note-seconds", action="store_true", help="write how long each unit took"
    )
    merge = commands.add_parser("report")
    merge.add_argument("folder", type=Path, nargs="?", default=RESULTS / "all")
    options = parser.parse_args(arguments)
    if options.command == "test":
        return 0 if test(options.until) else 1
    if options.command == "all":
        return 0 if run_shard(options.shard, options.note_seconds) else 1
    return 0 if report(options.folder) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
