"""What a verb takes stands once: in the parameters of its function, and in those of its forms.

A parameter without a default is required. Where a verb takes many, its only parameter is a form, a
NamedTuple whose fields they are; a field may be a form as well. A number may come as text, as it
does from a command line, and a yes or no in the words of YAML. A list or dictionary that has a
default is annotated Sequence or Mapping: nobody may write into what all callers share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from .failure import VerbError

# A place on this machine: absolute, or relative to the account's home.
LocalPath = str
# What follows the request in the same stream: bytes, as many as there are.
Attachment = BinaryIO

TRUTHS = {"yes": True, "true": True, "on": True, "1": True}
TRUTHS.update({"no": False, "false": False, "off": False, "0": False})


class FormError(VerbError):
    """Arguments do not fit: `wrong_arguments` or `wrong_type`."""


def parameters(function: Callable[..., Any]) -> tuple[dict[str, str], dict[str, Any], Any]:
    """Return what a verb takes: kinds and defaults by name, and its form, where it has one."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    kinds = {name: str(function.__annotations__[name]) for name in names}
    found = (
        _form_of(next(iter(kinds.values()), ""), function.__module__) if len(kinds) == 1 else None
    )
    if found is not None:
        return _kinds_of(found), found._field_defaults, found
    defaults = function.__defaults__ or ()
    optional = dict(zip(names[len(names) - len(defaults) :], defaults))
    return {name: kind for name, kind in kinds.items() if kind != "Attachment"}, optional, None


def filled(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function, of their types.

    Raises:
        FormError: they do not fit.
    """
    kinds, optional, found = parameters(function)
    if found is not None:
        return {function.__code__.co_varnames[0]: form(found, arguments)}
    return _converted(kinds, optional, arguments, function.__module__)


def form(kind: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a form (a NamedTuple) with these fields.

    Raises:
        FormError: they do not fit.
    """
    return kind(**_converted(_kinds_of(kind), kind._field_defaults, arguments, kind.__module__))


def _converted(
    kinds: Mapping[str, str], optional: Mapping[str, Any], given: Any, module: str
) -> dict[str, Any]:
    required = kinds.keys() - optional.keys()
    if not isinstance(given, Mapping) or not required <= given.keys() <= kinds.keys():
        raise FormError("wrong_arguments", arguments=sorted(kinds))
    values = {}
    for name, value in given.items():
        try:
            values[name] = _value(kinds[name], value, module)
        except (TypeError, ValueError, LookupError, OverflowError):
            raise FormError("wrong_type", argument=name, type=kinds[name]) from None
    return values


def _value(kind: str, value: Any, module: str) -> Any:
    """Convert a value to the kind that an annotation names."""
    if kind.endswith(" | None"):
        return None if value is None else _value(kind[: -len(" | None")], value, module)
    inner = _form_of(kind, module)
    if inner is not None:
        return form(inner, value)
    kind, _, members = kind.partition("[")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in ("str", "LocalPath") and (isinstance(value, str) or is_number):
        text = str(value)
        home = os.path.expanduser("~")
        return os.path.join(home, os.path.expanduser(text)) if kind == "LocalPath" else text
    if kind == "int" and (isinstance(value, str) or is_number) and int(value) == float(value):
        return int(value)
    if kind == "float" and (isinstance(value, str) or is_number):
        return float(value)
    if kind == "bool" and (isinstance(value, bool) or is_number or isinstance(value, str)):
        return value if isinstance(value, bool) else TRUTHS[str(value).lower()]
    if kind in ("list", "Sequence") and isinstance(value, list):
        each = members[:-1]
        plain = each.startswith("dict") or each == "Any"
        return value if plain else [_value(each, entry, module) for entry in value]
    if kind in ("dict", "Mapping") and isinstance(value, dict):
        return value
    raise TypeError(kind)


def _kinds_of(kind: Any) -> dict[str, str]:
    """The kinds of a form's fields, whose annotations typing keeps in references of its own."""
    annotations = kind.__annotations__.items()
    return {name: str(getattr(each, "__forward_arg__", each)) for name, each in annotations}


def _form_of(kind: str, module: str) -> Any:
    """The form of this name, where a module has one."""
    found = getattr(sys.modules[module], kind, None) if kind.isidentifier() else None
    return found if hasattr(found, "_field_defaults") else None
