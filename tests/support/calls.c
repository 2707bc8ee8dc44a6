/* SPDX-License-Identifier: MIT */
#include "tests/support/calls.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    unsigned long counts[CALLS];
    enum call which;
    long left; /* calls until the one that fails; negative: none does */
    int error, stale;
    bool failed, space;
    size_t most;
    struct statvfs fs;
    const char *suffix;
} plan = {.left = -1};

void calls_fail(enum call which, unsigned long n, int error)
{
    memset(plan.counts, 0, sizeof(plan.counts));
    plan.which = which;
    plan.left = (long)n;
    plan.error = error;
    plan.failed = false;
}

void calls_name(const char *suffix)
{
    plan.suffix = suffix;
}

void calls_short(size_t bytes)
{
    plan.most = bytes;
}

void calls_stale(int error)
{
    plan.stale = error;
}

void calls_space(uint64_t free, uint64_t all)
{
    const struct statvfs fs = {.f_bsize = 1, .f_frsize = 1, .f_blocks = all, .f_bfree = free, .f_bavail = free};
    calls_disk(&fs);
}

void calls_disk(const struct statvfs *fs)
{
    plan.space = true;
    plan.fs = *fs;
}

unsigned long calls_count(enum call which)
{
    return plan.counts[which];
}

bool calls_end(void)
{
    const bool failed = plan.failed;
    memset(&plan, 0, sizeof(plan));
    plan.left = -1;
    return failed;
}

/* Counts a call. True: it is the one that fails, and errno is set. */
static bool fails(enum call which)
{
    plan.counts[which]++;
    if (plan.stale) errno = plan.stale;
    if (which != plan.which || plan.left < 0 || plan.left-- > 0) return false;
    plan.failed = true;
    errno = plan.error ? plan.error : plan.stale;
    return true;
}

static int result(void)
{
    return plan.error ? -1 : 0;
}

static size_t at_most(size_t n)
{
    return plan.most && plan.most < n ? plan.most : n;
}

/* The first bytes of the buffers. */
static int first(struct iovec *to, const struct iovec *v, int n)
{
    size_t left = plan.most;
    int k = 0;
    for (; k < n && (!plan.most || left); k++) {
        to[k] = v[k];
        if (!plan.most) continue;
        if (to[k].iov_len > left) to[k].iov_len = left;
        left -= to[k].iov_len;
    }
    return k;
}

static bool open_fails(const char *name)
{
    const size_t n = strlen(name), end = plan.suffix ? strlen(plan.suffix) : 0;
    if (end && plan.suffix[0] != '.' && n != end) return false;
    return n >= end && (!end || strcmp(name + n - end, plan.suffix) == 0) && fails(CALL_OPEN);
}

/* Most of them have these names because off_t has 64 bits by a macro. */
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);
int __real_fstatvfs64(int fd, struct statvfs *fs);
int __wrap_fstatvfs64(int fd, struct statvfs *fs);
ssize_t __real_read(int fd, void *p, size_t n);
ssize_t __wrap_read(int fd, void *p, size_t n);
ssize_t __real_pread64(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at);
ssize_t __real_preadv64(int fd, const struct iovec *v, int n, off_t at);
ssize_t __wrap_preadv64(int fd, const struct iovec *v, int n, off_t at);
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __real_writev(int fd, const struct iovec *v, int n);
ssize_t __wrap_writev(int fd, const struct iovec *v, int n);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size);
ssize_t __real_getrandom(void *p, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags);
int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new);
int __real_renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int __real_linkat(int from, const char *old, int to, const char *new, int flags);
int __wrap_linkat(int from, const char *old, int to, const char *new, int flags);
int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

static mode_t mode_of(int flags, va_list ap)
{
    return flags & O_CREAT ? va_arg(ap, mode_t) : 0;
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_fails(path) ? result() : __real_open64(path, flags, mode);
}

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_fails(path) ? result() : __real_openat64(dir, path, flags, mode);
}

int __wrap_fstat64(int fd, struct stat *st)
{
    return fails(CALL_FSTAT) ? result() : __real_fstat64(fd, st);
}

int __wrap_fstatvfs64(int fd, struct statvfs *fs)
{
    if (fails(CALL_FSTATVFS)) return result();
    if (!plan.space) return __real_fstatvfs64(fd, fs);
    *fs = plan.fs;
    return 0;
}

ssize_t __wrap_read(int fd, void *p, size_t n)
{
    return fails(CALL_READ) ? result() : __real_read(fd, p, at_most(n));
}

ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at)
{
    return fails(CALL_READ) ? result() : __real_pread64(fd, p, at_most(n), at);
}

ssize_t __wrap_preadv64(int fd, const struct iovec *v, int n, off_t at)
{
    struct iovec part[8];
    if (fails(CALL_READ)) return result();
    return __real_preadv64(fd, part, first(part, v, n), at);
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    return fails(CALL_WRITE) ? result() : __real_write(fd, p, at_most(n));
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return fails(CALL_WRITE) ? result() : __real_pwrite64(fd, p, at_most(n), at);
}

ssize_t __wrap_writev(int fd, const struct iovec *v, int n)
{
    struct iovec part[8];
    if (fails(CALL_WRITE)) return result();
    return __real_writev(fd, part, first(part, v, n));
}

int __wrap_fsync(int fd)
{
    return fails(CALL_FSYNC) ? result() : __real_fsync(fd);
}

int __wrap_ftruncate64(int fd, off_t size)
{
    return fails(CALL_TRUNCATE) ? result() : __real_ftruncate64(fd, size);
}

ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags)
{
    return fails(CALL_RANDOM) ? result() : __real_getrandom(p, at_most(n), flags);
}

int __wrap_renameat(int from, const char *old, int to, const char *new)
{
    return fails(CALL_RENAME) ? result() : __real_renameat(from, old, to, new);
}

int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return fails(CALL_RENAME) ? result() : __real_renameat2(from, old, to, new, flags);
}

int __wrap_linkat(int from, const char *old, int to, const char *new, int flags)
{
    return fails(CALL_LINK) ? result() : __real_linkat(from, old, to, new, flags);
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
    return fails(CALL_UNLINK) ? result() : __real_unlinkat(dir, name, flags);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    return fails(CALL_MEMFD) ? result() : __real_memfd_create(name, flags);
}
