#!/usr/bin/env python3
"""Mutation tests: code is changed a little, again and again, and each time a test should notice.

mutmut changes functions of node/ and yard/, and runs the unit tests that call them and start no
process. Of the trainer the tests run where PyTorch is, so it has no part in this. All of it is done
in a copy of the checkout, .trainyard/mutants.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from units import ROOT

sys.path.insert(0, str(ROOT / "tests/changed"))

from differences import DifferenceError, base_commit, changed_files  # found through the line above

COPY = ROOT / ".trainyard" / "mutants"
SOURCES = ("node", "yard")
TESTS = ("tests/node", "tests/yard", "tests/roles")
# They read the sources, which have all mutants in them.
READERS = ("--deselect", "tests/roles/test_node_problems.py::test_every_code_in_the_modules")
# What of the mutants in changed code a test has to notice, in percent
NOTICED = 85
# mutmut's words for one that a test, or a program that does not end, gave away, and for one in code
# that no test of these calls
GIVEN_AWAY = frozenset({"killed", "timeout", "segfault", "suspicious"})
UNTESTED = "no tests"
RESULT = re.compile(r"^\s+(\S+__mutmut_\d+): (.+)$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Test what is named, else what differs from a commit; return 1 where too little is noticed."""
    options = parse(arguments)
    try:
        missing = [name for name in options.only if not (ROOT / name).exists()]
        if missing:
            raise DifferenceError(f"there is no {', '.join(missing)}")
        named = options.only or changed_files(ROOT, base_commit(ROOT, options.base))
        modules = modules_of(named)
    except DifferenceError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    if not modules:
        print(f"mutants: nothing of {' or '.join(SOURCES)} is named or differs")
        return 0
    make_copy(modules)
    patterns = [f"{module_name(module)}.*" for module in modules]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(mutmut("run", *patterns), cwd=COPY, env=environment, check=False)
    said = subprocess.run(
        mutmut("results", "--all", "true"), cwd=COPY, capture_output=True, text=True, check=False
    )
    found = results(said.stdout, modules)
    if run.returncode or not found:
        print("mutants: mutmut did not come to its end", file=sys.stderr)
        return run.returncode or 3
    print(table(found))
    for name in survivors(found):
        print()
        subprocess.run(mutmut("show", name), cwd=COPY, check=False)
    return int(share(found.values()) < NOTICED)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="tests/circles/mutants.py", description=__doc__)
    parser.add_argument("only", nargs="*", help="files or folders, such as node/verdict")
    parser.add_argument("--base", help="compare with this commit (default: origin/main)")
    return parser.parse_args(arguments)


def modules_of(named: Iterable[str], root: Path = ROOT) -> list[str]:
    """Paths of the modules of `SOURCES` that names of files and folders stand for."""
    modules: set[str] = set()
    for name in named:
        path = root / name
        if path.is_dir():
            modules |= {str(file.relative_to(root)) for file in path.rglob("*.py")}
        elif path.suffix == ".py" and path.is_file():
            modules.add(name)
    return sorted(
        module
        for module in modules
        if module.split("/")[0] in SOURCES and not module.endswith("__init__.py")
    )


def module_name(path: str) -> str:
    """`node.verdict.nodes` of `node/verdict/nodes.py`."""
    return path.removesuffix(".py").replace("/", ".")


def make_copy(modules: Sequence[str]) -> None:
    """Copy what git has and does not ignore, with settings for mutmut."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if os.path.lexists(ROOT / name):
            target = COPY / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    others = sorted(entry.name for entry in COPY.iterdir() if entry.name not in SOURCES)
    settings = {
        "source_paths": SOURCES,
        "only_mutate": modules,
        "also_copy": others,
        "pytest_add_cli_args_test_selection": TESTS,
        "pytest_add_cli_args": ("-m", "not process", "-p", "no:cacheprovider", *READERS),
    }
    text = "[mutmut]\n"
    for name, values in settings.items():
        text += f"{name}=\n" + "".join(f"    {value}\n" for value in values)
    (COPY / "setup.cfg").write_text(text)


def mutmut(*arguments: str) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "mutmut", *arguments]


def results(said: str, modules: Sequence[str]) -> dict[str, str]:
    """What became of each mutant of the modules, from what `mutmut results` says, by its name."""
    prefixes = tuple(f"{module_name(module)}." for module in modules)
    return {name: end for name, end in RESULT.findall(said) if name.startswith(prefixes)}


def survivors(found: Mapping[str, str]) -> list[str]:
    """Those that a test could have noticed, and none did."""
    return [name for name, end in found.items() if end not in {*GIVEN_AWAY, UNTESTED}]


def share(ends: Iterable[str]) -> float:
    """How many of the mutants in code that is tested here were noticed, in percent."""
    counts = Counter(end in GIVEN_AWAY for end in ends if end != UNTESTED)
    return 100 * counts[True] / (counts.total() or 1)


def table(found: Mapping[str, str]) -> str:
    """A line for each module, and one for all."""
    by_module: dict[str, list[str]] = defaultdict(list)
    for name, end in found.items():
        by_module[name.partition(".x_")[0].partition(".xǁ")[0]].append(end)
    rows = [*sorted(by_module.items()), ("all", list(found.values()))]
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, ends in rows:
        tested = [end for end in ends if end != UNTESTED]
        noticed = f"{share(tested):5.1f} %" if tested else "      -"
        lines.append(
            f"{name:{width}}  {len(tested):5} mutants, {noticed} noticed; "
            f"{len(ends) - len(tested)} in code that starts processes, or that nothing tests"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
