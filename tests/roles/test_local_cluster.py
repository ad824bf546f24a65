"""How the nodes of a local cluster are laid out."""

from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from role_files import action_plugin

layout = action_plugin("local_cluster", "local_cluster_layout")


def test_nodes_take_addresses_and_images_in_turns() -> None:
    nodes = layout.lay_out("trainyard", 3, "10.117.0.0/24", ["a", "b"], 6)
    assert [(node.name, node.container, node.address, node.image) for node in nodes] == [
        ("node1", "trainyard-node1", "10.117.0.11", "a"),
        ("node2", "trainyard-node2", "10.117.0.12", "b"),
        ("node3", "trainyard-node3", "10.117.0.13", "a"),
    ]


def test_nodes_of_one_core_stay_when_more_come_to_share_it() -> None:
    network = ("trainyard", 2, "10.117.0.0/24", ["a"], 2)
    two = layout.lay_out(*network)
    assert layout.lay_out(network[0], 4, *network[2:])[:2] == two


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
    assert [layout.cores_of(index, size, cores) for index in range(size)] == shares


@pytest.mark.parametrize("network", ["10.117.0.0/29", "everywhere"])
def test_a_network_that_cannot_be_is_refused(network: str) -> None:
    with pytest.raises(ValueError, match=network):
        layout.lay_out("trainyard", 2, network, ["a"], 2)


class Layout:
    """The action without Ansible around it: what it is given is what it takes."""

    def __init__(self, **options: Any) -> None:
        self.options = {
            "name": "trainyard",
            "size": 2,
            "network": "10.117.0.0/24",
            "images": ["a"],
            "cores": 2,
            "virtual": [],
            "directory": "/srv",
            "taps": "t-",
            "gpus": {},
            **options,
        }

    def run(self) -> dict[str, Any]:
        action = object.__new__(layout.ActionModule)
        action.validate_argument_spec = lambda _: (None, self.options)
        told: dict[str, Any] = action.run(None, {})
        return told


def test_gpus_are_those_of_the_node_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    gpus = {"profile": "t4", "count": 2, "driver": "550.163.01"}
    told = Layout(gpus={"node2": gpus}).run()
    assert [node.get("gpus") for node in told["containers"]] == [None, gpus]
    # A node without GPUs is described as before there were any, so that it is not made anew.
    assert told["containers"][:1] == Layout().run()["containers"][:1]
    for options in ({"gpus": {"node3": gpus}}, {"gpus": {"node1": gpus}, "virtual": ["node1"]}):
        assert "cannot have GPUs (local_cluster_gpus)" in Layout(**options).run()["msg"]
