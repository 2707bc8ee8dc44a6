/* SPDX-License-Identifier: MIT */
/* Reading a log back, and what to do about one that is not whole. */
#include "daemon/cache/session-dir.h"
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

static int read_file(int fd, struct buf *b)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return error_origin(-errno);
    if (!S_ISREG(st.st_mode)) return error_say(-EBADMSG, "it is no file");
    if ((uint64_t)st.st_size > FILE_MAX) return error_say(-EFBIG, "it has more than %d GiB", (int)(FILE_MAX >> 30));
    if (buf_reserve(b, (size_t)st.st_size) < 0) return error_origin(-ENOMEM);
    while (b->len < (size_t)st.st_size) {
        ssize_t n = pread(fd, b->data + b->len, (size_t)st.st_size - b->len, (off_t)b->len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_origin(-errno);
        if (n == 0) break;
        b->len += (size_t)n;
    }
    return 0;
}

struct replayed {
    uint64_t good; /* bytes up to the end of the last good record */
    enum session_log_found end;
};

/* 0; -EBADMSG: nothing of it can be used; -EOPNOTSUPP: a newer hobd's; -ENOMEM. */
static int replay(struct session *x, const struct buf *b, struct replayed *out)
{
    struct session_log_head head;
    const uint8_t *data = (const uint8_t *)b->data, *payload;
    size_t at, len, turns = 0;
    uint32_t kind;
    int r = session_log_head(&head, data, b->len, &at);
    if (r < 0) return r;
    if (head.uid != x->uid || head.name_len != x->name.len || memcmp(head.name, x->name.data, head.name_len) != 0)
        return -EBADMSG;
    do {
        out->good = at;
        out->end = session_log_next(data, b->len, &at, &kind, &payload, &len);
        if (out->end != LOG_GOOD) continue;
        if (kind != SESSION_LOG_KIND_TURN) return kind == SESSION_LOG_KIND_HEAD ? -EBADMSG : -EOPNOTSUPP;
        r = session_record_apply(x, payload, len);
        turns++;
    } while (r == 0 && out->end == LOG_GOOD);
    return r < 0 ? r : turns ? 0 : -EBADMSG;
}

/* Nothing of the log can be used. */
static int give_up(int dir, struct session *x, int r)
{
    char path[4096], bad[SESSION_LOG_NAME];
    session_log_path(x, path, sizeof(path));
    session_clear(x);
    if (r == -EOPNOTSUPP) return error_say(r, "session '%s' was written by a newer hobd", x->name.data);
    if (r != -EBADMSG) return error_in(r, "session '%s'", x->name.data);
    r = session_log_set_aside(dir, x->hash, false, bad);
    if (r < 0) return error_in(r, "the log of session '%s' is damaged and cannot be set aside", x->name.data);
    log_warning("%s is damaged: renamed to %s", path, bad);
    session_log_leave(x);
    x->loaded = true;
    return error_say(-EBADMSG, "the log of session '%s' is damaged and was set aside", x->name.data);
}

static int gone(struct session *x)
{
    session_log_drop(x);
    session_clear(x);
    x->loaded = true;
    return error_say(-ENOENT, "the log of session '%s' is gone", x->name.data);
}

/* What is behind the last good record goes from the file; when that cannot be now, by the next save. */
static int mend(int dir, int fd, struct session *x, const struct replayed *p, uint64_t size)
{
    char path[4096], bad[SESSION_LOG_NAME];
    session_log_path(x, path, sizeof(path));
    x->log.rewrite = true;
    if (p->end == LOG_TORN) {
        log_warning("%s ends inside a turn that was never acknowledged: %" PRIu64 " bytes are cut off", path,
                    size - p->good);
        if (ftruncate(fd, (off_t)p->good) == 0 && fsync(fd) == 0) x->log.rewrite = false;
        return 0;
    }
    int r = session_log_set_aside(dir, x->hash, true, bad);
    if (r == 0) r = session_room_add_name(x->owner, dir, bad, 0);
    if (r < 0) return error_in(r, "the log of session '%s' is damaged and cannot be set aside", x->name.data);
    log_warning("%s is damaged at byte %" PRIu64 " of %" PRIu64
                ": what is good before goes on, the whole is kept as %s",
                path, p->good, size, bad);
    r = session_log_write(dir, x, x);
    if (r < 0) log_warning("%s cannot be written anew now: %s", path, error_text(r));
    return 0;
}

static int load_from(int dir, int fd, struct session *x)
{
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    struct replayed p = {0};
    int r = read_file(fd, &b);
    if (r == 0) r = replay(x, &b, &p);
    if (r < 0) return give_up(dir, x, r);
    uint64_t size = b.len;
    b.len = (size_t)p.good;
    session_log_saved(x, &b, p.good);
    if (p.end != LOG_END) r = mend(dir, fd, x, &p, size);
    if (r < 0)
        session_clear(x);
    else
        x->loaded = true;
    return r;
}

int session_load(struct session *x)
{
    char name[SESSION_LOG_NAME];
    assert(x->busy);
    if (x->loaded) return 0;
    _cleanup_(closep) int dir = session_dir_of(x->owner->dir, x->owner->path, x->uid, false);
    if (dir == -ENOENT) return gone(x);
    if (dir < 0) return error_in(dir, "session '%s'", x->name.data);
    session_log_name(name, x->hash, ".log");
    int how = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    _cleanup_(closep) int fd = openat(dir, name, O_RDWR | how);
    if (fd < 0 && (errno == EROFS || errno == EACCES)) fd = openat(dir, name, O_RDONLY | how);
    if (fd < 0 && errno == ENOENT) return gone(x);
    if (fd < 0) return error_in(error_origin(-errno), "session '%s'", x->name.data);
    return load_from(dir, fd, x);
}
