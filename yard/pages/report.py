"""`report.html`: one file that shows a run, opens from disk and needs no network."""

import shlex
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.files import write_text
from yard.core.words import duration, percent, plural, short_number
from yard.pages.charts import node_charts, step_time_chart, training_charts
from yard.pages.index import write_index
from yard.pages.page import Number, local_time, render
from yard.pages.plot import Chart, Mark
from yard.pages.reading_charts import MOST_CHARTS, names_left_out, reading_charts
from yard.pages.timeline import Timeline, program_timeline, timeline_of
from yard.runs.folder import REPORT_ERROR, is_followed
from yard.runs.gathering import GATHERED, METRICS
from yard.runs.manifest import Manifest
from yard.runs.metrics import Metric, attempts_of, read_every_line
from yard.runs.output import take_log
from yard.runs.pace import seconds_left_by
from yard.runs.readings import Reading
from yard.runs.record import LOG_TAIL_BYTES, RunRecord, read_run, read_spells, result_folders
from yard.runs.summary import (
    FILES_BEYOND_LIMITS,
    RUNNING,
    LeftBehind,
    Summary,
    read_summary,
    summarise_so_far,
)
from yard.runs.utilisation import read_utilisation

# What is worth a link beside the ranks' own logs, and what it is.
FILES = {
    "logs/mpirun.log": "mpirun",
    "ansible.log": "Ansible",
    "summary.json": "summary",
    "manifest.json": "manifest",
    METRICS: "metrics",
    GATHERED: "numbers from its log or TensorBoard",
    "config.json": "trainer's configuration",
}
# Folders of a program of the user's own.
FOLDERS = {"code": "code, as it ran"}
# More of the last values than this would push everything else off the screen.
MOST_VALUES = 8
# Of the log where the curves would be.
MOST_OUTPUT = 60


def write_report(run: Path) -> Path:
    """Draw the report of a run from its files; returns its path.

    Of a run that is followed it is the page that the command which follows it draws.

    Raises:
        RequestError: it is no run, or neither over nor followed.
    """
    summary = read_summary(run)
    if summary is None:
        if is_followed(run) and (run / "report.html").exists():
            return run / "report.html"
        raise RequestError(
            f"{run.name}: no summary yet; make stop RUN={run.name} ends and collects it"
        )
    return _write(run, read_run(run), summary)


def write_live_report(run: Path, now: float, seconds: float, output: Sequence[str] = ()) -> Path:
    """Draw the report of a run that goes on, from what has come home; returns the path written.

    Args:
        now: Unix seconds.
        seconds: after which the page refreshes.

    Raises:
        RequestError: it is no run.
    """
    record = read_run(run)
    attempts: Sequence[Sequence[Metric | Reading]] = attempts_of(read_every_line(run / METRICS))
    lines = record.readings if record.is_project else attempts[-1] if attempts else ()
    live = Live(now, seconds, seconds_left_by(lines, now))
    return _write(run, record, summarise_so_far(record, now), live, output)


@dataclass(frozen=True)
class Live:
    """What only the page of a run that goes on has.

    Attributes:
        drawn_at: Unix seconds.
        seconds: after which it is drawn anew.
        seconds_left: until the last step of the run; None where that is not known.
    """

    drawn_at: float
    seconds: float
    seconds_left: float | None

    @property
    def drawn(self) -> str:
        return f"{datetime.fromtimestamp(self.drawn_at, UTC):%H:%M:%S} UTC"


def _write(
    run: Path,
    record: RunRecord,
    summary: Summary,
    live: Live | None = None,
    output: Sequence[str] = (),
) -> Path:
    path = run / "report.html"
    curves = _program_curves(run, record) if record.is_project else _training_curves(run, record)
    if curves.absence and record.is_project:
        said = output or take_log(run / "logs/rank-0.log", LOG_TAIL_BYTES)[0].tail
        curves = replace(curves, output=tuple(said)[-MOST_OUTPUT:])
    page = report_page(summary, record, curves, file_links(run, record), live)
    write_text(path, page)
    return path


def draw_report(run: Path) -> None:
    """Draw the report of a run that has just ended, and the page of all runs.

    The run is over and its files are kept: nothing that goes wrong here may take that back. The
    reason stays beside them in a file.
    """
    with errors_kept(run):
        write_report(run)
        write_index(run.parent)


@contextmanager
def errors_kept(run: Path) -> Iterator[None]:
    """Let nothing that goes wrong with a report end more than that; the file says what it was."""
    try:
        yield
    except Exception:  # whatever it is, it is not worth a run
        (run / REPORT_ERROR).write_text(traceback.format_exc(), encoding="utf-8")
    else:
        (run / REPORT_ERROR).unlink(missing_ok=True)


@dataclass(frozen=True)
class Curves:
    """What is drawn of a run.

    Attributes:
        charts: by the title of their section.
        absence: why there are no curves; "" where there are.
        output: in their place the last lines of rank 0.
    """

    timeline: Timeline | None
    charts: Mapping[str, Sequence[Chart]]
    absence: str = ""
    note: str = ""
    output: Sequence[str] = ()


def report_page(
    summary: Summary,
    record: RunRecord,
    curves: Curves,
    links: Mapping[str, str],
    live: Live | None = None,
) -> str:
    """The report as HTML; `live` of a run that goes on."""
    manifest = record.manifest
    return render(
        "report.html.j2",
        live=live,
        title=headline(summary),
        summary=summary,
        odd=[*summary.warnings, *map(left_behind_text, summary.left_behind)],
        numbers=[*key_numbers(summary), *_time_left(live)],
        timeline=curves.timeline,
        absence=curves.absence if live is None else "",
        curves_note=curves.note,
        output="\n".join(curves.output),
        charts=curves.charts,
        tables={
            "Test images by class": class_rows(list(summary.test_classes), summary.test_confusion),
            "Request": _rows(manifest.request),
            "Versions": _rows(_versions(manifest)),
            "Configuration": _rows(
                # Of a program of the user's own the trainer's settings say nothing.
                {
                    name: value
                    for name, value in manifest.configuration.items()
                    if value is not None or not record.is_project
                }
            ),
            "Program": _rows(_program(manifest)),
        },
        links=links,
        started=local_time(summary.started_at),
    )


def class_rows(names: Sequence[str], confusion: Sequence[Sequence[int]]) -> list[tuple[str, str]]:
    """How much of each class is classified right, the worst first, and what it is taken for.

    Args:
        confusion: how many images of each class (row) got which answer (column); may be empty.
    """
    rows = []
    for number, row in enumerate(confusion):
        others = {other: n for other, n in zip(names, row, strict=True) if n}
        right = others.pop(names[number], 0) / max(sum(row), 1)
        worst = max(others, key=lambda other: others[other], default=None)
        taken = f", taken for {worst} {percent(others[worst] / sum(row))}" if worst else ""
        if any(row):
            rows.append((right, names[number], f"{percent(right)}{taken}"))
    return [(name, told) for _, name, told in sorted(rows, key=lambda entry: entry[0])]


def _training_curves(run: Path, record: RunRecord) -> Curves:
    metrics = read_every_line(run / METRICS)
    timeline = timeline_of(record.manifest, metrics)
    training = training_charts(metrics)
    return Curves(
        timeline,
        {
            "Training": training,
            "Steps and nodes": [*step_time_chart(metrics), *_node_charts(run, record, timeline)],
        },
        "" if training else "No step was logged, so there are no curves.",
    )


def _program_curves(run: Path, record: RunRecord) -> Curves:
    timeline = program_timeline(record.manifest, read_spells(run))
    reported = reading_charts(record.readings, retried=record.attempts > 1)
    absence = (
        "There are no curves, because the program reported no numbers. It can write them to "
        '$TRAINYARD_METRICS, a JSON object a line, like {"step": 3, "loss": 0.2}; print the bars '
        "of tqdm; or have a pattern for its lines, metrics: in trainyard.yml."
    )
    left_out = names_left_out(record.readings)
    note = (
        f"Only {MOST_CHARTS} numbers have a chart. These have none: {', '.join(left_out)}."
        if left_out
        else ""
    )
    nodes = _node_charts(run, record, timeline)
    return Curves(
        timeline, {"Metrics": reported, "Nodes": nodes}, "" if reported else absence, note
    )


def _node_charts(run: Path, record: RunRecord, timeline: Timeline | None) -> list[Chart]:
    retries = timeline.retries if timeline else ()
    marks = tuple(Mark(moment.at, moment.label.split(",")[0]) for moment in retries)
    return node_charts(read_utilisation(run), record.manifest.started_at, marks)


def file_links(run: Path, record: RunRecord) -> dict[str, str]:
    """Files of a run that are worth a look, and what each is called."""
    links = {}
    if record.is_project:
        links = {f"{name}/": text for name, text in FOLDERS.items() if (run / name).is_dir()}
        for folder in result_folders(run):
            path = folder.relative_to(run)
            host = f" of {path.parts[1]}" if len(path.parts) > 1 else ""
            links[f"{path}/"] = f"{path.name}{host}"
    links |= {log.path: f"rank {log.rank} on {log.host or '?'}" for log in record.rank_logs}
    links |= {path: text for path, text in FILES.items() if (run / path).is_file()}
    links |= {log.path: f"container on {log.host}" for log in record.container_logs}
    for path in sorted(run.glob("attempts/*/logs/*.log")):
        attempt = path.parent.parent.name
        links[str(path.relative_to(run))] = f"attempt {attempt}: {path.stem}"
    return links


def left_behind_text(left: LeftBehind) -> str:
    """What did not come home from a node, and why."""
    files = f"{plural(left.files, 'file')} of ranks on {left.host}"
    if left.code == FILES_BEYOND_LIMITS:
        return f"Not fetched: {files}, beyond the limits ({left.names}); they are still there."
    return f"Not fetched: {files}, refused because runs leave no such files ({left.names})."


def headline(summary: Summary) -> str:
    """The verdict in one sentence."""
    where = f"{summary.nodes} node{'s' if summary.nodes > 1 else ''}"
    what = f"{summary.subject}, {where}"
    time = "" if summary.seconds_total is None else f" after {duration(summary.seconds_total)}"
    return f"{what}: {summary.status}{time}"


def key_numbers(summary: Summary) -> list[Number]:
    """The numbers a reader looks for first; what is not known is left out."""
    tested = f"on {summary.test_images:,} images" if summary.test_images else "on the test set"
    best = f"best.pt, epoch {summary.best_epoch}, chosen by validation"
    held_out = summary.validation_images
    validated = f"on {held_out:,} images held out" if held_out else "last epoch"
    loss = "mean of the last epoch" if summary.status == "succeeded" else "last one logged"
    until = "since the command" if summary.status == RUNNING else "from command to report"
    useful = "of the time since the start went into steps that were kept"
    hosts, before = f"on {', '.join(summary.hosts)}", summary.resumed
    if before and before.world_size != summary.world_size:
        hosts += f", after {before.images:,} images on {before.world_size}"
    of_all = f"of {summary.train_images_available:,}" if summary.train_images_available else ""
    steps, work = summary.steps or None, "the highest that was reported"
    if summary.epochs is not None and summary.batch_per_rank is not None:
        steps = summary.steps
        work = f"{plural(summary.epochs, 'epoch')}, batch {summary.batch_per_rank} a rank"
    ratio = summary.effective_training_time_ratio
    reported = list(summary.readings.items())[:MOST_VALUES]
    rows: list[tuple[str, Any, Callable[[Any], str], str]] = [
        ("Test accuracy", summary.test_accuracy, percent, tested),
        ("Test accuracy, top 5", summary.test_top5, percent, tested),
        ("Test accuracy, best", summary.best_test_accuracy, percent, best),
        ("Validation accuracy", summary.validation_accuracy, percent, validated),
        ("Training loss", summary.final_loss, "{:.3f}".format, loss),
        *((name, value, short_number, "last reported") for name, value in reported),
        ("Images/s", summary.images_per_second, "{:,.1f}".format, "all ranks together"),
        ("Time", summary.seconds_total, duration, until),
        ("Useful time", ratio, percent, useful),
        ("First step", summary.seconds_to_first_step, duration, "after the command"),
        ("World", summary.world_size, "{} ranks".format, hosts),
        ("Training images", summary.train_images, "{:,}".format, of_all),
        ("Steps", steps, "{:,}".format, work),
    ]
    return [
        Number(label, form(value), note) for label, value, form, note in rows if value is not None
    ]


def _time_left(live: Live | None) -> list[Number]:
    if live is None or live.seconds_left is None:
        return []
    return [Number("Time left", duration(live.seconds_left), "at the pace so far")]


def _program(manifest: Manifest) -> dict[str, Any]:
    entries = dict(manifest.project or {})
    if "program" in entries:
        entries["program"] = shlex.join(map(str, entries["program"]))
    names = {"program": "command", "per": "one for each", "sha256": "sha256 of its files"}
    return {names.get(name, name): value for name, value in entries.items() if value is not None}


def _versions(manifest: Manifest) -> dict[str, Any]:
    code = manifest.code or {}
    revision = code.get("revision", "")[:12] + (" with changes" if code.get("dirty") else "")
    versions = {name: text for name, text in manifest.versions.items() if name != "trainer"}
    trainer = {
        f"{name} (image)": text for name, text in manifest.versions.get("trainer", {}).items()
    }
    image = manifest.image or {}
    return {
        **trainer,
        **versions,
        "image": image.get("name", ""),
        "image digest": image.get("digest", ""),
        "code": revision,
    }


def _rows(entries: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, readable(value)) for name, value in entries.items() if value not in ("", {}, [], ())
    ]


def readable(value: Any) -> str:
    """A configuration value for people."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={readable(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(readable(entry) for entry in value)
    return str(value)
