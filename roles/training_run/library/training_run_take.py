#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: takes a node for a run: its lock, its directory, its keys."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_take
short_description: Takes a node for a run
description:
  - Locks the node for a run, or some of its GPUs with a port, and its cores in proportion. Of two
    launches at the same instant one gets it; a lock whose run is dead is taken over, and what that
    run left is put in order.
  - Makes the directories of the run, a host key for the sshd in this node's container and a client
    key for the launcher. Private keys never leave the node; the public ones are returned.
author: Trainyard
options:
  run_id:
    description: The run.
    type: str
    required: true
  owner:
    description: Who runs it, for people.
    type: str
    required: true
  home:
    description: Where its logs go on the control node; two runs of one id differ in it.
    type: str
    required: true
  nodes:
    description: All nodes of the run, the launcher first.
    type: list
    elements: str
    required: true
  host:
    description: Name of this node.
    type: str
    required: true
  root:
    description: Directory of all runs.
    type: path
    required: true
  uid:
    description: User id that owns the run's directory.
    type: int
    required: true
  gid:
    description: Group id that owns it.
    type: int
    required: true
  manifest:
    description: >-
      What the control node knows of the run; kept with the lock, for whoever goes on with the run
      from another one.
    type: dict
    default: {}
  code:
    description:
      - The code of the run. In a task, its folders on the control node, C(trainer) and
        C(project), of which the files that the node lacks are sent.
      - For the module itself, path to object; see module_utils/training_run_listing.py.
    type: dict
    required: true
  gigabytes:
    description: How much of what an earlier attempt of this run left here is kept, in 10^9 bytes.
    type: float
    default: 100
  files:
    description: How many files of it are.
    type: int
    default: 10000
  gpus_wanted:
    description: >-
      How many GPUs the run takes, beside other runs, the lowest numbers first; V(0) takes the whole
      node.
    type: int
    default: 0
  gpus_idle:
    description: Those that it may take, index and uuid of each, as training_node_probe found them.
    type: list
    elements: dict
    default: []
  gpus:
    description: How many GPUs the node gives to all runs together.
    type: int
    default: 0
  address:
    description: Address that the sshd of its container listens on.
    type: str
    required: true
  port:
    description: Port of that sshd.
    type: int
    required: true
  ports:
    description: How many ports from O(port) on runs that share the node may take.
    type: int
    default: 1
  patience:
    description: Seconds to wait for a younger run that may have to give its nodes back.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Take the node
  training_run_take:
    run_id: 20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    owner: ada@control
    home: /home/ada/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    nodes: [node1, node2]
    host: node1
    root: /srv/trainyard/runs
    uid: 2000
    gid: 2000
    address: 10.0.0.11
    port: 2222
    code:
      trainer: /home/ada/trainyard/trainer
"""

RETURN = r"""
host_key:
  description: Public key of the sshd in this node's container.
  returned: always
  type: str
client_key:
  description: Public key that this node's container logs in with.
  returned: always
  type: str
missing:
  description: Objects of the code that the node lacks. The run has its code when there are none.
  returned: where the node was taken
  type: list
  elements: str
gpus:
  description: The GPUs that it holds, index and uuid of each; none where it has the whole node.
  returned: where the node was taken
  type: list
  elements: dict
port:
  description: The port of its sshd.
  returned: where the node was taken
  type: int
part:
  description: The part of the node's memory and cores that is the run's, above 0 to 1.
  returned: where the node was taken
  type: float
cores:
  description: The cores that are, rounded down, and 1 at the least.
  returned: where the node was taken
  type: int
problems:
  description: Why the node could not be taken, with host, code, values and text.
  returned: where it could not be taken
  type: list
  elements: dict
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import (
    EngineError,
    containers,
    is_native,
    remove,
)
from ansible.module_utils.training_node.runs.lock import (
    age,
    gpus_of,
    guarded,
    holder_values,
    is_live,
    read,
    same,
    since_boot,
    write,
)
from ansible.module_utils.training_node_account import KEEPER, with_account
from ansible.module_utils.training_node_directory import RunDirectory
from ansible.module_utils.training_node_facts import oom_kills
from ansible.module_utils.training_node_parts import (
    free_gpus,
    free_port,
    in_the_way,
    shortage,
)
from ansible.module_utils.training_node_problems import Problem, no_engine, problem
from ansible.module_utils.training_run_code import CodeStore, lay_out_run
from ansible.module_utils.training_run_collect import Limits, collect
from ansible.module_utils.training_run_records import keep_records, remove_keys, remove_tree
from ansible.module_utils.training_run_room import NoRoomError, error_of, room_for

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
        address: that its sshd listens on.
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


def take(
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
    (UTC) and the node, and comes home with the files of the new one.
    """
    if not directory.exists():
        return
    began = time.gmtime(os.stat(directory.path).st_ctime)
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', began)}-{host}"
    collect(directory, host, limits)
    earlier = os.path.join(directory.collect, "earlier")
    os.makedirs(os.path.join(earlier, name), exist_ok=True)
    for left in os.listdir(directory.collect):
        if left != "earlier":
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
        os.chown(path, KEEPER, gid)
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


def make_keys(module: AnsibleModule, directory: RunDirectory, uid: int, gid: int) -> dict[str, str]:
    """Make the keys of a run on this node; return the public ones by the files' names.

    The private ones can be read by the ranks, whose sshd and ssh take no key that is anybody
    else's as well.
    """
    keys = {}
    for name in ("ssh_host_ed25519_key", "id_ed25519"):
        path = os.path.join(directory.ssh, name)
        if not os.path.exists(path):
            status, _, words = module.run_command(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]
            )
            if status:
                raise error_of(words)
        os.chmod(path, 0o400)
        os.chown(path, uid, gid)
        with open(path + ".pub", encoding="ascii") as public:
            keys[name] = public.read().strip()
    return keys


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "owner": {"type": "str", "required": True},
            "home": {"type": "str", "required": True},
            "nodes": {"type": "list", "elements": "str", "required": True},
            "host": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
            "manifest": {"type": "dict", "default": {}},
            "code": {"type": "dict", "required": True},
            "gigabytes": {"type": "float", "default": 100.0},
            "files": {"type": "int", "default": 10000},
            "gpus_wanted": {"type": "int", "default": 0},
            "gpus_idle": {"type": "list", "elements": "dict", "default": []},
            "gpus": {"type": "int", "default": 0},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "ports": {"type": "int", "default": 1},
            "patience": {"type": "int", "default": 10},
        },
    )
    options = with_account(module.params)
    directory = RunDirectory(options["root"], options["run_id"])
    lock = {
        "run": options["run_id"],
        "owner": options["owner"],
        "home": options["home"],
        "nodes": options["nodes"],
        "host": options["host"],
        "since": time.time(),
        "begun": since_boot(),
        "oom_kills": oom_kills(),
    }
    wanted = Wanted(
        gpus=options["gpus_wanted"],
        idle=options["gpus_idle"],
        count=options["gpus"],
        address=options["address"],
        port=options["port"],
        ports=options["ports"],
    )
    try:
        with room_for("its lock", options["root"], lambda: RESERVE_BYTES, lambda: None):
            held, hindrances = take(options["root"], lock, wanted, options["patience"])
    except NoRoomError as error:
        module.fail_json(**error.result(options["host"]))
    except EngineError as error:
        hindrance = no_engine(error)
        module.fail_json(
            msg=hindrance.text, problems=[{"host": options["host"], **hindrance.asdict()}]
        )
    if hindrances:
        texts = "; ".join(hindrance.text for hindrance in hindrances)
        module.fail_json(
            msg=f"Nothing was started.\n{options['host']}: {texts}",
            problems=[{"host": options["host"], **entry.asdict()} for entry in hindrances],
        )

    limits = Limits(int(options["gigabytes"] * 10**9), options["files"])
    try:
        with room_for("the run's directory", options["root"], lambda: RESERVE_BYTES, lambda: None):
            set_aside(directory, options["host"], limits)
            make_directories(directory, options["uid"], options["gid"])
            keep_run(directory, {**held, "manifest": options["manifest"]})
            keys = make_keys(module, directory, options["uid"], options["gid"])
        missing = CodeStore(options["root"]).missing(options["code"].values())
        if not missing:
            lay_out_run(options["root"], directory, options["code"], options["gid"])
    except NoRoomError as error:
        module.fail_json(**error.result(options["host"]))
    except OSError as error:
        module.fail_json(msg=f"The directory of the run could not be made: {error}")
    module.exit_json(
        changed=True,
        host_key=keys["ssh_host_ed25519_key"],
        client_key=keys["id_ed25519"],
        missing=missing,
        gpus=gpus_of(held),
        port=held["port"],
        part=wanted.part,
        cores=cores_of(wanted.part),
    )


if __name__ == "__main__":
    main()
