#!/usr/bin/env python3
"""Writes the table of docs/roles.md from the logs of molecule/run: molecule/table.py DIRECTORY

Each cell says what a log shows, so a row is as good as the last run of its scenario.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs/roles.md"
BEGIN = "<!-- The table below is written by molecule/run -->\n"
END = "<!-- End of the table -->\n"
RELEASES = ("Debian 12", "Debian 13")
COLUMNS = (
    "check on clean",
    "idempotent",
    "verified",
    "mutations noticed",
    "removed again",
    *RELEASES,
)

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PHASE = re.compile(r"➜ (\w+): Executed: Successful")
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
            *(yes(release in self.releases) for release in RELEASES),
        ]


def read_log(text: str) -> Result:
    """Read what a scenario's log shows; of a scenario that failed, nothing counts."""
    text = COLOUR.sub("", text)
    if "failed=0" not in text.rsplit("SCENARIO RECAP", 1)[-1] or "SCENARIO RECAP" not in text:
        return Result(frozenset(), 0, False, frozenset())
    return Result(
        phases=frozenset(PHASE.findall(text)),
        mutations=len(set(NOTICED.findall(text))),
        removed=bool(REMOVED.search(text)),
        releases=frozenset(VERIFIED.findall(text)),
    )


def table(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Lay out rows under the columns, as Markdown."""
    head = ("", *COLUMNS)
    lines = [head, ["---"] * len(head), *([f"`{name}`", *cells] for name, cells in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(logs: Path) -> None:
    scenarios = sorted(file.parent.name for file in ROOT.glob("molecule/*/molecule.yml"))
    # Roles first, then what is about several of them.
    scenarios.sort(key=lambda name: not (ROOT / "roles" / name).is_dir())
    rows = [
        (name, read_log((logs / f"{name}.log").read_text()).cells())
        for name in scenarios
        if (logs / f"{name}.log").is_file()
    ]
    before, rest = DOCUMENT.read_text().split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
