"""What can be wrong at the first contact, from `causes.yml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

# Whose words a pattern is for.
SSH, SUDO = "ssh", "sudo"


@dataclass(frozen=True)
class Cause:
    """One thing that can be wrong; the fields are described in `causes.yml`."""

    name: str
    cause: str
    remedy: str
    advice: str = ""
    on_host: bool = False
    by: str = SSH
    patterns: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True)
class Trouble:
    """What is wrong, the first thing of it.

    Attributes:
        code: of `causes.yml`.
        values: what its sentences are filled in with, by name.
        proof: the words of ssh or of the host, or the fingerprints.
        bastion: the machine where it is wrong, if that is one on the way to the host.
    """

    code: str
    values: Mapping[str, str] = field(default_factory=dict)
    proof: tuple[str, ...] = ()
    bastion: str | None = None

    def with_values(self, values: Mapping[str, str]) -> "Trouble":
        """The same with further values; its own win."""
        return replace(self, values={**values, **self.values})

    @property
    def cause(self) -> str:
        """What is wrong, as a sentence."""
        sentence = self._filled(_of(self.code).cause)
        return f"The bastion {self.bastion} is at fault. {sentence}" if self.bastion else sentence

    @property
    def advice(self) -> str:
        """What to know before the command is given; empty where there is nothing."""
        return self._filled(_of(self.code).advice)

    @property
    def remedy(self) -> str:
        """The command that mends it."""
        return self._filled(_of(self.code).remedy)

    @property
    def on_host(self) -> bool:
        """Whether the command is for a shell on the machine in question."""
        return _of(self.code).on_host

    def _filled(self, text: str) -> str:
        return text.format_map(self.values)


@cache
def load_causes() -> Mapping[str, Cause]:
    """Read the causes that come with the package, by name, in their order."""
    text = files("yard.contact").joinpath("causes.yml").read_text(encoding="utf-8")
    causes = map(_parse, yaml.safe_load(text)["causes"])
    return {cause.name: cause for cause in causes}


def code_of(words: str, by: str = SSH) -> str | None:
    """The code of what ssh or sudo says; None where no pattern knows it."""
    for cause in load_causes().values():
        if cause.by == by and any(pattern.search(words) for pattern in cause.patterns):
            return cause.name
    return None


def _of(code: str) -> Cause:
    return load_causes()[code]


def _parse(entry: Mapping[str, Any]) -> Cause:
    return Cause(**{**entry, "patterns": tuple(map(re.compile, entry.get("patterns", ())))})
