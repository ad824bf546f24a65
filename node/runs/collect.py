"""What of the files that ranks left goes home: plain files of known names, within limits.

Ranks may have written anything in any form. Nothing is opened or followed on the way: a file is
moved by its name into a directory of root's, and stays there if it proves to be a plain one.
"""

from __future__ import annotations

import heapq
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from ..machine.account import OWN_UID
from .directory import RunDirectory
from .records import remove_tree
from .untrusted import FILE, open_directory

# Below the ranks' directory; "**" is everything there, at any depth up to DEPTH.
ALLOWED = tuple(
    tuple(path.split("/"))
    for path in (
        "metrics.jsonl",
        "silences.jsonl",
        "world.json",
        "timeline.json",
        "bench.json",
        "exit_status",
        "logs/*.log",
        "ranks/*.json",
        "failures/*.json",
        "nodes/*/utilisation.jsonl",
        "verify/*.json",
        "checkpoints/**",
        "tensorboard/**",
        "wandb/**",
        "outputs/**",
        "project/**",
        "copies/checkpoints/**",
        "copies/workdir/**",
    )
)
# The folders of programs, which may hold any number of files; the others have logs and records.
_ANY_DEPTH = frozenset(path[0] for path in ALLOWED if path[-1] == "**")
# Those of which everything may go home.
_WHOLE = frozenset(path[0] for path in ALLOWED if path[1:] == ("**",))
# Where the first node copies its checkpoints to (trainer/launch/copies.py). They are kept apart
# from what this node's own ranks left: they go home only where the first node does not answer.
COPIES = "copies"
CHECKPOINTS = "checkpoints"
# What a project writes, and what it goes home as: its outputs, and what is new or changed in its
# copy of the project. From nodes other than the first it goes to the folder of the node: the
# programs of two nodes may well write files of one name.
PROJECTS = {"outputs": "outputs", "project": "workdir"}
WORKDIR = "project"
# What TensorBoard reads, and the folders of ranks in which it is looked for while a run goes on.
EVENTS = "*tfevents*"
EVENTS_BELOW = (("tensorboard",), *((name,) for name in PROJECTS))
# A larger file comes home with the end of the run: others are sent anew as they grow. In bytes.
LIVE_EVENTS_BYTES = 64 << 20
# A folder that Python makes beside what it imports.
BYTE_CODE = "__pycache__"
DEPTH = 250
# Longer paths, in bytes, are too long with the folders above them (PATH_MAX is 4096).
PATH_BYTES = 3000
# Of a name, as Linux has it
NAME_BYTES = 255
# What the launcher keeps of places that end with the container (trainer/launch/container_files.py).
# It comes home as checkpoints do: mostly it is weights.
LEFT_IN_CONTAINER = ("outputs", "left-in-container")
# What the ranks keep for themselves: signs of life, whether an exception ended one, and files that
# are still being written.
OWN = (".*", "*.beat", "*.exception")
# A link of W&B's to a log in its cache, beside each of its runs
LINK_OF_WANDB = "debug-core.log"
# So many names are told of what stays behind, and so many characters of each.
EXAMPLES = 5
PATH_SHOWN = 200


@dataclass(frozen=True)
class Limits:
    """How much of a run goes home from a node; `size` is in bytes, of all files together."""

    size: int
    files: int


@dataclass
class Names:
    """Some of many things, and how many they are: a rank can leave a million files."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.first) < EXAMPLES:
            self.first.append(name)

    def add_all(self, others: Names) -> None:
        """Count all of others."""
        self.count += others.count
        self.first += others.first[: EXAMPLES - len(self.first)]

    def __str__(self) -> str:
        more = self.count - len(self.first)
        return "; ".join(self.first) + (f"; and {more} more" if more else "")


@dataclass
class Collected:
    """What happened to the files that ranks left.

    Attributes:
        refused: what does not go home, as `path: reason`.
        beyond: files that would exceed a limit. They stay where they are.
        size: bytes of the files that go home.
    """

    refused: Names = field(default_factory=Names)
    beyond: Names = field(default_factory=Names)
    size: int = 0


@dataclass(frozen=True)
class _Entry:
    """A file, or a link that leads downwards, that may go home.

    Attributes:
        parts: its path below the ranks' directory.
        size: bytes.
        changed: when it was written last, nanoseconds.
        target: of a link.
    """

    parts: tuple[str, ...]
    size: int
    changed: int = 0
    target: str | None = None

    @property
    def path(self) -> str:
        return "/".join(self.parts)


class _Turn(tuple[int, tuple[str, ...]]):
    """A key and a path, of which the last comes first: heapq has the smallest in front."""

    __slots__ = ()

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return tuple.__gt__(self, other)


class _Kept:
    """Those of many files that go home, in order; the others are named and counted.

    A rank can leave more files than fit into memory, so no more are held than may go home.
    """

    def __init__(self, files: int, beyond: Names) -> None:
        self._files = files
        self._beyond = beyond
        self._heap: list[tuple[_Turn, _Entry]] = []

    def add(self, key: int, entry: _Entry) -> None:
        """Take in a file; those with small keys go home first, of equal ones by their paths."""
        item = (_Turn((key, entry.parts)), entry)
        if len(self._heap) < self._files:
            heapq.heappush(self._heap, item)
        else:
            self._beyond.add(_with_size(heapq.heappushpop(self._heap, item)[1]))

    def in_order(self) -> list[_Entry]:
        """Return them, the first to go home in front."""
        return [entry for _, entry in sorted(self._heap, reverse=True)]


def _with_size(entry: _Entry) -> str:
    return f"{printable(entry.path)[:PATH_SHOWN]}: {entry.size:,} bytes"


def printable(name: str) -> str:
    """A name of a program's file, with what cannot be printed as Python writes it (`a\\n1.pt`)."""
    return name if name.isprintable() else ascii(name)[1:-1]


def collect(directory: RunDirectory, host: str, limits: Limits) -> Collected:
    """Move what the ranks left, and what may go home, into `collect`, and copies into `copies`.

    A rank that still runs, because no engine is there to end it, changes nothing of that.
    Logs and records come first, then checkpoints, the newest in front, then all else, the small
    files in front. So nothing that a program writes keeps its log from going home. The number of
    files is limited for each of the three by itself, the size for all together.
    """
    collected = Collected()
    # A run that was refused a node, or whose files are home, has none.
    if not os.path.isdir(directory.work):
        return collected
    if OWN_UID:
        # Without root, who may read what a program let nobody read: it is this account's own.
        command = ("chmod", "--recursive", "--quiet", "u+rwX", "--", directory.work)
        subprocess.run(command, check=False)
    pattern = checkpoint_pattern(directory)
    # Asked once, and not for each of many files.
    goes_on = os.path.isdir(directory.resume)
    records, checkpoints, others = (_Kept(limits.files, collected.beyond) for _ in range(3))
    for entry in _entries(directory.work, (), collected):
        if _is_of_snapshot(directory, entry) or (goes_on and _was_given(directory, entry)):
            continue
        if _is_checkpoint(entry.parts, pattern):
            checkpoints.add(-entry.changed, entry)
        else:
            kind = others if entry.parts[0] in _ANY_DEPTH else records
            kind.add(entry.size, entry)
    # Of names that are written out, which may be another file's name as well
    written_out: set[str] = set()
    for entry in (*records.in_order(), *checkpoints.in_order(), *others.in_order()):
        target = os.path.join(*_place(directory, host, entry.parts))
        if collected.size + entry.size > limits.size:
            collected.beyond.add(_with_size(entry))
        elif target in written_out:
            collected.refused.add(f"{printable(entry.path)}: another file has this name")
        elif _move(directory, entry, target):
            collected.size += entry.size
            if "\\" in target:
                written_out.add(target)
        else:
            collected.refused.add(f"{printable(entry.path)}: it changed while it was collected")
    return collected


def collect_attempts(directory: RunDirectory, host: str, limits: Limits) -> Collected:
    """Do `collect` for a run, and for what attempts before it left beyond the limits."""
    collected = collect(directory, host, limits)
    for name in sorted(os.listdir(directory.left)) if os.path.isdir(directory.left) else ():
        attempt = directory.attempt_before(name)
        found = collect(attempt, host, limits)
        collected.refused.add_all(found.refused)
        collected.beyond.add_all(found.beyond)
        if not found.beyond.count:
            remove_tree(attempt.work)
    return collected


def _is_checkpoint(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Tell whether a path below the ranks' directory is one of a checkpoint, or counts like one."""
    if parts[0] == WORKDIR:
        return bool(pattern) and len(parts) > len(pattern) and leads_to_match(parts[1:], pattern)
    return parts[0] in (CHECKPOINTS, COPIES) or parts[:2] == LEFT_IN_CONTAINER


def checkpoint_pattern(directory: RunDirectory) -> tuple[str, ...]:
    """Return which files of its working directory the project of a run calls checkpoints.

    A pattern for each name of a path; empty where there are none, or the trainer runs.
    """
    try:
        with open(os.path.join(directory.config, "program.json"), encoding="utf-8") as file:
            # A run that an older Trainyard has launched, and this one ends, says nothing of it.
            pattern = str(json.load(file).get("checkpoints", ""))
    except FileNotFoundError:
        return ()
    return tuple(pattern.split("/")) if pattern else ()


def checkpoint_files(directory: RunDirectory, host: str) -> list[str]:
    """Return the checkpoints of a node by the paths that they will have at home."""
    pattern = checkpoint_pattern(directory)
    workdir = _home(directory, host, (WORKDIR,))
    files = [os.path.join(CHECKPOINTS, path) for path in _below(directory, CHECKPOINTS)]
    for path in _below(directory, *workdir) if pattern else ():
        names = tuple(path.split("/"))
        if len(names) >= len(pattern) and leads_to_match(names, pattern):
            files.append("/".join((*workdir, *names)))
    return sorted(files)


def _below(directory: RunDirectory, *names: str) -> Iterator[str]:
    """Yield the paths of all files of a folder in `collect`, from there; none without a folder."""
    folder = os.path.join(directory.collect, *names)
    for above, _, files in os.walk(folder):
        for name in files:
            yield os.path.relpath(os.path.join(above, name), folder)


def offer_live(directory: RunDirectory, host: str, limits: Limits) -> list[str]:
    """Link what comes home while a run goes on into `live`.

    That is the checkpoints, the samples of this node and, on the node that starts the ranks,
    TensorBoard's events. The ranks go on writing; a file of theirs that is changed in its place
    changes here too. A run that ends meanwhile has its directory removed, and that is not made
    again here.

    Returns:
        The paths of the checkpoints at home, which are those below `live` as well.

    Raises:
        FileNotFoundError: the run is over.
        OSError: what is left of the last time cannot be removed, or the disk is full.
    """
    remove_tree(directory.live)
    os.mkdir(directory.live, 0o700)
    checkpoints = _found(directory, (CHECKPOINTS,), limits)
    pattern = checkpoint_pattern(directory)
    if pattern:
        checkpoints += _first(_checkpoints_of_workdir(directory, pattern), limits)
    others = [
        entry
        for parts in (("nodes", host), *(EVENTS_BELOW if directory.launches() else ()))
        for entry in _found(directory, parts, limits)
        if _is_live(entry)
    ]
    checkpoints.sort(key=lambda each: each.size)
    names = []
    size = 0
    for number, entry in enumerate([*checkpoints, *others][: limits.files]):
        home = _home(directory, host, entry.parts)
        size += entry.size
        if size <= limits.size and _link(directory, entry, home) and number < len(checkpoints):
            names.append("/".join(home))
    return names


def _found(directory: RunDirectory, parts: tuple[str, ...], limits: Limits) -> list[_Entry]:
    """Find what may go home below one of the ranks' folders, one more than may be at the most."""
    return _first(_entries(directory.work, parts, Collected()), limits)


def _first(entries: Iterator[_Entry], limits: Limits) -> list[_Entry]:
    try:
        return list(islice(entries, limits.files + 1))
    except OSError:
        return []  # something else is in the place of the directory


def _checkpoints_of_workdir(directory: RunDirectory, pattern: tuple[str, ...]) -> Iterator[_Entry]:
    """Find the checkpoints in its working directory that a project has not begun with."""

    def wanted(parts: tuple[str, ...]) -> bool:
        return leads_to_match(parts[1:], pattern)

    for entry in _entries(directory.work, (WORKDIR,), Collected(), wanted):
        is_whole = len(entry.parts) > len(pattern) and not entry.parts[-1].startswith(".")
        is_given = _is_of_snapshot(directory, entry) or _was_given(directory, entry)
        if is_whole and not is_given:
            yield entry


def _is_live(entry: _Entry) -> bool:
    is_wanted = entry.parts[0] == "nodes" or fnmatchcase(entry.parts[-1], EVENTS)
    return is_wanted and entry.target is None and entry.size <= LIVE_EVENTS_BYTES


def _link(directory: RunDirectory, entry: _Entry, home: tuple[str, ...]) -> bool:
    """Give an entry a further name in `live`; return whether it was still what it had been."""
    target = directory.live
    try:
        for folder in home[:-1]:
            target = os.path.join(target, folder)
            with suppress(FileExistsError):
                os.mkdir(target, 0o700)
        target = os.path.join(target, home[-1])
        if entry.target is not None:
            os.symlink(entry.target, target)
            return True
    except (FileExistsError, NotADirectoryError):
        return False  # two names are one when they are written out
    try:
        source = open_directory(directory.work, *entry.parts[:-1])
    except OSError:
        return False
    try:
        os.link(entry.parts[-1], target, src_dir_fd=source, follow_symlinks=False)
    except OSError:
        return False
    finally:
        os.close(source)
    if stat.S_ISREG(os.lstat(target).st_mode):
        return True
    _remove(target)
    return False


def _entries(
    work: str,
    parts: tuple[str, ...],
    collected: Collected,
    wanted: Callable[[tuple[str, ...]], bool] = lambda parts: True,
) -> Iterator[_Entry]:
    """Find what may go home below a directory, and note what may not."""
    # Not by recursion: ranks may have left directories in directories without end.
    directories = [parts]
    while directories:
        above = directories.pop()
        try:
            descriptor = open_directory(work, *above)
        except FileNotFoundError:
            continue  # make stop has brought it home meanwhile
        try:
            with os.scandir(descriptor) as listing:
                for found in listing:
                    inner = (*above, found.name)
                    if not wanted(inner):
                        continue
                    entry = _entry(inner, found, descriptor, collected)
                    if entry is _DIRECTORY:
                        directories.append(inner)
                    elif entry is not None:
                        yield entry
        finally:
            os.close(descriptor)


# What `_entry` returns of a directory that may have files to go home.
_DIRECTORY = _Entry((), 0)


def _entry(
    parts: tuple[str, ...], found: os.DirEntry[str], above: int, collected: Collected
) -> _Entry | None:
    """Return what may go home of one name in a directory; None for nothing, which is noted."""
    try:
        status = found.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if found.name == BYTE_CODE:
        return None
    if parts[0] not in PROJECTS and any(fnmatchcase(found.name, pattern) for pattern in OWN):
        return None
    path = "/".join(map(printable, parts))
    if not found.name.isprintable() and parts[0] not in _WHOLE:
        reason = "its name has characters that cannot be printed"
    elif len(parts) > DEPTH:
        reason = f"more than {DEPTH} directories deep"
    elif len(os.fsencode(path)) > PATH_BYTES:
        reason = f"a path of more than {PATH_BYTES:,} bytes"
    elif len(os.fsencode(printable(found.name))) > NAME_BYTES:
        reason = f"a name of more than {NAME_BYTES} bytes when it is written out"
    elif stat.S_ISDIR(status.st_mode):
        if _leads(parts):
            return _DIRECTORY
        reason = "no directory of a run"
    elif not _allowed(parts):
        reason = "no file of a run"
    elif stat.S_ISREG(status.st_mode):
        return _Entry(parts, status.st_size, status.st_mtime_ns)
    elif stat.S_ISLNK(status.st_mode):
        if found.name == LINK_OF_WANDB:
            return None
        target = os.readlink(found.name, dir_fd=above)
        # The trainer's own links are of this kind, last.pt and best.pt, and those of W&B. Where
        # every link leads downwards, none leads out.
        if _leads_down(target):
            return _Entry(parts, 0, status.st_mtime_ns, target)
        reason = "a link that leads out of its directory"
    else:
        reason = "no plain file"
    collected.refused.add(f"{path[:PATH_SHOWN]}: {reason}")
    return None


def _leads_down(target: str) -> bool:
    """Tell whether a link stays in its directory, or in one below."""
    parts = target.split("/")
    return target.isprintable() and not {"", ".", ".."} & set(parts)


def _allowed(parts: tuple[str, ...]) -> bool:
    """Tell whether a file of this path may go home."""
    if parts[0] in _WHOLE and len(parts) > 1:
        return True
    return any(
        (pattern[-1] == "**" and len(parts) >= len(pattern) and leads_to_match(parts, pattern[:-1]))
        or (len(parts) == len(pattern) and leads_to_match(parts, pattern))
        for pattern in ALLOWED
    )


def _leads(parts: tuple[str, ...]) -> bool:
    """Tell whether what is below a directory of this path may go home."""
    return any(
        (pattern[-1] == "**" and leads_to_match(parts, pattern[:-1]))
        or (len(parts) < len(pattern) and leads_to_match(parts, pattern))
        for pattern in ALLOWED
    )


def leads_to_match(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Tell whether a path matches as many names of a pattern as both have.

    Of a folder that matches all of them, everything in it counts.
    """
    return all(fnmatchcase(part, name) for part, name in zip(parts, pattern))


def _is_of_snapshot(directory: RunDirectory, entry: _Entry) -> bool:
    """Tell whether a file is one of the project, as it was sent: home has it."""
    first, *inner = entry.parts
    if first != WORKDIR or entry.target is not None:
        return False
    return _is_like(entry, os.path.join(directory.project, *inner))


def _was_given(directory: RunDirectory, entry: _Entry) -> bool:
    """Tell whether a node has a file of the first node's as the run began with it: home has it.

    The first node's own go home all the same: of a run that goes on from another one, they are its.
    """
    first, *inner = entry.parts
    if first not in PROJECTS or entry.target is not None or directory.launches():
        return False
    return _is_like(entry, os.path.join(directory.resume, PROJECTS[first], *inner))


def _is_like(entry: _Entry, path: str) -> bool:
    """Tell whether a file of root's has the size and the time of one of the ranks'."""
    try:
        sent = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (sent.st_size, sent.st_mtime_ns) == (entry.size, entry.changed)


def _place(directory: RunDirectory, host: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return where a file goes: the names of its path."""
    if parts[0] == COPIES:
        return (directory.copies, *map(printable, parts[1:]))
    return (directory.collect, *_home(directory, host, parts))


def _home(directory: RunDirectory, host: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    parts = tuple(map(printable, parts))
    if parts[0] not in PROJECTS:
        return parts
    place = (PROJECTS[parts[0]], *parts[1:])
    return place if directory.launches() else ("nodes", host, *place)


def _move(directory: RunDirectory, entry: _Entry, target: str) -> bool:
    """Move one entry to a path; return whether it was still what it had been."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if entry.target is not None:
            _remove(target)
            os.symlink(entry.target, target)
            return True
    except (FileExistsError, NotADirectoryError):
        return False  # two names are one when they are written out
    try:
        source = open_directory(directory.work, *entry.parts[:-1])
    except OSError:
        return False
    try:
        os.rename(entry.parts[-1], target, src_dir_fd=source)
    except OSError:
        return os.path.isfile(target)  # another command that ends the run has moved it meanwhile
    finally:
        os.close(source)
    try:
        descriptor = os.open(target, FILE)
    except OSError:
        _remove(target)
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            _remove(target)
            return False
        os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return True


def _remove(path: str) -> None:
    with suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(path)


def give(directory: str, uid: int, gid: int = -1) -> None:
    """Give a directory that no rank can write, and all that is in it, to a user; not through links.

    Args:
        gid: the group; -1 leaves it as it is.
    """
    # A folder after what is in it: so the user puts no link where this is to come.
    for folder, _, names in os.walk(directory, topdown=False):
        for path in (*(os.path.join(folder, name) for name in names), folder):
            # make stop and the command that follows a run may both end it, and one removes it.
            with suppress(FileNotFoundError):
                os.chown(path, uid, gid, follow_symlinks=False)
