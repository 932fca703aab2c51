/* A real all-reduce over MPI that prints what nccl-tests prints (NVIDIA/nccl-tests, src/common.cu).
 *
 * all_reduce -b BYTES -e BYTES [-n ITERATIONS] [-w SECONDS]
 * Sums floats over all ranks for each size from -b to -e, doubled each time, and checks every element. With -w it first
 * waits, like a run that hangs. The last lines name the ranks and their hosts, with a checksum that only a complete
 * reduction has.
 *
 * Open MPI is loaded at run time, so that no development package is needed. Its handles are addresses of objects in the
 * library: the interface of all releases from 1.7 to 5. */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "all_reduce: %s\n", dlerror());
        exit(3);
    }
    return found;
}

/* Without strtol, whose name in newer C libraries is unknown to older ones. */
static long parse_size(const char *text) {
    long value = 0;
    while (*text >= '0' && *text <= '9') value = value * 10 + (*text++ - '0');
    return *text == 'K' ? value << 10 : *text == 'M' ? value << 20 : value;
}

static float share_of(long rank, long at) { return (float)((rank + 1) * (at % 7 + 1)); }

int main(int argc, char **argv) {
    long begin = 1 << 20, end = 1 << 20, iterations = 5, wait = 0;
    for (int at = 1; at + 1 < argc; at += 2) {
        long value = parse_size(argv[at + 1]);
        if (!strcmp(argv[at], "-b")) begin = value;
        else if (!strcmp(argv[at], "-e")) end = value;
        else if (!strcmp(argv[at], "-n")) iterations = value;
        else if (!strcmp(argv[at], "-w")) wait = value;
    }
    library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "all_reduce: %s\n", dlerror());
        return 3;
    }
    int (*init)(int *, char ***) = find("MPI_Init");
    int (*get_rank)(void *, int *) = find("MPI_Comm_rank");
    int (*get_size)(void *, int *) = find("MPI_Comm_size");
    int (*barrier)(void *) = find("MPI_Barrier");
    int (*reduce)(const void *, void *, int, void *, void *, void *) = find("MPI_Allreduce");
    int (*gather)(const void *, int, void *, void *, int, void *, int, void *) = find("MPI_Gather");
    double (*now)(void) = find("MPI_Wtime");
    int (*finalize)(void) = find("MPI_Finalize");
    void *world = find("ompi_mpi_comm_world"), *floats = find("ompi_mpi_float"), *bytes = find("ompi_mpi_byte");
    void *sum = find("ompi_mpi_op_sum");

    int rank, ranks;
    init(&argc, &argv);
    get_rank(world, &rank);
    get_size(world, &ranks);
    if (wait) sleep((unsigned)wait);
    char host[64] = "", *hosts = calloc((size_t)ranks, sizeof host);
    gethostname(host, sizeof host - 1);
    gather(host, sizeof host, bytes, hosts, sizeof host, bytes, 0, world);
    if (rank == 0) {
        printf("# nThread 1 nGpus 1 minBytes %ld maxBytes %ld step: 2(factor) warmup iters: 1 iters: %ld agg iters: 1 "
               "validation: 1 graph: 0\n#\n# Using devices\n", begin, end, iterations);
        for (int at = 0; at < ranks; at++)
            printf("#  Rank %2d Group  0 Pid %6d on %10s device  0 [0x00] MPI\n", at, (int)getpid(), hosts + 64 * at);
        const char *debug = getenv("NCCL_DEBUG");
        if (debug && !strcmp(debug, "INFO")) printf("%s:%d:%d [0] NCCL INFO Using network Socket\n", host, (int)getpid(), (int)getpid());
        printf("#\n#%60sout-of-place%23sin-place\n", "", "");
        printf("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
               "busbw #wrong\n");
        printf("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
               "(GB/s)\n");
    }
    double total = 0, checksum = 0;
    long bad = 0, rows = 0;
    for (long size = begin; size <= end; size *= 2) {
        long count = size / (long)sizeof(float), wrong = 0, all_ranks = (long)ranks * (ranks + 1) / 2;
        float *mine = malloc((size_t)size), *result = malloc((size_t)size);
        for (long at = 0; at < count; at++) mine[at] = share_of(rank, at);
        reduce(mine, result, (int)count, floats, sum, world);
        barrier(world);
        double began = now();
        for (long at = 0; at < iterations; at++) reduce(mine, result, (int)count, floats, sum, world);
        double seconds = (now() - began) / (double)iterations;
        checksum = 0;
        for (long at = 0; at < count; at++) {
            wrong += result[at] != (float)(all_ranks * (at % 7 + 1));
            checksum += result[at];
        }
        double algbw = (double)size / seconds / 1e9, busbw = algbw * 2 * (ranks - 1) / ranks;
        if (rank == 0)
            printf("%12ld  %12ld     float     sum      -1  %7.1f  %6.3f  %6.3f  %5ld  %7.1f  %6.3f  %6.3f  %5ld\n", size,
                   count, seconds * 1e6, algbw, busbw, wrong, seconds * 1e6, algbw, busbw, wrong);
        total += busbw, bad += wrong, rows++;
        free(mine), free(result);
    }
    if (rank == 0) {
        printf("# Out of bounds values : %ld %s\n# Avg bus bandwidth    : %.6f\n#\n", bad, bad ? "FAILED" : "OK",
               total / (double)rows);
        printf("# checksum %.0f of %d ranks on", checksum, ranks);
        for (int at = 0; at < ranks; at++) printf(" %s", hosts + 64 * at);
        printf("\n");
    }
    finalize();
    return 0;
}
