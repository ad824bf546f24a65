"""Numbers as people read them."""


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
