/* SPDX-License-Identifier: MIT */
/* The functions that libfault.so replaces; fault-functions.h has their errors. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include "tests/faults/fault.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Before fault_next() can answer, dlsym() itself may allocate: from here, which is never freed. */
static _Alignas(16) char early[1 << 16];
static size_t early_used;
static bool finding;

static void *from_early(size_t n)
{
    n = (n + 15) & ~(size_t)15;
    size_t at = __atomic_fetch_add(&early_used, n, __ATOMIC_RELAXED);
    return at + n <= sizeof early ? early + at : NULL;
}

static void *next_malloc, *next_calloc, *next_realloc, *next_free;

static bool find_memory(void)
{
    if (next_free) return true;
    if (finding) return false;
    finding = true;
    next_malloc = fault_next("malloc");
    next_calloc = fault_next("calloc");
    next_realloc = fault_next("realloc");
    next_free = fault_next("free");
    finding = false;
    return true;
}

void *malloc(size_t n)
{
    if (!find_memory()) return from_early(n);
    return fault_now(FAULT_malloc) ? NULL : NEXT(malloc)(n);
}

void *calloc(size_t n, size_t size)
{
    if (!find_memory()) return from_early(n * size);
    return fault_now(FAULT_calloc) ? NULL : NEXT(calloc)(n, size);
}

void *realloc(void *p, size_t n)
{
    if (!find_memory()) return NULL;
    return fault_now(FAULT_realloc) ? NULL : NEXT(realloc)(p, n);
}

void free(void *p)
{
    if (((char *)p >= early && (char *)p < early + sizeof early) || !find_memory()) return;
    NEXT(free)(p);
}

WRAP(void *, reallocarray, NULL, (void *p, size_t n, size_t size), (p, n, size))
WRAP(void *, aligned_alloc, NULL, (size_t a, size_t n), (a, n))
WRAP(int, posix_memalign, ENOMEM, (void **p, size_t a, size_t n), (p, a, n))
WRAP(void *, mmap, MAP_FAILED, (void *p, size_t n, int prot, int flags, int fd, off_t at), (p, n, prot, flags, fd, at))
WRAP_AS(mmap, void *, mmap64, MAP_FAILED, (void *p, size_t n, int prot, int flags, int fd, off64_t at),
        (p, n, prot, flags, fd, at))
WRAP(int, mprotect, -1, (void *p, size_t n, int prot), (p, n, prot))
WRAP(int, madvise, -1, (void *p, size_t n, int advice), (p, n, advice))

static void *next_mremap;

void *mremap(void *p, size_t n, size_t m, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    void *at = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    return fault_now(FAULT_mremap) ? MAP_FAILED : NEXT(mremap)(p, n, m, flags, at);
}

#define MODE_OF(flags)                                                                                                 \
    va_list list;                                                                                                      \
    va_start(list, flags);                                                                                             \
    mode_t mode = (flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;                      \
    va_end(list)

static void *next_open, *next_open64, *next_openat, *next_openat64;

int open(const char *path, int flags, ...)
{
    MODE_OF(flags);
    return fault_now(FAULT_open) ? -1 : NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags);
    return fault_now(FAULT_open) ? -1 : NEXT(open64)(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    MODE_OF(flags);
    return fault_now(FAULT_openat) ? -1 : NEXT(openat)(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    MODE_OF(flags);
    return fault_now(FAULT_openat) ? -1 : NEXT(openat64)(dir, path, flags, mode);
}

WRAP(FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode))
WRAP_AS(fopen, FILE *, fopen64, NULL, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fdopen, NULL, (int fd, const char *mode), (fd, mode))
WRAP(DIR *, opendir, NULL, (const char *path), (path))
WRAP(DIR *, fdopendir, NULL, (int fd), (fd))
WRAP(int, socket, -1, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, accept4, -1, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
WRAP(int, epoll_create1, -1, (int flags), (flags))
WRAP(int, eventfd, -1, (unsigned n, int flags), (n, flags))
WRAP(int, timerfd_create, -1, (clockid_t clock, int flags), (clock, flags))
WRAP(int, signalfd, -1, (int fd, const sigset_t *set, int flags), (fd, set, flags))
WRAP(int, memfd_create, -1, (const char *name, unsigned flags), (name, flags))
WRAP(int, pipe2, -1, (int fds[2], int flags), (fds, flags))
WRAP(ssize_t, getrandom, -1, (void *p, size_t n, unsigned flags), (p, n, flags))

/* Eight bytes are a counter of an eventfd or timerfd, 128 a signal of a signalfd: these fail only with EAGAIN. */
static bool is_counter(size_t n)
{
    return n == 8 || n == 128;
}

static void *next_read, *next_write;

ssize_t read(int fd, void *p, size_t n)
{
    return !is_counter(n) && fault_now(FAULT_read) ? -1 : NEXT(read)(fd, p, fault_short(n));
}

ssize_t write(int fd, const void *p, size_t n)
{
    /* Messages on standard error are what a program says of a fault. */
    return fd != STDERR_FILENO && !is_counter(n) && fault_now(FAULT_write) ? -1 : NEXT(write)(fd, p, fault_short(n));
}

WRAP(ssize_t, pread, -1, (int fd, void *p, size_t n, off_t at), (fd, p, fault_short(n), at))
WRAP_AS(pread, ssize_t, pread64, -1, (int fd, void *p, size_t n, off64_t at), (fd, p, fault_short(n), at))
WRAP(ssize_t, pwrite, -1, (int fd, const void *p, size_t n, off_t at), (fd, p, fault_short(n), at))
WRAP_AS(pwrite, ssize_t, pwrite64, -1, (int fd, const void *p, size_t n, off64_t at), (fd, p, fault_short(n), at))

/* The vector that a call moves: the first part, if it is shortened. */
static int shorten(const struct iovec *v, int n, struct iovec *first)
{
    if (n <= 0) return n;
    *first = *v;
    first->iov_len = fault_short(v->iov_len);
    if (first->iov_len != v->iov_len) return 1;
    *first = (struct iovec){0};
    return n;
}

#define VECTOR                                                                                                         \
    struct iovec first;                                                                                                \
    int m = shorten(v, n, &first);                                                                                     \
    if (m == 1 && first.iov_base) v = &first

static void *next_readv, *next_writev, *next_preadv, *next_preadv64;

ssize_t readv(int fd, const struct iovec *v, int n)
{
    VECTOR;
    return fault_now(FAULT_readv) ? -1 : NEXT(readv)(fd, v, m);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    VECTOR;
    return fault_now(FAULT_writev) ? -1 : NEXT(writev)(fd, v, m);
}

ssize_t preadv(int fd, const struct iovec *v, int n, off_t at)
{
    VECTOR;
    return fault_now(FAULT_preadv) ? -1 : NEXT(preadv)(fd, v, m, at);
}

ssize_t preadv64(int fd, const struct iovec *v, int n, off64_t at)
{
    VECTOR;
    return fault_now(FAULT_preadv) ? -1 : NEXT(preadv64)(fd, v, m, at);
}

WRAP(int, fsync, -1, (int fd), (fd))
WRAP(int, fdatasync, -1, (int fd), (fd))
WRAP(int, ftruncate, -1, (int fd, off_t n), (fd, n))
WRAP_AS(ftruncate, int, ftruncate64, -1, (int fd, off64_t n), (fd, n))
WRAP(int, fallocate, -1, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
WRAP_AS(fallocate, int, fallocate64, -1, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n))
WRAP(int, rename, -1, (const char *from, const char *to), (from, to))
WRAP(int, renameat, -1, (int a, const char *from, int b, const char *to), (a, from, b, to))
WRAP(int, renameat2, -1, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
WRAP(int, linkat, -1, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
WRAP(int, unlink, -1, (const char *path), (path))
WRAP(int, unlinkat, -1, (int dir, const char *path, int flags), (dir, path, flags))
WRAP(int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, -1, (int dir, const char *path, mode_t mode), (dir, path, mode))
WRAP(int, fchmod, -1, (int fd, mode_t mode), (fd, mode))
WRAP(int, futimens, -1, (int fd, const struct timespec times[2]), (fd, times))
WRAP(int, flock, -1, (int fd, int how), (fd, how))
WRAP(int, fstat, -1, (int fd, struct stat *st), (fd, st))
WRAP_AS(fstat, int, fstat64, -1, (int fd, struct stat64 *st), (fd, st))
WRAP(int, fstatat, -1, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))
WRAP_AS(fstatat, int, fstatat64, -1, (int dir, const char *path, struct stat64 *st, int flags), (dir, path, st, flags))
WRAP(int, stat, -1, (const char *path, struct stat *st), (path, st))
WRAP_AS(stat, int, stat64, -1, (const char *path, struct stat64 *st), (path, st))
WRAP_AS(stat, int, lstat, -1, (const char *path, struct stat *st), (path, st))
WRAP_AS(stat, int, lstat64, -1, (const char *path, struct stat64 *st), (path, st))

WRAP(int, connect, -1, (int fd, __CONST_SOCKADDR_ARG a, socklen_t n), (fd, a, n))
WRAP(int, bind, -1, (int fd, __CONST_SOCKADDR_ARG a, socklen_t n), (fd, a, n))
WRAP(int, listen, -1, (int fd, int n), (fd, n))
WRAP(ssize_t, send, -1, (int fd, const void *p, size_t n, int flags), (fd, p, fault_short(n), flags))
WRAP(ssize_t, sendto, -1, (int fd, const void *p, size_t n, int flags, __CONST_SOCKADDR_ARG a, socklen_t len),
     (fd, p, n, flags, a, len))
WRAP(ssize_t, sendmsg, -1, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
WRAP(ssize_t, recv, -1, (int fd, void *p, size_t n, int flags), (fd, p, flags &MSG_PEEK ? n : fault_short(n), flags))

static void *next_recvmsg;

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    struct iovec v;
    if (fault_now(FAULT_recvmsg)) return -1;
    if (m->msg_iovlen != 1 || flags & MSG_PEEK) return NEXT(recvmsg)(fd, m, flags);
    struct iovec *whole = m->msg_iov;
    v = (struct iovec){whole->iov_base, fault_short(whole->iov_len)};
    m->msg_iov = &v;
    ssize_t r = NEXT(recvmsg)(fd, m, flags);
    m->msg_iov = whole;
    return r;
}

/* Only to add a descriptor takes memory and counts against a limit. sd-event relies on the other operations. */
static void *next_epoll_ctl;

int epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
    return op == EPOLL_CTL_ADD && fault_now(FAULT_epoll_ctl) ? -1 : NEXT(epoll_ctl)(fd, op, of, event);
}

WRAP(int, epoll_wait, -1, (int ep, struct epoll_event *e, int n, int ms), (ep, e, n, ms))
WRAP(int, poll, -1, (struct pollfd * p, nfds_t n, int ms), (p, n, ms))
WRAP_AS(poll, int, ppoll, -1, (struct pollfd * p, nfds_t n, const struct timespec *t, const sigset_t *s), (p, n, t, s))
WRAP(int, socketpair, -1, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds))
WRAP(int, pthread_create, EAGAIN, (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *p), (t, a, f, p))
WRAP(int, posix_spawn, EAGAIN,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *f, const posix_spawnattr_t *a,
      char *const argv[], char *const env[]),
     (pid, path, f, a, argv, env))
WRAP_AS(posix_spawn, int, posix_spawnp, EAGAIN,
        (pid_t * pid, const char *path, const posix_spawn_file_actions_t *f, const posix_spawnattr_t *a,
         char *const argv[], char *const env[]),
        (pid, path, f, a, argv, env))

static void *next_clock_gettime, *next_time;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int r = NEXT(clock_gettime)(clock, t);
    if (r != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) || !fault_clock()) return r;
    int64_t ns = t->tv_nsec + fault_clock() % 1000000000;
    t->tv_sec += fault_clock() / 1000000000 + (ns >= 1000000000) - (ns < 0);
    t->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
    return 0;
}

time_t time(time_t *at)
{
    time_t t = NEXT(time)(NULL) + (time_t)(fault_clock() / 1000000000);
    if (at) *at = t;
    return t;
}
