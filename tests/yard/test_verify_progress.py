"""What is shown while a cluster is verified, from the events of its playbook."""

import io
from typing import Any

from rich.console import Console

from yard.plays.events import Event
from yard.screen.check_progress import CheckProgress
from yard.screen.plain_progress import PlainProgress


class Tasks(PlainProgress):
    """A plain display that keeps what each task said."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), width=100))
        self.said: list[str] = []

    def task(self, text: str) -> None:
        self.said.append(text)
        super().task(text)

    def ending(self) -> str:
        """Everything printed, once the last phase is over."""
        self._end_phase()
        file = self.console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue()


Told = tuple[str, str, str, dict[str, Any]]


def shown(*events: Told, parts: tuple[str, ...]) -> Tasks:
    """Take in events, each as kind, task file, host and result."""
    display = Tasks()
    progress = CheckProgress(display, ["node1", "node2", "node3"], parts)
    for kind, stem, host, result in events:
        file = f"/roles/cluster_check/tasks/{stem}.yml"
        event = Event(kind, 0.0, task="Log in", task_file=file, host=host, result=result)
        progress.take(event)
    return display


def test_it_says_on_whom_a_task_waits() -> None:
    display = shown(
        ("playbook_on_task_start", "ssh", "", {}),
        ("runner_on_ok", "ssh", "node2", {}),
        ("runner_on_ok", "ssh", "node1", {}),
        ("runner_on_ok", "ssh", "node3", {}),
        parts=("ssh",),
    )
    assert display.said == [
        "Log in",
        "Log in: waiting for node1, node3",
        "Log in: waiting for node3",
    ]
    assert display.ending() == "Logging in between every two nodes ...\n"


def test_trouble_marks_its_part_and_the_verdict_does_not() -> None:
    trouble = {"logins": {"node1": {"trouble": ""}, "node3": {"trouble": "Permission denied"}}}
    started: Told = ("playbook_on_task_start", "ssh", "", {})
    bad = shown(started, ("runner_on_ok", "ssh", "node2", trouble), parts=("ssh",))
    assert "not completed" in bad.ending()
    verdict = shown(started, ("runner_on_failed", "verdict", "node1", {}), parts=("ssh",))
    assert "not completed" not in verdict.ending()


def test_parts_that_were_not_asked_for_are_not_named() -> None:
    assert shown(("playbook_on_task_start", "pairs", "", {}), parts=("ssh",)).ending() == ""


def test_it_knows_what_has_begun() -> None:
    """What runs in containers is to be ended when it is interrupted, and only then."""
    progress = CheckProgress(Tasks(), ["node1"], ("ssh", "containers"))
    for stem, begun in (("ssh", False), ("containers", True)):
        file = f"/roles/cluster_check/tasks/{stem}.yml"
        progress.take(Event("playbook_on_task_start", 0.0, task="", task_file=file))
        assert ("containers" in progress.begun) is begun
