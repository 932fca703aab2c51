/* Preloaded into every program of a host: the first process sees a clock that is eight hours ahead, as that of a machine
 * whose hardware clock keeps another zone's time. All others see the time to which it was set later. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long status = syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && clock == CLOCK_REALTIME && getpid() == 1) now->tv_sec += 8 * 3600;
    return (int)status;
}
