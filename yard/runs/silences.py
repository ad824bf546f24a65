"""`silences.jsonl`: when no rank of a program of the user's own gave a sign of life for long."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.files import decoded_lines
from yard.core.words import duration

FILE = "silences.jsonl"
# The launcher's own are few; what else stands there a rank has written.
MOST = 16
MOST_BYTES = 16 * 1024


@dataclass(frozen=True)
class Silence:
    """A silence, which the run may have gone on after.

    Attributes:
        time: when it was noticed, Unix seconds of the first node's clock.
        seconds: how long it had lasted by then.
    """

    time: float
    seconds: float

    @property
    def text(self) -> str:
        """What people read of it."""
        return (
            f"for {duration(self.seconds)} no rank wrote a line or a number, or used a processor. "
            "If the program hangs, the stacks of its Python processes in logs/rank-*.log show "
            "where; logs/mpirun.log has what each rank did. STALL= ends such a run."
        )


def known_silences(lines: Iterable[Any]) -> tuple[Silence, ...]:
    """The silences among decoded lines, in order: a rank can write anything."""
    silences = []
    for line in lines:
        if isinstance(line, dict):
            moment, seconds = _number(line.get("time")), _number(line.get("seconds"))
            if moment is not None and seconds is not None:
                silences.append(Silence(moment, seconds))
    return tuple(silences[-MOST:])


def read_silences(run: Path) -> tuple[Silence, ...]:
    """The silences of a run's newest attempt; none without the file."""
    try:
        with (run / FILE).open("rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ()
    return known_silences(decoded_lines(text))


def _number(value: Any) -> float | None:
    """A number of seconds; None for what is none, or more than three centuries."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 10**10 else None
