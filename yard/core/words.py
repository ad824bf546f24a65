"""Numbers and names as people read them."""

from collections.abc import Sequence


def percent(fraction: float) -> str:
    """A fraction of 1 as text, like `38.1 %`."""
    return f"{100 * fraction:.1f} %"


def clock(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`, for what counts down."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """Seconds for people: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def printable(text: str) -> str:
    """A name of a file or the like as it is, or escaped where it cannot be printed."""
    return text if text.isprintable() else ascii(text)


def first_names(names: Sequence[str], most: int) -> str:
    """Names with commas, of many the first ones and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def size(number: int) -> str:
    """Bytes for people, in powers of 1000: `532 bytes`, `1.4 kB`, `500 MB`."""
    if number < 1000:
        return plural(number, "byte")
    units = ["kB", "MB", "GB", "TB"]
    value = number / 1000
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    unit = units[0]
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def plural(number: int, noun: str) -> str:
    """A number with its noun, like `1 node` or `2 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def short_number(value: float) -> str:
    """A number of unknown kind in a few characters: `2.104`, `0.0002`, `12,345`, `1.2e+09`."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3f}" if value != int(value) else str(int(value))
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.3g}"
