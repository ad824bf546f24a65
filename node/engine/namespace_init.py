"""The first process of a container of namespaces.py. It needs nothing but Python.

    unshare --user ... python3 -I init <folder of the container> <files of the image>

It mounts what the container sees, makes that its root, starts the container's program without any
privilege, hands signals on to it, writes its output with times, and notes how it ended. It keeps
its own capabilities, which count in these namespaces alone: a rank, which has none, can therefore
neither trace it nor reach the node's files through it (ptrace(2)).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import stat
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

STATE = "state"
LOGS = ("log.0", "log.1")
# Of each of the two, in bytes.
LOG_BYTES = 5 << 20
# mount(2)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 32, 4096, 16384
# Flags of a mount of the node that a container's own mount of it must keep, by statvfs(3).
KEPT = (
    (os.ST_NOSUID, MS_NOSUID),
    (os.ST_NODEV, MS_NODEV),
    (os.ST_NOEXEC, 8),
    (os.ST_NOATIME, 1024),
    (os.ST_NODIRATIME, 2048),
    (os.ST_RELATIME, 1 << 21),
)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Nothing that it starts may gain a privilege.
WITHOUT_PRIVILEGES = (
    *("/usr/bin/setpriv", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all"),
    "--bounding-set=-all",
)
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
NOT_FOUND = 127

# Where a control group counts the processes that were killed for want of memory, in versions 2
# and 1, by what stands before its path in /proc/self/cgroup.
OOM_COUNTERS = {
    "0::": "/sys/fs/cgroup{}/memory.events",
    ":memory:": "/sys/fs/cgroup/memory{}/memory.oom_control",
}
OOM_KILL = re.compile(r"^oom_kill (\d+)", re.MULTILINE)

_libc = ctypes.CDLL(None, use_errno=True)


def began(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine did; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # The name of the program, in brackets, may have any character.
            return int(file.read().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def mount(
    source: str | None,
    target: str,
    kind: str | None = None,
    flags: int = 0,
    data: str | None = None,
) -> None:
    arguments = (None if text is None else text.encode() for text in (source, target, kind))
    if _libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() if data else None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount of {source} at {target}: {os.strerror(number)}")


def bind(source: str, target: str, read_only: bool = False) -> None:
    """Mount a file or folder of the node at a place of the container, which is made."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb"):
            pass
    mount(source, target, flags=MS_BIND)
    if read_only:
        make_read_only(target)


def make_read_only(target: str) -> None:
    """Make a mount read-only, for this container."""
    has = os.statvfs(target).f_flag
    kept = sum(flag for present, flag in KEPT if has & present)
    mount(None, target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def mounts_below(target: str) -> list[str]:
    """Where file systems are mounted: at a place, and below it."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        places = [line.split(" ")[4] for line in file]
    whole = [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text) for text in places]
    return [place for place in whole if f"{place}/".startswith(f"{target}/")]


def temporary(target: str, options: str) -> None:
    """Mount a file system in memory, with the options of mount(8)."""
    os.makedirs(target, exist_ok=True)
    words = options.split(",")
    flags = sum({"nosuid": MS_NOSUID, "nodev": MS_NODEV}.get(word, 0) for word in words)
    # Whose it is needs no word: there is one account in here.
    data = [word for word in words if word.partition("=")[0] in ("size", "mode")]
    mount("tmpfs", target, "tmpfs", flags, ",".join(data))


def lay_out(folder: str, root: str, host: Mapping[str, Any]) -> None:
    """Mount all that the container sees below `root`."""
    mount(root, root, flags=MS_BIND)
    # Parents first.
    binds = [entry.split(":") for entry in host.get("Binds", ())]
    binds += [[entry["Source"], entry["Target"], "ro"] for entry in host.get("Mounts", ())]
    for target, options in sorted(host.get("Tmpfs", {}).items()):
        temporary(root + target, options)
    devices(root + "/dev", host)
    os.makedirs(root + "/proc", exist_ok=True)
    mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV)
    os.makedirs(root + "/sys", exist_ok=True)
    mount("/sys", root + "/sys", flags=MS_BIND | MS_REC)
    # The account has control groups of its own there, and could freeze what is not of this run.
    for place in mounts_below(root + "/sys"):
        with suppress(PermissionError):  # a place that this may not pass no rank may
            make_read_only(place)
    bind(f"{folder}/hosts", f"{root}/etc/hosts", read_only=True)
    names = os.path.realpath("/etc/resolv.conf")
    if os.path.isfile(names) and not os.path.islink(f"{root}/etc/resolv.conf"):
        bind(names, f"{root}/etc/resolv.conf", read_only=True)
    for source, target, *options in sorted(binds, key=lambda entry: entry[1]):
        bind(source, root + target, read_only=options == ["ro"])
    if host.get("ReadonlyRootfs"):
        make_read_only(root)


def devices(target: str, host: Mapping[str, Any]) -> None:
    """Make /dev: the usual ones, shared memory, and those that were asked for."""
    temporary(target, "nosuid,size=64k,mode=755")
    asked = [(entry["PathOnHost"], entry["PathInContainer"]) for entry in host.get("Devices", ())]
    for path, place in (*((f"/dev/{name}", f"/dev/{name}") for name in DEVICES), *asked):
        if stat.S_ISCHR(os.stat(path).st_mode):
            bind(path, target + place[len("/dev") :])
    for name, to in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{to}", f"{target}/{name}")
    temporary(f"{target}/shm", f"nosuid,nodev,mode=1777,size={host.get('ShmSize', 64 << 20)}")


class Log:
    """Writes what the container says, with times, and keeps the newest of it."""

    def __init__(self, folder: str) -> None:
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
        self._files = [os.open(os.path.join(folder, name), flags, 0o600) for name in LOGS]
        self._size = 0

    def line(self, text: bytes) -> None:
        now = time.time()
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        record = f"{seconds}.{int(now % 1 * 10**9):09d}Z ".encode() + text
        if self._size + len(record) > LOG_BYTES:
            self._files.reverse()
            os.ftruncate(self._files[0], 0)
            os.lseek(self._files[0], 0, os.SEEK_SET)
            self._size = 0
        self._size += os.write(self._files[0], record)

    def follow(self, pipe: int) -> None:
        """Write lines until nobody has the pipe any more."""
        with os.fdopen(pipe, "rb") as output:
            # A line without an end must not fill the memory.
            for text in iter(lambda: output.readline(64 << 10), b""):
                with suppress(OSError):  # a full disk must not end who says something
                    self.line(text if text.endswith(b"\n") else text + b"\n")


class OomKills:
    """Tells whether the kernel has killed a process of this control group for want of memory.

    An account has no group of its own for each container: it is that of the login. The file stays
    open, because the container's root does not have it.
    """

    def __init__(self, groups: str = "/proc/self/cgroup") -> None:
        self._files: list[int] = []
        # A kernel or a sandbox without control groups has no such file.
        with suppress(FileNotFoundError), open(groups, encoding="utf-8") as lines:
            for line in lines:
                for mark, place in OOM_COUNTERS.items():
                    path = line.rstrip("\n").partition(mark)[2]
                    with suppress(OSError):  # another version's, or the topmost, which counts none
                        if path:
                            flags = os.O_RDONLY | os.O_CLOEXEC
                            self._files.append(os.open(place.format(path), flags))
        self._before = self._count()

    def _count(self) -> int:
        count = 0
        for file in self._files:
            with suppress(OSError):  # the group is gone
                count += sum(map(int, OOM_KILL.findall(os.pread(file, 4096, 0).decode())))
        return count

    def happened(self) -> bool:
        """Tell whether there was one since this was made."""
        return self._count() > self._before


class State:
    """Writes the state of the container, as the Docker Engine API has it."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, STATE)
        # From the node's own /proc, which is still there: its number on the node.
        pid = int(os.readlink("/proc/self"))
        self._state: dict[str, Any] = {"Pid": pid, "Began": began(pid), "OOMKilled": False}
        self._kills = OomKills()
        self._file = -1

    def open(self) -> None:
        """Make the file, which says that the container runs."""
        flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC
        self._file = os.open(self._path + ".new", flags, 0o600)
        self._write(Status="running", Running=True, ExitCode=0, StartedAt=_now())
        os.rename(self._path + ".new", self._path)

    def end(self, status: int) -> None:
        """Note how the container ended."""
        killed = self._kills.happened()
        self._write(
            Status="exited", Running=False, ExitCode=status, FinishedAt=_now(), OOMKilled=killed
        )

    def _write(self, **values: Any) -> None:
        self._state.update(values)
        content = json.dumps(self._state).encode()
        # One write, as a reader may look at any instant; blanks are nothing in JSON.
        os.pwrite(self._file, content.ljust(512), 0)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def leave_keyring() -> None:
    """Join a session keyring of its own: that of the login may have tickets and keys."""
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if number is not None:
        _libc.syscall(number, 1, None)  # keyctl(KEYCTL_JOIN_SESSION_KEYRING)


def prefer_to_be_killed(score: int) -> None:
    """Where the node runs out of memory, the ranks go before whoever has to tell of it."""
    with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
        present = int(file.read())
        if score > present:
            file.write(str(score))


def environment(image: Mapping[str, Any], specification: Mapping[str, Any]) -> dict[str, str]:
    """The environment of the container's program: the image's, and what was asked for over it."""
    entries = [*(image.get("Env") or ()), *specification.get("Env", ())]
    named = dict(entry.partition("=")[::2] for entry in entries)
    return {**named, "HOME": f"/home/{specification['User']}"}


def start(
    image: Mapping[str, Any], specification: Mapping[str, Any], log: Log
) -> tuple[int, threading.Thread]:
    """Start the container's program; return its process id, and what writes down what it says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # What is ignored stays so in the program: Python ignores two of them, a shell others
            # of what it starts in the background.
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
            nowhere = os.open(os.devnull, os.O_RDONLY)
            for present, standard in ((nowhere, 0), (writer, 1), (writer, 2)):
                os.dup2(present, standard)
            os.closerange(3, 256)
            os.setsid()
            os.chdir(image.get("WorkingDir") or "/")
            named = environment(image, specification)
            program = specification.get("Cmd") or image["Cmd"]
            os.execve(WITHOUT_PRIVILEGES[0], [*WITHOUT_PRIVILEGES, "--", *program], named)
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(NOT_FOUND)
    os.close(writer)
    follower = threading.Thread(target=log.follow, args=(reader,), daemon=True)
    follower.start()
    return child, follower


def wait_for(child: int) -> int:
    """Reap whatever ends in here until the program has; return its status as a shell gives it."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(folder: str, root: str) -> int:
    """Run the container; return the status of its program."""
    with open(f"{folder}/specification.json", encoding="utf-8") as file:
        specification = json.load(file)
    with open(f"{folder}/image.json", encoding="utf-8") as file:
        image = json.load(file)
    log, state = Log(folder), State(folder)
    lay_out(folder, root, specification["HostConfig"])
    name = specification["Hostname"].encode()
    if _libc.sethostname(name, len(name)):
        raise OSError(ctypes.get_errno(), "the host name cannot be set")
    leave_keyring()
    prefer_to_be_killed(specification["HostConfig"].get("OomScoreAdj", 0))
    # What is sent from here on, and before there is a program, waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    state.open()
    os.chroot(root)
    os.chdir("/")
    child, follower = start(image, specification, log)

    def hand_on(received: int, _: object) -> None:
        with suppress(ProcessLookupError):  # it has ended just now
            os.kill(child, received)

    for number in FORWARDED:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    status = wait_for(child)
    # What the program left behind may hold the pipe.
    follower.join(0.5)
    state.end(status)
    # The others go with this process, which is the first of their namespace.
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
