"""Results of tests as JUnit XML: written for what is no pytest, merged, and told.

pytest writes its own; the name of the suite is the kind of the units (tests/circles/units.py).
"""

import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from units import KINDS, LINT, SCENARIO, TRAINER, Unit

PASSED, FAILED, SKIPPED, FLAKY = "passed", "failed", "skipped", "flaky"
RESULTS = (PASSED, FAILED, FLAKY, SKIPPED)


@dataclass(frozen=True)
class Case:
    """How a test ended.

    Attributes:
        unit: name of the unit that it is of.
        name: its own within that.
        result: one of RESULTS.
        seconds: that it took.
        why: the first line about a failure, or why it was skipped.
    """

    unit: str
    name: str
    result: str
    seconds: float
    why: str = ""


def write_cases(file: Path, kind: str, cases: Iterable[Case]) -> None:
    """Write the results of units that are no pytest."""
    suites = ET.Element("testsuites")
    suite = ET.SubElement(suites, "testsuite", name=kind)
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", classname=case.unit, name=case.name, time=f"{case.seconds:.3f}"
        )
        if case.result != PASSED:
            tag = "failure" if case.result == FAILED else "skipped"
            ET.SubElement(element, tag, message=case.why)
    file.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(suites).write(file, encoding="unicode", xml_declaration=True)


def unit_of(kind: str, classname: str, root: Path) -> str:
    """Name of the unit that a test is of: pytest names its module, and the class in it, if any."""
    if kind in (LINT, SCENARIO):
        return classname
    if kind == TRAINER:
        return TRAINER
    parts = classname.split(".")
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length]) + ".py"
        if (root / name).is_file():
            return name
    return classname


def read_file(file: Path, root: Path) -> dict[tuple[str, str], Case]:
    """Read the results of one file, by the unit and the name of the test.

    A test that fails when its fixtures end is there twice; it has failed.
    """
    found: dict[tuple[str, str], Case] = {}
    for suite in ET.parse(file).iter("testsuite"):
        for element in suite.iter("testcase"):
            classname, name = element.get("classname", ""), element.get("name", "")
            wrong = element.find("failure")
            wrong = element.find("error") if wrong is None else wrong
            told = element.find("skipped") if wrong is None else wrong
            case = Case(
                # What pytest could not collect has no class, and its module as its name.
                unit=unit_of(suite.get("name", ""), classname or name, root),
                name=name,
                result=FAILED if wrong is not None else PASSED if told is None else SKIPPED,
                seconds=float(element.get("time", 0)),
                why="" if told is None else (told.get("message") or "").partition("\n")[0],
            )
            key = (case.unit, f"{classname} {name}")
            if key not in found or found[key].result != FAILED:
                found[key] = case
    return found


def read_cases(folder: Path, root: Path) -> list[Case]:
    """Read all results below a folder. A test that failed, and passed in another file, is flaky."""
    found: dict[tuple[str, str], Case] = {}
    for file in sorted(folder.rglob("*.xml")):
        for key, case in read_file(file, root).items():
            other = found.get(key, case)
            if {other.result, case.result} in ({PASSED, FAILED}, {PASSED, FLAKY}):
                worse = case if case.result == FAILED else other
                found[key] = replace(worse, result=FLAKY)
            elif key not in found or case.result == FAILED:
                found[key] = case
    return list(found.values())


def seconds_of(cases: Iterable[Case]) -> dict[str, float]:
    """How long each unit took of which all passed, by its name."""
    took: dict[str, float] = defaultdict(float)
    failed = set()
    for case in cases:
        took[case.unit] += case.seconds
        if case.result in (FAILED, FLAKY):
            failed.add(case.unit)
    return {name: seconds for name, seconds in took.items() if name not in failed}


def passed_units(cases: Iterable[Case]) -> set[str]:
    """Names of the units of which nothing failed and something passed."""
    results = defaultdict(set)
    for case in cases:
        results[case.unit].add(case.result)
    return {name for name, seen in results.items() if PASSED in seen and FAILED not in seen}


def table(cases: Sequence[Case], units: Sequence[Unit]) -> list[str]:
    """What passed, failed and was skipped, by kind, and what did not run at all."""
    kind_of = {unit.name: unit.kind for unit in units}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for case in cases:
        kind = kind_of.get(case.unit, "other")
        counts[kind][case.result] += 1
        seconds[kind] += round(case.seconds)
    ran = {case.unit for case in cases}
    missing = [unit for unit in units if unit.name not in ran]
    lines = [
        f"{'':<10}{'units':>7}{'not run':>9}"
        + "".join(f"{name:>9}" for name in RESULTS)
        + "  seconds"
    ]
    for kind in (*KINDS, *sorted(counts.keys() - set(KINDS))):
        of_kind = [unit for unit in units if unit.kind == kind]
        not_run = len([unit for unit in missing if unit.kind == kind])
        numbers = "".join(f"{counts[kind][name]:>9}" for name in RESULTS)
        lines.append(f"{kind:<10}{len(of_kind):>7}{not_run:>9}{numbers}{seconds[kind]:>9}")
    for result in (FAILED, FLAKY, SKIPPED):
        for case in cases:
            if case.result == result:
                lines.append(f"{result.upper():<8}{case.unit}::{case.name}  {case.why}")
    lines += [f"NOT RUN {unit.name}" for unit in missing]
    return lines


def closing_line(cases: Sequence[Case], seconds: float) -> str:
    """The last line, as pytest has it."""
    counts = Counter(case.result for case in cases)
    told = ", ".join(f"{counts[name]} {name}" for name in RESULTS if counts[name])
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f" {told or 'no tests ran'} in {seconds:.2f}s ({hours}:{minutes:02}:{rest:02}) ".center(
        100, "="
    )
