"""Two or more runs on one page: what differs between them, and their curves on common axes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.files import write_text
from yard.core.words import duration, percent, short_number
from yard.pages.charts import comparison_charts
from yard.pages.page import local_time, render
from yard.pages.plot import COLOURS
from yard.pages.reading_charts import MOST_CHARTS, reading_comparison
from yard.pages.report import readable
from yard.runs.record import RunRecord, read_run
from yard.runs.summary import Summary, read_summary


@dataclass(frozen=True)
class Compared:
    """One of the runs: its label within the page and its colour."""

    label: str
    colour: str
    record: RunRecord
    summary: Summary


def write_comparison(runs: Path, chosen: Sequence[Path]) -> Path:
    """Draw a page that compares runs; returns the path written.

    Raises:
        RequestError: see `comparison_of`.
    """
    text = comparison_of(chosen)
    stamps = "_".join(run.name.split("_")[0] for run in chosen)
    path = runs / f"comparison_{stamps}.html"
    write_text(path, text)
    return path


def comparison_of(chosen: Sequence[Path]) -> str:
    """The comparison of runs as HTML.

    Raises:
        RequestError: there are fewer than two, more than there are colours, or one is not over.
    """
    problems = []
    if not 2 <= len(set(chosen)) <= len(COLOURS):
        problems.append(f"a comparison takes 2 to {len(COLOURS)} different runs")
    entries = []
    labels = labels_of(chosen)
    for run, label, colour in zip(chosen, labels, COLOURS, strict=False):
        summary = read_summary(run)
        if summary is None:
            problems.append(f"{run.name}: no summary yet; `yard stop {run.name}` ends it")
        else:
            entries.append(Compared(label, colour, read_run(run), summary))
    if problems:
        raise RequestError(problems)
    return comparison_page(entries)


def labels_of(runs: Sequence[Path]) -> list[str]:
    """A short label for each run: A, B, C, ..."""
    return [chr(ord("A") + number) for number in range(len(runs))]


def comparison_page(entries: Sequence[Compared]) -> str:
    """The comparison as HTML."""
    return render(
        "comparison.html.j2",
        title=f"{len(entries)} runs compared",
        entries=entries,
        started=[local_time(entry.summary.started_at) for entry in entries],
        results=result_rows([entry.summary for entry in entries]),
        differences=difference_rows([settings_of(entry.record) for entry in entries]),
        charts=[
            *comparison_charts({e.label: e.record.metrics for e in entries}),
            *reading_comparison({e.label: e.record.readings for e in entries}),
        ],
    )


def result_rows(summaries: Sequence[Summary]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The results, a row each: every run's value, and what part it is of the first run's.

    The part is given where it says something: of speeds and times.
    """
    rows: list[tuple[str, Sequence[float | None], Callable[[Any], str], bool]] = [
        ("Test accuracy", [s.test_accuracy for s in summaries], percent, False),
        ("Test accuracy, best", [s.best_test_accuracy for s in summaries], percent, False),
        ("Validation accuracy", [s.validation_accuracy for s in summaries], percent, False),
        ("Training loss", [s.final_loss for s in summaries], lambda loss: f"{loss:.3f}", False),
        ("Images/s", [s.images_per_second for s in summaries], lambda n: f"{n:,.1f}", True),
        ("Time", [s.seconds_total for s in summaries], duration, True),
        ("First step after", [s.seconds_to_first_step for s in summaries], duration, True),
        ("Ranks", [s.world_size for s in summaries], str, False),
        ("Steps", [s.steps or None for s in summaries], lambda n: f"{n:,}", False),
    ]
    names = dict.fromkeys(name for summary in summaries for name in summary.readings)
    for name in list(names)[:MOST_CHARTS]:
        rows.append((name, [s.readings.get(name) for s in summaries], short_number, False))

    def cells(
        values: Sequence[float | None], form: Callable[[Any], str], compared: bool
    ) -> list[tuple[str, str]]:
        first, *rest = values
        texts = ["—" if value is None else form(value) for value in values]
        parts = [
            f"{value / first:.2f} of A" if compared and first and value is not None else ""
            for value in rest
        ]
        return list(zip(texts, ["", *parts], strict=True))

    return [
        (label, cells(values, form, compared))
        for label, values, form, compared in rows
        if any(value is not None for value in values)
    ]


def settings_of(record: RunRecord) -> dict[str, str]:
    """What may make one run differ from another: configuration, versions, image, code."""
    manifest = record.manifest
    versions = {
        f"version of {name}": text for name, text in manifest.versions.items() if name != "trainer"
    }
    trainer = {
        f"version of {name} (image)": text
        for name, text in manifest.versions.get("trainer", {}).items()
    }
    settings: dict[str, Any] = {
        **manifest.configuration,
        "hosts": list(record.hosts),
        **trainer,
        **versions,
        "image digest": (manifest.image or {}).get("digest"),
        "code revision": (manifest.code or {}).get("revision"),
        **{f"program: {name}": value for name, value in (manifest.project or {}).items()},
    }
    return {name: readable(value) for name, value in settings.items()}


def difference_rows(
    settings: Sequence[Mapping[str, str]],
) -> list[tuple[str, list[tuple[str, str]]]]:
    """The settings that are not the same everywhere."""
    names = list(dict.fromkeys(name for one in settings for name in one))
    rows = [(name, [(one.get(name, "—"), "") for one in settings]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]
