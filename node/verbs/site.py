"""The verb `site`: agrees with other operators of a machine on what all of them have alike."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

from ..check.site import Operator, SiteError, agree, alone, now, read_site, remove_site, write_site
from ..failure import RefusedError, VerbError
from ..machine.apt import installer


class SetUp(NamedTuple):
    """A set-up of this machine, or its removal.

    Attributes:
        operator: the checkout and the machine from which it is done, one name for each.
        nodes: that are set up together. Fewer than before are refused, as another value is.
        take_over: write these values although others agreed on other ones, who are refused then
            until they have the same; or remove what others use too.
        state: `present`, or `absent`, which removes the record.
        dry: only look.
    """

    operator: str
    who: str
    settings: dict[str, Any]
    nodes: list[str]
    take_over: bool = False
    state: str = "present"
    dry: bool = False


def site(setup: SetUp) -> dict[str, Any]:
    """Compare the settings with the record on this machine, and write them there.

    Returns:
        `changed`: whether the record was changed, or would have been; and `apt`: the program that
        holds its lock now, for which set-up will wait; empty for none.

    Raises:
        RefusedError: others have agreed on other values.
        VerbError: `failed`: others use the machine too, or the record cannot be understood.
    """
    try:
        if setup.state == "absent":
            return {"changed": _leave(setup)}
        # A dry run leaves nothing there, nor a lock.
        with nullcontext() if setup.dry else alone():
            return {"changed": _enter(setup), "apt": str(installer() or "")}
    except SiteError as error:
        raise VerbError("failed", message=f"training_node: {error}.") from error


def _enter(setup: SetUp) -> bool:
    me = Operator(setup.operator, setup.who, now())
    before = read_site()
    after, problems = agree(before, setup.settings, setup.nodes, me, setup.take_over)
    if problems:
        outcome = "training_node: nothing was changed. On this node "
        raise RefusedError(outcome, [entry.asdict() for entry in problems])
    if after != before and not setup.dry:
        write_site(after)
    return after != before


def _leave(setup: SetUp) -> bool:
    before = read_site()
    others = before.others(setup.operator) if before is not None else []
    if others and not setup.take_over:
        names = ", ".join(f"{entry.operator} ({entry.who}, {entry.when})" for entry in others)
        raise VerbError(
            "failed",
            message=f"training_node: nothing was changed. Others use this node too: {names}. With "
            "training_node_take_over it is taken from them as well.",
        )
    if before is not None and not setup.dry:
        remove_site()
    return before is not None
