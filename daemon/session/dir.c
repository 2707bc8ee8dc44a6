/* SPDX-License-Identifier: MIT */
#include "daemon/session/dir.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK "lock"

/* 0: the directory is ours and not writable by others. @path/@sub: its name, for the message. */
static int check_owner(int fd, const char *path, const char *sub)
{
    struct stat st;
    const char *slash = *sub ? "/" : "";
    if (fstat(fd, &st) < 0) return error_in(error_origin(-errno), "sessions in %s%s%s", path, slash, sub);
    if (st.st_uid != geteuid())
        return error_say(-EPERM, "%s%s%s belongs to uid %" PRIu32 ", not to %" PRIu32 ": no sessions are stored there",
                         path, slash, sub, (uint32_t)st.st_uid, (uint32_t)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return error_say(-EPERM, "%s%s%s is writable by others (mode %03o): no sessions are stored there", path, slash,
                         sub, (unsigned)st.st_mode & 0777);
    return 0;
}

/* Sync the directory, which may have entries of a killed process, and its parent, where it may be a new entry. */
static void sync_entries(int fd)
{
    (void)!fsync(fd);
    _cleanup_(closep) int parent = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)!fsync(parent); /* an error is ignored, also that of no descriptor */
}

int session_dir_open(int *dir, int *lock, const char *path)
{
    int r = paths_make(path);
    if (r < 0) return r;
    _cleanup_(closep) int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) return error_in(error_origin(-errno), "sessions in %s", path);
    r = check_owner(dir_fd, path, "");
    if (r < 0) return r;
    _cleanup_(closep) int lock_fd = openat(dir_fd, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (lock_fd < 0 && errno == EROFS) lock_fd = openat(dir_fd, LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock_fd < 0) return error_in(error_origin(errno == ENOENT ? -EROFS : -errno), "sessions in %s: " LOCK, path);
    if (flock(lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK) return error_in(error_origin(-errno), "sessions in %s: " LOCK, path);
        return error_say(-EBUSY, "another hobd uses the sessions in %s (it holds the lock %s/" LOCK ")", path, path);
    }
    sync_entries(dir_fd);
    *dir = dir_fd;
    *lock = lock_fd;
    dir_fd = lock_fd = -1;
    return 0;
}

int session_dir_of(int dir, const char *path, uid_t uid, bool make)
{
    char name[16];
    snprintf(name, sizeof(name), "%" PRIu32, (uint32_t)uid);
    int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    _cleanup_(closep) int fd = openat(dir, name, how);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST) return error_origin(-errno);
        if (fsync(dir) < 0) {
            int r = error_origin(-errno);
            unlinkat(dir, name, AT_REMOVEDIR); /* so that the next save tries again */
            return r;
        }
        fd = openat(dir, name, how);
    }
    if (fd < 0) return error_origin(-errno);
    int r = check_owner(fd, path, name);
    if (r < 0) return r;
    r = fd;
    fd = -1;
    return r;
}
