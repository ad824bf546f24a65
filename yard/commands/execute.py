"""`make exec`: a command on every node, its output by host, the worst exit status."""

import os
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from yard.core.console import without_control
from yard.core.context import Context
from yard.core.errors import Interrupted, RequestError
from yard.plays.contract import RUN_COMMAND
from yard.plays.events import Event, failure_message, unreachable_reason
from yard.plays.inventory import Inventory, read_inventory
from yard.plays.play import fresh_log, play
from yard.screen.failures import point_to_doctor

# As ssh(1) and timeout(1) have it.
UNREACHABLE = 255
TIMED_OUT = 124
# Ansible refuses output that is no UTF-8, such as a file's name in an older encoding.
ANY_BYTES = {"ANSIBLE_MODULE_STRICT_UTF8_RESPONSE": "false"}
# The command ran, and nobody can read what it said.
NO_RESULT = 1


def execute(context: Context, command: str, on: Sequence[str], seconds: int) -> int:
    """Run a shell command on nodes at the same time, and print what it says as it comes in.

    Args:
        command: for `/bin/sh -c`, passed on as it is.
        on: names of nodes or groups, or patterns; none means all.
        seconds: time limit on each node.

    Returns:
        The largest exit status of all nodes; 255 counts for a node that cannot be reached, 124 for
        one where the time was up, 1 for one whose output Ansible cannot read.
    """
    console = context.console
    inventory = read_inventory(context.project, context.inventory)
    hosts = check_request(inventory, command, on, seconds)
    statuses: dict[str, int] = {}

    def show(event: Event) -> None:
        if event.host not in hosts or event.host in statuses:
            return
        bad = event.kind in ("runner_on_failed", "runner_on_unreachable")
        if not (bad or (event.kind == "runner_on_ok" and event.module == RUN_COMMAND)):
            return
        status, text = result_of(event, seconds)
        statuses[event.host] = status
        note = "" if status == 0 else f"  [red]exit status {status}[/]"
        console.print(f"[bold]{escape(event.host)}[/]{note}")
        # Not through rich: the output is the command's, to the last character; but no node steers
        # somebody's terminal.
        if console.is_terminal:
            text = without_control(text)
        console.file.write(text if not text or text.endswith("\n") else text + "\n")
        console.file.flush()

    # Through the environment, as for those who start the playbook by themselves.
    os.environ.update(TRAINYARD_COMMAND=command, TRAINYARD_SECONDS=str(seconds), **ANY_BYTES)
    outcome = play(context, "exec", {}, show, log=fresh_log(context, "exec"), limit=hosts)
    if outcome.cancelled:
        raise Interrupted("interrupted; the command may still run on nodes until its time is up")
    missing = [host for host in hosts if host not in statuses]
    for host in missing:
        console.print(f"[bold]{escape(host)}[/]  [red]no result[/]")
    if UNREACHABLE in statuses.values():
        point_to_doctor(console, context.project, context.inventory)
    return max((*statuses.values(), *(UNREACHABLE for _ in missing)))


def check_request(
    inventory: Inventory, command: str, on: Sequence[str], seconds: int
) -> tuple[str, ...]:
    """Return the hosts to run on; raise RequestError with everything that is wrong."""
    problems = [] if command.strip() else ["no command: make exec CMD='uptime'"]
    if not inventory.trainers:
        problems.append(f"there is no node in {inventory.name}; make setup makes the local ones")
    hosts: tuple[str, ...] = ()
    try:
        hosts = inventory.select(on)
    except RequestError as error:
        problems += error.problems
    if seconds < 1:
        problems.append("the time limit must be at least 1 s")
    if problems:
        raise RequestError(*problems)
    return hosts


def result_of(event: Event, seconds: int) -> tuple[int, str]:
    """Exit status and text of one node."""
    result: dict[str, Any] = dict(event.result)
    if event.kind == "runner_on_unreachable":
        return UNREACHABLE, f"unreachable: {unreachable_reason(result)}\n"
    if "timedout" in result:
        # The node took the connection and then fell silent, so that Ansible gave up on it.
        return TIMED_OUT, f"no answer within its time limit: {str(result.get('msg', '')).strip()}\n"
    # Without output nothing ran: the status is of Ansible's own module, for lack of Python say.
    if type(result.get("rc")) is not int or "stdout" not in result:
        reason = failure_message(result) if result.get("msg") else "the output is larger than 32 MB"
        return NO_RESULT, f"no result: {reason}\n"
    status: int = result["rc"]
    text = str(result.get("stdout", "")) + str(result.get("stderr", ""))
    if status == TIMED_OUT:
        text = f"{text.rstrip()}\nstopped after {seconds} s\n".lstrip()
    # Bytes that are no UTF-8 are surrogates here, which no terminal takes.
    return status, text.encode(errors="surrogateescape").decode(errors="replace")
