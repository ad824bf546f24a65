"""Sums a run up that is over."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from yard.core.context import Context
from yard.core.errors import Exit
from yard.operations.notebook import bring_back
from yard.operations.notification import notify
from yard.operations.stop import stop_ranks
from yard.runs.gathering import gather_readings
from yard.runs.manifest import read_manifest, write_manifest
from yard.runs.record import inspected_image, inspected_memory_limits, read_run
from yard.runs.summary import Summary, summarise, write_summary
from yard.screen.result import show_result


def finish(context: Context, run: Path) -> Exit:
    """Sum a run up whose playbook has ended, and say how it went."""
    # What comes after this is short: a Ctrl-C there has nothing left to stop.
    interrupted = context.interrupts.requested
    if interrupted:
        stop_ranks(context, run)
    summary = conclude(run)
    show_result(context.console, context.project, run, summary)
    bring_back(context, run)
    notify(context.console, run, summary)
    if not interrupted:
        return Exit(summary.exit_status)
    if summary.exit_status != Exit.INTERRUPTED:
        context.console.print("The run had already ended when it was interrupted.")
    return Exit.INTERRUPTED


def conclude(run: Path, finished_at: float | None = None) -> Summary:
    """Complete the manifest from what was collected, write the summary and draw the report.

    Args:
        finished_at: when the run was over, Unix seconds; now, if nothing is said.
    """
    # Takes a while to import; nobody shall wait for that at the start.
    from yard.pages.report import draw_report

    begun = read_manifest(run)
    if begun is not None and begun.project is not None:
        gather_readings(run, begun.project.get("metrics_pattern"))
    record = read_run(run)
    manifest = replace(
        record.manifest,
        configuration=_completed(record.manifest.configuration, record.config),
        hosts=record.hosts,
        versions={**record.manifest.versions, "trainer": dict(record.world.versions)},
        image=inspected_image(record),
        memory_limits=inspected_memory_limits(record),
    ).with_launch(finished_at=finished_at or time.time())
    write_manifest(run, manifest)
    summary = summarise(replace(record, manifest=manifest))
    write_summary(run, summary)
    draw_report(run)
    return summary


def _completed(asked: Mapping[str, Any], noted: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, with what the trainer noted; a value of another kind is no note of it."""
    known = {
        name: value
        for name, value in noted.items()
        if asked.get(name) is None or _kind(value) is _kind(asked[name])
    }
    return {**asked, **known}


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)
