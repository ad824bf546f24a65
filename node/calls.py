"""A call: one JSON document on standard input, one line of JSON on standard output.

    {"verb": "status", "arguments": {"root": "/srv/trainyard/runs", "host": "node1"}}

    {"answer": {"runs": [], …}}                                        exit status 0
    {"error": {"code": "unknown_verb", "values": {"verb": "x", …}}}    exit status 2

A document that has `"check": true` as well is a dry run: a verb that changes something answers
null. An answer comes with `changed`: whether anything was.
The document is one line where something follows it: what is sent along, for a verb that takes it.

Of status 2 nothing was done; with 1 the verb began and could not end. Nothing else is written to
standard output, and nothing at all to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, BinaryIO

from .failure import VerbError
from .forms import FormError, filled

# Of a request, and of an answer, in bytes: whoever calls may do it from a small machine. A request
# may list 100,000 files of a project, path and SHA-256.
MOST_ASKED = 32 << 20
MOST_ANSWERED = 8 << 20
ANSWERED, FAILED, REFUSED = 0, 1, 2

# Whether each has its part in a dry run: it changes nothing, or is told that it is to do so.
VERBS: Mapping[str, bool] = {
    "checkpoints": False,
    "clean_up": False,
    "describe": True,
    "end": False,
    "have_data": False,
    "list_data": False,
    "log_in": True,
    "logs": True,
    "look": True,
    "measure": True,
    "notebook": False,
    "poll": True,
    "probe": True,
    "receive": False,
    "record": True,
    "reserve": False,
    "settle_data": False,
    "site": True,
    "stage_data": True,
    "start": False,
    "status": True,
    "take": False,
    "verdict": False,
    "watch": False,
}


class CallError(VerbError):
    """A call has no answer; `exit_status` is FAILED or REFUSED."""

    def __init__(self, exit_status: int, code: str, **values: Any) -> None:
        super().__init__(code, **values)
        self.exit_status = exit_status


def main() -> int:
    """Answer the request on standard input; return the exit status."""
    try:
        document, exit_status = answer(sys.stdin.buffer), ANSWERED
    except CallError as error:
        document = json.dumps({"error": {"code": error.code, "values": error.values}})
        exit_status = error.exit_status
    print(document, flush=True)
    return exit_status


def answer(stream: BinaryIO) -> str:
    """Return the line that answers a request.

    Args:
        stream: has the request, and what is sent along.

    Raises:
        CallError: there is none.
    """
    verb, arguments, is_dry = parsed(stream.readline(MOST_ASKED + 1))
    if is_dry and not VERBS[verb]:
        return json.dumps({"answer": None, "changed": False})
    # A verb alone is loaded, and what it needs.
    function: Callable[..., Any] = getattr(import_module(f".verbs.{verb}", __package__), verb)
    try:
        given = filled(function, arguments)
    except FormError as error:
        raise CallError(REFUSED, error.code, verb=verb, **error.values) from None
    if "attachment" in function.__annotations__:
        given["attachment"] = stream
    try:
        found = dict(function(**given))
        # A verb that changes something may say that this time it has not.
        changed = found.pop("changed", not VERBS[verb])
        document = json.dumps({"answer": found, "changed": changed})
    except VerbError as error:
        raise CallError(FAILED, error.code, **error.values) from error
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


def parsed(request: bytes) -> tuple[str, dict[str, Any], bool]:
    """Return the verb of a request, its arguments, and whether it is a dry run.

    Raises:
        CallError: it makes no sense.
    """
    if len(request) > MOST_ASKED:
        raise CallError(REFUSED, "request_too_large", most=MOST_ASKED)
    try:
        document = json.loads(request)
    except (ValueError, RecursionError):
        raise CallError(REFUSED, "no_request") from None
    keys = {"verb", "arguments"}
    if not isinstance(document, dict) or document.keys() - {"check"} != keys:
        raise CallError(REFUSED, "no_request")
    verb, arguments = document["verb"], document["arguments"]
    if not isinstance(verb, str) or verb not in VERBS:
        raise CallError(REFUSED, "unknown_verb", verb=str(verb)[:100], verbs=sorted(VERBS))
    return verb, arguments, document.get("check") is True
