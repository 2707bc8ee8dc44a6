/* SPDX-License-Identifier: MIT */
/* Writing logs: appending a turn, writing a whole log; renaming and removing sessions. */
#include "daemon/session/save.h"
#include "daemon/session/dir.h"
#include "daemon/session/quota.h"
#include "daemon/session/session-log.h"
#include "daemon/session/session.h"
#include "daemon/session/share.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define SLACK 65536 /* a log of more than twice the bytes of the content plus this is rewritten */

/* --- whole logs --- */

/* By what session_record_write() returned. */
static const uint32_t turn_kinds[] = {
    [0] = SESSION_LOG_KIND_TURN,
    [SESSION_RECORD_HAS_RUNS] = SESSION_LOG_KIND_RUNS,
    [SESSION_RECORD_HAS_PARTS] = SESSION_LOG_KIND_PARTS,
    [SESSION_RECORD_HAS_RUNS | SESSION_RECORD_HAS_PARTS] = SESSION_LOG_KIND_BOTH,
    [SESSION_RECORD_HAS_MEDIA] = SESSION_LOG_KIND_MEDIA,
    [SESSION_RECORD_HAS_MEDIA | SESSION_RECORD_HAS_PARTS] = SESSION_LOG_KIND_MEDIA,
    [SESSION_RECORD_HAS_MEDIA | SESSION_RECORD_HAS_RUNS] = SESSION_LOG_KIND_ALL,
    [SESSION_RECORD_HAS_MEDIA | SESSION_RECORD_HAS_RUNS | SESSION_RECORD_HAS_PARTS] = SESSION_LOG_KIND_ALL,
};

/* Append a turn record of @x. */
static int write_turn(struct buf *b, const struct session *x, bool all)
{
    size_t at = b->len;
    int r = session_log_begin(b);
    if (r == 0) r = session_record_write(b, x, all);
    return r < 0 ? r : session_log_finish(b, at, turn_kinds[r]);
}

static int build(struct buf *b, const struct session *x, const struct session *from, bool delta,
                 const struct session_summary *s)
{
    struct session_bases bases = {.n = x->log.n_bases, .outcomes = from != x};
    memcpy(bases.list, x->log.bases, sizeof(bases.list));
    int r = session_log_write_head(b, x);
    size_t at = b->len;
    if (r == 0) r = session_log_begin(b);
    if (r == 0) r = session_bases_write(b, &bases, s);
    if (r == 0) r = session_log_finish(b, at, SESSION_LOG_KIND_BASE);
    return r < 0 || !delta ? r : write_turn(b, from, false);
}

int session_share_write(int dir, struct session *x, const struct session *from, bool delta)
{
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    struct session_summary s = {0};
    if (x->log.size) return 1;
    if (session_shareable(from)) session_share_take(&x->log, from); /* not from itself: it has no log */
    if (!x->log.n_bases) return 1;
    int r = session_share_link(dir, x, &s);
    if (r > 0) x->log.n_bases = 0;
    if (r) return r;
    s.used = x->last_use.realtime;
    r = build(&b, x, from, delta, &s);
    if (r == 0) r = session_log_publish(dir, x, &b);
    if (x->log.inode) { /* the log has its name, synced or not */
        session_log_saved(x, &b, b.len);
        x->log.rewrite = r < 0;
        x->log.saved = r == 0;
        return r;
    }
    session_share_unlink(dir, x);
    return r;
}

int session_log_write(int dir, struct session *x, const struct session *from)
{
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    int r = session_share_write(dir, x, from, !from->log.saved);
    if (r <= 0) return r;
    r = session_log_write_head(&b, x);
    if (r == 0) r = write_turn(&b, from, true);
    if (r < 0) return r;
    uint64_t before = x->log.inode;
    r = session_log_publish(dir, x, &b);
    if (x->log.inode == before) return r; /* it has no new log */
    session_log_saved(x, &b, b.len);
    if (r == 0) {
        session_share_drop(dir, x);
        return 0;
    }
    x->log.n_bases = 0;    /* their links stay until the next start */
    x->log.rewrite = true; /* the new log exists, but a crash may undo the rename */
    x->log.saved = false;
    return r;
}

/* --- turns --- */

/* 0: the file is as the last save left it; 1: it is not; -errno. */
static int check_end(int fd, const struct session *x)
{
    struct stat st;
    uint8_t sum[SESSION_LOG_SUM];
    if (fstat(fd, &st) < 0) return error_origin(-errno);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != x->log.size) return 1;
    ssize_t n = session_log_get(fd, sum, sizeof(sum), x->log.size - sizeof(sum));
    if (n < 0) return error_origin((int)n);
    return n != (ssize_t)sizeof(sum) || memcmp(sum, x->log.sum, sizeof(sum)) != 0;
}

static int append_to(int dir, int fd, struct session *x, const struct buf *record)
{
    int r = session_log_put(fd, record->data + SESSION_LOG_SUM, record->len - SESSION_LOG_SUM, x->log.size);
    if (r < 0) {
        if (ftruncate(fd, (off_t)x->log.size) < 0) x->log.rewrite = true;
        return r;
    }
    if (fsync(fd) < 0 || (!x->log.entry_synced && fsync(dir) < 0)) {
        /* after a failed fsync the kernel may drop the dirty pages */
        r = error_origin(-errno);
        x->log.rewrite = true;
        (void)!ftruncate(fd, (off_t)x->log.size);
        return r;
    }
    x->log.entry_synced = true;
    session_log_saved(x, record, x->log.size + record->len - SESSION_LOG_SUM);
    return 0;
}

/* Bytes of its log, and of the bases that no other session uses any more. */
static uint64_t own_bytes(const struct session *x)
{
    uint64_t own = x->log.size, shared = 0;
    for (uint32_t i = 0; i < x->log.n_bases; i++) session_quota_split(x->owner, x->log.bases[i].inode, &own, &shared);
    return own;
}

/* Append a turn. 0; 1: a new log must be written, because this one is unusable or (unless @any_length) too long;
 * -errno. */
static int append(int dir, struct session *x, bool any_length)
{
    char name[SESSION_FILE_NAME];
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    if (!x->log.size || x->log.rewrite) return 1;
    if (session_quota_kept(x->owner, x->log.inode) > x->log.size)
        return 1; /* another program cut the part that forks share */
    int r = buf_append(&b, x->log.sum, SESSION_LOG_SUM);
    if (r == 0) r = write_turn(&b, x, false);
    if (r < 0) return r;
    if (!any_length && own_bytes(x) + b.len > 2 * x->charged.memory + SLACK) return 1;
    session_file_name(name, x->key.hash, ".log");
    _cleanup_(closep) int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return 1;
    if (fd < 0) return error_origin(-errno);
    r = check_end(fd, x);
    if (r == 0) return append_to(dir, fd, x, &b);
    if (r < 0) return r;
    char path[4096], bad[SESSION_FILE_NAME];
    r = session_log_keep_bad(dir, x, bad);
    if (r < 0) return error_in(r, "another program changed its log, which cannot be kept as *.bad");
    log_warning("%s: another program changed it; the file is kept as %s, and the log is rewritten",
                session_log_path(x, path, sizeof(path)), bad);
    return 1;
}

static int save_in(int dir, struct session *x)
{
    int r = append(dir, x, false);
    if (r <= 0) return r;
    r = session_log_write(dir, x, x);
    /* The disk may have no space for a second file, but for a record. */
    if (r < 0 && append(dir, x, true) == 0) r = 0;
    return r;
}

int session_save(struct session *x)
{
    assert(x->busy && x->loaded);
    if (x->owner->dir < 0) return 0;
    _cleanup_(closep) int dir = session_dir_of(x->owner->dir, x->owner->path, x->key.uid, true);
    int r = dir < 0 ? dir : save_in(dir, x);
    if (r == 0) return 0;
    x->log.saved = false;
    return error_in(r, "session '%s' could not be saved", x->key.name.data);
}

/* --- whole sessions --- */

static int unlink_bad(int dir, const struct session *x)
{
    char bad[SESSION_FILE_NAME];
    int r = 0;
    for (int i = 0; r == 0 && i < SESSION_BADS; i++) {
        session_bad_name(bad, x->key.hash, i);
        r = session_quota_unlink(x->owner, dir, bad);
    }
    return r;
}

/* Unlink the bases that belong to a *.bad file. */
static int unlink_bases(int dir, const struct session *x)
{
    char name[SESSION_FILE_NAME];
    int r = 0;
    session_file_name(name, x->key.hash, ".log");
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return 0; /* a log that is not ours: its bases, too */
    for (uint32_t i = 0; r == 0 && i < SESSION_BASES; i++) {
        session_base_name(name, x->key.hash, i);
        r = session_quota_unlink(x->owner, dir, name);
    }
    return r;
}

int session_erase(struct session *x)
{
    assert(x->busy);
    int r = 0;
    if (x->owner->dir >= 0) {
        _cleanup_(closep) int dir = session_dir_of(x->owner->dir, x->owner->path, x->key.uid, false);
        r = dir < 0 ? dir : unlink_bad(dir, x);
        if (r == 0 && x->log.size) r = session_log_unlink(dir, x); /* size 0: a log there is not ours */
        if (r == 0) r = unlink_bases(dir, x);
        if (dir == -ENOENT) r = 0;
        if (r < 0) return error_in(r, "session '%s' could not be removed", x->key.name.data);
    }
    session_log_drop(x);
    session_clear(x);
    x->loaded = true;
    return 0;
}

/* Rename the *.bad files of @src, too. An error is ignored: the file keeps its name. */
static void move_bad(int dir, const struct session *dst, const struct session *src)
{
    char from[SESSION_FILE_NAME], to[SESSION_FILE_NAME];
    for (int i = 0; i < SESSION_BADS; i++) {
        session_bad_name(from, src->key.hash, i);
        session_bad_name(to, dst->key.hash, i);
        (void)!session_log_rename_new(dir, from, to);
    }
}

static int move_log(struct session *dst, struct session *src)
{
    char path[4096];
    int r = 0;
    if (src->log.rewrite) r = session_save(src); /* the head of the new log has its last checksum */
    if (r < 0) return r;
    if (src->log.size) {
        memcpy(dst->log.replaced_hash, src->key.hash, sizeof(dst->log.replaced_hash));
        memcpy(dst->log.replaced_sum, src->log.sum, sizeof(dst->log.replaced_sum));
    }
    _cleanup_(closep) int dir = session_dir_of(dst->owner->dir, dst->owner->path, dst->key.uid, true);
    r = dir < 0 ? dir : session_log_write(dir, dst, src);
    if (r < 0 && dst->log.size) (void)!session_log_unlink(dir, dst);
    if (r < 0) return error_in(r, "session '%s' could not be renamed", src->key.name.data);
    move_bad(dir, dst, src);
    r = src->log.size ? session_log_unlink(dir, src) : 0;
    if (r < 0)
        log_warning("%s: the session was renamed, but this file remains until the next start: %s",
                    session_log_path(src, path, sizeof(path)), error_text(r));
    session_log_leave(src);
    return 0;
}

int session_move(struct session *dst, struct session *src)
{
    assert(dst->busy && src->busy && src->loaded && dst->owner == src->owner);
    int r = dst->owner->dir < 0 ? 0 : move_log(dst, src);
    if (r < 0) return r;
    struct session_log log = dst->log;
    session_take(dst, src);
    dst->log = log;
    dst->log.ids = dst->content.n_ids;
    dst->log.text = dst->content.text.len;
    dst->log.messages = dst->content.n_messages;
    dst->log.new_outcomes = 0;
    dst->tail = src->tail;
    src->tail = (struct session_tail){0};
    return 0;
}
