"""The table of docs/faults.md: a row for each fault, of what was measured when it was put in."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from machines import CHECKOUT
from tables import merge, row, table

DOCUMENT = CHECKOUT / "docs/faults.md"
BEGIN = "<!-- The rows below are written by pytest tests/e2e/faults --write-table -->\n"
END = "<!-- End of the table -->\n"
# The last measurement of every fault in this checkout
RECORDS = CHECKOUT / ".trainyard/faults.json"
COLUMNS = ("case", "seconds to notice", "end", "left behind", "logs collected", "measured")


@dataclass(frozen=True)
class Record:
    """What was measured of one fault.

    Attributes:
        case: name of the fault.
        seconds: from the fault until the end of the run was noticed; None where the run goes on.
        end: code of the diagnosis; of a run without one, how it ended.
        left: what was left on the nodes.
        logs: number of ranks whose log was at home, complete.
        ranks: number of ranks that had a log when the fault struck.
        last_lines: the last line of each rank's log at home.
        date: day of the measurement.
    """

    case: str
    seconds: float | None
    end: str
    left: Sequence[str]
    logs: int
    ranks: int
    last_lines: Sequence[str]
    date: str

    def cells(self) -> list[str]:
        """The cells of the row, in the order of COLUMNS."""
        return [
            self.case,
            "-" if self.seconds is None else f"{self.seconds:.0f}",
            self.end,
            "; ".join(self.left) or "nothing",
            f"{self.logs} of {self.ranks}" if self.ranks else "-",
            self.date,
        ]


def fault_table(records: Iterable[Record]) -> str:
    """The table of these records."""
    return table(COLUMNS, (row(record.cells()) for record in records))


def merge_records(text: str, records: Iterable[Record]) -> str:
    """Put records into the document."""
    rows = {record.case: record.cells() for record in records}
    return merge(text, BEGIN, END, COLUMNS, rows)


def keep(records: Sequence[Record], file: Path = RECORDS) -> None:
    """Keep the records of a session beside those of other faults from earlier sessions."""
    earlier = json.loads(file.read_text()) if file.is_file() else {}
    file.parent.mkdir(exist_ok=True)
    new = {record.case: asdict(record) for record in records}
    file.write_text(json.dumps({**earlier, **new}, indent=1) + "\n")
