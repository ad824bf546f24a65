"""The ways to fail that are known, from `signatures.yml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

# What is at fault, where it is not the program.
NODE, NETWORK, GANG = "node", "network", "gang"


@dataclass(frozen=True)
class Signature:
    """One known way to fail; the fields are described in `signatures.yml`."""

    name: str
    cause: str
    remedy: str
    again: bool = True
    fault: str | None = None
    where: str | None = None
    pattern: re.Pattern[str] | None = None
    proof: str | None = None
    program_remedy: str | None = None


@cache
def load_signatures() -> tuple[Signature, ...]:
    """Read the signatures that come with the package."""
    text = files("yard.runs").joinpath("signatures.yml").read_text(encoding="utf-8")
    # By libyaml, where PyYAML was built with it: a launch after a failed run waits for this.
    entries = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["signatures"]
    return tuple(_signature(entry) for entry in entries)


def _signature(entry: Mapping[str, Any]) -> Signature:
    if "pattern" not in entry:
        return Signature(**entry)
    # mpirun breaks its sentences wherever the line is full.
    pattern = re.compile(entry["pattern"].replace(" ", r"\s+"), re.MULTILINE)
    return Signature(**{**entry, "pattern": pattern})
