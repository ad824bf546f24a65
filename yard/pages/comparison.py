"""Two or more runs on one page: what differs between them, and their curves on common axes."""

import difflib
import filecmp
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.code.snapshot import FOLDER
from yard.core.errors import RequestError
from yard.core.files import write_text
from yard.core.words import duration, percent, short_number
from yard.pages.charts import comparison_charts
from yard.pages.page import local_time, render
from yard.pages.plot import COLOURS
from yard.pages.reading_charts import MOST_CHARTS, reading_comparison
from yard.pages.report import readable
from yard.runs.manifest import Manifest
from yard.runs.record import RunRecord, read_run
from yard.runs.summary import Summary, read_summary

# The lines that are shown of a difference, and the bytes of the largest file that is compared.
MOST_LINES, MOST_BYTES = 400, 200_000


@dataclass(frozen=True)
class Compared:
    """One of the runs: its directory, its label within the page and its colour."""

    run: Path
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
            problems.append(f"{run.name}: no summary yet; make stop RUN={run.name} ends it")
        else:
            entries.append(Compared(run, label, colour, read_run(run), summary))
    if problems:
        raise RequestError(*problems)
    return comparison_page(entries)


def labels_of(runs: Sequence[Path]) -> list[str]:
    """A short label for each run: A, B, C, ..."""
    return [chr(ord("A") + number) for number in range(len(runs))]


def comparison_page(entries: Sequence[Compared]) -> str:
    return render(
        "comparison.html.j2",
        title=f"{len(entries)} runs compared",
        entries=entries,
        started=[local_time(entry.summary.started_at) for entry in entries],
        results=result_rows([entry.summary for entry in entries]),
        changes=difference_rows([changes_of(entry.record.manifest) for entry in entries]),
        code=[
            (entry.label, lines)
            for entry in entries[1:]
            if (lines := code_changes(entries[0].run, entry.run, entry.label))
        ],
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


def changes_of(manifest: Manifest) -> dict[str, str]:
    """What a person decided: what was typed, from what it went on, and which code that was."""
    typed = {name: value for name, value in manifest.request.items() if name != "options"}
    typed |= manifest.request.get("options") or {}
    resumed = typed.pop("resume", None)
    git = (manifest.project or {}).get("git") or {}
    changes: dict[str, Any] = {
        **typed,
        "data set": manifest.configuration.get("dataset"),
        "resumed from": resumed,
        "revision of the program": _short(git.get("revision")),
        "revision of Trainyard": _short((manifest.code or {}).get("revision")),
        "image": (manifest.image or {}).get("name"),
    }
    return {name: readable(value) for name, value in changes.items() if value is not None}


def _short(revision: str | None) -> str | None:
    """A revision as git shows it to people."""
    return revision and revision[:12]


def settings_of(record: RunRecord) -> dict[str, str]:
    """What else may make one run differ from another: configuration, hosts and versions."""
    manifest = record.manifest
    versions = {
        f"version of {name}": text for name, text in manifest.versions.items() if name != "trainer"
    }
    trainer = {
        f"version of {name} (image)": text
        for name, text in manifest.versions.get("trainer", {}).items()
    }
    settings: dict[str, Any] = {
        **{name: value for name, value in manifest.configuration.items() if not _is_noise(name)},
        "hosts": list(record.hosts),
        **trainer,
        **versions,
    }
    return {name: readable(value) for name, value in settings.items()}


def _is_noise(name: str) -> bool:
    """Whether a setting tells a reader nothing: a checksum, or what was measured before the run."""
    return name.endswith("sha256") or name == "seconds_between_failures"


def code_changes(before: Path, after: Path, label: str) -> list[str]:
    """What differs between the programs that two runs have kept, as lines of a unified diff.

    Of a file that is no text, or is too large, only the name is told.
    """
    folders = [run / FOLDER for run in (before, after)]
    if not all(folder.is_dir() for folder in folders):
        return []
    files = [
        {
            str(path.relative_to(folder)): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }
        for folder in folders
    ]
    lines: list[str] = []
    for name in sorted({*files[0], *files[1]}):
        one, other = files[0].get(name), files[1].get(name)
        if one and other and filecmp.cmp(one, other, shallow=False):
            continue
        was, now = _lines_of(one), _lines_of(other)
        if was is None or now is None:
            lines.append(f"{name} differs")
            continue
        lines += difflib.unified_diff(was, now, f"A/{name}", f"{label}/{name}", n=2, lineterm="")
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and {more:,} lines more"] if more > 0 else lines


def _lines_of(path: Path | None) -> list[str] | None:
    """The lines of a file; [] where there is no file, None where it is no text or too large."""
    if path is None:
        return []
    if path.stat().st_size > MOST_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except ValueError:
        return None


def difference_rows(
    settings: Sequence[Mapping[str, str]],
) -> list[tuple[str, list[tuple[str, str]]]]:
    """The settings that are not the same everywhere."""
    names = list(dict.fromkeys(name for one in settings for name in one))
    rows = [(name, [(one.get(name, "—"), "") for one in settings]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]
