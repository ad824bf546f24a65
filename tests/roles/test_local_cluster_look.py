"""What is read of a local cluster from its engine and its nodes."""

from pathlib import Path

import pytest
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
    both = {"IPAM": {"Config": [{"Subnet": "172.18.0.0/16"}, {"Subnet": "fd00:1::/64"}]}}
    told_both = {**told, **both, "EnableIPv6": True}
    assert local_cluster_engine.networks_of([told_both])[0]["subnets"] == ["fd00:1::/64"]
    bare = {"IPAM": {"Config": None}, "Labels": None, "Options": None}
    assert local_cluster_engine.networks_of([bare]) == [{"subnets": [], "labels": {}, "bridge": ""}]


@pytest.mark.process
def test_a_cluster_that_is_not_there() -> None:
    assert local_cluster_engine.containers_of("surely-no-such-cluster") == []
    assert local_cluster_engine.image_tags(["surely/no-such-image:1"]) == []
    assert local_cluster_engine.image_tags([]) == []


def test_other_clusters_with_their_key_in_the_same_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def docker(*arguments: str) -> str:
        assert "label=trainyard.directory=/keys" in arguments
        return "mine\nother\nother\n"

    monkeypatch.setattr(local_cluster_engine, "docker", docker)
    assert local_cluster_engine.sharing("mine", "/keys") == ["other"]


@pytest.mark.parametrize(
    ("directory", "lets_in", "owner"),
    [
        ("here", "ssh-ed25519 A", "this"),
        # The key was made anew: the directory is still this one.
        ("here", "ssh-ed25519 OLD", "this"),
        ("there", "ssh-ed25519 B", "another"),
        # It stands still, so that nobody knows whom it lets in.
        ("there", "", "another"),
        # The checkout was moved, and its key with it.
        ("before", "ssh-ed25519 A\n", "this"),
        # That checkout is gone, and nobody has its key any more.
        ("before", "ssh-ed25519 B\n", "gone"),
        ("before", "", "gone"),
        # Of an earlier version, without a label
        ("", "ssh-ed25519 A\n", "this"),
        ("", "ssh-ed25519 B\n", "another"),
        ("", "", "this"),
    ],
)
def test_whose_node_it_is(directory: str, lets_in: str, owner: str, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    label = str(tmp_path / directory) if directory else ""
    node = {"directory": label, "authorized_keys": lets_in}
    told = local_cluster_engine.owner_of(node, str(tmp_path / "here"), "ssh-ed25519 A")
    assert told == owner


def test_a_checkout_without_a_key_owns_no_node_that_lets_in_nobody_yet(tmp_path: Path) -> None:
    node = {"directory": str(tmp_path), "authorized_keys": ""}
    assert local_cluster_engine.owner_of(node, str(tmp_path / "here"), "") == "another"
