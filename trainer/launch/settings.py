"""What the environment says about a launch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer.failure import RUN_DIR

# Environment: how many GPUs of each node the run has (training_run_mpirun.py); not there for none.
GPUS = "TRAINYARD_GPUS"
# Where the run directory is mounted in every container of a run.
DEFAULT_RUN_DIR = "/run/trainyard"
DEFAULT_CONFIG_DIR = "/etc/trainyard"


@dataclass(frozen=True)
class Limits:
    """What a run may not exceed; 0 means no limit.

    Attributes:
        start: seconds from the start to the first step.
        stall: seconds without a step after it.
        full_bytes: free bytes below which the disk of the run directory counts as full.
        silence: seconds without a sign of life after which a project's ranks are asked what they
            do. They go on.
    """

    start: float
    stall: float
    full_bytes: int = 0
    silence: float = 0.0


@dataclass(frozen=True)
class LaunchSettings:
    """What a launch needs to know.

    Attributes:
        peers: address and port of the other containers' sshd, by host.
        limits: when the run counts as lost.
        is_project: whether the ranks are those of a project, of whose steps nothing is known.
        grace: seconds for them to end when they are asked to.
        address: of this node, where the ranks of a project meet.
        copy_megabytes: how much of the checkpoints is sent to another node in a second at the most,
            in 10^6 bytes; 0 for no copies.
        checkpoint_files: which files of its working directory a project calls checkpoints, a
            pattern for each name of a path; empty: none.
    """

    run_dir: Path
    peers: Mapping[str, str]
    limits: Limits
    is_project: bool = False
    grace: float = 0.0
    address: str = "127.0.0.1"
    copy_megabytes: float = 0.0
    checkpoint_files: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "LaunchSettings":
        """Read the environment.

            TRAINYARD_RUN_DIR        the run directory
            TRAINYARD_PEERS          the other containers' sshd, `name=address:port` with spaces
                                     between them; none where it is unset
            TRAINYARD_START_SECONDS  see `Limits.start`
            TRAINYARD_STALL_SECONDS  see `Limits.stall`
            TRAINYARD_FULL_BYTES     see `Limits.full_bytes`
            TRAINYARD_SILENCE_SECONDS  see `Limits.silence`
            TRAINYARD_GRACE_SECONDS  see `grace`
            TRAINYARD_ADDRESS        see `address`
            TRAINYARD_COPY_MEGABYTES  see `copy_megabytes`
            TRAINYARD_CONFIG_DIR     the configuration, with program.json where it is a project

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
                silence=float(environment.get("TRAINYARD_SILENCE_SECONDS", "0")),
            ),
            is_project=program_file(environment).exists(),
            grace=float(environment.get("TRAINYARD_GRACE_SECONDS", "0")),
            address=environment.get("TRAINYARD_ADDRESS", cls.address),
            copy_megabytes=float(environment.get("TRAINYARD_COPY_MEGABYTES", "0")),
            checkpoint_files=_checkpoint_files(program_file(environment)),
        )


def run_dir(environment: Mapping[str, str]) -> Path:
    """The run directory, as the environment names it."""
    return Path(environment.get(RUN_DIR, DEFAULT_RUN_DIR))


def program_file(environment: Mapping[str, str]) -> Path:
    """What the ranks of a project run; there is none where they are the trainer's."""
    return Path(environment.get("TRAINYARD_CONFIG_DIR", DEFAULT_CONFIG_DIR)) / "program.json"


def _checkpoint_files(program: Path) -> tuple[str, ...]:
    """The pattern in `program.json`, by the names of a path; none where that is not there."""
    if not program.exists():
        return ()
    pattern = json.loads(program.read_text(encoding="utf-8"))["checkpoints"]
    return tuple(pattern.split("/")) if pattern else ()
