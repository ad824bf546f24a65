"""The screen, onto which the text of nodes and programs comes as well."""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from yard.core.typed import as_typed

# All that steers a terminal, or turns the direction of text, but for the end of a line and the tab.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Unicode has a sign for each of the first 32 control characters, from here on.
SIGNS = 0x2400


def without_control(text: str) -> str:
    """Return a text with signs in place of what a terminal would obey.

    A rank's log may hold what clears the screen, gives the window another title, or has the
    terminal type a command.
    """
    return CONTROL.sub(lambda found: _sign(found[0]), text)


class ForeignTextConsole(Console):
    """A console on which no printed text steers the terminal; its own colours stay.

    Commands in what it prints have the form that the user types.
    """

    def on_broken_pipe(self) -> None:
        """Print no more where nobody reads any more; what is under way goes on.

        rich would end the program, in the middle of a run that is being stopped.
        """
        with suppress(SystemExit):
            super().on_broken_pipe()

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print; a sentence stays in one line, whatever the width, so that it can be copied."""
        whole = soft_wrap is None and all(isinstance(entry, str) for entry in objects)
        super().print(*objects, soft_wrap=whole or soft_wrap, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into text, as rich does."""
        return super().render_str(as_typed(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control is None and CONTROL.search(segment.text):
                yield Segment(without_control(segment.text), segment.style)
            else:
                yield segment


def _sign(character: str) -> str:
    return chr(SIGNS + ord(character)) if ord(character) < 32 else "\ufffd"
