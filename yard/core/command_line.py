"""What is wrong with a command, in a line, in the words of who typed it."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from yard.core.typed import OTHERWISE, TYPES_YARD

# So many choices stand in an error; of more, the help tells them.
MOST = 8
# Where options are kept that make takes in ARGS=, and what it calls otherwise
IN_ARGS = "options"
OF_MAKE = {flag: name for name, flag in OTHERWISE.items()}
# argparse's own sentences, with "argument --flag: " or the like before them, and ours.
SENTENCES = (
    (r"^argument ([^:]+): invalid int value: (.*)", r"\1: \2 is not a whole number"),
    (r"^argument ([^:]+): invalid float value: (.*)", r"\1: \2 is not a number"),
    (r"^argument ([^:]+): not allowed with argument (\S+)", r"\1: not together with \2"),
    (r"^argument ([^:]+): expected one argument", r"\1: its value is missing"),
    (r"^the following arguments are required: (.*)", r"\1: missing"),
    (r"^argument ", ""),
)


class CommandLine(argparse.ArgumentParser):
    """A parser whose errors are short, and name what is nearest to a mistyped word."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse has it, and no word is left over."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            word = left[0].partition("=")[0]
            known = [*self._option_string_actions]
            self._refuse(_unknown(word, known) if word.startswith("-") else f"{word}: not expected")
        return parsed, left

    def error(self, message: str) -> NoReturn:
        """Say it, and what has all options; ends with status 2."""
        for pattern, sentence in SENTENCES:
            message = re.sub(pattern, sentence, message)
        if not os.environ.get(TYPES_YARD):
            message = re.sub(r"(?<!\S)--[a-z][a-z0-9-]*", self._of_make, message)
        self._refuse(message)

    def _refuse(self, message: str) -> NoReturn:
        all_of_it = f"{self.prog} --help"
        if not os.environ.get(TYPES_YARD):
            all_of_it = f"make {self.prog.partition(' ')[2]} HELP=1".replace("  ", " ")
        listed = "options" if " " in self.prog else "commands"
        print(f"yard: {message}\n    {all_of_it} lists all {listed}", file=sys.stderr)
        sys.exit(2)

    def _of_make(self, flag: re.Match[str]) -> str:
        """An option as a variable of make; what make takes in ARGS= stays as it is."""
        action = self._option_string_actions.get(flag[0])
        if action is None or action.dest == IN_ARGS:
            return flag[0]
        return OF_MAKE.get(flag[0], flag[0][2:].upper().replace("-", "_"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, _unknown(value, [*action.choices]))


def _unknown(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, 1)
    if near:
        return f"{word}: unknown; did you mean {near[0]}?"
    listed = f"; there is {', '.join(known)}" if 0 < len(known) <= MOST else ""
    return f"{word}: unknown{listed}"
