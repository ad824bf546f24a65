"""Commands in this process, on nodes that stand in for Ansible and machines.

A node is a folder, as it is to the playbooks of `data/checkout`, and what these playbooks do to it
is done here, with the same events. `test_train.py` shows that the real ones lead to the same.
"""

import contextlib
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import yaml
from yard_command import DATA, Yard, wait_for

from yard.cli import main
from yard.core.context import Context
from yard.core.project import Project
from yard.plays.events import Event, FailureRecord, HostStats, Outcome, parse_event
from yard.plays.play import fresh_log

JOB = runpy.run_path(str(DATA / "checkout/roles/training_run/files/job.py"))
LOAD = {
    **{"cpu_percent": 61.5, "cores": 8, "memory_used_bytes": 4 * 10**9, "memory_bytes": 16 * 10**9},
    **{"disk_free_bytes": 71 * 10**9, "disk_bytes": 270 * 10**9, "gpus": []},
}
# Steps of a job between two polls.
STEPS = 10
Result = Mapping[str, Any]


class KilledError(BaseException):
    """In the middle of a command: nothing of it is done any more."""


class YardHere(Yard):
    """Runs `yard` in this process.

    Attributes:
        during: what happens meanwhile, by the name of a task: one thing after each of its events.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.during: dict[str, list[Callable[[], object]]] = {}
        self._jobs: dict[Path, Iterator[int]] = {}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        said, errors = io.StringIO(), io.StringIO()
        nodes = StandInNodes(self.during, self._jobs)
        with (
            contextlib.chdir(self.root),
            mock.patch.dict(os.environ, self.environment, clear=True),
            mock.patch.object(sys, "stdin", io.StringIO()),
            mock.patch.object(sys, "argv", ["yard", *arguments]),
            mock.patch("yard.plays.play.run_playbook", nodes.run_playbook),
            mock.patch("yard.plays.inventory.recall", read_plainly),
            mock.patch("yard.operations.beside.start_beside", self._beside),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(errors),
        ):
            try:
                status = main(arguments)
            except SystemExit as exit_:  # of the parser of arguments
                status = int(exit_.code or 0)
        command = self.command(*arguments)
        return subprocess.CompletedProcess(command, status, said.getvalue(), errors.getvalue())

    def _beside(self, context: Context, log: str, *words: str, **variables: str) -> "_Ended":
        """Do what a command does that is started beside another one, at once."""
        with mock.patch.dict(self.environment, variables):
            done = self(*words)
        path = fresh_log(context, log)
        path.write_text(done.stdout + done.stderr)
        return _Ended(done.returncode)

    def start(self, *arguments: str) -> NoReturn:
        raise NotImplementedError("a command in this process has ended when it returns")


@dataclass
class _Ended:
    """A process that has ended."""

    status: int

    def poll(self) -> int:
        return self.status


def read_plainly(project: Project, inventory: Path) -> Mapping[str, Any]:
    """What ansible-inventory would print of a folder with plain files, as in `data/checkout`."""
    variables = project.root / "group_vars/all.yml"
    site = _read_yaml(variables) if variables.exists() else {}
    groups: dict[str, dict[str, None]] = {}
    hostvars: dict[str, dict[str, Any]] = {}
    for path in sorted(inventory.glob("*.yml")):
        for group, entry in _read_yaml(path).items():
            members = groups.setdefault(group, {})
            for host, own in (entry.get("hosts") or {}).items():
                members[host] = None
                hostvars[host] = {**site, **entry.get("vars", {}), **(own or {})}
    document = {group: {"hosts": list(hosts)} for group, hosts in groups.items()}
    return {**document, "_meta": {"hostvars": hostvars}}


def _read_yaml(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
    return document


@dataclass
class StandInNodes:
    """Runs the playbooks of a checkout whose nodes are folders."""

    during: dict[str, list[Callable[[], object]]] = field(default_factory=dict)
    jobs: dict[Path, Iterator[int]] = field(default_factory=dict)
    # Gets events in ansible-runner's own form.
    take_raw: Callable[[Mapping[str, Any]], None] = lambda raw: None

    def run_playbook(
        self,
        project: Project,
        playbook: Path,
        inventory: Path,
        extravars: Mapping[str, Any],
        log: Path,
        on_event: Callable[[Event], None],
        cancelled: Callable[[], bool] = lambda: False,
        limit: Sequence[str] = (),
    ) -> Outcome:
        """See `yard.plays.playbook.run_playbook`."""
        plays: Callable[[_Playbook], None] = getattr(self, playbook.stem)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            running = _Playbook(
                *(project, inventory, extravars, limit, file, on_event, cancelled, self.during),
                self.take_raw,
            )
            try:
                plays(running)
            except _CancelledError:
                return Outcome("cancelled", running.failures.fatal_failures(), {})
            return running.end()

    def site(self, running: "_Playbook") -> None:
        makers = running.hosts("container_hosts")
        if makers:
            running.play("Bring up the local cluster", makers)
            running.task("Write the nodes", running.write_nodes)
        running.play("Prepare the nodes", running.hosts("trainers"))
        running.task("Obey a breakage that a test asks for", running.break_setup)
        running.task(
            "Say what people have to know",
            lambda host: {"msg": f"reboot required on {host}"} if host == "beta" else None,
            action="debug",
        )
        running.task("Make the node's directory", running.make_folder)
        running.play("Deliver the trainer image", running.active)
        running.task("Send it", lambda host: {})

    local_up = site

    def local_down(self, running: "_Playbook") -> None:
        running.play("Take the local cluster down", running.hosts("container_hosts"))
        (running.inventory / "nodes.yml").unlink(missing_ok=True)
        running.task("Remove the nodes", lambda host: {"changed": True})

    def data(self, running: "_Playbook") -> None:
        running.play("Put it on the nodes", running.hosts("trainers"), asks_plugs=True)
        source = running.variables.get("dataset_source", "the archive")
        name = running.variables["dataset_name"]
        running.task("Write the data set", running.writing(name, lambda host: f"from {source}\n"))
        running.task("Obey a breakage that a test asks for", running.break_data)
        running.task(
            *("Check what came", lambda host: {"verb": "settle_data", "answer": {"files": 1}}),
            role="dataset",
            action="training_node",
        )

    def trainer_image(self, running: "_Playbook") -> None:
        running.play("Deliver the trainer image", running.hosts("trainers"), asks_plugs=True)
        file = running.project.root / "docker/trainer/bin/rank"
        if not file.is_file():
            failure = {"failed": True, "msg": f"could not locate file in lookup: {file}"}
            running.task("Write the image", lambda host: failure)
        else:
            running.task("Write the image", running.writing("image", lambda host: file.read_text()))

    def packages_image(self, running: "_Playbook") -> None:
        running.play("Bring it to the nodes", running.hosts("trainers"), asks_plugs=True)
        line = str(running.variables["training_run_packages"])

        def note(host: str) -> Result:
            packages = running.node(host) / "packages"
            if packages.is_dir():
                return {"failed": True, "msg": f"{packages} is a folder"}
            known = packages.read_text().splitlines() if packages.exists() else []
            if line in known:
                return {}
            packages.write_text("".join(f"{entry}\n" for entry in (*known, line)))
            return {"changed": True}

        running.task("Note what the image has", note)
        running.task("Note each delivery", running.adding("deliveries", "once\n"))

    def remove(self, running: "_Playbook") -> None:
        running.play("Remove roles from the nodes", running.hosts("trainers"), asks_plugs=True)
        asked = [running.variables["remove_roles"], *running.variables.get("remove_datasets", ())]
        running.task(
            "Note what was asked for", running.writing("removed", lambda _: " ".join(asked))
        )

    def rotate_keys(self, running: "_Playbook") -> None:
        running.play("Give the training user new keys on all nodes", running.hosts("trainers"))
        running.task("Note that it was asked for", running.writing("rotated", lambda host: ""))

    def clean_up(self, running: "_Playbook") -> None:
        running.play("Look for what nothing needs any more", running.hosts("trainers"))

        def look(host: str) -> Result:
            if (running.node(host) / "broken").exists():
                return {"failed": True, "msg": "there is no room"}
            told = running.variables["clean_up_remove"]
            (running.project.root / "removed").write_text(f"{told}\n")
            known = [
                ("image", "trainyard/trainer:now", 10**9, "current"),
                ("image", "trainyard/trainer:old", 10**9, None),
                ("run", "bench-20260101T000000Z", None, "goes_on"),
                ("run", "verify-20260101T000000Z", None, "not_home"),
                ("process", "apt-get (pid 12), since 2026-01-01 00:00 UTC", None, "installs"),
            ]
            names = ("kind", "name", "bytes", "kept")
            found = [dict(zip(names, entry, strict=True)) for entry in known]
            return {"found": found, "removed": [], "trouble": ""}

        running.task("Look", look, role="training_node", action="clean_up", ignore_errors=True)

    def status(self, running: "_Playbook") -> None:
        running.play("Tell what runs where", running.hosts("trainers"), asks_plugs=True)

        def look(host: str) -> Result:
            file = running.node(host) / "status.json"
            said = json.loads(file.read_text()) if file.exists() else {}
            if "failed" in said:
                return dict(said)
            answer = {"runs": [], "load": LOAD, "time": time.time()}
            answer |= {"apt": None, "trouble": None, **said}
            return {"verb": "status", "answer": answer}

        running.task(
            *("Look what runs here", look),
            role="training_node",
            action="training_node",
            ignore_errors=True,
            ignore_unreachable=True,
        )

    def train(self, running: "_Playbook") -> None:
        _Training(running, self.jobs).launch()

    def attach(self, running: "_Playbook") -> None:
        running.play("Attach to a run", running.hosts("trainers"))
        training = _Training(running, self.jobs)
        training.follow(running.variables["training_run_nodes"][0])
        training.stop()

    def verify(self, running: "_Playbook") -> None:
        running.play("Verify the cluster", running.hosts("trainers"))
        run_id = Path(running.variables["cluster_check_directory"]).name
        more = {"training_run_id": run_id, "training_run_options": {"steps": 600}}
        running.variables = {**running.variables, **more}
        running.task(
            *("Run programs over all nodes", lambda host: {}),
            role="cluster_check",
            file="containers",
        )
        training = _Training(running, self.jobs)
        training.take()
        training.start_ranks(running.active[0])
        training.follow(running.active[0])

    def bundle(self, running: "_Playbook") -> None:
        running.play("Make a bundle", ["localhost"])
        names = ("bundle_releases", "bundle_datasets")
        told = ", ".join(" ".join(running.variables[name]) for name in names)
        archive = Path(running.variables["bundle_archive"])
        running.task("Write it", lambda host: {"changed": bool(archive.write_text(f"{told}\n"))})

    def stop(self, running: "_Playbook") -> None:
        running.play("Stop a run", running.hosts("trainers"), asks_plugs=True)
        _Training(running, self.jobs).stop()


class _CancelledError(Exception):
    """The playbook was ended."""


@dataclass
class _Playbook:
    """A playbook that runs, with what its tasks share."""

    project: Project
    inventory: Path
    variables: Mapping[str, Any]
    limit: Sequence[str]
    log: io.TextIOBase
    on_event: Callable[[Event], None]
    cancelled: Callable[[], bool]
    during: dict[str, list[Callable[[], object]]]
    take_raw: Callable[[Mapping[str, Any]], None]
    active: list[str] = field(default_factory=list)
    asks_plugs: bool = False
    failures: FailureRecord = field(default_factory=FailureRecord)
    _name: str = ""
    _counts: dict[str, Counter[str]] = field(default_factory=dict)

    def hosts(self, group: str) -> list[str]:
        document = read_plainly(self.project, self.inventory)
        hosts: list[str] = document.get(group, {}).get("hosts", [])
        return [host for host in hosts if not self.limit or host in self.limit]

    def node(self, host: str) -> Path:
        return self.project.root / "nodes" / host

    def play(self, name: str, hosts: Sequence[str], asks_plugs: bool = False) -> None:
        """Begin a play.

        Args:
            asks_plugs: whether a node that a test has unplugged does not answer.
        """
        self._name, self.active, self.asks_plugs = name, list(hosts), asks_plugs
        self._emit("playbook_on_play_start", {"name": name}, f"PLAY [{name}]")

    def task(
        self,
        name: str,
        does: Callable[[str], Result | None],
        *,
        hosts: Sequence[str] | None = None,
        role: str = "",
        file: str = "main",
        action: str = "",
        ignore_errors: bool = False,
        ignore_unreachable: bool = False,
    ) -> dict[str, Result]:
        """Run a task on hosts that have not failed; returns what each answered.

        Args:
            does: returns what a host answers, or None where the task is left out there.
        """
        of_task = {
            "task": name,
            "role": role,
            "task_action": action or "command",
            "play": self._name,
        }
        of_task["task_path"] = (
            f"{self.project.root}/roles/{role}/tasks/{file}.yml:1" if role else ""
        )
        shown = f"{role} : {name}" if role else name
        self._emit("playbook_on_task_start", of_task, f"TASK [{shown}]")
        answers = {}
        for host in [host for host in self.active if hosts is None or host in hosts]:
            counts = self._counts.setdefault(host, Counter())
            unplugged = self.asks_plugs and (self.node(host) / "unplugged").exists()
            result = {"msg": "Failed to connect to the host"} if unplugged else does(host)
            if result is None:
                continue
            failed = bool(result.get("failed"))
            kind = "unreachable" if unplugged else "failed" if failed else "ok"
            ignored = ignore_unreachable if unplugged else failed and ignore_errors
            answers[host] = result
            data = {**of_task, "host": host, "res": dict(result), "ignore_errors": ignored or None}
            if unplugged:
                data["ignore_errors"] = None
            counts["ok" if ignored else kind] += 1
            counts["changed"] += bool(result.get("changed"))
            if kind != "ok" and not ignored:
                self.active.remove(host)
            self._emit(f"runner_on_{kind}", data, f"{kind}: [{host}] {result.get('msg', '')}")
        return answers

    def event(self, kind: str, host: str, name: str, action: str, result: Result) -> None:
        """Tell of a task that goes on."""
        data = {"task": name, "task_action": action, "host": host, "res": dict(result)}
        self._emit(kind, {**data, "play": self._name}, "")

    def end(self) -> Outcome:
        stats = {
            host: HostStats(
                counts["ok"], counts["changed"], counts["failed"], counts["unreachable"]
            )
            for host, counts in self._counts.items()
        }
        self.failures.stats = stats
        failures = self.failures.fatal_failures()
        return Outcome("failed" if failures else "successful", failures, stats)

    def _emit(self, kind: str, data: Mapping[str, Any], text: str) -> None:
        if self.cancelled():
            raise _CancelledError
        raw = {"event": kind, "event_data": data, "received_at": time.time()}
        self.take_raw(raw)
        event = parse_event(raw)
        self.failures.take(event, data)
        self.log.write(f"{text}\n" if text else "")
        self.log.flush()
        self.on_event(event)
        happens = self.during.get(event.task)
        if happens:
            happens.pop(0)()

    def writing(self, name: str, text: Callable[[str], str]) -> Callable[[str], Result]:
        """A task that writes a file of the node."""

        def write(host: str) -> Result:
            file = self.node(host) / name
            if file.exists() and file.read_text() == text(host):
                return {}
            file.write_text(text(host))
            return {"changed": True}

        return write

    def adding(self, name: str, text: str) -> Callable[[str], Result]:
        """A task that adds to a file of the node."""

        def add(host: str) -> Result:
            with (self.node(host) / name).open("a") as file:
                file.write(text)
            return {"changed": True}

        return add

    def write_nodes(self, host: str) -> Result:
        document = read_plainly(self.project, self.inventory)
        size = self.variables.get(
            "local_cluster_size", document["_meta"]["hostvars"][host]["local_cluster_size"]
        )
        names: dict[str, Any] = {f"node{number}": {} for number in range(1, int(size) + 1)}
        for node in names:  # one that does not answer is made anew
            (self.node(node) / "unplugged").unlink(missing_ok=True)
        text = yaml.safe_dump({"trainers": {"hosts": names}})
        file = self.inventory / "nodes.yml"
        if file.exists() and file.read_text() == text:
            return {}
        file.write_text(text)
        return {"changed": True}

    def break_setup(self, host: str) -> Result:
        said = read_plainly(self.project, self.inventory)["_meta"]["hostvars"][host]
        if said.get("break_setup") == host:
            return {"failed": True, "msg": f"the disk of {host} is upside down"}
        return {}

    def break_data(self, host: str) -> Result:
        if (self.node(host) / "broken").exists():
            return {"failed": True, "msg": "the disk gives errors"}
        return {}

    def make_folder(self, host: str) -> Result:
        if self.node(host).is_dir():
            return {}
        self.node(host).mkdir(parents=True)
        return {"changed": True}


class _Training:
    """Role training_run."""

    def __init__(self, running: _Playbook, jobs: dict[Path, Iterator[int]]) -> None:
        self.running, self.jobs = running, jobs
        self.variables = running.variables
        self.options: Mapping[str, Any] = running.variables.get("training_run_options", {})

    def folder(self, host: str) -> Path:
        return self.running.node(host) / str(self.variables["training_run_id"])

    def launch(self) -> None:
        running = self.running
        running.play("Train", running.hosts("trainers"))
        nodes = self.check()
        if nodes is None:
            return
        running.active = list(nodes)
        self.take()
        self.part("start", "Start the containers", lambda host: {"changed": True})
        self.start_ranks(nodes[0])
        status = self.follow(nodes[0])
        self.stop()
        if status:
            message = f"The run ended with status {status}."
            self.part("main", "Give the run's verdict", lambda _: {"failed": True, "msg": message})

    def part(
        self, file: str, name: str, does: Callable[[str], Result | None], action: str = ""
    ) -> dict[str, Result]:
        return self.running.task(name, does, role="training_run", file=file, action=action)

    def check(self) -> list[str] | None:
        running = self.running
        self.part("check", "Look at the node", lambda host: {})
        count = int(self.variables["training_run_node_count"])
        chosen = running.active[:count]
        problems = [problem for host in chosen for problem in self._problems(host)]
        result: dict[str, Any] = {"nodes": chosen}
        if problems:
            lines = [f"{problem['host']}: {problem['text']}" for problem in problems]
            first = f"Too few nodes: {count} needed, 0 fit. Nothing was started."
            result = {"failed": True, "msg": "\n".join([first, *lines]), "problems": problems}
        running.task(
            *("Choose the nodes", lambda host: result),
            hosts=chosen[:1],
            role="training_run",
            file="check",
            action="training_run_choose",
        )
        return None if problems else chosen

    def _problems(self, host: str) -> Iterator[dict[str, Any]]:
        def problem(code: str, text: str) -> dict[str, Any]:
            return {"code": code, "values": {}, "text": text, "host": host}

        node, dataset = self.running.node(host), self.variables.get("training_run_dataset") or ""
        # Of other machines' data yard knows nothing.
        ours = "container_hosts" in read_plainly(self.running.project, self.running.inventory)
        if not node.is_dir():
            yield problem("no_directory", f"there is no {node}: run make setup")
        if ours and dataset and not dataset.startswith("/") and not (node / dataset).exists():
            yield problem("dataset_missing", f"it does not hold {dataset}")
        if (node / "held").exists():
            yield problem("held", "it is held by run other of ada@desk since 12:00")
        packages = self.variables.get("training_run_packages")
        file = node / "packages"
        if packages and not (file.exists() and packages in file.read_text().splitlines()):
            yield problem("image_missing", "it does not hold the image trainer")

    def take(self) -> None:
        self.part("take", "Take the nodes", self._take, action="training_node_take")

    def _take(self, host: str) -> Result:
        (self.folder(host) / "logs").mkdir(parents=True)
        first = 0 if host == "node1" else 1
        wanted = int(self.variables.get("training_run_gpus_per_node") or 0)
        gpus = [
            {"index": number, "uuid": f"GPU-{number}"} for number in range(first, first + wanted)
        ]
        return {"changed": True, "gpus": gpus, "port": 2222 + first}

    def start_ranks(self, launcher: str) -> None:
        directory = self.folder(launcher)

        def start(host: str) -> Result:
            command = self.variables.get("training_run_command")
            fate = self.options.get("fate", command or "success")
            steps = int(self.options.get("steps", 600 if command else 20))
            self.jobs[directory] = JOB["train"](directory, fate, steps)
            return {"changed": True}

        self.running.task(
            *("Start the ranks", start), hosts=[launcher], role="training_run", file="follow"
        )

    def follow(self, launcher: str) -> int:
        """Follow the job to its end; returns its status."""
        directory = self.folder(launcher)
        name, action = "Follow the run", "poll"
        for step in self.jobs.get(directory, ()):
            if (directory / "exit_status").exists():  # it was stopped
                break
            if step % STEPS == 1:
                self.running.event("runner_retry", launcher, name, action, self._poll(directory))
        wait_for((directory / "exit_status").exists, "the end of a job that Ansible has begun")
        last = self.running.task(
            *(name, lambda host: self._poll(directory)),
            hosts=[launcher],
            role="training_run",
            file="follow",
            action=action,
        )
        return int(last[launcher]["exit_status"])

    def _poll(self, directory: Path) -> Result:
        status = directory / "exit_status"
        lines = (directory / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        steps = [record for record in records if record.get("event") == "step"]
        return {
            "state": "finished" if status.exists() else "running",
            "exit_status": int(status.read_text()) if status.exists() else None,
            "metrics": [record for record in records if record.get("event") != "step"] + steps[-1:],
            **{"began": True, "checkpoints": 0.0, "events": 0.0, "silences": []},
            **{"output": {"offset": 0, "text": ""}, "log_offset": 0},
        }

    def stop(self) -> None:
        def end(host: str) -> Result:
            folder = self.folder(host)
            if not folder.is_dir():
                return {}
            job_left = folder / "world.json"
            if job_left.exists() and not (folder / "exit_status").exists():
                JOB["finish"](folder, 130)
            (folder / "nodes" / host).mkdir(parents=True, exist_ok=True)
            (folder / "nodes" / host / "container.json").write_text("{}\n")
            home = Path(self.variables["training_run_collect_dir"])
            try:
                shutil.copytree(folder, home, dirs_exist_ok=True)
            except OSError as error:
                return {"failed": True, "msg": str(error)}
            return {"changed": True}

        self.part("stop", "End the job and bring home what it left", end)
