"""Playbooks through the real ansible-runner: events, failures, cancellation."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from yard_command import REPOSITORY, processes_below, wait_for

from yard.core.context import Context
from yard.core.errors import Interrupted
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import setup
from yard.operations.setup import run_operation
from yard.plays.events import Event, Outcome, TaskFailure, failure_message, parse_event
from yard.plays.leftovers import clear_leftovers, private_folder
from yard.plays.playbook import run_playbook
from yard.screen.failures import show_failures

# Says at its fifth look that the end is there.
POLL_MODULE = """
from pathlib import Path
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"looks": {"type": "path"}})
looks = Path(module.params["looks"])
with looks.open("a") as file:
    file.write("look\\n")
finished = len(looks.read_text().splitlines()) >= 5
module.exit_json(changed=False, state="finished" if finished else "running", metrics=[{"step": 1}])
"""

# Both hosts' commands work in the folder of the playbook, where a test finds them.
SLEEP = """\
    - name: Sleep
      ansible.builtin.command: sleep 600
      args:
        chdir: '{{ playbook_dir }}'
"""


def lab(console: Console) -> Context:
    """A command on an inventory of somebody's own."""
    return Context(
        Project(Path("/checkout")), Path("/checkout/inventory/lab"), console, Interrupts()
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


def make_project(folder: Path) -> Project:
    (folder / "library").mkdir()
    (folder / "library/slow_poll.py").write_text(POLL_MODULE)
    (folder / "ansible.cfg").write_text("[defaults]\nlocal_tmp = .ansible\n")
    (folder / "hosts.yml").write_text(
        "all:\n  hosts: {alpha: , beta: }\n"
        f"  vars: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}\n"
    )
    return Project(folder)


class Play:
    """Runs a play of the given tasks and keeps its events."""

    def __init__(self, project: Project, tasks: str) -> None:
        self.project = project
        self.events: list[Event] = []
        self.playbook = project.root / "play.yml"
        self.log = project.root / "log/ansible.log"
        head = "- name: Try\n  hosts: all\n  gather_facts: false\n  tasks:\n"
        self.playbook.write_text(head + tasks)

    def run(self, stop_after: float | None = None, **extravars: object) -> Outcome:
        began = time.monotonic()
        return run_playbook(
            self.project,
            self.playbook,
            self.project.root / "hosts.yml",
            extravars,
            self.log,
            self.events.append,
            lambda: stop_after is not None and time.monotonic() - began > stop_after,
        )


TASKS = """
    - name: Show
      ansible.builtin.debug:
        msg: "{{ [plain, listed, nested.deep, number] }}"
      run_once: true
    - name: Ping
      ansible.builtin.command: "true"
      when: inventory_hostname == 'gamma'
    - name: Follow
      slow_poll: {looks: '{{ playbook_dir }}/{{ inventory_hostname }}'}
      register: polled
      until: polled.state == 'finished'
      retries: 1000
      delay: 0.5
    - name: Try
      block:
        - name: First way
          ansible.builtin.fail: {msg: first}
      rescue:
        - name: Second way
          ansible.builtin.fail: {msg: second}
          when: inventory_hostname == 'alpha'
    - name: Harmless
      ansible.builtin.fail: {msg: harmless}
      ignore_errors: true
    - name: Break
      ansible.builtin.fail: {msg: "it is \\e[31mred\\e[0m"}
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Play, Outcome, list[Any]]:
    """A play in which something fails, how it ended, and variables that look like templates."""
    project = make_project(tmp_path_factory.mktemp("played"))
    with (project.root / "hosts.yml").open("a") as file:
        file.write("gone:\n  hosts:\n    gamma: {ansible_connection: ssh, ansible_host: 0.0.0.0, "
                   "ansible_port: 1}\n")  # fmt: skip
    command = f"touch {project.root / 'executed'}"
    words = f"{{{{ lookup('pipe', '{command}') }}}} {{% for x in y %}} {{# #}}"
    given: dict[str, Any] = {"plain": words, "listed": [words], "nested": {"deep": (words,)}}
    play = Play(project, TASKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_API_KEY", "a-secret-value")
        outcome = play.run(**given, number=2, password="hush-hush")
    return play, outcome, [words, [words], [words], 2]


@pytest.mark.process
def test_no_variable_is_a_template_and_the_environment_is_not_kept(
    played: tuple[Play, Outcome, list[Any]],
) -> None:
    play, _, variables = played
    (said,) = [
        event for event in play.events if (event.kind, event.task) == ("runner_on_ok", "Show")
    ]
    assert said.result["msg"] == variables
    root = play.project.root
    assert not (root / "executed").exists()
    for path in root.rglob("*"):
        if path.is_file() and path.name != "ansible.cfg":
            text = path.read_text(errors="replace")
            assert "a-secret-value" not in text
            assert "hush-hush" not in text


@pytest.mark.process
def test_polls_arrive_while_the_task_runs(played: tuple[Play, Outcome, list[Any]]) -> None:
    play, outcome, _ = played
    polls = [event for event in play.events if event.kind == "runner_retry"]
    assert len(polls) == 2 * 4
    assert polls[0].task == "Follow"
    assert polls[0].host in ("alpha", "beta")
    assert polls[0].result["metrics"] == [{"step": 1}]
    (last,) = [
        event
        for event in play.events
        if (event.kind, event.task, event.host) == ("runner_on_ok", "Follow", polls[0].host)
    ]
    assert last.received_at - polls[0].received_at > 1, "the polls came all at once, at the end"
    # Of beta: Follow, and Harmless, whose failure is ignored.
    assert outcome.stats["beta"].ok == 2


@pytest.mark.process
def test_failures_are_told_and_those_that_are_rescued_or_ignored_are_not(
    played: tuple[Play, Outcome, list[Any]],
) -> None:
    play, outcome, _ = played
    assert outcome.status == "failed"
    told = {failure.host: failure for failure in outcome.failures}
    assert len(told) == len(outcome.failures) == 3
    assert (told["alpha"].task, told["alpha"].message) == ("Second way", "second")
    assert (told["beta"].task, told["beta"].unreachable) == ("Break", False)
    assert "red" in told["beta"].message
    assert "\033" not in play.log.read_text()
    assert "TASK [Break]" in play.log.read_text()
    assert told["gamma"].unreachable
    assert told["gamma"].message.startswith("ssh: ")


@pytest.mark.process
def test_a_syntax_error_is_a_failure_too(project: Project) -> None:
    outcome = Play(project, "    - name: Oops\n      no.such.module:\n").run()
    assert outcome.status == "failed"
    assert "no.such.module" in outcome.failures[0].message


@pytest.mark.process
@pytest.mark.parametrize("stop_after", [0.0, 1.2])
def test_cancelling_ends_ansible_its_workers_and_their_commands(
    project: Project, stop_after: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first event, and while workers start.

    In the middle of a command: see test_ansible_ends_where_nobody_takes_its_events.
    """
    play = Play(project, SLEEP)
    # A place of its own: others make temporary files at the same time.
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    # It ends by itself, not because patience with it is over.
    monkeypatch.setattr("yard.plays.playbook.CANCEL_GRACE", 120.0)
    began = time.monotonic()
    outcome = play.run(stop_after=stop_after)
    assert outcome.status == "cancelled"
    # Its commands take ten minutes.
    assert time.monotonic() - began < stop_after + 60
    wait_for(lambda: sleepers_in(project.root) == [], "the workers' commands to end", 20)
    wait_for(lambda: processes_below(project.root) == [], "its processes to end", 10)
    assert list(temporary.iterdir()) == []


def sleepers_in(folder: Path) -> list[str]:
    """Processes that work in a folder, this one aside."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder) and int(process.name) != os.getpid():
                found.append((process / "cmdline").read_text())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or is not ours
    return found


def command_line(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@pytest.mark.process
def test_ansible_ends_where_nobody_takes_its_events(project: Project) -> None:
    play = Play(project, SLEEP)

    def closed_pipe(event: Event) -> None:
        if event.kind == "runner_on_start":
            raise BrokenPipeError

    hosts = project.root / "hosts.yml"
    with pytest.raises(BrokenPipeError):
        run_playbook(project, play.playbook, hosts, {}, play.log, closed_pipe)
    wait_for(lambda: sleepers_in(project.root) == [], "the workers' commands to end", 20)
    wait_for(lambda: processes_below(project.root) == [], "its processes to end", 10)


@pytest.mark.process
def test_no_worker_outlives_an_ansible_that_was_killed(project: Project) -> None:
    """Nor one that was forked at the moment of a signal: nobody is left to tell it."""
    play = Play(project, SLEEP)

    def kill_ansible() -> None:
        wait_for(lambda: sleepers_in(project.root).count("sleep\x00600\x00") == 2, "both commands")
        threads = Path("/proc/self/task").glob("*/children")
        children = [int(pid) for thread in threads for pid in thread.read_text().split()]
        (ansible,) = (pid for pid in children if str(play.playbook) in command_line(pid))
        os.kill(ansible, signal.SIGKILL)

    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_ansible)
        outcome = play.run(stop_after=60)
        killed.result()
    assert outcome.status == "failed"
    wait_for(lambda: sleepers_in(project.root) == [], "the workers' commands to end", 20)
    wait_for(lambda: processes_below(project.root) == [], "its processes to end", 10)


def test_what_others_put_beside_it_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory for temporary files is everybody's."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (temporary / "trainyard-play-file").touch()
    (temporary / "trainyard-play-link").symlink_to(elsewhere)
    os.mkfifo(temporary / "trainyard-play-pipe")
    foreign = temporary / "trainyard-play-"
    foreign.mkdir()
    if os.getuid() == 0:
        os.chown(foreign, 65534, 65534)
    dead = temporary / "trainyard-play-dead"
    dead.mkdir()
    for path in temporary.iterdir():
        os.utime(path, (0, 0), follow_symlinks=False)
    before = set(os.listdir(temporary)) - {dead.name}
    # Its name is the beginning of every other one, so that of the folder that Ansible works with.
    clear_leftovers()
    with private_folder() as private:
        assert Path(private).name.startswith(foreign.name)
    assert set(os.listdir(temporary)) - {foreign.name} == before - {foreign.name}
    assert foreign.is_dir() == (os.getuid() == 0)
    assert elsewhere.is_dir()


def test_a_message_comes_from_whatever_a_module_says() -> None:
    assert failure_message({"msg": "no"}) == "no"
    assert failure_message({"msg": "non-zero return code", "stderr": "boom"}).endswith("boom")
    items = [{"failed": True, "msg": "one"}, {"failed": False, "msg": "fine"}]
    assert failure_message({"msg": "All items completed", "results": items}) == "one"
    assert failure_message({}) == "the task failed without a message"


@pytest.mark.process
def test_a_build_that_goes_on_by_itself_is_ended_with_its_command(project: Project) -> None:
    playbooks = project.root / "playbooks"
    playbooks.mkdir()
    shutil.copy(REPOSITORY / "playbooks/trainer_image_end.yml", playbooks)
    (playbooks / "trainer_image.yml").write_text(
        "- name: Build\n  hosts: localhost\n  gather_facts: false\n  tasks:\n"
        + SLEEP.replace("sleep 600", "tail --follow {{ playbook_dir }}/trainer_image.yml")
        + "      async: 700\n      poll: 0\n"
        + "- name: Meanwhile\n  hosts: alpha\n  gather_facts: false\n  tasks:\n"
        + SLEEP
    )
    inventory = project.root / "hosts.yml"
    inventory.write_text(
        inventory.read_text().replace("{ansible_conn", "{ansible_become: false, ansible_conn")
    )
    screen, interrupts = io.StringIO(), Interrupts()
    context = Context(project, inventory, Console(file=screen), interrupts)

    def building() -> bool:
        return any("tail --follow" in line for line in processes_below(playbooks))

    bystanders: list[subprocess.Popen[bytes]] = []

    def take(event: Event) -> None:
        if "ansible_job_id" in event.result and not bystanders:
            job = event.result["ansible_job_id"].partition(".")[0]
            command = ["sh", "-c", f"JOB={job} sleep 600; :"]
            bystanders.append(subprocess.Popen(command, start_new_session=True))
        if event.play == "Meanwhile":
            wait_for(building, "the build")
            interrupts.request()

    with pytest.raises(Interrupted) as ended:
        run_operation(context, "trainer_image", {}, take=take)
    assert str(ended.value).endswith('. On alpha this may go on to its end: "Sleep"')
    wait_for(lambda: not building(), "the end of the build")
    assert "The build of the image was ended" in screen.getvalue()
    (bystander,) = bystanders
    assert bystander.poll() is None
    os.killpg(bystander.pid, signal.SIGKILL)
    bystander.wait()


@pytest.mark.process
def test_a_build_that_has_no_group_of_its_own_yet_is_ended_too() -> None:
    """As on a busy machine, where a job starts before its supervisor has made the group."""
    supervised = ["sh", "-c", 'sh -c "sleep 600; :" supervisor "$JOB" & wait']
    known = {**os.environ, "JOB": "j1234"}
    (play,) = yaml.safe_load((REPOSITORY / "playbooks/trainer_image_end.yml").read_text())
    job = subprocess.Popen(supervised, env=known, start_new_session=True)
    try:
        wait_for(Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text, "the supervisor")
        command = ["sh", "-c", play["tasks"][0]["ansible.builtin.shell"]]
        subprocess.run(command, env=known, check=True)
        assert job.wait(10) == -signal.SIGTERM
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def test_a_build_that_has_ended_is_not_ended_once_more() -> None:
    jobs: set[str] = set()
    job = {"ansible_job_id": "j1.2"}
    for result in ({"started": True, "finished": False}, {"finished": True}, {"erased": "/j1.2"}):
        event = Event("runner_on_ok", 0.0, host="localhost", result={**job, **result})
        setup._note_job(jobs, event)
        assert bool(jobs) is ("started" in result)


def test_who_keeps_apt_busy_is_said() -> None:
    told = {"verb": "site", "answer": {"changed": False, "apt": "unattended-upgr (pid 8)"}}
    raw = {"event": "runner_on_ok", "received_at": 0.0}
    about = {"host": "gpu01", "task_action": "training_node", "res": told}
    event = parse_event({**raw, "event_data": about})
    assert setup.wait_for_apt(event) == (
        "gpu01: unattended-upgr (pid 8) has apt's lock; what is installed waits for it"
    )
    told["answer"] = {"changed": False, "apt": ""}
    assert setup.wait_for_apt(parse_event({**raw, "event_data": about})) == ""


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            "protocol version mismatch -- is your shell clean?\n(see",
            "make doctor INVENTORY=inventory/lab names the remedy",
        ),
        (
            "bash: line 1: rsync: command not found\n(error)",
            "never set up, or rsync was removed",
        ),
    ],
)
def test_where_files_do_not_arrive_the_remedy_is_said(words: str, remedy: str) -> None:
    failure = TaskFailure("gpu01", "Copy the files", "dataset", "", words, unreachable=False)
    console = Console(width=100, record=True, file=io.StringIO())
    show_failures(lab(console), Outcome("failed", (failure,), {}))
    assert remedy in console.export_text()


def test_a_remedy_is_for_the_inventory_that_was_asked() -> None:
    """A run knows its own, whatever the command that stops it was given."""
    failure = TaskFailure("gpu01", "End it", "training_run", "", "make setup", unreachable=False)
    console = Console(width=100, record=True, file=io.StringIO())
    context = lab(console)
    outcome = Outcome("failed", (failure,), {})
    show_failures(context, outcome, context.project.root / "inventory/other")
    assert console.export_text().endswith("    make setup INVENTORY=inventory/other\n")


def test_what_several_hosts_say_alike_is_said_once() -> None:
    """As `make rotate-keys` does where a node is missing: each of the others refuses."""
    failures = tuple(
        TaskFailure(host, "Check that all take part", "ssh_trust", "", message, unreachable=False)
        for host, message in (("a", "Missing: d"), ("b", "no room"), ("c", "Missing: d"))
    )
    console = Console(width=100, record=True, file=io.StringIO())
    show_failures(lab(console), Outcome("failed", failures, {}))
    assert console.export_text().splitlines() == [
        "a, c  ssh_trust : Check that all take part",
        "    Missing: d",
        "b  ssh_trust : Check that all take part",
        "    no room",
    ]
