"""What may happen to a run at a random moment, on two of four nodes: done to it, and put right."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from commands import BackgroundRun, Outcome, make
from machines import RUN_ROOT, docker, in_machine, machine, wait_until_ready
from surroundings import IMAGE_FILES, SERVER, own_clocks, set_clock, shared_images, small_disk
from trainings import SMALL

NODES = ("node1", "node2", "node3", "node4")
CHECKPOINT_SECONDS = 3
# The two nodes that are left take the place of one that is at fault.
OPTIONS: Mapping[str, object] = {
    **SMALL,
    "EPOCHS": 3,
    "TRAIN_IMAGES": 2560,
    "CHECKPOINT_SECONDS": CHECKPOINT_SECONDS,
    "RETRIES": 3,
    "STALL": 12,
}
STREAMING: Mapping[str, object] = {**OPTIONS, **IMAGE_FILES, "EPOCHS": 150}


def to_its_end(run: BackgroundRun) -> Outcome:
    """Wait until the command that started the run has ended."""
    return run.finish(seconds=600)


@dataclass(frozen=True)
class Disturbance:
    """What is done to a run that trains.

    Attributes:
        name: in docs/faults.md.
        strike: does it.
        follow: waits for the end of the run.
        mend: puts the machines right after it.
        options: what the run is started with.
        setting: surroundings of the run; may give further options, which change no number.
    """

    name: str
    strike: Callable[[BackgroundRun], object]
    follow: Callable[[BackgroundRun], Outcome] = to_its_end
    mend: Callable[[], object] = lambda: None
    options: Mapping[str, object] = field(default_factory=lambda: OPTIONS)
    setting: Callable[[], AbstractContextManager[Mapping[str, object] | None]] = nullcontext


def clean(host: str) -> None:
    """Remove what an attempt has left on a node that could not be asked; it is home from others."""
    in_machine(host, "docker ps -aq --filter label=trainyard.run | xargs -r docker rm -f")
    in_machine(host, f"find {RUN_ROOT} -mindepth 1 -delete")


def power_off(host: str) -> Callable[[BackgroundRun], object]:
    """Take the power from a machine."""
    return lambda run: docker("kill", machine(host))


def power_on(host: str) -> Callable[[], object]:
    """Start a machine again."""

    def act() -> None:
        docker("start", machine(host))
        wait_until_ready(host)
        # Docker gives a machine that starts a new /etc/hosts.
        assert make("setup").status == 0
        clean(host)

    return act


def kill_rank(rank: int, host: str) -> Callable[[BackgroundRun], object]:
    """Kill the process of a rank."""
    return lambda run: run.in_container(host, f"kill -KILL {run.rank_pid(rank, host)}")


def cut(host: str, seconds: float) -> Callable[[BackgroundRun], object]:
    """Let no packet through between a node and the first one for so long."""
    rules = (
        "for rule in 'INPUT --source {0}' 'OUTPUT --destination {0}'; "
        "do iptables {1} $rule --jump DROP; done"
    )

    def act(run: BackgroundRun) -> None:
        address = in_machine(host, "getent hosts node1 | cut -d' ' -f1")
        in_machine(host, rules.format(address, "--insert"))
        time.sleep(seconds)
        in_machine(host, rules.format(address, "--delete"))

    return act


def fill_disk(run: BackgroundRun) -> None:
    """Take the last block of the first node's disk of runs."""
    # It ends with an error when the disk is full, which is what is wanted.
    in_machine("node1", f"cat /dev/zero > {RUN_ROOT}/filler || true")


@contextmanager
def images_on_share() -> Iterator[None]:
    """All nodes have the data set, and image files in its place: on the second node a share."""
    assert make("data", DATASET="cifar10").status == 0
    with shared_images(NODES):
        yield


def attach(run: BackgroundRun) -> Outcome:
    """Follow a run whose command is gone."""
    return make("attach", RUN=run.run_id)


DISTURBANCES = (
    Disturbance("kill -9 of rank 0", kill_rank(0, "node1")),
    Disturbance("kill -9 of rank 1", kill_rank(1, "node2")),
    Disturbance(
        "kill -9 of mpirun",
        lambda run: run.in_container("node1", "pkill -KILL -x 'mpirun|prterun'"),
    ),
    Disturbance(
        "the first node's container killed",
        lambda run: in_machine("node1", f"docker kill trainyard-{run.run_id}"),
    ),
    Disturbance("the first node off", power_off("node1"), mend=power_on("node1")),
    Disturbance("the second node off", power_off("node2"), mend=power_on("node2")),
    Disturbance("the command on the control node killed", BackgroundRun.kill_yard, attach),
    Disturbance("link cut for 5 s", cut("node2", 5)),
    Disturbance("link cut for 30 s", cut("node2", 30)),
    Disturbance("link cut for 120 s", cut("node2", 120)),
    Disturbance(
        "the first node's disk full",
        fill_disk,
        mend=lambda: in_machine("node1", f"rm {RUN_ROOT}/filler"),
        setting=small_disk,
    ),
    Disturbance(
        "the second node's share gone",
        lambda run: docker("kill", machine(SERVER)),
        options=STREAMING,
        setting=images_on_share,
    ),
    Disturbance(
        "the first node's clock set forward by an hour",
        lambda run: set_clock("node1", "+1h"),
        setting=lambda: own_clocks(NODES),
    ),
    Disturbance(
        "the second node's clock set back by an hour",
        lambda run: set_clock("node2", "-1h"),
        setting=lambda: own_clocks(NODES),
    ),
)
