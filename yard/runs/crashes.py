"""How a program of the user's own fell: its exception, and the line of the user's code."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from yard.core.files import read_object

# Where a run's snapshot of the user's code lies in the containers, and in the run directory.
PROJECT, CODE = "/run/trainyard/project/", "code"
# torch says who speaks when several processes write into one log, and so does Ray of its workers.
SPEAKER = re.compile(r"\[(?:rank|default)\d+\]:[ ]?|\((?:[^()\n]+ )?pid=\d+(?:, ip=[^)\n]+)?\)[ ]?")
HEADER = "Traceback (most recent call last):"
FRAME = re.compile(r'\s+File "(?P<file>[^"\n]+)", line (?P<line>\d{1,7})')
# In front of the lines of a group of exceptions, each of which has a traceback of its own
MARGIN = re.compile(r"^ +(?:\| ?|\+ Exception Group (?=Traceback)|\+-.*)")
# Of a class in a function too, and of Ray, which names the class that its own one wraps
EXCEPTION = re.compile(r"(?P<error>[^\W\d][\w.<>]*(?:\(\w+\))?)(?:: ?(?P<message>.*))?")
# A chain of exceptions goes on after one of these sentences; its last one ended the program.
CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# What Python says of a file that is not there, and where a rank's folders lie at home
NO_FILE = re.compile(r"FileNotFoundError: .*No such file or directory: '(?P<path>[^'\n]+)'")
HOMES = {
    PROJECT: "workdir",
    "/run/trainyard/outputs/": "outputs",
    "/run/trainyard/checkpoints/": "checkpoints",
}
# What Python says of a module of a package
NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '(?P<package>\w+)(?P<inner>\.[\w.]+)'.*"
)
# What a rank says when another one has gone: that one is to be asked.
PEER_GONE = re.compile(
    r"Connection (?:closed|reset) by peer|remote process exited|HorovodInternalError"
    r"|Broken pipe|Socket closed|connection was terminated by the remote"
    r"|[Ff]ailed to recv, got 0 bytes|Connection was likely closed"
)
# What a program says whose process the kernel killed, for want of memory perhaps
PROCESS_KILLED = re.compile(
    r"MemoryError|[Cc]annot allocate memory|killed by signal|SIGKILL|[Ss]ignal:? (?:9|Killed)"
    r"|died with <Signals|exit(?:code|ed)?[: ]*-9|terminated abruptly|exited unexpectedly"
    r"|BrokenProcessPool|process pool is not usable|[Tt]imed out|[Tt]imeout"
)
# What stands before a traceback that ended no program: of Python, asyncio and logging
ENDS_NOTHING = (
    *("Exception ignored in", "Exception in thread", "Task exception was never", "future: <"),
    *("Exception in callback", "handle: <", "--- Logging error", "Call stack:"),
)
# How torchrun and accelerate fall when a process of theirs has failed.
LAUNCHERS = frozenset({"ChildFailedError", "CalledProcessError", "SignalException"})
# What they print then: the first line, the line that says that no exception was noted, and those
# that say how the process ended. Python in the image notes the exception that ended a process
# (docker/trainer/python/trainyard_abort.py), in a file that the launcher names.
OF_LAUNCHER = re.compile(r"^[EWI]\d{4} .*\belastic/", re.MULTILINE)
NO_EXCEPTION = re.compile(r"^\s+error_file: <N/A>", re.MULTILINE)
# The traceback that torchrun shows of it, with a margin
OF_CHILD = re.compile(r"^  traceback : (Traceback .*(?:\n  .*)*)", re.MULTILINE)
PROCESS_ENDED = re.compile(r"\s+(?:traceback : (?=Signal)|exitcode {2}: (?=\d))(.*)")
# Lines after an exception that are no words of the program: the rest of its message, lines of
# libraries, bars, and what wandb and Hydra say at their end
NO_WORDS = re.compile(
    r"\s|\[?(?:rank\d+\]:\[)?[EWIF]\d{4} |wandb: |.*\d%\||Set the environment variable"
)
# How faulthandler begins the stack of a thread, and a frame of it, the newest first
STACK = "(most recent call first):\n"
CALL = re.compile(r'  File "(?P<file>[^"\n]+)", line (?P<line>\d{1,7}) in (?P<function>.*)')
# What a thread does not begin with that is the main one of its program, and that was not forked
STARTED = "_bootstrap"
# Calls in which a rank waits for others, and none that only import them
WAITS = re.compile(
    r"(?:/torch/(?:nn/parallel/)?distributed\b|/horovod/).* in (?!<module>)"
    r"|in _engine_run_backward$"
)
# What PyTorch says last of a data loader's worker that ended; the exception before it says how.
OF_WORKER = "DataLoader worker (pid(s) "
# The file of an error is small; a rank can write anything in its place.
FILE_BYTES = 1 << 20
MESSAGE_CHARACTERS = 600


@dataclass(frozen=True)
class Crash:
    """What one rank said of the exception that ended it.

    Attributes:
        path: of the file that says so, relative to the run directory.
        error: the class of the exception; "" where only a message is known.
        place: the line of the user's code, like `code/train.py:12: x = 1/0`; None where the
            exception came from nowhere in it.
        within: the name of the last file on the way to it; "" where none is known.
        holder: another node, which has the file that the rank did not find.
        own_module: the module that the rank did not find in a package of the project.
    """

    rank: int
    path: str
    error: str
    message: str
    place: str | None = None
    within: str = ""
    holder: str | None = None
    own_module: str | None = None

    @property
    def of_peer(self) -> bool:
        """Whether the rank fell because another one had gone."""
        return bool(PEER_GONE.search(f"{self.error}: {self.message}"))

    @property
    def of_killed(self) -> bool:
        """Whether the rank may have fallen because a process was killed, or got no memory."""
        said = f"{self.error}: {self.message}"
        return self.error in LAUNCHERS or bool(PROCESS_KILLED.search(said))

    @property
    def sentence(self) -> str:
        """The line of the exception as Python prints it."""
        return ": ".join(filter(None, (self.error, self.message)))


@dataclass(frozen=True)
class Standing:
    """Where a rank stood when it was asked for its stack.

    Attributes:
        place: the line of the user's code, like `code/train.py:12 in main`.
        waits: whether it waited there for other ranks.
        calls: what it had called from there, the newest first, and that line.
    """

    place: str
    waits: bool
    calls: tuple[str, ...]


@dataclass(frozen=True)
class Traceback:
    """The exception that a text tells of, and the files and lines on the way to it."""

    error: str
    message: str
    frames: tuple[tuple[str, int], ...]

    @property
    def within(self) -> str:
        """The name of the last of the files: `subprocess.py` where a program was started."""
        return self.frames[-1][0].rpartition("/")[2] if self.frames else ""


def read_crashes(
    run: Path,
    logs: Iterable[tuple[int, str, str]],
    said: Mapping[int, bool | None],
    alone: bool,
) -> tuple[Crash, ...]:
    """What the ranks of a run left of their exceptions, by rank.

    In a log an exception may stand that the program had got over. So torch's file counts more,
    which a rank's Python writes where the program does not, where it names a line of the user's
    code or that Python says that an exception ended it.

    Args:
        logs: rank, path relative to the run directory, and text.
        said: whether an exception ended a rank, as its Python said, or None.
        alone: whether the log of a rank is of one process.
    """
    found, texts = {}, {}
    for rank, log, text in logs:
        texts[rank] = log, text
        fell = said.get(rank)
        if fell is None:
            fell = not alone and not NO_EXCEPTION.search(text)
        told = parse_traceback(text, not fell)
        if told is not None:
            place = place_of(run, told.frames)
            found[rank] = Crash(rank, log, told.error, told.message, place, told.within)
    for path in sorted((run / "failures").glob("torch-*.json")):
        crash = _of_torch(run, path)
        if crash is None or said.get(crash.rank) is False:
            continue  # @record notes a SystemExit, too
        if alone and crash.error in LAUNCHERS and crash.rank in texts:
            log, text = texts[crash.rank]
            told = parse_traceback(text, alone)
            if told is not None and told.error not in LAUNCHERS:
                # What it had started fell, and nothing was said between the two exceptions.
                place = place_of(run, told.frames)
                found[crash.rank] = Crash(crash.rank, log, told.error, told.message, place)
                continue
        if crash.rank not in found or crash.place is not None or said.get(crash.rank):
            found[crash.rank] = crash
    return tuple(found[rank] for rank in sorted(found))


def holder_of(run: Path, crash: Crash, hosts: Sequence[str], host: str | None) -> str | None:
    """The node of a run that has the file which a rank on another node did not find.

    Each node has a disk of its own, and a program that saves on one finds nothing on the others.

    Args:
        hosts: the nodes, the first one first: its files are not below `nodes/<host>`.
    """
    missing = NO_FILE.search(crash.sentence)
    if missing is None or ".." in missing["path"].split("/"):
        return None
    path = missing["path"].removeprefix("./")
    place, folder = next(
        ((place, folder) for place, folder in HOMES.items() if path.startswith(place)),
        ("", "workdir"),
    )
    inner = path.removeprefix(place)
    if not inner.strip("/") or inner.startswith("/"):
        return None
    for number, other in enumerate(hosts):
        home = run / folder if number == 0 else run / "nodes" / other / folder
        with suppress(OSError, ValueError):  # a rank can name any file; this one is no path
            if other != host and (home / inner).exists():
                return other
    return None


def own_module(run: Path, crash: Crash) -> str | None:
    """The module that a rank did not find and that belongs to a package of the project."""
    missing = NO_MODULE.fullmatch(crash.sentence)
    if missing is None or not (run / CODE / missing["package"] / "__init__.py").is_file():
        return None
    return missing["package"] + missing["inner"]


def parse_traceback(text: str, alone: bool = False) -> Traceback | None:
    """The traceback of a text that ended its program, with those that its exception led to.

    The last one: what came before, the program got over. Of several processes in one log, as
    torchrun has them, it is that of the first to fall. What only followed from another failure, or
    ended nothing, counts where there is nothing else.

    Args:
        alone: one process wrote it: what it says after an exception shows that it got over it.
    """
    spoken: dict[str, list[tuple[int, str]]] = {}
    text = OF_CHILD.sub(lambda match: match[1].replace("\n  ", "\n"), text)
    for number, line in enumerate(text.splitlines()):
        speaker, words = _told(line)
        spoken.setdefault(speaker, []).append((number, words))
    # Others may speak in between; the lines of one are together for it.
    last, own = [], spoken.get("", [])
    for lines in spoken.values():
        found = list(_tracebacks(lines))
        heard = lines if lines is own else lines + own
        if alone:
            follows = [each for each in found if each.told.error in LAUNCHERS]
            found = [each for each in found if each.may_end and each not in follows][-1:]
            if found and _has_words([words for number, words in heard if number > found[0].end]):
                found = []
            found += follows
        last += sorted(found)[-1:]
    weighty = [found for found in last if found.weighty]
    return min(weighty or last, key=lambda found: found.line).told if last else None


def standing_of(text: str) -> Standing | None:
    """Where the program of a rank stood when it last wrote its stack into its log.

    Threads and processes of its own write theirs beside it.
    """
    for stack in reversed(text.split(STACK)[1:]):
        calls: list[re.Match[str]] = []
        for line in stack.splitlines():
            match = CALL.match(line)
            if match is None:
                break
            calls.append(match)
        own = [n for n, call in enumerate(calls) if call["file"].startswith(PROJECT)]
        if own and all(call["function"] != STARTED for call in calls):
            call = calls[own[0]]
            name = f"{CODE}/{call['file'].removeprefix(PROJECT)}"
            place = f"{name}:{call['line']} in {call['function']}"[:MESSAGE_CHARACTERS]
            inner = tuple(call[0].strip() for call in calls[: own[0]])
            return Standing(place, any(map(WAITS.search, inner)), (*inner, call[0].strip()))
    return None


def before_launcher(text: str) -> str:
    """What a program said, up to where its launcher tells of its end."""
    launcher = OF_LAUNCHER.search(text)
    return text[: launcher.start()] if launcher else text


def without_tracebacks(text: str) -> str:
    """A text without its tracebacks: what a program said itself."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        said = _told(line)[1]
        if _begins(said):
            inside = True
        elif inside and said.strip() and not said[0].isspace():
            inside = False  # the exception, the last line of a traceback
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


@dataclass(frozen=True, order=True)
class _Found:
    """A traceback in a log: sorts by weight, then by place."""

    weighty: bool
    line: int
    end: int
    may_end: bool
    told: Traceback = field(compare=False)


def _tracebacks(lines: Sequence[tuple[int, str]]) -> Iterator[_Found]:
    """The tracebacks of what one process said, line by line; of a chain the last one."""
    numbers, said = [number for number, _ in lines], [line for _, line in lines]
    begin, cause, before = _next(said, 0), None, ""
    while begin < len(said):
        if cause is None:
            before = next((line for line in reversed(said[:begin]) if line.strip()), "")
        told, count = _first_block(said[begin:])
        begins, begin = begin, _next(said, begin + max(count, 1))
        after = next((line for line in said[begins + count :] if line.strip()), "")
        if told is None or after in CHAIN:
            cause = told
            continue
        if cause is not None and told.message.startswith(OF_WORKER):
            told = replace(cause, frames=told.frames)
        cause = None
        follows = told.error in LAUNCHERS or PEER_GONE.search(f"{told.error}: {told.message}")
        may_end = not before.startswith(ENDS_NOTHING)
        line, end = numbers[begins], numbers[begins + count - 1]
        yield _Found(may_end and not follows, line, end, may_end, told)


def _has_words(lines: Sequence[str]) -> bool:
    said = without_tracebacks(before_launcher("\n".join(lines))).splitlines()
    return any(any(map(str.isalnum, line)) and not NO_WORDS.match(line) for line in said)


def _next(said: Sequence[str], start: int) -> int:
    return next((n for n in range(start, len(said)) if _begins(said[n])), len(said))


def place_of(run: Path, frames: Sequence[tuple[str, int]]) -> str | None:
    """The last of the frames that is in the user's snapshot, with the line that stands there."""
    code = (run / CODE).resolve()
    for file, number in reversed(frames):
        if not file.startswith(PROJECT):
            continue
        with suppress(OSError, ValueError):  # a rank can name any file; this one is no path
            path = (code / file.removeprefix(PROJECT)).resolve()
            if not path.is_relative_to(code) or not path.is_file():
                continue
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            if 0 < number <= len(lines):
                name = f"{CODE}/{path.relative_to(code)}"
                return f"{name}:{number}: {lines[number - 1].strip()}"[:MESSAGE_CHARACTERS]
    return None


def _begins(line: str) -> bool:
    # Of a wrong syntax Python tells without the header.
    return line.startswith(HEADER) or FRAME.match(line) is not None


def _told(line: str) -> tuple[str, str]:
    """Who of several processes speaks in a line, and what, without the margin of a group."""
    match = SPEAKER.match(line)
    words = line[len(match[0]) :] if match else line
    return match[0].rstrip() if match else "", MARGIN.sub("", words, count=1)


def _first_block(lines: Sequence[str]) -> tuple[Traceback | None, int]:
    """The traceback that a text begins with, and the number of its lines."""
    frames = []
    for number, line in enumerate(lines):
        frame = FRAME.match(line)
        if frame:
            frames.append((frame["file"], int(frame["line"])))
        if not line.strip() or line[0].isspace() or line.startswith(HEADER):
            continue
        match = EXCEPTION.fullmatch(line.rstrip())
        if match is None:
            return None, number
        message = match["message"]
        if message == "" or (message or "").endswith("raised:"):  # the latter by torch.compile
            message = _message_below(lines[number + 1 :])
        told = Traceback(
            match["error"].split(".")[-1], (message or "")[:MESSAGE_CHARACTERS], tuple(frames)
        )
        return told, number + 1
    return None, len(lines)


def _message_below(lines: Sequence[str]) -> str:
    """A message whose first line is empty; of a launcher, how the process ended that failed."""
    block = list(itertools.takewhile(lambda line: not _begins(line), lines))
    ended = [match[1] for line in block if (match := PROCESS_ENDED.match(line))]
    if ended:
        return ended[-1] if ended[-1].startswith("Signal") else f"exit code {ended[-1]}"
    return next((line.strip() for line in block[:2] if line.strip()), "")


def _of_torch(run: Path, path: Path) -> Crash | None:
    """What `torch.distributed.elastic` wrote for a rank."""
    name = re.fullmatch(r"torch-(\d{1,6})\.json", path.name)
    if name is None or not path.is_file() or path.stat().st_size > FILE_BYTES:
        return None
    content = read_object(path).get("message")
    document = content if isinstance(content, dict) else {"message": content}
    message, extra = document.get("message"), document.get("extraInfo")
    if not isinstance(message, str):
        return None
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    told = parse_traceback(stack) if isinstance(stack, str) else None
    shown = str(path.relative_to(run))
    if told is not None:
        place = place_of(run, told.frames)
        return Crash(int(name[1]), shown, told.error, told.message, place, told.within)
    first = next(iter(message.splitlines()), "")[:MESSAGE_CHARACTERS]
    return Crash(int(name[1]), shown, "", first) if first else None
