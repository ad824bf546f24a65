"""A notebook on a node: what is refused, the way there, and its files back in their folder."""

import http.client
import http.server
import json
import os
import shlex
import shutil
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from ssh_machines import Machine, start
from stand_in_nodes import LOAD
from unpacked_sshd import make_key, why_not
from yard_command import REPOSITORY, Yard, made

from yard.code.jupyter import notebook_requirements
from yard.code.requirements import Requirements
from yard.commands.rerun import rerun
from yard.contact.ssh import settings_of
from yard.contact.tunnel import open_tunnel, tunnel_command
from yard.core.context import Context
from yard.core.errors import ClusterError, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations.ending import conclude
from yard.operations.notebook import Server, private_file, read_server
from yard.plays.connections import Connection, parse_connection
from yard.plays.inventory import NATIVE, Inventory
from yard.request.notebook import Notebook, NotebookRequest, resolve_notebook
from yard.request.notebook_defaults import NOTEBOOKS
from yard.runs.manifest import Manifest, new_manifest, write_manifest
from yard.runs.notebook_files import find_notebook, return_files

TOKEN = "5f" * 24


@pytest.fixture
def checkout(tmp_path: Path) -> Project:
    """A checkout with what a notebook reads of it."""
    root = tmp_path / "checkout"
    for path in ("examples/notebook/start.ipynb", "docker/notebook"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (REPOSITORY / path).is_dir() else shutil.copyfile
        copy(REPOSITORY / path, root / path)
    return Project(root)


def test_a_node_and_a_limit_that_make_no_sense_are_refused_at_once(fresh: Yard) -> None:
    asked = ("notebook", "gamma", "--idle", "-3")
    done = fresh("--inventory", "inventory/lab", *asked)
    assert done.returncode == 2
    assert "node 'gamma': unknown; there are\n    alpha\n    beta" in done.stderr
    assert "IDLE=-3: must be minutes from 1 to 10080, or 0 for never" in done.stderr
    assert not (fresh.root / NOTEBOOKS).exists()
    assert not (fresh.root / "runs").exists()


def test_a_folder_that_is_none_and_a_dataset_that_is_unknown(
    lab: Inventory, checkout: Project
) -> None:
    request = NotebookRequest(node="alpha", code="/nowhere", dataset="faces")
    with pytest.raises(RequestError) as caught:
        resolve_notebook(request, lab, checkout)
    assert "CODE=/nowhere: there is no such folder" in str(caught.value)
    assert "dataset 'faces': unknown" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "said", "points_to_doctor"),
    [
        (None, "beta: unreachable: Failed to connect to the host", True),
        ({"failed": True, "timedout": {"period": 5}}, "beta: no answer: silent for 5 s", True),
        (
            {"trouble": {"code": "no_engine", "values": {"message": "refused"}}},
            "beta: no engine: refused",
            False,
        ),
        (
            {"trouble": {"code": "no_directory", "values": {"path": "/srv/x"}}},
            "beta: not set up: there is no /srv/x: run make setup",
            False,
        ),
        ({"load": {**LOAD, "disk_free_bytes": 4096}}, "beta: 4.1 kB left on its disk", False),
    ],
)
def test_a_node_that_can_start_none_is_named_before_anything_is_fetched(
    fresh: Yard,
    tmp_path: Path,
    status: dict[str, object] | None,
    said: str,
    points_to_doctor: bool,
) -> None:
    assert fresh("--inventory", "inventory/lab", "setup").returncode == 0
    (fresh.root / "nodes/alpha/unplugged").touch()
    if status is None:
        (fresh.root / "nodes/beta/unplugged").touch()
    else:
        (fresh.root / "nodes/beta/status.json").write_text(json.dumps(status))
    (tmp_path / "code").mkdir()
    (tmp_path / "code/cell.py").write_text("")
    asked = ("notebook", "beta", "--code", str(tmp_path / "code"))
    done = fresh("--inventory", "inventory/lab", *asked)
    assert done.returncode == 3, done.stdout + done.stderr
    assert said in done.stderr
    assert ("make doctor ON=beta" in done.stderr) == points_to_doctor
    assert not (fresh.root / ".trainyard/packages").exists()
    assert not (fresh.root / "runs").exists()


@pytest.mark.process
def test_the_target_of_make_passes_all_on() -> None:
    typed = {"CODE": "a b", "DATASET": "x", "GPUS_PER_NODE": "2", "REQUIREMENTS": "n", "IDLE": "30"}
    line = made("notebook", "NODE=gpu01", *(f"{name}={text}" for name, text in typed.items()))
    options = [f"--{name.lower().replace('_', '-')}={text}" for name, text in typed.items()]
    words = shlex.split(line.replace("\\\n", " "))
    assert words[words.index("notebook") :] == ["notebook", "gpu01", *options]


def resolved(lab: Inventory, checkout: Project, **further: object) -> Notebook:
    request = NotebookRequest(node="beta", code="", idle_minutes=7)
    return resolve_notebook(replace(request, **further), lab, checkout)  # type: ignore[arg-type]


@pytest.mark.promise("examples/notebook")
def test_an_empty_folder_begins_with_a_notebook_and_is_the_nodes(
    lab: Inventory, checkout: Project
) -> None:
    job = resolved(lab, checkout)
    assert job.folder == checkout.root / "notebooks/beta"
    assert [path.name for path in job.folder.iterdir()] == ["start.ipynb"]
    assert "import horovod.torch" in (job.folder / "start.ipynb").read_text()
    (job.folder / "start.ipynb").rename(job.folder / "mine.ipynb")
    resolved(lab, checkout)
    assert [path.name for path in job.folder.iterdir()] == ["mine.ipynb"]


def test_it_is_a_run_of_one_server_on_the_node(lab: Inventory, checkout: Project) -> None:
    job = resolved(lab, checkout, gpus_per_node=None)
    variables = job.extravars()
    assert job.label == "notebook_beta"
    assert variables["training_run_program"][-2:] == ["--idle-seconds", "420"]
    assert variables["training_run_program_per"] == "node"
    assert (variables["training_run_node_count"], variables["training_run_procs_per_node"]) == (
        1,
        1,
    )
    # A cell that somebody reads is no silence, and no stall.
    assert variables["training_run_silence_seconds"] == variables["training_run_stall_seconds"] == 0


def test_jupyter_comes_in_fixed_versions_or_settled_with_the_projects(tmp_path: Path) -> None:
    _, alone = notebook_requirements(REPOSITORY, None)
    assert alone is not None
    assert "\njupyterlab==" in alone
    pinned = [line for line in alone.splitlines() if "==" in line]
    assert len(pinned) > 50
    assert alone.count("--hash=sha256:") >= len(pinned)
    own = Requirements("needs.txt", tmp_path, (), {"needs.txt": "pandas\n"})
    both, fixed = notebook_requirements(REPOSITORY, own)
    assert fixed is None
    both.write(tmp_path / "asked")
    named = (tmp_path / "asked" / both.path).read_text().split()
    written = [(tmp_path / "asked" / path).read_text() for path in named[1::2]]
    assert "jupyterlab" in written[0]
    assert written[1] == "pandas\n"
    listed = Requirements("pyproject.toml", tmp_path, ("pandas",), {"pyproject.toml": "pandas"})
    packages = notebook_requirements(REPOSITORY, listed)[0].packages
    assert packages[0] == "pandas"
    assert packages[1].startswith("jupyterlab")


# The way.

SITE = {
    "host": "gpu01",
    "plugin": "ssh",
    "ssh": {
        "host": "10.0.0.7",
        "port": 2200,
        "remote_user": "ops",
        "private_key_file": "/keys/site",
        "password": None,
        "ssh_executable": "ssh",
        "ssh_args": "-o ControlMaster=auto -o ControlPersist=60s",
        "ssh_common_args": "-o ProxyJump=gate.example.org",
        "ssh_extra_args": "",
    },
    "sudo": {"become_user": "root", "become_exe": "sudo", "become_pass": None},
    "become": True,
    "method": "sudo",
    "python": "auto",
}


def test_the_way_is_the_one_of_ansible() -> None:
    command = tunnel_command(parse_connection(SITE), 40001, 8888)
    assert command[:4] == ["ssh", "-N", "-L", "127.0.0.1:40001:127.0.0.1:8888"]
    assert command[-1] == "10.0.0.7"
    for option in (
        "Port=2200",
        'User="ops"',
        'IdentityFile="/keys/site"',
        "ProxyJump=gate.example.org",
        "ExitOnForwardFailure=yes",
    ):
        assert command[command.index(option) - 1] == "-o"
    # Of two that contradict each other the first one holds: no connection is shared.
    assert command.index("ControlMaster=no") < command.index("ControlMaster=auto")


# A machine with an sshd, and how to get there
Reached = tuple[Machine, Connection]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Reached]:
    """A machine with an sshd, and how to get there."""
    if reason := why_not():
        pytest.skip(reason)
    public = make_key(tmp_path / "key")
    one = start(tmp_path / "machine", public)
    known = tmp_path / "known_hosts"
    known.write_text(one.known)
    arguments = ["-o", f"Port={one.port}", "-i", str(tmp_path / "key"), "-o", "User=ops"]
    arguments += ["-F", "none", "-o", f"UserKnownHostsFile={known}"]
    yield one, Connection("machine", address="127.0.0.1", arguments=tuple(arguments))
    one.process.kill()
    one.process.wait()


class Words(http.server.BaseHTTPRequestHandler):
    """A server that says one word."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"lab")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.mark.process
def test_the_way_leads_to_the_loopback_of_the_host_and_ends(
    machine: Reached,
) -> None:
    _, target = machine
    settings = settings_of(target)
    assert not isinstance(settings, str)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Words)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open_tunnel(target, settings, server.server_port, lambda: False) as way:
        assert way.is_open, way.words
        connection = http.client.HTTPConnection("127.0.0.1", way.port, timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"lab"
        connection.close()
        port = way.port
    server.shutdown()
    refused = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with pytest.raises(ConnectionRefusedError):
        refused.request("GET", "/")


@pytest.mark.process
def test_a_way_that_cannot_be_opened_says_what_ssh_said(
    machine: Reached,
) -> None:
    one, target = machine
    one.process.kill()
    one.process.wait()
    settings = settings_of(target)
    assert not isinstance(settings, str)
    with open_tunnel(target, settings, 8888, lambda: False) as way:
        assert not way.is_open
        assert "Connection refused" in way.words


# What a node tells.


def test_port_and_token_are_for_one_user_and_go() -> None:
    with private_file() as file:
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        file.write_text(json.dumps({"port": 4711, "token": TOKEN}))
        server = read_server(file)
        assert server == Server(4711, TOKEN)
        assert TOKEN not in repr(server)
    assert not file.parent.exists()


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"port": 22, "token": TOKEN},
        {"port": "4711", "token": TOKEN},
        {"port": 4711, "token": "x&next=http://evil"},
        {"port": 4711, "token": 5},
    ],
)
def test_an_answer_that_no_node_gives_is_refused(told: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "told").write_text(json.dumps(told))
    with pytest.raises(ClusterError):
        read_server(tmp_path / "told")


# Its files.


@pytest.fixture
def ended(lab: Inventory, checkout: Project) -> tuple[Path, Manifest]:
    """A run directory of a notebook that has ended, and its manifest."""
    job = resolved(lab, checkout)
    run = checkout.runs / "20261120T112000Z_notebook_beta"
    about = {"node": "beta", "folder": str(job.folder), "idle_minutes": 7}
    (run / "code").mkdir(parents=True)
    (run / "workdir").mkdir()
    request = NotebookRequest(node="beta", code="")
    manifest = new_manifest(checkout, lab, request, job, run.name, 0.0, {"notebook": about})
    write_manifest(run, manifest)
    return run, manifest


def test_files_come_back_and_what_was_changed_here_stays(ended: tuple[Path, Manifest]) -> None:
    run, manifest = ended
    folder = Path(manifest.project["notebook"]["folder"])  # type: ignore[index]
    for name in ("same.ipynb", "changed_here.ipynb", "start.ipynb"):
        (run / "code" / name).write_text("as sent")
        (folder / name).write_text("as sent")
        (run / "workdir" / name).write_text("of the notebook")
    (folder / "changed_here.ipynb").write_text("of the user")
    (run / "workdir/deep/er").mkdir(parents=True)
    (run / "workdir/deep/er/new.csv").write_text("1")
    returned = return_files(run, manifest)
    assert returned is not None
    assert sorted(returned.written) == ["deep/er/new.csv", "same.ipynb", "start.ipynb"]
    beside = "changed_here.20261120T112000Z_notebook_beta.ipynb"
    assert (returned.beside, returned.failed) == ([beside], [])
    assert (folder / "same.ipynb").read_text() == "of the notebook"
    assert (folder / "changed_here.ipynb").read_text() == "of the user"
    assert (folder / beside).read_text() == "of the notebook"
    assert (folder / "deep/er/new.csv").read_text() == "1"
    # Once more, as a second make stop would.
    again = return_files(run, manifest)
    assert again is not None
    assert again.written == []
    assert (folder / "changed_here.ipynb").read_text() == "of the user"


def test_what_a_node_could_make_programs_here_obey_stays_away(
    ended: tuple[Path, Manifest], tmp_path: Path
) -> None:
    run, manifest = ended
    folder = Path(manifest.project["notebook"]["folder"])  # type: ignore[index]
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "linked").symlink_to(outside)
    (outside / "secret").write_text("mine")
    (folder / "link.txt").symlink_to(outside / "secret")
    (run / "workdir/.git/hooks").mkdir(parents=True)
    (run / "workdir/.git/hooks/post-commit").write_text("#!/bin/sh")
    (run / "workdir/.ipynb_checkpoints").mkdir()
    (run / "workdir/.ipynb_checkpoints/a.ipynb").write_text("")
    (run / "workdir/linked").mkdir()
    (run / "workdir/linked/new").write_text("of the node")
    (run / "workdir/link.txt").write_text("of the node")
    (run / "workdir/points").symlink_to("/etc/passwd")
    returned = return_files(run, manifest)
    assert returned is not None
    assert returned.written == []
    assert len(returned.failed) == 2
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "mine"
    assert sorted(os.listdir(folder)) == ["link.txt", "linked", "start.ipynb"]


def test_it_is_started_anew_by_its_own_command_alone(
    ended: tuple[Path, Manifest],
    checkout: Project,
    lab: Inventory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ})
    run, manifest = ended
    native = {**manifest.configuration, "runtime": NATIVE}
    write_manifest(run, replace(manifest, configuration=native))
    context = Context(checkout, Path("unread"), Console(), Interrupts())
    with pytest.raises(RequestError) as caught:
        rerun(context, str(run))
    # Where and as it was, whatever this command was told.
    there = f"INVENTORY={checkout.shown(lab.path)} RUNTIME=native"
    assert str(caught.value).endswith(f"make notebook NODE=beta {there}")


def test_the_notebook_of_a_node_is_found_until_it_is_summed_up(
    ended: tuple[Path, Manifest], lab: Inventory
) -> None:
    run, _ = ended
    assert find_notebook(run.parent, "beta", lab.path) == run
    assert find_notebook(run.parent, "alpha", lab.path) is None
    assert find_notebook(run.parent, "beta", Path("elsewhere")) is None
    conclude(run)
    assert find_notebook(run.parent, "beta", lab.path) is None
