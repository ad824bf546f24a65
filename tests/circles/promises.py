#!/usr/bin/env python3
"""Compares what is promised with the tests that prove it, and writes the table of tests/README.md.

A promise is a row of tests/promises.yml, a target of the Makefile, a command of README.md or a
folder of examples/. A test says which ones it proves:

    @pytest.mark.promise("row 34", "examples/own-code")

and a scenario in its molecule.yml: `scenario_promises: [row 1]`. Each promise has one test. With
--list the promises are printed that have none; otherwise `make lint` calls this.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from units import ROOT

PROMISES = "tests/promises.yml"
DOCUMENT = "tests/README.md"
BEGIN = "<!-- The table below is written by tests/circles/promises.py -->\n"
END = "<!-- End of the table -->\n"


@dataclass(frozen=True)
class Promise:
    """Something that people may rely on.

    Attributes:
        name: `row 3`, `make exec`, a command of README.md, or a folder of examples/.
        says: what it is, in a few words.
        longer: why `make test` has no time for its test, which `make test-all` runs; mostly empty.
        unproven: why no test proves it; mostly empty.
    """

    name: str
    says: str
    longer: str = ""
    unproven: str = ""


@dataclass(frozen=True)
class Mark:
    """A test says that it proves a promise.

    Attributes:
        promise: name of the promise.
        test: the path of the file and the function, or `molecule/accounts`.
    """

    promise: str
    test: str


def read_promises(root: Path) -> list[Promise]:
    """Read all promises of a checkout."""
    document = yaml.safe_load((root / PROMISES).read_text())
    found = {f"row {number}": says for number, says in document["rows"].items()}
    found |= targets((root / "Makefile").read_text())
    found |= dict.fromkeys(
        sorted(commands((root / "README.md").read_text()) - found.keys()), "README.md"
    )
    examples = sorted(path for path in (root / "examples").iterdir() if path.is_dir())
    found |= {str(path.relative_to(root)): "an example to copy" for path in examples}
    longer, unproven = document["longer"], document["unproven"]
    for name in (*longer, *unproven):
        if name not in found:
            raise SystemExit(f"{PROMISES}: there is no promise {name!r}")
    return [
        Promise(name, says, longer.get(name, ""), unproven.get(name, ""))
        for name, says in found.items()
    ]


def targets(makefile: str) -> dict[str, str]:
    """The targets that `make help` prints, each with what it does, without its variables."""
    lines = re.findall(r"^([a-z0-9-]+):.*?## (.*)$", makefile, re.MULTILINE)
    return {f"make {name}": re.split(r": |; ", says)[0] for name, says in lines}


def commands(readme: str) -> set[str]:
    """The commands of make in a document, with their variables, without comments."""
    pieces = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    lines = [line.partition(" #")[0] for piece in pieces for line in piece.splitlines()]
    rest = re.sub(r"```.*?```", "", readme, flags=re.DOTALL)
    lines += [" ".join(inline.split()) for inline in re.findall(r"`([^`]+)`", rest)]
    return {line.strip() for line in lines if re.match(r"make [a-z]", line)}


def marks_of_python(file: Path, root: Path) -> Iterator[Mark]:
    """Read the marks of a file of tests, without an import: some need the trainer's image.

    Raises:
        SystemExit: a mark that is not at a test, or that names no text.
    """
    tree = ast.parse(file.read_text())
    at_tests = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
            test = f"{file.relative_to(root)}::{function.name}"
            for decorator in function.decorator_list:
                for call in calls_of_promise(decorator):
                    at_tests.add(call)
                    for argument in call.args:
                        if not isinstance(argument, ast.Constant) or call.keywords:
                            raise SystemExit(f"{test}: mark.promise takes names of promises")
                        yield Mark(str(argument.value), test)
    for call in calls_of_promise(tree):
        if call not in at_tests:
            where = f"{file.relative_to(root)}:{call.lineno}"
            raise SystemExit(f"{where}: mark.promise stands at no test: a promise has one test")


def calls_of_promise(tree: ast.AST) -> Iterator[ast.Call]:
    """All calls of pytest.mark.promise in a part of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
            yield node


def scenario_promises(file: Path) -> list[str]:
    """Names of the promises that a scenario proves, from its molecule.yml."""
    document = yaml.safe_load(file.read_text())
    for key in ("provisioner", "inventory", "group_vars", "all", "scenario_promises"):
        document = (document or {}).get(key)
    return document or []


def read_marks(root: Path) -> list[Mark]:
    """Read what all tests of a checkout say that they prove."""
    found: list[Mark] = []
    for file in sorted((root / "tests").rglob("test_*.py")):
        found += marks_of_python(file, root)
    for file in sorted(root.glob("molecule/*/molecule.yml")):
        scenario = str(file.parent.relative_to(root))
        found += [Mark(name, scenario) for name in scenario_promises(file)]
    return found


def of_compact_set(promises: Iterable[Promise]) -> set[str]:
    """Names of the promises that `make test` proves."""
    return {promise.name for promise in promises if not (promise.longer or promise.unproven)}


def mistakes(promises: Sequence[Promise], marks: Sequence[Mark]) -> list[str]:
    """What is wrong between promises and tests, a line each."""
    tests: Mapping[str, list[str]] = tests_of(marks)
    known = {promise.name for promise in promises}
    found = [
        f"{mark.test} proves {mark.promise!r}, which nobody promises"
        for mark in marks
        if mark.promise not in known
    ]
    for promise in promises:
        proofs = tests.get(promise.name, [])
        if not proofs and not promise.unproven:
            found.append(f"{promise.name!r} has no test ({promise.says})")
        if proofs and promise.unproven:
            found.append(f"{promise.name!r} has a test, and {PROMISES} says that it has none")
        if len(proofs) > 1:
            found.append(f"{promise.name!r} has {len(proofs)} tests: {', '.join(proofs)}")
    return found


def tests_of(marks: Iterable[Mark]) -> dict[str, list[str]]:
    """The tests of each promise, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for mark in marks:
        if mark.test not in found[mark.promise]:
            found[mark.promise].append(mark.test)
    return found


def table(promises: Iterable[Promise], marks: Iterable[Mark]) -> str:
    """The table of tests/README.md."""
    tests = tests_of(marks)
    lines = ["| promise | | the test |", "|---|---|---|"]
    for promise in promises:
        proof = ", ".join(f"`{test.removeprefix('tests/')}`" for test in tests[promise.name])
        if promise.longer:
            proof += f", in `make test-all` alone: {promise.longer}"
        name = promise.name if promise.name.startswith("row") else f"`{promise.name}`"
        cells = (name, promise.says, proof or f"none: {promise.unproven}")
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Compare, and write the table; returns the exit status."""
    promises, marks = read_promises(root), read_marks(root)
    wrong = mistakes(promises, marks)
    for line in wrong:
        print(line)
    if wrong or "--list" in arguments:
        return int(bool(wrong))
    document = root / DOCUMENT
    before = document.read_text()
    head, rest = before.split(BEGIN)
    after = f"{head}{BEGIN}\n{table(promises, marks)}\n{END}{rest.split(END)[1]}"
    if after == before:
        return 0
    document.write_text(after)
    print(f"The table of {DOCUMENT} was stale; it is written anew: commit it.")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
