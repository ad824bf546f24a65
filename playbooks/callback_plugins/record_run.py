"""Ansible callback: keeps the record of a run that a playbook alone has begun.

It does nothing until the action begin_run has made the run, which `make train` makes itself. From
then on package `yard` gets the playbook's events from here, as it has them from ansible-runner
otherwise. Ansible finds this plugin by itself, in the folder of plugins beside the playbooks.
"""

import atexit
import sys
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: record_run
type: aggregate
short_description: Keeps the record of a run that a playbook alone has begun
description:
  - Writes down which nodes a run got, its metrics while it goes on, and how it ended; then sums it
    up and draws its report.
author: Trainyard
options: {}
"""

# The checkout, of which the package `yard` is a part.
ROOT = Path(__file__).parents[2]
BEGINS = "begin_run"


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Hands the events of the playbook over to the record of its run."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "record_run"

    def __init__(self) -> None:
        super().__init__()
        self._record: Any = None

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """A task begins."""
        self._take("playbook_on_task_start", **_about(task))

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task ended well on a host."""
        if self._record is None and result.task.action == BEGINS:
            sys.path.append(str(ROOT))
            from yard.operations.alone import Record

            self._record = Record(ROOT, Path(result.result["directory"]))
            # Ansible tells of Ctrl-C to no plugin.
            atexit.register(self._record.leave)
        self._take_result("runner_on_ok", result)

    def v2_runner_retry(self, result: Any) -> None:
        """A task goes on, as the one that follows the run does after each look."""
        self._take_result("runner_retry", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed on a host."""
        self._take_result("runner_on_failed", result, ignore_errors=ignore_errors)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """A host could not be reached."""
        self._take_result("runner_on_unreachable", result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The playbook has ended."""
        if self._record is not None:
            names = ("ok", "changed", "failures", "dark", "processed", "rescued")
            self._take("playbook_on_stats", **{name: getattr(stats, name) for name in names})
            self._record.end()

    def _take_result(self, event: str, result: Any, **more: Any) -> None:
        if self._record is not None:
            about = _about(result.task)
            self._take(event, host=result.host.get_name(), res=result.result, **about, **more)

    def _take(self, event: str, **data: Any) -> None:
        if self._record is not None:
            raw = {"event": event, "received_at": time.time(), "event_data": data}
            self._record.take(raw)


def _about(task: Any) -> dict[str, Any]:
    """What ansible-runner says of a task."""
    return {
        "task": task.name or task.action,
        "task_action": task.action,
        "task_path": task.get_path(),
        "role": task._role.get_name(include_role_fqcn=False) if task._role else "",
    }
