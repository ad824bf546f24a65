"""`make remove`: what goes, what stays, and what is in the way of it.

Which roles go from real machines, and that nothing of them is left, is the scenarios' to show
(`molecule/history`). The playbook of the checkout here notes what it was asked for.
"""

import fcntl
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from stand_in_nodes import YardHere
from yard_command import REPOSITORY, RUN_ID, Yard, made

from yard.commands.remove import NATIVE_ROOT, _native_place, _native_ways
from yard.core.project import Project
from yard.plays.contract import LAST_OF_SETUP
from yard.plays.fingerprint import RUNTIME
from yard.plays.inventory import CONTAINER, NATIVE, Inventory
from yard.runs.folder import followed
from yard.runs.setup_record import SetupRecord

LAB = ("--inventory", "inventory/lab")
HOSTS = ("alpha", "beta")


@pytest.fixture
def site(fresh: Yard) -> Yard:
    """A checkout that has set up the machines of a site."""
    for host in HOSTS:
        (fresh.root / "nodes" / host).mkdir(parents=True)
    remembered = fresh.root / ".trainyard/lab"
    (remembered / "log").mkdir(parents=True)
    (remembered / "log/setup.log").write_text("set up\n")
    (remembered / "setup.json").write_text("{}\n")
    (fresh.root / "runs" / RUN_ID).mkdir(parents=True)
    return fresh


def removed(site: Yard) -> dict[str, str]:
    """What was asked of each machine."""
    notes = (site.root / "nodes").glob("*/removed")
    return {note.parent.name: note.read_text() for note in notes}


def remembered(site: Yard) -> list[str]:
    return sorted(path.name for path in (site.root / ".trainyard/lab").iterdir())


@pytest.mark.promise("make remove")
@pytest.mark.parametrize(
    ("further", "roles"), [((), "all"), (("--data",), "all,dataset cifar10 faces")]
)
def test_it_goes_from_all_machines_and_is_forgotten_here(
    site: Yard, further: tuple[str, ...], roles: str
) -> None:
    # Of data of a user's own it is known that it is there.
    record = SetupRecord(when="2026-11-20", nodes=("alpha",), datasets=("faces",), fingerprint={})
    (site.root / ".trainyard/lab/setup.json").write_text(json.dumps(asdict(record)))
    done = site(*LAB, "remove", "--yes", *further)
    assert done.returncode == 0, done.stdout + done.stderr
    assert removed(site) == dict.fromkeys(HOSTS, roles)
    assert remembered(site) == ["log"]
    assert (site.root / ".trainyard/lab/log/setup.log").exists()
    assert (site.root / "runs" / RUN_ID).is_dir()
    assert (site.root / "inventory/lab").is_dir()
    for words in ("From alpha, beta: ", "What stays here: runs/"):
        assert words in done.stdout


def test_nothing_goes_without_an_answer(site: Yard) -> None:
    done = site(*LAB, "remove")
    assert done.returncode == 2
    assert "Remove all of it from 2 machines?" in done.stderr
    assert "YES=1 says yes" in done.stderr
    assert "data sets stay there (DATA=1 removes them)" in done.stdout
    assert removed(site) == {}
    assert "setup.json" in remembered(site)


@pytest.mark.parametrize("runtime", [CONTAINER, NATIVE])
@pytest.mark.parametrize("state", ["running", "ended"])
def test_a_run_is_in_the_way(site: Yard, state: str, runtime: str) -> None:
    site.environment[RUNTIME] = runtime
    run = {
        **{
            "run": RUN_ID,
            "state": state,
            "metric": None,
            "earlier": None,
            "said": "",
            "nodes": ["beta"],
        },
        **{"owner": "ada@ws1", "since": None, "home": None, "gpus": []},
    }
    (site.root / "nodes/beta/status.json").write_text(json.dumps({"runs": [run]}))
    done = site(*LAB, "remove", "--yes")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{RUN_ID} is on beta, of ada@ws1: make stop RUN={RUN_ID}" in done.stderr
    assert "rm -r" not in done.stderr
    assert removed(site) == {}


def test_without_root_it_names_what_is_left_to_do(site: Yard) -> None:
    hosts = site.root / "inventory/lab/hosts.yml"
    hosts.write_text(
        "trainers:\n"
        "  hosts: {alpha: {}, beta: {}}\n"
        "  vars: {trainyard_runtime: native, trainyard_native_root: /scratch/ada/trainyard}\n"
    )
    done = site(*LAB, "remove", "--yes")
    assert done.returncode == 2, done.stdout + done.stderr
    command = "make exec CMD='rm -r /scratch/ada/trainyard' INVENTORY=inventory/lab"
    assert done.stderr.endswith(f"    {command}\n")
    assert removed(site) == {}
    assert "setup.json" in remembered(site)


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("", "~/.trainyard"),
        (NATIVE_ROOT, "~/.trainyard"),
        ("big/trainyard/", "~/big/trainyard"),
        ("~/big", "~/big"),
        ("/scratch/ada", "/scratch/ada"),
        ("/scratch/{{ ansible_user }}", None),
        # What must not stand behind rm -r.
        ("/", None),
        ("~", None),
        (".", None),
        ("../ada", None),
        ("/scratch/ada lovelace", None),
        ("/scratch/$USER", None),
    ],
)
def test_the_place_of_an_account_without_root(said: str, place: str | None) -> None:
    assert _native_place(said) == place


def test_the_place_that_is_taken_unless_told_is_that_of_group_vars() -> None:
    text = (REPOSITORY / "group_vars/all/runtime.yml").read_text()
    assert yaml.safe_load(text)["trainyard_native_root"] == NATIVE_ROOT


def test_nodes_with_places_of_their_own_have_a_line_each(lab: Inventory) -> None:
    roots = {"alpha": "/scratch/a", "beta": "/scratch/{{ ansible_user }}"}
    project = Project(lab.path.parents[1])
    ways = _native_ways(project, replace(lab, native_roots=roots), lab.trainers)
    assert ways == [
        f"    make exec CMD='rm -r /scratch/a' ON=alpha INVENTORY={project.shown(lab.path)}",
        "    on beta, by hand: trainyard_native_root, /scratch/{{ ansible_user }}",
    ]
    # The folder is the same on all, and only one of them leaves.
    assert _native_ways(project, lab, ["beta"]) == [
        f"    make exec CMD='rm -r ~/.trainyard' ON=beta INVENTORY={project.shown(lab.path)}"
    ]


def test_a_machine_that_does_not_answer_is_not_forgotten(site: Yard) -> None:
    (site.root / "nodes/beta/unplugged").touch()
    done = site(*LAB, "remove", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert removed(site) == {"alpha": "all"}
    assert "beta: no answer, so nothing is removed there." in done.stdout
    assert "Give the command again when it is back." in done.stdout
    assert "setup.json" in remembered(site)


def test_one_machine_leaves_and_the_others_are_remembered(site: Yard) -> None:
    run = {
        **{
            "run": RUN_ID,
            "state": "running",
            "metric": None,
            "earlier": None,
            "said": "",
            "nodes": ["alpha"],
        },
        **{"owner": "ada@ws1", "since": None, "home": None, "gpus": []},
    }
    (site.root / "nodes/alpha/status.json").write_text(json.dumps({"runs": [run]}))
    done = site(*LAB, "remove", "--on", "beta", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert removed(site) == {"beta": "all"}
    assert "From beta: " in done.stdout
    assert "Next: take beta out of inventory/lab, host_vars too, then make setup" in done.stdout
    assert "setup.json" in remembered(site)
    assert site(*LAB, "remove", "--on", "alpha", "--yes").returncode == 2  # a run is there
    assert site(*LAB, "remove", "--on", "gamma", "--yes").returncode == 2


@pytest.mark.process
@pytest.mark.promise("make rotate-keys")
def test_new_keys_are_given_by_a_target(site: Yard) -> None:
    assert made("rotate-keys").endswith(" rotate-keys")
    done = site(*LAB, "rotate-keys")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes have new keys for each other" in done.stdout
    assert (site.root / "nodes/beta/rotated").exists()
    # A set-up that is under way here has read the old keys.
    directory = os.open(site.root / ".trainyard/image", os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    waiting = Yard(site.root).start(*LAB, "rotate-keys")
    assert waiting.stdout is not None
    assert "makes nodes ready; this one waits" in waiting.stdout.readline()
    os.close(directory)
    waiting.communicate(timeout=60)
    hosts = "trainers:\n  hosts: {alpha: {}}\n  vars: {trainyard_runtime: native}\n"
    (site.root / "inventory/lab/hosts.yml").write_text(hosts)
    done = site(*LAB, "rotate-keys")
    assert (done.returncode, "set-up gives nodes no keys" in done.stderr) == (2, True)


def test_nothing_is_forgotten_where_no_machine_answers(site: Yard) -> None:
    for host in HOSTS:
        (site.root / "nodes" / host / "unplugged").touch()
    done = site(*LAB, "remove", "--yes")
    assert done.returncode == 3
    assert "no machine answers: make doctor INVENTORY=inventory/lab tells why" in done.stderr
    assert "setup.json" in remembered(site)


def test_nodes_that_are_containers_have_a_command_of_their_own(ready: Yard) -> None:
    done = ready("remove", "--yes")
    assert done.returncode == 2
    assert "are containers: make local-down removes them" in done.stderr
    assert (Path(ready.root) / ".trainyard/local").is_dir()


@pytest.mark.process
@pytest.mark.parametrize(
    ("target", "command"),
    [
        (("remove",), "remove"),
        (("remove", "DATA=1", "YES=1"), "remove --data --yes"),
        (("remove", "ON=gpu07"), "remove --on='gpu07'"),
    ],
)
def test_the_target_of_make(target: tuple[str, ...], command: str) -> None:
    assert " ".join(made(*target).split()).endswith(f" {command}")


def test_machines_that_set_up_went_well_on_can_train(fresh: Yard) -> None:
    hosts = fresh.root / "inventory/lab/hosts.yml"
    hosts.write_text("trainers: {hosts: {alpha: {}, beta: {}}, vars: {break_setup: beta}}\n")
    done = fresh(*LAB, "setup")
    assert done.returncode == 3
    assert "beta  Obey a breakage" in done.stdout
    assert "alpha can train; the others are left out until make setup INVENTORY=" in done.stdout
    record = json.loads((fresh.root / ".trainyard/lab/setup.json").read_text())
    assert record["nodes"] == ["alpha"]
    hosts.write_text(hosts.read_text().replace("beta}}", "''}}"))
    assert fresh(*LAB, "setup").returncode == 0


def test_the_last_play_of_set_up_is_the_one_that_is_known() -> None:
    """It delivers the image; nodes with AMD's GPUs beside such with NVIDIA's have another one."""
    *_, to_all, to_others = yaml.safe_load((REPOSITORY / "site.yml").read_text())
    delivery = REPOSITORY / to_all["ansible.builtin.import_playbook"]
    play = yaml.safe_load(delivery.read_text())[-1]
    assert play["name"] == LAST_OF_SETUP
    assert "'trainers'" in play["hosts"]
    others = REPOSITORY / to_others["ansible.builtin.import_playbook"]
    last = yaml.safe_load(others.read_text())[-1]["ansible.builtin.import_playbook"]
    assert others.parent / last == delivery


def test_what_local_up_made_is_said_with_what_comes_next(fresh: Yard) -> None:
    done = fresh("local-up")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes: node1, node2. Next: make setup\n" in done.stdout


def test_nodes_with_a_run_are_not_taken_down(ready: YardHere) -> None:
    said = []
    ready.during = {
        "Follow the run": [
            lambda: said.append(ready("local-down")),
            lambda: said.append(ready("local-up", "--nodes", "1")),
        ]
    }
    done = ready("train", "--model", "vit", "--nodes", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    run = os.readlink(ready.root / "runs/latest")
    for refused in said:
        assert refused.returncode == 2
        assert refused.stderr == (
            f"yard: {run} is under way: make stop RUN={run} ends it and brings its files home\n"
            "yard: nothing was changed\n"
        )
    # Nor those of a verification; one of another inventory is no matter of theirs.
    for inventory, status in (("lab", 0), ("local", 2)):
        verification = ready.root / f"runs/verify-of-{inventory}"
        verification.mkdir()
        place = {"inventory": str(ready.root / "inventory" / inventory)}
        (verification / "request.json").write_text(json.dumps(place))
        with followed(verification):
            done = ready("local-down")
        assert done.returncode == status, done.stderr
        assert ("verify-of-local is under way: make stop" in done.stderr) is bool(status)
    assert ready("local-down").returncode == 0
