"""Settings merged into an engine's daemon.json and taken out of it again, and its packages."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import docker_engine_merge
from role_files import ROLES

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
    merged = docker_engine_merge.merged(before, OURS)
    assert merged["live-restore"] is True
    assert merged["log-opts"]["max-size"] == "50m"
    assert docker_engine_merge.merged(merged, OURS) == merged
    assert docker_engine_merge.without(merged, OURS, before) == before


def test_keys_of_others_stay() -> None:
    merged = docker_engine_merge.merged({"log-opts": {"labels": "a"}}, OURS)
    assert merged["log-opts"] == {"labels": "a", "max-size": "50m", "max-file": "3"}


def test_what_somebody_changed_since_is_theirs() -> None:
    now = docker_engine_merge.merged({}, OURS)
    now["runtimes"] = {"nvidia": {}}
    now["log-opts"]["max-size"] = "9m"
    del now["live-restore"]
    left = docker_engine_merge.without(now, OURS, {"live-restore": True})
    assert left == {"log-opts": {"max-size": "9m"}, "runtimes": {"nvidia": {}}}


@pytest.mark.parametrize("text", [None, "", " \n", "{}"])
def test_no_settings(text: str | None) -> None:
    assert docker_engine_merge.parsed(text) == {}


@pytest.mark.parametrize("text", ["{", "[]", '"a"'])
def test_refuses_what_holds_no_settings(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        docker_engine_merge.parsed(text)


def run_play(folder: Path, play: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a play on this machine; it finds the role's modules."""
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return subprocess.run(
        [
            *(str(Path(sys.executable).with_name("ansible-playbook")), "play.yml"),
            *("--inventory", "localhost,", "--connection", "local"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_LIBRARY": str(ROLES / "docker_engine/library"),
            "ANSIBLE_MODULE_UTILS": str(ROLES / "docker_engine/module_utils"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
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
    tmp_path: Path, facts: dict[str, Any], packages: str
) -> None:
    """Without it the engine of Debian 12 refused every container, on a minimal system."""
    debian = {"distribution": "Debian", "distribution_major_version": "12"}
    variables = yaml.safe_load((ROLES / "docker_engine/vars/main.yml").read_text())
    variables["docker_engine_source"] = "distribution"
    machine = {"ansible.builtin.set_fact": {**debian, **facts, "cacheable": True}}
    show = {"ansible.builtin.debug": {"msg": "<{{ docker_engine_default_packages | join(' ') }}>"}}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [machine, show]}
    done = run_play(tmp_path, {**play, "vars": variables})
    assert f"<{packages}>" in done.stdout, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.parametrize("starts_later", [True, False])
def test_an_engine_that_starts_later_is_not_restarted(tmp_path: Path, starts_later: bool) -> None:
    """It reads at its start what was written before."""
    handlers = [
        {"name": f"{name} the engine", "ansible.builtin.debug": {"msg": f"<{name}>"}}
        for name in ("Restart", "Reload")
    ]
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(ROLES / "docker_engine/vars/main.yml")],
        "vars": {"docker_engine_state": "present"},
        "tasks": [
            {
                "ansible.builtin.import_tasks": str(ROLES / "docker_engine/tasks/settings.yml"),
                "vars": {
                    "docker_engine_starts_later": starts_later,
                    "docker_engine_options": {"live-restore": True},
                    "docker_engine_settings_file": str(tmp_path / "daemon.json"),
                    "docker_engine_record": str(tmp_path),
                },
            }
        ],
        "handlers": handlers,
    }
    done = run_play(tmp_path, play)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "daemon.json").read_text()) == {"live-restore": True}
    assert ("<Restart>" in done.stdout) is not starts_later
    assert "<Reload>" not in done.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("record", "asked"),
    [
        ("ada,gone,eve", "ada,eve"),
        ("gone", ""),
        ("", ""),
    ],
)
def test_members_of_before_are_let_in_again(record: str, asked: str, tmp_path: Path) -> None:
    """Those who are still there. gpasswd fails the first time."""
    tasks = yaml.safe_load((ROLES / "docker_engine/tasks/absent.yml").read_text())
    (script,) = [
        task["ansible.builtin.shell"]
        for task in tasks
        if "gpasswd" in task.get("ansible.builtin.shell", "")
    ]
    programs = {
        "getent": '[ "$2" != gone ]',
        "gpasswd": 'echo "$2 $3" >>"$record/asked"; [ -e "$record/works" ]',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "members").write_text(f"{record}\n")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "record": str(tmp_path)}
    statuses = []
    for _ in range(3):
        done = subprocess.run(["sh", "-c", script], env=environment, check=False)
        statuses.append(done.returncode)
        (tmp_path / "works").touch()
    assert statuses == [1, 0, 0]
    # The third run finds no record.
    assert (tmp_path / "asked").read_text() == f"{asked} docker\n" * 2
    assert not (tmp_path / "members").exists()
