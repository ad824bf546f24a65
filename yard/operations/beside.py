"""Another command of `yard`, started beside this one: it goes on when this one ends."""

import os
import subprocess
import sys
import time
from pathlib import Path

from yard.core.context import Context
from yard.core.errors import Exit
from yard.core.room import full_disk_told
from yard.plays.play import fresh_log, log_of
from yard.runs.folder import way_on

# In the environment of a command with DETACH=1: it is the one in the background.
DETACHED = "TRAINYARD_DETACHED"
# Seconds between two looks at what that one has printed.
LOOK = 0.2
# How lines of it begin that name its run, and that say that it has its nodes or waits for them.
RUN, BEGUN = "Run ", ("nodes: ", "Waiting for nodes")


def start_beside(
    context: Context, log: str, *words: str, **variables: str
) -> "subprocess.Popen[bytes]":
    """Start a command that has no terminal; its log is made anew and has what it prints.

    Args:
        variables: of its environment, beside this command's.
    """
    path = fresh_log(context, log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "yard", "--inventory", str(context.inventory), *words],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def detach(context: Context, *words: str) -> Exit:
    """Do what a command says in the background; show what it says until its run has its nodes.

    Ctrl-C before that ends it, as it would in front.
    """
    log = f"detached-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    process = start_beside(context, log, *words, **{DETACHED: "1"})
    path = log_of(context, log)
    told, run, rest = False, "", ""
    with path.open(encoding="utf-8", errors="replace") as said:
        while True:
            status = process.poll()
            # The last line may not be whole yet.
            *lines, rest = (rest + said.read()).split("\n")
            for line in lines:
                context.console.print(line, markup=False)
                if line.startswith(RUN):
                    run = line.removeprefix(RUN).strip()
                if run and not told and line.strip().startswith(BEGUN):
                    say_how_to_return(context, run, path)
                    return Exit.DONE
            if status is not None:
                # A signal has ended it where that is none: of Ctrl-C before it heeded any.
                ended = Exit.INTERRUPTED if told else Exit.FAILED
                return Exit(status) if status in set(Exit) else ended
            if context.interrupts.requested and not told:
                told = True
                process.terminate()
            time.sleep(LOOK)


def leave(context: Context, run: Path) -> None:
    """Have another command follow a run, which this one has done so far.

    Raises:
        NoRoomError: the disk is full, and nothing follows the run now; the message says what does.
    """
    log = f"attach-{run.name}"
    with full_disk_told([context.project.root], lambda: way_on(run)):
        start_beside(context, log, "attach", run.name)
    say_how_to_return(context, run.name, log_of(context, log))


def say_how_to_return(context: Context, run: str, log: Path) -> None:
    """Name the commands that one needs of a run that goes on in the background."""
    for line in (
        f"It goes on in the background; {context.project.shown(log)} has what it says.",
        f"  make logs RUN={run} FOLLOW=1",
        f"  make stop RUN={run}",
    ):
        context.console.print(line, markup=False)
