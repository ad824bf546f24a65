"""What is read of a local cluster from its engine and its nodes."""

from ansible.module_utils import local_cluster_engine


def test_the_answer_of_a_node() -> None:
    text = "running\n\0ssh-ed25519 AAAA control\n\0ssh-ed25519 BBBB root@node1\n\0"
    assert local_cluster_engine.parse_answers(text) == {
        "state": "running",
        "authorized_keys": "ssh-ed25519 AAAA control\n",
        "host_key": "ssh-ed25519 BBBB root@node1\n",
    }


def test_a_node_that_does_not_answer_has_nothing() -> None:
    silent = {"state": "", "authorized_keys": "", "host_key": ""}
    assert local_cluster_engine.parse_answers("") == silent


def test_networks() -> None:
    told = {
        "IPAM": {"Config": [{"Subnet": "10.0.0.0/24"}]},
        "Labels": {"trainyard.cluster": "a"},
        "Options": {"com.docker.network.bridge.name": "ty-a"},
    }
    assert local_cluster_engine.networks_of([told]) == [
        {"subnets": ["10.0.0.0/24"], "labels": {"trainyard.cluster": "a"}, "bridge": "ty-a"}
    ]
    bare = {"IPAM": {"Config": None}, "Labels": None, "Options": None}
    assert local_cluster_engine.networks_of([bare]) == [{"subnets": [], "labels": {}, "bridge": ""}]


def test_a_cluster_that_is_not_there() -> None:
    assert local_cluster_engine.containers_of("surely-no-such-cluster") == []
    assert local_cluster_engine.image_tags(["surely/no-such-image:1"]) == []
    assert local_cluster_engine.image_tags([]) == []
