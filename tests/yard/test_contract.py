"""The names that `yard` relies on, compared with the roles and playbooks that have them."""

import ast
import re
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment
from yard_command import DATA, REPOSITORY

from node.calls import VERBS
from node.forms import parameters
from yard.core.project import OWN_FOLDERS
from yard.plays import contract
from yard.request.training import Training
from yard.runs.folder import run_id_of

ROLES = REPOSITORY / "roles"


def tasks_of(path: Path) -> list[dict[str, Any]]:
    """All tasks of a file, those in blocks too."""

    def flat(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        inner = [
            task
            for outer in tasks
            for name in ("block", "rescue", "always", "tasks")
            for task in flat(outer.get(name) or [])
        ]
        return tasks + inner

    return flat(yaml.safe_load(path.read_text()) or [])


def uses(path: Path, module: str) -> bool:
    return any(module in task or f"ansible.builtin.{module}" in task for task in tasks_of(path))


@pytest.mark.parametrize(
    ("module", "tasks"),
    [
        (contract.CHOOSE_NODES, "training_run/tasks/check.yml"),
        (contract.PLAN_MACHINES, "ec2_machines/tasks/look.yml"),
        (contract.TAGGED_MACHINES, "ec2_machines/tasks/absent.yml"),
        (contract.TAGGED_MACHINES, "ec2_machines/tasks/check.yml"),
    ],
)
def test_the_role_calls_the_module_and_has_it(module: str, tasks: str) -> None:
    assert uses(ROLES / tasks, module)
    role = ROLES / tasks.partition("/")[0]
    assert list(role.glob(f"library/{module}.py")) or list(role.glob(f"action_plugins/{module}.py"))


@pytest.mark.parametrize(
    ("verb", "tasks"),
    [
        (contract.READ_STATUS, "training_node/tasks/status.yml"),
        (contract.POLL_RUN, "training_run/tasks/follow.yml"),
        (contract.READ_LOGS, "training_run/tasks/logs.yml"),
        (contract.OFFER_CHECKPOINTS, "training_run/tasks/checkpoints.yml"),
        (contract.END_RUN, "training_run/tasks/stop.yml"),
        (contract.READ_RECORD, "training_run/tasks/record.yml"),
        (contract.SERVE_NOTEBOOK, "training_run/tasks/serve.yml"),
        (contract.CLEAN_UP, "training_node/tasks/clean_up.yml"),
        (contract.STAGE_DATA, "dataset/tasks/present.yml"),
        (contract.SETTLE_DATA, "dataset/tasks/present.yml"),
        (contract.WATCH_NODE, "training_node/tasks/watch.yml"),
    ],
)
def test_the_role_asks_the_node_program(verb: str, tasks: str) -> None:
    calls = [
        task[contract.CALL_NODE] for task in tasks_of(ROLES / tasks) if contract.CALL_NODE in task
    ]
    assert verb in [call["verb"] for call in calls]
    assert verb in VERBS


def test_the_role_takes_a_node_with_the_action_that_brings_the_code() -> None:
    assert uses(ROLES / "training_run/tasks/take.yml", contract.TAKE_NODE)
    assert (ROLES / f"training_node/action_plugins/{contract.TAKE_NODE}.py").is_file()


@pytest.mark.parametrize("path", sorted(ROLES.glob("*/tasks/*.yml")), ids=str)
def test_each_call_of_the_node_program_gives_what_its_verb_takes(path: Path) -> None:
    """As far as names go; values are known at run time alone."""
    for task in tasks_of(path):
        call = task.get(contract.CALL_NODE)
        if call is not None:
            function = getattr(import_module(f"node.verbs.{call['verb']}"), call["verb"])
            takes = set(parameters(function)[0])
            assert set(call["arguments"]) <= takes, call["verb"]


def test_what_a_node_finds_is_read_by_a_shell_alone() -> None:
    assert uses(ROLES / "training_node/tasks/watch.yml", contract.READ_WATCH)


def test_the_decoding_that_outlives_its_playbook_has_an_end() -> None:
    files = [
        ROLES.joinpath(*contract.DECODE_DATA).with_stem(stem) for stem in ("decode", "decode_end")
    ]
    module = f"community.docker.{contract.RUN_CONTAINER}"
    names = [task[module]["name"] for file in files for task in tasks_of(file) if module in task]
    assert names == ["{{ dataset_container }}"] * 2
    assert uses(REPOSITORY / "playbooks/data_end.yml", "include_role")


def test_exec_has_the_one_command() -> None:
    assert uses(REPOSITORY / "playbooks/exec.yml", contract.RUN_COMMAND)


def test_set_up_begins_with_the_check_of_the_inventory() -> None:
    first = yaml.safe_load((REPOSITORY / "site.yml").read_text())[0]
    plays = yaml.safe_load((REPOSITORY / first["ansible.builtin.import_playbook"]).read_text())
    roles = [task["ansible.builtin.include_role"]["name"] for task in plays[-1]["tasks"]]
    assert roles == [contract.INVENTORY_CHECK]


@pytest.mark.parametrize("root", [REPOSITORY, DATA / "checkout"])
def test_the_launch_role_has_a_file_for_each_phase(root: Path) -> None:
    tasks = root / "roles" / contract.LAUNCH_ROLE / "tasks"
    for phase in contract.LAUNCH_PHASES:
        assert (tasks / f"{phase}.yml").is_file()
        assert contract.phase_of(contract.LAUNCH_ROLE, str(tasks / f"{phase}.yml")) == phase
    assert contract.phase_of("docker_engine", str(tasks / "check.yml")) is None


def test_the_checking_roles_have_a_file_for_each_part() -> None:
    checks = ROLES / "cluster_check/tasks"
    parts = {*contract.CHECK_PARTS, contract.GIVE_VERDICT} - {contract.NODES}
    assert parts <= {path.stem for path in checks.glob("*.yml")}
    assert (ROLES / "training_node/tasks" / f"{contract.LOOK_AT_NODES}.yml").is_file()


def test_the_roles_declare_the_variables_that_a_launch_is_told() -> None:
    declared: set[str] = set()
    for path in ROLES.glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            declared |= set(entry.get("options", {}))
    assert set(contract.launch_variables("run", "/runs/run")) <= declared


def test_no_inventory_can_have_the_name_of_a_folder_that_something_uses() -> None:
    """Whatever is kept in `.trainyard/`, as variables, programs and scripts write it."""
    place = re.compile(
        r"""(?:\.trainyard/|\.trainyard" / "|trainyard_state \}\}/)([a-z][\w.-]*\w)"""
    )
    folders = ("collection", "group_vars", "molecule", "playbooks", "roles", "tests", "yard")
    kinds = {".py", ".yml", ".sh", ".cfg", ""}
    found = {
        name
        for folder in (*folders, "Makefile", "ansible.cfg", "bootstrap.sh", "unbundle.sh")
        for path in (REPOSITORY / folder, *(REPOSITORY / folder).rglob("*"))
        # The tests here have inventories of their own, and a checkout.
        if path.is_file() and path.suffix in kinds and DATA.parent not in path.parents
        for name in place.findall(path.read_text(encoding="utf-8", errors="replace"))
    }
    # The local cluster's own, which is an inventory; where tests have inventories, a name that
    # people's inventories may have; what is in the home of a node, and of who works here.
    assert found - {"local", "inventory", "node1", "node"} == OWN_FOLDERS


def test_the_role_knows_the_problems_that_setup_mends() -> None:
    tables = (
        REPOSITORY / "node/check/problems.py",
        ROLES / "training_run/action_plugins/training_run_choose.py",
    )
    text = "".join(path.read_text() for path in tables)
    for code in contract.MENDED_BY_SETUP:
        assert f'"{code}": ' in text


def test_the_role_makes_the_same_ids_where_nobody_gives_one() -> None:
    """`ansible-playbook playbooks/train.yml` alone makes the id that `yard` would have made."""
    variables = yaml.safe_load((ROLES / "training_run/vars/main.yml").read_text())
    environment = Environment()
    environment.filters["strftime"] = lambda form, utc: time.strftime(form, time.gmtime(0))
    training = Training(
        model="vit",
        dataset="cifar10",
        nodes=2,
        min_nodes=1,
        procs_per_node=3,
        epochs=4,
        batch_per_rank=5,
        learning_rate=0.1,
        train_images=None,
        train_images_available=None,
        engine=None,
        precision=None,
        transport=None,
        options={},
    )
    values = {f"training_run_{name}": value for name, value in training.to_json().items()}
    values["training_run_node_count"] = training.nodes
    made = environment.from_string(variables["training_run_made_id"]).render(values)
    assert made == run_id_of(training, 0.0)


def test_what_modules_take_of_the_node_program_is_beside_it() -> None:
    """Mitogen, which scenarios run with, finds no `from ..` of a module's own modules."""
    node = REPOSITORY / "node"
    waiting = {
        node / f"{name.replace('.', '/')}.py"
        for file in ROLES.glob("*/[lm]*/*.py")
        for name in re.findall(r"module_utils\.training_node\.([\w.]+) import", file.read_text())
    }
    assert len(waiting) > 5
    seen: set[Path] = set()
    above = []
    while waiting:
        file = waiting.pop()
        seen.add(file)
        for part in ast.parse(file.read_text()).body:
            if isinstance(part, ast.ImportFrom) and part.level:
                names = [part.module] if part.module else [each.name for each in part.names]
                paths = {file.parent / f"{str(name).replace('.', '/')}.py" for name in names}
                waiting |= {path for path in paths if path.is_file()} - seen
                above += [f"{file.relative_to(node)}:{part.lineno}"] if part.level > 1 else []
    assert above == []
