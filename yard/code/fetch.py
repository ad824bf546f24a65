"""Fetches the packages of a lock: as wheels that the image can install, or as sources.

What is pure Python is built here. The rest needs the image's Python and a compiler, and is built
with the image (docker/trainer/Dockerfile.packages), which has no network then: so what builds it
is fetched too.
"""

import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from yard.code.lock import NO_ENVIRONMENT, lock
from yard.code.requirements import PYPROJECT, Requirements
from yard.core.errors import ClusterError, Interrupted

# Beside the folder of wheels: sources, and wheels of what builds them.
SOURCES, REQUIRES = "sources", "requires"
# Beside the lock while pip fetches: where packages come from
OPTIONS = "options.txt"
# What builds a source that does not say (PEP 517).
_USUAL = ("setuptools", "wheel")
# Of what pip said, in the message where it fails.
_SAID_LINES = 12


def fetch_wheels(
    platform: Path,
    locked: Path,
    folder: Path,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
    environment: Mapping[str, str] = NO_ENVIRONMENT,
    options: str = "",
) -> None:
    """Fetch all packages of a lock by pip, each checked by its hash; of pure sources, make wheels.

    Args:
        platform: the program that prints pip's arguments for the image's Python and processor.
        folder: where the wheels go; is made. Sources that need the image's Python, and wheels of
            what builds them, go to `SOURCES` and `REQUIRES` beside it.
        environment: variables of pip beside this process's own, such as the proxy's.
        options: lines of the project's own, for pip, that say where packages come from.

    Raises:
        RequestError: what builds a source does not fit the image's Python.
        ClusterError: pip failed; its last lines are in the message.
        Interrupted: the user stopped it.
    """
    folder.mkdir()
    arguments = subprocess.run([platform], capture_output=True, text=True, check=True).stdout
    download = ["download", "--no-deps", "--require-hashes", *arguments.split()]
    wanted = ["--dest", str(folder), "--requirement", str(locked)]
    # In a file: an address may hold a password, and arguments are for all to see.
    places = locked.with_name(OPTIONS)
    if options:
        places.write_text(options, encoding="utf-8")
        wanted += ["--requirement", str(places)]
    _pip(download, wanted, say, stopped, environment)
    places.unlink(missing_ok=True)
    for source in sorted(path for path in folder.iterdir() if path.suffix != ".whl"):
        say(f"building {source.name}")
        if _build_pure(source, folder, say, stopped, environment):
            source.unlink()
            continue
        say(f"{source.name} is built with the image")
        kept = folder.parent / SOURCES
        kept.mkdir(exist_ok=True)
        source = source.rename(kept / source.name)
        if needed := _requires(source):
            listed = kept.parent / f"{REQUIRES}.txt"
            about = f"what builds {source.name}"
            asked = Requirements(about, kept, needed, {})
            listed.write_text(lock(asked, {}, environment), encoding="utf-8")
            requires = ["--dest", str(folder.parent / REQUIRES), "--requirement", str(listed)]
            _pip([*download, "--only-binary", ":all:"], requires, say, stopped, environment)
            listed.unlink()


def _build_pure(
    source: Path,
    folder: Path,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
    environment: Mapping[str, str],
) -> bool:
    """Make a wheel of a source; False where it is for one Python, or cannot be made here."""
    before = set(folder.glob("*.whl"))
    try:
        wheel = ["--wheel-dir", str(folder), str(source)]
        _pip(["wheel", "--no-deps"], wheel, say, stopped, environment)
    except ClusterError:
        return False  # it may want a compiler, or a newer Python
    (made,) = set(folder.glob("*.whl")) - before
    if made.name.endswith("-none-any.whl"):
        return True
    made.unlink()
    return False


def _requires(source: Path) -> tuple[str, ...]:
    if not tarfile.is_tarfile(source):
        return _USUAL
    with tarfile.open(source) as archive:
        for entry in archive:
            names = entry.name.split("/")
            file = archive.extractfile(entry) if names[1:] == [PYPROJECT] else None
            if file is not None:
                try:
                    document = tomllib.loads(file.read().decode())
                except ValueError:
                    return _USUAL  # pip says what is wrong with it
                return tuple(document.get("build-system", {}).get("requires", _USUAL))
    return _USUAL


def _pip(
    command: list[str],
    arguments: list[str],
    say: Callable[[str], None],
    stopped: Callable[[], bool],
    environment: Mapping[str, str],
) -> None:
    options = ["--disable-pip-version-check", "--progress-bar", "off", "--no-input"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pip", *command, *options, *arguments],
        env={**os.environ, **environment},
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
