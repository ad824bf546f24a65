"""What is around a whole run, from before it starts until all is checked: disks, shares, clocks."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from commands import make
from machines import CHECKOUT, INVENTORY, NODES, RUN_ROOT, docker, in_machine, machine, wait_for

# Where runs find the data set on a node, and where images of the tests lie that take its place
DATASET = "/srv/trainyard/data/cifar10"
PHOTOGRAPHS = "/srv/photographs"
# The trainer's code on a node, to make them with: its image has none.
TRAINER = "/srv/photographs-trainer"
# What a training on them is started with. Image files are read while a model trains; arrays are in
# memory before it begins.
IMAGE_FILES: Mapping[str, object] = {"TRAIN_IMAGES": 64, "ARGS": "--set image_size=32"}
# The container that serves the share, beside the machines
SERVER = "share"
# How far the clock is set off that the ranks on a node read, and the library that they read it by
CLOCK = "/srv/trainyard/data/clock"


@contextmanager
def small_disk() -> Iterator[None]:
    """Runs have a disk of 1.2 GB on node1."""
    in_machine("node1", f"mount -t tmpfs -o size=1200m,mode=755 tmpfs {RUN_ROOT}")
    try:
        yield
    finally:
        in_machine("node1", f"umount --lazy {RUN_ROOT}")


@contextmanager
def shared_images(hosts: Sequence[str] = NODES) -> Iterator[None]:
    """Put image files in the data set's place: on node2 they come from a share.

    The share is of a file system in user space, whose server is a process: it can die or stand
    still as one at the other end of a network can, and the kernel's other kinds are rarely all
    there. A node may not open /dev/fuse, so the server runs in a container beside it, with the
    node's processes and mounts.

    Args:
        hosts: the nodes, node2 among them; the others have the files on their disks.
    """
    node, server = machine("node2"), machine(SERVER)
    program = (Path(__file__).parent / "make_photographs.py").read_text()
    volumes = f"--volume {PHOTOGRAPHS}:/out --volume {TRAINER}:/opt/trainyard/lib/trainer:ro"
    writing = f"docker run --rm --interactive --user 0 {volumes} $image python3 -"
    image = "image=$(docker image ls --quiet trainyard/trainer | head -1)"
    node_image = docker("inspect", "--format", "{{.Config.Image}}", node)
    rights = [f"--cap-add={name}" for name in ("SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE")]
    serve = ["nsenter", "--target", "1", "--mount", "bindfs", "-f", "-o", "allow_other"]
    serve += [PHOTOGRAPHS, DATASET]
    # A node that was made anew would be given the data by the first launch, in the share's place.
    assert make("data", DATASET="cifar10").status == 0
    try:
        for host in hosts:
            docker("cp", str(CHECKOUT / "trainer"), f"{machine(host)}:{TRAINER}")
            in_machine(host, f"mkdir -p {PHOTOGRAPHS}; {image}; {writing} <<'END'\n{program}\nEND")
            if host != "node2":
                in_machine(host, f"mount --bind {PHOTOGRAPHS} {DATASET}")
        in_machine("node2", "command -v bindfs || apt-get install --yes -qq bindfs")
        in_machine("node2", "test -e /dev/fuse || mknod /dev/fuse c 10 229")
        # It is not mounted over what is not empty.
        in_machine("node2", f"mount -t tmpfs tmpfs {DATASET}")
        start = ["run", "--detach", "--name", server, "--pid", f"container:{node}"]
        start += [*rights, "--security-opt", "seccomp=unconfined", "--device", "/dev/fuse"]
        # A session that was cut off may have left it.
        docker("rm", "--force", server)
        docker(*start, node_image, *serve)
        look = f"grep ' {DATASET} fuse ' /proc/mounts || true"
        wait_for("share", lambda: in_machine("node2", look), seconds=20)
        yield
    finally:
        docker("rm", "--force", server)
        for host in hosts:
            in_machine(host, f"while umount --lazy {DATASET} 2>/dev/null; do :; done")
            in_machine(host, f"rm -rf {PHOTOGRAPHS} {TRAINER}")


def set_clock(host: str, offset: str) -> None:
    """Set the clock that the ranks of a node read off from the kernel's: "+1h", say."""
    # Renamed, for a rank that reads half a line ends.
    in_machine(host, f"cd {CLOCK} && echo {offset} > new && mv new offset")


@cache
def clock_inventory() -> TemporaryDirectory[str]:
    """An inventory of the same nodes, set up, whose ranks read such a clock."""
    environment = {
        "LD_PRELOAD": "/data/clock/libfaketimeMT.so.1",
        "FAKETIME_TIMESTAMP_FILE": "/data/clock/offset",
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    folder = TemporaryDirectory()
    shutil.copy(CHECKOUT / INVENTORY / "nodes.yml", folder.name)
    documents = {
        "groups.yml": {"container_hosts": {"hosts": {}}},
        "group_vars/trainers.yml": {"training_run_environment": environment},
    }
    for name, document in documents.items():
        path = Path(folder.name) / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(document))
    assert make("setup", INVENTORY=folder.name).status == 0
    return folder


@contextmanager
def own_clocks(hosts: Sequence[str] = NODES) -> Iterator[Mapping[str, object]]:
    """Give the ranks of each node a clock that can be set: the file `offset` in CLOCK says how far.

    Containers have the clock of their machine's kernel, which is not ours to set. libfaketime is
    loaded into the ranks, and what they ask of the time of day goes through it; the clock that
    nobody can set, and the times of files, are left to the kernel.

    Returns:
        What a run is to be started with.
    """
    try:
        for host in hosts:
            in_machine(
                host,
                f"test -d {CLOCK} || apt-get install --yes -qq libfaketime && mkdir -p {CLOCK} && "
                f"cp /usr/lib/*/faketime/libfaketimeMT.so.1 {CLOCK}",
            )
            set_clock(host, "+0")
        yield {"INVENTORY": clock_inventory().name}
    finally:
        for host in hosts:
            in_machine(host, f"rm -rf {CLOCK}")
