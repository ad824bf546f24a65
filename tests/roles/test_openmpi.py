"""What role openmpi sees of an installed Open MPI."""

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_here import Host
from role_files import ROLES

from node.setup import openmpi as openmpi_installed
from node.setup.packages_records import Package

MARKER = "# {mark} Ansible, role openmpi"
BEGIN, END = "# BEGIN Ansible, role openmpi", "# END Ansible, role openmpi"


def test_versions_are_without_epoch_and_revision() -> None:
    packages = [
        Package("libucx0", "amd64", "1.18.1+ds-2", "installed"),
        Package("openmpi-bin", "amd64", "1:5.0.7-1", "installed"),
        Package("gcc", "amd64", "4:14.2.0-1", "installed"),
    ]
    versions = openmpi_installed.upstream_versions(packages)
    assert list(versions.items()) == [("openmpi-bin", "5.0.7"), ("libucx0", "1.18.1+ds")]
    assert openmpi_installed.runtime_of(versions) == "prrte"


def test_what_is_gone_but_for_its_configuration_has_no_version() -> None:
    packages = [Package("openmpi-bin", "amd64", "4.1.4-3", "config-files")]
    assert openmpi_installed.upstream_versions(packages) == {}
    assert openmpi_installed.runtime_of({}) is None
    assert openmpi_installed.runtime_of({"openmpi-bin": "4.1.4"}) == "orte"


@pytest.mark.parametrize(
    ("text", "block", "is_there"),
    [
        (
            "a = 1\n# BEGIN Ansible, role openmpi\nb = 2\n# END Ansible, role openmpi\n",
            "b = 2",
            True,
        ),
        ("# BEGIN Ansible, role openmpi\nb = 3\n# END Ansible, role openmpi\n", "b = 2", False),
        (
            "# BEGIN Ansible, role openmpi\nb = 2\nc = 1\n# END Ansible, role openmpi\n",
            "b = 2",
            False,
        ),
        ("# BEGIN Ansible, role openmpi\nb = 2\n# END Ansible, role openmpi\n" * 2, "b = 2", False),
        ("b = 2\n", "b = 2", False),
        ("# END Ansible, role openmpi\nb = 2\n# BEGIN Ansible, role openmpi\n", "b = 2", False),
        ("# BEGIN Ansible, role openmpi\n# END Ansible, role openmpi\n", "", False),
        ("b = 2\n", "", True),
    ],
)
def test_a_block_is_as_it_is_to_be(text: str, block: str, is_there: bool) -> None:
    assert openmpi_installed.has_block(text, MARKER, block) == is_there


@pytest.mark.parametrize(
    ("network", "interfaces", "said"),
    [
        ("10.0.0.0/24", ("eth0", "eth0"), ""),
        ("fd12::/64", ("eth0", "eth1"), ""),
        ("10.0.0.0/24", ("eth0", "eth1"), "10.0.0.0/24 PRTE_MCA_prte_if_include=eth0,eth1"),
        ("10.0.0.0/24", ("eth0", None), "10.0.0.0/24 PRTE_MCA_prte_if_include=10.0.0.0/24"),
    ],
)
def test_verify_leads_all_nodes_into_the_network(
    network: str, interfaces: tuple[str | None, ...], said: str
) -> None:
    loader = DataLoader()
    tasks = loader.load_from_file(
        str(ROLES / "cluster_check/tasks/mpi.yml"), trusted_as_template=True
    )
    (chosen,) = (task["vars"] for task in tasks if "vars" in task)
    answers = {f"n{number}": {"interface": name} for number, name in enumerate(interfaces)}
    hostvars = {
        host: {"training_node_probed": {"answer": answer}} for host, answer in answers.items()
    }
    given = {"cluster_check_network": network, "cluster_check_members": list(hostvars)}
    templar = Templar(loader=loader, variables={**chosen, **given, "hostvars": hostvars})
    words = templar.template(chosen["cluster_check_mpi_interfaces"]).strip()
    assert words.partition("OMPI_MCA_oob_tcp_if_include=")[2] == said
    assert words.startswith("env OMPI_MCA_btl_tcp_if_include=") is bool(said)


@pytest.mark.parametrize(
    ("versions", "refused"),
    [
        ("5 5 5 5", ""),
        ("5 5 5 4", "node4"),
        ("4 5", "node1 node2"),
        ("5 5 4 4", "node1 node2 node3 node4"),
        ("5 5 4 3 2", "node1 node2 node3 node4 node5"),
    ],
)
def test_a_node_that_differs_from_most_is_refused_alone(versions: str, refused: str) -> None:
    known = {f"node{number}": f"openmpi {each}" for number, each in enumerate(versions.split(), 1)}
    said = {
        host: Host(
            "openmpi", {"openmpi_known_versions": known, "openmpi_versions": own}, host
        ).refused("versions")
        for host, own in known.items()
    }
    assert [host for host, text in said.items() if text] == refused.split()
    assert all("node1" in text and "openmpi_peers" in text for text in said.values() if text)
