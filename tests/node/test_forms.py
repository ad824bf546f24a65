"""What comes as an argument is of its type, or the argument is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from node.forms import FormError, LocalPath, filled, form


class Inner(NamedTuple):
    """A form in a form."""

    number: int
    names: Sequence[str] = ()


class Outer(NamedTuple):
    """Every kind of field."""

    text: str
    place: LocalPath
    inner: Inner
    part: float = 1.0
    limit: float | None = None
    wanted: bool = False
    more: Mapping[str, Any] = {}


GOOD: dict[str, Any] = {"text": "a", "place": "/srv", "inner": {"number": 1}}


def verb(count: int, name: str = "x") -> dict[str, Any]:
    return {}


def verb_of_a_form(outer: Outer) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"part": "0.5"}, {"part": 0.5}),
        ({"part": 2}, {"part": 2.0}),
        ({"limit": None}, {"limit": None}),
        ({"limit": "3"}, {"limit": 3.0}),
        ({"wanted": "Yes"}, {"wanted": True}),
        ({"wanted": "false"}, {"wanted": False}),
        ({"text": 7}, {"text": "7"}),
        ({"inner": {"number": "4", "names": [1]}}, {"inner": Inner(4, ["1"])}),
    ],
)
def test_text_of_a_command_line_is_taken_for_what_it_means(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = form(Outer, {**GOOD, **given})._asdict()
    assert {name: found[name] for name in expected} == expected


def test_a_place_begins_at_the_account_s_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, expected in (("a/b", tmp_path / "a/b"), ("~/c", tmp_path / "c"), ("/d", "/d")):
        assert form(Outer, {**GOOD, "place": given}).place == str(expected)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"part": "half"}, "part"),
        ({"part": True}, "part"),
        ({"wanted": "perhaps"}, "wanted"),
        ({"more": []}, "more"),
        ({"text": None}, "text"),
        ({"inner": {"number": 1.5}}, "number"),
        ({"inner": {"number": float("inf")}}, "number"),
        ({"inner": {"number": "1e3"}}, "number"),
        ({"inner": {"number": 1, "names": "a"}}, "names"),
    ],
)
def test_what_is_of_another_type_is_named(given: dict[str, Any], argument: str) -> None:
    with pytest.raises(FormError) as refused:
        form(Outer, {**GOOD, **given})
    assert (refused.value.code, refused.value.values["argument"]) == ("wrong_type", argument)


@pytest.mark.parametrize("given", [{}, {"count": 1, "more": 1}, {"name": "x"}, [], None])
def test_what_is_missing_or_unknown_is_refused_with_what_there_is(given: Any) -> None:
    with pytest.raises(FormError) as refused:
        filled(verb, given)
    assert refused.value.values == {"arguments": ["count", "name"]}


def test_a_verb_takes_parameters_or_a_form() -> None:
    assert filled(verb, {"count": "3"}) == {"count": 3}
    assert filled(verb_of_a_form, GOOD) == {"outer": Outer("a", "/srv", Inner(1))}
