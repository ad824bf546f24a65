/* Every rank sends its host name around the ring: it reaches the next rank only where the network carries MPI. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    char own[MPI_MAX_PROCESSOR_NAME] = "", left[MPI_MAX_PROCESSOR_NAME] = "";
    int rank, size, length;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(own, &length);
    MPI_Sendrecv(own, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, (rank + 1) % size, 0,
                 left, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d of %d on %s heard from %s\n", rank, size, own, left);
    MPI_Finalize();
    return 0;
}
