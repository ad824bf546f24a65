"""Faults of a share that the images are read from."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from commands import BackgroundRun, make
from surroundings import DATASET, IMAGE_FILES, PHOTOGRAPHS, SERVER, shared_images
from trainings import SHORTEST, STALLING

from faults.fault import Fault, Ledger, to_machine, to_rank

STREAMING: Mapping[str, object] = {**STALLING, **IMAGE_FILES}


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
