"""Two ranks on this machine, started as a launch starts them on its nodes."""

import os
import subprocess
from pathlib import Path

RANK = "/opt/trainyard/bin/rank"
LAUNCH = "/opt/trainyard/bin/launch"
TIMEOUT = 300
# Codes of failures/rank-<r>.json that docker/trainer/python/trainyard_abort.py writes
PLACES_OF_PROGRAMS = {"container_place_full", "container_shm_full", "run_directory_full"}

# Ranks share this machine's cores with whatever else runs: no binding, and oversubscription.
MPIRUN_ARGUMENTS = (
    *("-n", "2", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"),
    *("--mca", "mpi_yield_when_idle", "1"),
    *(
        "-x",
        "OMP_NUM_THREADS=1",
        "-x",
        "HOROVOD_CYCLE_TIME=100",
        "-x",
        "TRAINYARD_EXCHANGE_NICE=10",
        "-x",
        "MALLOC_MMAP_THRESHOLD_=1073741824",
        "-x",
        "MALLOC_TRIM_THRESHOLD_=4294967296",
    ),
)


def mpirun(
    *command: str | Path, ranks: int = 2, timeout: float = TIMEOUT
) -> "subprocess.CompletedProcess[str]":
    """Run a command on that many ranks and return its output and status."""
    return subprocess.run(
        ["mpirun", "-n", str(ranks), *MPIRUN_ARGUMENTS[2:], *map(str, command)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def launch(run_dir: Path) -> "subprocess.Popen[bytes]":
    """Start the trainer on both ranks as the run directory's config.json says."""
    return subprocess.Popen(
        [LAUNCH, *MPIRUN_ARGUMENTS, RANK], env={**os.environ, **directories(run_dir)}
    )


def directories(run_dir: Path) -> dict[str, str]:
    """The environment that has a run read its configuration where it writes its results."""
    return {"TRAINYARD_RUN_DIR": str(run_dir), "TRAINYARD_CONFIG_DIR": str(run_dir)}
