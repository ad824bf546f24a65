"""What modules answer from nodes: of the form that is relied on, or no answer at all.

A node may say anything. What reads its words further on relies on their form alone, which is
checked here, once.
"""

from collections.abc import Callable, Mapping
from typing import Any

from yard.plays.contract import (
    CALL_NODE,
    CLEAN_UP,
    END_RUN,
    OFFER_CHECKPOINTS,
    POLL_RUN,
    READ_LOGS,
    READ_STATUS,
)

# Whether a decoded value has a form.
Form = Callable[[Any], bool]

# More than any time, size or count.
MOST = 2.0**63


def anything(value: Any) -> bool:
    """What is looked at where it is used."""
    return True


def nothing(value: Any) -> bool:
    """No value at all."""
    return False


def text(value: Any) -> bool:
    return isinstance(value, str)


def truth(value: Any) -> bool:
    """Yes or no."""
    return isinstance(value, bool)


def number(value: Any) -> bool:
    """A number that can be calculated with: NaN is below nothing."""
    return type(value) in (int, float) and abs(value) < MOST


def count(value: Any) -> bool:
    """A whole number, not below zero."""
    return type(value) is int and 0 <= value < MOST


def name(value: Any) -> bool:
    """What can be the name of a directory, and of no other place than one in its own."""
    return isinstance(value, str) and value not in ("", ".", "..") and "/" not in value


def perhaps(form: Form) -> Form:
    """This form, or null."""
    return lambda value: value is None or form(value)


def each(form: Form) -> Form:
    """A list of things of a form."""
    return lambda value: isinstance(value, list) and all(map(form, value))


def by_name(form: Form) -> Form:
    """Things of a form, each by a string."""
    return lambda value: (
        isinstance(value, Mapping) and all(map(text, value)) and all(map(form, value.values()))
    )


def having(more: bool = True, **forms: Form) -> Form:
    """Keys with values of these forms."""

    def fits(value: Any) -> bool:
        return (
            isinstance(value, Mapping)
            and forms.keys() <= value.keys()
            and (more or value.keys() <= forms.keys())
            and all(form(value[key]) for key, form in forms.items())
        )

    return fits


RUN = having(
    run=name,
    state=lambda value: value in ("starting", "running", "ended"),
    metric=anything,
    earlier=anything,
    said=text,
    owner=perhaps(text),
    since=perhaps(number),
    home=perhaps(text),
)
GPU = having(
    more=False,
    index=count,
    name=text,
    utilisation_percent=perhaps(number),
    memory_used_bytes=perhaps(count),
    memory_bytes=perhaps(count),
)
LOAD = having(
    more=False,
    cpu_percent=perhaps(number),
    cores=perhaps(count),
    memory_used_bytes=perhaps(count),
    memory_bytes=perhaps(count),
    disk_free_bytes=perhaps(count),
    disk_bytes=perhaps(count),
    gpus=each(GPU),
)
TROUBLE = perhaps(having(more=False, code=text, values=by_name(text)))
APT = having(more=False, command=text, pid=count, since=number)
STATUS = having(time=number, runs=each(RUN), load=LOAD, apt=perhaps(APT), trouble=TROUBLE)
# Of playbooks/top.yml, which a shell reads from a file of the node
WATCHED = having(
    more=False,
    time=number,
    runs=each(RUN),
    load=LOAD,
    trouble=TROUBLE,
    logs=by_name(by_name(text)),
)
FOUND = having(kept=perhaps(text), kind=text, name=text, bytes=perhaps(count))

FORMS: Mapping[str, Form] = {
    POLL_RUN: having(
        state=text,
        exit_status=perhaps(lambda value: number(value) and type(value) is int),
        metrics=each(anything),
        checkpoints=number,
        silences=each(anything),
        output=having(offset=count, text=text),
        log_offset=count,
    ),
    READ_STATUS: STATUS,
    CALL_NODE: nothing,
    READ_LOGS: having(logs=by_name(having(offset=count, end=count, text=text))),
    OFFER_CHECKPOINTS: having(names=each(text)),
    END_RUN: having(launched=truth, checkpoints=each(text)),
    CLEAN_UP: having(found=each(FOUND), trouble=text),
}


def is_answer(module: str, result: Any) -> bool:
    """Whether a module, or a verb of the node program, that ended well can have answered this."""
    form = FORMS.get(module)
    return form is None or form(result)
