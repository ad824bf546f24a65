"""The verb `look`: what differs from what the roles of set-up would make of a machine."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.engine.docker import EngineError
from node.failure import VerbError
from node.setup import docker_engine, files, hosts_file, openmpi
from node.setup.accounts import Accounts
from node.setup.accounts_lists import Group, User
from node.setup.files import Ready, Traces, is_roots, look_for_traces, look_whether_ready
from node.setup.hosts_file import HostsFile, look_at_hosts_file
from node.verbs import look as verb
from node.verbs.look import Roles, look

ROOT = Path(__file__).parents[2]


def test_traces_are_files_and_lines_that_a_role_wrote(tmp_path: Path) -> None:
    traces = Traces([f"{tmp_path}/*.crt"], {f"{tmp_path}/fstab": "# BEGIN role"})
    assert look_for_traces(traces) == {"differs": False, "found": []}
    (tmp_path / "fstab").write_text("of somebody else # BEGIN role\n")
    assert not look_for_traces(traces)["differs"]
    (tmp_path / "fstab").write_text("line\n# BEGIN role\n")
    (tmp_path / "a.crt").touch()
    assert look_for_traces(traces)["found"] == [f"{tmp_path}/a.crt", f"{tmp_path}/fstab"]


def test_a_node_is_ready_with_packages_and_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing: list[str] = []
    monkeypatch.setattr(files, "unsettled", lambda owner, names: missing)
    ready = Ready("role", ["rsync"], {str(tmp_path): "0711"})
    tmp_path.chmod(0o711)
    of_root = os.geteuid() == 0
    assert look_whether_ready(ready)["differs"] is not of_root
    tmp_path.chmod(0o700)
    assert look_whether_ready(ready)["directories"] == [str(tmp_path)]
    missing.append("rsync")
    assert look_whether_ready(ready)["packages"] == ["rsync"]

    def no_dpkg(owner: str, names: list[str]) -> list[str]:
        raise RuntimeError("there is no dpkg-query")

    monkeypatch.setattr(files, "unsettled", no_dpkg)
    assert look_whether_ready(ready)["packages"] == ["rsync"]
    assert not is_roots(tmp_path / "none", "0755")


def test_the_hosts_file_differs_in_a_byte_or_in_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = {"right": True}
    monkeypatch.setattr(hosts_file, "is_roots", lambda path, mode: modes["right"])
    path = tmp_path / "hosts"
    path.write_bytes(b"127.0.0.1 localhost\n# caf\xe9\n# B\n10.0.0.1 node1\n# E\n")
    wanted = HostsFile("# B", "# E", ["10.0.0.1 node1"], ["node1"], str(path))
    assert not look_at_hosts_file(wanted)["differs"]
    assert look_at_hosts_file(wanted._replace(lines=["10.0.0.2 node1"]))["differs"]
    modes["right"] = False
    assert look_at_hosts_file(wanted)["differs"]


def test_a_summary_names_roles_that_differ_speak_or_cannot_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuses(wanted: Any) -> dict[str, Any]:
        raise VerbError("failed", message="no")

    told = {"differs": False, "versions": ["openmpi-bin 5.0.7"]}
    looks = {
        Traces: lambda wanted: {"differs": bool(wanted.paths)},
        openmpi.OpenMPI: lambda wanted: told,
        HostsFile: refuses,
        docker_engine.Engine: lambda wanted: {"differs": False, "unnamed": ["ada"]},
    }
    monkeypatch.setattr(verb, "LOOKS", looks)
    engine = docker_engine.Engine("docker-ce", "s", "r", "k", systemd=True)
    roles = Roles(
        chrony=Traces(["/x"]),
        firewall=Traces([]),
        hosts_file=HostsFile("b", "e", [], []),
        openmpi=openmpi.OpenMPI([], {}, ""),
        docker_engine=engine,
    )
    assert look(roles, summary=True) == {
        "roles": ["chrony", "docker_engine", "hosts_file"],
        "alike": {"openmpi": ["openmpi-bin 5.0.7"]},
    }
    # Asked by its own role, what is refused is said.
    with pytest.raises(VerbError):
        look(Roles(hosts_file=HostsFile("b", "e", [], [])))


@pytest.mark.parametrize(
    "wanted",
    [
        Accounts("root", "/none", state="gone"),
        Accounts("root", "/none", users=[User("ada", state="gone")]),
        Accounts("root", "/none", groups=[Group("ada", state="gone")]),
    ],
)
def test_a_state_that_is_none_is_no_reason_to_pass_over_a_role(wanted: Accounts) -> None:
    assert look(Roles(accounts=wanted), summary=True)["roles"] == ["accounts"]
    with pytest.raises(VerbError, match="failed"):
        look(Roles(accounts=wanted))


def test_a_role_that_is_to_go_is_never_passed_over() -> None:
    """Its look, if it has one then, tells of what is to go."""
    for role in sorted(set(Roles._fields) - {"trainer_image"}):
        variables = yaml.safe_load((ROOT / f"roles/{role}/vars/main.yml").read_text())
        look = variables[f"{role}_look"]
        assert "_state" in str(look), role


def test_the_verb_knows_the_roles_of_set_up_that_want_to_be_looked_for() -> None:
    (_, play) = yaml.safe_load((ROOT / "playbooks/nodes.yml").read_text())
    roles = play["vars"]["setup_roles"]
    imported = [
        entry["ansible.builtin.import_role"]["name"]
        for entry in play["tasks"]
        if entry.get("tags") == ["never"]
    ]
    declared = {
        role
        for role in roles
        if (file := ROOT / f"roles/{role}/vars/main.yml").exists()
        and f"{role}_look" in yaml.safe_load(file.read_text())
    }
    # The image is delivered when it is built, by a play of its own.
    assert declared == set(Roles._fields) - {"trainer_image"} == set(imported)


def test_an_image_is_missing_and_an_engine_that_is_silent_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there: list[str] = []
    monkeypatch.setattr(docker_engine, "image", lambda name: {} if name in there else None)
    assert docker_engine.look_for_image(docker_engine.Image("a:b"))["differs"]
    there.append("a:b")
    assert not docker_engine.look_for_image(docker_engine.Image("a:b"))["differs"]

    def silent(name: str) -> None:
        raise EngineError("the Docker engine does not answer")

    monkeypatch.setattr(docker_engine, "image", silent)
    with pytest.raises(VerbError, match="failed"):
        docker_engine.look_for_image(docker_engine.Image("a:b"))
    assert docker_engine.look_for_image(docker_engine.Image("a:b", dry=True))["differs"]


def test_a_look_finds_its_files_outside_of_its_role() -> None:
    """A look that cannot be computed would have its role applied at each set-up."""
    for role in sorted(Roles._fields):
        variables = yaml.safe_load((ROOT / f"roles/{role}/vars/main.yml").read_text())
        read, rest = set(), {f"{role}_look"}
        while rest:
            name = rest.pop()
            read.add(name)
            text = str(variables.get(name, ""))
            assert not re.search(r"'template', '|role_path (?!\| default)", text), name
            rest |= {each for each in variables if re.search(rf"\b{each}\b", text)} - read
