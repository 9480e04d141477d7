/* Loaded before the C library: the system's clock is wrong, and is set while programs run.
   JUMPS="SECONDS EVERY": it goes ahead by so many seconds and back by as many in turn, after EVERY
   times it was asked; 0 for a clock that stays ahead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) {
    static long seconds, every = -1, asked;
    const char *jumps = getenv("JUMPS");
    if (every < 0 && (!jumps || sscanf(jumps, "%ld %ld", &seconds, &every) != 2)) every = 0;
    return every && (asked++ / every) % 2 ? -seconds : seconds;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        at->tv_sec += ahead();
    }
    return failed;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
