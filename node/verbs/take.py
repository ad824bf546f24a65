"""The verb `take`: takes a node for a run: its lock, its directory, its keys."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..check.problems import Problem, no_engine, problem
from ..engine.containers import EngineError, containers, is_native, remove
from ..failure import RefusedError, VerbError
from ..forms import LocalPath
from ..machine.account import OWN_UID, ranks_account
from ..runs.allocation import free_gpus, free_port, in_the_way, shortage
from ..runs.code import CodeStore, lay_out_run
from ..runs.collect import Limits, collect
from ..runs.directory import EARLIER, RunDirectory
from ..runs.disk_space import error_of, refusing, room_for
from ..runs.lock import age, gpus_of, guarded, holder_values, is_live, read, same, since_boot, write
from ..runs.records import keep_records, remove_keys, remove_tree

# What the ranks find in their directory.
WORK = ("logs", "ranks", "nodes", "checkpoints")
RESERVE_BYTES = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What a run wants of a node.

    Attributes:
        gpus: how many of its GPUs; 0 for the whole node.
        idle: those that it may take, index and uuid of each.
        count: how many the node gives to all runs together.
        port: the first that its sshd may have.
        ports: how many it may choose from, where it shares the node.
    """

    gpus: int
    idle: Sequence[Mapping[str, Any]]
    count: int
    address: str
    port: int
    ports: int

    @property
    def part(self) -> float:
        """The part of the node's memory and cores that it gets."""
        return self.gpus / self.count if self.gpus else 1.0

    def found(self, live: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[Problem]]:
        """Look for it beside runs that are live.

        Returns:
            What comes into the lock (`gpus` and `port`), and why it is not to be had; empty where
            it is.
        """
        held = taken_by(in_the_way(live, self.gpus))
        # Of runs of other accounts without root this one knows nothing but that a port is taken.
        if held or not (self.gpus or is_native()):
            return {"port": self.port}, held
        ports = range(self.port, self.port + self.ports)
        port = free_port(self.address, ports, live)
        free = free_gpus(self.idle, live)
        problems = shortage(live, self.gpus, len(free), self.count) if self.gpus else []
        if port is None:
            values = {"address": self.address, "first": ports[0], "last": ports[-1]}
            problems.append(problem("ports_taken", **values))
        return {"gpus": free[: self.gpus], "port": port}, problems


def taken_by(locks: Sequence[dict[str, Any]]) -> list[Problem]:
    """The problems that these runs have the node."""
    return [problem("taken", **holder_values(lock)) for lock in locks]


def take_lock(
    root: str, lock: dict[str, Any], wanted: Wanted, patience: int
) -> tuple[dict[str, Any], list[Problem]]:
    """Write the lock; return it, and why the run cannot have what it wants (empty where it can).

    Two launches that each hold a node the other wants would both fail. The younger fails at once
    and gives back what it has, and the older waits for that (the scheme is called wait-die).
    """
    deadline = time.monotonic() + patience
    while True:
        with guarded(root):
            others = [present for present in read(root) if not same(present, lock)]
            live = [present for present in others if is_live(present)]
            # Its directory there is another checkout's.
            namesakes = [present for present in live if present["run"] == lock["run"]]
            found, problems = wanted.found(live)
            problems = taken_by(namesakes) or problems
            if not problems:
                for stale in read(root):
                    if stale not in live:
                        clear_dead_run(root, stale)
                write(root, [*live, {**lock, **found}])
                return {**lock, **found}, []
        yielding = any(
            (lock["run"], lock["home"]) < (present["run"], present["home"])
            and age(present) < patience
            for present in live
        )
        if not yielding or time.monotonic() >= deadline:
            return lock, problems
        time.sleep(0.2)


def clear_dead_run(root: str, stale: dict[str, Any]) -> None:
    """Remove the containers of a run that has ended unwatched; its files stay for its owner."""
    directory = RunDirectory(root, stale["run"])
    for container in containers(f"trainyard.run={stale['run']}"):
        keep_records(container["Id"], directory, stale["host"])
        remove(container["Id"])
    remove_keys(directory)


def cores_of(part: float) -> int:
    """Cores of this node that belong to a part of it, 1 at the least."""
    return max(int(len(os.sched_getaffinity(0)) * part), 1)


def set_aside(directory: RunDirectory, host: str, limits: Limits) -> None:
    """Keep what an attempt of this very run left that nobody could bring home.

    It may be the only checkpoints. It is put below `collect/earlier`, by the time of the attempt
    (UTC) and the node, and comes home with the files of the new one. What exceeds the limits stays
    in `left`, under the same name.
    """
    if not directory.exists():
        return
    began = time.gmtime(os.stat(directory.path).st_ctime)
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', began)}-{host}"
    beyond = collect(directory, host, limits).beyond
    if beyond.count:
        # It was told that they are still there.
        os.makedirs(directory.left, exist_ok=True)
        os.rename(directory.work, os.path.join(directory.left, name))
    earlier = os.path.join(directory.collect, EARLIER)
    os.makedirs(os.path.join(earlier, name), exist_ok=True)
    for left in os.listdir(directory.collect):
        if left != EARLIER:
            os.rename(os.path.join(directory.collect, left), os.path.join(earlier, name, left))
    # Where the first node has died since, they are all that there is of its checkpoints.
    for copied, kept in (("checkpoints", "copies"), ("workdir", "copies-workdir")):
        if os.path.isdir(os.path.join(directory.copies, copied)):
            os.rename(os.path.join(directory.copies, copied), os.path.join(earlier, name, kept))
    for path in (
        *(directory.config, directory.code, directory.work, directory.resume),
        directory.copies,
    ):
        remove_tree(path)


def make_directories(directory: RunDirectory, uid: int, gid: int) -> None:
    """Make the directory of a run: what root keeps, and what the ranks may write."""
    os.makedirs(directory.path, exist_ok=True)
    # Who carries the files to and from the node is an ordinary user there, and passes through.
    os.chmod(directory.path, 0o711)
    for path, mode in (
        (directory.collect, 0o700),
        (directory.config, 0o750),
        (directory.ssh, 0o750),
        (directory.code, 0o750),
    ):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        os.chown(path, OWN_UID, gid)
    # The ranks' own last: what is theirs may change while root looks at it.
    os.makedirs(directory.work, mode=0o700, exist_ok=True)
    for name in WORK:
        path = os.path.join(directory.work, name)
        os.makedirs(path, exist_ok=True)
        os.chown(path, uid, gid, follow_symlinks=False)
    os.chown(directory.work, uid, gid, follow_symlinks=False)
    with open(directory.reserve, "wb") as file:
        file.write(bytes(RESERVE_BYTES))


def keep_run(directory: RunDirectory, record: dict[str, Any]) -> None:
    """Write down what is known of a run; ranks and other users cannot read it."""
    descriptor = os.open(directory.record, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(record, file)


def make_keys(directory: RunDirectory, uid: int, gid: int) -> dict[str, str]:
    """Make the keys of a run on this node; return the public ones by the files' names.

    The private ones can be read by the ranks, whose sshd and ssh take no key that is anybody
    else's as well.
    """
    keys = {}
    for name in ("ssh_host_ed25519_key", "id_ed25519"):
        path = os.path.join(directory.ssh, name)
        if not os.path.exists(path):
            made = subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
            if made.returncode:
                raise error_of(made.stderr)
        os.chmod(path, 0o400)
        os.chown(path, uid, gid)
        with open(path + ".pub", encoding="ascii") as public:
            keys[name] = public.read().strip()
    return keys


class Take(NamedTuple):
    """What a run takes of a machine.

    Attributes:
        home: where its logs go on the control node; two runs of one id differ in it.
        nodes: all machines of the run, the launcher first.
        code: of each part, `trainer` and `project`, path to object; see runs.code_listing.
        address, port: that the sshd of its container listens on.
        manifest: what the control node knows of the run; kept with the lock, for whoever goes on
            with it from another one.
        gigabytes: how much of what an earlier attempt of this run left is kept, in 10^9 bytes.
        gpus_wanted: how many GPUs it takes beside other runs, the lowest numbers first; 0 for the
            whole machine.
        gpus_idle: those that it may take, index and uuid of each, as the verb probe found them.
        gpus: how many the machine gives to all runs together.
        ports: how many from `port` on runs that share the machine may take.
        patience: seconds to wait for a younger run that may have to give its machines back.
    """

    run_id: str
    owner: str
    home: str
    nodes: list[str]
    host: str
    root: LocalPath
    uid: int
    gid: int
    code: dict[str, Any]
    address: str
    port: int
    manifest: Mapping[str, Any] = {}
    gigabytes: float = 100.0
    files: int = 10000
    gpus_wanted: int = 0
    gpus_idle: Sequence[Any] = ()
    gpus: int = 0
    ports: int = 1
    patience: int = 10


def take(run: Take) -> dict[str, Any]:
    """Lock this machine for a run, or some of its GPUs with a port and its cores in proportion.

    Of two launches at the same instant one gets it. A lock whose run is dead is taken over, and
    what that run left is put in order. The run gets its directories, a host key for the sshd in its
    container and a client key for the launcher; private keys never leave the machine.

    Returns:
        `host_key`, `client_key`: the public ones; `missing`: objects of the code that are not here,
        the run has its code when there are none; `gpus`: those that it holds, index and uuid, none
        where it has the whole machine; `port` of its sshd; `part` of the machine's memory and cores
        that is the run's, above 0 to 1; and `cores`, rounded down, 1 at the least.

    Raises:
        RefusedError: somebody else has it, or its disk is full.
        VerbError: the directory cannot be made.
    """
    uid, gid = ranks_account(run.uid, run.gid)
    directory = RunDirectory(run.root, run.run_id)
    lock = {
        **{name: getattr(run, name) for name in ("owner", "home", "nodes", "host")},
        "run": run.run_id,
        "since": time.time(),
        "begun": since_boot(),
    }
    wanted = Wanted(run.gpus_wanted, run.gpus_idle, run.gpus, run.address, run.port, run.ports)
    with refusing(run.host):
        try:
            with room_for("its lock", run.root, lambda: RESERVE_BYTES, lambda: None):
                held, hindrances = take_lock(run.root, lock, wanted, run.patience)
        except EngineError as error:
            hindrances = [no_engine(error)]
        if hindrances:
            found = [hindrance.asdict() for hindrance in hindrances]
            raise RefusedError(f"Nothing was started.\n{run.host}: ", found)
        try:
            with room_for("the run's directory", run.root, lambda: RESERVE_BYTES, lambda: None):
                set_aside(directory, run.host, Limits(int(run.gigabytes * 10**9), run.files))
                make_directories(directory, uid, gid)
                keep_run(directory, {**held, "manifest": run.manifest})
                keys = make_keys(directory, uid, gid)
            missing = CodeStore(run.root).missing(run.code.values())
            if not missing:
                lay_out_run(run.root, directory, run.code, gid)
        except OSError as error:
            raise VerbError("no_run_directory", message=str(error)) from error
    return {
        "host_key": keys["ssh_host_ed25519_key"],
        "client_key": keys["id_ed25519"],
        "missing": missing,
        "gpus": gpus_of(held),
        "port": held["port"],
        "part": wanted.part,
        "cores": cores_of(wanted.part),
    }
