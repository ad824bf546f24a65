"""Logins as users, which show whether their shells start."""

import os
import selectors
import subprocess
from typing import NamedTuple

STARTED = "login_shell has started"
# The second command prints the program that runs it. The last one keeps the shell from making way
# for the one before.
COMMAND = f"echo {STARTED}; sh -c 'readlink /proc/$PPID/exe'; true"
# Seconds after which a login that does not end on a signal is killed.
GRACE = 5
# Bytes of a login's output that are kept; the user's own files may print without end.
KEPT = 2**16
# Bytes that a pipe of Linux holds (pipe(7))
PIPE_SIZE = 2**16
# Seconds between looks whether a login has ended that prints nothing
LOOK = 0.05
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
    """Log in as a user and return what happened; the arguments are those of login_argv.

    Of a longer output the last KEPT bytes are returned, where the signs of COMMAND are, and of the
    errors the first ones.
    """
    with subprocess.Popen(
        login_argv(user, shell, patience),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "dumb"},
    ) as process:
        output, errors = _read_until_end(process)
    return Login(
        process.returncode,
        output[-KEPT:].decode(errors="replace"),
        errors[:KEPT].decode(errors="replace"),
    )


def _read_until_end(process: subprocess.Popen[bytes]) -> list[bytes]:
    """Read both pipes until the process has ended; the first and last KEPT bytes of each.

    What it has left in the background holds the pipes open, and is not waited for.
    """
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    texts = [b"" for _ in pipes]
    with selectors.DefaultSelector() as selector:
        for number, pipe in enumerate(pipes):
            selector.register(pipe, selectors.EVENT_READ, number)
        ended = False
        while not ended:
            ended = process.poll() is not None
            # After the end once more: a single read has all that a pipe can hold.
            for key, _ in selector.select(0 if ended else LOOK):
                piece = os.read(key.fd, PIPE_SIZE)
                if not piece:
                    selector.unregister(key.fileobj)
                text = texts[key.data] + piece
                texts[key.data] = text if len(text) <= 2 * KEPT else text[:KEPT] + text[-KEPT:]
    return texts


def start_problem(shell: str, login: Login, patience: int) -> str:
    """Return why a login's shell did not start, nothing where it did."""
    message = next(iter(login.errors.splitlines()), "")
    if login.status in TIMED_OUT:
        return f"{shell} did not start within {patience} s {message}"
    if login.status != 0:
        return f"{shell} ended with status {login.status} {message}"
    if STARTED not in login.output.splitlines():
        return f"{shell} ended before it ran a command {message}"
    return ""


def other_program(shell: str, login: Login) -> str:
    """Return what a login ran in place of the shell, nothing where it ran that."""
    lines = login.output.splitlines()
    program = lines[lines.index(STARTED) + 1 :]
    if os.path.realpath(shell) not in program:
        return f"a login ran {' '.join(program)}, not {shell}"
    return ""
