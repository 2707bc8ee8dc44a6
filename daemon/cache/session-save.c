/* SPDX-License-Identifier: MIT */
/* Writing logs: a turn more, a whole one anew; renaming and removing them. */
#include "daemon/cache/session-dir.h"
#include "daemon/cache/session-share.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define SLACK 65536 /* a log may be so much longer than twice what it says */

static int write_all(int fd, const char *p, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t w = pwrite(fd, p + done, n - done, (off_t)(at + done));
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return error_origin(w ? -errno : -EIO);
        done += (size_t)w;
    }
    return 0;
}

/* *inode: of the new file. */
static int write_synced(int dir, const char *name, const struct buf *b, uint64_t *inode)
{
    struct stat st;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) return error_origin(-errno);
    _cleanup_(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0) return error_origin(-errno);
    *inode = st.st_ino;
    int r = write_all(fd, b->data, b->len, 0);
    return r == 0 && fsync(fd) < 0 ? error_origin(-errno) : r;
}

void session_log_saved(struct session *x, const struct buf *b, uint64_t size)
{
    x->log.size = size;
    session_room_resize(x->owner, x->log.inode, size);
    memcpy(x->log.sum, b->data + b->len - SESSION_LOG_SUM, SESSION_LOG_SUM);
    x->log.ids = x->n_ids;
    x->log.text = x->text.len;
    x->log.messages = x->n_messages;
    x->log.new_outcomes = 0;
    x->log.rewrite = false;
    x->log.saved = x->log.proved = true;
}

/* Give x's log its name, over the old one; @inode is counted. */
static int name_log(int dir, const struct session *x, const char *tmp)
{
    char name[SESSION_LOG_NAME];
    session_log_name(name, x->hash, ".log");
    if (x->log.size) return renameat(dir, tmp, dir, name) < 0 ? error_origin(-errno) : 0;
    int r = session_log_rename_new(dir, tmp, name);
    return r == -EEXIST ? error_say(r, "there is a file %s already that is not a log this hobd reads", name) : r;
}

int session_log_publish(int dir, struct session *x, const struct buf *b)
{
    char tmp[SESSION_LOG_NAME];
    uint64_t inode = 0;
    int r = b->len > x->claimed ? session_room_fits(x->owner, b->len) : 0;
    if (r < 0) return r;
    session_log_name(tmp, x->hash, ".tmp");
    r = write_synced(dir, tmp, b, &inode);
    if (r == 0) r = session_room_add(x->owner, inode, b->len, 0);
    bool counted = r == 0;
    if (r == 0) r = name_log(dir, x, tmp);
    if (r < 0) {
        if (counted) session_room_remove(x->owner, inode);
        unlinkat(dir, tmp, 0);
        return r;
    }
    session_log_drop(x);
    x->log.inode = inode;
    x->log.size = b->len;
    x->log.entry_synced = fsync(dir) == 0;
    return x->log.entry_synced ? 0 : error_origin(-errno);
}

int session_log_write(int dir, struct session *x, const struct session *from)
{
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    int r = session_share_write(dir, x, from, !from->log.saved);
    if (r <= 0) return r;
    r = session_log_write_head(&b, x, from == x || !from->log.size ? NULL : from);
    size_t at = b.len;
    if (r == 0) r = session_log_begin(&b);
    if (r == 0) r = session_record_write(&b, from, true);
    if (r == 0) r = session_log_finish(&b, at, SESSION_LOG_KIND_TURN);
    if (r < 0) return r;
    uint64_t before = x->log.inode;
    r = session_log_publish(dir, x, &b);
    if (r < 0 && x->log.inode == before) return r;
    session_log_saved(x, &b, b.len);
    if (r == 0) {
        session_share_drop(dir, x);
        return 0;
    }
    x->log.n_bases = 0;    /* their names stay until the next start */
    x->log.rewrite = true; /* it is there, but for how long is not known */
    x->log.saved = false;
    return r;
}

/* Is the file what we left? 0; 1: not. */
static int check_end(int fd, const struct session *x)
{
    struct stat st;
    uint8_t sum[SESSION_LOG_SUM];
    if (fstat(fd, &st) < 0) return error_origin(-errno);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != x->log.size) return 1;
    ssize_t n = pread(fd, sum, sizeof(sum), (off_t)(x->log.size - sizeof(sum)));
    if (n < 0) return error_origin(-errno);
    return n != (ssize_t)sizeof(sum) || memcmp(sum, x->log.sum, sizeof(sum)) != 0;
}

static int append_to(int dir, int fd, struct session *x, const struct buf *record)
{
    int r = write_all(fd, record->data + SESSION_LOG_SUM, record->len - SESSION_LOG_SUM, x->log.size);
    if (r < 0) {
        if (ftruncate(fd, (off_t)x->log.size) < 0) x->log.rewrite = true;
        return r;
    }
    if (fsync(fd) < 0 || (!x->log.entry_synced && fsync(dir) < 0)) {
        /* after which the kernel may forget what it could not write */
        r = error_origin(-errno);
        x->log.rewrite = true;
        (void)!ftruncate(fd, (off_t)x->log.size);
        return r;
    }
    x->log.entry_synced = true;
    session_log_saved(x, record, x->log.size + record->len - SESSION_LOG_SUM);
    return 0;
}

/* Its log, and the bases that nobody else has any more. */
static uint64_t own_bytes(const struct session *x)
{
    uint64_t own = x->log.size, shared = 0;
    for (uint32_t i = 0; i < x->log.n_bases; i++) session_room_split(x->owner, x->log.bases[i].inode, &own, &shared);
    return own;
}

/* 0; 1: the log cannot be appended to, or is not worth it, and must be written anew; -errno. */
static int append(int dir, struct session *x, bool whatever_its_length)
{
    char name[SESSION_LOG_NAME];
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    if (!x->log.size || x->log.rewrite) return 1;
    if (session_room_used(x->owner, x->log.inode) > x->log.size) return 1; /* somebody has cut what forks use */
    int r = buf_append(&b, x->log.sum, SESSION_LOG_SUM);
    if (r == 0) r = session_log_begin(&b);
    if (r == 0) r = session_record_write(&b, x, false);
    if (r == 0) r = session_log_finish(&b, SESSION_LOG_SUM, SESSION_LOG_KIND_TURN);
    if (r < 0) return r;
    if (!whatever_its_length && own_bytes(x) + b.len > 2 * x->bytes + SLACK) return 1;
    session_log_name(name, x->hash, ".log");
    _cleanup_(closep) int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return 1;
    if (fd < 0) return error_origin(-errno);
    r = check_end(fd, x);
    if (r == 0) return append_to(dir, fd, x, &b);
    if (r > 0) { /* somebody has been here: keep what they left */
        char path[4096], bad[SESSION_LOG_NAME];
        r = session_log_set_aside(dir, x->hash, true, bad);
        if (r == 0) r = session_room_add_name(x->owner, dir, bad, 0);
        if (r < 0) return error_in(r, "its log was changed by somebody else, and cannot be set aside");
        log_warning("%s: was changed by somebody else; kept as %s, and written anew",
                    session_log_path(x, path, sizeof(path)), bad);
        x->log.rewrite = true;
        x->log.n_bases = 0; /* their names stay, beside what is kept */
        r = 1;
    }
    return r;
}

static int save_in(int dir, struct session *x)
{
    int r = append(dir, x, false);
    if (r <= 0) return r;
    r = session_log_write(dir, x, x);
    /* No room for a second file, but perhaps for a record. */
    if (r < 0 && append(dir, x, true) == 0) r = 0;
    return r;
}

int session_save(struct session *x)
{
    assert(x->busy && x->loaded);
    if (x->owner->dir < 0) return 0;
    _cleanup_(closep) int dir = session_dir_of(x->owner->dir, x->owner->path, x->uid, true);
    int r = dir < 0 ? dir : save_in(dir, x);
    if (r == 0) return 0;
    x->log.saved = false;
    return error_in(r, "session '%s' could not be saved", x->name.data);
}

/* --- whole sessions --- */

static int unlink_bad(int dir, const struct session *x)
{
    char bad[SESSION_LOG_NAME];
    int r = 0;
    for (int i = 0; r == 0 && i < SESSION_LOG_BADS; i++) {
        session_log_bad_name(bad, x->hash, i);
        r = session_room_unlink(x->owner, dir, bad);
    }
    return r;
}

/* Those that were left beside a log that was set aside. */
static int unlink_bases(int dir, const struct session *x)
{
    char name[SESSION_LOG_NAME];
    int r = 0;
    session_log_name(name, x->hash, ".log");
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return 0; /* somebody else's */
    for (uint32_t i = 0; r == 0 && i < SESSION_BASES; i++) {
        session_base_name(name, x->hash, i);
        r = session_room_unlink(x->owner, dir, name);
    }
    return r;
}

int session_erase(struct session *x)
{
    assert(x->busy);
    int r = 0;
    if (x->owner->dir >= 0) {
        _cleanup_(closep) int dir = session_dir_of(x->owner->dir, x->owner->path, x->uid, false);
        r = dir < 0 ? dir : unlink_bad(dir, x);
        if (r == 0 && x->log.size) r = session_log_unlink(dir, x); /* without, it would not be ours */
        if (r == 0) r = unlink_bases(dir, x);
        if (dir == -ENOENT) r = 0;
        if (r < 0) return error_in(r, "session '%s' could not be removed", x->name.data);
    }
    session_log_drop(x);
    session_clear(x);
    x->loaded = true;
    return 0;
}

/* What was set aside of @src goes with it, as far as it can. */
static void move_bad(int dir, const struct session *dst, const struct session *src)
{
    char from[SESSION_LOG_NAME], to[SESSION_LOG_NAME];
    for (int i = 0; i < SESSION_LOG_BADS; i++) {
        session_log_bad_name(from, src->hash, i);
        session_log_bad_name(to, dst->hash, i);
        (void)!session_log_rename_new(dir, from, to);
    }
}

static int move_log(struct session *dst, struct session *src)
{
    char path[4096];
    int r = 0;
    if (src->log.size && src->log.rewrite) r = session_save(src); /* so that its last checksum is known */
    if (r < 0) return r;
    _cleanup_(closep) int dir = session_dir_of(dst->owner->dir, dst->owner->path, dst->uid, true);
    r = dir < 0 ? dir : session_log_write(dir, dst, src);
    if (r < 0 && dst->log.size) (void)!session_log_unlink(dir, dst);
    if (r < 0) return error_in(r, "session '%s' could not be renamed", src->name.data);
    move_bad(dir, dst, src);
    r = src->log.size ? session_log_unlink(dir, src) : 0;
    if (r < 0)
        log_warning("%s: was renamed but is still there until the next start: %s",
                    session_log_path(src, path, sizeof(path)), error_text(r));
    session_log_leave(src);
    return 0;
}

int session_move(struct session *dst, struct session *src)
{
    assert(dst->busy && src->busy && src->loaded && dst->owner == src->owner);
    bool on_disk = dst->owner->dir >= 0;
    int r = on_disk ? move_log(dst, src) : 0;
    if (r < 0) return r;
    struct session_log log = dst->log;
    session_take(dst, src);
    if (on_disk) {
        dst->log = log;
        dst->log.ids = dst->n_ids;
        dst->log.text = dst->text.len;
        dst->log.messages = dst->n_messages;
        dst->log.new_outcomes = 0;
    }
    dst->tail = src->tail;
    src->tail = (struct prefix_id){0};
    return 0;
}
