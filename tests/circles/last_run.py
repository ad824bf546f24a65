"""When each unit was last run whole, of which people commit the record: tests/last_run.yml."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml
from units import ROOT, Unit

LAST_RUN = "tests/last_run.yml"
NEVER = "never"


def read_last_run(root: Path = ROOT) -> dict[str, str]:
    """Read when each unit last passed, day and commit, by its name."""
    file = root / LAST_RUN
    return (yaml.safe_load(file.read_text()) or {}) if file.is_file() else {}


def note_last_run(names: Iterable[str], day: str, commit: str, root: Path = ROOT) -> None:
    """Write that units have passed.

    Args:
        names: of the units.
        day: as 2026-11-28.
        commit: of the checkout that they were run in.
    """
    file = root / LAST_RUN
    text = file.read_text()
    record = {**read_last_run(root), **dict.fromkeys(names, f"{day} {commit[:7]}")}
    file.write_text(
        f"{text[: text.index('---')]}---\n{yaml.safe_dump(dict(sorted(record.items())))}"
    )


def oldest_first(units: Iterable[Unit], last: Mapping[str, str], clock: int) -> list[Unit]:
    """Those never run come first, then by the day; those of one day as the clock has it.

    CI cannot commit, so the record may stand still for a while. The clock sees to it that each time
    others come first.
    """
    dealt = sorted(units, key=lambda unit: unit.name)
    random.Random(clock).shuffle(dealt)
    return sorted(dealt, key=lambda unit: last.get(unit.name, "").partition(" ")[0])
