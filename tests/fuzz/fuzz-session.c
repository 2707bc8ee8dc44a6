/* SPDX-License-Identifier: MIT */
/* A session's log that the input changes: it is loaded, used and saved, and then loads again as it was. Byte 0: 1 to
 * make the checksums of the records right again, 2 for a log that begins as another one does. */
#include "daemon/session/session-log.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz-edit.h"
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

const char *const fuzz_seeds[] = {NULL};

enum { UID = 7, TURNS = 3, RECORD = 16 /* bytes before a payload */, SUM = 16 };

static struct fixture g;
static struct buf logs[2]; /* of an ordinary session, of a fork */

static void read_log(struct buf *out, const char *name)
{
    char path[256];
    size_t n;
    fixture_path(path, &g, UID, name, ".log");
    char *bytes = fixture_read(path, &n);
    FUZZ_CHECK(buf_append(out, bytes, n) == 0);
    free(bytes);
}

static void add_parts(struct session *x)
{
    static const char answer[] = "{\"a\": 1}";
    FUZZ_CHECK(session_add_message(x, "tool", 4, answer, strlen(answer)) == 0);
}

static void make_logs(void)
{
    struct session *x, *fork;
    fuzz_folder(g.dir);
    fuzz_quiet();
    fixture_realtime = 1800000000000000;
    fixture_boottime = 1000000;
    fixture_open(&g);
    x = fixture_acquire(&g, UID, "a");
    for (unsigned i = 1; i <= TURNS; i++) {
        fixture_turn(x, i);
        add_parts(x);
        FUZZ_CHECK(session_save(x) == 0);
    }
    FUZZ_CHECK(session_fork(g.store, x, "b", 1, &fork) == 0 && session_duplicate(fork, x) == 0);
    fixture_turn(fork, TURNS + 1);
    FUZZ_CHECK(session_save(fork) == 0);
    session_release(g.store, fork);
    session_release(g.store, x);
    read_log(&logs[0], "a");
    read_log(&logs[1], "b");
    fixture_close(&g);
}

/* Make the checksums right, of as many records as there are. */
static void resum(struct buf *b)
{
    uint8_t *p = (uint8_t *)b->data;
    size_t at = 16;
    while (b->len >= RECORD + SUM && at <= b->len - RECORD - SUM) {
        uint32_t len, kind;
        memcpy(&len, p + at, 4);
        memcpy(&kind, p + at + 4, 4);
        uint64_t head = XXH3_64bits(p + at - 16, 24);
        memcpy(p + at + 8, &head, 8);
        if (len > b->len - at - RECORD - SUM) return;
        uint8_t *payload = p + at + RECORD;
        if (kind != SESSION_LOG_KIND_HEAD && len >= SESSION_SUMMARY_BYTES) {
            uint64_t sum = XXH3_64bits(payload + len - SESSION_SUMMARY_BYTES, 24);
            memcpy(payload + len - 8, &sum, 8);
        }
        XXH128_canonical_t c;
        XXH128_canonicalFromHash(&c, XXH3_128bits(p + at - 16, 16 + RECORD + len));
        memcpy(payload + len, c.digest, 16);
        at += RECORD + len + SUM;
    }
}

static void put_log(const char *name, const struct buf *b)
{
    char path[256], *slash;
    fixture_path(path, &g, UID, name, ".log");
    slash = strrchr(path, '/');
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
    fixture_write(path, b->data ? b->data : "", b->len);
}

/* Load session @name, if there is one; NULL: it is refused. */
static struct session *load(const char *name)
{
    struct session *x;
    int r = session_acquire(g.store, UID, name, 1, false, &x);
    if (r == 0) r = session_load(x);
    if (r == 0) return x;
    FUZZ_CHECK(strlen(error_text(r)) > 4);
    FUZZ_CHECK(r == -ENOENT || r == -EBADMSG || r == -EDQUOT || r == -EOPNOTSUPP || r == -EINVAL);
    if (r != -ENOENT && session_acquire(g.store, UID, name, 1, false, &x) == 0) session_release(g.store, x);
    return NULL;
}

static void use(const char *name)
{
    struct session *x, *other;
    int r = session_acquire(g.store, UID, name, 1, false, &x);
    if (r < 0) return;
    r = session_load(x);
    if (r == 0) {
        FUZZ_CHECK(session_add_message(x, "user", 4, "more", 4) == 0);
        r = session_save(x);
        if (r < 0) FUZZ_CHECK(strlen(error_text(r)) > 4);
        if (r == 0 && session_rename(g.store, x, "c", 1, &other) == 0) {
            if (session_move(other, x) < 0) session_revert(other);
            session_release(g.store, other);
        }
    } else {
        FUZZ_CHECK(strlen(error_text(r)) > 4);
    }
    session_release(g.store, x);
}

/* What was saved is loaded as it was. */
static void check(const char *name)
{
    struct session *x = load(name);
    if (!x) return;
    char *before = fixture_dump(x);
    bool saved = session_saved(x);
    session_release(g.store, x);
    fixture_close(&g);
    fixture_open(&g);
    x = load(name);
    char *after = x ? fixture_dump(x) : NULL;
    if (saved && (!after || strcmp(before, after) != 0)) fuzz_fail("the session has changed", after ? after : "none");
    if (x) session_release(g.store, x);
    free(before);
    free(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct buf b = BUF_INIT;
    if (!g.dir[0]) make_logs();
    unsigned how = fuzz_byte(&in), which = how >> 1 & 1;
    FUZZ_CHECK(buf_append(&b, logs[which].data, logs[which].len) == 0);
    fuzz_edit(&b, &in);
    if (how & 1) resum(&b);
    fixture_clear(g.dir);
    put_log(which ? "b" : "a", &b);
    buf_fini(&b);
    fixture_open(&g);
    use(which ? "b" : "a");
    check("c");
    check(which ? "b" : "a");
    fixture_close(&g);
    return 0;
}
