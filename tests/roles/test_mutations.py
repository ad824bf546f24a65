"""How scenarios break machines on purpose: molecule/shared/side_effect.yml, on folders as machines.

The role of the scenario makes files, and its behaviours are that they are there.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from lasting_python import LASTING_PYTHON

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
SIDE_EFFECT = CHECKOUT / "molecule/shared/side_effect.yml"
PLACE = "{{ place }}/{{ inventory_hostname }}"
ROLE = f"""---
- name: Note that it was applied
  ansible.builtin.shell: echo {{{{ inventory_hostname }}}} >> {{{{ place }}}}/applied
  changed_when: true

- name: Make the files
  ansible.builtin.file:
    path: "{PLACE}/{{{{ item }}}}"
    state: touch
    mode: "0644"
  loop: "{{{{ mended }}}}"
"""
LOOK = f"""---
- name: Look for them
  ansible.builtin.stat:
    path: "{PLACE}/{{{{ item }}}}"
  loop: [%s]
  register: found
  failed_when: not found.stat.exists
"""


def remove(host: str, file: str, breaks: str | None = None, **more: str) -> dict[str, str]:
    """A mutation that removes a file of a machine."""
    name = f"{file} is gone on {host}"
    command = f"rm {{{{ place }}}}/{host}/{file}"
    return {"name": name, "host": host, "command": command, "breaks": breaks or file, **more}


def nothing(host: str, breaks: str) -> dict[str, str]:
    """A mutation that no verification can notice."""
    return {"name": "nothing is broken", "host": host, "command": "true", "breaks": breaks}


class Scenario:
    """Two machines, as folders, with the files that the role makes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = {
            "roles/stand_in/tasks/main.yml": ROLE,
            "stand_in/verify_tasks/a.yml": LOOK % "a",
            "stand_in/verify_tasks/b.yml": LOOK % "b",
            "stand_in/verify_tasks/c.yml": LOOK % "c",
            "stand_in/verify_tasks/both.yml": LOOK % "a, b",
            **{f"place/{host}/{file}": "" for host in ("node1", "node2") for file in "abc"},
        }
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def run(
        self, mutations: list[dict[str, str]], independent: bool = True, mended: str = "ab"
    ) -> subprocess.CompletedProcess[str]:
        """Break them; `mended` are the files that the role makes."""
        folder = self.root / "stand_in"
        (folder / "mutations.yml").write_text(yaml.safe_dump({"mutations": mutations}))
        settings: dict[str, Any] = {"scenario_independent_machines": independent}
        (folder / "vars.yml").write_text(yaml.safe_dump(settings))
        named = {mutation["host"] for mutation in mutations}
        hosts = {host: {"ansible_connection": "local"} for host in sorted(named)}
        (self.root / "hosts.yml").write_text(yaml.safe_dump({"trainers": {"hosts": hosts}}))
        variables = {
            "place": str(self.root / "place"),
            "mended": list(mended),
            "molecule_scenario_directory": str(folder),
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
        }
        command = ["ansible-playbook", "-i", str(self.root / "hosts.yml")]
        return subprocess.run(
            [*command, "-e", json.dumps(variables), str(SIDE_EFFECT)],
            env={
                **os.environ,
                "MOLECULE_SCENARIO_DIRECTORY": str(folder),
                "MOLECULE_SCENARIO_NAME": "stand_in",
                "ANSIBLE_ROLES_PATH": str(self.root / "roles"),
                **LASTING_PYTHON,
                "SCENARIO_STRATEGY": LASTING_PYTHON["ANSIBLE_STRATEGY"],
                "ANSIBLE_GATHERING": "explicit",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def applied(self) -> list[str]:
        """The machines that the role was applied to, in turn."""
        return (self.root / "place/applied").read_text().split()


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path)


def test_the_role_mends_several_at_once_and_what_nobody_mends_is_an_error(
    scenario: Scenario,
) -> None:
    again = {**remove("node1", "a"), "name": "a is gone on node1 once more"}
    by_hand = {**remove("node2", "b", mend="true"), "name": "b stays gone"}
    done = scenario.run([remove("node1", "a"), remove("node1", "c"), again, by_hand], mended="a")
    assert done.stdout.count("TASK [Check that verify noticed: ") == 4
    # Once before its behaviour is broken again, and once at the end.
    assert scenario.applied() == ["node1", "node1"]
    assert done.returncode != 0
    assert re.findall(r"^(\w+) .*failed=1 ", done.stdout, re.M) == ["node1", "node2"]
    said, last = done.stdout.split("TASK [Verify all that the role has mended]")
    assert "node2" in said.split("TASK [Verify what was mended by hand: b stays gone]")[1]
    assert "node1" in last.split("PLAY RECAP")[0]


def test_what_nobody_notices_is_an_error_also_after_an_earlier_one(scenario: Scenario) -> None:
    """With the first file gone, the look for both fails whatever comes next."""
    by_hand = remove("node1", "b", mend="touch {{ place }}/node1/b")
    mutations = [by_hand, remove("node1", "b"), nothing("node1", "both")]
    done = scenario.run(mutations, independent=False)
    assert done.returncode != 0
    assert done.stdout.count("TASK [Check that verify noticed: ") == 3
    assert "both.yml passed on a broken machine: nothing is broken" in done.stdout
    # What is mended by hand is not the role's to mend.
    assert scenario.applied() == ["node1"]
