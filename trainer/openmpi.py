"""What Open MPI's mpirun tells a process about itself, in its environment."""

import os

# The number of the rank in the world.
RANK = "OMPI_COMM_WORLD_RANK"


def world_rank() -> int | None:
    """This process's number in the world; None where mpirun did not start it."""
    rank = os.environ.get(RANK)
    return None if rank is None else int(rank)


def local_rank() -> int:
    """This process's number among those of its host; 0 where mpirun did not start it."""
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
