"""The end of a run on the screen: how it went, or who failed, why, and what to do."""

import re
import textwrap
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from yard.core.project import Project
from yard.core.typed import as_typed
from yard.core.words import duration, first_names, percent, plural, printable, short_number, size
from yard.plays.remedy import addressed, reaching
from yard.runs.diagnosis import Diagnosis
from yard.runs.folder import REPORT_ERROR
from yard.runs.manifest import read_manifest
from yard.runs.record import lost_engine
from yard.runs.results import Results, next_commands, results_of
from yard.runs.summary import FILES_BEYOND_LIMITS, LeftBehind, Summary

# More of the last values than this are for the report.
MOST_VALUES = 8
# Of the files that came home, the newest; and so many characters of the path of each.
MOST_NAMES, MOST_OF_PATH = 4, 200
COLOURS = {"succeeded": "green", "failed": "red", "stopped": "yellow"}


def show_result(console: Console, project: Project, run: Path, summary: Summary) -> None:
    """Print the result, the numbers or the diagnosis, and where the rest is."""
    took = f" after {duration(summary.seconds_total)}" if summary.seconds_total is not None else ""
    console.print(f"\n[bold {COLOURS[summary.status]}]{summary.status.capitalize()}[/]{took}")
    manifest = read_manifest(run)
    inventory = project.own_inventory if manifest is None else Path(manifest.inventory_path)
    for label, text in (*_diagnosis(summary.diagnosis), *_numbers(summary)):
        _row(console, label, reaching(text, project, inventory))
    if summary.diagnosis and summary.diagnosis.proof:
        console.print(f"\n  {escape(str(summary.diagnosis.log))}:", soft_wrap=True)
        for line in summary.diagnosis.proof:
            console.print(f"    {escape(line)}", soft_wrap=True)
        console.print()
    dead = [host for host in summary.missing_hosts if lost_engine(run, host)]
    silent = [host for host in summary.missing_hosts if host not in dead]
    for hosts, why in (
        (dead, "whose engine is gone: systemctl start docker there; then"),
        (silent, "which did not answer; when it is back,"),
    ):
        if hosts:
            text = f"logs of {', '.join(hosts)}, {why} make attach RUN={run.name} fetches them"
            _row(console, "missing", text)
    for warning in summary.warnings:
        _row(console, "warning", warning)
    for left in summary.left_behind:
        _row(console, "not fetched", _left_behind(run, left))
    folder = project.shown(run)
    for result in results_of(run):
        _row(console, result.folder.rpartition("/")[2], _result(folder, result))
    if (run / "logs").is_dir():
        _row(console, "logs", f"{folder}/logs/")
    if (run / REPORT_ERROR).is_file():
        again = f"make report RUN={run.name}"
        text = f"could not be drawn, see {folder}/{REPORT_ERROR}; `{again}` tries again"
        _row(console, "report", text)
    else:
        _row(console, "report", f"{folder}/report.html")
    commands = [] if manifest is None else next_commands(run, manifest, summary)
    for number, command in enumerate(commands):
        if command.startswith("make train"):
            command = addressed(command, project, inventory)
        command_row(console, "" if number else "next", command)


def _result(run: str, result: Results) -> str:
    """What came home of one folder, like `2 files, 1.2 MB in runs/a/outputs/: a.pt, b.pt`."""
    names = [
        name if len(name) <= MOST_OF_PATH else f"{name[: MOST_OF_PATH // 2]}…/{Path(name).name}"
        for name in result.names
    ]
    shown = first_names([*map(printable, names)], MOST_NAMES)
    whole = f"{plural(len(result.names), 'file')}, {size(result.bytes)}"
    return f"{whole} in {run}/{result.folder}/: {shown}"


def _left_behind(run: Path, left: LeftBehind) -> str:
    files = f"{left.files:,} file{'s' if left.files != 1 else ''} of ranks on {left.host}"
    if left.code == FILES_BEYOND_LIMITS:
        return (
            f"{files}, beyond the limits ({left.names}): they are still there. Raise "
            "training_run_collect_gigabytes or training_run_collect_files, and "
            f"make attach RUN={run.name} fetches them"
        )
    return f"{files}, refused because runs leave no such files ({left.names})"


def _diagnosis(diagnosis: Diagnosis | None) -> list[tuple[str, str]]:
    if diagnosis is None:
        return []
    who = diagnosis.host or "not known"
    if diagnosis.rank is not None:
        who += f", rank {diagnosis.rank}"
    return [("host", who), ("cause", diagnosis.cause), ("remedy", diagnosis.remedy)]


def _numbers(summary: Summary) -> list[tuple[str, str]]:
    rows = []
    if summary.test_accuracy is not None:
        rows.append(("test accuracy", percent(summary.test_accuracy) + _of_the_best(summary)))
    if summary.validation_accuracy is not None:
        rows.append(("validation", f"accuracy {percent(summary.validation_accuracy)}"))
    if summary.final_loss is not None:
        rows.append(("training loss", f"{summary.final_loss:.3f}"))
    values = list(summary.readings.items())
    rows += [(name, short_number(value)) for name, value in values[:MOST_VALUES]]
    if len(values) > MOST_VALUES:
        rows.append(("more", f"{plural(len(values) - MOST_VALUES, 'number')} in the report"))
    if summary.images_per_second is not None:
        rows.append(("images/s", f"{summary.images_per_second:,.1f}"))
    if summary.seconds_to_first_step is not None:
        rows.append(("first step", f"after {duration(summary.seconds_to_first_step)}"))
    if summary.effective_training_time_ratio is not None:
        rows.append(("useful time", f"{percent(summary.effective_training_time_ratio)} in steps"))
    if summary.world_size is not None:
        ranks = plural(summary.world_size, "rank")
        rows.append(("world", f"{ranks} on {', '.join(summary.hosts)}"))
    return rows


def _of_the_best(summary: Summary) -> str:
    if summary.best_test_accuracy is None or summary.best_epoch == summary.epochs:
        return ""
    return f"; best.pt, of epoch {summary.best_epoch}: {percent(summary.best_test_accuracy)}"


def _row(console: Console, label: str, text: str) -> None:
    """One row; on a terminal a long text goes on below itself, elsewhere lines stay whole."""
    if not console.is_terminal:
        gap = "" if len(label) < 14 else "  "
        console.print(escape(f"  {label:<14}{gap}{text}"))
        return
    grid = Table.grid(padding=0)
    grid.add_column(width=16)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {label}", style="dim"), Text(text))
    console.print(grid)


def command_row(console: Console, label: str, command: str) -> None:
    """One row with a command to copy; a narrow terminal has it in lines that are one to a shell."""
    command = as_typed(command)
    # What is quoted stays whole, as a word without blanks.
    words = re.findall(r"(?:'[^']*'|[^\s'])+", command)
    if console.is_terminal and " ".join(words) == command:
        whole = " ".join(word.replace(" ", "\0") for word in words)
        width = console.width - 18
        lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
        command = f" \\\n{16 * ' '}".join(lines).replace("\0", " ")
    console.print(Text.assemble((f"  {label:<14}", "dim"), command), soft_wrap=True)
