"""What a host is like, once ssh gets in: its release, its Python, its disk, its clock, sudo."""

import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from yard.contact.causes import SUDO, Trouble, code_of
from yard.contact.ssh import COMMAND_SECONDS, Answer
from yard.contact.way import last_lines
from yard.core.words import size
from yard.plays.connections import Connection, Sudo

BEGIN, END = "trainyard-first-contact", "trainyard-that-is-all"
# Where ansible.cfg has the interpreter, which is Debian's own.
DEBIAN_PYTHON = "/usr/bin/python3"
# Folders that set-up and runs write to.
WRITTEN = ("/", "/var/lib", "/srv")
# Below this much there is no room for an image and the files of a run, in bytes.
LEAST_FREE = 2 * 10**9
# How far a clock may be off, in seconds.
MOST_OFF = 180
# For /bin/sh, from its input: a login shell sees nothing of it.
SCRIPT = """\
echo {begin}
echo "user=$(id -un)"
echo "uid=$(id -u)"
echo "time=$(date +%s)"
sed -n 's/^\\(ID\\|VERSION_CODENAME\\|PRETTY_NAME\\)=/release \\1=/p' /etc/os-release
for python in {pythons}; do
    version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])') || continue
    echo "python=$version"
    break
done 2>/dev/null
for folder in {folders}; do
    df -Pk "$folder" | sed -n "s|^|free $folder=|; 2p"
done 2>/dev/null
echo {end}
"""

# Runs a command on a host: the command for its login shell, and what it reads.
Run = Callable[[str, str], Answer]


@dataclass(frozen=True)
class Facts:
    """What a host tells of itself.

    Attributes:
        seconds_off: how far its clock is ahead of this machine's.
        release: of the distribution, for people; `distribution` and `codename` are its identity.
        python: the version of the interpreter that Ansible would use; None where there is none.
        free: bytes that are free in `WRITTEN`, by folder.
    """

    user: str
    uid: int
    seconds_off: float
    release: str
    distribution: str
    codename: str
    python: str | None
    free: Mapping[str, int]


@dataclass(frozen=True)
class Expectation:
    """What a host must have: names and releases of distributions, and the least Python.

    No releases mean any. `root` is whether its user has to become root.
    """

    releases: Mapping[str, Sequence[str]]
    least_python: tuple[int, ...]
    root: bool = True

    @property
    def shown_releases(self) -> str:
        """The releases for people."""
        return "; ".join(f"{name} {', '.join(names)}" for name, names in self.releases.items())


def ask(run: Run, python: str) -> tuple[Answer, float]:
    """Have a host tell of itself; returns its answer, and when that was, in Unix seconds."""
    pythons = [DEBIAN_PYTHON, "python3"] if python.startswith("auto") else [python]
    script = SCRIPT.format(
        begin=BEGIN,
        end=END,
        pythons=shlex.join(pythons),
        folders=shlex.join(WRITTEN),
    )
    began = time.time()
    answer = run("/bin/sh", script)
    return answer, (began + time.time()) / 2


def trouble_with_shell(answer: Answer) -> Trouble | None:
    """What is wrong with the login shell, if it is not as it must be."""
    before, begin, after = answer.output.partition(f"{BEGIN}\n")
    if not begin:
        if answer.status is None:
            values = {"seconds": str(COMMAND_SECONDS)}
            return Trouble("no_answer", values, last_lines(answer.words))
        # A restricted account often says so.
        return Trouble("shell_silent", {}, last_lines(f"{answer.output}\n{answer.words}"))
    if END not in after:
        return Trouble("no_answer", {"seconds": str(COMMAND_SECONDS)}, last_lines(answer.words))
    return Trouble("shell_prints", {}, last_lines(before)) if before.strip() else None


def parse_facts(answer: Answer, asked_at: float) -> Facts:
    """Build facts from a whole answer; `asked_at` is in Unix seconds of this machine's clock."""
    said: dict[str, str] = {}
    free: dict[str, int] = {}
    for line in answer.output.partition(f"{BEGIN}\n")[2].splitlines():
        name, equals, value = line.partition("=")
        if name.startswith("free ") and (columns := re.search(r"\s(\d+)\s+\d+%", value)):
            free[name.removeprefix("free ")] = 1024 * int(columns[1])
        elif equals:
            said[name] = value.strip().strip("\"'")
    moment = said.get("time", "")
    return Facts(
        user=said.get("user", ""),
        uid=int(said["uid"]) if said.get("uid", "").isdigit() else -1,
        seconds_off=int(moment) - asked_at if moment.isdigit() else 0.0,
        release=said.get("release PRETTY_NAME", "an unknown system"),
        distribution=said.get("release ID", ""),
        codename=said.get("release VERSION_CODENAME", ""),
        python=said.get("python"),
        free=free,
    )


def trouble_of_system(facts: Facts, python: str, expectation: Expectation) -> Trouble | None:
    """What is wrong with the release or with Python."""
    known = {name.lower(): names for name, names in expectation.releases.items()}
    if known and facts.codename not in known.get(facts.distribution, ()):
        values = {"release": facts.release, "supported": expectation.shown_releases}
        return Trouble("release_unsupported", values)
    if facts.python is None:
        missing = python == DEBIAN_PYTHON or python.startswith("auto")
        path = DEBIAN_PYTHON if missing else python
        return Trouble("python_missing" if missing else "interpreter_missing", {"python": path})
    if tuple(map(int, facts.python.split("."))) < expectation.least_python:
        least = ".".join(map(str, expectation.least_python))
        values = {"python": python, "version": facts.python, "least": least}
        return Trouble("python_old", values)
    return None


def trouble_of_state(facts: Facts) -> Trouble | None:
    """What is wrong with the clock or the disk."""
    if abs(facts.seconds_off) > MOST_OFF:
        way = "ahead of" if facts.seconds_off > 0 else "behind"
        minutes = round(abs(facts.seconds_off) / 60)
        return Trouble("clock_off", {}, (f"{minutes:,} min {way} this machine's",))
    for path, free in facts.free.items():
        if free < LEAST_FREE:
            values = {"path": path, "least": size(LEAST_FREE)}
            return Trouble("disk_full", values, (f"{size(free)} free",))
    return None


def becoming(connection: Connection, facts: Facts) -> str:
    """How the user becomes root, for people."""
    if facts.uid == 0:
        return "is root"
    if connection.method is None:
        return "stays what it is"
    if connection.method != "sudo":
        return f"becomes root by {connection.method}, not tried"
    return "sudo with a password" if connection.sudo.password else "sudo without a password"


def trouble_with_root(run: Run, connection: Connection, facts: Facts) -> Trouble | None:
    """What keeps the user from becoming root as the inventory says."""
    if connection.method is None:
        return None if facts.uid == 0 else Trouble("not_root")
    if connection.method != "sudo" or not _calls_sudo(connection, facts):
        return None
    sudo = connection.sudo
    text = "" if sudo.password is None else f"{sudo.password}\n"
    answer = run(f"/bin/sh -c {shlex.quote(_sudo_line(sudo))}", text)
    if answer.status == 0:
        return None
    values = {"become_user": sudo.user}
    code = code_of(answer.words, SUDO)
    if answer.status is None and code is None:
        return Trouble("no_answer", {"seconds": str(COMMAND_SECONDS)}, last_lines(answer.words))
    if code == "sudo_missing" and facts.uid == 0:
        code = "root_unnamed"
    return Trouble(code or "sudo_failed", values, last_lines(answer.words))


def _calls_sudo(connection: Connection, facts: Facts) -> bool:
    """Whether Ansible calls sudo: over ssh it compares names of the inventory, not who came."""
    if connection.plugin == "local":
        return facts.uid != 0
    return connection.user != connection.sudo.user


def _sudo_line(sudo: Sudo) -> str:
    """As Ansible calls it; -k, so that a password of earlier does not count, nor is forgotten."""
    how = "-n" if sudo.password is None else "-S"
    program, user = shlex.quote(sudo.executable), shlex.quote(sudo.user)
    return f'LC_ALL=C {program} -k -H {how} -p "" -u {user} /bin/sh -c "exit 0"'
