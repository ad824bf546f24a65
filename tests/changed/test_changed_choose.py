"""What is chosen for changes of this very checkout."""

from pathlib import Path

import pytest
from choose import EVERYTHING, GUESSES, SCENARIO, Choice, build_graph, choose
from graph import Graph

CHECKOUT = Path(__file__).parents[2]
# So much that nothing is left out
ENDLESS = 1e9
TREES = ("roles", "yard", "trainer", "node", "molecule", "playbooks", "docker", "docs", "schemas")


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Who uses what here."""
    return build_graph(CHECKOUT)


def chosen(choice: Choice) -> set[str]:
    """Names of what is to be run."""
    return {item.name for item in choice.chosen}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # A module of a role: its unit tests by import, its scenario, and those that begin with it
        (
            "roles/login_shell/library/login_shell_start.py",
            {"tests/roles/test_login_shell.py", "login_shell", "history"},
        ),
        # By a role that another one depends on, and by a module_util
        ("roles/packages/library/packages_step.py", {"packages", "login_shell", "openmpi"}),
        ("roles/ssh_trust/module_utils/ssh_trust_hosts.py", {"ssh_trust", "several_nodes"}),
        # By an image that a role names
        ("docker/node/Dockerfile", {"tests/roles/test_local_cluster.py", "hosts_file"}),
        ("docker/engine_node/Dockerfile", {"history"}),
        ("docker/file_server/smb.conf", {"cifs_mount"}),
        ("docker/trainer/Dockerfile", {"tests/trainer/test_image.py", "trainer_image"}),
        # A module of yard: what imports it, and what starts the command
        ("yard/pages/charts.py", {"tests/yard/test_report.py", "tests/yard/test_train.py"}),
        ("yard/core/words.py", {"tests/yard/test_report.py", "tests/e2e/test_main_job.py"}),
        # The trainer: its own tests, and what trains
        (
            "trainer/schedule.py",
            {"tests/trainer/test_schedule.py", "trainer_image", "tests/e2e/test_main_job.py"},
        ),
        # By a playbook, and by settings of the site
        ("playbooks/nodes.yml", {"history", "tests/e2e/test_main_job.py"}),
        ("group_vars/all/datasets.yml", {"tests/yard/test_request.py", "several_nodes"}),
        # A helper, its users; what they share, all of them
        ("tests/e2e/machines.py", {"tests/e2e/test_leaks.py", "tests/e2e/faults/test_ranks.py"}),
        ("tests/yard/conftest.py", {"tests/yard/test_train.py", "tests/yard/test_diagnosis.py"}),
        ("molecule/shared/verify.yml", {"accounts", "several_nodes"}),
        ("molecule/run.py", {"tests/roles/test_molecule_run.py"}),
        ("tests/changed/run.py", {"tests/changed/test_changed_run.py"}),
        ("tests/promises.yml", {"tests/circles/test_promises.py"}),
        (
            "tests/circles/results.py",
            {"tests/circles/test_tiers.py", "tests/roles/test_molecule_run.py"},
        ),
        (
            "tests/gpu/steps.py",
            {"tests/gpu/test_gpu_day.py", "tests/trainer/test_gpu_day_steps.py"},
        ),
        # Themselves
        ("molecule/hosts_file/mutations.yml", {"hosts_file"}),
        ("tests/trainer/test_mixing.py", {"tests/trainer/test_mixing.py"}),
    ],
)
def test_a_change_touches(graph: Graph, changed: str, expected: set[str]) -> None:
    choice = choose(CHECKOUT, graph, [changed], ENDLESS, {})
    assert expected <= chosen(choice), sorted(expected - chosen(choice))
    assert choice.left == []
    assert choice.unknown == []


@pytest.mark.parametrize(
    ("changed", "spared"),
    [
        ("yard/pages/charts.py", {"accounts", "tests/trainer/test_schedule.py"}),
        # It reads recorded data, and does not start the command.
        ("yard/commands/train.py", {"tests/yard/test_diagnosis.py", "tests/yard/test_logs.py"}),
        (
            "trainer/schedule.py",
            {"accounts", "tests/yard/test_report.py", "tests/trainer/test_store.py"},
        ),
        ("roles/login_shell/tasks/main.yml", {"accounts", "tests/roles/test_accounts.py"}),
        ("molecule/hosts_file/mutations.yml", {"accounts", "tests/e2e/test_main_job.py"}),
    ],
)
def test_a_change_spares(graph: Graph, changed: str, spared: set[str]) -> None:
    assert (CHECKOUT / changed).exists()
    assert all(
        (CHECKOUT / name).exists() or (CHECKOUT / "molecule" / name).exists() for name in spared
    )
    assert not spared & chosen(choose(CHECKOUT, graph, [changed], ENDLESS, {}))


def test_its_own_tests_run_whatever_they_take_and_others_as_there_is_time(graph: Graph) -> None:
    file = "roles/login_shell/library/login_shell_start.py"
    measured = {"login_shell": 1000.0, "tests/node/test_look.py": 5.0}
    little = choose(CHECKOUT, graph, [file], 0, measured)
    assert {"login_shell", "tests/roles/test_login_shell.py"} <= chosen(little)
    assert "history" not in chosen(little)
    assert {"history", "tests/e2e/test_main_job.py"} <= {item.name for item in little.left}
    spent = sum(item.seconds for item in little.chosen)
    more = choose(CHECKOUT, graph, [file], spent + 10, measured)
    # The nearest first, and of those the quickest.
    assert chosen(more) - chosen(little) == {"tests/node/test_look.py"}


def test_the_way_tells_why(graph: Graph) -> None:
    choice = choose(CHECKOUT, graph, ["docker/node/Dockerfile"], ENDLESS, {})
    ways = {item.name: item.reached.way for item in choice.chosen}
    assert ways["tests/roles/test_local_cluster.py"] == (
        "docker/node",
        "roles/local_cluster",
        "tests/roles/test_local_cluster.py",
    )


def test_until_it_was_measured_a_guess_counts(graph: Graph) -> None:
    choice = choose(CHECKOUT, graph, ["molecule/hosts_file/vars.yml"], 0, {"hosts_file": 70})
    assert [item.seconds for item in choice.chosen if item.kind == SCENARIO] == [70]
    choice = choose(CHECKOUT, graph, ["molecule/hosts_file/vars.yml"], 0, {})
    assert [item.seconds for item in choice.chosen if item.kind == SCENARIO] == [GUESSES[SCENARIO]]


def test_what_nothing_maps_is_named(graph: Graph) -> None:
    files = ["pyproject.toml", ".ci/run", "CHANGELOG.md", "no/such/file"]
    choice = choose(CHECKOUT, graph, files, ENDLESS, {})
    assert choice.unknown == ["pyproject.toml", ".ci/run", "no/such/file"]
    assert choice.texts == ["CHANGELOG.md"]


def test_every_test_and_scenario_is_reached_by_some_change_of_what_it_is_for(graph: Graph) -> None:
    """A folder of tests that the graph passes over would never be chosen."""
    files = [
        str(file.relative_to(CHECKOUT))
        for tree in TREES
        for file in (CHECKOUT / tree).rglob("*")
        if file.is_file()
    ]
    files += EVERYTHING
    reached = chosen(choose(CHECKOUT, graph, files, ENDLESS, {}))
    tests = {
        str(file.relative_to(CHECKOUT))
        for folder in ("yard", "roles", "trainer", "node", "e2e")
        for file in (CHECKOUT / "tests" / folder).rglob("test_*.py")
    }
    scenarios = {file.parent.name for file in CHECKOUT.glob("molecule/*/molecule.yml")}
    assert tests | scenarios <= reached, sorted((tests | scenarios) - reached)
