# Copyright Trainyard. Apache-2.0
"""A call: one JSON document on standard input, one line of JSON on standard output.

    {"verb": "status", "arguments": {"root": "/srv/trainyard/runs", "host": "node1"}}

    {"answer": {"runs": [], …}}                                        exit status 0
    {"error": {"code": "unknown_verb", "values": {"verb": "x", …}}}    exit status 2

Of status 2 nothing was done; with 1 the verb began and could not end. Nothing else is written to
standard output, and nothing at all to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .status import status

# Of a request, and of an answer, in bytes: whoever calls may do it from a small machine.
MOST_ASKED = 1 << 20
MOST_ANSWERED = 8 << 20
ANSWERED, FAILED, REFUSED = 0, 1, 2


class Verb(NamedTuple):
    """Something that can be asked for.

    Attributes:
        function: that does it; its result is the answer.
        arguments: its arguments by name; all are required.
    """

    function: Callable[..., Mapping[str, Any]]
    arguments: Mapping[str, type]


VERBS = {"status": Verb(status, {"root": str, "host": str})}


class CallError(Exception):
    """A call has no answer.

    Attributes:
        exit_status: FAILED or REFUSED.
        code: why.
        values: what belongs to it, by name.
    """

    def __init__(self, exit_status: int, code: str, **values: Any) -> None:
        super().__init__(code)
        self.exit_status = exit_status
        self.code = code
        self.values = values


def main() -> int:
    """Answer the request on standard input; return the exit status."""
    try:
        document, exit_status = answer(sys.stdin.buffer.read(MOST_ASKED + 1)), ANSWERED
    except CallError as error:
        document = json.dumps({"error": {"code": error.code, "values": error.values}})
        exit_status = error.exit_status
    print(document, flush=True)
    return exit_status


def answer(request: bytes) -> str:
    """Return the line that answers a request.

    Raises:
        CallError: there is none.
    """
    verb, arguments = parsed(request)
    try:
        document = json.dumps({"answer": verb.function(**arguments)})
    except Exception as error:  # of a program that is wrong itself: said, but not as prose
        import traceback  # takes a tenth of a call

        place = traceback.extract_tb(error.__traceback__)[-1]
        raise CallError(
            FAILED,
            "broken",
            kind=type(error).__name__,
            message=str(error),
            place=f"{place.filename}:{place.lineno}",
        ) from error
    if len(document) > MOST_ANSWERED:
        raise CallError(FAILED, "answer_too_large", bytes=len(document), most=MOST_ANSWERED)
    return document


def parsed(request: bytes) -> tuple[Verb, dict[str, Any]]:
    """Return the verb of a request, and its arguments.

    Raises:
        CallError: it makes no sense.
    """
    if len(request) > MOST_ASKED:
        raise CallError(REFUSED, "request_too_large", most=MOST_ASKED)
    try:
        document = json.loads(request)
    except (ValueError, RecursionError):
        raise CallError(REFUSED, "no_request") from None
    if not isinstance(document, dict) or document.keys() != {"verb", "arguments"}:
        raise CallError(REFUSED, "no_request")
    name, arguments = document["verb"], document["arguments"]
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        raise CallError(REFUSED, "unknown_verb", verb=str(name)[:100], verbs=sorted(VERBS))
    if not isinstance(arguments, dict) or arguments.keys() != verb.arguments.keys():
        raise CallError(REFUSED, "wrong_arguments", verb=name, arguments=sorted(verb.arguments))
    for argument, kind in verb.arguments.items():
        if type(arguments[argument]) is not kind:
            values = {"verb": name, "argument": argument, "type": kind.__name__}
            raise CallError(REFUSED, "wrong_type", **values)
    return verb, arguments
