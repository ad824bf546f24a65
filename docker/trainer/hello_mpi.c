/* Every rank sends its host name to every other: it arrives only where the network carries MPI, both ways. Each tells
 * first that it is there, and then whom it hears as soon as it does, so that a hang leaves the names of the others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    char own[MPI_MAX_PROCESSOR_NAME] = "";
    int rank, size, length;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(own, &length);
    printf("rank %d of %d on %s is here\n", rank, size, own);
    fflush(stdout);

    char (*names)[MPI_MAX_PROCESSOR_NAME] = calloc(size, sizeof *names);
    MPI_Request *requests = malloc(2 * size * sizeof *requests);
    if (names == NULL || requests == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int other = 0; other < size; other++) {
        MPI_Irecv(names[other], MPI_MAX_PROCESSOR_NAME, MPI_CHAR, other, 0, MPI_COMM_WORLD, &requests[other]);
        MPI_Isend(own, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, other, 0, MPI_COMM_WORLD, &requests[size + other]);
    }
    for (int heard = 0; heard < size; heard++) {
        int other;
        MPI_Waitany(size, requests, &other, MPI_STATUS_IGNORE);
        if (other != rank) {
            printf("rank %d of %d on %s heard from %s\n", rank, size, own, names[other]);
            fflush(stdout);
        }
    }
    MPI_Waitall(size, requests + size, MPI_STATUSES_IGNORE);
    free(requests);
    free(names);
    MPI_Finalize();
    return 0;
}
