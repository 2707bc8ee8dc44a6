/* SPDX-License-Identifier: MIT */
/* Reading a log, and repairing one that is incomplete or damaged. */
#include "daemon/session/dir.h"
#include "daemon/session/quota.h"
#include "daemon/session/save.h"
#include "daemon/session/session-log.h"
#include "daemon/session/session.h"
#include "daemon/session/share.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((uint64_t)4 << 30)

/* Read at most @most bytes of the file into @b, which is empty. */
static int read_file(int fd, struct buf *b, uint64_t most)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return error_origin(-errno);
    if (!S_ISREG(st.st_mode)) return error_say(-EBADMSG, "it is not a regular file");
    uint64_t size = (uint64_t)st.st_size < most ? (uint64_t)st.st_size : most;
    if (size > FILE_MAX) return error_say(-EFBIG, "it has more than %d GiB", (int)(FILE_MAX >> 30));
    if (buf_reserve(b, (size_t)size) < 0) return error_origin(-ENOMEM);
    ssize_t n = session_log_get(fd, b->data, (size_t)size, 0);
    if (n < 0) return error_origin((int)n);
    b->len = (size_t)n;
    return 0;
}

/* --- replaying --- */

struct replayed {
    uint64_t good;              /* bytes up to the end of the last valid record of the file that was read last */
    enum session_log_found end; /* how that file ended */
    int base;                   /* the damaged base; -1: none */
    size_t turns;               /* applied */
};

static bool has_runs(uint32_t kind)
{
    return kind == SESSION_LOG_KIND_RUNS || kind == SESSION_LOG_KIND_BOTH || kind == SESSION_LOG_KIND_ALL;
}

/* Apply the turns from offset @at on. 0; -EBADMSG: the content of @x is unusable; -EOPNOTSUPP: a newer hobd wrote the
 * log; -ENOMEM. */
static int replay_turns(struct session *x, const struct buf *b, size_t at, struct replayed *out)
{
    const uint8_t *payload;
    size_t len;
    uint32_t kind;
    int r = 0;
    do {
        out->good = at;
        out->end = session_log_next((const uint8_t *)b->data, b->len, &at, &kind, &payload, &len);
        if (out->end != LOG_GOOD) continue;
        if (kind > SESSION_LOG_KIND_LAST) return -EOPNOTSUPP;
        if (kind == SESSION_LOG_KIND_HEAD || kind == SESSION_LOG_KIND_BASE) return -EBADMSG;
        r = session_record_apply(x, payload, len, has_runs(kind));
        out->turns++;
    } while (r == 0 && out->end == LOG_GOOD);
    return r;
}

/* Read the bases record at *at and move *at after it; n 0: it is another record. */
static int read_bases(const struct buf *b, size_t *at, struct session_bases *out)
{
    const uint8_t *payload;
    size_t len, next = *at;
    uint32_t kind;
    *out = (struct session_bases){0};
    enum session_log_found r = session_log_next((const uint8_t *)b->data, b->len, &next, &kind, &payload, &len);
    if (r != LOG_GOOD || kind != SESSION_LOG_KIND_BASE) return 0;
    *at = next;
    return session_bases_read(out, payload, len);
}

/* Are the bases of a base the first @n of @all? */
static bool same_bases(const struct session_bases *base, const struct session_bases *all, uint32_t n)
{
    if (base->n != n) return false;
    for (uint32_t i = 0; i < n; i++)
        if (base->list[i].size != all->list[i].size ||
            memcmp(base->list[i].sum, all->list[i].sum, SESSION_LOG_SUM) != 0)
            return false;
    return true;
}

/* As replay_turns; 1: the base is damaged, and the content of @x is that of the last valid record. */
static int replay_base(int dir, struct session *x, const struct session_bases *all, uint32_t i, struct replayed *out)
{
    char name[SESSION_FILE_NAME];
    struct session_log_head head;
    struct session_bases own;
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    const struct session_base *base = &all->list[i];
    size_t at;
    session_base_name(name, x->key.hash, i);
    _cleanup_(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    out->good = 0;
    if (fd < 0 && (errno == ENOENT || errno == ELOOP)) return 1;
    if (fd < 0) return error_in(error_origin(-errno), "%s", name);
    int r = read_file(fd, &b, base->size);
    if (r < 0) return r == -EBADMSG ? 1 : error_in(r, "%s", name);
    if (session_log_head(&head, (const uint8_t *)b.data, b.len, &at) < 0 || head.uid != x->key.uid) return 1;
    if (read_bases(&b, &at, &own) < 0 || !same_bases(&own, all, i)) return 1;
    if (!own.outcomes) session_drop_outcomes(x); /* there are none before the first base */
    r = replay_turns(x, &b, at, out);
    if (r < 0) return r;
    return b.len != base->size || out->end != LOG_END ||
           memcmp(b.data + b.len - SESSION_LOG_SUM, base->sum, SESSION_LOG_SUM) != 0;
}

/* Apply the bases of the log @b, then its turns. 0; -EBADMSG: no turn is usable; -EOPNOTSUPP: a newer hobd wrote the
 * log; -ENOMEM. */
static int replay(int dir, struct session *x, const struct buf *b, struct replayed *out)
{
    struct session_log_head head;
    struct session_bases bases;
    size_t at;
    *out = (struct replayed){.base = -1};
    int r = session_log_head(&head, (const uint8_t *)b->data, b->len, &at);
    if (r < 0) return r;
    if (head.uid != x->key.uid || head.name_len != x->key.name.len ||
        memcmp(head.name, x->key.name.data, head.name_len) != 0)
        return -EBADMSG;
    r = read_bases(b, &at, &bases);
    for (uint32_t i = 0; r == 0 && i < bases.n; i++) {
        r = replay_base(dir, x, &bases, i, out);
        out->base = r ? (int)i : -1;
    }
    if (r > 0) return out->turns ? 0 : -EBADMSG;
    if (r < 0) return r;
    if (!bases.outcomes) session_drop_outcomes(x);
    r = replay_turns(x, b, at, out);
    return r < 0 ? r : out->turns ? 0 : -EBADMSG;
}

/* --- repairing --- */

/* No turn of the log is usable. */
static int give_up(int dir, struct session *x, const struct replayed *p, int r)
{
    char path[4096], bad[SESSION_FILE_NAME], base[SESSION_FILE_NAME] = "";
    session_log_path(x, path, sizeof(path));
    session_clear(x);
    if (r == -EOPNOTSUPP) return error_say(r, "session '%s' was written by a newer hobd", x->key.name.data);
    if (r != -EBADMSG) return error_in(r, "session '%s'", x->key.name.data);
    r = session_log_set_aside(dir, x->key.hash, false, bad);
    if (r < 0) return error_in(r, "the log of session '%s' is damaged and cannot be renamed", x->key.name.data);
    if (p->base >= 0) session_base_name(base, x->key.hash, (uint32_t)p->base);
    log_warning("%s%s%s is damaged: renamed to %s", path, *base ? " is unusable without its base, and " : "", base,
                bad);
    session_log_leave(x);
    x->log.n_bases = 0; /* their links stay with the *.bad file */
    x->loaded = true;
    if (*base)
        return error_say(
            -EBADMSG,
            "the part that session '%s' shares with the session it was forked from is damaged: its log was "
            "renamed to *.bad",
            x->key.name.data);
    return error_say(-EBADMSG, "the log of session '%s' is damaged and was renamed to *.bad", x->key.name.data);
}

static int missing(int dir, struct session *x)
{
    session_log_drop(x);
    session_share_drop(dir, x);
    session_clear(x);
    x->loaded = true;
    return error_say(-ENOENT, "the log of session '%s' was removed", x->key.name.data);
}

/* Remove the bytes after the last valid record from the file, now or at the next save. */
static int mend(int dir, int fd, struct session *x, const struct replayed *p, uint64_t size)
{
    char path[4096], bad[SESSION_FILE_NAME];
    session_log_path(x, path, sizeof(path));
    x->log.rewrite = true;
    if (p->end == LOG_TORN && session_quota_kept(x->owner, x->log.inode) <= p->good) {
        log_warning("%s ends with an incomplete turn, which was never acknowledged: %" PRIu64 " bytes removed", path,
                    size - p->good);
        if (ftruncate(fd, (off_t)p->good) == 0 && fsync(fd) == 0) x->log.rewrite = false;
        return 0;
    }
    int r = session_log_keep_bad(dir, x, bad);
    if (r < 0) return error_in(r, "the log of session '%s' is damaged and cannot be kept as *.bad", x->key.name.data);
    log_warning("%s is damaged at byte %" PRIu64 " of %" PRIu64
                ": the session keeps the turns before it, the whole file stays as %s",
                path, p->good, size, bad);
    x->log.saved = false; /* else it may be unloaded, and the next load keeps the same file once more */
    r = session_log_write(dir, x, x);
    if (r < 0) log_warning("%s cannot be rewritten now: %s", path, error_text(r));
    return 0;
}

/* Base p->base is damaged. Its turns before the damage become a log of their own; those of the session's log cannot
 * follow them. */
static int mend_base(int dir, struct session *x, const struct replayed *p)
{
    char path[4096], bad[SESSION_FILE_NAME], base[SESSION_FILE_NAME];
    session_log_path(x, path, sizeof(path));
    session_base_name(base, x->key.hash, (uint32_t)p->base);
    int r = session_log_keep_bad(dir, x, bad);
    if (r < 0) return error_in(r, "the log of session '%s' is damaged and cannot be kept as *.bad", x->key.name.data);
    log_warning("%s shares %s with the session it was forked from, and that is damaged at byte %" PRIu64
                ": the session keeps the turns before it, the log stays as %s",
                path, base, p->good, bad);
    x->log.saved = false;
    r = session_log_write(dir, x, x);
    if (r < 0) log_warning("%s cannot be rewritten now: %s", path, error_text(r));
    return 0;
}

static int load_from(int dir, int fd, struct session *x)
{
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    struct replayed p = {.base = -1};
    int r = read_file(fd, &b, UINT64_MAX);
    if (r == 0) r = replay(dir, x, &b, &p);
    if (r < 0) return give_up(dir, x, &p, r);
    uint64_t size = b.len;
    if (p.base >= 0) {
        r = mend_base(dir, x, &p);
    } else {
        b.len = (size_t)p.good;
        session_log_saved(x, &b, p.good);
        if (p.end != LOG_END) r = mend(dir, fd, x, &p, size);
    }
    if (r < 0)
        session_clear(x);
    else
        x->loaded = true;
    return r;
}

static int find_and_load(struct session *x)
{
    char name[SESSION_FILE_NAME];
    _cleanup_(closep) int dir = session_dir_of(x->owner->dir, x->owner->path, x->key.uid, false);
    if (dir == -ENOENT) return missing(dir, x);
    if (dir < 0) return error_in(dir, "session '%s'", x->key.name.data);
    session_file_name(name, x->key.hash, ".log");
    int how = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    _cleanup_(closep) int fd = openat(dir, name, O_RDWR | how);
    if (fd < 0 && (errno == EROFS || errno == EACCES)) fd = openat(dir, name, O_RDONLY | how);
    if (fd < 0 && errno == ENOENT) return missing(dir, x);
    if (fd < 0) return error_in(error_origin(-errno), "session '%s'", x->key.name.data);
    return load_from(dir, fd, x);
}

int session_load(struct session *x)
{
    assert(x->busy);
    if (x->loaded) return 0;
    int r = find_and_load(x);
    session_charge(x);
    return r;
}
