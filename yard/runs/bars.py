"""Numbers in the progress bars of tqdm and rich, as they stand in a log."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from yard.runs.pace import steps_to_go
from yard.runs.readings import Reading

# ` 40%|████      | 40/100 [00:05<00:07,  8.0it/s, loss=0.5]`, see tqdm's `bar_format`.
_TQDM = re.compile(
    r"\d{1,3}%\|[^|]{0,400}\|\s*(?P<step>[\d.]+)(?P<unit>[kMGT]?)i?[A-Za-z]{0,2}/"
    r"(?P<steps>[\d.]+)(?P<units>[kMGT]?)i?[A-Za-z]{0,2}\s"
    r"\[(?P<elapsed>[\d:]{1,12})<[\d:?]{1,12},(?P<rest>[^\]]{0,600})\]"
)
# `123it [00:05, 24.1it/s, loss=0.5]`: of how many nobody knows.
_TQDM_COUNT = re.compile(
    r"(?:^|\s)(?P<step>\d{1,15})it\s\[(?P<elapsed>[\d:]{1,12}),(?P<rest>[^\]]{0,600})\]"
)
# `Training ━━━━━━━━╸━━━━━━━  45/100 0:00:12 train_loss: 0.5`, or the percentage alone.
_RICH = re.compile(
    r"[━╸╺]{4,400}\s{1,8}(?:(?P<step>[\d.]{1,15})/(?P<steps>[\d.]{1,15})|(?P<percent>\d{1,3})%)"
    r"(?P<rest>.{0,600})"
)
_NAMED = re.compile(
    r"(?<![\w./-])(?P<name>[A-Za-z_][\w./-]{0,63})(?:=|:\s)\s?"
    r"(?P<value>[-+]?\d{1,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?)(?![\w:/])"
)
_EPOCH = re.compile(r"\bepoch\W{0,3}(?P<epoch>\d{1,9})(?:\s?/\s?(?P<epochs>\d{1,9}))?", re.I)
# A bar of epochs, with one of steps inside.
_EPOCHS = re.compile(r"\bepochs?\W*$", re.I)
_UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def readings_of_bars(lines: Iterable[str], now: float | None = None) -> list[Reading]:
    """What progress bars say, in order, without other lines.

    Args:
        now: when the last line came, Unix seconds: then the readings of bars that tell how long
            they have run have a time.
    """
    readings: list[Reading] = []
    moment, later = now, 0.0
    for line in reversed(list(lines)):
        found = _find(line)
        reading = None if found is None else reading_of_bar(line)
        if found is None or reading is None:
            continue
        elapsed = _seconds(found.groupdict().get("elapsed"))
        if moment is not None and elapsed is not None:
            # That of a later line is less where another bar had begun.
            moment -= max(0.0, later - elapsed) if readings else 0.0
            later = elapsed
            reading = replace(reading, time=moment)
        readings.append(reading)
    return readings[::-1]


def _find(line: str) -> re.Match[str] | None:
    return _TQDM.search(line) or _TQDM_COUNT.search(line) or _RICH.search(line)


def _seconds(clock: str | None) -> float | None:
    seconds = 0.0
    for part in (clock or "").split(":"):
        if not part.isdecimal():
            return None
        seconds = 60 * seconds + int(part)
    return seconds


def reading_of_bar(line: str) -> Reading | None:
    """What a progress bar says: where the program is, and the numbers beside the bar.

    Returns:
        None where the line has no bar.
    """
    found = _find(line)
    if found is None:
        return None
    groups = found.groupdict()
    if groups.get("percent"):
        groups |= {"step": groups["percent"], "steps": "100"}
    place: dict[str, Any] = {
        "step": _number(groups["step"], groups.get("unit")),
        "steps": _number(groups.get("steps"), groups.get("units")),
    }
    before = line[: found.start()].rstrip()
    if _EPOCHS.search(before):
        place = {"epoch": place["step"], "epochs": place["steps"]}
    elif epoch := _EPOCH.search(before):
        place |= {name: _number(text, "") for name, text in epoch.groupdict().items()}
    values = {each["name"]: float(each["value"]) for each in _NAMED.finditer(groups["rest"] or "")}
    reading = Reading.from_json(_known({**values, **place}))
    elapsed = _seconds(groups.get("elapsed"))
    if reading is None or not elapsed:
        return reading
    return replace(reading, seconds_left=_seconds_left(reading, elapsed))


def _seconds_left(reading: Reading, elapsed: float) -> float | None:
    """Until the end of the last epoch, at the pace of a bar; None where that is not known."""
    done, whole = reading.step, reading.steps
    if done is None:  # a bar of epochs
        done, whole = reading.epoch, reading.epochs
    else:
        whole = steps_to_go(reading, by_epoch=True)
    return elapsed / done * max(0.0, whole - done) if done and whole else None


def _known(numbers: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if value is not None}


def _number(text: str | None, unit: str | None) -> float | None:
    """A count as tqdm writes it, like `1.5k`."""
    try:
        number = float(text or "") * _UNITS[unit or ""]
    except ValueError:
        return None
    return number if math.isfinite(number) else None
