"""Who is in the group that may talk to an engine, which equals root."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """What the role did to the group, so that it can be taken back.

    Attributes:
        before: who was in it when the role first came.
        let_in: whom the role let in.
        put_out: who was in it before and left it for the role.
    """

    before: list[str]
    let_in: list[str]
    put_out: list[str]


@dataclass(frozen=True)
class GroupPlan:
    """Who joins, who leaves, who is in it then without being named, and the note of it."""

    joins: list[str]
    leaves: list[str]
    unnamed: list[str]
    note: Note


def note_of_members(before: Collection[str], now: Collection[str]) -> Note:
    """Return the note of a role that kept only who was there before, and let nobody else in."""
    earlier, members = set(before), set(now)
    return Note(sorted(earlier), sorted(members - earlier), sorted(earlier - members))


def make_group_plan(
    now: Collection[str], note: Note, users: Collection[str], *, exclusive: bool, absent: bool
) -> GroupPlan:
    """Compare the members with those that are to be.

    Args:
        exclusive: nobody else stays.
        absent: the role goes: whom it let in leaves, and whom it put out comes back.
    """
    members, named, let_in = set(now), set(users), set(note.let_in) & set(now)
    others = members - let_in
    stay = set() if exclusive and not absent else others
    wanted = stay | (set(note.put_out) if absent else named)
    put_out = (set(note.put_out) | (others - wanted)) & set(note.before) - wanted
    return GroupPlan(
        joins=sorted(wanted - members),
        leaves=sorted(members - wanted),
        unnamed=sorted(wanted - named),
        note=Note(note.before, sorted((let_in & named) | (named - members)), sorted(put_out)),
    )
