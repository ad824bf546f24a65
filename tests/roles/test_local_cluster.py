"""How the nodes of a local cluster are laid out."""

import pytest
from ansible.module_utils import local_cluster_nodes


def test_nodes_take_addresses_and_images_in_turns() -> None:
    nodes = local_cluster_nodes.lay_out("trainyard", 3, "10.117.0.0/24", ["a", "b"], 6)
    assert [(node.name, node.container, node.address, node.image) for node in nodes] == [
        ("node1", "trainyard-node1", "10.117.0.11", "a"),
        ("node2", "trainyard-node2", "10.117.0.12", "b"),
        ("node3", "trainyard-node3", "10.117.0.13", "a"),
    ]


def test_nodes_of_one_core_stay_when_more_come_to_share_it() -> None:
    network = ("trainyard", 2, "10.117.0.0/24", ["a"], 2)
    two = local_cluster_nodes.lay_out(*network)
    assert local_cluster_nodes.lay_out(network[0], 4, *network[2:])[:2] == two


@pytest.mark.parametrize(
    ("size", "cores", "shares"),
    [
        (2, 8, ["0-3", "4-7"]),
        (3, 8, ["0-1", "2-4", "5-7"]),
        (2, 2, ["0", "1"]),
        # Too few: each is shared.
        (3, 2, ["0", "1", "0"]),
    ],
)
def test_every_core_is_given_away_once(size: int, cores: int, shares: list[str]) -> None:
    assert [local_cluster_nodes.cores_of(index, size, cores) for index in range(size)] == shares


@pytest.mark.parametrize("network", ["10.117.0.0/29", "everywhere"])
def test_a_network_that_cannot_be_is_refused(network: str) -> None:
    with pytest.raises(ValueError, match=network):
        local_cluster_nodes.lay_out("trainyard", 2, network, ["a"], 2)
