"""Chooses how progress is shown."""

from rich.console import Console

from yard.screen.live_progress import LiveProgress
from yard.screen.plain_progress import PlainProgress
from yard.screen.progress import Progress


def make_progress(console: Console) -> Progress:
    """The display that fits where the output goes."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)
