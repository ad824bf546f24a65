"""What a rank does in its container changes nothing outside its run, on no machine.

The attacks are made by a rank's account in the container of a real run. Before and after, every
file of the nodes and of the control node is listed that a rank has no business with.
"""

import json
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml
from cluster import Cluster
from commands import BackgroundRun, Outcome, make
from machines import CHECKOUT, INVENTORY, NODES, RUN_ROOT, in_machine, wait_for
from tables import merge
from trainings import LONG, SHORTEST

# Of a node: of every entry there type, mode, owner, size, time and target are listed.
WATCHED = "/etc /root /home /srv /usr/local /opt /var/spool /var/lib/trainyard /boot"
FIND = f"find {WATCHED} -xdev -printf '%y %m %u:%g %s %T@ %p %l\\n' 2>/dev/null | sort"
# Of the control node; runs/ and .trainyard/ change with every run.
HERE = ("/etc", "/root/.ssh", "/home", "/usr/local", "/opt", str(CHECKOUT))
CHANGING = ("runs", ".trainyard", ".venv", ".git", ".pytest_cache")

# Forks until it may not any more, and puts an end to all of them.
FORKS = """
import os, signal
os.setpgid(0, 0)
children = 0
try:
    while children < 20000:
        if not os.fork():
            signal.pause()
        children += 1
except OSError:
    pass
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
raise SystemExit(children == 20000)
"""

# Leaves its parent, is deaf to all that asks it to end, and is another process every second.
OUTLIVES = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(1)
"""
# What a shell on a node finds it by
OUTLIVER = "[o]utlives-its-run"
# Puts a directory and a link to /etc in turn where root looks for checkpoints.
SWAPS = """
import os
os.makedirs("race/directory", exist_ok=True)
os.symlink("/etc", "race/link")
while True:
    for name in ("directory", "link"):
        os.rename(f"race/{name}", "checkpoints/swapped")
        os.rename("checkpoints/swapped", f"race/{name}")
"""
# Holds locks on all directories of the run that it can open.
LOCKS = """
import fcntl, os, time
held = [os.open(path, os.O_RDONLY) for path in ("/run/trainyard", "checkpoints", "logs")]
for descriptor in held:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
time.sleep(3600)
"""
# Answers on the run's port in the place of its sshd, with a banner that has no end.
ANSWERS = """
import os, signal, socket, sys, threading, time
address = sys.argv[1]
for process in filter(str.isdigit, os.listdir("/proc")):
    try:
        if open(f"/proc/{process}/comm").read() == "sshd\\n":
            os.kill(int(process), signal.SIGKILL)
    except OSError:
        pass
def answer(connection):
    try:
        while True:
            connection.sendall(b"x" * 4096)
    except OSError:
        pass
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        listener.bind((address, 2222))
        break
    except OSError:
        time.sleep(0.1)
listener.listen()
open("answers", "w").close()
while True:
    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
"""


def in_background(program: str, *arguments: str) -> str:
    """The shell command that leaves a program behind, and waits for nothing."""
    words = " ".join(map(shlex.quote, ("python3", "-c", program, *arguments)))
    return f"setsid {words} > /dev/null 2>&1 < /dev/null & sleep 1"


# ssh as a rank may call it, which believes every host
SSH = "timeout 20 ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"


def fill(file: str, pieces: int) -> str:
    """Write so many pieces of 64 MB; its status is that of the writing."""
    return (
        f"dd if=/dev/zero of={file} bs=64M count={pieces} 2>/dev/null; "
        f"status=$?; rm -f {file}; exit $status"
    )


# Each is done by a rank's account in the container on the first node, and ends well where the rank
# was kept from it.
ATTACKS = {
    "writes into the image": "! touch /usr/local/x && ! touch /opt/trainyard/bin/x",
    "replaces a program of the launch": "! cp /bin/true /opt/trainyard/bin/rank",
    "changes the code of the run": "! touch /opt/trainyard/lib/trainer/__init__.py 2>/dev/null",
    "changes what it was given": "! sh -c 'echo >> /etc/trainyard/hostfile' 2>/dev/null",
    "plants a key for its sshd": "! sh -c 'echo key >> /etc/trainyard/ssh/authorized_keys'",
    "removes the run's keys": "! rm -f /etc/trainyard/ssh/id_ed25519",
    "writes into the data sets": "! touch /data/cifar10/x",
    "becomes root by a program of the image": "! (mount -o remount,rw / || su -c true) 2>/dev/null",
    "asks the engine": "! test -e /var/run/docker.sock",
    "looks at the node's disks": (
        "! ls -d /dev/[sv]d* /dev/xvd* /dev/nvme* 2>/dev/null | grep --quiet ."
    ),
    "makes a device": "! mknod disk b 7 0 2>/dev/null",
    "becomes root in a namespace of its own": "! unshare --user --map-root-user true 2>/dev/null",
    "gives a file of the image a second name": (
        "! ln /etc/passwd passwd 2>/dev/null && ! ln /etc/passwd /etc/second 2>/dev/null"
    ),
    "gives a file of a data set a second name": (
        "! ln /data/cifar10/dataset.json dataset.json 2>/dev/null"
        " && ! ln /data/cifar10/dataset.json /data/cifar10/second 2>/dev/null"
    ),
    "logs in to a node with the run's key": f"! {SSH} -p 22 node2 true 2>/dev/null",
    "goes through the run's sshd to a node's": (
        f"! {SSH} -W 127.0.0.1:22 node2 < /dev/null 2>/dev/null"
    ),
    "looks at processes of the node": "! grep -l dockerd /proc/[0-9]*/comm 2>/dev/null",
    "looks at root's records": (
        "! find / -xdev \\( -name run.json -o -path '*/collect/*' \\) 2>/dev/null | grep --quiet ."
    ),
    "forks without end": f"python3 -c {shlex.quote(FORKS)}",
    "fills /dev/shm": f"! ({fill('/dev/shm/x', 64)})",
    "fills /tmp": f"! ({fill('/tmp/x', 200)})",
    "leaves a process behind": "setsid sleep 3600 > /dev/null 2>&1 < /dev/null & true",
    "outlives its end by forking": in_background(OUTLIVES, "outlives-its-run"),
    "locks the directories of its run": in_background(LOCKS),
    "fills the log of its container": "head -c 50M /dev/zero | tr '\\0' x > /proc/1/fd/1; true",
    "links a file out of the run": "ln -s /etc/hostname outside",
    "links a directory out of the run": "ln -s ../../../etc above",
    "links what root writes": "mkdir -p nodes/node1 && ln -s /etc/shadow nodes/node1/container.log",
    "links root's findings": "ln -s /etc/passwd nodes/node1/findings.json",
    "links keys": "ln -s /etc/ssh ssh",
    "links a checkpoint": "ln -s /etc/shadow checkpoints/epoch-99.pt",
    "links a directory of checkpoints": "ln -s /etc checkpoints/below",
    "links a report of the control node": "ln -s /etc/trainyard-was-here report-error.log",
    "links outputs": "ln -s /etc outputs",
    "links its working directory": "ln -s /etc project",
    "links a log": "ln -s /etc/passwd logs/rank-5.log",
    "leaves a pipe": "mkfifo pipe logs/rank-6.log world.pipe",
    "leaves a socket": "python3 -c 'import socket; socket.socket(1).bind(\"logs/rank-8.log\")'",
    "leaves a program with other rights": "cp /bin/true program && chmod 6777 program",
    "leaves records of the control node": "echo '{}' > manifest.json && echo x > summary.json",
    "leaves a log of no rank": "touch logs/rank-x.log",
    "breaks the metrics": "echo '[1]' >> metrics.jsonl && echo nonsense >> metrics.jsonl",
    "steers the terminal": "printf 'a line\\033]0;title\\007\\n' > logs/rank-7.log",
    "names files with line breaks": "touch \"$(printf 'logs/a\\nb.log')\" \"$(printf 'x\\033')\"",
    "names files like options and commands": (
        "touch -- logs/--rsync-path=x 'logs/$(touch x).log' 'checkpoints/...pt' checkpoints/-rf"
    ),
    "leaves countless files": (
        'mkdir many && python3 -c \'for i in range(20000): open(f"many/{i}", "w").close()\''
    ),
    "leaves directories without end": (
        'mkdir tensorboard/deep && python3 -c \'import os\nos.chdir("tensorboard/deep")\n'
        'for i in range(2000): os.mkdir("d"); os.chdir("d")\''
    ),
    "leaves a file as large as no disk": "truncate --size 900G checkpoints/huge",
    "swaps a directory for a link while root looks": in_background(SWAPS),
}


# Made last, and on the other node: the first one is that of the launcher.
ANSWERED = "answers on the run's port"

# The table of docs/security.md
DOCUMENT = CHECKOUT / "docs/security.md"
BEGIN = "<!-- Written by pytest tests/e2e/test_hostile_ranks.py --write-table -->\n"
END = "<!-- End of the table -->\n"
# What root and the control node write under names that ranks took as well
RECORDS = {f"nodes/node1/{name}" for name in ("container.log", "findings.json")}
RECORDS |= {"manifest.json", "summary.json"}
COLUMNS = ("what a rank does", "what happens", "what is left at home")


def listing(host: str) -> set[str]:
    """Every entry of the watched directories of a node, but those that change with every run."""
    lines = in_machine(host, FIND).splitlines()
    # The monitor of `make top` ends by itself, a while after who asked it last.
    changing = (f" {RUN_ROOT} ", f" {RUN_ROOT}/.watch", "/.ansible")
    return {line for line in lines if not any(path in line for path in changing)}


def here() -> set[str]:
    """Every file of the watched directories of the control node."""
    found = set()
    for top in HERE:
        for folder, names, files in os.walk(top):
            if folder == str(CHECKOUT):
                names[:] = [name for name in names if name not in CHANGING]
            names[:] = [name for name in names if name != "__pycache__"]
            for path in (os.path.join(folder, name) for name in files):
                about = os.lstat(path)
                stamp = f"{about.st_mode:o} {about.st_uid} {about.st_size} {about.st_mtime_ns}"
                found.add(f"{path} {stamp}")
    return found


def everywhere() -> dict[str, set[str]]:
    """The listings of all machines, by name."""
    return {host: listing(host) for host in NODES} | {"control node": here()}


@dataclass
class Attacked:
    """A run in which all attacks were made.

    Attributes:
        run: the run, at its end.
        outcome: how it ended.
        ends: status of each attack.
        made: what each left in the directory of the run on the node.
        audit: what ssh-audit has to say of the sshd in a container: empty, if it is nothing.
        before: what was on the machines.
    """

    run: BackgroundRun
    outcome: Outcome
    ends: dict[str, int]
    made: dict[str, set[str]]
    audit: str
    before: dict[str, set[str]]

    @property
    def left(self) -> dict[str, str]:
        """What the summary says of files that are not home, by code."""
        left = self.run.summary()["left_behind"]
        # On node2 it is the note of who answers on the run's port.
        assert {each["host"] for each in left} == set(NODES)
        return {each["code"]: each["names"] for each in left if each["host"] == "node1"}

    def cells(self, name: str) -> list[str]:
        """The row of an attack."""
        made = self.made[name]
        home = {path for path in made if os.path.lexists(self.run.directory / path)} - RECORDS
        happens = f"it is in the run's own directory: {shown(made)}" if made else "it is done there"
        if ATTACKS.get(name, "").startswith("!") and self.ends[name] == 0:
            happens = "it fails"
        return [name, happens, shown(home) or "nothing"]


@pytest.fixture(scope="module")
def attacked(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Attacked]:
    """Make all attacks on one run: each of them alone would cost a run."""
    # What a first run leaves, caches and the trainer's code, is not of this one. A test before may
    # have taken it from a node.
    cluster.make_ready()
    assert make("train", **SHORTEST).status == 0
    before = everywhere()
    run = BackgroundRun(**LONG).trains()
    ends, made, there = {}, {}, files_of(run)
    for name, command in ATTACKS.items():
        ends[name] = attack(run, command)
        there, earlier = files_of(run), there
        made[name] = there - earlier
    shown = run.output.count("validation loss")
    run.wait_for("an epoch after the attacks", lambda: run.output.count("validation loss") > shown)
    told = audit("node2")
    ends[ANSWERED], made[ANSWERED] = answer_on_the_port(run, "node2"), set()
    assert make("stop", RUN=run.run_id).status == 0
    attacked = Attacked(run, run.finish(), ends, made, told, before)
    rows = {name: attacked.cells(name) for name in (*ATTACKS, ANSWERED)}
    yield attacked
    # Not before: the document is one of the files that nothing may have changed.
    if request.config.getoption("write_table"):
        DOCUMENT.write_text(merge(DOCUMENT.read_text(), BEGIN, END, COLUMNS, rows))


def answer_on_the_port(run: BackgroundRun, host: str) -> int:
    """Answer on the run's port on a node, as its ranks; returns 0 as soon as one does."""
    program = in_background(ANSWERS, address_of(host))
    # Its status says nothing: without its sshd the run may end, and the container with it.
    attack(run, program, host)
    wait_for("an answer on the run's port", lambda: there(run, "answers", host), 20)
    return 0


def there(run: BackgroundRun, path: str, host: str) -> bool:
    """Whether ranks have left a file on a node."""
    look = f"test -e {RUN_ROOT}/{run.run_id}/work/{path} && echo yes || true"
    return in_machine(host, look) == "yes"


def address_of(host: str) -> str:
    """Address of a node on the training network."""
    nodes = yaml.safe_load((CHECKOUT / INVENTORY / "nodes.yml").read_text())["trainers"]["hosts"]
    return str(nodes[host]["ansible_host"])


def files_of(run: BackgroundRun) -> set[str]:
    """What is in the directory of the run that its ranks write, but for what the trainer writes."""
    # What a rank swaps while find looks is gone for find, which says so.
    find = "find . -mindepth 1 -printf '%P\\0' 2>/dev/null || true"
    look = f"cd {RUN_ROOT}/{run.run_id}/work && {find}"
    found = set(in_machine("node1", look).split("\0"))
    return {
        path
        for path in found
        if not re.match(r"tensorboard/events|checkpoints/(epoch-(?!99)\d|best|last)", path)
    }


def shown(paths: set[str]) -> str:
    """Some of many paths, without what a document cannot show."""
    names = [f"`{ascii(path)[1:-1][:40]}`" for path in sorted(paths)[:2]]
    return ", ".join(names) + (f" and {len(paths) - 2:,} more" if len(paths) > 2 else "")


def audit(host: str) -> str:
    """Ask ssh-audit for failures and warnings of the sshd in the container of a run."""
    command = ["ssh-audit", "--level=warn", "--no-colors", "--skip-rate-test", "--port=2222"]
    done = subprocess.run([*command, address_of(host)], capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


def attack(run: BackgroundRun, command: str, host: str = "node1") -> int:
    """Make an attack in the container on a node, in the run's directory; returns its status."""
    script = shlex.quote(f"cd /run/trainyard; {command}")
    inside = f"docker exec trainyard-{run.run_id} sh -c {script}"
    return int(in_machine(host, f"{inside} > /dev/null 2>&1; echo $?"))


def test_no_attack_reaches_out_of_the_container(attacked: Attacked) -> None:
    assert len(attacked.ends) > 30
    assert {name for name, status in attacked.ends.items() if status} == set()


def test_of_the_sshd_of_a_run_nothing_is_to_be_said(attacked: Attacked) -> None:
    assert attacked.audit == ""


def test_no_rank_has_all_memory_of_its_node(attacked: Attacked) -> None:
    manifest = json.loads((attacked.run.directory / "manifest.json").read_text())
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert set(manifest["memory_limits"]) == set(NODES)
    # Both nodes are on this machine, which keeps a part for itself.
    assert 0 < sum(manifest["memory_limits"].values()) < total


def test_the_log_of_a_container_has_an_end(attacked: Attacked) -> None:
    log = attacked.run.directory / "nodes/node1/container.log"
    assert log.stat().st_size < 20_000_000


def test_the_run_is_summed_up_with_what_is_not_home(attacked: Attacked) -> None:
    assert attacked.run.summary()["status"] == "stopped"
    assert set(attacked.left) == {"files_refused", "files_beyond_limits"}
    assert "checkpoints/huge: 966,367,641,600 bytes" in attacked.left["files_beyond_limits"]
    assert "they are still there" in attacked.outcome.output


def test_plain_files_of_a_run_come_home_and_nothing_else(attacked: Attacked) -> None:
    folder = attacked.run.directory
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        assert path.name.isprintable()
        if stat.S_ISLNK(mode):
            assert path.parent == folder / "checkpoints"
            assert path.resolve().parent == folder.resolve() / "checkpoints"
        else:
            assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), path
            assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH), path
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {"logs/rank-7.log", "nodes/node1/container.log", "checkpoints"} <= names
    kept_away = {"program", "many", "ssh", "outside", "above", "report-error.log", "pipe"}
    assert not names & kept_away
    assert not {"logs/rank-5.log", "logs/rank-6.log", "logs/rank-8.log"} & names


def test_who_reads_the_run_is_not_steered(attacked: Attacked) -> None:
    logs = make("logs", RUN=attacked.run.run_id)
    assert logs.status == 0
    assert "[7 ?] a line\n" in logs.output
    assert "\x1b" not in logs.output
    assert make("report", RUN=attacked.run.run_id).status == 0


def test_what_was_too_much_stays_until_it_is_asked_for(attacked: Attacked) -> None:
    run = f"{RUN_ROOT}/{attacked.run.run_id}"
    in_machine("node1", f"rm {run}/work/checkpoints/huge")
    in_machine("node1", f"echo kept > {run}/work/checkpoints/epoch-7.pt")
    assert make("attach", RUN=attacked.run.run_id).status in (0, 130)
    assert (attacked.run.directory / "checkpoints/epoch-7.pt").read_text() == "kept\n"
    assert in_machine("node1", f"ls {RUN_ROOT}") == ""


def test_the_next_run_succeeds_and_nothing_else_has_changed(attacked: Attacked) -> None:
    for left in ("[s]leep 3600", OUTLIVER):
        assert in_machine("node1", f"pgrep --full '{left}' || true") == ""
    assert make("train", **SHORTEST).status == 0
    after = everywhere()
    for where, entries in attacked.before.items():
        assert after[where] ^ entries == set(), where


# What ranks of node1 write to have the fault found elsewhere: names of root, other machines, the
# words of a full disk.
FORGED = {
    "failures/rank-0.json": (
        '{"rank": 1, "host": "node1", "code": "container_killed", "values": {"host": "node1"}}'
    ),
    "failures/rank-1.json": (
        '{"rank": 1, "host": "elsewhere", "code": "host_unreachable", "values": {}}'
    ),
    "nodes/node1/findings.json": '[{"code": "engine_gone", "values": {"message": "x"}}]',
    "world.json": '{"world_size": 1, "ranks": [{"rank": 0, "host": "../../etc"}]}',
    "ranks/7.json": '{"rank": 7, "host": "elsewhere", "ended_at": 1, "exit_status": 137}',
}


def forge(run: BackgroundRun) -> None:
    """Write all of it, as a rank's account on node1."""
    for path, text in FORGED.items():
        write = f"mkdir -p {os.path.dirname(path) or '.'}; echo {shlex.quote(text)} > {path}"
        assert attack(run, write) == 0


def check_blamed(run: BackgroundRun, outcome: Outcome, code: str) -> None:
    """The run has failed for this reason on node2, and is summed up."""
    summary = run.summary()
    assert (outcome.status, summary["status"]) == (1, "failed")
    assert "Traceback" not in outcome.output
    assert "elsewhere" not in outcome.output
    diagnosis = summary["diagnosis"]
    assert (diagnosis["signature"], diagnosis["host"]) == (code, "node2"), diagnosis
    assert summary["hosts"] == list(NODES)


def test_a_rank_that_forges_records_and_dies_is_found(ready_cluster: Cluster) -> None:
    run = BackgroundRun(**LONG).trains()
    pid = run.rank_pid(1, "node2")
    forge(run)
    run.in_container("node2", f"kill -KILL {pid}")
    check_blamed(run, run.finish(), "rank_ended_by_kill")


def test_a_rank_that_takes_all_memory_is_found_whatever_it_writes(ready_cluster: Cluster) -> None:
    run = BackgroundRun(**LONG).trains()
    container = f"trainyard-{run.run_id}"
    # So that the other users of this machine keep their memory; how much it is by itself is above.
    in_machine("node2", f"docker update --memory 1g --memory-swap 1g {container}")
    forge(run)
    for host, rank in (("node1", 0), ("node2", 1)):
        words = "OSError: [Errno 28] No space left on device"
        assert attack(run, f"echo {shlex.quote(words)} >> logs/rank-{rank}.log", host) == 0
    attack(run, "head -c 2G /dev/zero | tail -c 2G > /dev/null", "node2")
    attack(run, "head -c 1G /dev/zero > /dev/shm/filler", "node2")
    check_blamed(run, run.finish(), "container_out_of_memory")
    assert make("train", **SHORTEST).status == 0
