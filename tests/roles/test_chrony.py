"""The files of role chrony, with the settings of group_vars/: who asks whom, and who may ask."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_here import Host, Inventory, refusal, tasks_of
from role_files import ROLES

# As chronyc 4.6 wrote it in tries of a second each
WAITED = "try: 60, refid: {}, correction: {:.9f}, skew: 0.000"
HEAD = "# Written by Ansible, role chrony."
TEMPLATES = ROLES / "chrony/templates"


def written(folder: Path, **settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the role writes on four nodes, line by line, the ports that a firewall opens, and
    what is refused.

    Args:
        settings: by the node, what its inventory says.
    """
    hosts = {
        f"n{number}": {
            "ansible_host": f"192.0.2.{number}",
            "cluster_address": f"10.0.0.{number}",
            "chrony_sources": [],
            "chrony_server_host": "",
            "chrony_wait_seconds": 60,
            "chrony_clock_seconds": 1.0,
            "chrony_waited": {"stdout_lines": [WAITED.format("00000000", 0)]},
            **settings[f"n{number}"],
        }
        for number in (1, 2, 3, 4)
    }
    trainers = {"hosts": hosts, "vars": {"cluster_network": "10.0.0.0/24"}}
    (folder / "hosts.json").write_text(json.dumps({"trainers": trainers}))
    inventory = Inventory(folder / "hosts.json")
    found = {}
    for host in hosts:
        given = inventory.hostvars.raw_get(host)
        known = {"groups": inventory.groups, "hostvars": inventory.hostvars}
        seen = Host("chrony", {**given, **known}, host)
        found[host] = {
            **{
                name: seen.value("lookup('template', file)", file=str(TEMPLATES / f"{name}.j2"))
                for name in ("settings", "sources")
            },
            "udp": seen.value("firewall_node_udp_ports"),
            "mistakes": seen.value("chrony_mistakes"),
            "remedy": seen.value("chrony_remedy"),
        }
    for files in found.values():
        for name in ("settings", "sources"):
            head, *files[name] = files[name].splitlines()
            assert head == HEAD
    return found


def test_who_asks_whom_and_who_may_ask(tmp_path: Path) -> None:
    first = {
        "chrony_state": "present",
        "chrony_server_host": "{{ groups['trainers'] | first }}",
    }
    named = ["server 192.0.2.9 iburst minpoll 4", "pool ntp.example.com maxsources 4 minpoll 4"]
    found = written(
        tmp_path,
        n1={**first, "chrony_sources": ["server time1.example.com"]},
        n2={**first, "chrony_sources": ["server time1.example.com"]},
        n3={
            "chrony_sources": named,
            "chrony_waited": {"stdout_lines": [WAITED.format("C0000209", 3600)]},
        },
        n4={
            "chrony_sources": ["time1.example.com", "server a\nallow"],
            "chrony_server_host": "n9",
            "chrony_waited": {"stdout_lines": ["506 Cannot talk to daemon"]},
        },
    )
    remedies = {host: found[host].pop("remedy") for host in found}
    assert found["n1"]["settings"][-2:] == ["local stratum 10", "allow 10.0.0.0/24"]
    assert found["n1"]["sources"] == ["server time1.example.com iburst prefer trust"]
    assert found["n1"]["udp"] == ["123"]
    # At its address of the training network, and nobody else
    served = {
        "settings": [],
        "sources": ["server 10.0.0.1 iburst prefer trust"],
        "udp": [],
        "mistakes": [],
    }
    assert found["n2"] == served
    sources = [
        "server 192.0.2.9 iburst minpoll 4 prefer trust",
        "pool ntp.example.com maxsources 4 minpoll 4 iburst prefer trust",
    ]
    assert found["n3"] == {"settings": [], "sources": sources, "udp": [], "mistakes": []}
    in_sources, in_host = found["n4"]["mistakes"]
    assert in_sources.endswith('and not "time1.example.com", "server a\\nallow".')
    assert in_host == "chrony_server_host names n9, which is not a host of the inventory."
    for host, words in {
        "n1": ("no time source within 60 s", "Name servers that it reaches in chrony_sources"),
        "n2": ("no time source within 60 s", "Does n1 run chrony", "UDP 123 pass to 10.0.0.1?"),
        "n3": ("not within 1.0 s of its source", "3600.0", "`sudo chronyc makestep` there"),
        "n4": ("chronyd does not answer on n4", "506 Cannot talk", "`systemctl status chrony`"),
    }.items():
        for word in words:
            assert word in remedies[host]


def test_it_is_started_where_nothing_limits_it() -> None:
    """Outside of containers container.yml does not run, and sets no `chrony_limited`."""
    file = str(ROLES / "chrony/tasks/present.yml")
    tasks = DataLoader().load_from_file(file, trusted_as_template=True)
    (start,) = [task for task in tasks if "ansible.builtin.systemd_service" in task]
    machine: dict[str, Any] = {"chrony_files": {"changed": False}}
    for variables, reload, state in (
        (machine, False, "started"),
        ({"chrony_files": {"changed": True}}, False, "restarted"),
        ({**machine, "chrony_limited": {"changed": True}}, True, "restarted"),
        ({**machine, "chrony_limited": {"changed": False}}, False, "started"),
    ):
        templar = Templar(loader=DataLoader(), variables=variables)
        service = templar.template(start["ansible.builtin.systemd_service"])
        assert (service["daemon_reload"], service["state"]) == (reload, state)


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "reads"),
    [
        # As Debian has it
        (
            "confdir /etc/chrony/conf.d\nsourcedir /run/dhcp\nsourcedir /etc/chrony/sources.d\n",
            True,
        ),
        ("confdir /srv/x /etc/chrony/conf.d/\nsourcedir /etc/chrony/sources.d /srv/y\n", True),
        ("server time.example.org\nsourcedir /etc/chrony/sources.d\n", False),
        ("#confdir /etc/chrony/conf.d\nsourcedir /etc/chrony/sources.d\n", False),
        (None, True),
    ],
)
def test_a_chrony_that_reads_no_files_of_others_is_refused(
    text: str | None, reads: bool, tmp_path: Path
) -> None:
    tasks = {task["name"]: task for task in tasks_of("chrony", "present")}
    look = tasks["Look whether chrony of an admin's reads the files of others"]
    refuse = tasks["Refuse to write what nobody reads"]
    file = tmp_path / "chrony.conf"
    if text is not None:
        file.write_text(text)
    *grep, _ = look["ansible.builtin.command"]["argv"]
    done = subprocess.run([*grep, file], capture_output=True, text=True)
    known = {"chrony_reads": {"rc": done.returncode, "stdout": done.stdout}}
    said = refusal([refuse], {**Host("chrony", {}).variables, **known})
    assert ("Put `confdir /etc/chrony/conf.d`" in said) is not reads


NOTE = "/var/lib/trainyard/chrony"
PUSHED_OUT = "systemd-timesyncd config-files"


@pytest.mark.parametrize(
    ("removed", "left", "keepers", "back"),
    [
        (["chrony"], [], [PUSHED_OUT], True),
        # As a dry run finds it
        (["chrony"], [], ["chrony installed", PUSHED_OUT], True),
        (["chrony"], [], [], False),
        # Others need chrony, or it was there before.
        ([], [], ["chrony installed", PUSHED_OUT], False),
        # A run broke off.
        ([], [NOTE], [PUSHED_OUT], True),
        ([], [NOTE], ["systemd-timesyncd installed"], False),
        ([], [NOTE], ["chrony installed", PUSHED_OUT], False),
        ([], [NOTE], ["ntpsec installed", PUSHED_OUT], False),
    ],
)
def test_what_chrony_took_the_place_of_comes_back(
    removed: list[str], left: list[str], keepers: list[str], back: bool
) -> None:
    loader = DataLoader()
    tasks = loader.load_from_file(str(ROLES / "chrony/tasks/remove.yml"), trusted_as_template=True)
    names = [
        next(key for key in task if key == "packages" or key.startswith("ansible."))
        for task in tasks
    ]
    # The note is there from before the packages go until after the other one is back.
    order = ["ansible.builtin.copy", "packages", "ansible.builtin.apt"]
    assert [name for name in names if name in order] == order
    bring_back = names.index("ansible.builtin.apt")
    assert any(
        task.get("ansible.builtin.file", {}).get("path") == "{{ chrony_note }}"
        for task in tasks[bring_back:]
    )
    variables = {
        "chrony_note": NOTE,
        "chrony_removed": {"removed": removed},
        "chrony_left": {"stdout_lines": left},
        "chrony_keepers": {"stdout_lines": keepers},
    }
    templar = Templar(loader=loader, variables=variables)
    conditions = tasks[bring_back]["when"]
    assert all(templar.evaluate_conditional(condition) for condition in conditions) == back
