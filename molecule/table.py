#!/usr/bin/env python3
"""Writes the table of docs/roles.md from the logs of molecule/run: molecule/table.py DIRECTORY

Each cell says what a log shows, so a row is as good as the last run of its scenario. A cell that
its scenario is to fill and that stays empty is an error: then the log was not understood, or
something did not run.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs/roles.md"
BEGIN = "<!-- The table below is written by molecule/run -->\n"
END = "<!-- End of the table -->\n"
RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
COLUMNS = (
    "check on clean",
    "idempotent",
    "verified",
    "mutations noticed",
    "removed again",
    *RELEASES.values(),
)

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# With colours `openmpi ➜ verify: Executed`, without `[openmpi > verify] Executed`.
PHASE = re.compile(r" (?:➜|>) (\w+)[]:] Executed: Successful")
NOTICED = re.compile(r"^TASK \[Check that verify noticed: (.*)\]", re.MULTILINE)
REMOVED = re.compile(r"^TASK \[Check that the machine is as it was\]", re.MULTILINE)
VERIFIED = re.compile(r"verified on (Debian \d+)")


@dataclass(frozen=True)
class Result:
    """What the log of one scenario shows.

    Attributes:
        phases: names of molecule's steps that succeeded.
        mutations: how many ways to break the machine were noticed.
        removed: whether the machine was as before after the role was removed.
        releases: distributions that verify passed on.
    """

    phases: frozenset[str]
    mutations: int
    removed: bool
    releases: frozenset[str]

    def cells(self) -> list[str]:
        """The cells of the table's row, in the order of COLUMNS."""

        def yes(happened: bool) -> str:
            return "yes" if happened else "-"

        return [
            yes("check" in self.phases),
            yes("idempotence" in self.phases),
            yes("verify" in self.phases),
            str(self.mutations or "-"),
            yes(self.removed),
            *(yes(release in self.releases) for release in RELEASES.values()),
        ]


def read_log(text: str) -> Result:
    """Read what a scenario's log shows; of a scenario that failed, nothing counts."""
    text = COLOUR.sub("", text)
    # One recap is of the test, one of the removal of the machines.
    recaps = text.split("SCENARIO RECAP")[1:]
    if not recaps or not all("failed=0" in recap for recap in recaps):
        return Result(frozenset(), 0, False, frozenset())
    return Result(
        phases=frozenset(PHASE.findall(text)),
        mutations=len(set(NOTICED.findall(text))),
        removed=bool(REMOVED.search(text)),
        releases=frozenset(VERIFIED.findall(text)),
    )


def required_columns(scenario: Path) -> list[str]:
    """List the columns that a scenario fills when it passes, from its own settings and files."""
    base = yaml.safe_load((ROOT / "molecule/shared/base.yml").read_text())
    own = yaml.safe_load((scenario / "molecule.yml").read_text())

    def setting(*path: str) -> Any:
        """What the scenario says, else what all have in common."""
        for found in (own, base):
            for key in path:
                found = (found or {}).get(key)
            if found is not None:
                return found
        return None

    steps = setting("scenario", "test_sequence")
    columns = {
        "check on clean": "check" in steps,
        "idempotent": "idempotence" in steps,
        "verified": "verify" in steps,
        "mutations noticed": "side_effect" in steps and (scenario / "mutations.yml").is_file(),
        "removed again": "side_effect ../shared/remove.yml" in steps
        and (ROOT / "roles" / scenario.name / "tasks/absent.yml").is_file(),
    }
    if setting("ansible", "playbooks", "verify") == "../shared/verify.yml":
        machines = ("provisioner", "inventory", "group_vars", "all", "local_cluster_releases")
        columns |= {RELEASES[release]: "verify" in steps for release in setting(*machines)}
    return [column for column, required in columns.items() if required]


def table(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Lay out rows under the columns, as Markdown."""
    head = ("", *COLUMNS)
    lines = [head, ["---"] * len(head), *([f"`{name}`", *cells] for name, cells in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(logs: Path) -> str:
    """Write the table; return what is missing in it."""
    scenarios = sorted(file.parent for file in ROOT.glob("molecule/*/molecule.yml"))
    # Roles first, then what is about several of them.
    scenarios.sort(key=lambda scenario: not (ROOT / "roles" / scenario.name).is_dir())
    rows = []
    missing = []
    for scenario in scenarios:
        log = logs / f"{scenario.name}.log"
        cells = read_log(log.read_text() if log.is_file() else "").cells()
        rows.append((scenario.name, cells))
        missing += [
            f"{log}: nothing tells of: {column}"
            for column in required_columns(scenario)
            if cells[COLUMNS.index(column)] == "-"
        ]
    before, rest = DOCUMENT.read_text().split(BEGIN)
    after = rest.split(END)[1]
    if not missing:
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")
    return "\n".join(missing)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or None)
