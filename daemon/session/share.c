/* SPDX-License-Identifier: MIT */
#include "daemon/session/share.h"
#include "daemon/session/quota.h"
#include "daemon/session/session-log.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARE_LEAST 16384 /* bytes of logs; fewer are copied, which costs no more than links and a new log */

enum { FLAG_OUTCOMES = 1 };
enum { BASES_FIXED = 2, BASE_BYTES = 8 + SESSION_LOG_SUM };

/* --- the record --- */

int session_bases_write(struct buf *out, const struct session_bases *b, const struct session_summary *s)
{
    uint8_t first[BASES_FIXED] = {(uint8_t)b->n, b->outcomes ? FLAG_OUTCOMES : 0};
    int r = buf_append(out, first, sizeof(first));
    for (uint32_t i = 0; r == 0 && i < b->n; i++) {
        uint8_t one[BASE_BYTES];
        for (int k = 0; k < 8; k++) one[k] = (uint8_t)(b->list[i].size >> (8 * k));
        memcpy(one + 8, b->list[i].sum, SESSION_LOG_SUM);
        r = buf_append(out, one, sizeof(one));
    }
    return r < 0 ? r : session_summary_write(out, s);
}

int session_bases_read(struct session_bases *out, const uint8_t *p, size_t n)
{
    struct session_summary s;
    *out = (struct session_bases){0};
    if (n < BASES_FIXED || p[0] < 1 || p[0] > SESSION_BASES || p[1] > FLAG_OUTCOMES) return -EBADMSG;
    if (n != BASES_FIXED + (size_t)p[0] * BASE_BYTES + SESSION_SUMMARY_BYTES) return -EBADMSG;
    if (!session_summary_read(p + n - SESSION_SUMMARY_BYTES, &s)) return -EBADMSG;
    out->n = p[0];
    out->outcomes = p[1] & FLAG_OUTCOMES;
    for (uint32_t i = 0; i < out->n; i++) {
        const uint8_t *one = p + BASES_FIXED + i * BASE_BYTES;
        for (int k = 0; k < 8; k++) out->list[i].size |= (uint64_t)one[k] << (8 * k);
        memcpy(out->list[i].sum, one + 8, SESSION_LOG_SUM);
    }
    return 0;
}

/* --- choosing the bases --- */

bool session_shareable(const struct session *src)
{
    const struct session_log *l = &src->log;
    uint64_t bytes = l->size;
    if (!l->size || !l->proved || l->n_bases == SESSION_BASES) return false;
    for (uint32_t i = 0; i < l->n_bases; i++) bytes += l->bases[i].size;
    return bytes >= SHARE_LEAST;
}

void session_share_take(struct session_log *to, const struct session *src)
{
    uint32_t n = src->log.n_bases;
    memcpy(to->bases, src->log.bases, sizeof(to->bases));
    to->bases[n].size = src->log.size;
    memcpy(to->bases[n].sum, src->log.sum, SESSION_LOG_SUM);
    to->n_bases = n + 1;
    for (uint32_t i = 0; i <= n; i++) to->bases[i].inode = 0;
    memcpy(to->origin, src->key.hash, sizeof(to->origin));
}

void session_share_begin(struct session *dst, const struct session *src)
{
    assert(!dst->log.size && !dst->log.n_bases);
    if (!session_shareable(src)) return;
    session_share_take(&dst->log, src);
    dst->log.ids = src->log.ids;
    dst->log.text = src->log.text;
    dst->log.messages = src->log.messages;
}

/* --- links --- */

/* Does the file @name begin with the base? 0: yes; sets b->inode, the file's size in *bytes, and *s, the summary of the
 * record that ends the base. 1: no. */
static int check_base(int dir, const char *name, struct session_base *b, uint64_t *bytes, struct session_summary *s)
{
    struct stat st;
    uint8_t end[SESSION_SUMMARY_BYTES + SESSION_LOG_SUM];
    _cleanup_(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return 1;
    if (b->size < sizeof(end) || b->size > (uint64_t)st.st_size) return 1;
    if (session_log_get(fd, end, sizeof(end), b->size - sizeof(end)) != (ssize_t)sizeof(end)) return 1;
    if (memcmp(end + SESSION_SUMMARY_BYTES, b->sum, sizeof(b->sum)) != 0 || !session_summary_read(end, s)) return 1;
    b->inode = st.st_ino;
    *bytes = (uint64_t)st.st_size;
    return 0;
}

/* Link base @i of @x. Returns as session_share_link. */
static int link_one(int dir, struct session *x, uint32_t i, struct session_summary *s)
{
    char from[SESSION_FILE_NAME], to[SESSION_FILE_NAME];
    struct session_base *b = &x->log.bases[i];
    uint64_t bytes;
    if (i + 1 < x->log.n_bases)
        session_base_name(from, x->log.origin, i);
    else
        session_file_name(from, x->log.origin, ".log");
    session_base_name(to, x->key.hash, i);
    if (linkat(dir, from, dir, to, 0) < 0) return 1; /* too many links, not supported, removed meanwhile, … */
    int r = check_base(dir, to, b, &bytes, s);
    if (r == 0) r = session_quota_add(x->owner, b->inode, bytes, b->size);
    if (r == 0) return 0;
    b->inode = 0;
    unlinkat(dir, to, 0);
    return r;
}

void session_share_unlink(int dir, struct session *x)
{
    char name[SESSION_FILE_NAME];
    for (uint32_t i = 0; i < x->log.n_bases; i++) {
        struct session_base *b = &x->log.bases[i];
        session_base_name(name, x->key.hash, i);
        if (b->inode && (unlinkat(dir, name, 0) == 0 || errno == ENOENT)) session_quota_remove(x->owner, b->inode);
        b->inode = 0;
    }
}

int session_share_link(int dir, struct session *x, struct session_summary *s)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < x->log.n_bases; i++) r = link_one(dir, x, i, s);
    if (r == 0 && fsync(dir) < 0) r = error_origin(-errno);
    if (r) session_share_unlink(dir, x);
    return r;
}

void session_share_drop(int dir, struct session *x)
{
    session_share_unlink(dir, x);
    x->log.n_bases = 0;
}
