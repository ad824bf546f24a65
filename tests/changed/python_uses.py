"""What Python files use: yard/, trainer/, node/ by grimp, tests and helpers by their imports.

A test uses a fixture or a helper, and not all that stands in the same file: a test that only reads
recorded data does not use the command that the helper beside it starts.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

import grimp
from graph import Graph

PACKAGES = ("yard", "trainer", "node")
# The name under which roles import node/, which lies there by a link
LINKED = "ansible.module_utils.training_node."
TEST_FOLDERS = (
    *("tests/yard", "tests/roles", "tests/trainer", "tests/e2e", "tests/changed", "tests/gpu"),
    "tests/node",
    "tests/circles",
)


def module_file(root: Path, module: str) -> str | None:
    """The file of a module of yard/, trainer/ or node/, by its path; None of others."""
    path = Path(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if module.split(".")[0] in PACKAGES and (root / file).is_file():
            return str(file)
    return None


def add_packages(graph: Graph, root: Path) -> None:
    """Add the imports within yard/, trainer/ and node/."""
    imports = grimp.build_graph(*PACKAGES, cache_dir=None)
    for module in imports.modules:
        user = module_file(root, module)
        for imported in imports.find_modules_directly_imported_by(module):
            used = module_file(root, imported)
            if user and used:
                graph.add(user, used)
        # It imports the verb that is asked for, by its name.
        if module.startswith("node.verbs.") and user:
            graph.add("node/calls.py", user)


@dataclass
class Part:
    """What a function, a class or the rest of a file names.

    Attributes:
        names: variables, functions, fixtures.
        texts: its string constants.
        runs: modules that it starts with `python -m`.
    """

    names: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)

    def add(self, node: ast.AST) -> None:
        """Add what stands below a node of the syntax tree."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                self.names.add(inner.id)
            elif isinstance(inner, ast.arg):
                self.names.add(inner.arg)
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                self.texts.add(inner.value)
            elif isinstance(inner, ast.List | ast.Tuple):
                words = [getattr(word, "value", None) for word in inner.elts]
                self.runs |= {str(run) for option, run in pairwise(words) if option == "-m"}


@dataclass
class Source:
    """A file of tests, or a helper of theirs.

    Attributes:
        imports: what each imported name stands for: a module, or a module and a name in it.
        parts: by name; "" is what is neither function nor class nor assignment.
    """

    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)


@cache
def read(file: Path) -> Source:
    """Read a file."""
    source = Source()
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            source.imports |= {
                (alias.asname or alias.name.split(".")[0]): (alias.name, None)
                for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module:
            source.imports |= {
                (alias.asname or alias.name): (node.module, alias.name) for alias in node.names
            }
    for statement in tree.body:
        for name in defined(statement):
            source.parts.setdefault(name, Part()).add(statement)
    return source


def defined(statement: ast.stmt) -> Iterable[str]:
    """The names that a statement of a file defines; "" if it only does something."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)] or [""]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return [""]


@cache
def beside(folder: Path, name: str) -> list[Path]:
    """Files of a name in a folder of tests and those that it is in, and in machines/."""
    if folder.name == "tests":
        return [file for file in [folder / "machines" / name] if file.is_file()]
    above = [] if folder == folder.parent else beside(folder.parent, name)
    return [file for file in [folder / name] if file.is_file()] + above


def used_parts(file: Path) -> Iterator[tuple[Path, Source, Part]]:
    """What a test's file uses, in itself, in helpers and in the conftest.py beside it."""
    waiting = [(file, name) for name in read(file).parts]
    seen = set(waiting)
    while waiting:
        here, name = waiting.pop()
        source = read(here)
        if name not in source.parts:
            continue
        part = source.parts[name]
        yield here, source, part
        further = {(here, ""), *((here, other) for other in part.names & set(source.parts))}
        for conftest in beside(file.parent, "conftest.py"):
            further |= {(conftest, other) for other in part.names & set(read(conftest).parts)}
        for other in part.names & set(source.imports):
            module, member = source.imports[other]
            for helper in beside(file.parent, f"{module}.py"):
                further |= {(helper, each) for each in ([member] if member else read(helper).parts)}
        waiting += further - seen
        seen |= further


def add_tests(graph: Graph, root: Path, modules_of_roles: dict[str, str]) -> None:
    """Add what the files of tests use.

    Args:
        modules_of_roles: by the name of a file without its ending, the role that it is of.
    """
    for folder in TEST_FOLDERS:
        for test in sorted((root / folder).rglob("test_*.py")):
            user = str(test.relative_to(root))
            for here, source, part in used_parts(test):
                graph.add(user, str(here.relative_to(root)))
                for name in part.names & set(source.imports):
                    for used in imported(root, *source.imports[name], modules_of_roles):
                        graph.add(user, used)
                for module in part.runs:
                    if main := module_file(root, f"{module}.__main__"):
                        graph.add(user, main)
                if folder in ("tests/changed", "tests/circles"):
                    continue  # to these, paths and names of roles are examples
                for used in named_paths(root, part.texts):
                    graph.add(user, used)
                for text in part.texts if folder == "tests/roles" else ():
                    if role := modules_of_roles.get(text):
                        graph.add(user, role)
                    if re.fullmatch(r"\w+(/\w+)*", text) and (root / "roles" / text).is_dir():
                        graph.add(user, f"roles/{text.split('/')[0]}")


def imported(
    root: Path, module: str, member: str | None, modules_of_roles: dict[str, str]
) -> Iterator[str]:
    """The things that an import stands for: files of yard/, trainer/ and node/, roles."""
    for name in (module, f"{module}.{member}"):
        if name.startswith(LINKED):
            name = f"node.{name.removeprefix(LINKED)}"
        if file := module_file(root, name):
            yield file
        if name.startswith("ansible.module_utils") and name.split(".")[-1] in modules_of_roles:
            yield modules_of_roles[name.split(".")[-1]]


def named_paths(root: Path, texts: Iterable[str]) -> Iterator[str]:
    """The files and folders of the checkout that texts name, whole or as a pattern."""
    for text in texts:
        # "*/..." names no place of its own.
        if not re.fullmatch(r"[\w.-]+/[\w.*?/-]+", text):
            continue
        found = root.glob(text.rstrip("/"))
        yield from (str(path.relative_to(root)) for path in found if ".trainyard" not in path.parts)
