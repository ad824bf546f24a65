"""A process that Open MPI's mpirun started: what it is told of itself, and how it leaves MPI."""

import ctypes
import os

# The number of the rank in the world.
RANK = "OMPI_COMM_WORLD_RANK"
# Open MPI's own, of versions 4 and 5.
LIBRARY = "libmpi.so.40"


def world_rank() -> int | None:
    """This process's number in the world; None where mpirun did not start it."""
    rank = os.environ.get(RANK)
    return None if rank is None else int(rank)


def local_rank() -> int:
    """This process's number among those of its host; 0 where mpirun did not start it."""
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))


def leave_mpi() -> None:
    """Leave MPI where this process has joined it, through whatever library; waits for all ranks.

    Otherwise the library would do it while the process ends.
    """
    try:
        # The library that the process has. None is loaded.
        mpi = ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD)
    except OSError:
        return
    has_joined, has_left = ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Initialized(ctypes.byref(has_joined))
    mpi.MPI_Finalized(ctypes.byref(has_left))
    if has_joined.value and not has_left.value:
        mpi.MPI_Finalize()
