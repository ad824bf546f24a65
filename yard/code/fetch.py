"""Fetches the packages of a lock as wheels that the image can install."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from yard.code.lock import PYTHON
from yard.core.errors import ClusterError, Interrupted, RequestError

# Of what pip said, in the message where it fails.
_SAID_LINES = 12


def fetch_wheels(
    platform: Path,
    lock: Path,
    folder: Path,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> None:
    """Fetch all packages of a lock by pip, each checked by its hash; of a source, make a wheel.

    Args:
        platform: the program that prints pip's arguments for the image's Python and processor.
        folder: where the wheels go; is made.
        say: told what pip does.
        stopped: whether the user wants the end.

    Raises:
        RequestError: a package comes as a source alone that is made for one Python.
        ClusterError: pip failed; its last lines are in the message.
        Interrupted: the user stopped it.
    """
    folder.mkdir()
    arguments = subprocess.run([platform], capture_output=True, text=True, check=True).stdout
    _pip(
        ["download", "--no-deps", "--require-hashes", *arguments.split()],
        ["--dest", str(folder), "--requirement", str(lock)],
        say,
        stopped,
    )
    for source in sorted(path for path in folder.iterdir() if path.suffix != ".whl"):
        say(f"building {source.name}")
        before = set(folder.glob("*.whl"))
        _pip(["wheel", "--no-deps"], ["--wheel-dir", str(folder), str(source)], say, stopped)
        (made,) = set(folder.glob("*.whl")) - before
        if not made.name.endswith("-none-any.whl"):
            raise RequestError(
                [
                    f"{source.name}: there is no wheel of it for Python {PYTHON} of the image, and "
                    f"one that is built here ({made.name}) would not run there; ask for a version "
                    "that has a wheel, or put a wheel into a folder of pip's setting find-links"
                ]
            )
        source.unlink()


def _pip(
    command: list[str],
    arguments: list[str],
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> None:
    options = ["--disable-pip-version-check", "--progress-bar", "off", "--no-input"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pip", *command, *options, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    said: list[str] = []
    with process:
        for line in _lines(process):
            if stopped():
                process.terminate()
                break
            said.append(line)
            say(line)
    if stopped():
        raise Interrupted("interrupted while packages were fetched; nothing was started")
    if process.returncode != 0:
        last = (f"    {line}" for line in said[-_SAID_LINES:])
        raise ClusterError("\n".join(["pip could not fetch the packages", *last]))


def _lines(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if text := line.strip():
            yield text
