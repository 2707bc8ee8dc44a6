/* SPDX-License-Identifier: MIT */
#include "daemon/cache/disk/disk.h"
#include "daemon/cache/disk/disk-state.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include "libcommon/random.h"
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>

#define SECOND       1000000000
#define RESERVE_PART 20    /* the reserve is at most one part in 20 of the file system */
#define PART_TRIES   10000 /* a temporary name exists already only if a fork of this process made it */

DEFINE_CLEANUP(struct disk *, disk_close)

static uint64_t now(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* --- open and close --- */

/* Checks that the directory belongs to this user alone, and locks it. */
static int claim(const struct disk *d)
{
    struct stat st;
    if (fstat(d->dir, &st) < 0) return error_say(-errno, "%s: %s", d->path, strerror(errno));
    if (st.st_uid != geteuid())
        return error_say(-EPERM, "%s belongs to uid %u: hobd stores KV blocks only in a directory of its own user",
                         d->path, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return error_say(-EPERM, "%s is writable by others (mode %03o); to fix it: chmod go-w", d->path,
                         (unsigned)st.st_mode & 0777);
    if (faccessat(d->dir, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0)
        return error_say(-errno, "cannot write to %s: %s", d->path, strerror(errno));
    if (flock(d->dir, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EWOULDBLOCK) return error_say(-EBUSY, "%s is in use by another hobd", d->path);
    return error_say(-errno, "cannot lock %s: %s", d->path, strerror(errno));
}

int disk_open(struct disk **out, const struct disk_config *c)
{
    uint64_t file, unit = c->unit ? c->unit : 1;
    if (__builtin_add_overflow(c->payload, sizeof(struct disk_header), &file) || file > SSIZE_MAX - unit)
        return error_say(-EINVAL, "a KV block of %" PRIu64 " bytes is too large for a file", c->payload);
    int r = paths_make(c->dir);
    if (r) return r;
    _cleanup_(disk_closep) struct disk *d = malloc(sizeof(*d));
    if (!d) return -ENOMEM;
    *d =
        (struct disk){.dir = -1, .payload = c->payload, .unit = unit, .bytes_max = c->bytes_max, .reserve = c->reserve};
    d->file = disk_rounded(d, file);
    for (uint32_t g = 1; g < KV_GROUPS_MAX; g++) d->parts_bytes[g] = c->parts[g];
    pthread_mutex_init(&d->lock, NULL);
    memcpy(d->identity, c->identity, sizeof(d->identity));
    disk_rate_init(&d->rate, d->file, c->bytes_a_minute);
    d->path = strdup(c->dir);
    if (!d->path) return -ENOMEM;
    r = random_fill(&d->run, sizeof(d->run));
    if (r < 0) return r;
    d->dir = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir < 0) return error_say(-errno, "cannot open %s: %s", d->path, strerror(errno));
    r = claim(d);
    if (r) return r;
    /* The list sets the count of files, so that the budget holds before the first scan. */
    _cleanup_(freep) struct disk_entry *entries = NULL;
    size_t n;
    r = disk_list(d, &entries, &n);
    if (!r) *out = steal(d);
    return r;
}

struct disk *disk_close(struct disk *d)
{
    if (!d) return NULL;
    assert(!d->writing);
    if (d->dir >= 0) close(d->dir);
    pthread_mutex_destroy(&d->lock);
    free(d->path);
    free(d);
    return NULL;
}

/* --- order of last use --- */

int64_t disk_saw(struct disk *d, const struct timespec *mtime)
{
    int64_t s = mtime->tv_sec, most = INT64_MAX / SECOND - 1;
    int64_t ns = s < 0 ? 0 : s > most ? most * SECOND : s * SECOND + mtime->tv_nsec;
    pthread_mutex_lock(&d->lock);
    if (d->newest < ns) d->newest = ns;
    pthread_mutex_unlock(&d->lock);
    return ns;
}

void disk_stamp(struct disk *d, int fd)
{
    int64_t clock = (int64_t)now(CLOCK_REALTIME);
    pthread_mutex_lock(&d->lock);
    int64_t ns = d->newest = clock > d->newest ? clock : d->newest + 1;
    pthread_mutex_unlock(&d->lock);
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND}};
    futimens(fd, t); /* on an error the block looks older than it is */
}

/* --- budget --- */

/* Computes how many bytes the files may have: at most bytes_max and at most a tenth of the space that would be free
 * without them, and they leave the reserve free. */
static int bytes_most(struct disk *d, uint64_t *out)
{
    struct statvfs fs;
    uint64_t space, ours, most, reserve, part;
    if (fstatvfs(d->dir, &fs) < 0) return error_say(-errno, "%s: %s", d->path, strerror(errno));
    pthread_mutex_lock(&d->lock);
    ours = d->bytes;
    most = d->bytes_max;
    reserve = d->reserve;
    pthread_mutex_unlock(&d->lock);
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &space) ||
        __builtin_add_overflow(space, ours, &space))
        space = UINT64_MAX;
    if (!__builtin_mul_overflow((uint64_t)fs.f_blocks / RESERVE_PART, (uint64_t)fs.f_frsize, &part) && part < reserve)
        reserve = part;
    if (space / 10 < most) most = space / 10;
    if (space <= reserve)
        most = 0;
    else if (space - reserve < most)
        most = space - reserve;
    *out = most;
    return 0;
}

void disk_limit(struct disk *d, uint64_t bytes_max, uint64_t reserve)
{
    pthread_mutex_lock(&d->lock);
    d->bytes_max = bytes_max;
    d->reserve = reserve;
    pthread_mutex_unlock(&d->lock);
}

uint64_t disk_excess(struct disk *d)
{
    uint64_t max = 0, over = 0;
    if (bytes_most(d, &max) < 0) return 0;
    pthread_mutex_lock(&d->lock);
    uint64_t all = d->bytes + d->writing * d->file;
    if (all > max) over = (all - max + d->file - 1) / d->file;
    if (over > d->files) over = d->files;
    pthread_mutex_unlock(&d->lock);
    return over;
}

int disk_room(struct disk *d, bool urgent)
{
    uint64_t max = 0;
    int r = bytes_most(d, &max);
    if (r) return r;
    pthread_mutex_lock(&d->lock);
    uint64_t all = d->bytes + d->writing * d->file;
    if (d->files && all > max)
        r = 1;
    else if (max < d->file)
        r = -ENOSPC;
    else if (!urgent && !disk_rate_ready(&d->rate, now(CLOCK_MONOTONIC)))
        r = 2;
    else if (all + d->file > max)
        r = d->files ? 1 : 2;
    pthread_mutex_unlock(&d->lock);
    if (r < 0) error_say(r, "%s: the disk is too full for a KV block of %" PRIu64 " bytes", d->path, d->file);
    return r;
}

/* --- write --- */

/* Makes an empty file under a temporary name. Returns its descriptor or -errno. */
static int make_part(struct disk *d, struct disk_name *name)
{
    for (int i = 0; i < PART_TRIES; i++) {
        pthread_mutex_lock(&d->lock);
        *name = disk_part_name(d->run, d->parts++);
        pthread_mutex_unlock(&d->lock);
        int fd = openat(d->dir, name->s, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST) return fd < 0 ? -errno : fd;
    }
    return -EEXIST;
}

/* A file is removed or replaced. */
static void uncount(struct disk *d, const struct stat *st)
{
    const uint64_t bytes = disk_file_counts(d, st);
    d->bytes = d->bytes > bytes ? d->bytes - bytes : 0;
    d->files -= d->files > 0;
}

/* Renames a temporary file to its final name and counts it. */
static int publish(struct disk *d, const char *part, const char *name)
{
    struct stat old, new;
    int r = 0;
    pthread_mutex_lock(&d->lock);
    bool replaced = fstatat(d->dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (fstatat(d->dir, part, &new, AT_SYMLINK_NOFOLLOW) < 0 || renameat(d->dir, part, d->dir, name) < 0) r = -errno;
    if (!r && replaced) uncount(d, &old);
    if (!r) {
        d->files++;
        d->bytes += disk_file_counts(d, &new);
        d->written += disk_file_counts(d, &new);
        disk_recount(d);
    }
    pthread_mutex_unlock(&d->lock);
    return r;
}

static int write_file(struct disk *d, const struct prefix_info *info, const void *payload)
{
    struct disk_head h;
    struct disk_name part, name = disk_block_name(info->id);
    const uint64_t bytes = disk_payload_bytes(d, info->lacks);
    disk_head_make(&h, d->identity, info, payload, bytes);
    _cleanup_(closep) int fd = make_part(d, &part);
    if (fd < 0) return error_say(fd, "cannot make a file in %s: %s", d->path, strerror(-fd));
    int r = disk_file_write(fd, &h, info->n_runs, payload, bytes);
    if (!r) {
        disk_stamp(d, fd);
        r = publish(d, part.s, name.s);
    }
    if (!r) return 0;
    unlinkat(d->dir, part.s, 0);
    return error_say(r, "cannot write %s/%s: %s", d->path, name.s, strerror(-r));
}

/* The rate counts whole payloads. */
static void spend(struct disk *d, uint64_t bytes)
{
    for (d->owed += bytes; d->owed >= d->file; d->owed -= d->file) disk_rate_spend(&d->rate, now(CLOCK_MONOTONIC));
}

int disk_write(struct disk *d, const struct prefix_info *info, const void *payload)
{
    uint64_t max = 0;
    int r = bytes_most(d, &max);
    if (r) return r;
    pthread_mutex_lock(&d->lock);
    bool full = d->bytes + (d->writing + 1) * d->file > max;
    if (!full) {
        d->writing++;
        spend(d, disk_rounded(d, sizeof(struct disk_header) + disk_payload_bytes(d, info->lacks)));
    }
    pthread_mutex_unlock(&d->lock);
    if (full) return error_say(-EDQUOT, "%s: the disk cache is full", d->path);
    r = write_file(d, info, payload);
    pthread_mutex_lock(&d->lock);
    d->writing--;
    pthread_mutex_unlock(&d->lock);
    return r;
}

/* --- read and remove --- */

int disk_read(struct disk *d, const struct prefix_info *info, void *payload)
{
    struct disk_name name = disk_block_name(info->id);
    struct disk_head have, want;
    struct stat st;
    const char *wrong;
    _cleanup_(closep) int fd = disk_file_open(d, name.s, &st, &wrong);
    if (fd == -ENOENT) {
        pthread_mutex_lock(&d->lock);
        d->astray = true;
        disk_recount(d);
        pthread_mutex_unlock(&d->lock);
        return error_say(fd, "%s/%s was removed", d->path, name.s);
    }
    if (fd < 0 && fd != -EBADMSG) return error_say(fd, "cannot open %s/%s: %s", d->path, name.s, strerror(-fd));
    const uint64_t bytes = disk_payload_bytes(d, info->lacks);
    if (!wrong && disk_file_runs(d, &st, info->lacks) != info->n_runs) wrong = "has other contents than were written";
    if (!wrong && !disk_file_read(fd, &have, info->n_runs, payload, bytes)) wrong = "cannot be read";
    if (!wrong) {
        disk_head_make(&want, d->identity, info, payload, bytes);
        if (memcmp(&have, &want, disk_head_bytes(info->n_runs)) != 0) wrong = "has other contents than were written";
    }
    if (wrong) {
        disk_drop(d, info->id, true);
        return error_say(-EBADMSG, "%s/%s %s", d->path, name.s, wrong);
    }
    disk_stamp(d, fd);
    pthread_mutex_lock(&d->lock);
    d->read += disk_file_counts(d, &st);
    pthread_mutex_unlock(&d->lock);
    return 0;
}

bool disk_drop(struct disk *d, struct prefix_id id, bool damaged)
{
    const struct disk_name name = disk_block_name(id);
    struct stat st;
    pthread_mutex_lock(&d->lock);
    bool removed = fstatat(d->dir, name.s, &st, AT_SYMLINK_NOFOLLOW) == 0 && unlinkat(d->dir, name.s, 0) == 0;
    if (removed) uncount(d, &st);
    if (removed && damaged) d->damaged++;
    /* A missing file was counted, and a damaged one may have another size than it was counted with. */
    d->astray = d->astray || !removed || damaged;
    disk_recount(d);
    pthread_mutex_unlock(&d->lock);
    return removed;
}

void disk_remove(struct disk *d, struct prefix_id id)
{
    disk_drop(d, id, false);
}

void disk_stats_get(const struct disk *c, struct disk_stats *out)
{
    struct disk *d = (struct disk *)c; /* only the lock changes */
    pthread_mutex_lock(&d->lock);
    *out = (struct disk_stats){
        .files = d->files,
        .bytes = d->bytes,
        .written = d->written,
        .read = d->read,
        .damaged = d->damaged,
    };
    pthread_mutex_unlock(&d->lock);
}
