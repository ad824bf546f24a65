#!/usr/bin/env python3
"""Tests roles on machines of their own: each scenario has its network, machines and log.

One scenario alone prints as it goes. Several print a line each, with the seconds each took; the log
of one that fails follows its line, and what its machines had, their journals and the files of runs,
is kept in .trainyard/molecule/<scenario>/failed.

For work on a scenario, --steps runs some of molecule's steps and leaves the machines there:

    molecule/run hosts_file --steps create,prepare,converge
    molecule/run hosts_file --steps verify
    molecule/run hosts_file --steps destroy

The environment variable MOLECULE_JOBS says how many scenarios run side by side (default 2).
"""

import argparse
import hashlib
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/circles"))

from results import FAILED, PASSED, Case, write_cases  # noqa: E402  # found through the line above
from units import SCENARIO, find_units  # noqa: E402  # likewise

BASE = ROOT / "molecule/shared/base.yml"
# Makes what all scenarios start from
ENGINE = ROOT / "molecule/shared/engine.yml"
LOGS = ROOT / ".trainyard/molecule"
# The commands of molecule that are the test of a scenario, and those of the short one
WHOLE = ("test",)
SHORT = ("converge", "verify")
# Scenarios have their networks in here; local clusters have theirs in 10.117.0.0/16.
NETWORKS = tuple(ipaddress.IPv4Network("10.118.0.0/16").subnets(new_prefix=24))


@dataclass(frozen=True)
class Scenario:
    """A scenario: a folder below molecule/ with a molecule.yml.

    Attributes:
        strategy: of Ansible, in which it is verified and broken, see shared/strategy.
        seconds: how long it takes, by tests/seconds.yml.
    """

    name: str
    strategy: str
    seconds: float


def load_scenarios(root: Path = ROOT) -> dict[str, Scenario]:
    """Read all scenarios, by name."""

    def variables(file: Path) -> dict[str, Any]:
        document = yaml.safe_load(file.read_text())
        for key in ("provisioner", "inventory", "group_vars", "all"):
            document = (document or {}).get(key)
        return document or {}

    common = variables(root / "molecule/shared/base.yml")
    scenarios = {}
    for unit in find_units(root):
        if unit.kind == SCENARIO:
            name = Path(unit.name).name
            own = variables(root / unit.name / "molecule.yml")
            strategy = {**common, **own}["scenario_strategy"]
            scenarios[name] = Scenario(name, strategy, unit.seconds)
    return scenarios


def cluster_name(scenario: str, root: Path = ROOT) -> str:
    """The name of a scenario's machines and network: that of no other checkout's."""
    checkout = hashlib.sha256(bytes(root)).hexdigest()[:4]
    return f"molecule-{checkout}-{scenario}"


def docker_networks() -> dict[str, list[ipaddress.IPv4Network]]:
    """The IPv4 networks of this machine's Docker engine, by name.

    Without an engine there are none; creating the machines starts or installs one.
    """
    try:
        names = subprocess.run(
            ["docker", "network", "ls", "--quiet"], capture_output=True, text=True, check=True
        ).stdout.split()
        # One that is removed in between makes the status 1; the others are printed all the same.
        shown = subprocess.run(
            ["docker", "network", "inspect", *names], capture_output=True, text=True, check=False
        ).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return {}
    return {
        network["Name"]: [
            ipaddress.IPv4Network(part["Subnet"])
            for part in network["IPAM"]["Config"] or []
            if ":" not in part["Subnet"]
        ]
        for network in json.loads(shown or "[]")
    }


def routed_networks(table: str) -> list[ipaddress.IPv4Network]:
    """The IPv4 networks that this machine has a route to.

    Args:
        table: content of /proc/net/route: addresses are hexadecimal, in the byte order of x86.

    Left out are the default route, and the bridges of local clusters: the engine knows them.
    """
    networks = []
    for line in table.splitlines()[1:]:
        interface, destination, *_, mask = line.split()[:8]
        if interface.startswith("ty-") or int(mask, 16) == 0:
            continue
        address, netmask = (
            ipaddress.IPv4Address(bytes.fromhex(text)[::-1]) for text in (destination, mask)
        )
        networks.append(ipaddress.IPv4Network(f"{address}/{netmask}"))
    return networks


def candidate_networks(
    cluster: str, taken: Collection[ipaddress.IPv4Network]
) -> Iterator[ipaddress.IPv4Network]:
    """The networks that a cluster may have, the one that its name stands for first."""
    first = int(hashlib.sha256(cluster.encode()).hexdigest(), 16) % len(NETWORKS)
    for network in (*NETWORKS[first:], *NETWORKS[:first]):
        if not any(network.overlaps(other) for other in taken):
            yield network


class Networks:
    """Gives each scenario a network that nobody else on this machine has, until the program ends.

    A scenario whose machines are there keeps the network that they have.
    """

    def __init__(self) -> None:
        self._reservations: list[socket.socket] = []

    def take(self, cluster: str) -> ipaddress.IPv4Network:
        """Return the network of a cluster.

        Raises:
            RuntimeError: all networks are taken.
        """
        existing = docker_networks()
        if existing.get(cluster):
            return existing[cluster][0]
        taken = [network for networks in existing.values() for network in networks]
        taken += routed_networks(Path("/proc/net/route").read_text())
        for network in candidate_networks(cluster, taken):
            if self._reserve(network):
                return network
        raise RuntimeError(f"{cluster}: no network is free in {NETWORKS[0]} to {NETWORKS[-1]}")

    def _reserve(self, network: ipaddress.IPv4Network) -> bool:
        """Take a network before the engine has it; false when another molecule/run has done so.

        The reservation is the name of a socket that has no file ("abstract"): only one process of
        the machine can have it, whoever runs it, and the kernel frees it when the process ends.
        """
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0trainyard-molecule-{network}")
        except OSError:
            reservation.close()
            return False
        self._reservations.append(reservation)
        return True


def containers(cluster: str) -> list[str]:
    """The names of a cluster's containers, those that stand still included."""
    command = ["docker", "ps", "--all", "--filter", f"label=trainyard.cluster={cluster}"]
    command += ["--format", "{{.Names}}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def environment(scenario: str, network: ipaddress.IPv4Network) -> dict[str, str]:
    """What molecule/shared/base.yml is filled in with."""
    return {
        **os.environ,
        "MOLECULE_COMMAND_BORDERS": "false",
        "SCENARIO_CLUSTER": cluster_name(scenario),
        "SCENARIO_NETWORK": str(network),
        "SCENARIO_STRATEGY": load_scenarios()[scenario].strategy,
        # Molecule's own place is shared by checkouts of the same name. Its command "reset" removes
        # the folder above, so that must be the scenario's alone.
        "MOLECULE_EPHEMERAL_DIRECTORY": str(LOGS / scenario / "state"),
    }


def molecule_command(scenario: str, step: str) -> list[str]:
    """The command that runs a step of a scenario, with those that it needs, or its test ("test").

    A test leaves the machines there, so that what they had can be kept when it fails.
    """
    command = ["molecule", "--base-config", str(BASE), step, "--scenario-name", scenario]
    return [*command, "--destroy", "never"] if step == "test" else command


def have_engine() -> int:
    """Have an engine and the images of the machines, once for all; returns the exit status."""
    # A host that is named in an inventory would get an interpreter that lacks the client of Docker.
    interpreter = f"ansible_python_interpreter={sys.executable}"
    command = ["ansible-playbook", "--inventory", "localhost,", "--extra-vars", interpreter]
    done = subprocess.run(
        [*command, str(ENGINE)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (LOGS / "engine.log").write_text(done.stdout)
    if done.returncode:
        print(done.stdout)
    return done.returncode


def keep_evidence(scenario: str) -> Path:
    """Copy what tells why a scenario failed, before its machines go; returns the directory.

    Disks of virtual machines, which are large, and private keys stay behind.
    """
    kept = LOGS / scenario / "failed"
    kept.mkdir(parents=True)
    state = LOGS / scenario / "state"
    unwanted = shutil.ignore_patterns("*.disk*", "id_ed25519*", "*_key", "*.sock")
    if state.is_dir():  # it may have failed before it had one
        shutil.copytree(state, kept / "state", symlinks=True, ignore=unwanted)
    for container in containers(cluster_name(scenario)):
        # A machine that does not answer must not hold up the rest.
        in_time = ["timeout", "60", "docker"]
        with (kept / f"{container}.journal").open("w") as journal:
            read = [*in_time, "exec", container, "journalctl", "--no-pager", "--lines", "5000"]
            subprocess.run(read, stdout=journal, stderr=subprocess.STDOUT)
        # Most scenarios have no runs; the engine's answer then is of no interest.
        runs = [f"{container}:/srv/trainyard/runs", str(kept / f"{container}.runs")]
        subprocess.run([*in_time, "cp", *runs], capture_output=True)
    return kept


def line(scenario: str, result: str, seconds: float) -> str:
    """The line about a scenario that has ended."""
    return f"{scenario:<24} {result:<7} {seconds:4.0f} s"


def run_steps(scenario: str, steps: Sequence[str]) -> int:
    """Run steps of a scenario in the foreground; returns the exit status of the last one."""
    env = environment(scenario, Networks().take(cluster_name(scenario)))
    for step in steps:
        status = subprocess.run(molecule_command(scenario, step), cwd=ROOT, env=env).returncode
        if status:
            return status
    return 0


def run_logged(command: Sequence[str], env: Mapping[str, str], log: TextIO, loud: bool) -> int:
    """Run a command into a log, and onto the terminal if `loud`; returns its exit status."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            log.write(text)
            if loud:
                print(text, end="", flush=True)
        log.flush()
    return process.returncode


def run_test(
    scenario: str, network: ipaddress.IPv4Network, steps: Sequence[str], loud: bool = False
) -> tuple[bool, float]:
    """Test one scenario, into its log; returns whether it passed, and the seconds it took.

    Args:
        scenario: its name.
        network: of its machines.
        steps: WHOLE or SHORT.
        loud: whether the log is printed as well.
    """
    began = time.monotonic()
    cluster = cluster_name(scenario)
    env = environment(scenario, network)
    destroy = molecule_command(scenario, "destroy")
    # Errors are ignored here and below because mostly there is no such directory.
    shutil.rmtree(LOGS / scenario / "failed", ignore_errors=True)
    with (LOGS / f"{scenario}.log").open("w") as log:
        status = 0
        if cluster in docker_networks():  # an aborted run left it
            status = run_logged(destroy, env, log, loud)
        else:
            # Molecule would pass over making machines that it remembers, and that are gone.
            shutil.rmtree(LOGS / scenario / "state", ignore_errors=True)
        for step in steps:
            status = status or run_logged(molecule_command(scenario, step), env, log, loud)
        if status:
            try:
                kept = f"{scenario}: what its machines had is in {keep_evidence(scenario)}"
            except OSError as error:  # a full disk must not hide the result
                kept = f"{scenario}: what its machines had cannot be kept: {error}"
            print(kept, file=log)
            if loud:
                print(kept)
        if cluster in docker_networks():
            status = run_logged(destroy, env, log, loud) or status
    return status == 0, time.monotonic() - began


def run_side_by_side(scenarios: Sequence[str], steps: Sequence[str], jobs: int) -> list[Case]:
    """Run scenarios, in this order as places become free; one alone prints as it goes.

    Args:
        scenarios: their names.
        steps: WHOLE or SHORT.
        jobs: how many at once.
    """
    print(f"Logs are in {LOGS.relative_to(ROOT)}", flush=True)
    networks = Networks()
    loud = len(scenarios) == 1
    cases = []
    with ThreadPoolExecutor(jobs) as pool:
        runs = {
            pool.submit(run_test, name, networks.take(cluster_name(name)), steps, loud): name
            for name in scenarios
        }
        for run in as_completed(runs):
            name = runs[run]
            succeeded, seconds = run.result()
            result = PASSED if succeeded else FAILED
            why = "" if succeeded else str(LOGS / f"{name}.log")
            cases.append(Case(f"molecule/{name}", name, result, seconds, why))
            if not succeeded and not loud:
                print((LOGS / f"{name}.log").read_text(errors="replace"))
            print(line(name, result if succeeded else result.upper(), seconds), flush=True)
    return cases


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; returns the exit status."""
    scenarios = load_scenarios()
    parser = argparse.ArgumentParser(
        prog="molecule/run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scenarios", metavar="SCENARIO", nargs="*", help=f"default: all ({', '.join(scenarios)})"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="make the machines, prepare them, apply the role and verify it, as make test does: "
        "no dry run, no second time, nothing broken and nothing taken away",
    )
    parser.add_argument("--junit-xml", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument(
        "--steps",
        metavar="STEP,STEP",
        help="these steps of molecule with one scenario, in place of its whole test",
    )
    options = parser.parse_args(arguments)
    for name in options.scenarios:
        if name not in scenarios:
            parser.error(f"there is no scenario {name}; there are {', '.join(scenarios)}")
    if options.steps and len(options.scenarios) != 1:
        parser.error("--steps needs one scenario")

    LOGS.mkdir(parents=True, exist_ok=True)
    if status := have_engine():
        return status
    if options.steps:
        return run_steps(options.scenarios[0], options.steps.split(","))
    # The longest first, so that the last one does not run alone.
    names = list(options.scenarios or scenarios)
    names.sort(key=lambda name: -scenarios[name].seconds)
    jobs = int(os.environ.get("MOLECULE_JOBS", "2"))
    cases = run_side_by_side(names, SHORT if options.short else WHOLE, jobs)
    if options.junit_xml:
        write_cases(options.junit_xml, "scenario", cases)
    return 1 if any(case.result == FAILED for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
