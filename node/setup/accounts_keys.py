"""A user's authorized_keys, read and written as that user.

What lies in a home is its user's: a link there leads whoever opens it with root's rights to any
file of the machine. So a child process becomes the user for good before it looks into the home, and
whatever is planted there, before or meanwhile, opens nothing that the user could not open. Links
in place of `.ssh` and of the file are refused all the same: sshd would read elsewhere than where
the role writes, and keys that are to go would stay.

The home itself is opened as passwd(5) names it, and may be a link: the way there is the
administrator's, and on NFS the server decides about the user, not about root.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import select
import signal
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple

DIRECTORY, FILE = ".ssh", "authorized_keys"
# Bytes; that of ten thousand keys. More is not read into root's memory.
SIZE_LIMIT = 1 << 20
# Seconds for a home that does not answer: a dead server, or a file system that the user mounted.
# The user may also stop the child process, which is one of the user's own.
PATIENCE = 60.0
# authorized_keys(5): options with quoted blanks, then type and key.
KEY = re.compile(
    r'(?:(?:[^\s"]|"(?:\\.|[^"\\])*")+\s+)??'
    r'(?P<key>(?:ssh|ecdsa|sk|webauthn-sk)-[^\s"]+\s+AAAA[A-Za-z0-9+/]*=*)(?=\s|$)'
)
TEXTS = {
    "link": "{path} is a link, and keys are not written where it leads",
    "kind": "{path} is not a {kind}",
    "owner": "{path} does not belong to {user}",
    "size": "{path} is larger than {limit} bytes",
    "missing": "the home {path} does not exist",
    "refused": "{path}: {reason}, as {user}",
    "silent": "the home {path} did not answer within {seconds} s",
    "ended": "the process that looked into the home {path} ended: {reason}",
}
REMEDY = "Look at it on the machine, mend or remove it, and run this again"


class KeysError(Exception):
    """Keys that cannot be read or written; the text names user, path and remedy."""


class Home(NamedTuple):
    """Whose keys: what passwd(5) says of the user."""

    user: str
    uid: int
    gid: int
    path: str


@dataclass(frozen=True)
class Wish:
    """The keys that are to be let in; with `exclusive` no others are."""

    lines: tuple[str, ...]
    exclusive: bool = False

    def apply(self, text: str) -> str:
        """Return what the file is to hold instead of a text.

        A line with the same key and other options gives way; all other lines stay as they are,
        unless the wish is exclusive.
        """
        if self.exclusive:
            return "".join(f"{line}\n" for line in dict.fromkeys(self.lines))
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        stripped = [line.strip() for line in lines]
        keys = [key_of(line) for line in lines]
        for line in self.lines:
            if line in stripped:
                continue
            if key_of(line) in keys:
                place = keys.index(key_of(line))
                lines[place] = stripped[place] = line
            else:
                lines.append(line)
                stripped.append(line)
                keys.append(key_of(line))
        return "".join(f"{line}\n" for line in lines)


class Texts(NamedTuple):
    """What a file held, and what it is to hold."""

    before: str
    after: str


def key_of(line: str) -> str | None:
    """Return type and key of a line of authorized_keys(5); None where it holds none."""
    found = KEY.match(line.strip())
    return " ".join(found["key"].split()) if found else None


def without_key(lines: Sequence[str]) -> list[str]:
    """Return the lines that hold no key."""
    return [line for line in lines if key_of(line) is None]


def home_of(user: str) -> Home:
    """Return what passwd(5) says of a user.

    Raises:
        KeyError: there is no such user.
    """
    entry = pwd.getpwnam(user)
    return Home(user, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def read_keys(home: Home) -> str:
    """Return the text of a user's authorized_keys, the empty string where there is none.

    Raises:
        KeysError: something else is in its place, or does not let itself be read.
    """
    return as_user(home, lambda: _read(home))


def bring_about(home: Home, wish: Wish, dry_run: bool = False) -> Texts:
    """Have a user's authorized_keys hold these keys.

    Raises:
        KeysError: something else is in its place, or does not let itself be read or written.
    """
    before, after = json.loads(as_user(home, lambda: json.dumps(_bring_about(home, wish, dry_run))))
    return Texts(before, after)


def as_user(home: Home, work: Callable[[], str], patience: float = PATIENCE) -> str:
    """Return what the work returns, done by a child process that has only the user's rights.

    The kernel lets nobody look into the memory of a process that gave up root's rights: proc(5),
    dumpable.

    Args:
        patience: seconds.

    Raises:
        KeysError: as the work raised it, or the work did not end in time.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            try:
                _become(home)
                answer = ("", work())
            except KeysError as error:
                answer = (str(error), "")
            except Exception as error:  # a traceback would be lost with this process
                answer = (str(_error(home, "ended", path=home.path, reason=repr(error))), "")
            _send(writer, json.dumps(answer).encode())
            status = 0
        finally:
            # Without the parent's clean-up, which is not this process's to do.
            os._exit(status)
    os.close(writer)
    try:
        said = _receive(reader, patience)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if said is None:
        raise _error(home, "silent", path=home.path, seconds=round(patience))
    if not said:
        raise _error(home, "ended", path=home.path, reason="somebody ended it")
    problem, result = json.loads(said)
    if problem:
        raise KeysError(problem)
    return str(result)


def _become(home: Home) -> None:
    """Become the user for good, with the user's groups. One who is the user already stays so."""
    os.chdir("/")
    os.umask(0o077)
    if os.geteuid() == 0:
        os.initgroups(home.user, home.gid)
        os.setresgid(home.gid, home.gid, home.gid)
        os.setresuid(home.uid, home.uid, home.uid)


def _send(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


def _receive(descriptor: int, patience: float) -> bytes | None:
    """Return what is written to a pipe until it is closed; None, where that takes too long."""
    deadline, said = time.monotonic() + patience, b""
    while select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(descriptor, 1 << 16)
        if not part:
            return said
        said += part
    return None


def _error(home: Home, code: str, **values: str | int) -> KeysError:
    said = TEXTS[code].format(user=home.user, **values)
    return KeysError(f"user {home.user}: {said}. {REMEDY}.")


def _read(home: Home) -> str:
    with ExitStack() as stack:
        directory = _open_directory(home, stack, create=False)
        return "" if directory is None else _text(home, directory)


def _bring_about(home: Home, wish: Wish, dry_run: bool) -> Texts:
    with ExitStack() as stack:
        directory = _open_directory(home, stack, create=not dry_run)
        before = "" if directory is None else _text(home, directory)
        texts = Texts(before, wish.apply(before))
        if directory is not None and not dry_run and texts.after != texts.before:
            _replace(home, directory, texts.after)
        return texts


def _open_directory(home: Home, stack: ExitStack, create: bool) -> int | None:
    """Open `~/.ssh`; None where there is none and none is to be made."""
    path = os.path.join(home.path, DIRECTORY)
    try:
        parent = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        if create:
            raise _error(home, "missing", path=home.path) from None
        return None  # a dry run comes before the home
    except OSError as error:
        raise _refusal(home, home.path, error) from None
    stack.callback(os.close, parent)
    try:
        if create:
            with suppress(FileExistsError):  # what it is shows when it is opened
                os.mkdir(DIRECTORY, 0o700, dir_fd=parent)
        status = os.stat(DIRECTORY, dir_fd=parent, follow_symlinks=False)
        _check(home, path, status, stat.S_ISDIR, "directory")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = os.open(DIRECTORY, flags, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal(home, path, error) from None
    stack.callback(os.close, directory)
    status = os.fstat(directory)
    # Of another user, it would be that user who says what the file holds.
    if status.st_uid != home.uid:
        raise _error(home, "owner", path=path)
    if create and stat.S_IMODE(status.st_mode) != 0o700:
        os.fchmod(directory, 0o700)
    return directory


def _text(home: Home, directory: int) -> str:
    """Return the text of the file in an open `~/.ssh`. Bytes that are no UTF-8 stay as they are."""
    path = os.path.join(home.path, DIRECTORY, FILE)
    try:
        status = os.stat(FILE, dir_fd=directory, follow_symlinks=False)
        _check(home, path, status, stat.S_ISREG, "file")
        # A pipe that took the file's place since does not hold this up.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(FILE, flags, dir_fd=directory)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _refusal(home, path, error) from None
    with open(descriptor, "rb") as file:
        _check(home, path, os.fstat(descriptor), stat.S_ISREG, "file")
        content = file.read(SIZE_LIMIT + 1)
    if len(content) > SIZE_LIMIT:
        raise _error(home, "size", path=path, limit=SIZE_LIMIT)
    return content.decode("utf-8", errors="surrogateescape")


def _replace(home: Home, directory: int, text: str) -> None:
    """Put a new file in the place of the old one, which is never opened for that."""
    temporary = f".{FILE}.{os.getpid()}"
    path = os.path.join(home.path, DIRECTORY, FILE)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with suppress(FileNotFoundError):  # one is there of a process that broke off
            os.unlink(temporary, dir_fd=directory)
        with open(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
            file.write(text.encode("utf-8", errors="surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, FILE, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError as error:
        raise _refusal(home, path, error) from None


def _check(
    home: Home, path: str, status: os.stat_result, is_kind: Callable[[int], bool], kind: str
) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _error(home, "link", path=path)
    if not is_kind(status.st_mode):
        raise _error(home, "kind", path=path, kind=kind)


def _refusal(home: Home, path: str, error: OSError) -> KeysError:
    return _error(home, "refused", path=path, reason=error.strerror or "it failed")
