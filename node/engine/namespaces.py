"""Containers without an engine and without root: namespaces that an ordinary account makes itself.

Answers the questions of docker.py in the same words, for machines whose owners run no
Docker engine for their users. An image is a folder with the files of the trainer image; a container
is a process in user, mount, process, IPC and host name namespaces of its own (user_namespaces(7)),
which sees that folder, read-only, as its root. Below the folder of the account:

    images/<reference>/     a trainer image, `:` and `/` of its reference as %3A and %2F
        image.json          what the engine that built it says of it (docker image inspect)
        rootfs/             its files
    containers/<name>/      a container
        specification.json  what was asked for, the body of the Engine API's ContainerCreate
        state               its state as the Engine API has it, a JSON object
        log.0, log.1        its output with times; the newer one is written
        hosts, init         what namespace_init.py is, and what it mounts
"""

from __future__ import annotations

import glob
import inspect as sources
import json
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from ..machine.cdi import SpecificationError, find_specification
from . import NATIVE
from .docker import EngineError
from .namespace_init import LOGS, STATE, began

# In a container the account is the trainer image's, whatever its number is on the node.
USER = 2000
# How long to wait for a container to begin, or to be gone after it was killed, in seconds.
PATIENCE = 15.0
LOOK = 0.02
# Of util-linux 2.37. All but the network, which is the node's.
UNSHARE = (
    *("unshare", "--user", f"--map-user={USER}", f"--map-group={USER}", "--keep-caps"),
    *("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"),
)
KILLED = 128 + signal.SIGKILL
# Where a container has the GPUs' driver: its programs and libraries, which no image brings.
DRIVER = "/run/gpu-driver"


def place() -> str:
    """The folder of the account on this node, absolute; relative to its home it may be given."""
    home = pwd.getpwuid(os.geteuid()).pw_dir
    return os.path.join(home, os.path.expanduser(os.environ[NATIVE]))


def require_namespaces() -> None:
    """See that this account may create namespaces.

    Raises:
        EngineError: it may not, with what the system said.
    """
    try:
        tried = subprocess.run(
            [*UNSHARE, "mount", "-t", "proc", "proc", "/proc"],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise EngineError("there is no unshare: install the package util-linux") from error
    if "unrecognized option" in tried.stderr:
        raise EngineError("unshare is too old: util-linux 2.37 is needed")
    if tried.returncode:
        raise EngineError(
            f"this account may not create user namespaces ({tried.stderr.strip()}); sysctl has "
            "them as user.max_user_namespaces, kernel.unprivileged_userns_clone and "
            "kernel.apparmor_restrict_unprivileged_userns"
        )


def image(reference: str) -> dict[str, Any] | None:
    """Return what there is to know of an image, or None where it is not here."""
    try:
        with open(os.path.join(image_folder(reference), "image.json"), encoding="utf-8") as file:
            details: dict[str, Any] = json.load(file)
            return details
    except (FileNotFoundError, ValueError):
        return None


def image_folder(reference: str) -> str:
    """Where an image is."""
    return os.path.join(place(), "images", quote(reference, safe=""))


def containers(label: str, patience: float = 0.0) -> list[dict[str, Any]]:
    """Return all containers, running or not, that carry a label (`key` or `key=value`).

    Args:
        patience: for an engine; files answer at once.
    """
    key, _, value = label.partition("=")
    listed = []
    for name in _names():
        details = inspect(name)
        labels = details["Config"]["Labels"] if details else {}
        if details and key in labels and value in ("", labels[key]):
            listed.append(
                {
                    "Id": name,
                    "Names": [f"/{name}"],
                    "Image": details["Config"]["Image"],
                    "Labels": labels,
                    "State": details["State"]["Status"],
                }
            )
    return listed


def inspect(container: str) -> dict[str, Any] | None:
    """Return what there is to know of a container, or None where there is none."""
    folder = _folder(container)
    try:
        with open(os.path.join(folder, "specification.json"), encoding="utf-8") as file:
            specification = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    return {
        "Id": container,
        "Name": f"/{container}",
        "Image": (image(specification["Image"]) or {}).get("Id", ""),
        "Config": {key: value for key, value in specification.items() if key != "HostConfig"},
        "HostConfig": specification["HostConfig"],
        "State": _state(folder),
    }


def is_running(container: str) -> bool:
    """Tell whether a container is there and runs."""
    return bool(_state(_folder(container))["Running"])


def logs(container: str) -> bytes | None:
    """Return stdout and stderr of a container as they came, or None where there is none."""
    if not os.path.isdir(_folder(container)):
        return None
    parts = []
    for name in LOGS:
        with suppress(FileNotFoundError), open(os.path.join(_folder(container), name), "rb") as log:
            parts.append(log.read())
    # Every line begins with its time.
    return b"".join(sorted(parts))


def run(name: str, configuration: dict[str, Any]) -> None:
    """Make a container (body of the API's ContainerCreate) and start it.

    Raises:
        EngineError: it cannot be.
    """
    details = image(configuration["Image"])
    if details is None:
        raise EngineError(f"starting {name}: there is no image {configuration['Image']}")
    folder = _folder(name)
    if inspect(name) is not None:
        raise EngineError(f"starting {name}: there is a container of this name")
    configuration = _with_gpus(configuration, details)
    # Half of one that could not be written, the disk being full.
    shutil.rmtree(folder, ignore_errors=True)
    rootfs = os.path.join(image_folder(configuration["Image"]), "rootfs")
    try:
        os.makedirs(folder, mode=0o700)
        for path, content in (
            ("image.json", json.dumps(details["Config"])),
            ("hosts", _hosts(configuration)),
            ("init", sources.getsource(sys.modules[began.__module__])),
            ("specification.json", json.dumps(_absolute(configuration), indent=2)),
        ):
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(content)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EngineError(f"starting {name}: {error}") from error
    processes = int(configuration["HostConfig"].get("PidsLimit") or 0)
    with open(os.path.join(folder, "start.log"), "wb") as said:
        # It outlives this module, and the session of whoever logged in.
        started = subprocess.Popen(
            [*UNSHARE, sys.executable, "-I", os.path.join(folder, "init"), folder, rootfs],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            preexec_fn=lambda: _limit(processes),  # this process has one thread
        )
    deadline, state = time.monotonic() + PATIENCE, os.path.join(folder, STATE)
    while not os.path.exists(state):
        # One that is through at once has left its state.
        over = started.poll() is not None and not os.path.exists(state)
        if over or time.monotonic() > deadline:
            started.kill()
            with open(os.path.join(folder, "start.log"), encoding="utf-8") as file:
                text = file.read().strip().splitlines()
            shutil.rmtree(folder, ignore_errors=True)
            raise EngineError(f"starting {name}: {text[-1] if text else 'nothing was said'}")
        time.sleep(LOOK)


def send(container: str, name: str) -> None:
    """Send a signal to the first process of a container. One that has ended needs none."""
    state = _state(_folder(container))
    if state["Running"]:
        with suppress(ProcessLookupError):
            os.kill(state["Pid"], signal.Signals[name])


def remove(container: str) -> None:
    """Remove a container. One that is gone is removed.

    Raises:
        EngineError: its processes do not end, or its files stay.
    """
    send(container, "SIGKILL")
    deadline = time.monotonic() + PATIENCE
    while is_running(container):
        if time.monotonic() > deadline:
            raise EngineError(f"removing {container}: its processes do not end")
        time.sleep(LOOK)
    while os.path.isdir(_folder(container)):
        try:
            shutil.rmtree(_folder(container))
        except OSError as error:  # NFS keeps a file that somebody has open still
            if time.monotonic() > deadline:
                raise EngineError(f"removing {container}: {error}") from error
            time.sleep(LOOK)


def _names() -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(place(), "containers")))
    except FileNotFoundError:
        return []


def _folder(container: str) -> str:
    return os.path.join(place(), "containers", quote(container, safe=""))


def _state(folder: str) -> dict[str, Any]:
    """The state of a container; one whose first process is gone without a word was killed."""
    try:
        with open(os.path.join(folder, STATE), encoding="utf-8") as file:
            state: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):
        return {"Status": "created", "Running": False, "ExitCode": 0, "OOMKilled": False, "Pid": 0}
    if state["Running"] and began(state["Pid"]) != state["Began"]:
        return {**state, "Status": "exited", "Running": False, "ExitCode": KILLED}
    return state


def _absolute(configuration: dict[str, Any]) -> dict[str, Any]:
    """A container's specification, with what it mounts by whole paths: modules begin at home."""
    host = dict(configuration["HostConfig"])
    host["Binds"] = [os.path.abspath(entry) for entry in host.get("Binds", ())]
    # An account can limit no memory, and what goes home says what holds.
    host["Memory"] = host["MemorySwap"] = 0
    return {**configuration, "HostConfig": host}


def _with_gpus(configuration: dict[str, Any], details: dict[str, Any]) -> dict[str, Any]:
    """A container's specification, with what the machine's CDI specification says of its GPUs.

    Programs and libraries of the driver are in a folder of their own, in memory: in the image,
    which is read-only, there is no place for them, and an engine's hooks would make links and a
    cache of libraries there. So `PATH` and `LD_LIBRARY_PATH` begin with it.
    """
    host = dict(configuration["HostConfig"])
    requests = host.pop("DeviceRequests", ())
    names = [name.partition("=")[2] for request in requests for name in request["DeviceIDs"]]
    if not names:
        return configuration
    try:
        specification = find_specification()
        if specification is None:
            raise EngineError("there is no CDI specification of NVIDIA's GPUs")
        edits = specification.edits(names)
    except SpecificationError as error:
        raise EngineError(str(error)) from error
    binds = list(host.get("Binds", ()))
    for source, target in edits.mounts.items():
        base, dot_so, _ = os.path.basename(target).partition(".so")
        if dot_so:
            # Programs load it by a shorter name: libcuda.so.1.
            links = glob.glob(f"{glob.escape(os.path.dirname(source))}/{glob.escape(base)}.so*")
            binds += [
                f"{source}:{DRIVER}/lib/{os.path.basename(link)}:ro"
                for link in links
                if os.path.realpath(link) == os.path.realpath(source)
            ]
        elif os.path.basename(os.path.dirname(target)) in ("bin", "sbin"):
            binds.append(f"{source}:{DRIVER}/bin/{os.path.basename(target)}:ro")
        else:
            binds.append(f"{source}:{target}:ro")
    files = [
        {"PathOnHost": path, "PathInContainer": place} for path, place in edits.devices.items()
    ]
    host |= {
        "Binds": binds,
        "Devices": [*host.get("Devices", ()), *files],
        "Tmpfs": {**host.get("Tmpfs", {}), DRIVER: "nosuid,nodev,size=1m,mode=755"},
    }
    of_image = dict(entry.partition("=")[::2] for entry in details["Config"].get("Env") or ())
    paths = {"PATH": f"{DRIVER}/bin", "LD_LIBRARY_PATH": f"{DRIVER}/lib"}
    for name, folder in paths.items():
        edits.environment[name] = ":".join(filter(None, (folder, of_image.get(name))))
    given = [f"{name}={value}" for name, value in edits.environment.items()]
    return {**configuration, "Env": [*given, *configuration.get("Env", ())], "HostConfig": host}


def _hosts(configuration: dict[str, Any]) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    for entry in configuration["HostConfig"].get("ExtraHosts", ()):
        host, _, address = entry.partition(":")
        lines.append(f"{address} {host}")
    return "\n".join(lines) + "\n"


def _limit(processes: int) -> None:
    """Limit the processes of this account in the container, as far as the machine allows.

    Files it may open as many as the machine lets it: a login's own limit is mostly small. The
    memory of one that fell is kept where the program asks for it (ulimit -c unlimited).
    """
    _, core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, core))
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes:
        allowed = processes if most == resource.RLIM_INFINITY else min(processes, most)
        resource.setrlimit(resource.RLIMIT_NPROC, (allowed, allowed))
