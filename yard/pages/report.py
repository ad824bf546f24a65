"""`report.html`: one file that shows a run, opens from disk and needs no network."""

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.files import write_text
from yard.core.words import duration, percent
from yard.pages.charts import node_charts, step_time_chart, training_charts
from yard.pages.index import write_index
from yard.pages.page import Number, drawings, local_time, render
from yard.pages.plot import Mark
from yard.pages.timeline import timeline_of
from yard.runs.folder import REPORT_ERROR
from yard.runs.manifest import Manifest
from yard.runs.metrics import Metric, read_every_line
from yard.runs.record import read_run
from yard.runs.summary import Summary, read_summary
from yard.runs.utilisation import Sample, read_utilisation

# What is worth a link beside the ranks' own logs, and what it is.
FILES = {
    "logs/mpirun.log": "mpirun",
    "ansible.log": "Ansible",
    "summary.json": "summary",
    "manifest.json": "manifest",
    "metrics.jsonl": "metrics",
    "config.json": "trainer's configuration",
}


def write_report(run: Path) -> Path:
    """Draw the report of a run from its files; returns the path written.

    Raises:
        RequestError: it is no run, or not over yet.
    """
    summary = read_summary(run)
    if summary is None:
        raise RequestError(
            [f"{run.name}: no summary yet; `yard stop {run.name}` ends and collects it"]
        )
    path = run / "report.html"
    page = report_page(
        summary,
        read_run(run).manifest,
        read_every_line(run / "metrics.jsonl"),
        read_utilisation(run),
        file_links(run),
    )
    write_text(path, page)
    return path


def draw_report(run: Path) -> None:
    """Draw the report of a run that has just ended, and the page of all runs.

    The run is over and its files are kept: nothing that goes wrong here may take that back. The
    reason stays beside them in a file.
    """
    try:
        write_report(run)
        write_index(run.parent)
    except Exception:  # whatever it is, it is not worth a run
        (run / REPORT_ERROR).write_text(traceback.format_exc(), encoding="utf-8")
    else:
        (run / REPORT_ERROR).unlink(missing_ok=True)


def report_page(
    summary: Summary,
    manifest: Manifest,
    metrics: Sequence[Metric],
    utilisation: Mapping[str, Sequence[Sample]],
    links: Mapping[str, str],
) -> str:
    """The report as HTML; `metrics` are the lines of all attempts of the run."""
    timeline = timeline_of(manifest, metrics)
    retries = timeline.retries if timeline else ()
    marks = tuple(Mark(moment.at, moment.label.split(",")[0]) for moment in retries)
    return render(
        "report.html.j2",
        title=headline(summary),
        summary=summary,
        numbers=key_numbers(summary),
        timeline=timeline,
        charts={
            "Training": drawings(training_charts(metrics)),
            "Steps and nodes": drawings(
                [
                    *step_time_chart(metrics),
                    *node_charts(utilisation, manifest.started_at, marks),
                ]
            ),
        },
        tables={
            "Request": _rows(manifest.request),
            "Versions": _rows(_versions(manifest)),
            "Configuration": _rows(manifest.configuration),
        },
        links=links,
        started=local_time(summary.started_at),
    )


def file_links(run: Path) -> dict[str, str]:
    """Files of a run that are worth a look, and what each is called."""
    record = read_run(run)
    links = {log.path: f"rank {log.rank} on {log.host or '?'}" for log in record.rank_logs}
    links |= {path: text for path, text in FILES.items() if (run / path).is_file()}
    links |= {log.path: f"container on {log.host}" for log in record.container_logs}
    for path in sorted(run.glob("attempts/*/logs/*.log")):
        attempt = path.parent.parent.name
        links[str(path.relative_to(run))] = f"attempt {attempt}: {path.stem}"
    return links


def headline(summary: Summary) -> str:
    """The verdict in one sentence."""
    where = f"{summary.nodes} node{'s' if summary.nodes > 1 else ''}"
    what = f"{summary.model} on {summary.dataset}, {where}"
    time = "" if summary.seconds_total is None else f" after {duration(summary.seconds_total)}"
    return f"{what}: {summary.status}{time}"


def key_numbers(summary: Summary) -> list[Number]:
    """The numbers a reader looks for first; what is not known is left out."""
    numbers = []
    if summary.test_accuracy is not None:
        images = f"on {summary.test_images:,} images" if summary.test_images else "on the test set"
        numbers.append(Number("Test accuracy", percent(summary.test_accuracy), images))
    if summary.final_loss is not None:
        numbers.append(
            Number(
                "Training loss",
                f"{summary.final_loss:.3f}",
                "mean of the last epoch" if summary.status == "succeeded" else "last one logged",
            )
        )
    if summary.images_per_second is not None:
        numbers.append(
            Number("Images/s", f"{summary.images_per_second:,.1f}", "all ranks together")
        )
    if summary.seconds_total is not None:
        numbers.append(Number("Time", duration(summary.seconds_total), "from command to report"))
    if summary.seconds_to_first_step is not None:
        first = duration(summary.seconds_to_first_step)
        numbers.append(Number("First step after", first, "from the command on"))
    if summary.world_size is not None:
        hosts = ", ".join(summary.hosts)
        numbers.append(Number("World", f"{summary.world_size} ranks", f"on {hosts}"))
    if summary.train_images is not None:
        of_all = f"of {summary.train_images_available:,}" if summary.train_images_available else ""
        numbers.append(Number("Training images", f"{summary.train_images:,}", of_all))
    numbers.append(
        Number(
            "Steps",
            f"{summary.steps:,}",
            f"{summary.epochs} epochs, batch {summary.batch_per_rank} a rank",
        )
    )
    return numbers


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
