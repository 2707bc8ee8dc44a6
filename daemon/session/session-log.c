/* SPDX-License-Identifier: MIT */
#include "daemon/session/session-log.h"
#include "daemon/session/quota.h"
#include "daemon/session/share.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC_BYTES  16
#define HEAD_BYTES   16 /* of a record */
#define MAGIC_COMMON 12 /* of the magic, the same in every version */

_Static_assert(sizeof(SESSION_LOG_MAGIC) == MAGIC_BYTES, "magic");

int session_log_place(struct session *x, uint64_t inode, uint64_t size)
{
    int r = session_quota_add(x->owner, inode, size, 0);
    if (r < 0) return r;
    session_log_drop(x);
    x->log.inode = inode;
    x->log.size = size;
    return 0;
}

void session_log_drop(struct session *x)
{
    session_quota_remove(x->owner, x->log.inode);
    session_log_leave(x);
}

void session_log_leave(struct session *x)
{
    x->log.inode = x->log.size = 0;
}

/* --- records --- */

static void put_le(char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (char)(uint8_t)(v >> (8 * i));
}

static uint64_t get_le(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

int session_log_begin(struct buf *b)
{
    static const char room[HEAD_BYTES];
    return buf_append(b, room, sizeof(room));
}

int session_log_finish(struct buf *b, size_t at, uint32_t kind)
{
    XXH128_canonical_t sum;
    size_t len = b->len - at - HEAD_BYTES;
    put_le(b->data + at, len, 4);
    put_le(b->data + at + 4, kind, 4);
    put_le(b->data + at + 8, XXH3_64bits(b->data + at - SESSION_LOG_SUM, SESSION_LOG_SUM + 8), 8);
    XXH128_canonicalFromHash(&sum, XXH3_128bits(b->data + at - SESSION_LOG_SUM, SESSION_LOG_SUM + HEAD_BYTES + len));
    return buf_append(b, sum.digest, SESSION_LOG_SUM);
}

enum session_log_found session_log_next(const uint8_t *data, size_t n, size_t *at, uint32_t *kind,
                                        const uint8_t **payload, size_t *len)
{
    const uint8_t *p = data + *at;
    size_t left = n - *at;
    XXH128_canonical_t sum;
    if (left == 0) return LOG_END;
    if (left < HEAD_BYTES) return LOG_TORN;
    if (get_le(p + 8, 8) != XXH3_64bits(p - SESSION_LOG_SUM, SESSION_LOG_SUM + 8)) return LOG_DAMAGED;
    *len = (size_t)get_le(p, 4);
    *kind = (uint32_t)get_le(p + 4, 4);
    if (left - HEAD_BYTES < SESSION_LOG_SUM || *len > left - HEAD_BYTES - SESSION_LOG_SUM) return LOG_TORN;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(p - SESSION_LOG_SUM, SESSION_LOG_SUM + HEAD_BYTES + *len));
    if (memcmp(sum.digest, p + HEAD_BYTES + *len, SESSION_LOG_SUM) != 0) return LOG_DAMAGED;
    *payload = p + HEAD_BYTES;
    *at += HEAD_BYTES + *len + SESSION_LOG_SUM;
    return LOG_GOOD;
}

/* --- the head --- */

enum { HEAD_FIXED = 4 + 16 + 16 + 1 };

int session_log_head(struct session_log_head *out, const uint8_t *data, size_t n, size_t *at)
{
    const uint8_t *p = NULL;
    size_t len = 0;
    uint32_t kind = 0;
    if (n < MAGIC_BYTES || memcmp(data, SESSION_LOG_MAGIC, MAGIC_COMMON) != 0) return -EBADMSG;
    if (memcmp(data, SESSION_LOG_MAGIC, MAGIC_BYTES) != 0) return -EOPNOTSUPP;
    *at = MAGIC_BYTES;
    if (session_log_next(data, n, at, &kind, &p, &len) != LOG_GOOD || kind != SESSION_LOG_KIND_HEAD || len < HEAD_FIXED)
        return -EBADMSG;
    *out = (struct session_log_head){.uid = (uid_t)get_le(p, 4), .name_len = p[HEAD_FIXED - 1]};
    if (len != HEAD_FIXED + out->name_len || out->name_len > PROTO_NAME_MAX || out->name_len == 0) return -EBADMSG;
    memcpy(out->replaced_hash, p + 4, 16);
    memcpy(out->replaced_sum, p + 20, 16);
    memcpy(out->name, p + HEAD_FIXED, out->name_len);
    return 0;
}

int session_log_write_head(struct buf *b, const struct session *x)
{
    char uid[4], name_len = (char)(uint8_t)x->key.name.len;
    put_le(uid, x->key.uid, 4);
    int r = buf_append(b, SESSION_LOG_MAGIC, MAGIC_BYTES);
    if (r == 0) r = session_log_begin(b);
    if (r == 0) r = buf_append(b, uid, 4);
    if (r == 0) r = buf_append(b, x->log.replaced_hash, 16);
    if (r == 0) r = buf_append(b, x->log.replaced_sum, 16);
    if (r == 0) r = buf_append(b, &name_len, 1);
    if (r == 0) r = buf_append(b, x->key.name.data, x->key.name.len);
    return r < 0 ? r : session_log_finish(b, MAGIC_BYTES, SESSION_LOG_KIND_HEAD);
}

/* --- files --- */

int session_log_rename_new(int dir, const char *from, const char *to)
{
    if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0) return 0;
    /* The file system does not support the flag: link and unlink. */
    if (errno != EINVAL && errno != ENOSYS) return error_origin(-errno);
    if (linkat(dir, from, dir, to, 0) < 0) return error_origin(-errno);
    return unlinkat(dir, from, 0) < 0 ? error_origin(-errno) : 0;
}

int session_log_set_aside(int dir, const uint8_t hash[16], bool keep, char bad[SESSION_FILE_NAME])
{
    char name[SESSION_FILE_NAME];
    int r = -EEXIST;
    session_file_name(name, hash, ".log");
    for (int i = 0; r == -EEXIST && i < SESSION_BADS; i++) {
        session_bad_name(bad, hash, i);
        if (!keep)
            r = session_log_rename_new(dir, name, bad);
        else
            r = linkat(dir, name, dir, bad, 0) < 0 ? error_origin(-errno) : 0;
    }
    if (r == -EEXIST) return error_say(r, "%d damaged logs of it exist already", SESSION_BADS);
    return r == 0 && fsync(dir) < 0 ? error_origin(-errno) : r;
}

int session_log_keep_bad(int dir, struct session *x, char bad[SESSION_FILE_NAME])
{
    int r = session_log_set_aside(dir, x->key.hash, true, bad);
    if (r == 0) r = session_quota_add_name(x->owner, dir, bad, 0);
    if (r < 0) return r;
    x->log.n_bases = 0;
    x->log.rewrite = true;
    return 0;
}

int session_log_unlink(int dir, struct session *x)
{
    char name[SESSION_FILE_NAME];
    session_file_name(name, x->key.hash, ".log");
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) return error_origin(-errno);
    if (fsync(dir) < 0) return error_origin(-errno); /* a crash may restore the file, so it still counts */
    session_log_drop(x);
    session_share_drop(dir, x);
    return 0;
}

const char *session_log_path(const struct session *x, char *out, size_t n)
{
    char name[SESSION_FILE_NAME];
    session_file_name(name, x->key.hash, ".log");
    snprintf(out, n, "%s/%" PRIu32 "/%s", x->owner->path, (uint32_t)x->key.uid, name);
    return out;
}

/* --- writing --- */

int session_log_put(int fd, const char *p, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t w = pwrite(fd, p + done, n - done, (off_t)(at + done));
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return error_origin(w ? -errno : -EIO);
        done += (size_t)w;
    }
    return 0;
}

ssize_t session_log_get(int fd, void *p, size_t n, uint64_t at)
{
    size_t done = 0;
    while (done < n) {
        ssize_t r = pread(fd, (char *)p + done, n - done, (off_t)(at + done));
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return -errno;
        if (r == 0) break;
        done += (size_t)r;
    }
    return (ssize_t)done;
}

/* Create @name with the bytes of @b; *inode is set when the file exists. */
static int write_synced(int dir, const char *name, const struct buf *b, uint64_t *inode)
{
    struct stat st;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) return error_origin(-errno);
    _cleanup_(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0) return error_origin(-errno);
    *inode = st.st_ino;
    int r = session_log_put(fd, b->data, b->len, 0);
    return r == 0 && fsync(fd) < 0 ? error_origin(-errno) : r;
}

void session_log_saved(struct session *x, const struct buf *b, uint64_t size)
{
    x->log.size = size;
    session_quota_resize(x->owner, x->log.inode, size);
    memcpy(x->log.sum, b->data + b->len - SESSION_LOG_SUM, SESSION_LOG_SUM);
    x->log.ids = x->content.n_ids;
    x->log.text = x->content.text.len;
    x->log.messages = x->content.n_messages;
    x->log.new_outcomes = 0;
    x->log.rewrite = false;
    x->log.saved = x->log.proved = true;
}

/* Rename @tmp to the log of @x, replacing the old log. */
static int name_log(int dir, const struct session *x, const char *tmp)
{
    char name[SESSION_FILE_NAME];
    session_file_name(name, x->key.hash, ".log");
    if (x->log.size) return renameat(dir, tmp, dir, name) < 0 ? error_origin(-errno) : 0;
    int r = session_log_rename_new(dir, tmp, name);
    return r == -EEXIST ? error_say(r, "a file %s exists already that is not a log this hobd reads", name) : r;
}

int session_log_publish(int dir, struct session *x, const struct buf *b)
{
    char tmp[SESSION_FILE_NAME];
    uint64_t inode = 0;
    int r = b->len > x->charged.disk ? session_quota_fits(x->owner, b->len) : 0;
    if (r < 0) return r;
    session_file_name(tmp, x->key.hash, ".tmp");
    r = write_synced(dir, tmp, b, &inode);
    if (r == 0) r = session_quota_add(x->owner, inode, b->len, 0);
    if (r == 0) r = name_log(dir, x, tmp);
    if (r < 0) {
        session_quota_remove(x->owner, inode);
        unlinkat(dir, tmp, 0);
        return r;
    }
    session_log_drop(x);
    x->log.inode = inode;
    x->log.size = b->len;
    x->log.entry_synced = fsync(dir) == 0;
    return x->log.entry_synced ? 0 : error_origin(-errno);
}
