"""What remedies, messages and documents name: make targets, their options, and variables exist."""

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("roles/*/README.md")]
)
SIGNATURES = next(CHECKOUT.glob("yard/**/signatures.yml"))
# English words behind "make" that are no target.
PROSE = "a an and another any each every it no of on one others room sense such sure that the this"
WORDS = frozenset([*PROSE.split(" "), "target", "them", "to", "way", "what", "which"])
# The target that CONTRIBUTING.md adds as an example.
EXAMPLE = "count"
# Options of other programs: taken from the environment, or settings of systemd.
FOREIGN = ("WANDB_", "TRAINYARD_", "MOLECULE_", "ANSIBLE_", "CHAOS_", "UCX_", "NCCL_")
TARGET = re.compile(r"\bmake ([a-z][a-z0-9-]*[a-z0-9])\b")
OPTION = re.compile(r"(?<![\w$])([A-Z][A-Z_]+)=")
# A span of code, or a line of a block of code.
CODE = re.compile(r"`([^`\n]+)`|^((?:make|ansible-playbook) [^\n]*)$", re.MULTILINE)


class Text:
    """A sentence for people, and where it stands."""

    def __init__(self, file: Path, line: int, text: str) -> None:
        # What Jinja puts in is no word of the sentence.
        self.text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", " ", text, flags=re.DOTALL)
        self.place = f"{file.relative_to(CHECKOUT)}:{line}"


def documents() -> Iterator[Text]:
    """Paragraphs: a command is not broken by the end of a line."""
    for file in DOCUMENTS:
        line = 1
        for paragraph in file.read_text().split("\n\n"):
            yield Text(file, line, paragraph)
            line += paragraph.count("\n") + 2


def messages() -> Iterator[Text]:
    """What tasks, modules and yard say: sentences in their strings, and the signatures."""
    for file in sorted(CHECKOUT.glob("roles/*/[th]*/*.yml")):
        for line, text in _scalars(compose(file), ("msg", "fail_msg")):
            yield Text(file, line, text)
    for line, text in _scalars(compose(SIGNATURES), ("cause", "remedy")):
        yield Text(SIGNATURES, line, text)
    for folder in ("roles", "yard", "trainer"):
        for file in sorted(CHECKOUT.glob(f"{folder}/**/*.py")):
            for line, text in _sentences(ast.parse(file.read_text())):
                yield Text(file, line, text)


def compose(file: Path) -> yaml.Node | None:
    """The nodes of a YAML file, with their lines."""
    return yaml.compose(file.read_text(), yaml.CSafeLoader)


@functools.cache
def read(source: Callable[[], Iterator[Text]]) -> list[Text]:
    """All texts of a source, read once."""
    return [*source()]


def _scalars(node: yaml.Node | None, keys: tuple[str, ...], key: str = "") -> Iterator[Any]:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from _scalars(value, keys, str(name.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _scalars(value, keys, key)
    elif isinstance(node, yaml.ScalarNode) and key in keys:
        yield node.start_mark.line + 1, node.value


def _sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings with a space in them; of an f-string, what is written out in one."""
    for node in ast.walk(tree):
        for field in ast.iter_child_nodes(node):
            inner = isinstance(node, ast.JoinedStr | ast.Expr)
            if isinstance(field, ast.Constant) and isinstance(field.value, str) and not inner:
                if " " in field.value:
                    yield field.lineno, field.value
            elif isinstance(field, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in field.values)
                yield field.lineno, "".join(map(str, parts))


# In a recipe: what is handed on of what was typed
HANDED_ON = re.compile(r"\$\((?:call (?:option|switch|typed|arguments?),|value )([A-Z0-9_]+)")
# What every target of the Makefile takes
EVERYWHERE = {"BUNDLE", "HELP", "INVENTORY", "PYTHON", "RUNTIME", "VENV"}


def make_options() -> dict[str, set[str]]:
    """The options that each target of the Makefile takes: its line of help names them."""
    text = (CHECKOUT / "Makefile").read_text()
    lines = re.findall(r"^([a-z][a-z0-9-]*):.* ## (.*)$", text, re.MULTILINE)
    options: dict[str, set[str]] = {}
    for target, help_text in lines:
        names = re.findall(r"\b([A-Z][A-Z0-9_]*)=", help_text)
        options.setdefault(target, set(EVERYWHERE)).update(names)
    return options


def used_options() -> dict[str, set[str]]:
    """The options that the recipe of each target hands on."""
    text = (CHECKOUT / "Makefile").read_text().replace("\\\n", " ")
    macros = dict(re.findall(r"^([A-Z]+) :?= (.*)$", text, re.MULTILINE))
    options: dict[str, set[str]] = {}
    target = ""
    for line in text.splitlines():
        rule = re.match(r"([a-z][a-z0-9-]*):(?!=)(.*)", line)
        if rule:
            target = rule[1]
            line = rule[2].split("##")[0]
        elif not line.startswith("\t"):
            target = ""
        if not target:
            continue
        for name, text_of in macros.items():
            line = line.replace(f"$({name})", text_of)
        options.setdefault(target, set()).update(HANDED_ON.findall(line))
    return options


def variables() -> set[str]:
    """All variables that somebody may set or read, and what else has a role's prefix."""
    names = {
        signature["name"] for signature in yaml.safe_load(SIGNATURES.read_text())["signatures"]
    }
    for file in CHECKOUT.glob("roles/*/meta/argument_specs.yml"):
        for point in yaml.safe_load(file.read_text())["argument_specs"].values():
            names.update(point.get("options") or {})
    for pattern in ("group_vars/all/*.yml", "roles/*/vars/*.yml", "roles/*/defaults/*.yml"):
        for file in CHECKOUT.glob(pattern):
            names.update(yaml.safe_load(file.read_text()) or {})
    # Facts and results that a role leaves for others.
    for file in CHECKOUT.glob("roles/*/tasks/*.yml"):
        names.update(re.findall(r"^ {2,}(?:register: )?(\w+)(?:: |$)", file.read_text(), re.M))
    # Modules, programs and programs' modules bear their role's name.
    return names | {path.stem for path in CHECKOUT.glob("roles/*/*/*.py")}


OPTIONS = make_options()


def test_reads_the_makefile() -> None:
    assert {"RUN", "RANK", "FOLLOW"} <= OPTIONS["logs"]
    assert {"MODEL", "EPOCHS", "RETRIES", "ARGS"} <= OPTIONS["train"]
    assert {"MODEL", "HOLD"} <= OPTIONS["scaling"]
    assert "CMD" in OPTIONS["exec"]
    assert "MODEL" not in OPTIONS["setup"]


@pytest.mark.parametrize("target", sorted(OPTIONS))
def test_the_help_of_a_target_names_what_its_recipe_hands_on(target: str) -> None:
    # NOTIFY= reaches the commands by the environment.
    handed_on = used_options().get(target, set()) | (OPTIONS[target] & {"NOTIFY"})
    assert OPTIONS[target] - EVERYWHERE == handed_on - EVERYWHERE


@pytest.mark.parametrize("source", [documents, messages])
def test_every_make_target_exists(source: Any) -> None:
    named = [(text, name) for text in read(source) for name in TARGET.findall(text.text)]
    assert sum(name in OPTIONS for _, name in named) >= 10
    unknown = [
        f"{text.place}: make {name}"
        for text, name in named
        if name not in OPTIONS and name not in WORDS and name != EXAMPLE
    ]
    assert unknown == []


def test_every_option_of_make_exists() -> None:
    every = set().union(*OPTIONS.values())
    unknown = []
    count = 0
    for text in read(documents):
        for code in (span or line for span, line in CODE.findall(text.text)):
            target = re.match(r"make ([a-z-]+)", code)
            for option in OPTION.findall(code):
                if option.startswith(FOREIGN) or (not target and code.count("=") > 1):
                    continue
                count += 1
                if option not in (OPTIONS.get(target[1], set()) if target else every):
                    unknown.append(f"{text.place}: {code}: {option}=")
    assert count >= 30
    assert unknown == []


@pytest.mark.parametrize("source", [documents, messages])
def test_every_variable_exists(source: Any) -> None:
    roles = sorted(path.name for path in (CHECKOUT / "roles").iterdir() if path.is_dir())
    token = re.compile(rf"(?<![\w/.-])((?:{'|'.join(roles)})_[a-z0-9_]*[a-z0-9])(?![\w*(-]|\.\w)")
    known = variables()
    named = [(text, name) for text in read(source) for name in token.findall(text.text)]
    assert len(named) >= 10
    unknown = [f"{text.place}: {name}" for text, name in named if name not in known]
    assert unknown == []


def test_no_task_registers_its_result_under_the_name_of_a_variable_of_its_role() -> None:
    """The next task that reads the variable would get the result."""
    for role in sorted(CHECKOUT.glob("roles/*")):
        variables = {
            name
            for file in role.glob("*s/main.yml")
            if file.parent.name in ("defaults", "vars")
            for name in yaml.safe_load(file.read_text()) or {}
        }
        for file in sorted(role.glob("tasks/*.yml")):
            registered = set(re.findall(r"^ *register: (\w+)$", file.read_text(), re.MULTILINE))
            assert not registered & variables, file
