"""Containers of an account without root, made of real namespaces: what they see, and how they end.

The image is a folder of links and the machine's own /usr, which is mounted into it.
"""

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from role_files import ROLES

from node.engine import containers as engine
from node.engine import namespace_init as init
from node.engine import namespaces
from node.machine.cdi import Specification

pytestmark = pytest.mark.process

sys.path.append(str(ROLES / "training_node" / "library"))
native = importlib.import_module("training_node_native")

IMAGE = "trainyard/trainer:1"
NAME = "trainyard-run"
SOON = 10.0
BACKGROUND = (signal.SIGINT, signal.SIGQUIT)
# 32 and 33 are the C library's own, which it lets no program set: its posix_spawn has them
# ignored in what it starts, and so in all that comes of that.
SIGNALS_OF_GLIBC = 1 << (32 - 1) | 1 << (33 - 1)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The account's folder, with an image; its containers end with the test."""
    monkeypatch.setenv("TRAINYARD_NATIVE", str(tmp_path))
    image = Path(namespaces.image_folder(IMAGE))
    root = image / "rootfs"
    for name in ("usr", "etc", "home/trainer"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    config = {"Env": ["PATH=/usr/bin:/bin", "A=image"], "Cmd": ["true"], "WorkingDir": "/home"}
    (image / "image.json").write_text(json.dumps({"Id": "sha256:1", "Config": config}))
    yield tmp_path
    for container in engine.containers("trainyard.run"):
        engine.remove(container["Id"])


def specification(script: str, **host: Any) -> dict[str, Any]:
    """A container that runs a script of the shell."""
    binds = ["/usr:/usr:ro", *host.pop("Binds", ())]
    return {
        "Image": IMAGE,
        "Hostname": "node1",
        "User": "trainer",
        "Labels": {"trainyard.run": "run"},
        "Env": ["B=run"],
        "Cmd": ["/bin/sh", "-c", script],
        "HostConfig": {
            "Binds": binds,
            "Tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=10%,mode=1777"},
            "ReadonlyRootfs": True,
            "PidsLimit": 0,
            "ShmSize": 1 << 20,
            "ExtraHosts": ["node2:192.0.2.2"],
            **host,
        },
    }


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that comes soon."""
    deadline = time.monotonic() + SOON
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(name: str = NAME) -> dict[str, Any]:
    """The state of a container when it has ended."""
    wait_until(lambda: not engine.is_running(name))
    details = engine.inspect(name)
    assert details is not None
    return dict(details["State"])


def said(name: str = NAME) -> list[str]:
    """What a container said, without the times."""
    logs = engine.logs(name)
    assert logs is not None
    return [line.partition(" ")[2] for line in logs.decode().splitlines()]


@pytest.mark.usefixtures("place")
def test_a_container_has_the_account_the_name_and_the_environment_that_it_has_with_an_engine() -> (
    None
):
    script = "id -u; id -g; uname -n; echo $HOME $A $B; pwd; cat /etc/hosts; exit 7"
    engine.run(NAME, specification(script))
    state = ended()
    assert (state["ExitCode"], state["Running"], state["Status"]) == (7, False, "exited")
    lines = said()
    assert lines[:5] == ["2000", "2000", "node1", "/home/trainer image run", "/home"]
    assert lines[-1] == "192.0.2.2 node2"


def test_it_sees_what_is_mounted_and_writes_there_alone(place: Path) -> None:
    (place / "work").mkdir()
    (place / "config").mkdir()
    (place / "config" / "file").write_text("kept")
    (place / "secret").write_text("of the node")
    script = (
        "cat /etc/trainyard/file; for path in /x /etc/x /usr/x /etc/trainyard/x /sys/kernel/notes "
        "/run/trainyard/x /tmp/x /dev/shm/x; do touch $path && echo wrote $path; done; "
        f"cat {place}/secret; ls /"
    )
    binds = [f"{place}/work:/run/trainyard", f"{place}/config:/etc/trainyard:ro"]
    engine.run(NAME, specification(script, Binds=binds))
    ended()
    wrote = [line for line in said() if line.startswith("wrote")]
    assert wrote == ["wrote /run/trainyard/x", "wrote /tmp/x", "wrote /dev/shm/x"]
    assert any(line.startswith("kept") for line in said())
    assert "of the node" not in "".join(said())
    assert (place / "work" / "x").exists()
    assert sorted(path.name for path in (place / "config").iterdir()) == ["file"]


def test_two_containers_have_each_their_own_gpu(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of devices that every machine has stand in for those of the GPUs."""
    driver = place / "driver"
    driver.mkdir()
    (driver / "libcuda.so.550.163.01").write_text("library")
    (driver / "libcuda.so.1").symlink_to("libcuda.so.550.163.01")
    (driver / "bin").mkdir()
    (driver / "bin/nvidia-smi").write_text("#!/bin/sh\necho smi\n")
    (driver / "bin/nvidia-smi").chmod(0o755)
    mounts = {
        "libcuda.so.550.163.01": "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01",
        "bin/nvidia-smi": "/usr/bin/nvidia-smi",
    }
    common = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "mounts": [
            {"hostPath": str(driver / source), "containerPath": target}
            for source, target in mounts.items()
        ],
    }
    devices: dict[str, list[dict[str, Any]]] = {
        name: [common, {"deviceNodes": [{"path": f"/dev/nvidia{name}", "hostPath": path}]}]
        for name, path in (("0", "/dev/null"), ("1", "/dev/zero"))
    }
    found = Specification("nvidia.json", devices)
    monkeypatch.setattr(namespaces, "find_specification", lambda: found)
    script = (
        "echo /dev/nvidia*; nvidia-smi; cat $LD_LIBRARY_PATH/libcuda.so.1; echo; echo $PATH; "
        "echo $NVIDIA_VISIBLE_DEVICES; sleep 1"
    )
    for name in ("0", "1"):
        request = {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={name}"]}
        engine.run(f"{NAME}-{name}", specification(script, DeviceRequests=[request]))
    for name in ("0", "1"):
        ended(f"{NAME}-{name}")
        assert said(f"{NAME}-{name}") == [
            f"/dev/nvidia{name}",
            "smi",
            "library",
            "/run/gpu-driver/bin:/usr/bin:/bin",
            "void",
        ]
    request = {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=7"]}
    with pytest.raises(engine.EngineError, match=r"nvidia\.json has no device nvidia\.com/gpu=7"):
        engine.run(f"{NAME}-7", specification(script, DeviceRequests=[request]))


@pytest.mark.usefixtures("place")
def test_a_rank_has_no_privilege_and_reaches_nothing_through_the_first_process() -> None:
    script = (
        "grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status; "
        "ls /proc/1/root || echo no root; cat /proc/1/environ || echo no environment; "
        "kill -9 1; mount -t tmpfs none /tmp || echo no mount; unshare --user true || echo no user"
    )
    engine.run(NAME, specification(script))
    ended()
    lines = said()
    assert [line.split()[1] for line in lines if line.startswith("Cap")] == ["0" * 16] * 4
    assert "NoNewPrivs:\t1" in lines
    for word in ("no root", "no environment", "no mount", "no user"):
        assert word in lines


@pytest.mark.usefixtures("place")
def test_a_signal_reaches_the_program_which_ends_as_it_likes() -> None:
    script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    engine.run(NAME, specification(script))
    wait_until(lambda: "ready" in said())
    engine.send(NAME, "SIGTERM")
    assert ended()["ExitCode"] == 3
    assert said()[-1] == "asked"
    engine.send(NAME, "SIGTERM")  # one that has ended needs none


@pytest.mark.usefixtures("place")
def test_a_signal_is_not_lost_that_comes_before_the_program() -> None:
    for number in range(5):
        name = f"{NAME}-{number}"
        engine.run(name, specification("exec sleep 1000"))
        engine.send(name, "SIGTERM")
        assert ended(name)["ExitCode"] == 128 + signal.SIGTERM


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """What a shell without job control starts with "&" has these ignored."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in BACKGROUND}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("place", "in_the_background")
def test_a_program_finds_signals_and_limits_as_a_login_has_them() -> None:
    engine.run(
        NAME, specification("yes | head -1; grep SigIgn /proc/self/status; ulimit -n; ulimit -c")
    )
    ended()
    lines = said()
    assert lines[0] == "y"
    ignored = int(lines[1].removeprefix("SigIgn:"), 16)
    assert ignored & ~SIGNALS_OF_GLIBC == 0
    assert int(lines[2]) == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert lines[3] == "0"


def test_memory_that_its_own_control_group_ran_out_of_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "OOM_COUNTERS", {"0::": f"{tmp_path}{{}}/memory.events"})
    groups = tmp_path / "cgroup"
    assert not init.OomKills(str(groups)).happened()  # of a sandbox without
    groups.write_text("12:pids:/x\n0::/session-3.scope\n")
    assert not init.OomKills(str(groups)).happened()  # of another version
    counter = tmp_path / "session-3.scope" / "memory.events"
    counter.parent.mkdir()
    counter.write_text("oom 3\noom_kill 2\noom_group_kill 0\n")
    kills = init.OomKills(str(groups))
    assert not kills.happened()
    counter.write_text("oom 4\noom_kill 3\noom_group_kill 0\n")
    assert kills.happened()


@pytest.mark.usefixtures("place")
def test_all_of_it_ends_with_the_first_process_and_counts_as_killed() -> None:
    engine.run(NAME, specification("sleep 1000 & echo $$; sleep 1000"))
    wait_until(lambda: bool(said()))
    details = engine.inspect(NAME)
    assert details is not None
    first = details["State"]["Pid"]
    inside = [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if _namespace(path.name) == _namespace(str(first))
    ]
    assert len(inside) >= 3
    os.kill(first, signal.SIGKILL)
    assert ended()["ExitCode"] == 128 + signal.SIGKILL
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside))


def _namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return pid


@pytest.mark.usefixtures("place")
def test_it_is_listed_by_its_labels_until_it_is_removed() -> None:
    engine.run(NAME, specification("sleep 1000"))
    (listed,) = engine.containers("trainyard.run=run")
    assert (listed["Id"], listed["State"], listed["Names"]) == (NAME, "running", [f"/{NAME}"])
    assert engine.containers("trainyard.run=other") == []
    with pytest.raises(engine.EngineError, match="there is a container of this name"):
        engine.run(NAME, specification("true"))
    engine.remove(NAME)
    assert engine.inspect(NAME) is None
    assert engine.logs(NAME) is None
    assert engine.containers("trainyard.run") == []
    engine.remove(NAME)  # one that is gone is removed


@pytest.mark.usefixtures("place")
def test_the_newest_of_what_it_says_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(init.__file__).read_text()
    assert "LOG_BYTES = 5 << 20" in source
    small = source.replace("LOG_BYTES = 5 << 20", "LOG_BYTES = 4000")
    monkeypatch.setattr("node.engine.namespaces.sources.getsource", lambda module: small)
    engine.run(NAME, specification("i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo $i; done"))
    ended()
    numbers = list(map(int, said()))
    assert numbers[-1] == 500
    assert numbers == list(range(numbers[0], 501))
    assert 100 < len(numbers) < 300


@pytest.mark.usefixtures("place")
def test_what_cannot_be_started_says_why_and_leaves_nothing() -> None:
    with pytest.raises(engine.EngineError, match="there is no image trainyard/trainer:2"):
        engine.run(NAME, {**specification("true"), "Image": "trainyard/trainer:2"})
    with pytest.raises(engine.EngineError, match="/nowhere"):
        engine.run(NAME, specification("true", Binds=["/nowhere/at/all:/data:ro"]))
    assert engine.inspect(NAME) is None
    engine.run(NAME, {**specification("true"), "Cmd": ["/no/program"]})
    assert ended()["ExitCode"] == init.NOT_FOUND


def test_half_of_one_is_in_nobodys_way(place: Path) -> None:
    (place / "containers" / NAME).mkdir(parents=True)
    (place / "containers" / NAME / "hosts").write_text("half")
    engine.run(NAME, specification("echo whole"))
    ended()
    assert said() == ["whole"]


def test_root_needs_none_and_a_folder_of_another_machine_is_left_alone(tmp_path: Path) -> None:
    assert os.geteuid() == 0
    (refused,) = native.lacking()
    assert "RUNTIME=native is for an ordinary account" in refused
    assert native.unfit(str(tmp_path)) == []
    assert native.unfit(str(tmp_path)) == []
    (tmp_path / "machine").write_text("another\n")
    (refused,) = native.unfit(str(tmp_path))
    assert "set trainyard_native_root" in refused


def test_a_folder_that_others_may_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o770)
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    names = [str(tmp_path / name) for name in ("own", "none", "file", "open", "theirs")]
    refused = native.strangers(names)
    assert [line.split()[0] for line in refused] == names[2:]


def driver(place: Path, code: str) -> list[str]:
    """Python that an ordinary account runs, with what a node has of the roles."""
    start = (
        "import sys, ansible.module_utils as m; "
        f"m.__path__.append({str(ROLES / 'training_node' / 'module_utils')!r}); "
    )
    return [sys.executable, "-c", start + code]


def test_a_machine_that_allows_no_namespaces_says_so(place: Path) -> None:
    code = (
        "from node.engine import containers as engine\n"
        "try: engine.require_engine()\n"
        "except engine.EngineError as error: print(error)\n"
        "else: print('fine')"
    )
    # In these the limit is the caller's to set; the machine's own stays.
    without = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    for command, expected in (
        (["sh", "-c", 'exec "$@"', "sh"], "fine"),
        (["unshare", "--user", "--map-root-user", "sh", "-c", without, "sh"], "may not create"),
    ):
        told = subprocess.run(
            [*command, *driver(place, code)], capture_output=True, text=True, check=True
        )
        assert expected in told.stdout
    assert "kernel.unprivileged_userns_clone" in told.stdout
