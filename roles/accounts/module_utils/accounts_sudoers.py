# Copyright Trainyard. Apache-2.0
"""The files in which the role gives the right to sudo."""

from __future__ import annotations

PREFIX = "/etc/sudoers.d/accounts-"


def rule_path(user: str) -> str:
    """Return the path of a user's rule.

    sudo ignores a file with a dot in its name. A plus sign stands for the dot, because no login
    name contains one: so two users never share a file.
    """
    return PREFIX + user.replace(".", "+")


def former_rule_path(user: str) -> str:
    """Return the path that earlier releases gave a user's rule: that of `a.b` was also `a_b`'s."""
    return PREFIX + user.replace(".", "_")


def rule_text(user: str, sudo: str) -> str:
    """Return a user's rule; `sudo` is password or passwordless."""
    password = "NOPASSWD: " if sudo == "passwordless" else ""
    return f"{user} ALL=(ALL:ALL) {password}ALL\n"


def rule_user(text: str) -> str:
    """Return the user whom a rule's text names first, the empty string where it names none."""
    return next(iter(text.split()), "")
