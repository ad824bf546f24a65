"""A machine with nothing but Debian, and without a network, sets up and trains from a bundle."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import make
from machines import CHECKOUT, CHECKOUT_HASH, docker, machine

pytestmark = pytest.mark.usefixtures("ready_cluster")

CONTROL = f"trainyard-bundle-{CHECKOUT_HASH[:12]}"
RELEASE = "bookworm"
DOCUMENT = CHECKOUT / "docs/closed-networks.md"
TRAIN = "make train MODEL=vit NODES=2 EPOCHS=1 TRAIN_IMAGES=1024 BUNDLE=/media/trainyard-bundle.tar"

# As in docker/node/cgroups-writable.service: an engine inside makes cgroups of its own.
WRITABLE = (
    r"""awk '$5 ~ /^\/sys\/fs\/cgroup/ {print $5}' /proc/self/mountinfo | """
    'while read -r m; do mount -o remount,bind,rw "$m"; done'
)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[str]:
    """The machine: a container of Debian's minimum, which has no network but its loopback.

    Its nodes are containers in it, so that it gets the rights that nodes have.
    """
    archive = tmp_path / "trainyard-bundle.tar"
    done = make("bundle", RELEASES=f"{RELEASE},trixie", OUT=archive)
    assert done.status == 0, done.output
    rights = json.loads(docker("inspect", machine("node1")))[0]["HostConfig"]
    options = [
        *(["--privileged"] if rights["Privileged"] else []),
        *(f"--cap-add={name}" for name in rights["CapAdd"] or []),
        *(f"--cap-drop={name}" for name in rights["CapDrop"] or []),
        *(f"--security-opt={name}" for name in rights["SecurityOpt"] or []),
        # Not asked for by a container, but by what "systempaths=unconfined" comes to.
        *([] if rights["MaskedPaths"] else ["--security-opt=systempaths=unconfined"]),
    ]
    remove = ("rm", "--force", "--volumes", CONTROL)
    docker(*remove)  # of a run that was cut off
    docker(
        *("run", "--detach", "--init", "--name", CONTROL, "--network=none", "--cgroupns=private"),
        *options,
        *("--tmpfs=/run", "--tmpfs=/tmp", "--volume=/var/lib/docker"),
        f"--volume={archive}:/media/trainyard-bundle.tar:ro",
        *(f"trainyard/base:{RELEASE}", "sleep", "infinity"),
    )
    try:
        run(CONTROL, WRITABLE)
        yield CONTROL
    finally:
        docker(*remove)


def run(control: str, command: str) -> str:
    """Run a command there as root, and return what it printed."""
    done = subprocess.run(
        ["docker", "exec", "--workdir=/root", control, "bash", "-euc", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.promise("make bundle")
def test_it_sets_up_and_trains(control: str) -> None:
    # Only the heading: no route to anywhere.
    assert len(run(control, "cat /proc/net/route").splitlines()) == 1
    assert run(control, "command -v docker python3 || true") == ""
    # What the document has typed on a machine that has nothing.
    (first,) = re.findall(r"```sh\n(\. /etc/os-release\n.*?)```", DOCUMENT.read_text(), re.DOTALL)
    run(control, first)
    output = run(control, f"cd trainyard; {TRAIN}")
    assert "Retrying" not in output, "somebody asked the network"
    summary = json.loads(run(control, "cat trainyard/runs/latest/summary.json"))
    assert summary["status"] == "succeeded"
    assert sorted(set(summary["hosts"])) == ["node1", "node2"]
    # Nodes have these packages alone. This machine is as it was: only commands use the bundle.
    targets = "apt-get indextargets --format '$(REPO_URI)'"
    asked = run(control, f"docker exec trainyard-node1 {targets}")
    assert set(asked.split()) == {"file:/var/lib/trainyard/package_sources/bundle/"}
    assert "trainyard" not in run(control, "cat /etc/apt/apt.conf.d/*")
