"""The node program in the process of a test."""

import io
import json
from typing import Any

from node import calls


def answered(verb: str, /, attachment: bytes = b"", **arguments: Any) -> Any:
    """Return what a verb answers.

    Raises:
        CallError: there is no answer.
    """
    request = json.dumps({"verb": verb, "arguments": arguments}).encode()
    return json.loads(calls.answer(io.BytesIO(request + b"\n" + attachment)))["answer"]
