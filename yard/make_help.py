"""What `make`, `make help` and `make TARGET HELP=1` print; runs with any Python, before set-up too.

make_help.py MAKEFILE            the names, by group
make_help.py MAKEFILE all        a line for each target
make_help.py MAKEFILE train ...  all of some targets, with the options of yard behind them
make_help.py MAKEFILE unknown X  which target is meant by a name that is none
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

COLUMNS = 80
NAMES = 17
# A target's line of help: what it does, then what it takes.
LINE = re.compile(r"^(?:##@ (?P<group>.*)|(?P<name>[a-z0-9-]+):[^#\n]*## (?P<text>.*))$", re.M)
EXAMPLES = (
    ("make train MODEL=vit NODES=2", "sets up what is missing, then trains"),
    ("make train CODE=folder NODES=2", "the same with a program of your own"),
    ("make setup INVENTORY=inventory/mysite", "your machines; else local nodes"),
    ("make help", "a line for each target"),
    ("make train HELP=1", "all of one, with its options"),
)
# An option or an argument of yard where its explanation begins, and one in an explanation
OPTION = re.compile(r"^  (?:--([a-z0-9-]+)(?:[ ,=](\S.*?))?|([A-Z]+)\S*)(?:  +|$)", re.M)
MENTIONED = re.compile(r'(?<!")--([a-z-]+)')
OF_YARD = re.compile(
    r"^(?:options:\n  -h, --help .*\Z|  -h, --help .*\n|positional (?=arguments:$))", re.M
)
# What make calls otherwise
OF_MAKE = {"SECONDS": "LIMIT", "COMMAND": "CMD"}


def targets(makefile: str) -> dict[str, dict[str, str]]:
    """The line of help of each target, by group."""
    groups: dict[str, dict[str, str]] = {}
    group = ""
    for found in LINE.finditer(makefile):
        group = found["group"] or group
        if found["name"]:
            groups.setdefault(group, {})[found["name"]] = found["text"]
    return groups


def short(groups: dict[str, dict[str, str]]) -> str:
    """The names of all targets, on a screen of 80 columns and 24 lines."""
    lines = []
    for group, texts in groups.items():
        if group:
            head = bold(f"{group:<{NAMES}}")
            names = textwrap.wrap(" ".join(texts), COLUMNS - NAMES, break_on_hyphens=False)
            lines += [head + names[0], *(" " * NAMES + more for more in names[1:])]
    return "\n".join([*lines, "", *(f"  {command:<38} {says}" for command, says in EXAMPLES)])


def whole(groups: dict[str, dict[str, str]]) -> str:
    """A line for each target."""
    lines = []
    for group, texts in groups.items():
        lines += ["", bold(group)] if group else []
        for name, text in texts.items():
            says = textwrap.shorten(says_of(text), COLUMNS - NAMES - 2, placeholder=" …")
            lines.append(f"  {name:<{NAMES}}{says}")
    return "\n".join([*lines, "", "make train HELP=1 has all of one target, with its options."])


def says_of(text: str) -> str:
    """What a target does, of its line of help."""
    return re.split(r": (?=[A-Z][A-Z0-9_]*=)|; (?=[a-z ]*[A-Z][A-Z0-9_]*=)", text)[0]


def of_target(name: str, text: str, python: str | None) -> str:
    """All of one target; `python` is the virtual environment's, None while there is none."""
    takes = text[len(says_of(text)) :].strip(":; ")
    lines = [bold(f"make {name}"), *textwrap.wrap(says_of(text), COLUMNS)]
    if takes:
        lines += ["", *textwrap.wrap(takes, COLUMNS, break_on_hyphens=False)]
    if python:
        asked = [python, "-m", "yard", name, "--help"]
        environment = {**os.environ, "COLUMNS": str(COLUMNS)}
        done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            # Behind the usage and the description
            options = done.stdout.split("\n\n", 2)[2].rstrip()
            known = set(re.findall(r"([A-Z][A-Z0-9_]*)=", text))
            shown = OPTION.sub(partial(variable, known), OF_YARD.sub("", options))
            shown = MENTIONED.sub(partial(mention, known), re.sub(r"`yard\b", "`make", shown))
            lines += ["", *(line.rstrip() for line in shown.splitlines())]
    return "\n".join(lines).rstrip()


def variable(known: set[str], found: re.Match[str]) -> str:
    """An option of yard as a variable of make that `known` has, or as make's ARGS= takes it."""
    name = (found[1] or found[3]).upper().replace("-", "_")
    name = OF_MAKE.get(name, name) if name not in known else name
    shown = f'  ARGS="{found[0].strip()}"'
    if name in known:
        shown = f"  {name}={(found[2] or '1') if found[1] else ''}"
    elif "ARGS" not in known:
        return found[0]
    room = len(found[0])
    if found[0].endswith(" ") and len(shown) > room - 2:
        shown += "\n"  # its explanation comes below
        room += len(shown)
    return shown.ljust(room)


def mention(known: set[str], found: re.Match[str]) -> str:
    """An option of yard in an explanation, as make calls it."""
    name = found[1].upper().replace("-", "_")
    return f"{name}=" if name in known else found[0]


def bold(text: str) -> str:
    """A heading, in bold where somebody looks."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain else f"\033[1m{text}\033[0m"


def main(makefile: str, *names: str) -> int:
    """Print what was asked; returns the exit status."""
    groups = targets(Path(makefile).read_text(encoding="utf-8"))
    every = {name: text for texts in groups.values() for name, text in texts.items()}
    python = shutil.which("python", path=os.environ.get("VENV_BIN", ""))
    if not {"all", "unknown", *every} & {*names}:
        print(short(groups))
    if names == ("all",):
        print(whole(groups))
    if names[:1] == ("unknown",):
        near = difflib.get_close_matches(names[1], every, 1)
        says = f"did you mean make {near[0]}?" if near else "make help lists all targets"
        print(f"make {names[1]}: no such target; {says}", file=sys.stderr)
        return 2
    for name in names:
        if name in every:
            print(of_target(name, every[name], python))
    return 0


if __name__ == "__main__":
    try:
        ended = main(*sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        ended = 0
    sys.exit(ended)
