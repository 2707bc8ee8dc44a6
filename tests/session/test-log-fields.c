/* SPDX-License-Identifier: MIT */
/* Records of logs with right checksums that no hobd writes, and logs at their limits. */
#include "daemon/session/session-log.h"
#include "daemon/session/share.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    MAGIC = 16,
    RECORD = 16 /* before the payload */,
    SUM = SESSION_LOG_SUM,
    FIXED = 37 /* of the head, without name */
};

static void add_record(struct buf *b, uint32_t kind, const void *payload, size_t n)
{
    const size_t at = b->len;
    assert_int_equal(session_log_begin(b), 0);
    if (n) assert_int_equal(buf_append(b, payload, n), 0);
    assert_int_equal(session_log_finish(b, at, kind), 0);
}

static int read_head(struct session_log_head *out, const struct buf *b)
{
    size_t at = 0;
    const int r = session_log_head(out, (const uint8_t *)b->data, b->len, &at);
    if (r == 0) assert_int_equal(at, b->len);
    return r;
}

/* A head of @n bytes, of uid 7 with a name of @name_len times "n". */
static int head_of(uint32_t kind, size_t n, uint8_t name_len)
{
    uint8_t payload[400];
    struct session_log_head head;
    struct buf b = BUF_INIT;
    memset(payload, 'n', sizeof(payload));
    memset(payload, 0, FIXED);
    payload[0] = 7;
    payload[FIXED - 1] = name_len;
    assert_int_equal(buf_append(&b, SESSION_LOG_MAGIC, MAGIC), 0);
    add_record(&b, kind, payload, n);
    const int r = read_head(&head, &b);
    if (r == 0) {
        assert_int_equal(head.uid, 7);
        assert_int_equal(head.name_len, name_len);
        for (size_t i = 0; i < name_len; i++) assert_int_equal(head.name[i], 'n');
    }
    buf_fini(&b);
    return r;
}

static void test_heads(void **state)
{
    assert_int_equal(head_of(SESSION_LOG_KIND_HEAD, FIXED + 1, 1), 0);
    assert_int_equal(head_of(SESSION_LOG_KIND_HEAD, FIXED + PROTO_NAME_MAX, PROTO_NAME_MAX), 0);
    assert_int_equal(head_of(SESSION_LOG_KIND_TURN, FIXED + 1, 1), -EBADMSG);
    assert_int_equal(head_of(SESSION_LOG_KIND_BASE, FIXED + 1, 1), -EBADMSG);
    for (size_t n = 0; n <= FIXED; n++) assert_int_equal(head_of(SESSION_LOG_KIND_HEAD, n, 0), -EBADMSG);
    assert_int_equal(head_of(SESSION_LOG_KIND_HEAD, FIXED, 1), -EBADMSG);
    assert_int_equal(head_of(SESSION_LOG_KIND_HEAD, FIXED + 2, 1), -EBADMSG);
    assert_int_equal(head_of(SESSION_LOG_KIND_HEAD, FIXED + PROTO_NAME_MAX + 1, PROTO_NAME_MAX + 1), -EBADMSG);
    assert_int_equal(head_of(SESSION_LOG_KIND_HEAD, FIXED + 255, 255), -EBADMSG);
}

static enum session_log_found next(const struct buf *b, size_t n)
{
    size_t at = SUM, len = 0;
    uint32_t kind = 0;
    const uint8_t *payload = NULL;
    const enum session_log_found r = session_log_next((const uint8_t *)b->data, n, &at, &kind, &payload, &len);
    assert_int_equal(at, r == LOG_GOOD ? SUM + RECORD + len + SUM : SUM);
    return r;
}

/* What is cut off is torn, and what is changed is damaged, up to the last byte of each. */
static void test_ends(void **state)
{
    for (size_t size = 0; size < 40; size++) {
        struct buf b = BUF_INIT;
        uint8_t payload[40] = {1, 2, 3};
        assert_int_equal(buf_append(&b, SESSION_LOG_MAGIC, SUM), 0);
        add_record(&b, SESSION_LOG_KIND_TURN, payload, size);
        for (size_t n = SUM; n <= b.len; n++)
            assert_int_equal(next(&b, n), n == SUM ? LOG_END : n < b.len ? LOG_TORN : LOG_GOOD);
        for (size_t i = 0; i < b.len; i++) {
            b.data[i] ^= 1;
            assert_int_equal(next(&b, b.len), LOG_DAMAGED);
            if (i < SUM + RECORD) assert_int_equal(next(&b, SUM + RECORD), LOG_DAMAGED);
            b.data[i] ^= 1;
        }
        buf_fini(&b);
    }
}

static int bases_of(uint8_t n, uint8_t flags, size_t more, bool summary)
{
    struct buf b = BUF_INIT;
    const struct session_summary s = {.used = 5};
    struct session_bases got;
    uint8_t one[8 + SUM] = {9};
    assert_int_equal(buf_append(&b, (uint8_t[2]){n, flags}, 2), 0);
    for (uint8_t i = 0; i < n; i++) assert_int_equal(buf_append(&b, one, sizeof(one)), 0);
    if (more) assert_int_equal(buf_append(&b, one, more), 0);
    assert_int_equal(session_summary_write(&b, &s), 0);
    if (!summary) b.data[b.len - 1] ^= 1;
    const int r = session_bases_read(&got, (const uint8_t *)b.data, b.len);
    if (r == 0) assert_true(got.n == n && got.list[n - 1].size == 9 && got.outcomes == (flags & 1));
    for (size_t k = 0; r == 0 && k < b.len; k++)
        assert_int_equal(session_bases_read(&got, (const uint8_t *)b.data, k), -EBADMSG);
    buf_fini(&b);
    return r;
}

static void test_bases(void **state)
{
    for (unsigned n = 0; n < 256; n++) {
        const int want = n >= 1 && n <= SESSION_BASES ? 0 : -EBADMSG;
        assert_int_equal(bases_of((uint8_t)n, 0, 0, true), want);
        assert_int_equal(bases_of((uint8_t)n, 1, 0, true), want);
        assert_int_equal(bases_of((uint8_t)n, 2, 0, true), -EBADMSG);
        assert_int_equal(bases_of((uint8_t)n, 0, 1, true), -EBADMSG);
        assert_int_equal(bases_of((uint8_t)n, 0, 24, true), -EBADMSG);
        assert_int_equal(bases_of((uint8_t)n, 0, 0, false), -EBADMSG);
    }
}

/* Put a log in the place of @name's: that of @from with a record of @kind behind it, or with its last one again. */
static void change_log(struct fixture *g, uid_t uid, const char *from, const char *name, int kind)
{
    char path[256];
    struct buf b = BUF_INIT;
    size_t n, at = 0, last = 0, len = 0;
    uint32_t k;
    const uint8_t *payload = NULL;
    struct session_log_head head;
    fixture_path(path, g, uid, from, ".log");
    char *log = fixture_read(path, &n);
    assert_int_equal(session_log_head(&head, (uint8_t *)log, n, &at), 0);
    for (last = at; session_log_next((uint8_t *)log, n, &at, &k, &payload, &len) == LOG_GOOD;) last = at;
    assert_int_equal(last, n);
    assert_int_equal(buf_append(&b, log, n), 0);
    if (kind >= 0) add_record(&b, (uint32_t)kind, payload, len);
    fixture_path(path, g, 7, name, ".log");
    fixture_write(path, b.data, b.len);
    buf_fini(&b);
    free(log);
}

static int load(struct fixture *g, const char *name)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(g->store, 7, name, strlen(name), false, &x), 0);
    const int r = session_load(x);
    session_release(g->store, x);
    return r;
}

/* A kind of a newer hobd: the log stays as it is. Kinds that are no turn: it is set aside. */
static void test_kinds(void **state)
{
    for (int kind = 0; kind < 12; kind++) {
        struct fixture g;
        const bool turn = kind != SESSION_LOG_KIND_HEAD && kind != SESSION_LOG_KIND_BASE,
                   runs =
                       kind == SESSION_LOG_KIND_RUNS || kind == SESSION_LOG_KIND_BOTH || kind == SESSION_LOG_KIND_ALL;
        fixture_make(&g);
        fixture_say(&g, 7, "a", 1);
        fixture_close(&g);
        change_log(&g, 7, "a", "a", kind);
        fixture_open(&g);
        /* the second turn begins where the first did; a record with runs has some */
        const int want = kind > SESSION_LOG_KIND_LAST ? -EOPNOTSUPP : turn && !runs ? 0 : -EBADMSG;
        assert_int_equal(load(&g, "a"), want);
        assert_int_equal(fixture_exists(&g, 7, "a", ".bad"), want == -EBADMSG);
        assert_int_equal(fixture_exists(&g, 7, "a", ".log"), want != -EBADMSG);
        fixture_remove(&g);
    }
}

/* While hobd runs, the log of another user or of another session comes into the place of this one. */
static void test_of_another(void **state)
{
    static const struct {
        uid_t uid;
        const char *from, *name;
    } cases[] = {{8, "a", "a"}, {7, "a", "ab"}, {7, "ab", "a"}, {7, "b", "a"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fixture g;
        fixture_make(&g);
        fixture_say(&g, 8, "a", 1);
        fixture_say(&g, 7, "a", 1);
        fixture_say(&g, 7, "b", 1);
        fixture_say(&g, 7, "ab", 1);
        while (session_unload_idle(g.store)) continue;
        change_log(&g, cases[i].uid, cases[i].from, cases[i].name, -1);
        assert_int_equal(load(&g, cases[i].name), -EBADMSG);
        assert_true(fixture_exists(&g, 7, cases[i].name, ".bad"));
        fixture_remove(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads), cmocka_unit_test(test_ends),       cmocka_unit_test(test_bases),
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
