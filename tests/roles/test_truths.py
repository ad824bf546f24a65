"""What is true or false may be a text: of an INI file (`x=no`), or behind `-e x=false`.

Jinja takes any text for true, and a condition of Ansible refuses it.
"""

import re

import pytest
import yaml
from ansible_here import Host
from role_files import ROLES

# A module, an action or the node program makes it a truth by itself.
HANDED_ON = r'"\{\{ %s \}\}"'
PLAIN = r"(?<![\w'(])%s\b(?!:)(?!\s*\|\s*(?:default\([^)]*\)\s*\|\s*)?bool)"
EXPRESSION = re.compile(
    r"\{[{%][\s\S]*?[%}]\}|^\s*(?:- )?(?:when|that|until|changed_when|failed_when): .*$"
    r"|^\s*- (?!name:)[^\n{]*$",
    re.MULTILINE,
)


def truths_of(role: str) -> set[str]:
    file = ROLES / role / "meta/argument_specs.yml"
    specification = yaml.safe_load(file.read_text())["argument_specs"]
    return {
        name
        for entry in specification.values()
        for name, option in entry.get("options", {}).items()
        if option.get("type") == "bool"
    }


@pytest.mark.parametrize(
    "role", sorted(path.parts[-3] for path in ROLES.glob("*/meta/argument_specs.yml"))
)
def test_a_text_is_no_truth_in_conditions_of(role: str) -> None:
    files = [*(ROLES / role).glob("tasks/*.yml"), *(ROLES / role).glob("vars/*.yml")]
    names = truths_of(role)
    taken = [
        f"{file.name}: {found[0].strip()}"
        for file in files
        for found in EXPRESSION.finditer(file.read_text())
        for name in names
        if re.search(PLAIN % name, re.sub(r"'[^']*'", "", found[0]))
        and not re.search(HANDED_ON % name, f'"{found[0]}"')
    ]
    assert taken == []


@pytest.mark.parametrize(("said", "meant"), [("no", False), ("false", False), ("True", True)])
def test_a_text_throws_nobody_out_of_the_group(said: str, meant: bool) -> None:
    host = Host("docker_engine", {"docker_engine_users_exclusive": said})
    assert host.template(host.variables["docker_engine_look"]["exclusive"]) is meant
