# Copyright Trainyard. Apache-2.0
"""Logins as users, which show whether their shells start."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

from ansible.module_utils.login_shell_problems import Problem, problem

STARTED = "login_shell has started"
# The second command prints the program that runs it. The last one keeps the shell from making way
# for the one before.
COMMAND = f"echo {STARTED}; sh -c 'readlink /proc/$PPID/exe'; true"
# Seconds after which a login that does not end on a signal is killed.
GRACE = 5
# Statuses of timeout(1): the time was over; the login had to be killed.
TIMED_OUT = (124, 128 + 9)


class Login(NamedTuple):
    """What a login did: exit status and output."""

    status: int
    output: str
    errors: str


def login_argv(user: str, shell: str | None, patience: int) -> list[str]:
    """Return the command that logs in as a user, with all of the user's own files.

    Args:
        user: who logs in.
        shell: to start; None for the one of passwd(5).
        patience: seconds.
    """
    option = ["--shell", shell] if shell else []
    limit = ["timeout", f"--kill-after={GRACE}", str(patience)]
    return [*limit, "su", "--login", *option, "--", user, "-i", "-c", COMMAND]


def log_in(user: str, shell: str | None, patience: int) -> Login:
    """Log in as a user and return what happened; the arguments are those of login_argv."""
    done = subprocess.run(
        login_argv(user, shell, patience),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "TERM": "dumb"},
        text=True,
        errors="replace",
        check=False,
    )
    return Login(done.returncode, done.stdout, done.stderr)


def login_problem(user: str, shell: str, login: Login, patience: int) -> Problem | None:
    """Return what was wrong with a login that should have run a shell."""
    message = next(iter(login.errors.splitlines()), "")
    lines = login.output.splitlines()
    if login.status in TIMED_OUT:
        return problem("start_too_slow", user=user, shell=shell, seconds=patience, message=message)
    if login.status != 0:
        return problem("start_failed", user=user, shell=shell, status=login.status, message=message)
    if STARTED not in lines:
        return problem("start_ended", user=user, shell=shell, message=message)
    program = lines[lines.index(STARTED) + 1 :]
    if os.path.realpath(shell) not in program:
        return problem("other_program", user=user, shell=shell, program=" ".join(program))
    return None
