"""Asks every host of an inventory at the same time, and finds the first thing that is wrong."""

import getpass
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Semaphore

import yaml

from yard.contact.causes import Trouble
from yard.contact.look import (
    BEGIN,
    Expectation,
    Run,
    ask,
    becoming,
    parse_facts,
    trouble_of_state,
    trouble_of_system,
    trouble_with_root,
    trouble_with_shell,
)
from yard.contact.report import HostReport
from yard.contact.ssh import COMMAND_SECONDS, Answer, Settings, run_ssh, settings_of
from yard.contact.way import last_lines, trouble_at, trouble_at_bastions, values_of
from yard.core.errors import Interrupted
from yard.core.project import Project
from yard.plays.connections import Connection, Connections
from yard.plays.fingerprint import inventory_files

# Hosts that are asked at the same time.
PARALLEL = 64
# Those of them by one bastion: an sshd drops some where more than ten have not logged in yet
# (MaxStartups).
BY_BASTION = 8
# How often the user's wish to stop is looked at, in seconds.
TICK = 0.2
# What a file of Ansible Vault begins with.
VAULT = "$ANSIBLE_VAULT"
# The names of the variables of passwords.
PASSWORD = re.compile(r"ansible_(?:\w+_)?pass(?:word)?\b")
# The status of ssh itself, which may fail after the login too, at an option of its configuration.
SSH_FAILED = 255
HERE = "this machine"
ANSIBLE_VAULT = ".venv/bin/ansible-vault"
SUFFIXES = ("", ".yml", ".yaml", ".json", ".ini", ".toml")


def ask_hosts(
    project: Project,
    inventory: Path,
    connections: Connections,
    hosts: Sequence[Connection],
    stopped: Callable[[], bool],
    root: bool = True,
) -> tuple[HostReport, ...]:
    """Ask hosts, and change nothing on them.

    Args:
        connections: what Ansible said of the whole inventory.
        stopped: asked several times a second; once true, no further host is asked.
    """
    expectation = Expectation(supported_releases(project), connections.least_python, root)
    files = InventoryFiles(project, inventory)
    gates: dict[str, Semaphore] = {}
    with ThreadPoolExecutor(PARALLEL) as pool:
        asked = [pool.submit(_ask_host, host, expectation, files, gates) for host in hosts]
        waiting = set(asked)
        while waiting:
            waiting = wait(waiting, timeout=TICK).not_done
            if waiting and stopped():
                pool.shutdown(wait=False, cancel_futures=True)
                raise Interrupted("interrupted; nothing was changed anywhere")
    return tuple(future.result() for future in asked)


def supported_releases(project: Project) -> Mapping[str, Sequence[str]]:
    """The releases that role training_node is for, and with it every node."""
    meta = project.root / "roles/training_node/meta/main.yml"
    platforms = yaml.safe_load(meta.read_text(encoding="utf-8"))["galaxy_info"]["platforms"]
    return {platform["name"]: platform["versions"] for platform in platforms}


class InventoryFiles:
    """The files of an inventory, as commands that open the right one."""

    def __init__(self, project: Project, inventory: Path) -> None:
        self._project = project
        self._inventory = inventory.absolute()
        self._texts: dict[Path, str] = {}
        # The file of the hosts before those in folders below it.
        files = inventory_files(self._inventory)
        for file in sorted(files, key=lambda file: (len(file.parts), file)):
            if file.suffix in SUFFIXES:
                self._texts[file] = file.read_text(encoding="utf-8", errors="replace")

    def commands(self, host: str) -> Mapping[str, str]:
        """The commands for what a host's variables lack."""
        named = [file for file, text in self._texts.items() if host in text]
        file = named[0] if named else self._inventory
        edit = f"${{EDITOR:-vi}} {self._shown(file)}"
        return {"edit": edit, "vault": self._vault(), "secret": self._secret(edit)}

    def _secret(self, edit: str) -> str:
        plain = [file for file, text in self._texts.items() if PASSWORD.search(text)]
        if self._encrypted():
            return self._vault()
        return f"${{EDITOR:-vi}} {self._shown(plain[0])}" if plain else edit

    def _encrypted(self) -> list[Path]:
        return [file for file, text in self._texts.items() if text.startswith(VAULT)]

    def _vault(self) -> str:
        encrypted = self._encrypted()
        if encrypted:
            return f"{ANSIBLE_VAULT} edit {self._shown(encrypted[0])}"
        folder = self._inventory if self._inventory.is_dir() else self._inventory.parent
        # Not for group all: sudo of this machine, which is in it, takes another one.
        of_nodes = folder / "group_vars" / "trainers"
        # A folder of that name would hide such a file.
        for file in (of_nodes.with_suffix(suffix) for suffix in (".yml", ".yaml")):
            if file.is_file():
                encrypt = f"{ANSIBLE_VAULT} encrypt_string --stdin-name ansible_become_password"
                return f"{encrypt} >> {self._shown(file)}"
        make = "" if of_nodes.is_dir() else f"mkdir -p {self._shown(of_nodes)} && "
        return f"{make}{ANSIBLE_VAULT} create {self._shown(of_nodes / 'vault.yml')}"

    def _shown(self, path: Path) -> str:
        return shlex.quote(self._project.shown(path))


def _ask_host(
    connection: Connection,
    expectation: Expectation,
    files: InventoryFiles,
    gates: dict[str, Semaphore],
) -> HostReport:
    """Find the first thing that is wrong with one host."""
    commands = {**files.commands(connection.host), "host": connection.host}
    if connection.problem is not None:
        trouble = Trouble("variables_unresolved", {**commands, "message": connection.problem})
        return HostReport(connection.host, trouble=trouble)
    if connection.plugin == "ssh":
        return _ask_over_ssh(connection, expectation, commands, gates)
    if connection.plugin != "local":
        return HostReport(connection.host, note=f"reached by {connection.plugin}, not asked")
    values = {**commands, "run": "sh -c", "ssh": "sh -c"}
    values |= {"user": getpass.getuser(), "user_setting": "ansible_user"}
    # What it carries are containers with releases of their own.
    anything = replace(expectation, releases={})
    return _look(connection, HERE, run_here, values, anything, *ask(run_here, connection.python))


def _ask_over_ssh(
    connection: Connection,
    expectation: Expectation,
    commands: Mapping[str, str],
    gates: dict[str, Semaphore],
) -> HostReport:
    settings = settings_of(connection)
    if isinstance(settings, str):
        trouble = Trouble("ssh_unusable", commands, last_lines(settings))
        return HostReport(connection.host, trouble=trouble)
    values = {**values_of(connection, settings), **commands}
    if settings.in_the_way:
        trouble = Trouble("ssh_option", {**values, "option": settings.in_the_way})
        return HostReport(connection.host, _place(settings), trouble)
    place = _place(settings)

    def run(command: str, text: str) -> Answer:
        return run_ssh(connection, settings, command, text=text)

    jump = settings.jumps[0] if settings.jumps else ""
    with gates.setdefault(jump, Semaphore(BY_BASTION)) if jump else nullcontext():
        found = trouble_at_bastions(connection, settings)
        if found is None:
            answer, asked_at = ask(run, connection.python)
            if BEGIN in answer.output or (answer.authenticated and answer.status != SSH_FAILED):
                return _look(connection, place, run, values, expectation, answer, asked_at)
            found = trouble_at(connection, settings, answer)
    return HostReport(connection.host, place, found.with_values(values))


def _look(
    connection: Connection,
    place: str,
    run: Run,
    values: Mapping[str, str],
    expectation: Expectation,
    answer: Answer,
    asked_at: float,
) -> HostReport:
    """Judge a host by what it tells of itself, and see whether its user becomes root."""
    trouble = trouble_with_shell(answer)
    if trouble is not None:
        return HostReport(connection.host, place, trouble.with_values(values))
    facts = parse_facts(answer, asked_at)
    trouble = (
        trouble_of_system(facts, connection.python, expectation)
        or (trouble_with_root(run, connection, facts) if expectation.root else None)
        or trouble_of_state(facts)
    )
    # Who is logged in says what needs sudo, whatever ssh was told.
    values = {**values, "user": facts.user, "sudo": "" if facts.uid == 0 else "sudo "}
    return HostReport(
        connection.host,
        place,
        trouble=None if trouble is None else trouble.with_values(values),
        facts=facts,
        root=becoming(connection, facts) if expectation.root else "needs no root",
    )


def run_here(command: str, text: str) -> Answer:
    """Run a command on this machine, as `run_ssh` does on another."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", "")
    return Answer(done.returncode, done.stdout, done.stderr)


def _place(settings: Settings) -> str:
    place = f"{settings.user}@{settings.address}"
    if settings.port != 22:
        place += f":{settings.port}"
    return place + (f" by {', '.join(settings.jumps)}" if settings.jumps else "")
