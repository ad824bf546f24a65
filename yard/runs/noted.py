"""What the launcher notes of a program of the user's own, for people to read; see trainer/launch/.

Its ranks can write anything there: what is of another form is left out.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.files import decoded_lines, read_list
from yard.core.words import duration, plural, printable, size
from yard.plays.answers import count, having, number, text

SILENCES = "silences.jsonl"
# The launcher's own are few; what else stands there a rank has written.
MOST_SILENCES, SILENCES_BYTES = 16, 16 * 1024
# Of one node
MOST_FILES, MOST_PROCESSES = 8, 3
PATH_CHARACTERS, COMMAND_CHARACTERS = 200, 100


def _seconds(value: Any) -> bool:
    """A number of seconds, of three centuries at the most."""
    return number(value) and 0 <= value < 10**10


def _place(value: Any) -> bool:
    """A path in a container."""
    return (
        text(value)
        and value.startswith("/")
        and ".." not in value.split("/")
        and value.isprintable()
        and len(value) <= PATH_CHARACTERS
    )


def _some(value: Any) -> bool:
    return count(value) and value > 0


IS_SILENCE = having(time=_seconds, seconds=_seconds)
IS_PROCESS = having(command=text, rank=count, pid=count)
IS_PLACE = having(path=_place, files=_some, bytes=_some)


@dataclass(frozen=True)
class Silence:
    """When no rank gave a sign of life for long; the run may have gone on afterwards.

    Attributes:
        time: when it was noticed, Unix seconds of the first node's clock.
        seconds: how long it had lasted by then.
    """

    time: float
    seconds: float

    @property
    def text(self) -> str:
        """What people read of it."""
        return (
            f"for {duration(self.seconds)} no rank wrote a line or a number, or used a processor. "
            "If the program hangs, the stacks of its Python processes in logs/rank-*.log show "
            "where; logs/mpirun.log has what each rank did. STALL= ends such a run."
        )


def known_silences(lines: Iterable[Any]) -> tuple[Silence, ...]:
    """The newest silences among decoded lines, in order."""
    silences = [
        Silence(float(line["time"]), float(line["seconds"])) for line in lines if IS_SILENCE(line)
    ]
    return tuple(silences[-MOST_SILENCES:])


def read_silences(run: Path) -> tuple[Silence, ...]:
    """The silences of a run's newest attempt; none without the file."""
    try:
        with (run / SILENCES).open("rb") as file:
            written = file.read(SILENCES_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ()
    return known_silences(decoded_lines(written))


def files_left_in_containers(run: Path, hosts: Collection[str]) -> tuple[str, ...]:
    """Sentences on what was written to places that end with a container, one for each place.

    Of what all nodes have in one place, that of the first which has it.
    """
    told: dict[str, str] = {}
    for host in hosts:
        for entry in read_list(run / "failures" / f"container-{host}.json")[:MOST_FILES]:
            if not IS_PLACE(entry) or entry["path"] in told:
                continue
            path = entry["path"]
            # Those of the first node are not below its name.
            places = [f"{above}outputs/left-in-container{path}" for above in (f"nodes/{host}/", "")]
            home = next((place for place in places if (run / place).exists()), None)
            here = f"the copy is {home}" if home else "nothing of it was collected"
            told[path] = (
                f"the program wrote {plural(entry['files'], 'file')} of {size(entry['bytes'])} to "
                f"{path} on {host}, which ends with the container; {here}. Have it write to "
                "$TRAINYARD_OUTPUT_DIR, which is collected"
            )
    return tuple(told.values())


def left_processes(run: Path, hosts: Collection[str]) -> tuple[str, ...]:
    """A sentence on what still ran when the program had ended well, of the first such node."""
    for host in hosts:
        noted = [*filter(IS_PROCESS, read_list(run / "failures" / f"left-{host}.json"))]
        if noted:
            named = ", ".join(
                f"{printable(each['command'])[:COMMAND_CHARACTERS]} (pid {each['pid']})"
                for each in noted[:MOST_PROCESSES]
            )
            return (
                f"processes were still running on {host} when rank {noted[0]['rank']} had ended, "
                f"and were ended with the run: {named}. A run lasts as long as its program: have "
                "it wait for what it starts (Popen.wait(), os.waitpid; `wait` in a script), and "
                "start no training in the background",
            )
    return ()
