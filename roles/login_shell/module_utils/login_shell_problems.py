# Copyright Trainyard. Apache-2.0
"""Why the role login_shell refuses to work, as data and as sentences."""

from __future__ import annotations

from typing import Any, NamedTuple

TEXTS = {
    "listed_twice": "{user} is listed more than once in login_shell_users",
    "user_is_root": "{user} is root: keep the shell that the machine is repaired with",
    "user_missing": "{user} is no user of this machine; site_accounts is where users are listed",
    "shell_listed_elsewhere": "{user} has a shell in accounts_users too; name it in one place",
    "directory_invalid": (
        '"{directory}" in login_shell_path is not an absolute path of letters, digits, ".", "_", '
        '"+" and "-"'
    ),
    "shell_removed": (
        "{user} ({shell}) would be locked out: this role installed the shell, but somebody else "
        "set it. Give them another one (chsh -s /bin/bash {user})"
    ),
    "shell_not_allowed": "{user}: {shell} is not in /etc/shells (add-shell {shell})",
    "shell_not_set": "{user}: {shell} was set, and /etc/passwd has {passwd_shell}",
    "start_too_slow": "{user}: {shell} did not start within {seconds} s {message}",
    "start_failed": "{user}: {shell} ended with status {status} {message}",
    "start_ended": "{user}: {shell} ended before it ran a command {message}",
    "other_program": "{user}: a login ran {program}, not {shell}",
}


class Problem(NamedTuple):
    """A reason to stop; `values` fill the gaps in the text of the code."""

    code: str
    values: dict[str, str | int]

    @property
    def text(self) -> str:
        """The sentence for people."""
        return TEXTS[self.code].format(**self.values).strip().removesuffix(".") + "."

    def as_result(self) -> dict[str, Any]:
        """Return the problem in the form of a task's result."""
        return {"code": self.code, "values": self.values, "text": self.text}


def problem(code: str, **values: str | int) -> Problem:
    """Make a problem of one of the codes of TEXTS."""
    return Problem(code, values)


def failure(opening: str, problems: list[Problem]) -> dict[str, Any]:
    """Return a failed task's result: the opening sentence, and all problems as text and data."""
    return {
        "msg": "\n".join([opening, *(entry.text for entry in problems)]),
        "problems": [entry.as_result() for entry in problems],
    }
