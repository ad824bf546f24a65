"""Goes on with a run whose `yard` is gone: killed, or its control node was away."""

import time
from pathlib import Path

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import Detached, Exit
from yard.core.words import duration
from yard.operations.beside import leave
from yard.operations.ending import conclude, finish
from yard.operations.launch import ATTACH, RunFollower
from yard.operations.notebook import bring_back
from yard.operations.runtime import as_it_ran
from yard.operations.stop import stop_ranks
from yard.runs.folder import STOP_MARK, followed
from yard.runs.manifest import Manifest, write_manifest
from yard.runs.record import read_run
from yard.runs.summary import FILES_BEYOND_LIMITS, files_left_behind, read_summary
from yard.screen.result import show_result


def attach(context: Context, run: Path) -> Exit:
    """Follow a run to its end, collect it and sum it up, as the command that began it would have.

    Of a run that has ended, brings home what could not be reached then, or was too much.

    Raises:
        RequestError: another process follows it.
        Detached: the user has left it to another command.
    """
    try:
        with followed(run):
            summary = read_summary(run)
            record = read_run(run)
            as_it_ran(context, record.manifest)
            if summary is None and record.manifest.hosts:
                variables = {"training_run_nodes": list(record.manifest.hosts)}
                _announce(context, record.manifest)
                RunFollower(context, run, record.manifest, ATTACH, variables, asks=True).run()
                return finish(context, run)
            if summary is None:
                # It was killed before it had chosen its nodes: there is nothing to follow.
                (run / STOP_MARK).touch()
                write_manifest(run, record.manifest.with_launch(playbook="cancelled"))
                summary = conclude(run)
            elif record.missing_hosts or any(
                left.code == FILES_BEYOND_LIMITS for left in files_left_behind(record)
            ):
                stop_ranks(context, run, wanted=False)
                summary = conclude(run, finished_at=record.manifest.launch.finished_at)
            else:
                context.console.print(f"{escape(run.name)} had ended before ({summary.status})")
                return Exit.DONE
            show_result(context.console, context.project, run, summary)
            bring_back(context, run)
            return Exit(summary.exit_status)
    except Detached:
        leave(context, run)
        raise


def _announce(context: Context, manifest: Manifest) -> None:
    age = duration(max(0.0, time.time() - manifest.started_at))
    words = " ".join(filter(None, (manifest.run_id, manifest.name)))
    context.console.print(escape(f"{words}: begun {age} ago"))
