"""What the environment says about a launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer.failure import RUN_DIR

# Where the run directory is mounted in every container of a run.
DEFAULT_RUN_DIR = "/run/trainyard"


@dataclass(frozen=True)
class Limits:
    """What a run may not exceed; 0 means no limit.

    Attributes:
        start: seconds from the start to the first step.
        stall: seconds without a step after it.
        full_bytes: free bytes below which the disk of the run directory counts as full.
    """

    start: float
    stall: float
    full_bytes: int = 0


@dataclass(frozen=True)
class LaunchSettings:
    """What a launch needs to know.

    Attributes:
        run_dir: the run directory.
        peers: address and port of the other containers' sshd, by host.
        limits: when the run counts as lost.
    """

    run_dir: Path
    peers: Mapping[str, str]
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "LaunchSettings":
        """Read the environment.

            TRAINYARD_RUN_DIR        the run directory
            TRAINYARD_PEERS          the other containers' sshd, `name=address:port` with spaces
                                     between them; none where it is unset
            TRAINYARD_START_SECONDS  see `Limits.start`
            TRAINYARD_STALL_SECONDS  see `Limits.stall`
            TRAINYARD_FULL_BYTES     see `Limits.full_bytes`

        A limit that is unset is 0: whoever starts the container decides what is too long and what
        is full, and no number for it stands here.
        """
        peers = (peer.split("=", 1) for peer in environment.get("TRAINYARD_PEERS", "").split())
        return cls(
            run_dir=run_dir(environment),
            peers=dict(peers),
            limits=Limits(
                start=float(environment.get("TRAINYARD_START_SECONDS", "0")),
                stall=float(environment.get("TRAINYARD_STALL_SECONDS", "0")),
                full_bytes=int(environment.get("TRAINYARD_FULL_BYTES", "0")),
            ),
        )


def run_dir(environment: Mapping[str, str]) -> Path:
    """The run directory, as the environment names it."""
    return Path(environment.get(RUN_DIR, DEFAULT_RUN_DIR))
