"""Why a verb has no answer: codes and values. Sentences are made by whoever asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class VerbError(Exception):
    """A verb cannot do what was asked for."""

    def __init__(self, code: str, **values: Any) -> None:
        super().__init__(code)
        self.code = code
        self.values = values


class RefusedError(VerbError):
    """A run, or whatever else was to begin on this machine, cannot, for reasons that have codes.

    Args:
        outcome: what that means, for people: what comes before the texts of the problems.
    """

    def __init__(self, outcome: str, problems: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("refused", outcome=outcome, problems=list(problems))
