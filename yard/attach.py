"""Goes on with a run whose `yard` is gone: killed, or its control node was away."""

from pathlib import Path

from rich.markup import escape

from yard.context import Context
from yard.errors import Exit
from yard.manifest import write_manifest
from yard.run import STOP_MARK, followed, read_run
from yard.summary import read_summary
from yard.train import Launcher, conclude, finish, stop_ranks
from yard.verdict import show_verdict


def attach(context: Context, run: Path) -> Exit:
    """Follow a run to its end, collect it and sum it up, as the command that began it would have.

    Of a run that has ended, brings home what could not be reached then.

    Raises:
        RequestError: another process follows it.
    """
    with followed(run):
        over = read_summary(run)
        record = read_run(run)
        if over is None and record.manifest.hosts:
            variables = {"training_run_nodes": list(record.manifest.hosts)}
            Launcher(context, run, record.manifest, "attach", variables).run()
            return finish(context, run)
        if over is None:
            # It was killed before it had chosen its nodes: there is nothing to follow.
            (run / STOP_MARK).touch()
            write_manifest(run, record.manifest.with_launch(playbook="cancelled"))
            summary = conclude(run)
        elif record.missing_hosts:
            stop_ranks(context, run, asked=False)
            summary = conclude(run, finished_at=record.manifest.launch.finished_at)
        else:
            context.console.print(
                f"{escape(run.name)} had ended before ({over.status})", soft_wrap=True
            )
            return Exit.DONE
        show_verdict(context.console, context.project, run, summary)
        return Exit(summary.exit_status)
