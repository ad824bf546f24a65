"""What role docker_engine sees of an engine, its units and its settings."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from node.engine import docker
from node.engine.docker import EngineError
from node.failure import VerbError
from node.setup import docker_engine as look
from node.setup import docker_engine_settings, docker_engine_units
from node.setup.docker_engine import Engine, EngineFile

SHOWN = """\
Id=docker.service
ActiveState=active
UnitFileState=enabled
MainPID={pid}
ExecStart={{ path=dockerd ; argv[]=/usr/sbin/dockerd -H fd://{tcp} ; ignore_errors=no }}

Id=docker.socket
ActiveState={socket_state}
UnitFileState=enabled
Listen={listen} (Stream)
{more}
Id=containerd.service
ActiveState=active
UnitFileState=enabled
MainPID=0
"""


def units(**values: str) -> Any:
    """Return units as systemctl shows them."""
    defaults = {"pid": "0", "tcp": "", "socket_state": "inactive", "listen": "/run/docker.sock"}
    shown = SHOWN.format(**{**defaults, "more": "", **values})
    parsed: dict[str, dict[str, list[str]]] = docker_engine_units.parse_units(shown)
    return parsed


def test_an_engine_that_runs_and_starts_with_the_machine() -> None:
    found = units()
    assert docker_engine_units.runs_and_starts(found)
    assert docker_engine_units.replaced_units(found) == []
    assert docker_engine_units.network_lines(found, Path("/nowhere")) == []
    for name, value in (("ActiveState", "inactive"), ("UnitFileState", "disabled")):
        broken = units()
        broken["docker.service"][name] = [value]
        assert not docker_engine_units.runs_and_starts(broken)
    assert not docker_engine_units.runs_and_starts({})


@pytest.mark.parametrize(
    ("service", "socket_state", "stopped"),
    [
        ("inactive", "inactive", True),
        ("failed", "inactive", True),
        ("active", "inactive", False),
        ("activating", "inactive", False),
        ("inactive", "active", False),
    ],
)
def test_an_engine_that_nothing_starts_is_stopped(
    service: str, socket_state: str, stopped: bool
) -> None:
    found = units(socket_state=socket_state)
    found["docker.service"]["ActiveState"] = [service]
    assert docker_engine_units.is_stopped(found) is stopped
    # Where there is no systemd, it does not say so.
    assert not docker_engine_units.is_stopped({})


def test_what_listens_on_the_network_is_named(tmp_path: Path) -> None:
    options = tmp_path / "docker"
    options.write_text('# DOCKER_OPTS="-H tcp://0.0.0.0"\nDOCKER_OPTS="-H tcp://0.0.0.0:2375"\n')
    found = units(tcp=" -H tcp://127.0.0.1:2375", more="Listen=[::]:2375 (Stream)\n")
    lines = docker_engine_units.network_lines(found, options)
    assert [line.partition("=")[0] for line in lines] == ["ExecStart", "Listen", "DOCKER_OPTS"]
    options.write_text('DOCKER_OPTS="--debug"\n')
    assert docker_engine_units.network_lines(units(), options) == []


@pytest.mark.process
def test_a_program_that_was_replaced_is_seen(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "60"]) as process:
        found = units(pid=str(process.pid))
        before = docker_engine_units.replaced_units(found)
        program.unlink()
        after = docker_engine_units.replaced_units(found)
        process.kill()
    assert (before, after) == ([], ["docker.service", "docker.socket"])


def test_a_socket_that_systemd_does_not_hold_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, nothing = tmp_path / "docker.sock", tmp_path / "fd"
    nothing.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        found = units(socket_state="active", listen=str(path))
        monkeypatch.setattr(docker_engine_units, "SYSTEMD_FILES", Path("/proc/self/fd"))
        assert docker_engine_units.replaced_units(found) == []
        monkeypatch.setattr(docker_engine_units, "SYSTEMD_FILES", nothing)
        assert docker_engine_units.replaced_units(found) == ["docker.service", "docker.socket"]
        stopped = units(socket_state="inactive", listen=str(path))
        assert docker_engine_units.replaced_units(stopped) == []


@pytest.mark.parametrize(
    ("answers", "told", "wrong"),
    [
        ([(200, b"OK"), (200, b'{"Swarm": {}}')], {"Swarm": {}}, ""),
        ([(503, b"")], None, ""),
        ([], None, ""),
        ([(200, b"OK"), (500, b"no")], {}, "status 500"),
        ([(200, b"OK"), (200, b"no")], {}, "Expecting value"),
        ([(200, b"OK")], {}, "silent"),
    ],
)
def test_an_engine_is_asked(
    answers: list[tuple[int, bytes]], told: Any, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_given: Any) -> tuple[int, bytes]:
        if not answers:
            raise EngineError("silent")
        return answers.pop(0)

    monkeypatch.setattr(look, "ask", ask)
    found, said = look.ask_engine()
    assert found == told
    assert wrong in "".join(said)
    assert bool(said) == bool(wrong)


@pytest.mark.parametrize("state", ["active", "activating"])
def test_an_engine_that_hangs_is_told_from_one_that_starts(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set-up once took 164 s to name a node whose engine takes connections and says nothing."""
    there = units()
    there["docker.service"]["ActiveState"] = [state]
    path = tmp_path / "docker.sock"
    monkeypatch.setattr(docker, "SOCKET", str(path))
    monkeypatch.setattr(look, "PATIENCE", 0.1)
    monkeypatch.setattr(look, "PATIENCE_WITH_RUNNING", 0.1)
    monkeypatch.setattr(look, "read_units", lambda: there)
    monkeypatch.setattr(look, "output_of", lambda command: "")
    monkeypatch.setattr(look, "unsettled", lambda owner, names: [])
    wanted = Engine(
        other_package="docker-ce",
        settings=str(tmp_path / "daemon.json"),
        record=str(tmp_path / "record"),
        kept=str(tmp_path / "kept.json"),
        systemd=True,
    )
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        if state == "active":
            with pytest.raises(VerbError) as refused:
                look.look_at_engine(wanted)
            assert "says nothing for 0.1 s" in refused.value.values["message"]
        else:
            assert not look.look_at_engine(wanted)["answers"]


def test_settings_that_are_as_planned_have_no_difference(tmp_path: Path) -> None:
    settings, record = tmp_path / "daemon.json", tmp_path / "record"
    record.mkdir()
    settings.write_text('{"debug": true}')
    options = {"live-restore": True}
    plan = docker_engine_settings.make_plan(settings, record, options, absent=False)
    assert plan.changed
    assert plan.settings == {"debug": True, "live-restore": True}
    assert plan.new is not None
    settings.write_text(plan.new)
    docker_engine_settings.note_file(record).write_text(json.dumps(plan.note))
    again = docker_engine_settings.make_plan(settings, record, options, absent=False)
    assert not again.changed
    # Taken out again, the file is as it was.
    gone = docker_engine_settings.make_plan(settings, record, {}, absent=True)
    assert (gone.changed, gone.new) == (True, '{"debug": true}')


ARGUMENTS = "-H fd:// --log-opt tag=a b $DOCKER_OPTS --data-root=${ROOT}/x $NONE"


def test_the_flags_of_the_unit_are_read(tmp_path: Path) -> None:
    options, drop_in, unit = (tmp_path / name for name in ("default", "flags.conf", "unit"))
    options.write_text(
        '#DOCKER_OPTS="--debug"\nDOCKER_OPTS="--log-driver=journald --live-restore=false"\n'
    )
    drop_in.write_text(f"[Service]\nExecStart=\nExecStart=/usr/sbin/dockerd {ARGUMENTS}\n")
    unit.write_text("[Service]\nExecStart=/usr/sbin/dockerd -H fd://\n")
    shown = f"""\
Id=docker.service
ExecStart={{ path=dockerd ; argv[]=/usr/sbin/dockerd {ARGUMENTS} ; ignore_errors=no }}
Environment=ROOT=/data "OTHER=a b"
EnvironmentFiles={options} (ignore_errors=yes)
EnvironmentFiles={tmp_path}/none (ignore_errors=yes)
FragmentPath={unit}
DropInPaths={tmp_path}/none.conf {drop_in}
"""
    flags = docker_engine_units.unit_flags(docker_engine_units.parse_units(shown))
    assert {key: (flag.words, flag.file) for key, flag in flags.items()} == {
        "hosts": (["-H", "fd://"], str(drop_in)),
        "log-opts": (["--log-opt", "tag=a b"], str(drop_in)),
        "log-driver": (["--log-driver=journald"], str(options)),
        "live-restore": (["--live-restore=false"], str(options)),
        "data-root": (["--data-root=/data/x"], str(drop_in)),
    }
    assert not flags["live-restore"].on
    # A program of the site's own is not asked.
    other = shown.replace("/usr/sbin/dockerd", "/usr/local/bin/wrapper")
    assert docker_engine_units.unit_flags(docker_engine_units.parse_units(other)) == {}
    assert docker_engine_units.unit_flags({}) == {}


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "it wrote nothing"),
        ("Starting\nStopped docker.service.\n", "Stopped docker.service."),
        (
            'level=error msg="other"\nfailed to start daemon: no\ndocker.service: Failed\n',
            "failed to start daemon: no",
        ),
        ('time="x" level=error msg="a \\"b\\" c" x=y\ndocker.service: Failed\n', 'a "b" c'),
    ],
)
def test_why_an_engine_did_not_start(log: str, reason: str) -> None:
    assert docker_engine_units.start_error(log) == reason


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    settings = tmp_path / "daemon.json"
    for text, says in (("{", "cannot be read"), ('{"hosts": ["tcp://0.0.0.0"]}', "listen on the")):
        settings.write_text(text)
        with pytest.raises(docker_engine_settings.SettingsError, match=says):
            docker_engine_settings.make_plan(settings, tmp_path, {}, absent=False)


def test_each_difference_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"dpkg-query": "dpkg\tamd64\t1.0\tinstalled\n"}
    monkeypatch.setattr(look, "ask_engine", lambda runs: (None, []))
    monkeypatch.setattr(look, "output_of", lambda command: installed.get(command[0], ""))
    monkeypatch.setattr(look, "unsettled", lambda owner, names: ["surely-not-there"])
    proxy = tmp_path / "proxy.env"
    proxy.write_text("A=b")
    proxy.chmod(0o600)
    result = look.look_at_engine(
        Engine(
            packages=["dpkg", "surely-not-there"],
            other_package="dpkg",
            conflicts=["dpkg", "surely-not-there-either"],
            files=[
                EngineFile("/etc/hostname"),
                EngineFile("/etc/hostname", text="somebody"),
                EngineFile(str(proxy), text="A=b", mode="0600"),
                EngineFile(str(proxy), text="A=b", mode="0644"),
            ],
            settings=str(tmp_path / "daemon.json"),
            record=str(tmp_path / "record"),
            kept=str(tmp_path / "kept.json"),
            users=["nobody-knows"],
            systemd=False,
        )
    )
    assert result["differs"]
    assert result["other_installed"]
    assert result["unmanaged"] == ["dpkg"]
    assert not result["pending"]
    # Nobody whom the machine does not know.
    assert result["joins"] == []
    assert result["files"].count("/etc/hostname") == 2
    assert not result["stopped"]
    found = "\n".join(result["differences"])
    # Its mode differs once. Of another owner than root it differs with both.
    assert found.count(str(proxy)) == (1 if os.geteuid() == 0 else 2)
    for words in (
        "packages: surely-not-there",
        "/etc/hostname is not as it is to be",
        "there is no user nobody-knows",
        "the group docker has other members",
        "there is no record",
        "daemon.json has other settings",
        "dpkg is installed",
    ):
        assert words in found


@pytest.mark.parametrize(
    ("told", "installed", "masked", "unpackaged", "named"),
    [
        (None, "dpkg", "docker.service", False, ["docker.service"]),
        (None, "dpkg", "docker.socket", False, ["docker.socket"]),
        ({}, "docker-ce", "docker.socket", False, []),
        ({}, "moby-engine", "docker.service", False, ["docker.service"]),
        # A snap, or unpacked by hand
        ({}, "containerd", "", True, []),
    ],
)
def test_an_engine_that_no_package_of_the_role_may_take_the_place_of(
    told: Any,
    installed: str,
    masked: str,
    unpackaged: bool,
    named: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = units()
    for name in there.keys() & {masked}:
        there[name]["UnitFileState"] = ["masked"]
    listed = f"{installed}\tamd64\t1.0\tinstalled\niptables\tamd64\t1.0\tinstalled\n"
    monkeypatch.setattr(look, "ask_engine", lambda runs: (told, []))
    monkeypatch.setattr(look, "read_units", lambda: there)
    monkeypatch.setattr(look, "output_of", lambda command: listed if "-query" in command[0] else "")
    monkeypatch.setattr(look, "unsettled", lambda owner, names: [])
    wanted = Engine(
        packages=["moby-engine=25*", "iptables"],
        other_package="docker-ce",
        settings=str(tmp_path / "daemon.json"),
        record=str(tmp_path / "record"),
        kept=str(tmp_path / "kept.json"),
        users=["root", "nobody-knows"],
        systemd=True,
    )
    result = look.look_at_engine(wanted)
    assert (result["unpackaged"], result["masked"]) == (unpackaged, named)
    assert result["unknown_users"] == ["nobody-knows"]


def test_containers_end_where_the_engine_goes_or_has_other_settings(tmp_path: Path) -> None:
    """What an admin installed and chose stays when the role goes, with all that runs."""
    settings, record = tmp_path / "daemon.json", tmp_path / "record"
    wanted = Engine(
        "docker-ce",
        str(settings),
        str(record),
        str(tmp_path / "kept"),
        systemd=True,
        state="absent",
    )
    record.mkdir()
    settings.write_text('{"live-restore": false}\n')
    assert not look.ends_containers(wanted, ["iptables"])
    assert look.ends_containers(wanted, ["docker.io", "iptables"])
    note = {"before": settings.read_text(), "options": {}}
    (record / "settings.json").write_text(json.dumps(note))
    assert not look.ends_containers(wanted, [])
    note["options"] = {"log-driver": "json-file"}
    (record / "settings.json").write_text(json.dumps(note))
    settings.write_text('{"live-restore": false, "log-driver": "json-file"}\n')
    assert look.ends_containers(wanted, [])
    (record / "settings.json").unlink()
    (record / "proxy.env").touch()
    assert look.ends_containers(wanted, [])
