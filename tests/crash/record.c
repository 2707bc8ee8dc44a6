/* SPDX-License-Identifier: MIT */
/*
 * A library for LD_PRELOAD that records in the file $RECORD_LOG all that a program does to files; see record.h. The
 * record of a change follows the change.
 */
#undef _FILE_OFFSET_BITS /* it would give both functions of a pair the name of one */
#include "tests/crash/record.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define LOG_FD 777 /* out of the program's way */

static bool recording;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("RECORD_LOG");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    recording = fd >= 0 && dup3(fd, LOG_FD, O_CLOEXEC) >= 0;
}

/* One write(2) for each record, so that those of several threads and processes do not mix. */
static void put(struct record *r, const char *name, const char *from, const struct iovec *data, int n_data)
{
    struct iovec v[3 + 8] = {{r, sizeof(*r)}};
    int error = errno, n = 3;
    if (!recording || n_data > 8) return;
    r->name = (uint8_t)(name ? strlen(name) : 0);
    r->from = (uint8_t)(from ? strlen(from) : 0);
    r->thread = (uint32_t)syscall(SYS_gettid);
    v[1] = (struct iovec){(void *)(uintptr_t)name, r->name};
    v[2] = (struct iovec){(void *)(uintptr_t)from, r->from};
    size_t left = r->bytes;
    for (int i = 0; i < n_data && left; i++) {
        size_t take = data[i].iov_len < left ? data[i].iov_len : left;
        v[n++] = (struct iovec){data[i].iov_base, take};
        left -= take;
    }
    r->size = (uint32_t)(sizeof(*r) + r->name + r->from + r->bytes);
    if (syscall(SYS_writev, LOG_FD, v, n) != (long)r->size) recording = false;
    errno = error;
}

/* The inode number of a file or directory; 0: neither. */
static uint64_t inode(int fd)
{
    struct stat st;
    int error = errno;
    uint64_t found = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) ? st.st_ino : 0;
    errno = error;
    return found;
}

static uint64_t inode_at(int dir, const char *name)
{
    struct stat st;
    int error = errno;
    uint64_t found = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ino : 0;
    errno = error;
    return found;
}

/* The directory of @path below @dir; *name is the last part of the path. */
static uint64_t directory(int dir, const char *path, const char **name)
{
    char parent[4096];
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash) return dir == AT_FDCWD ? inode_at(AT_FDCWD, ".") : inode(dir);
    snprintf(parent, sizeof(parent), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return inode_at(dir, parent);
}

static void named(enum record_op op, int dir, const char *path, const char *from, uint64_t file)
{
    const char *name;
    struct record r = {.op = (uint16_t)op, .file = file};
    if (!recording) return;
    r.dir = directory(dir, path, &name);
    if (from && strrchr(from, '/')) from = strrchr(from, '/') + 1;
    put(&r, name, from, NULL, 0);
}

static void sized(int fd, uint64_t size)
{
    struct record r = {.op = RECORD_SIZE, .at = size};
    if (recording && (r.file = inode(fd))) put(&r, NULL, NULL, NULL, 0);
}

/* --- names --- */

static int open_recorded(int dir, const char *path, int flags, mode_t mode)
{
    bool made = recording && flags & O_CREAT && !inode_at(dir, path);
    int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && made) named(RECORD_CREATE, dir, path, NULL, inode(fd));
    if (fd >= 0 && flags & O_TRUNC && !made) sized(fd, 0);
    return fd;
}

#define MODE(last)                                                                                                     \
    mode_t mode = 0;                                                                                                   \
    va_list more;                                                                                                      \
    va_start(more, last);                                                                                              \
    if (last & O_CREAT) mode = (mode_t)va_arg(more, unsigned);                                                         \
    va_end(more)

EXPORT int openat(int dir, const char *path, int flags, ...)
{
    MODE(flags);
    return open_recorded(dir, path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
    MODE(flags);
    return open_recorded(dir, path, flags, mode);
}

EXPORT int open(const char *path, int flags, ...)
{
    MODE(flags);
    return open_recorded(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    MODE(flags);
    return open_recorded(AT_FDCWD, path, flags, mode);
}

EXPORT int mkdirat(int dir, const char *path, mode_t mode)
{
    int r = (int)syscall(SYS_mkdirat, dir, path, mode);
    if (r == 0) named(RECORD_MKDIR, dir, path, NULL, inode_at(dir, path));
    return r;
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

EXPORT int linkat(int from_dir, const char *from, int dir, const char *path, int flags)
{
    int r = (int)syscall(SYS_linkat, from_dir, from, dir, path, flags);
    if (r == 0) named(RECORD_LINK, dir, path, NULL, inode_at(dir, path));
    return r;
}

EXPORT int renameat2(int from_dir, const char *from, int dir, const char *path, unsigned flags)
{
    int r = (int)syscall(SYS_renameat2, from_dir, from, dir, path, flags);
    if (r == 0) named(RECORD_RENAME, dir, path, from, inode_at(dir, path));
    return r;
}

EXPORT int renameat(int from_dir, const char *from, int dir, const char *path)
{
    int r = (int)syscall(SYS_renameat, from_dir, from, dir, path);
    if (r == 0) named(RECORD_RENAME, dir, path, from, inode_at(dir, path));
    return r;
}

EXPORT int rename(const char *from, const char *path)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, path);
}

EXPORT int unlinkat(int dir, const char *path, int flags)
{
    int r = (int)syscall(SYS_unlinkat, dir, path, flags);
    if (r == 0) named(RECORD_UNLINK, dir, path, NULL, 0);
    return r;
}

/* --- contents --- */

static void wrote(int fd, ssize_t n, off_t at, const struct iovec *v, int n_v)
{
    struct record r = {.op = RECORD_WRITE, .bytes = (uint32_t)(n > 0 ? n : 0)};
    struct stat st;
    int error = errno;
    if (!recording || n <= 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        errno = error;
        return;
    }
    r.file = st.st_ino;
    r.at = (uint64_t)(at >= 0 ? at : lseek(fd, 0, SEEK_CUR) - n);
    put(&r, NULL, NULL, v, n_v);
}

EXPORT ssize_t write(int fd, const void *p, size_t n)
{
    ssize_t r = syscall(SYS_write, fd, p, n);
    wrote(fd, r, -1, &(struct iovec){(void *)(uintptr_t)p, n}, 1);
    return r;
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
    ssize_t r = syscall(SYS_writev, fd, v, n);
    wrote(fd, r, -1, v, n);
    return r;
}

EXPORT ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    ssize_t r = syscall(SYS_pwrite64, fd, p, n, at);
    wrote(fd, r, at, &(struct iovec){(void *)(uintptr_t)p, n}, 1);
    return r;
}

EXPORT ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return pwrite(fd, p, n, at);
}

EXPORT int ftruncate(int fd, off_t size)
{
    int r = (int)syscall(SYS_ftruncate, fd, size);
    if (r == 0) sized(fd, (uint64_t)size);
    return r;
}

EXPORT int ftruncate64(int fd, off_t size)
{
    return ftruncate(fd, size);
}

EXPORT int fallocate(int fd, int mode, off_t at, off_t n)
{
    struct stat st;
    int r = (int)syscall(SYS_fallocate, fd, mode, at, n);
    if (r == 0 && fstat(fd, &st) == 0) sized(fd, (uint64_t)st.st_size);
    return r;
}

EXPORT int fallocate64(int fd, int mode, off_t at, off_t n)
{
    return fallocate(fd, mode, at, n);
}

static int sync_recorded(int fd, long call)
{
    struct record r = {.op = RECORD_ASK, .file = inode(fd)};
    put(&r, NULL, NULL, NULL, 0);
    int result = (int)syscall(call, fd);
    r.op = RECORD_SYNC;
    if (result == 0) put(&r, NULL, NULL, NULL, 0);
    return result;
}

EXPORT int fsync(int fd)
{
    return sync_recorded(fd, SYS_fsync);
}

EXPORT int fdatasync(int fd)
{
    return sync_recorded(fd, SYS_fdatasync);
}
