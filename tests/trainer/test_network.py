import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.errors import WorldError
from trainer.network import VARIABLE, cluster_address, rdma_ports, use_cluster_network

NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES")


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(os.environ)
    for name in (*NAMES, VARIABLE):
        monkeypatch.delenv(name, raising=False)
    yield
    for name in NAMES:
        os.environ.pop(name, None)
    os.environ.update({name: before[name] for name in NAMES if name in before})


def test_without_a_network_nothing_is_named() -> None:
    use_cluster_network()
    assert not any(name in os.environ for name in NAMES)
    assert cluster_address() == "127.0.0.1"


def test_interface_is_found_by_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "127.0.0.0/8")
    use_cluster_network()
    assert [os.environ[name] for name in NAMES] == ["lo", "=lo", "lo"]
    assert cluster_address() == "127.0.0.1"


def test_what_the_site_has_set_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "127.0.0.0/8")
    monkeypatch.setenv("UCX_NET_DEVICES", "mlx5_3:1")
    use_cluster_network()
    assert os.environ["UCX_NET_DEVICES"] == "mlx5_3:1"


def test_machine_outside_of_the_network_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "192.0.2.0/24")
    with pytest.raises(WorldError, match=rf"{socket.gethostname()} has no address .*192\.0\.2\.0"):
        use_cluster_network()


def test_rdma_port_behind_an_interface(tmp_path: Path) -> None:
    # As the kernel lays it out for the second port of an adapter.
    (tmp_path / "ens1f1np1/device/infiniband/mlx5_0").mkdir(parents=True)
    (tmp_path / "ens1f1np1/dev_port").write_text("1\n")
    assert rdma_ports("ens1f1np1", tmp_path) == ["mlx5_0:2"]
    assert rdma_ports("lo", tmp_path) == []
