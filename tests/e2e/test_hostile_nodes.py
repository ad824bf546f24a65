"""What a node answers gets nothing read, written or executed on the control node or other nodes.

The second node lies: its Python answers in the place of a module, its rsync sends other files than
it was asked for. Every command ends with a status and a sentence.
"""

import json
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from commands import RUNS, Outcome, make
from machines import CHECKOUT, INVENTORY, in_machine
from trainings import SHORTEST

LIAR = "node2"
LIES = "/root/lies"
# In the place of python3: what is in a file of the module's name, for a module that has one. The
# name of the module stands in what Ansible sends, and that of a verb in what the node program is
# asked; of another call the arguments say what is to be done.
PYTHON = f"""#!/bin/sh
[ $# -eq 0 ] || [ "$4" = call ] || exec /usr/bin/python3.true "$@"
sent=$(mktemp /run/sent.XXXXXX)
cat > "$sent"
for lie in {LIES}/*; do
    [ -e "$lie" ] || continue
    name=$(basename "$lie")
    if grep -qa -e "[._]$name[^a-z_]" -e "\\"verb\\": \\"$name\\"" "$sent"; then
        rm "$sent"
        sh "$lie"
        exit 0
    fi
done
exec 3< "$sent"
rm "$sent"
exec /usr/bin/python3.true "$@" <&3
"""
# In the place of rsync: another folder than the one that is asked for.
RSYNC = """#!/bin/sh
case "$*" in *--sender*collect/) ;; *) exec /usr/bin/rsync.true "$@";; esac
set -- $(echo "$@" | sed 's, [^ ]*$, /root/sent/,')
exec /usr/bin/rsync.true "$@"
"""
OWNED = Path("/tmp/trainyard-owned")  # where a lie that is executed leaves its mark
EXECUTED = f"{{{{ lookup('ansible.builtin.pipe', 'touch {OWNED}') }}}}"
STEERING = "\x1b]0;title\x07\x1b[2J"
# A record that the control node takes for one of its own.
MANIFEST = CHECKOUT / "tests/yard/data/runs/succeeded/manifest.json"
# Some things of all kinds that no module answers
NONSENSE: dict[str, Any] = {
    "msg": f"{EXECUTED} {STEERING}",
    "stdout": f"{EXECUTED} {STEERING}",
    "rc": 0,
    "problems": [5],
    "checks": 5,
    "hardware": EXECUTED,
    "ansible_facts": {
        "ansible_connection": "local",
        "ansible_host": "127.0.0.1",
        "ansible_ssh_executable": f"/usr/bin/touch {OWNED} #",
        "ansible_python_interpreter": f"/usr/bin/touch {OWNED} #",
        "inventory_hostname": "node1",
    },
    "_ansible_delegated_vars": {"ansible_host": "127.0.0.1"},
    "exception": STEERING,
}
# Fit, but for an address that would be settings of ssh in the containers of other nodes
FIT_WITH_SETTINGS = {
    "problems": [],
    "checks": [],
    "hardware": {},
    "image_id": "sha256:" + "0" * 64,
    "run": "",
    "address": f"10.0.0.1\n    ProxyCommand touch {OWNED}",
    "cores": 2,
    "gpus": 0,
    "gpu_devices": [],
    "bf16": False,
}
OTHERS_RUN = {
    "run": "../../../etc",
    "state": "running",
    "metric": {"event": STEERING},
    "earlier": [],
    "said": f"3/9 {STEERING}",
    "owner": STEERING,
    "since": 1e300,
    "home": "/etc",
    "nodes": ["node1", "../node1"],
}
LOAD = dict.fromkeys(
    (
        "cpu_percent",
        "cores",
        "memory_used_bytes",
        "memory_bytes",
        "disk_free_bytes",
        "disk_bytes",
    ),
)


def says(document: Any) -> str:
    """The shell script of a lie that is an answer."""
    return f"printf %s {shlex.quote(json.dumps(document))}"


# Lies that one command gets to hear, and those of them that the others do.
ALL = {
    "text that is no answer": "echo nonsense; echo Traceback >&2",
    "nothing": "true",
    "very much text": "head -c 32M /dev/zero | tr '\\0' x",
    "an answer in an answer": says({"msg": json.dumps(NONSENSE)}) + "; " + says(NONSENSE),
    "things of other kinds, and what Ansible would execute": says(NONSENSE),
    "an answer of them": says({"answer": NONSENSE}),
    "an answer without end": "printf %s '{\"runs\": [[['",
}
COMMON = (
    "nothing",
    "things of other kinds, and what Ansible would execute",
    "an answer of them",
)
FULL = "status"
# By the module or verb that answers for the node: a make target, its variables, lies of its own.
COMMANDS: dict[str, tuple[str, dict[str, object], dict[str, str]]] = {
    "status": (
        "status",
        {},
        {
            "runs of others": says(
                {
                    "answer": {
                        **{"runs": [OTHERS_RUN], "load": {**LOAD, "gpus": []}, "time": 1},
                        "apt": None,
                        "trouble": None,
                    }
                }
            ),
            "a reason that steers": says(
                {
                    "answer": {
                        **{"runs": [], "load": {**LOAD, "gpus": []}, "time": 1},
                        "apt": {"command": STEERING, "pid": 1, "since": 1.0},
                        "trouble": {"code": "no_engine", "values": {"message": STEERING}},
                    }
                }
            ),
            "an error that steers": says(
                {"error": {"code": STEERING, "values": {"path": EXECUTED}}}
            ),
        },
    ),
    "probe": (
        "train",
        dict(SHORTEST),
        {"an address with settings of ssh": says({"answer": FIT_WITH_SETTINGS})},
    ),
    "command": ("exec", {"CMD": "true"}, {}),
    "describe": (
        "verify",
        {"CHECKS": "nodes"},
        {"releases that are none": says({"answer": {"checks": [], "releases": 5}})},
    ),
    "record": (
        "attach",
        {"RUN": "20260101T000000Z_evil_cifar10_b1_e1_n2_p1"},
        {
            "a run whose home is a template": says(
                {
                    "answer": {
                        "record": {
                            "nodes": [LIAR],
                            "owner": STEERING,
                            "home": EXECUTED,
                            "since": 0.0,
                            "manifest": json.loads(MANIFEST.read_text()),
                        }
                    }
                }
            ),
            "a run with an inventory of its own": says(
                {
                    "answer": {
                        "record": {
                            "nodes": ["node1", "../node1"],
                            "owner": STEERING,
                            "home": "/etc",
                            "manifest": {"inventory_path": "/etc/passwd", "launch": {}},
                        }
                    }
                }
            ),
        },
    ),
}
CASES = [
    (module, name, lie)
    for module, (_, _, own) in COMMANDS.items()
    for name, lie in {**ALL, **own}.items()
    if name in own or name in COMMON or module == FULL
]


@contextmanager
def replaced(program: str, text: str) -> Iterator[None]:
    """A program of the second node, replaced by one that lies."""
    path = f"/usr/bin/{program}"
    put = f"mv {path} {path}.true && printf %s {shlex.quote(text)} > {path} && chmod 755 {path}"
    in_machine(LIAR, put)
    try:
        yield
    finally:
        in_machine(LIAR, f"mv {path}.true {path}")


@pytest.fixture(scope="module")
def liar(cluster: Cluster) -> Iterator[None]:
    """A second node whose Python answers lies, where there are any."""
    cluster.make_ready()
    in_machine(LIAR, f"mkdir -p {LIES}")
    with replaced("python3", PYTHON):
        yield
    in_machine(LIAR, f"rm -r {LIES}")
    # An end that nobody lied about
    assert make("train", **SHORTEST).status == 0


@contextmanager
def lying(module: str, lie: str) -> Iterator[None]:
    """The node says this in the place of a module."""
    in_machine(LIAR, f"printf %s {shlex.quote(lie)} > {LIES}/{module}")
    try:
        yield
    finally:
        in_machine(LIAR, f"rm {LIES}/{module}")


def watched() -> dict[str, tuple[int, int]]:
    """What a lie might change on the control node: sizes and times of what is there."""
    places = [CHECKOUT, Path("/etc"), Path("/root/.ssh"), Path("/var/lib/trainyard")]
    skipped = {".git", ".venv", ".trainyard", "runs", "__pycache__", ".pytest_cache"}
    found = {}
    for place in places:
        for folder, names, files in os.walk(place):
            names[:] = [name for name in names if name not in skipped]
            for path in (os.path.join(folder, name) for name in files):
                about = os.lstat(path)
                found[path] = (about.st_size, about.st_mtime_ns)
    return found


def check_ended(outcome: Outcome) -> None:
    """A command has ended as commands do, and no word of the node has steered the terminal."""
    assert outcome.status in (0, 1, 2, 3)
    assert "Traceback (most recent" not in outcome.output
    assert "\x1b]" not in outcome.output
    assert "\x1b[2J" not in outcome.output
    assert outcome.output.strip()
    assert len(outcome.output) < 200_000
    assert not OWNED.exists()


@pytest.mark.parametrize(("module", "name", "lie"), CASES, ids=lambda value: str(value)[:40])
def test_a_command_ends_with_a_sentence_whatever_a_node_answers(
    liar: None, module: str, name: str, lie: str
) -> None:
    target, variables, _ = COMMANDS[module]
    if module == "record":
        # What another lie had the control node take for a run, it knows from then on.
        shutil.rmtree(RUNS / str(variables["RUN"]), ignore_errors=True)
    before = watched()
    with lying(module, lie):
        outcome = make(target, **variables)
    if module == "command":
        # To a pipe its words go as they are.
        outcome = Outcome(outcome.status, outcome.output.replace("\x1b", ""))
    check_ended(outcome)
    assert watched() == before
    if module != "command":
        assert outcome.status != 0 or LIAR in outcome.output


def test_facts_of_a_node_lead_to_no_other_machine(liar: None) -> None:
    """Facts are variables; a connection, a host and an interpreter are variables too."""
    before = watched()
    play = ["ansible-playbook", "--inventory", INVENTORY, "playbooks/nodes.yml", "--tags", "none"]
    with lying("setup", says(NONSENSE)):
        done = subprocess.run(play, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert "Traceback (most recent" not in done.stdout + done.stderr
    assert watched() == before
    assert not OWNED.exists()


def test_a_node_that_takes_part_and_lies_at_its_end_has_its_run_summed_up(liar: None) -> None:
    with lying("end", says({"answer": NONSENSE})):
        outcome = make("train", **SHORTEST)
    check_ended(outcome)
    assert outcome.status == 1
    run = (RUNS / "latest").resolve()
    assert json.loads((run / "summary.json").read_text())["status"] in ("failed", "succeeded")
    # Nobody lies any more.
    assert make("stop", RUN=run.name).status in (0, 1)


def test_files_that_nobody_asked_for_come_home_as_what_they_may_be(
    ready_cluster: Cluster,
) -> None:
    in_machine(
        LIAR,
        "mkdir -p /root/sent/nodes/node1 /root/sent/nodes/node2 /root/sent/checkpoints && "
        "cd /root/sent && for name in manifest.json summary.json request.json verdict.json "
        "nodes/node1/findings.json "
        "nodes/node1/container.json nodes/node2/lie.log; do echo '{\"lie\": 1}' > $name; done && "
        "ln -s /etc/passwd link && ln -s ../../../.. above && mkfifo pipe && "
        "cp /bin/true checkpoints/program && chmod 6777 checkpoints/program",
    )
    try:
        with replaced("rsync", RSYNC):
            outcome = make("train", **SHORTEST)
    finally:
        in_machine(LIAR, "rm -r /root/sent")
    check_ended(outcome)
    run = (RUNS / "latest").resolve()
    # It has been here, as the node's own.
    assert (run / "nodes/node2/lie.log").exists()
    # A verification's; in its folder they would be the record of what was asked and found.
    assert not (run / "request.json").exists()
    assert not (run / "verdict.json").exists()
    assert "lie" not in json.loads((run / "manifest.json").read_text())
    assert "lie" not in json.loads((run / "summary.json").read_text())
    for name in ("findings.json", "container.json"):
        assert "lie" not in (run / f"nodes/node1/{name}").read_text()
    for path in run.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            assert path.resolve().is_relative_to(run), path
        else:
            assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), path
            assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH), path
