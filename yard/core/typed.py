"""Commands in messages, in the form in which the user types them: with make, or with yard.

All texts have make's form. Who types `yard`, which `make install` has put there with TYPES_YARD in
its environment, reads the other one.
"""

import os
import re

TYPES_YARD = "TRAINYARD_TYPES_YARD"

# Words behind `make` that are commands of yard too; others are make's alone, or English. yard.cli
# fills them in.
COMMANDS: set[str] = set()
VALUE = r"""=(?:'[^']*'|"[^"]*"|[^\s,;:.'")`]*(?:[,:.][^\s,;:.'")`]+)*)"""
VARIABLE = rf"\b[A-Z][A-Z0-9_]+{VALUE}"
COMMAND = re.compile(rf"\bmake ([a-z]+(?:-[a-z]+)*)\b((?: {VARIABLE})*)")
POSITIONAL = ("RUN", "NODE", "SITE")
SWITCHES = ("YES", "FOLLOW", "JSON", "CSV", "DATA", "READ_ONLY", "WAIT", "DETACH")
OTHERWISE = {"LIMIT": "--seconds"}
# Variables that make alone takes: a command with one of them is left as it is.
OF_MAKE = re.compile(r"\b(?:BUNDLE|HELP|PYTHON|VENV)=")
# Variables that yard reads from the environment: they come in front of the command.
ENVIRONMENT = {"RUNTIME": "TRAINYARD_RUNTIME", "NOTIFY": "TRAINYARD_NOTIFY"}


def as_typed(text: str) -> str:
    """Return a text whose commands have the form that the user types."""
    return to_yard(text) if os.environ.get(TYPES_YARD) else text


def to_yard(text: str) -> str:
    """Turn `make logs RUN=vit` into `yard logs vit`, and `RETRIES=2` alone into `--retries 2`."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        # What is translated already, or is make's, is not looked at again.
        is_of_yard = found[1] in COMMANDS and not OF_MAKE.search(found[2])
        kept.append(_command(found[1], found[2]) if is_of_yard else found[0])
        return f"\0{len(kept) - 1}\0"

    # A text of others may have what marks them, too.
    text = COMMAND.sub(keep, text.replace("\0", ""))
    text = re.sub(VARIABLE, lambda found: _option(found[0], ""), text)
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], text)


def _command(target: str, variables: str) -> str:
    words = [_option(found, target) for found in re.findall(VARIABLE, variables)]
    front = [word for word in words if word.startswith(tuple(ENVIRONMENT.values()))]
    before = [word for word in words if word.startswith("--inventory")]
    rest = [word for word in words if word not in (*front, *before)]
    # What exec runs comes last, for it may begin with a dash.
    rest.sort(key=lambda word: word.startswith("-- "))
    return " ".join([*front, "yard", *before, target, *rest])


def _option(typed: str, target: str) -> str:
    name, _, value = typed.partition("=")
    if target and (name in POSITIONAL or (name, target) == ("DATASET", "data")):
        return value or f"<{name.lower()}>"
    if OF_MAKE.match(typed):
        return typed
    if name in ENVIRONMENT:
        return f"{ENVIRONMENT[name]}={value}"
    if target and name == "ARGS":
        return value.strip("'\"")  # they are options of yard
    if name == "CMD":
        return f"-- {value}"
    flag = OTHERWISE.get(name, f"--{name.lower().replace('_', '-')}")
    return flag if name in SWITCHES or not value else f"{flag} {value}"
