"""Faults of a share that the images are read from."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import BackgroundRun, make
from machines import CHECKOUT, NODES, docker, in_machine, machine, wait_for
from trainings import SHORTEST, STALLING

from faults.fault import Fault, Ledger, to_machine, to_rank

# Where runs find the data set on a node, and where images of the tests lie that take its place
DATASET = "/srv/trainyard/data/cifar10"
PHOTOGRAPHS = "/srv/photographs"
# The trainer's code on a node, to make them with: its image has none.
TRAINER = "/srv/photographs-trainer"
# Image files are read while a model trains; arrays are in memory before it begins.
STREAMING: Mapping[str, object] = {
    **STALLING,
    "TRAIN_IMAGES": 64,
    "ARGS": "--set image_size=32",
}
SERVER = "share"


@contextmanager
def shared_images() -> Iterator[None]:
    """Put image files in the data set's place: on node2 they come from a share.

    The share is of a file system in user space, whose server is a process: it can die or stand
    still as one at the other end of a network can, and the kernel's other kinds are rarely all
    there. A node may not open /dev/fuse, so the server runs in a container beside it, with the
    node's processes and mounts.
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
    try:
        for host in NODES:
            docker("cp", str(CHECKOUT / "trainer"), f"{machine(host)}:{TRAINER}")
            in_machine(host, f"mkdir -p {PHOTOGRAPHS}; {image}; {writing} <<'END'\n{program}\nEND")
        in_machine("node1", f"mount --bind {PHOTOGRAPHS} {DATASET}")
        in_machine("node2", "command -v bindfs || apt-get install --yes -qq bindfs")
        in_machine("node2", "test -e /dev/fuse || mknod /dev/fuse c 10 229")
        # It is not mounted over what is not empty.
        in_machine("node2", f"mount -t tmpfs tmpfs {DATASET}")
        start = ["run", "--detach", "--name", server, "--pid", f"container:{node}"]
        start += [*rights, "--security-opt", "seccomp=unconfined", "--device", "/dev/fuse"]
        docker(*start, node_image, *serve)
        look = f"grep ' {DATASET} fuse ' /proc/mounts || true"
        wait_for("share", lambda: in_machine("node2", look), seconds=20)
        yield
    finally:
        docker("rm", "--force", server)
        for host in NODES:
            in_machine(host, f"while umount --lazy {DATASET} 2>/dev/null; do :; done")
            in_machine(host, f"rm -rf {PHOTOGRAPHS} {TRAINER}")


def launch_is_refused(_: BackgroundRun) -> None:
    """Until it is back nothing starts there, and nobody is sent to fetch the data anew."""
    refused = make("train", **SHORTEST)
    assert refused.status == 3
    assert "Transport endpoint is not connected" in refused.output
    assert "etting up" not in refused.output


def launch_is_refused_in_time(_: BackgroundRun) -> None:
    """The look at the data does not wait for the share either."""
    refused = make("train", **SHORTEST)
    assert refused.status == 3
    assert "no answer within 5 s" in refused.output


def pause_rank(run: BackgroundRun) -> None:
    """Stop the rank while the share falls silent.

    A request that the server has taken cannot be given up, unlike one of a network's share.
    """
    to_rank(1, "STOP")(run)
    time.sleep(0.5)


def silence(run: BackgroundRun) -> None:
    """Stop the server, and let the rank go on."""
    to_machine(SERVER, "kill", "--signal", "STOP")(run)
    to_rank(1, "CONT")(run)


FAULTS = (
    Fault(
        "share gone",
        to_machine(SERVER, "kill"),
        ends=frozenset({"share_gone"}),
        host="node2",
        options=STREAMING,
        setting=shared_images,
        says=(rf"{DATASET.replace('/srv/trainyard', '')} \(fuse of {PHOTOGRAPHS}\)",),
        also=launch_is_refused,
    ),
    Fault(
        "share gone: its server accepts and never answers",
        silence,
        ends=frozenset({"rank_waits_for_share"}),
        host="node2",
        options=STREAMING,
        setting=shared_images,
        prepare=pause_rank,
        says=(rf"\(fuse of {PHOTOGRAPHS}\), which does not answer",),
        also=launch_is_refused_in_time,
    ),
)


@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="the kernel of this machine has no FUSE")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case)
def test_fault(fault: Fault, ledger: Ledger) -> None:
    ledger.prove(fault)
