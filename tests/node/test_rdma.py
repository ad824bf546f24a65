"""RDMA on a node, as /sys/class/infiniband tells of it, and what `make verify` says of it.

The files are those of Documentation/ABI/stable/sysfs-class-infiniband; no adapter was at hand.
"""

from pathlib import Path
from typing import Any

import pytest

from node.check import rdma
from node.verdict import notes
from node.verdict.cluster import Cluster, Thresholds
from node.verdict.finding import remedy
from node.verdict.judgement import judge

THRESHOLDS = Thresholds([], 1.0, 1.0, 10.0, 1.0, 1.0, 1.15)
TCP, UCX = notes.Transport("tcp", False), notes.Transport("ucx", True)


def plug(
    sys: Path,
    device: str,
    interface: str,
    link: str = "InfiniBand",
    state: str = "4: ACTIVE",
    port: int = 1,
) -> None:
    """Give a machine a port of an adapter."""
    folder = sys / device / "ports" / str(port)
    (folder / "gid_attrs/ndevs").mkdir(parents=True)
    texts = {"link_layer": link, "state": state, "rate": "200 Gb/sec (4X HDR)"}
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    if link == "Ethernet":
        if device != "rxe0":
            (sys / device / "device").mkdir(exist_ok=True)
        (folder / "gid_attrs/ndevs/0").write_text(f"{interface}\n")
        return
    own = sys / device / "device/net" / interface
    own.mkdir(parents=True)
    (own / "dev_port").write_text(f"{port - 1}\n")


def test_a_machine_without_adapters_has_none(tmp_path: Path) -> None:
    assert rdma.read_ports(str(tmp_path)) == []
    assert rdma.read_ports(str(tmp_path / "not_there")) == []
    assert rdma.ways([], "eth0") == {"ucx": "eth0", "nccl": "eth0"}
    assert rdma.port_checks([], "eth0") == []


def test_ports_are_named_with_their_interfaces(tmp_path: Path) -> None:
    plug(tmp_path, "mlx5_0", "ib0")
    plug(tmp_path, "mlx5_0", "ib1", port=2, state="1: DOWN")
    plug(tmp_path, "mlx5_2", "eth1", link="Ethernet")
    plug(tmp_path, "rxe0", "eth0", link="Ethernet")
    ports = rdma.read_ports(str(tmp_path))
    assert [(port.name, port.link, port.state, port.interface) for port in ports] == [
        ("mlx5_0:1", "InfiniBand", "ACTIVE", "ib0"),
        ("mlx5_0:2", "InfiniBand", "DOWN", "ib1"),
        ("mlx5_2:1", "Ethernet", "ACTIVE", "eth1"),
        ("rxe0:1", "Ethernet software", "ACTIVE", "eth0"),
    ]
    assert ports[0].rate == "200 Gb/sec (4X HDR)"
    assert rdma.ways(ports, "ib0") == {"ucx": "mlx5_0:1", "nccl": "mlx5_0:1,mlx5_2:1,rxe0:1"}
    # Behind the training network nothing is active: UCX sends over its interface.
    assert rdma.ways(ports, "ib1")["ucx"] == "ib1"
    assert rdma.ways(ports, "wlan0")["ucx"] == "wlan0"


def test_a_port_behind_the_training_network_must_be_active(tmp_path: Path) -> None:
    plug(tmp_path, "mlx5_0", "ib0", state="2: INIT")
    plug(tmp_path, "mlx5_1", "ib1", state="1: DOWN")
    ports = rdma.read_ports(str(tmp_path))
    (bad,) = rdma.port_checks(ports, "ib0")
    assert (bad.code, bad.subject, bad.value) == ("rdma_down", "mlx5_0:1", "INIT")
    assert "subnet manager" in remedy(bad.code, bad.values)
    assert rdma.port_checks(ports, "eth0") == []
    # A node without an address in the training network is said elsewhere.
    assert rdma.port_checks(ports, "") == []


def measured(interface: Any = "ib0", **adapters: Any) -> Cluster:
    """Nodes with these adapters; the training network is behind ib0."""
    probe = {"checks": [], "run": "", "image_id": "sha256:1"}
    node = {"checks": [], "releases": {"docker": "26"}, "interface": interface}
    answers = {
        host: {"probe": probe, "node": {**node, "rdma": ports}} for host, ports in adapters.items()
    }
    return Cluster(answers, THRESHOLDS)


def port(name: str = "mlx5_0:1", interface: str = "ib0", state: str = "ACTIVE") -> dict[str, str]:
    values = (name, "InfiniBand", state, "200 Gb/sec (4X HDR)", interface)
    found: dict[str, str] = rdma.RdmaPort(*values).asdict()
    return found


def test_what_is_there_and_not_taken_is_said_once_for_all_nodes() -> None:
    cluster = measured(a=[port()], b=[port()], c=[])
    (note,) = notes.notes(cluster, TCP)
    assert (note.code, note.hosts) == ("rdma_unused", ("a", "b"))
    assert "mlx5_0:1 InfiniBand 200 Gb/sec (4X HDR)" in note.text
    assert "TRANSPORT=tcp" in note.text
    assert "TRANSPORT=ucx" in note.text
    assert notes.notes(cluster, UCX) == []
    assert notes.notes(measured(a=[port(state="DOWN")]), TCP) == []


def test_nobody_is_told_to_use_software_in_place_of_tcp() -> None:
    rxe = port("rxe0:1") | {"link": "Ethernet software"}
    assert notes.notes(measured(a=[rxe]), TCP) == []
    (note,) = notes.notes(measured(a=[rxe, port()]), TCP)
    assert note.code == "rdma_unused"


def test_what_is_behind_another_network_is_said_with_every_transport() -> None:
    cluster = measured(a=[port("mlx5_1:1", "ib1")], b=[])
    for transport in (TCP, UCX):
        (note,) = notes.notes(cluster, transport)
        assert (note.code, note.hosts) == ("rdma_elsewhere", ("a",))
        assert "UCX sends over ib0" in note.text
    for odd in ("\x1b[2J", "", 5, None):
        (note,) = notes.notes(measured(odd, a=[port("mlx5_1:1", "ib1")]), TCP)
        assert "UCX sends over TCP" in note.text


@pytest.mark.parametrize(
    "told", ["mlx5_0", [1], [{"name": 1}], [{**port(), "more": ""}], [port("\x1b[2J")], None]
)
def test_what_a_node_says_in_another_form_is_nothing(told: Any) -> None:
    assert notes.notes(measured(a=told), TCP) == []
    assert judge(measured(a=told, b=[port()]))


def test_nodes_must_be_alike() -> None:
    def found(cluster: Cluster) -> list[tuple[str | None, str]]:
        findings = [finding for finding in judge(cluster) if finding.name == "RDMA"]
        return [(finding.host, finding.code) for finding in findings if not finding.ok]

    assert found(measured(a=[port()], b=[port()], c=[])) == [("c", "other_rdma")]
    assert found(measured(a=[port()], b=[port()])) == []
    # Where nobody has any there is nothing to say.
    assert not any(finding.name == "RDMA" for finding in judge(measured(a=[], b=[])))
