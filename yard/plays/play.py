"""How a command runs a playbook of the checkout: its log, and what ends it early."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from yard.core.context import Context
from yard.plays.events import Event, Outcome
from yard.plays.playbook import run_playbook


def play(
    context: Context,
    playbook: str,
    variables: Mapping[str, Any],
    on_event: Callable[[Event], None],
    *,
    log: Path,
    inventory: Path | None = None,
    stop_mark: Path | None = None,
    to_its_end: bool = False,
    unwanted: Callable[[], bool] = lambda: False,
    limit: Sequence[str] = (),
) -> Outcome:
    """Run `playbooks/<playbook>.yml` (for `setup`, `site.yml`) until it ends or the user stops it.

    Args:
        log: gets Ansible's whole output, appended.
        inventory: None means the one the command was given.
        stop_mark: a file; once it is there, `make stop` wants the end.
        to_its_end: nothing that is pressed ends it.
        unwanted: asked several times a second; once true, the playbook is ended.
        limit: hosts to run on; none means all.
    """

    def cancelled() -> bool:
        # Asked first: what was pressed is answered here, also where it ends nothing.
        requested = context.interrupts.requested
        if to_its_end:
            return False
        return unwanted() or requested or (stop_mark is not None and stop_mark.exists())

    return run_playbook(
        context.project,
        context.project.playbook(playbook),
        inventory or context.inventory,
        variables,
        log,
        on_event,
        cancelled,
        limit,
    )


def log_of(context: Context, name: str, inventory: Path | None = None) -> Path:
    """The log of a command that keeps only its last one."""
    return context.project.logs(inventory or context.inventory) / f"{name}.log"


def fresh_log(context: Context, name: str, inventory: Path | None = None) -> Path:
    """The same, removed, for a command that begins."""
    log = log_of(context, name, inventory)
    log.unlink(missing_ok=True)
    return log


def dated_log(context: Context, name: str, inventory: Path | None = None) -> Path:
    """The log of a command that keeps all of them."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return log_of(context, f"{name}-{stamp}", inventory)
