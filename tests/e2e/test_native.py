"""RUNTIME=native: an ordinary account, without sudo and without a Docker engine of its own.

The machines are those of the local cluster, where root has set up containers before; the account
can use none of that but the data, which everybody may read.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from cluster import Cluster
from commands import RUNS, BackgroundRun, Outcome, make
from machines import CHECKOUT, INVENTORY, NODES, containers_of_runs, in_machine, wait_for
from notebooks import close, opened
from ordinary_account import HOME, STUDENT, add_account, remove_account, write_native_inventory

# Beside its home: what every login and every temporary file touches.
ELSEWHERE = f"find / -xdev -newer /tmp/begin -not -type d -not -path '{HOME}/*'"
OF_LOGINS = ("/dev/", "/proc/", "/run/", "/sys/", "/tmp/", "/var/log/", "/var/tmp/")
# What timers of Debian's do, at midnight for one.
OF_TIMERS = ("/var/lib/systemd/timers/", "/var/backups/")


@pytest.fixture(scope="module")
def students(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An inventory of nodes on which the account is an ordinary one."""
    cluster.make_ready()
    with ExitStack() as stack:
        for node in NODES:
            shell = partial(in_machine, node)
            add_account(shell)
            stack.callback(remove_account, shell)
            shell("touch /tmp/begin")
        folder = tmp_path_factory.mktemp("students")
        write_native_inventory(folder, CHECKOUT / INVENTORY / "nodes.yml", NODES)
        yield folder


@pytest.fixture(scope="module")
def ready(students: Path) -> Outcome:
    """Set-up by that account."""
    return make("setup", INVENTORY=students)


def test_set_up_does_what_the_account_may_and_says_what_it_passes_over(ready: Outcome) -> None:
    assert ready.status == 0, ready.output
    assert "left the machines as they are: /etc/hosts, accounts" in ready.output
    for node in NODES:
        changed = in_machine(node, ELSEWHERE).splitlines()
        assert [path for path in changed if not path.startswith(OF_LOGINS + OF_TIMERS)] == []
        refused = in_machine(node, f"su {STUDENT} -c 'sudo -n true; docker ps' 2>&1 || true")
        assert "password is required" in refused
        assert "permission denied" in refused


@pytest.mark.promise("row 30")
def test_it_trains_on_two_nodes_as_that_account_and_nothing_stays(
    ready: Outcome, students: Path
) -> None:
    assert ready.status == 0
    run = BackgroundRun(
        INVENTORY=students, MODEL="cnn_a", NODES=2, EPOCHS=1, TRAIN_IMAGES=2560, BATCH=64
    )
    ranks = f"pgrep -u {STUDENT} -f 'trainer train' || true"  # 1 where there is none yet
    # A fast machine is through with the training in less than a second, and not with its start.
    run.wait_for("ranks", lambda: all(in_machine(node, ranks) for node in NODES))
    assert [containers_of_runs(node) for node in NODES] == ["", ""]
    outcome = run.finish()
    assert outcome.status == 0, outcome.output
    summary = run.summary()
    assert summary["status"] == "succeeded"
    assert (summary["hosts"], summary["steps"]) == (list(NODES), 20)
    manifest = json.loads((run.directory / "manifest.json").read_text())
    assert manifest["configuration"]["runtime"] == "native"
    for rank, node in enumerate(NODES):
        log = (run.directory / "logs" / f"rank-{rank}.log").read_text()
        assert f"rank {rank} of 2 on {node}" in log
        left = in_machine(node, f"ls -A {HOME}/.trainyard/{node}/runs {HOME}/.trainyard/*/cont*")
        assert left.split() == [
            f"{HOME}/.trainyard/{node}/containers:",
            f"{HOME}/.trainyard/{node}/runs:",
            ".code",
        ]


def test_a_run_is_stopped_as_any_other(ready: Outcome, students: Path) -> None:
    assert ready.status == 0
    run = BackgroundRun(INVENTORY=students, MODEL="cnn_a", NODES=2, EPOCHS=50, TRAIN_IMAGES=20000)
    # Where epochs are short their lines are all that a pipe gets.
    run.wait_for("a line of the training", lambda: re.search(r"^  (step|epoch) ", run.output, re.M))
    shown = make("status", INVENTORY=students)
    assert shown.output.count("cnn_a") >= 2
    stopped = make("stop", INVENTORY=students, RUN=run.run_id)
    assert stopped.status == 0, stopped.output
    run.finish()
    summary = run.summary()
    assert summary["status"] == "stopped"
    for node in NODES:
        assert in_machine(node, f"pgrep -u {STUDENT} -f 'trainer|mpirun|prted' || true") == ""


def test_a_notebook_as_that_account(ready: Outcome, students: Path, tmp_path: Path) -> None:
    assert ready.status == 0
    (tmp_path / "notes.txt").write_text("as sent")
    command, address, token = opened("node1", INVENTORY=students, CODE=tmp_path)
    run = (RUNS / "latest").resolve()
    server = address.partition("/lab?")[0]

    def ask(path: str, method: str = "GET", document: object = None) -> Any:
        body = None if document is None else json.dumps(document).encode()
        asked = Request(f"{server}/api/{path}", body, {"Authorization": f"token {token}"})
        asked.method = method
        with urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    with pytest.raises(HTTPError, match="403"):
        urlopen(f"{server}/api/kernels", timeout=60)
    assert ask("contents/notes.txt")["content"] == "as sent"
    ask("contents/found.txt", "PUT", {"type": "file", "format": "text", "content": "found"})
    ask("kernels", "POST", {})
    kernels = f"pgrep -u {STUDENT} -f ipykernel_launcher || true"  # 1 where there is none yet
    wait_for("the kernel", lambda: in_machine("node1", kernels))
    close(command)
    assert make("stop", INVENTORY=students, RUN=run.name).status == 0
    assert (tmp_path / "found.txt").read_text() == "found"
    left = f"pgrep -u {STUDENT} -f 'jupyter|ipykernel' || true"  # 1 where there is none, as wanted
    assert in_machine("node1", left) == ""
