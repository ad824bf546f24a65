"""The container of a run, as the Docker Engine API's ContainerCreate has it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..forms import LocalPath
from ..machine.amd import KFD
from .directory import CONFIG, RESUME, TRAINER, WORK, RunDirectory
from .disk_space import FULL_BYTES
from .mpirun import DATA, Launch

GIB = 2**30
# What a node keeps for itself where nothing else is said: this part of its memory, and so many
# bytes at the least, for its system, the engine and whoever logs in to see what is wrong.
RESERVE_PART = 0.05
RESERVE_BYTES = GIB
# The variable of a container that says how long a project's ranks may take to end.
GRACE = "TRAINYARD_GRACE_SECONDS"
# Where the kernel has what programs open for RDMA: InfiniBand's, and RoCE's
RDMA = "/dev/infiniband"
# Programs may build and load code there, as PyTorch's compiler does.
SCRATCH = "rw,exec,nosuid,nodev,size=10%"


def memory_limit(gigabytes: float | None, share: float, node_bytes: int) -> int:
    """Return the limit of a container's memory, in bytes; 0 for none.

    Args:
        gigabytes: what the site says, in 2^30 bytes, 0 for none; None leaves the node a reserve.
        share: the part of the machine's memory that is this node's.
    """
    if gigabytes is not None:
        return int(gigabytes * GIB)
    own = node_bytes * share
    # A very small node keeps half.
    reserve = min(max(own * RESERVE_PART, RESERVE_BYTES), own / 2)
    return int(own - reserve)


def rdma_devices(directory: str = RDMA) -> tuple[str, ...]:
    """List the devices for RDMA that this node has; mostly none.

    Those that configure the fabric (`umad*`, `issm*`) are none of a run's. Neither are the
    directories beside them, in which udev links devices by other names (`by-ibdev`): the engine
    refuses a container that asks for one.
    """
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return ()
    devices = (
        os.path.join(directory, name) for name in names if not name.startswith(("umad", "issm"))
    )
    return tuple(device for device in devices if not os.path.isdir(device))


def groups_of(devices: Sequence[str]) -> list[str]:
    """Return the groups that some device files belong to, but for root's: `render`, as a number.

    The image knows other names, or none, for the node's groups. A file that is gone is the
    engine's to name.
    """
    there = [path for path in devices if os.path.exists(path)]
    return [str(gid) for gid in sorted({os.stat(path).st_gid for path in there} - {0})]


class ContainerForm(NamedTuple):
    """The container of a run on this machine.

    Attributes:
        shm_gigabytes: size of /dev/shm where the run has the whole machine, in 2^30 bytes.
        folder: a folder of the machine that the ranks get in place of `data`; empty for none.
        gpus: NVIDIA GPUs: all, or numbers with commas between; empty for none.
        render_devices: files of the AMD GPUs.
        memory_gigabytes: limit of its memory, in 2^30 bytes; 0 for none, None for the usual one.
        memory_share: the part of the machine's memory that is this node's.
        part: the part of the node that the run has, above 0 to 1.
        processes: how many processes and threads it may have.
    """

    image: str
    hostname: str
    user: str
    data: LocalPath
    shm_gigabytes: int
    folder: str = ""
    gpus: str = ""
    render_devices: Sequence[str] = ()
    memory_gigabytes: float | None = None
    memory_share: float = 1.0
    part: float = 1.0
    processes: int = 8192


class Start(NamedTuple):
    """What a run starts on this machine.

    Attributes:
        home: where its logs go on the control node.
        uid, gid: whom the ranks run as.
        files: what the container reads: path below its configuration to content.
        facts: what the machine was when the run began.
        address, port: that the sshd of the container listens on.
        secrets: environment of the ranks that shows nowhere, by name.
        wait: seconds until that sshd listens, at the most.
    """

    run_id: str
    home: str
    root: LocalPath
    uid: int
    gid: int
    files: dict[str, Any]
    facts: dict[str, Any]
    container: ContainerForm
    launch: Launch
    address: str
    port: int
    secrets: Mapping[str, Any] = {}
    wait: float = 15.0


@dataclass(frozen=True)
class Container:
    """The container of a run on one of its nodes.

    Attributes:
        run: what is asked for, with the account here that the ranks run as.
        folder: what is mounted for the folder that they get in place of `data`; empty for none.
        gpus: of its HostConfig, what gives it NVIDIA GPUs; empty for none.
        rdma: devices for RDMA that the ranks get; empty where the transport takes none.
        cores: how much time of the node's cores it may take, in cores; 0 for no limit.
        memory_bytes: limit of its memory; 0 for none.
    """

    run: Start
    directory: RunDirectory
    folder: str
    gpus: Mapping[str, Any]
    rdma: Sequence[str]
    cores: float
    memory_bytes: int

    def configuration(self) -> dict[str, Any]:
        """The body of ContainerCreate."""
        return {
            "Image": self.run.container.image,
            "Hostname": self.run.container.hostname,
            "User": self.run.container.user,
            "Labels": {"trainyard.run": self.run.run_id},
            "Env": [f"{name}={value}" for name, value in self.environment().items()],
            "HostConfig": self.host_configuration(),
        }

    def environment(self) -> dict[str, Any]:
        """What the launcher in the container reads; see trainer/launch/settings.py."""
        launch = self.run.launch
        trains = launch.command == "train"
        others = launch.nodes[1:]
        peers = (f"{name}={launch.addresses[name]}:{launch.ports[name]}" for name in others)
        # When a project's program takes its first step, and whether it has steps, nobody knows.
        steps = trains and not launch.project
        return {
            "TRAINYARD_START_SECONDS": launch.start_seconds if steps else 0,
            "TRAINYARD_STALL_SECONDS": launch.stall_seconds if trains else 0,
            "TRAINYARD_SILENCE_SECONDS": launch.silence_seconds if trains and launch.project else 0,
            GRACE: launch.grace_seconds if launch.project else 0,
            "TRAINYARD_ADDRESS": launch.addresses[self.run.container.hostname],
            "TRAINYARD_PEERS": " ".join(peers),
            "TRAINYARD_COPY_MEGABYTES": launch.copy_megabytes if trains else 0,
            "TRAINYARD_LAUNCHES": 2 if launch.command == "verify" else 1,
            "TRAINYARD_FULL_BYTES": FULL_BYTES,
        }

    def host_configuration(self) -> dict[str, Any]:
        """The HostConfig of ContainerCreate."""
        run, container, launch = self.run, self.run.container, self.run.launch
        configuration: dict[str, Any] = {
            "NetworkMode": "host",
            "Init": True,
            # sshd and training need no capability, and nothing in there may gain one.
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            # Nothing of the image can be changed; what programs want to write beside their results
            # is gone with the container.
            "ReadonlyRootfs": True,
            "Tmpfs": {
                "/tmp": f"{SCRATCH},mode=1777",
                f"/home/{container.user}": f"{SCRATCH},mode=700,uid={run.uid},gid={run.gid}",
            },
            "PidsLimit": container.processes,
            # The memory of a process that fell is no result; a program that wants it says so
            # (ulimit -c unlimited).
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": -1}],
            # Where the node runs out of memory, the ranks go before whoever has to tell of it.
            "OomScoreAdj": 500,
            # What a rank may say there without end.
            "LogConfig": {"Type": "local", "Config": {"max-size": "5m", "max-file": "2"}},
            "ShmSize": int(container.shm_gigabytes * GIB * container.part),
            "Memory": self.memory_bytes,
            # And nothing beside it: a node whose ranks swap answers nobody.
            "MemorySwap": self.memory_bytes,
            "ExtraHosts": [f"{name}:{launch.addresses[name]}" for name in sorted(launch.nodes)],
            "Binds": [
                f"{self.directory.work}:{WORK}",
                f"{self.directory.config}:{CONFIG}:ro",
                f"{self.directory.ssh}:/home/{container.user}/.ssh:ro",
                f"{self.directory.trainer}:{TRAINER}:ro",
                *(() if self.folder else (f"{container.data}:{DATA}:ro",)),
                *self.resumed(),
            ],
        }
        if self.folder:
            # A bind by Mounts: one by Binds makes a directory where the folder is gone.
            configuration["Mounts"] = [
                {
                    "Type": "bind",
                    "Source": self.folder,
                    "Target": f"{DATA}{self.folder}",
                    "ReadOnly": True,
                }
            ]
        if self.cores:
            # A quota and not cores of its own: which are near to a GPU, and which are two threads
            # of one core, the kernel knows better.
            configuration["NanoCpus"] = int(self.cores * 10**9)
        configuration.update(self.gpus)
        # ROCm sees the GPUs whose files it can open, and numbers them from 0 (AMD, "Running ROCm
        # Docker containers", restricting GPU access). So no ROCR_VISIBLE_DEVICES is needed, and one
        # with the numbers of the node would name others.
        of_amd = (KFD, *container.render_devices) if container.render_devices else ()
        devices = (*of_amd, *self.rdma)
        if devices:
            configuration["Devices"] = [
                {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rw"}
                for path in devices
            ]
        if of_amd:
            configuration["GroupAdd"] = groups_of(of_amd)
        if self.rdma:
            # An adapter reads and writes memory by itself, which therefore must stay where it is.
            configuration["Ulimits"].append({"Name": "memlock", "Soft": -1, "Hard": -1})
        return configuration

    def resumed(self) -> list[str]:
        """The mount of the checkpoints to go on from, where there are any."""
        there = os.path.isdir(self.directory.resume)
        return [f"{self.directory.resume}:{RESUME}:ro"] if there else []
