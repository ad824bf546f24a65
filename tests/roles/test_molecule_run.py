"""Networks, order and choice of molecule's scenarios, as molecule/run has them."""

import ipaddress
import runpy
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(CHECKOUT / "molecule/run.py"))

# /proc/net/route of a machine with a default route, an Ethernet network and a local cluster's
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000760A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
ty-5a6c2e7b10\t0000750A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def networks(*existing: ipaddress.IPv4Network) -> Any:
    """The first network for a cluster, beside those that are taken."""
    return next(SCRIPT["candidate_networks"]("molecule-a", existing))


def test_a_cluster_gets_the_same_network_each_time_and_never_a_taken_one() -> None:
    first = networks()
    assert networks() == first
    assert networks(first) != first
    # A larger one that holds it takes it too.
    half = next(
        part
        for part in ipaddress.IPv4Network("10.118.0.0/16").subnets(1)
        if (first.subnet_of(part))
    )
    assert not networks(half).overlaps(half)


def test_no_network_is_left() -> None:
    everything = ipaddress.IPv4Network("10.0.0.0/8")
    assert list(SCRIPT["candidate_networks"]("molecule-a", [everything])) == []


def test_local_clusters_have_other_networks() -> None:
    defaults = (CHECKOUT / "roles/local_cluster/defaults/main.yml").read_text()
    assert "local_cluster_network: 10.117.0.0/24" in defaults
    local = ipaddress.IPv4Network("10.117.0.0/16")
    assert not any(network.overlaps(local) for network in SCRIPT["NETWORKS"])


def test_reads_the_routes_of_this_machine() -> None:
    assert SCRIPT["routed_networks"](ROUTES) == [ipaddress.IPv4Network("10.118.0.0/16")]


def test_a_network_is_one_process_own_until_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two scenarios whose names stand for one network, and no engine that knows either."""
    take = SCRIPT["Networks"].take
    monkeypatch.setitem(take.__globals__, "docker_networks", dict)
    monkeypatch.setitem(take.__globals__, "routed_networks", lambda table: [])
    here, other = SCRIPT["Networks"](), SCRIPT["Networks"]()
    cluster = f"molecule-test-{CHECKOUT}"
    first = here.take(cluster)
    second = other.take(cluster)
    assert not first.overlaps(second)
    for network in (first, second):
        with socket.socket(socket.AF_UNIX) as taken, pytest.raises(OSError, match="in use"):
            taken.bind(f"\0trainyard-molecule-{network}")


def test_machines_that_are_there_keep_their_network(monkeypatch: pytest.MonkeyPatch) -> None:
    take = SCRIPT["Networks"].take
    theirs = ipaddress.IPv4Network("10.118.77.0/24")
    monkeypatch.setitem(take.__globals__, "docker_networks", lambda: {"molecule-a": [theirs]})
    assert SCRIPT["Networks"]().take("molecule-a") == theirs


def test_checkouts_have_machines_of_their_own() -> None:
    name = SCRIPT["cluster_name"]
    assert name("hosts_file", Path("/a/yard")) != name("hosts_file", Path("/b/yard"))


def test_a_scenario_says_how_it_is_looked_at_and_the_rest_is_as_in_all(tmp_path: Path) -> None:
    files = {
        "shared/base.yml": (
            "{provisioner: {inventory: {group_vars: {all: {scenario_strategy: mitogen_linear}}}}}"
        ),
        "quick/molecule.yml": "---\n# All as in shared/base.yml\n",
        "other/molecule.yml": (
            "{provisioner: {inventory: {group_vars: {all: {scenario_strategy: linear}}}}}"
        ),
    }
    for name, text in files.items():
        file = tmp_path / "molecule" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    scenarios = SCRIPT["load_scenarios"](tmp_path)
    assert {name: scenario.strategy for name, scenario in scenarios.items()} == {
        "quick": "mitogen_linear",
        "other": "linear",
    }


@pytest.mark.parametrize(
    ("short", "steps"), [([], ("test",)), (["--short"], ("converge", "verify"))]
)
def test_results_are_written_and_a_failure_is_the_status(
    short: list[str], steps: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, ran = SCRIPT["main"], []

    def run_test(
        name: str, network: object, asked: tuple[str, ...], loud: bool
    ) -> tuple[bool, float]:
        ran.append((name, asked))
        return name != "login_shell", 7.0

    monkeypatch.setitem(main.__globals__, "LOGS", tmp_path)
    monkeypatch.setitem(main.__globals__, "ROOT", tmp_path)
    monkeypatch.setitem(main.__globals__, "have_engine", lambda: 0)
    monkeypatch.setitem(main.__globals__, "docker_networks", dict)
    monkeypatch.setitem(main.__globals__, "run_test", run_test)
    (tmp_path / "login_shell.log").write_text("what went wrong")
    report = tmp_path / "scenarios.xml"
    assert main(["--junit-xml", str(report), *short, "login_shell", "hosts_file"]) == 1
    assert sorted(ran) == [("hosts_file", steps), ("login_shell", steps)]
    cases = {case.get("name"): case for case in ET.parse(report).iter("testcase")}
    assert cases["hosts_file"].find("failure") is None
    assert cases["login_shell"].find("failure") is not None


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no_such"], "there is no scenario no_such; there are accounts"),
        (["--steps", "verify"], "--steps needs one scenario"),
    ],
)
def test_a_bad_request_is_refused(arguments: list[str], says: str) -> None:
    command = [sys.executable, str(CHECKOUT / "molecule/run.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    "file",
    sorted(CHECKOUT.glob("molecule/*/*.yml")),
    ids=lambda file: f"{file.parent.name}-{file.name}",
)
def test_no_scenario_gives_itself_a_network(file: Path) -> None:
    """molecule/run does; addresses are made from local_cluster_network."""
    text = file.read_text()
    assert "local_cluster_network:" not in text or file.name == "base.yml"
    assert "10.118." not in text
