"""What the screen shows while a cluster is verified: the part under way, and on whom it waits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yard.plays.contract import CONTAINERS, GIVE_VERDICT, LOOK_AT_NODES, MPI, PAIRS, SSH
from yard.plays.events import Event
from yard.screen.progress import Progress

# What the screen calls the parts of a verification.
PHASES = {
    LOOK_AT_NODES: "Looking at the nodes",
    SSH: "Logging in between every two nodes",
    PAIRS: "Measuring the network",
    MPI: "Running MPI on the nodes",
    CONTAINERS: "Running MPI and Horovod in containers",
}
# What ends a task on a host.
FAILURES = ("runner_on_failed", "runner_on_unreachable")
ENDS = ("runner_on_ok", "runner_on_skipped", *FAILURES)


class CheckProgress:
    """Turns the events of playbooks/verify.yml into phases, each with a mark when it is over."""

    def __init__(self, progress: Progress, hosts: Sequence[str], parts: Sequence[str]) -> None:
        self._progress = progress
        self._hosts = hosts
        self._parts = (LOOK_AT_NODES, *parts)
        self._done: set[str] = set()
        self.begun: set[str] = set()

    def take(self, event: Event) -> None:
        part = Path(event.task_file).stem
        if event.kind == "playbook_on_task_start":
            self._done.clear()
            self.begun.add(part)
            if part in PHASES and part in self._parts:
                self._progress.phase(PHASES[part])
            self._progress.task(event.task)
        elif event.kind in ENDS:
            self._done.add(event.host)
            # The verdict fails on purpose, and is no part.
            if part != GIVE_VERDICT and (event.kind in FAILURES or has_trouble(event.result)):
                self._progress.fail()
            waiting = [host for host in self._hosts if host not in self._done]
            if waiting and len(waiting) < len(self._hosts):
                self._progress.task(f"{event.task}: waiting for {', '.join(waiting)}")


def has_trouble(result: Mapping[str, Any]) -> bool:
    """Whether what a module of the checks returned holds a check that is not passed.

    What is of another form than the modules' own is trouble, too: a node may answer anything.
    """
    try:
        failed = any(not check["ok"] for check in result.get("checks", []))
        failed = failed or bool(result.get("exit_status"))
        return failed or any(
            answer["trouble"]
            for about_peers in ("logins", "greetings", "matches")
            for answer in result.get(about_peers, {}).values()
        )
    except (AttributeError, KeyError, TypeError):
        return True
