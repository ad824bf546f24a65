"""What a node needs before anything trains on it, looked at on the node itself.

All of it together takes some hundredths of a second, so that every launch can ask.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..machine.account import OWN_UID
from .check import Check, at_least, equal
from .problems import Problem, problem

# What a login of the training user brings along, and may stay.
SESSION = frozenset({"systemd", "(sd-pam)", "sshd", "sshd-session", "bash", "sh", "dbus-daemon"})
ENGINE_PID = "/var/run/docker.pid"
# How a check names what belongs to no run, by the code of the problem.
STRAYS = {
    "stray_process": "{command} (pid {pid})",
    "stray_container": "container {name} of {image}",
}
# A share whose server is gone lets a process wait for ever.
PATH_SECONDS = 5.0


def disk(directory: str, gigabytes: float) -> Check:
    """Room on the disk of a directory, in 10^9 bytes."""
    free = shutil.disk_usage(directory).free / 1e9
    return at_least(
        "disk",
        round(free, 2),
        gigabytes,
        "GB free",
        "low_disk",
        subject=directory,
        path=directory,
    )


def memory(gigabytes: float) -> Check:
    """Memory that programs can have without swapping, in 10^9 bytes."""
    with open("/proc/meminfo", encoding="ascii") as file:
        entries = dict(line.split(":", 1) for line in file)
    available = int(entries["MemAvailable"].split()[0]) * 1024 / 1e9
    return at_least("memory", round(available, 2), gigabytes, "GB available", "low_memory")


def shared_memory(gigabytes: float) -> Check:
    """Room in /dev/shm, in 10^9 bytes: ranks of one node exchange data there."""
    free = shutil.disk_usage("/dev/shm").free / 1e9
    return at_least(
        "shared memory",
        round(free, 3),
        gigabytes,
        "GB free",
        "low_shared_memory",
        subject="/dev/shm",
        path="/dev/shm",
    )


def open_files(count: int) -> Check:
    """How many files one process of a container may open, or the whole system still."""
    with open("/proc/sys/fs/file-nr", encoding="ascii") as file:
        allocated, _, most = (int(number) for number in file.read().split())
    numbers = [most - allocated]
    try:
        with open(ENGINE_PID, encoding="ascii") as file:
            engine = file.read().strip()
        with open(f"/proc/{engine}/limits", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("Max open files"))
        limit = line.split()[3]
        numbers += [] if limit == "unlimited" else [int(limit)]
    except FileNotFoundError:
        pass  # no engine, which is a finding of its own
    # The system's own limit is 2^63 where nobody sets one; no process gets more than nr_open.
    with open("/proc/sys/fs/nr_open", encoding="ascii") as file:
        numbers.append(int(file.read()))
    return at_least("open files", min(numbers), count, "files", "few_open_files")


def readable(path: str, uid: int, gid: int) -> Check:
    """Whether the training user can list a directory and read a file in it."""

    def read() -> None:
        with as_user(uid, gid):
            for name in os.listdir(path):
                inside = os.path.join(path, name)
                try:
                    if os.path.isdir(inside):
                        os.listdir(inside)
                    else:
                        with open(inside, "rb") as file:
                            file.read(1)
                except OSError as error:
                    raise OSError(error.errno, f"{error.strerror}: {inside}") from error

    told = within(PATH_SECONDS, read) or "yes"
    return equal("readable", told, "yes", "unreadable", subject=path, path=path)


def trouble_at(path: str, uid: int = OWN_UID, gid: int = 0) -> str:
    """Return why a user cannot look at a path, or the empty string; a silent share is no answer."""

    def look() -> None:
        with as_user(uid, gid):
            os.stat(path)

    return within(PATH_SECONDS, look)


def trouble_in(path: str, uid: int, gid: int) -> str:
    """Return why a directory cannot be looked into, as `trouble_at`; an empty one is as none."""

    def look() -> None:
        with as_user(uid, gid), os.scandir(path) as entries:
            if next(entries, None) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    return within(PATH_SECONDS, look)


def is_missing(trouble: str) -> bool:
    """Tell whether what `trouble_at` returned is that there is no such path."""
    return trouble in (os.strerror(errno.ENOENT), os.strerror(errno.ENOTDIR))


def writable(path: str, uid: int, gid: int) -> Check:
    """Whether a directory of the training user in `path` takes what that user writes.

    Directories of runs are made there, by root, and belong to the training user.
    """

    def write() -> None:
        directory = tempfile.mkdtemp(prefix=".check-", dir=path)
        try:
            os.chown(directory, uid, gid)
            with as_user(uid, gid):
                name = os.path.join(directory, "file")
                with open(name, "wb") as file:
                    file.write(b"x" * 4096)
                    os.fsync(file.fileno())
                os.remove(name)
        finally:
            shutil.rmtree(directory)

    told = within(PATH_SECONDS, write) or "yes"
    return equal("writable", told, "yes", "unwritable", subject=path, path=path)


def strays(uid: int, containers: Sequence[dict[str, Any]]) -> list[Problem]:
    """Processes of the training user, and containers of the trainer's image, that are of no run.

    What somebody else's container runs under the same number is no concern of ours, and to end it
    would harm: a process counts in the node's own process id namespace alone.

    Args:
        containers: the engine's list of all running containers.
    """
    own = _namespace(os.getpid())
    problems = []
    for pid in _processes_of(uid):
        command = _command(pid)
        if command and _namespace(pid) == own:
            problems.append(problem("stray_process", command=command[:120], pid=pid))
    for container in containers:
        if "trainyard.run" not in container["Labels"] and "trainyard/" in container["Image"]:
            name = container["Names"][0].lstrip("/")
            problems.append(problem("stray_container", name=name, image=container["Image"]))
    return problems


def stray_checks(problems: Sequence[Problem]) -> list[Check]:
    """What `strays` returned as checks: one that is passed where it returned nothing."""
    if not problems:
        return [equal("stray processes", "none", "none")]
    return [
        equal(
            "stray processes",
            STRAYS[problem.code].format(**problem.values),
            "none",
            "stray",
            remedy=problem.remedy,
        )
        for problem in problems
    ]


@contextmanager
def as_user(uid: int, gid: int) -> Iterator[None]:
    """Access files as another user. Without root they are accessed as who this is: see
    training_node_account."""
    if OWN_UID != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def within(seconds: float, action: Callable[[], None]) -> str:
    """Do something in a process of its own; return why it failed, or the empty string."""

    def act(answer: int) -> None:
        try:
            action()
        except Exception as error:  # whatever it is, it is no success
            told = getattr(error, "strerror", None) or str(error) or type(error).__name__
            os.write(answer, told.encode(errors="replace"))

    said = said_by_child(act, seconds)
    return f"no answer within {seconds:g} s" if said is None else said.decode()


def said_by_child(act: Callable[[int], None], silence: float) -> bytes | None:
    """Return what a process of its own writes to a descriptor; None where it hangs.

    One that hangs in a file system cannot be killed. It is left behind; nobody waits for it.

    Args:
        act: all that the process does; what it raises ends it.
        silence: seconds without a byte after which it counts as one that hangs.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # Who waits for this module's output must not wait for the child.
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
            act(writer)
        finally:
            os._exit(0)
    os.close(writer)
    said = b""
    with os.fdopen(reader, "rb", buffering=0) as answers:
        while select.select([answers], [], [], silence)[0]:
            part = answers.read(4096)
            if not part:
                os.waitpid(child, 0)
                return said
            said += part
    os.kill(child, signal.SIGKILL)
    return None


def _processes_of(uid: int) -> list[int]:
    """Ids of a user's processes, apart from logins.

    By the real uid: root is this user for a moment where the look of another launch tries a folder.
    """
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid != uid:
                continue  # by its effective uid, which is quicker to see
            with open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as file:
                said = dict(line.split(":", 1) for line in file if ":" in line)
            if int(said["Uid"].split()[0]) == uid and said["Name"].strip() not in SESSION:
                pids.append(int(name))
        except (FileNotFoundError, ProcessLookupError, KeyError):
            continue  # it ended while we looked
    return sorted(pids)


def _namespace(pid: int) -> str:
    """The process id namespace of a process: that of a container, or the node's own."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except FileNotFoundError:
        return ""  # it ended while we looked


def _command(pid: int) -> str:
    """The command line of a process; empty where it is gone, or a zombie."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return " ".join(file.read().replace(b"\0", b" ").decode(errors="replace").split())
    except (FileNotFoundError, ProcessLookupError):
        return ""
