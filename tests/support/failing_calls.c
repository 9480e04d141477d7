/* Loaded before the C library: the k-th call of one kind on files below a folder fails, or the k-th
   allocation ("malloc"), or it and all that follow ("memory"). Of kind "every" none fails, and all
   are counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static char kind[16], folder[4096];
static long left = -1, lasting = 0;
static const char *const KINDS[] = {"write", "fsync", "open", "rename", "fork", "malloc", "memory"};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };
static long counts[N_KINDS];

void fail_arm(const char *what, const char *under, long at) {
    snprintf(kind, sizeof kind, "%s", what);
    snprintf(folder, sizeof folder, "%s", under);
    left = at;
    lasting = strcmp(what, "memory") == 0;
    if (*what) memset(counts, 0, sizeof counts);
}

static long *count_of(const char *what) {
    int at = 0;
    while (at < N_KINDS - 1 && strcmp(KINDS[at], what) != 0) at++;
    return &counts[at];
}

long fail_count(const char *what) { return *count_of(what); }

static int asked(const char *what) {
    return folder[0] && (strcmp(kind, what) == 0 || strcmp(kind, "every") == 0);
}

static int below(const char *path) {
    /* Commands run in the folder. */
    return path && (path[0] != '/' || strncmp(path, folder, strlen(folder)) == 0);
}

static int due(const char *what, const char *path) {
    if (!asked(what) || (path && !below(path))) return 0;
    ++*count_of(what);
    if (left <= 0 || --left > 0) return 0;
    left = lasting;
    return 1;
}

static int due_for(const char *what, int fd) {
    char link[64], path[4096];
    if (!asked(what)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return due(what, path);
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL(code) do { errno = code; return -1; } while (0)

ssize_t write(int fd, const void *data, size_t n) {
    REAL(write);
    if (due_for("write", fd)) FAIL(ENOSPC);
    return real(fd, data, n);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    REAL(pwrite64);
    if (due_for("write", fd)) FAIL(ENOSPC);
    return real(fd, data, n, at);
}
int fsync(int fd) {
    REAL(fsync);
    if (due_for("fsync", fd)) FAIL(EIO);
    return real(fd);
}
int fdatasync(int fd) {
    REAL(fdatasync);
    if (due_for("fsync", fd)) FAIL(EIO);
    return real(fd);
}
int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    if (due_for("write", fd)) FAIL(EIO);
    return real(fd, size);
}
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    REAL(open64);
    if (due("open", path)) FAIL(EMFILE);
    return real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    REAL(open);
    if (due("open", path)) FAIL(EMFILE);
    return real(path, flags, mode);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    if (due("rename", to)) FAIL(EIO);
    return real(from, to);
}
pid_t fork(void) {
    REAL(fork);
    if (due("fork", NULL)) FAIL(EAGAIN);
    return real();
}
/* Its caller's frame must outlive the child, which that of a wrapper does not. */
pid_t vfork(void) { return fork(); }

/* Looking these up by name would allocate. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
#define FAIL_ALLOCATION(value) \
    if (due("malloc", NULL) || due("memory", NULL)) { errno = ENOMEM; return value; }

void *malloc(size_t n) {
    FAIL_ALLOCATION(NULL);
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    FAIL_ALLOCATION(NULL);
    return __libc_calloc(n, size);
}
void *realloc(void *old, size_t n) {
    FAIL_ALLOCATION(NULL);
    return __libc_realloc(old, n);
}
void *mmap(void *at, size_t n, int access, int flags, int fd, off_t from) {
    REAL(mmap);
    FAIL_ALLOCATION(MAP_FAILED);
    return real(at, n, access, flags, fd, from);
}
void *mmap64(void *at, size_t n, int access, int flags, int fd, off64_t from) {
    return mmap(at, n, access, flags, fd, from);
}
