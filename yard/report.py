"""`report.html`: one file that shows a run, opens from disk and needs no network."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from yard.charts import Chart, draw_charts
from yard.errors import RequestError
from yard.files import write_text
from yard.manifest import Manifest
from yard.progress import duration, percent
from yard.run import read_run
from yard.summary import Summary, read_summary

# What is worth a link beside the ranks' own logs, and what it is.
FILES = {
    "logs/mpirun.log": "mpirun",
    "ansible.log": "Ansible",
    "summary.json": "summary",
    "manifest.json": "manifest",
    "metrics.jsonl": "metrics",
    "config.json": "trainer's configuration",
}


@dataclass(frozen=True)
class Number:
    """One of the key numbers at the top; `note` says what it means."""

    label: str
    value: str
    note: str = ""


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
    record = read_run(run)
    links = {log.path: f"rank {log.rank} on {log.host or '?'}" for log in record.rank_logs}
    links |= {path: text for path, text in FILES.items() if (run / path).is_file()}
    links |= {log.path: f"container on {log.host}" for log in record.container_logs}
    page = render(summary, record.manifest, draw_charts(record.metrics), links)
    path = run / "report.html"
    write_text(path, page)
    return path


def render(
    summary: Summary, manifest: Manifest, charts: list[Chart], links: Mapping[str, str]
) -> str:
    """Fill the template in. Everything but the drawings is escaped."""
    environment = Environment(
        loader=PackageLoader("yard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        summary=summary,
        headline=headline(summary),
        numbers=key_numbers(summary),
        charts=[(chart, Markup(chart.wide), Markup(chart.narrow)) for chart in charts],
        tables={
            "Request": _rows(manifest.request),
            "Versions": _rows(_versions(manifest)),
            "Configuration": _rows(manifest.configuration),
        },
        links=links,
        started=local_time(summary.started_at),
    )


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
            Number("Training loss", f"{summary.final_loss:.3f}", "mean of the last epoch")
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


def local_time(text: str | None) -> str:
    """An ISO time as people read it, in UTC."""
    return "" if text is None else f"{datetime.fromisoformat(text):%d %B %Y, %H:%M} UTC"


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
        (name, _text(value)) for name, value in entries.items() if value not in ("", {}, [], ())
    ]


def _text(value: Any) -> str:
    """A configuration value for people."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_text(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text(entry) for entry in value)
    return str(value)
