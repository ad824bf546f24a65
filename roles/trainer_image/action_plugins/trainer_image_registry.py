"""Action: a registry (`docker-registry` of CNCF Distribution 2.8) for the time of one push or pull.

A push has a registry on a port of the control node's loopback take the image from the engine
there. Its data stay, so that the next push sends what is new; what no image uses any more goes. It
returns the `digest` of the manifest, and a `rendezvous`: a directory beside the data for its pulls.

A pull has a registry that takes nothing, on a socket of the control node that its owner alone
reaches. An SSH connection of the task's own leads to it from a port of the node's loopback. The
node fetches by digest, so that nobody on its way can put another image in its place. A node that
forwards no port is left as it is, with the `reason`. With `peers`, the first nodes get the image
from the control node, each through a cache (trainer_image_cache); the others fetch from these over
SSH, and from the control node where that fails (`peer_reason`). `sent_bytes` is what the control
node sent to this node.

Pushes wait for each other and for pulls of the same directory. Nothing that it starts outlives the
task: the registry and the SSH connection end with this process, even where it is killed.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ansible import context
from ansible.plugins.action import ActionBase

# Seconds that the registry may take until it answers, and SSH until the forwarding stands.
START_LIMIT = 30.0
# Seconds that a node waits for the cache of another one, and a cache for nodes that do not come.
CACHE_LIMIT = 60.0
# What ssh says when the node has given it a port.
ALLOCATED = re.compile(r"^Allocated port (\d+) for remote forward", re.MULTILINE)
# The kernel ends the process when the one that started it, $0, is gone. It does so from setpriv on;
# where the starter was gone before, the process ends by itself.
BOUND_TO_STARTER = ("setpriv", "--pdeathsig", "TERM", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')

Result = dict[str, Any]


class RegistryError(Exception):
    """The registry does not start."""


class ForwardingError(Exception):
    """The node cannot reach the registry through Ansible's way to it."""


class Process:
    """A program that runs beside the task, and what it says."""

    def __init__(self, command: list[str | bytes], directory: Path, stdin: str = "") -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # until end()
        with tempfile.TemporaryFile() as given:
            given.write(stdin.encode())
            given.seek(0)
            self._process = subprocess.Popen(
                [*BOUND_TO_STARTER, str(os.getpid()), *command],
                stdin=given,
                stdout=self._log,
                stderr=self._log,
                cwd=directory,
            )

    def said(self) -> str:
        """Return what it has printed so far."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def wait_until(self, ready: Callable[[], bool]) -> bool:
        """Wait until something holds; false where the program ends before, or takes too long."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            if ready():
                return True
            if self._process.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def written_bytes(self) -> int:
        """Bytes that it has written anywhere. Of ssh with a forwarding: what it has sent."""
        counters = Path(f"/proc/{self._process.pid}/io").read_text()
        return int(dict(line.split(": ") for line in counters.splitlines())["wchar"])

    def end(self) -> None:
        """End the program, and wait until it has ended."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def configuration(http: dict[str, Any], read_only: bool) -> str:
    """Return the registry's configuration; JSON is YAML.

    Args:
        http: where it listens, as the registry's documentation has it.
        read_only: refuse every request that would change something.
    """
    return json.dumps(
        {
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {
                "filesystem": {"rootdirectory": "data"},
                "maintenance": {
                    "uploadpurging": {"enabled": False},
                    "readonly": {"enabled": read_only},
                },
            },
            "http": {"secret": secrets.token_hex(), "relativeurls": True, **http},
        }
    )


def answers(family: int, address: str | tuple[str, int]) -> bool:
    """Whether somebody listens there."""
    with socket.socket(family) as probe:
        probe.settimeout(1)
        return probe.connect_ex(address) == 0


def answers_in(directory: Path, name: str) -> bool:
    """Whether somebody listens on a socket in a directory, however long the directory's path is."""
    opened = os.open(directory, os.O_PATH)
    try:
        return answers(socket.AF_UNIX, f"/proc/self/fd/{opened}/{name}")
    finally:
        os.close(opened)


def free_port(preferred: int) -> int:
    """Return a port of the loopback that nobody has: the preferred one, or any.

    Docker looks for a layer that it has already sent under the registry's name with the port. With
    another port it packs layers of middle size once more.
    """
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            number: int = probe.getsockname()[1]
            return number
    raise RegistryError("no port is free on 127.0.0.1")


@contextmanager
def locked(directory: Path, exclusive: bool) -> Iterator[None]:
    """Hold the registry's data: alone to change them, together with others to read them."""
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


@contextmanager
def writable_registry(program: str, directory: Path) -> Iterator[tuple[int, Process]]:
    """Run a registry that takes images; gives its port on the loopback.

    Raises:
        RegistryError: it does not start.
    """
    noted = directory / "port"
    port = free_port(int(noted.read_text()) if noted.exists() else 0)
    noted.write_text(f"{port}\n")
    http = {"addr": f"127.0.0.1:{port}"}
    process = Process([program, "serve", "/dev/stdin"], directory, configuration(http, False))
    try:
        if not process.wait_until(lambda: answers(socket.AF_INET, ("127.0.0.1", port))):
            raise RegistryError(f"the registry does not start: {process.said().strip()[-500:]}")
        yield port, process
    finally:
        process.end()


@contextmanager
def readable_registry(program: str, directory: Path) -> Iterator[str]:
    """Run a registry that changes nothing, on a socket that its owner alone can reach.

    The socket's name is relative to the directory: a path has room for a hundred letters only.

    Raises:
        RegistryError: it does not start.
    """
    name = f"{secrets.token_hex(8)}.sock"
    http = {"net": "unix", "addr": name}
    process = Process([program, "serve", "/dev/stdin"], directory, configuration(http, True))
    try:
        if not process.wait_until(lambda: answers_in(directory, name)):
            raise RegistryError(f"the registry does not start: {process.said().strip()[-500:]}")
        yield name
    finally:
        process.end()
        (directory / name).unlink(missing_ok=True)


def remove_old_sockets(directory: Path) -> None:
    """Remove the sockets of tasks that were killed. Call it while nobody else has the data."""
    for path in directory.glob("*.sock"):
        path.unlink()


def remove_old_meetings(directory: Path) -> None:
    """Remove what tasks of earlier deliveries told each other. Call it like remove_old_sockets."""
    for path in directory.glob("rendezvous-*"):
        shutil.rmtree(path)


def collect_garbage(program: str, directory: Path) -> None:
    """Remove from the registry's data what belongs to no image that has a name.

    Raises:
        RegistryError: it failed.
    """
    done = subprocess.run(
        [program, "garbage-collect", "--delete-untagged", "/dev/stdin"],
        input=configuration({}, False), cwd=directory, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RegistryError(f"old layers cannot be removed: {done.stderr.strip()[-500:]}")
    for uploads in directory.glob("data/docker/registry/v2/repositories/**/_uploads"):
        shutil.rmtree(uploads)


@contextmanager
def forwarding(connection: Any, directory: Path, name: str) -> Iterator[tuple[int, Process]]:
    """Give a port on the node's loopback that leads to a socket in a directory here.

    A connection of its own beside Ansible's: it ends with the task, where Ansible's stays for the
    next one, with all that is forwarded over it.

    Raises:
        ForwardingError: the node or the way to it does not allow it.
    """
    if connection.transport != "ssh":
        raise ForwardingError(f"Ansible reaches the node by {connection.transport}, not by ssh")
    if connection.get_option("password"):
        raise ForwardingError("Ansible logs in on the node with a password, not with a key")
    options = ("LogLevel=INFO", "BatchMode=yes", "ExitOnForwardFailure=yes")
    ssh = connection._build_command(
        connection.get_option("ssh_executable"),
        "ssh",
        *("-N", "-S", "none", "-R", f"127.0.0.1:0:/proc/self/cwd/{name}", connection.host),
    )
    # In front of Ansible's own: of two that contradict each other the first holds.
    first = [part for option in options for part in ("-o", option)]
    process = Process([ssh[0], *first, *ssh[1:]], directory)
    try:
        if not process.wait_until(lambda: ALLOCATED.search(process.said()) is not None):
            lines = process.said().strip().splitlines() or ["ssh does not say why"]
            raise ForwardingError(f"the node's sshd forwards no port: {lines[-1]}")
        allocated = ALLOCATED.search(process.said())
        assert allocated is not None
        yield int(allocated[1]), process
    finally:
        process.end()


def sources(nodes: list[str], copies: int, forks: int) -> dict[str, str]:
    """Return which node each one fetches from; those that are not in it do from the control node.

    The first nodes get the image from the control node, and keep what they fetch for the others.
    They wait for these, each in a process of Ansible's, so that at least one must be left.

    Args:
        nodes: those that lack the image, in the order in which Ansible begins with them.
        copies: how many nodes the control node sends to; 0 is all.
        forks: how many nodes Ansible works on side by side.
    """
    first = min(copies, forks - 1)
    if first < 1 or len(nodes) <= max(first, 2):
        return {}
    return {node: nodes[number % first] for number, node in enumerate(nodes) if number >= first}


class Rendezvous:
    """Where the tasks of one delivery, a process each, tell each other how far they are.

    A node with a cache leaves a file with what there is to know of it. One that fetches from it has
    a file, which is locked until it has done so, even where its process is killed.
    """

    def __init__(self, directory: Path, nodes: list[str]) -> None:
        self._directory = directory
        self._numbers = {node: number for number, node in enumerate(nodes)}
        directory.mkdir(mode=0o700, exist_ok=True)

    def announce(self, node: str, cache: Result) -> None:
        """Say how a node's cache is reached, as `port`, or why it is not, as `reason`."""
        self._publish(f"cache-{self._numbers[node]}", json.dumps(cache))

    def wait_for_cache(self, node: str) -> Result:
        """Return what a node says of its cache."""
        file = self._directory / f"cache-{self._numbers[node]}"
        deadline = time.monotonic() + CACHE_LIMIT
        while not file.exists():
            if time.monotonic() > deadline:
                return {"reason": "it does not say that it has begun"}
            time.sleep(0.1)
        result: Result = json.loads(file.read_text())
        return result

    @contextmanager
    def fetching(self, node: str) -> Iterator[None]:
        """Have a node's cache wait until this one has fetched."""
        name = f"node-{self._numbers[node]}"
        with (self._directory / f"{name}.new").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (self._directory / f"{name}.new").rename(self._directory / name)
            yield

    def wait_for_nodes(self, nodes: list[str]) -> None:
        """Wait until these have fetched, or nothing is heard of them."""
        last_seen = time.monotonic()
        while time.monotonic() < last_seen + CACHE_LIMIT:
            states = [self._fetches(node) for node in nodes]
            if all(state is False for state in states):
                return
            if any(states):
                last_seen = time.monotonic()
            time.sleep(0.1)

    def _fetches(self, node: str) -> bool | None:
        """Whether a node fetches at this moment; None where it has not begun."""
        try:
            with (self._directory / f"node-{self._numbers[node]}").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return True
        return False

    def _publish(self, name: str, text: str) -> None:
        written = self._directory / f"{name}.new"
        written.write_text(text)
        written.rename(self._directory / name)


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Runs trainer_image_push or trainer_image_pull beside a registry."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Push from the engine of the control node, or pull into that of a node."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "operation": {"type": "str", "choices": ["push", "pull"], "required": True},
                "program": {"type": "path", "required": True},
                "directory": {"type": "path", "required": True},
                "reference": {"type": "str", "required": True},
                "digest": {"type": "str"},
                # All that fetch the image at the same time, this one among them
                "nodes": {"type": "list", "elements": "str", "default": []},
                # How many of them get it from the control node and pass it on; who logs in there
                "peers": {"type": "int", "default": 0},
                "peer_user": {"type": "str", "default": ""},
                "rendezvous": {"type": "str"},
            },
            required_if=[("operation", "pull", ["digest", "rendezvous"])],
        )
        directory = Path(options["directory"])
        try:
            if options["operation"] == "push":
                return self._push(options, directory, task_vars)
            return self._pull(options, directory, task_vars or {})
        except RegistryError as error:
            return {"failed": True, "msg": f"{directory}: {error}"}

    def _push(self, options: Result, directory: Path, variables: Result | None) -> Result:
        program, reference = options["program"], options["reference"]
        with locked(directory, exclusive=True):
            remove_old_sockets(directory)
            remove_old_meetings(directory)
            with writable_registry(program, directory) as (port, process):
                result: Result = self._execute_module(
                    module_name="trainer_image_push",
                    module_args={"reference": reference, "registry": f"127.0.0.1:{port}"},
                    task_vars=variables,
                )
                if result.get("failed"):
                    log = process.said().strip().splitlines()
                    result["msg"] = "\n".join([result["msg"], *log[-1:]])
                    return result
            collect_garbage(program, directory)
        result["rendezvous"] = f"rendezvous-{secrets.token_hex(8)}"
        return result

    def _pull(self, options: Result, directory: Path, variables: Result) -> Result:
        node, nodes = variables["inventory_hostname"], options["nodes"]
        copies = options["peers"] if options["peer_user"] else 0
        peers = sources(nodes, copies, context.CLIARGS["forks"])
        with locked(directory, exclusive=False):
            if not peers:
                return self._pull_directly(options, directory, variables)
            rendezvous = Rendezvous(directory / options["rendezvous"], nodes)
            if node not in peers:
                waiting = [other for other, source in peers.items() if source == node]
                return self._pull_for_others(options, directory, variables, rendezvous, waiting)
            with rendezvous.fetching(node):
                result = self._pull_from_peer(options, variables, rendezvous, peers[node])
            if result.get("delivered"):
                return result
            reason = result.get("reason") or result.get("msg", "the module says nothing")
            result = self._pull_directly(options, directory, variables)
            result["peer_reason"] = f"{peers[node]}: {reason}"
            return result

    def _pull_directly(self, options: Result, directory: Path, variables: Result) -> Result:
        """Fetch from the control node."""
        try:
            with (
                readable_registry(options["program"], directory) as name,
                forwarding(self._connection, directory, name) as (port, process),
            ):
                result = self._fetch(options, variables, {"port": port})
                result["sent_bytes"] = process.written_bytes()
                return result
        except ForwardingError as error:
            return {"changed": False, "delivered": False, "reason": str(error)}

    def _pull_for_others(
        self,
        options: Result,
        directory: Path,
        variables: Result,
        rendezvous: Rendezvous,
        waiting: list[str],
    ) -> Result:
        """Fetch from the control node through a cache, until others have fetched from it."""
        node = variables["inventory_hostname"]
        try:
            with (
                readable_registry(options["program"], directory) as name,
                forwarding(self._connection, directory, name) as (port, process),
            ):
                with self._cache(variables, port) as cache:
                    rendezvous.announce(node, cache)
                    result = self._fetch(options, variables, {"port": cache.get("port", port)})
                    if "port" in cache:
                        rendezvous.wait_for_nodes(waiting)
                if result.get("failed") and "port" in cache:
                    result = self._fetch(options, variables, {"port": port})
                result["sent_bytes"] = process.written_bytes()
                return result
        except ForwardingError as error:
            rendezvous.announce(node, {"reason": str(error)})
            return {"changed": False, "delivered": False, "reason": str(error)}

    def _pull_from_peer(
        self, options: Result, variables: Result, rendezvous: Rendezvous, peer: str
    ) -> Result:
        cache = rendezvous.wait_for_cache(peer)
        if "port" not in cache:
            return cache
        way = {"port": cache["port"], "peer": peer, "user": options["peer_user"]}
        result = self._fetch(options, variables, way)
        return {**result, "peer": peer, "sent_bytes": 0}

    @contextmanager
    def _cache(self, variables: Result, upstream: int) -> Iterator[Result]:
        """Run a cache on the node; gives its `port`, or as `reason` why there is none."""
        arguments = {"upstream": upstream}
        name = "trainer_image_cache"
        result: Result = self._execute_module(
            module_name=name, module_args=arguments, task_vars=variables
        )
        if result.get("failed"):
            yield {"reason": result.get("msg", "the module says nothing")}
            return
        try:
            yield {"port": result["port"]}
        finally:
            self._execute_module(
                module_name=name, module_args={**arguments, "state": "absent"}, task_vars=variables
            )

    def _fetch(self, options: Result, variables: Result, way: Result) -> Result:
        """Have the node's engine fetch the image."""
        result: Result = self._execute_module(
            module_name="trainer_image_pull",
            module_args={"reference": options["reference"], "digest": options["digest"], **way},
            task_vars=variables,
        )
        return result
