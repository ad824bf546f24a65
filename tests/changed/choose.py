"""What is to be run for a change: the unit tests, scenarios and whole runs that it touches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from ansible_uses import SHARED, add_ansible, modules_of_roles, thing_of
from graph import Graph, Reached
from python_uses import add_packages, add_tests

UNIT, TRAINER, SCENARIO, WHOLE = "unit", "trainer", "scenario", "whole"

# What each is taken for until it was measured here, in seconds
GUESSES: Mapping[str, float] = {UNIT: 8, TRAINER: 20, SCENARIO: 200, WHOLE: 300}
# The whole run that stands for all of them where every one is touched
MAIN_RUN = "tests/e2e/test_main_job.py"
# What all tests are run with: no graph tells whom a change of it touches.
EVERYTHING = (
    "Makefile",
    "ansible.cfg",
    "bootstrap.sh",
    "pyproject.toml",
    "requirements.txt",
    "requirements-aws.txt",
    "requirements-dev.txt",
)
# For people, as far as no test reads it
TEXTS = ("*.md", "docs/*", "LICENSE", ".gitignore", ".editorconfig", ".pre-commit-config.yaml")


@dataclass(frozen=True)
class Item:
    """Something that can be run.

    Attributes:
        kind: UNIT, TRAINER, SCENARIO or WHOLE.
        name: of a scenario, or the path of a file of tests.
        reached: the shortest way from what changed.
        seconds: how long it is likely to take.
    """

    kind: str
    name: str
    reached: Reached
    seconds: float

    @property
    def direct(self) -> bool:
        """Whether it tests what changed itself, and not what uses that."""
        if self.kind == SCENARIO:
            # Others begin with the role as well, to prepare their machines.
            return self.reached.way[0] in (f"molecule/{self.name}", f"roles/{self.name}")
        return self.reached.steps <= 1 and self.kind != WHOLE


@dataclass
class Choice:
    """What a change touches.

    Attributes:
        chosen: to be run.
        left: touched as well, and without room in the time that was given.
        unknown: changed files of which nothing tells all that they touch.
        texts: changed files that no test reads.
    """

    chosen: list[Item] = field(default_factory=list)
    left: list[Item] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def build_graph(root: Path) -> Graph:
    """Read who uses what in a checkout."""
    graph = Graph()
    add_packages(graph, root)
    add_ansible(graph, root)
    add_tests(graph, root, modules_of_roles(root))
    for test in (root / "tests/e2e").rglob("test_*.py"):
        # Whole runs begin with what people type: playbooks, the command, the trainer's image.
        for used in ("site.yml", "yard/__main__.py", "roles/trainer_image"):
            graph.add(str(test.relative_to(root)), used)
            graph.add(str(test.relative_to(root)), "trainer")
            graph.add(str(test.relative_to(root)), "inventory/local")
    for playbook in [*(root / "playbooks").glob("*.yml"), root / "site.yml"]:
        graph.add("yard/__main__.py", str(playbook.relative_to(root)))
        graph.add(str(playbook.relative_to(root)), "group_vars")
    for file in (root / "tests/changed").glob("*.py"):
        # They start the program, which imports the rest; so does the next one.
        graph.add("tests/changed/test_changed_run.py", str(file.relative_to(root)))
    for test in (root / "tests/circles").glob("test_*.py"):
        for name in ("conftest.py", "last_run.yml", "promises.yml", "seconds.yml"):
            graph.add(str(test.relative_to(root)), f"tests/{name}")
    graph.add("molecule/run.py", "tests/circles/results.py")
    for file in (root / "tests/gpu").glob("*.py"):
        graph.add("tests/trainer/test_gpu_day_steps.py", str(file.relative_to(root)))
    # The scenario in which the trainer runs
    graph.add("molecule/trainer_image", "trainer")
    return graph


def kind_of(thing: str) -> str | None:
    """What kind of test a thing is; None of one that is no test."""
    parts = Path(thing).parts
    if parts[0] == "molecule" and len(parts) == 2 and "." not in thing and thing != SHARED:
        return SCENARIO
    if parts[0] != "tests" or not parts[-1].startswith("test_"):
        return None
    return {"trainer": TRAINER, "e2e": WHOLE}.get(parts[1], UNIT)


def is_text(file: str) -> bool:
    """Whether a file is for people, or for tools that no test runs."""
    return any(fnmatch(file, pattern) for pattern in TEXTS)


def touched(root: Path, graph: Graph, files: Iterable[str]) -> tuple[dict[str, Reached], Choice]:
    """Follow each changed file to all that it reaches, and note those that reach nothing."""
    reached: dict[str, Reached] = {}
    choice = Choice()
    known = graph.things()
    for file in files:
        # A file counts as itself, as its role or scenario, and as each folder that it is in.
        starts = {file, thing_of(root, file), *map(str, Path(file).parents)} - {"."}
        found = [
            each
            for start in starts
            if start in known or kind_of(start)
            for each in graph.reached_from(start).values()
        ]
        if file in EVERYTHING or not (found or is_text(file)):
            choice.unknown.append(file)
        elif not found:
            choice.texts.append(file)
        for each in found:
            if each.thing not in reached or each.steps < reached[each.thing].steps:
                reached[each.thing] = each
    return reached, choice


def choose(
    root: Path, graph: Graph, files: Iterable[str], budget: float, measured: Mapping[str, float]
) -> Choice:
    """Choose what to run.

    What tests a changed thing itself is always chosen. What uses it follows by distance while there
    is time: the nearest first, of those at one distance the shortest first.

    Args:
        budget: seconds for all of it.
        measured: seconds that scenarios and files of tests took here, by name.
    """
    reached, choice = touched(root, graph, files)
    items = []
    for thing, way in reached.items():
        kind = kind_of(thing)
        if kind and (root / thing).exists():
            name = thing.removeprefix("molecule/") if kind == SCENARIO else thing
            items.append(Item(kind, name, way, measured.get(name, GUESSES[kind])))
    items.sort(key=lambda item: (not item.direct, item.reached.steps, item.seconds, item.name))
    # Of whole runs that all are touched alike, the one that is a training from start to end.
    items.sort(key=lambda item: item.kind == WHOLE and item.name != MAIN_RUN)
    left = budget
    for item in items:
        if item.direct or item.seconds <= left:
            left -= item.seconds
            choice.chosen.append(item)
        else:
            choice.left.append(item)
    return choice
