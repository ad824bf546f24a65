"""Settings of an engine: merge some into those of others, and take them out again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

# An engine refuses options of a log driver that is not theirs, so both are one choice.
LOGS = {"log-driver", "log-opts"}
# The driver of an engine that is told none
ENGINE_DRIVER = "json-file"


def with_group(names: Iterable[str]) -> set[str]:
    """Return the names of settings, with what can only be chosen together with them."""
    found = set(names)
    return found | LOGS if found & LOGS else found


def chosen(
    options: Mapping[str, Any], defaults: Mapping[str, Any], said: Iterable[str]
) -> dict[str, Any]:
    """Return what is merged into an engine's settings.

    Args:
        defaults: what is good for machines that say nothing.
        said: names of settings that the machine has already, in its file or in a flag.
    """
    taken = with_group({*said, *options})
    result = {key: value for key, value in defaults.items() if key not in taken}
    if LOGS & set(options):
        result["log-driver"] = ENGINE_DRIVER
    return {**result, **options}


def merged(settings: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the options in them; dictionaries in both are merged."""
    result = dict(settings)
    for key, value in options.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(old, value)
        else:
            result[key] = deepcopy(value)
    return result


def without(
    settings: Mapping[str, Any], options: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings with the options taken out of them again.

    Args:
        options: what was merged into it. A key that has another value by now is not ours any more.
        before: the file as it was before that; a key that it had gets its value back.
    """
    result = dict(settings)
    for key, value in options.items():
        if key not in result:
            continue
        old = before.get(key)
        if result[key] == value:
            left = old
        elif isinstance(result[key], dict) and isinstance(value, dict):
            left = without(result[key], value, old if isinstance(old, dict) else {})
        else:
            continue
        if left or key in before:
            result[key] = left
        else:
            del result[key]
    return result


def parsed(text: str | None) -> dict[str, Any]:
    """Return the settings of a file's text, none for a file that is missing or empty.

    Raises:
        ValueError: the text is not a JSON object.
    """
    settings = json.loads(text) if text and text.strip() else {}
    if not isinstance(settings, dict):
        raise ValueError("not a JSON object")
    return settings
