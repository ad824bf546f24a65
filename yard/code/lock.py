"""Settles which versions a project gets of what it requires, so that they fit the image."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from yard.code.requirements import PYTHON, Requirements
from yard.core.errors import ClusterError, RequestError

# The image's platform as uv calls it: Debian trixie has glibc 2.41.
PLATFORM = f"{os.uname().machine}-manylinux_2_40"

# Of a process that has this one's
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})

# What marks a version that only the image has.
_MARK = "+image"

# pip's settings that say where packages come from and of which kind, and how uv is told of them.
_PLACES = {
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
    "only-binary": "--only-binary",
    "no-binary": "--no-binary",
}
_SWITCHES = {"no-index": "--no-index", "pre": "--prerelease=allow"}
# Of what uv says: frames of a traceback, and advice for those who give its commands themselves
_FRAMES = re.compile(
    r"^ *(?:Traceback .*"
    r"|File \".*(?:\n(?! *(?:File \"|[\w.]+(?:Error|Exception)\b)).*)?|[\^~ ]+)\n",
    re.MULTILINE,
)
_OF_UV = re.compile(r" If `[^`]*` is a first-party package[\s\S]*?--no-build-isolation`\.?")
# The address of an index may hold a password: arguments are for all to see, the environment is not.
_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}


def read_held(path: Path) -> dict[str, str]:
    """The versions that an image holds, by package: lines of `name==version`.

    One that says of itself where it was built keeps that (`2.6.0+debian`). The others get a mark
    (`2.2.4+image`): none that is offered anywhere can be taken for them.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    versions = dict(line.split("==") for line in lines if "==" in line)
    return {
        name: version if "+" in version else f"{version}{_MARK}"
        for name, version in versions.items()
    }


def request_key(requirements: Requirements, held: Mapping[str, str]) -> str:
    """A hash of what is asked for, and of what it has to fit."""
    asked = [PYTHON, PLATFORM, dict(held), requirements.path, requirements.texts]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def lock(
    requirements: Requirements,
    held: Mapping[str, str],
    environment: Mapping[str, str] = NO_ENVIRONMENT,
) -> str:
    """Ask uv for the versions, by pip's settings: `name==version` with the hashes of its files.

    The packages that the image holds are left out. Empty where nothing else is required.

    Args:
        environment: variables of pip and of uv beside this process's own, such as the proxy's.

    Raises:
        RequestError: they do not fit each other or the image; both sides are named.
        ClusterError: what the packages need cannot be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="trainyard-lock.") as scratch:
        folder = Path(scratch)
        constraints = folder / "image.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in held.items()))
        for name, version in held.items():
            write_stub(folder, name, version)
        arguments, variables = pip_settings(_pip_config(environment))
        asked = folder / "asked"
        asked.mkdir()
        requirements.write(asked)
        source = "pyproject.txt" if requirements.packages else requirements.path
        if requirements.packages:
            (asked / source).write_text("\n".join(requirements.packages) + "\n")
        command = [str(Path(sys.executable).with_name("uv")), "pip", "compile", source]
        command += ["--no-config", "--no-python-downloads", "--color", "never", "--quiet"]
        command += ["--python-version", PYTHON, "--python-platform", PLATFORM]
        command += ["--constraint", str(constraints), "--find-links", str(folder), *arguments]
        command += ["--generate-hashes", "--no-header", "--no-annotate"]
        for name in held:
            command += ["--no-emit-package", name]
        known = {**os.environ, **environment, **variables}
        known.pop("COLUMNS", None)  # it would break the lines of what it says
        answer = subprocess.run(
            command,
            cwd=asked,
            env=known,
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode != 0:
        raise _refusal(requirements, held, answer.stderr)
    return answer.stdout


def write_stub(folder: Path, name: str, version: str) -> None:
    """Write a wheel that says its name and version and holds nothing.

    It stands for a package that the image has, so that nobody fetches that, or takes another.
    """
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        tags = "Wheel-Version: 1.0\nGenerator: trainyard\nRoot-Is-Purelib: true\n"
        wheel.writestr(f"{about}/WHEEL", f"{tags}Tag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def pip_settings(config: str) -> tuple[list[str], dict[str, str]]:
    """pip's settings as arguments and environment of uv.

    Args:
        config: what `pip config list` prints: `section.name='value'`, a line each.
    """
    arguments: list[str] = []
    variables: dict[str, str] = {}
    for name, value in _settings(config):
        if name in _PLACES:
            for place in value.split():
                is_folder = name == "find-links" and "://" not in place
                # As pip takes it, where this process stands
                arguments += [_PLACES[name], os.path.abspath(place) if is_folder else place]
        elif name in _SWITCHES and value.lower() in ("1", "true", "yes", "on"):
            arguments.append(_SWITCHES[name])
        elif name in _VARIABLES:
            variables[_VARIABLES[name]] = " ".join(value.split())
    # pip takes the newest of all places; uv would take the first place that has the package.
    return [*arguments, "--index-strategy", "unsafe-best-match"], variables


def _settings(config: str) -> Iterator[tuple[str, str]]:
    """Yield name and value; of two with one name, that of the environment, as pip does."""
    found: dict[str, str] = {}
    lines = config.splitlines()
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):
        match = re.fullmatch(r"(?:global|download|:env:)\.([a-z-]+)=(.*)", line)
        if match:
            found[match[1]] = str(ast.literal_eval(match[2]))
    yield from found.items()


def _pip_config(environment: Mapping[str, str]) -> str:
    command = [sys.executable, "-m", "pip", "config", "list"]
    variables = {**os.environ, **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout


def _refusal(
    requirements: Requirements, held: Mapping[str, str], said: str
) -> RequestError | ClusterError:
    """What uv said, as an error of the request or of the way to the packages."""
    lines = _sentences(said)
    if any(re.search("[Ff]ailed to (?:fetch|download)|[Rr]equest failed", line) for line in lines):
        return ClusterError(
            "\n".join(
                [
                    f"{requirements.path}: its packages cannot be fetched",
                    *(f"    {line}" for line in lines),
                    "    the index is that of pip: pip config list shows it",
                ]
            )
        )
    if any(re.search(r"Couldn't parse|Unexpected '|Expected ", line) for line in lines):
        return _told(f"{requirements.path}: cannot be read", lines)
    if any(line.startswith("Failed to build") for line in lines):
        return _told(
            f"{requirements.path}: a package has to be built to learn what it requires, and its "
            "build fails on this machine",
            lines,
            "take a version that has a wheel for Python 3.13; or build one where its tools are "
            "(CUDA's nvcc, a compiler, torch), put it into a folder, and name that by a line "
            "--find-links",
        )
    has = ", ".join(f"{name} {version.removesuffix(_MARK)}" for name, version in held.items())
    return _told(
        f"{requirements.path}: its packages do not fit together, or do not fit the image",
        lines,
        f"the image has {has}, which cannot be changed; require what works with these, or name "
        "another file with REQUIREMENTS=",
    )


def _told(what: str, *lines: "str | Sequence[str]") -> RequestError:
    said = (each for line in lines for each in ([line] if isinstance(line, str) else line))
    return RequestError("\n".join([what, *(f"    {line}" for line in said)]))


def _sentences(said: str) -> Sequence[str]:
    """What uv said, without its marks and warnings, frames, and advice for those who use it."""
    said = _FRAMES.sub("", _OF_UV.sub("", said))
    lines = [
        re.sub(r"^(?:error|cause|hint):", "", line.strip()).strip()
        for line in said.splitlines()
        if not line.strip().startswith("warning:")
    ]
    return [line for line in lines if line]
