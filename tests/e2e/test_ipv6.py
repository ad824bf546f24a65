"""Whole runs on nodes that know each other by addresses of IPv6 alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Outcome, make
from machines import CHECKOUT_HASH, docker, write_inventory
from trainings import SHORTEST

NAME = f"ipv6-{CHECKOUT_HASH[:4]}"
# Unique local addresses (RFC 4193), of this checkout
NETWORK = f"fd{CHECKOUT_HASH[:2]}:{CHECKOUT_HASH[2:6]}:{CHECKOUT_HASH[6:10]}:1::/64"


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of its own; its nodes have no address of IPv4 towards each other."""
    folder = tmp_path_factory.mktemp(NAME) / "inventory"
    write_inventory(folder, NAME, NETWORK)
    try:
        assert make("setup", INVENTORY=folder).status == 0
        for node in ("node1", "node2"):
            # The engine gives every network one of IPv4 too: packages came that way.
            docker("exec", f"{NAME}-{node}", "ip", "-4", "address", "flush", "dev", "eth0")
        yield folder
    finally:
        make("local-down", INVENTORY=folder)
        assert docker("ps", "--all", "--quiet", "--filter", f"name={NAME}-") == ""


@pytest.mark.parametrize("choice", [{}, {"ENGINE": "ddp"}, {"TRANSPORT": "ucx"}], ids=str)
def test_trains(inventory: Path, choice: dict[str, str]) -> None:
    outcome: Outcome = make("train", INVENTORY=inventory, **SHORTEST, **choice)
    assert outcome.status == 0
