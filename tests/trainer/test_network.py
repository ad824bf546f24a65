import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from trainer.errors import WorldError
from trainer.network import VARIABLE, cluster_address, listen, rdma_ports, use_cluster_network

NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES")
CHECK = "UCX_UD_VERBS_ETH_DGID_CHECK"
NAMES_OF_IPV6 = ("OMPI_MCA_btl_tcp_if_include", "NCCL_SOCKET_FAMILY")


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(os.environ)
    for name in (*NAMES, *NAMES_OF_IPV6, CHECK, VARIABLE):
        monkeypatch.delenv(name, raising=False)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_without_a_network_nothing_is_named() -> None:
    use_cluster_network()
    assert not any(name in os.environ for name in NAMES)
    assert cluster_address() == "127.0.0.1"


def test_interface_is_found_by_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "127.0.0.0/8")
    use_cluster_network()
    assert [os.environ[name] for name in NAMES] == ["lo", "=lo", "lo"]
    assert not any(name in os.environ for name in NAMES_OF_IPV6)
    assert cluster_address() == "127.0.0.1"


def test_of_a_network_of_ipv6_open_mpi_and_nccl_are_told_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Containers without a network may have no IPv6, not even on the loopback.
    def entry(address: str) -> SimpleNamespace:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return SimpleNamespace(family=family, address=address)

    known = {
        "eth0": [entry("172.18.0.2"), entry("fe80::1%eth0"), entry("fd00:1::11")],
        "lo": [entry("127.0.0.1")],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: known)
    monkeypatch.setenv(VARIABLE, "fd00:1::/64")
    use_cluster_network()
    assert [os.environ[name] for name in NAMES] == ["eth0", "=eth0", "eth0"]
    assert [os.environ[name] for name in NAMES_OF_IPV6] == ["eth0", "AF_INET6"]
    assert cluster_address() == "fd00:1::11"


def test_listens_on_a_port_that_is_free_and_on_no_other() -> None:
    with listen("127.0.0.1") as free:
        address, port = free.getsockname()
        assert address == "127.0.0.1"
        with pytest.raises(OSError, match="in use"):
            listen("127.0.0.1", port)


def test_what_the_site_has_set_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "127.0.0.0/8")
    monkeypatch.setenv("UCX_NET_DEVICES", "mlx5_3:1")
    use_cluster_network()
    assert os.environ["UCX_NET_DEVICES"] == "mlx5_3:1"


def test_machine_outside_of_the_network_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "192.0.2.0/24")
    with pytest.raises(WorldError, match=rf"{socket.gethostname()} has no address .*192\.0\.2\.0"):
        use_cluster_network()


def plug(sysfs: Path, device: str, port: int, interface: str) -> None:
    """Give a machine a port of an adapter, as the kernel lays InfiniBand out."""
    (sysfs / device / "ports" / str(port)).mkdir(parents=True)
    own = sysfs / device / "device/net" / interface
    own.mkdir(parents=True)
    (own / "dev_port").write_text(f"{port - 1}\n")


def test_rdma_port_behind_an_interface(tmp_path: Path) -> None:
    plug(tmp_path, "mlx5_0", 1, "ib0")
    plug(tmp_path, "mlx5_0", 2, "ib1")
    assert rdma_ports("ib1", tmp_path) == ["mlx5_0:2"]
    assert rdma_ports("lo", tmp_path) == []
    assert rdma_ports("", tmp_path) == []
    assert rdma_ports("ib0", tmp_path / "not_there") == []


def test_rdma_in_software_is_behind_an_interface_without_an_adapter(tmp_path: Path) -> None:
    # As on a machine with rdma_rxe (Linux 6.1): /sys/class/net/eth0/device knows nothing of it.
    names = tmp_path / "rxe0/ports/1/gid_attrs/ndevs"
    names.mkdir(parents=True)
    (names / "0").write_text("eth0\n")
    assert rdma_ports("eth0", tmp_path) == ["rxe0:1"]
    assert rdma_ports("eth1", tmp_path) == []


def test_what_ranks_send_over_names_the_port_before_the_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug(tmp_path, "mlx5_0", 1, "lo")
    monkeypatch.setattr("trainer.network.SYSFS", tmp_path)
    monkeypatch.setenv(VARIABLE, "127.0.0.0/8")
    use_cluster_network()
    assert os.environ["UCX_NET_DEVICES"] == "mlx5_0:1,lo"
    assert CHECK not in os.environ
    soft = tmp_path / "soft"
    (soft / "rxe0/ports/1/gid_attrs/ndevs").mkdir(parents=True)
    (soft / "rxe0/ports/1/gid_attrs/ndevs/0").write_text("lo\n")
    monkeypatch.setattr("trainer.network.SYSFS", soft)
    monkeypatch.delenv("UCX_NET_DEVICES")
    use_cluster_network()
    assert os.environ["UCX_NET_DEVICES"] == "rxe0:1,lo"
    assert os.environ[CHECK] == "n"
