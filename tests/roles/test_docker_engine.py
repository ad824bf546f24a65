"""Settings merged into an engine's daemon.json and taken out of it again, and its packages."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_here import Host
from role_files import ROLES

from node.setup import docker_engine, docker_engine_settings
from node.setup.docker_engine_units import Flag

OURS = {"live-restore": True, "log-opts": {"max-size": "50m", "max-file": "3"}}

FILES: list[dict[str, Any]] = [
    {},
    {"debug": True},
    {"live-restore": False, "log-opts": {"labels": "a"}},
    {"log-opts": {}},
    {"log-opts": {"max-size": "1m", "labels": "a"}, "runtimes": {"nvidia": {"path": "x"}}},
    {"live-restore": True, "log-opts": {"max-size": "50m"}},
    {"log-opts": None},
]


@pytest.mark.parametrize("before", FILES, ids=json.dumps)
def test_what_was_merged_comes_out_again(before: dict[str, Any]) -> None:
    merged = docker_engine_settings.merged(before, OURS)
    assert merged["live-restore"] is True
    assert merged["log-opts"]["max-size"] == "50m"
    assert docker_engine_settings.merged(merged, OURS) == merged
    assert docker_engine_settings.without(merged, OURS, before) == before


def test_keys_of_others_stay() -> None:
    merged = docker_engine_settings.merged({"log-opts": {"labels": "a"}}, OURS)
    assert merged["log-opts"] == {"labels": "a", "max-size": "50m", "max-file": "3"}


def test_what_somebody_changed_since_is_theirs() -> None:
    now = docker_engine_settings.merged({}, OURS)
    now["runtimes"] = {"nvidia": {}}
    now["log-opts"]["max-size"] = "9m"
    del now["live-restore"]
    left = docker_engine_settings.without(now, OURS, {"live-restore": True})
    assert left == {"log-opts": {"max-size": "9m"}, "runtimes": {"nvidia": {}}}


SYSLOG = {"log-driver": "syslog", "log-opts": {"syslog-address": "udp://127.0.0.1:514"}}
LOGS = {"log-driver": "json-file", "log-opts": {"max-size": "50m", "max-file": "3"}}
DEFAULTS = {**LOGS, "live-restore": True}


@pytest.mark.parametrize(
    ("options", "said", "merged"),
    [
        ({}, [], DEFAULTS),
        ({}, ["debug"], DEFAULTS),
        ({}, ["log-driver", "log-opts", "live-restore"], {}),
        ({}, ["log-driver"], {"live-restore": True}),
        ({}, ["log-opts"], {"live-restore": True}),
        ({"live-restore": False}, [], {**LOGS, "live-restore": False}),
        ({"log-driver": "local"}, [], {"log-driver": "local", "live-restore": True}),
        # Options without a driver are those of the engine's own.
        (
            {"log-opts": {"max-size": "1m"}},
            ["log-driver", "live-restore"],
            {"log-driver": "json-file", "log-opts": {"max-size": "1m"}},
        ),
    ],
)
def test_defaults_are_for_machines_that_say_nothing(
    options: dict[str, Any], said: list[str], merged: dict[str, Any]
) -> None:
    assert docker_engine_settings.chosen(options, DEFAULTS, said) == merged


def applied(
    folder: Path, options: dict[str, Any], flags: dict[str, Flag] | None = None
) -> docker_engine_settings.Plan:
    """Do what the plan for the settings in a folder says, and return it."""
    file = folder / "daemon.json"
    plan = docker_engine_settings.make_plan(file, folder, options, False, DEFAULTS, flags)
    file.write_text(plan.new or "")
    docker_engine_settings.note_file(folder).write_text(json.dumps(plan.note))
    return plan


def test_the_logs_that_an_admin_chose_stay(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    text = json.dumps({**SYSLOG, "live-restore": False})
    file.write_text(text)
    plan = applied(tmp_path, {})
    assert file.read_text() == text
    assert (plan.lost, plan.keeps_containers) == ([], False)
    assert plan.own == ['log-driver "syslog"', "log-opts (syslog-address)", "live-restore false"]
    # Also where the admin gives them up or chooses them when the role is there.
    for text, settings in (
        ("{}", DEFAULTS),
        (json.dumps({**DEFAULTS, **SYSLOG}), {**SYSLOG, "live-restore": True}),
    ):
        file.write_text(text)
        assert applied(tmp_path, {}).settings == settings
        assert not applied(tmp_path, {}).changed
    gone = docker_engine_settings.make_plan(file, tmp_path, {}, absent=True)
    assert json.loads(gone.new or "") == SYSLOG


def test_logs_that_a_role_before_this_one_took_come_back(tmp_path: Path) -> None:
    (tmp_path / "daemon.json").write_text(json.dumps({**SYSLOG, **DEFAULTS}))
    note = {"before": json.dumps(SYSLOG), "options": DEFAULTS}
    docker_engine_settings.note_file(tmp_path).write_text(json.dumps(note))
    plan = applied(tmp_path, {})
    assert plan.settings == {**SYSLOG, "live-restore": True}
    assert plan.own == ['log-driver "syslog"', "log-opts (syslog-address)"]


@pytest.mark.parametrize(
    ("options", "logs"),
    [
        ({"log-driver": "journald"}, {"log-driver": "journald", "log-opts": {}}),
        (LOGS, LOGS),
        ({"log-opts": {"max-size": "1m"}}, {**LOGS, "log-opts": {"max-size": "1m"}}),
        # Of the same driver both stay.
        (
            {"log-driver": "syslog", "log-opts": {"tag": "a"}},
            {**SYSLOG, "log-opts": {"syslog-address": "udp://127.0.0.1:514", "tag": "a"}},
        ),
    ],
)
def test_driver_and_options_go_together(
    tmp_path: Path, options: dict[str, Any], logs: dict[str, Any]
) -> None:
    file = tmp_path / "daemon.json"
    text = json.dumps(SYSLOG)
    file.write_text(text)
    plan = applied(tmp_path, options)
    assert plan.settings == {**logs, "live-restore": True}
    driver, lost = logs["log-driver"], "\n".join(plan.lost)
    assert (f'log-driver "syslog" becomes log-driver "{driver}"' in lost) is (driver != "syslog")
    assert "log-opts (syslog-address)" in lost
    # It is said once, and comes back when the role goes.
    again = applied(tmp_path, options)
    assert (again.lost, again.changed) == ([], False)
    gone = docker_engine_settings.make_plan(file, tmp_path, {}, absent=True)
    assert json.loads(gone.new or "") == SYSLOG


def flag(*words: str) -> Flag:
    """Return a flag of an admin's."""
    return Flag(list(words), "/etc/systemd/system/docker.service.d/flags.conf")


def test_what_a_flag_sets_is_left_to_it(tmp_path: Path) -> None:
    flags = {
        "live-restore": flag("--live-restore=false"),
        "log-driver": flag("--log-driver", "journald"),
        "hosts": flag("-H", "fd://"),
    }
    plan = applied(tmp_path, {"debug": True}, flags)
    assert plan.settings == {"debug": True}
    assert not plan.keeps_containers
    assert plan.own == [
        f"{key} in {flag().file}" for key in ("--log-driver journald", "--live-restore=false")
    ]
    for options in ({"live-restore": True}, {"log-driver": "journald"}, {"log-opts": {"tag": "a"}}):
        with pytest.raises(
            docker_engine_settings.SettingsError, match=r"--l.* in /etc/.*flags\.conf"
        ):
            applied(tmp_path, options, flags)
    kept = applied(tmp_path, {}, {"live-restore": flag("--live-restore")})
    assert kept.keeps_containers


def test_settings_of_another_file_are_refused(tmp_path: Path) -> None:
    other = {"--config-file": flag("--config-file=/etc/other.json")}
    with pytest.raises(docker_engine_settings.SettingsError, match=r"other\.json in /etc/systemd"):
        applied(tmp_path, {}, other)
    same = {"--config-file": flag("--config-file", str(tmp_path / "daemon.json"))}
    assert applied(tmp_path, {}, same).settings == DEFAULTS


@pytest.mark.parametrize(
    ("now", "users", "exclusive", "joins", "leaves", "unnamed"),
    [
        ([], ["ada"], False, ["ada"], [], []),
        # Who was let in and is not named any more goes, and nobody else.
        (["alice"], ["ada"], False, ["ada"], [], ["alice"]),
        (["alice", "eve"], [], False, [], ["eve"], ["alice"]),
        (["alice", "bob"], ["alice"], False, [], [], ["bob"]),
        (["alice", "bob"], ["ada"], True, ["ada"], ["alice", "bob"], []),
    ],
)
def test_who_is_in_the_group(
    now: list[str],
    users: list[str],
    exclusive: bool,
    joins: list[str],
    leaves: list[str],
    unnamed: list[str],
) -> None:
    note = docker_engine.Note(before=["alice"], let_in=["eve"], put_out=[])
    plan = docker_engine.make_group_plan(now, note, users, exclusive=exclusive, absent=False)
    assert (plan.joins, plan.leaves, plan.unnamed) == (joins, leaves, unnamed)
    # The second run has nothing to do.
    then = sorted({*now, *joins} - {*leaves})
    again = docker_engine.make_group_plan(then, plan.note, users, exclusive=exclusive, absent=False)
    assert (again.joins, again.leaves, again.note) == ([], [], plan.note)
    # Taken away, the group is as it would be without the role: one who was put out and was there
    # before comes back, and whom somebody else let in stays.
    gone = docker_engine.make_group_plan(then, plan.note, users, exclusive=exclusive, absent=True)
    left = ({*then, *gone.joins}) - {*gone.leaves}
    assert left == ({"alice"} if "alice" in now else set()) | ({"bob"} & {*then})


def test_the_note_of_a_role_before_this_one() -> None:
    note = docker_engine.note_of_members(before=["alice"], now=["ada", "eve"])
    gone = docker_engine.make_group_plan(
        ["ada", "eve"], note, ["ada"], exclusive=False, absent=True
    )
    assert (gone.joins, gone.leaves) == (["alice"], ["ada", "eve"])
    stays = docker_engine.make_group_plan(
        ["ada", "eve"], note, ["ada"], exclusive=False, absent=False
    )
    assert (stays.joins, stays.leaves, stays.note.put_out) == ([], ["eve"], ["alice"])


def test_what_an_engine_ran_with_is_put_back(tmp_path: Path) -> None:
    kept, tried = tmp_path / "record/kept.json", tmp_path / "record/tried"
    settings, proxy, new = (tmp_path / name for name in ("daemon.json", "proxy.env", "new.conf"))
    (tmp_path / "site.json").write_text("old")
    settings.symlink_to("site.json")
    settings.chmod(0o640)
    proxy.write_text("same")
    paths = [settings, proxy, new]
    assert not docker_engine_settings.is_pending(kept)
    docker_engine_settings.keep(kept, paths)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert not docker_engine_settings.is_pending(kept)
    settings.write_text("tried first")
    assert docker_engine_settings.is_pending(kept)
    # A run that was cut off here: what the engine ran with is still the first.
    docker_engine_settings.keep(kept, paths)
    settings.write_text("tried")
    new.write_text("new")
    assert docker_engine_settings.put_back(kept, settings, tried) == [str(settings), str(new)]
    assert (settings.read_text(), settings.stat().st_mode & 0o777) == ("old", 0o640)
    assert settings.is_symlink()
    assert (proxy.read_text(), tried.read_text()) == ("same", "tried")
    assert not new.exists()
    assert not kept.exists()
    assert docker_engine_settings.put_back(kept, settings, tried) == []


@pytest.mark.parametrize("text", [None, "", " \n", "{}"])
def test_no_settings(text: str | None) -> None:
    assert docker_engine_settings.parsed(text) == {}


@pytest.mark.parametrize("text", ["{", "[]", '"a"'])
def test_refuses_what_holds_no_settings(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        docker_engine_settings.parsed(text)


@pytest.mark.parametrize(
    ("facts", "packages"),
    [
        ({"apparmor": {"status": "enabled"}}, "docker.io iptables python3-requests apparmor"),
        ({"apparmor": {"status": "disabled"}}, "docker.io iptables python3-requests"),
        ({}, "docker.io iptables python3-requests"),
    ],
    ids=["enabled", "disabled", "unknown"],
)
def test_where_the_kernel_confines_containers_its_parser_comes_along(
    facts: dict[str, Any], packages: str
) -> None:
    """Without it the engine of Debian 12 refused every container, on a minimal system."""
    debian = {"distribution": "Debian", "distribution_major_version": "12"}
    given = {"ansible_facts": {**debian, **facts}, "docker_engine_source": "distribution"}
    host = Host("docker_engine", given)
    assert host.value("docker_engine_default_packages | join(' ')") == packages


# By the host: whether the engine starts later, and the settings that an admin has linked there.
ENGINES = {
    "runs": (False, ""),
    "later": (True, "{}"),
    "same": (False, '{"live-restore": true}'),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """What the role has done to engines in folders, and what Ansible says of each."""
    root = tmp_path_factory.mktemp("engines")
    hosts: dict[str, Any] = {}
    for host, (later, linked) in ENGINES.items():
        folder = root / host
        folder.mkdir()
        if linked:
            (folder / "site.json").write_text(linked)
            (folder / "daemon.json").symlink_to("site.json")
        stub, asked = folder / "systemctl", folder / "asked"
        stub.write_text(f'#!/bin/sh\n[ $1 = show ] || echo "$@" >>{asked}\nexit 1\n')
        stub.chmod(0o755)
        hosts[host] = {"folder": str(folder), "later": later}
    parts = [
        {"ansible.builtin.import_tasks": str(ROLES / f"docker_engine/tasks/{name}.yml")}
        for name in ("settings", "apply")
    ]
    play = {
        "hosts": "all",
        "gather_facts": False,
        "environment": {"PATH": "{{ folder }}:{{ lookup('env', 'PATH') }}"},
        "vars": {
            **yaml.safe_load((ROLES / "docker_engine/vars/main.yml").read_text()),
            "ansible_facts": {"service_mgr": "systemd"},
            "docker_engine_state": "present",
            "docker_engine_starts_later": "{{ later }}",
            "docker_engine_options": {"live-restore": True},
            "docker_engine_defaults": {},
            "docker_engine_proxies": {},
            "docker_engine_kept": "{{ folder }}/kept.json",
            "docker_engine_settings_tried": "{{ folder }}/tried",
            "docker_engine_settings_file": "{{ folder }}/daemon.json",
            "docker_engine_record": "{{ folder }}",
        },
        "tasks": parts,
    }
    (root / "play.yml").write_text(yaml.safe_dump([play]))
    (root / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("ansible-playbook")), "play.yml"),
            *("--inventory", "hosts.json", "--connection", "local"),
        ],
        cwd=root,
        env={
            **os.environ,
            "ANSIBLE_LIBRARY": str(ROLES / "docker_engine/library"),
            "ANSIBLE_MODULE_UTILS": str(ROLES / "training_node/module_utils"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return root, document


@pytest.mark.process
@pytest.mark.parametrize("host", ENGINES)
def test_an_engine_is_restarted_for_what_it_has_not_read(
    told: tuple[Path, dict[str, Any]], host: str
) -> None:
    """One that starts later reads it then; for a note of the role's none is restarted."""
    root, document = told
    folder, due = root / host, host == "runs"
    assert (folder / "asked").exists() is due, document
    assert not (folder / "kept.json").exists()
    # One that does not start has what it ran with before, and the message tells what is where.
    settings = folder / ("tried" if due else "daemon.json")
    assert json.loads(settings.read_text()) == {"live-restore": True}
    assert (folder / "daemon.json").is_symlink() is not due
    said = " ".join(
        str(task["hosts"].get(host, {}).get("msg", ""))
        for play in document["plays"]
        for task in play["tasks"]
    )
    says = f"Back as they were are {folder}/daemon.json, {folder}/settings.json. The settings"
    assert (says in " ".join(said.split())) is due, said
    assert (document["stats"][host]["failures"] == 0) is not due
