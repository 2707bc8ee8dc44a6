/* SPDX-License-Identifier: MIT */
/* Payloads of turn records with one field that no hobd writes, each with a valid summary: all are refused. */
#include "daemon/session/record-bytes.h"
#include "daemon/session/record.h"
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

enum section { FLAGS, CUT, IDS, RUNS, TEXT, MARKUP, MESSAGES, MEDIA, OUTCOMES, LAST, THOUGHT, ADAPTER, SECTIONS };

struct bytes {
    const char *p;
    size_t n;
};

#define B(s)                                                                                                           \
    {                                                                                                                  \
        s, sizeof(s) - 1                                                                                               \
    }
#define MODEL                 "the model's hash"
#define DIGEST                "the digest of it"
#define TWO_32                "\x80\x80\x80\x80\x10" /* numbers: 7 bits a byte, the lowest first */
#define MAX_32                "\xff\xff\xff\xff\x0f"
#define MAX_31                "\xff\xff\xff\xff\x07"
#define EMBD                  "\x80\x80\x80\x80\x08" /* ITEM_EMBD */
#define U64_5                 "\5\0\0\0\0\0\0\0"
#define OUTCOME(uuid, reason) uuid reason "\1\2\3\4" U64_5 U64_5 "\3abc"

/* Two ids, three bytes of text without markup, a question with its answer, and the answer's outcome. */
static const struct bytes plain[SECTIONS] = {
    [FLAGS] = B("\0\0" MODEL),
    [CUT] = B("\0\0\0"),
    [IDS] = B("\2\5\6\1\2"),
    [RUNS] = B(""),
    [TEXT] = B("\3abc"),
    [MARKUP] = B("\1\3"),
    [MESSAGES] = B("\2\4user\1q\11assistant\3abc"),
    [MEDIA] = B(""),
    [OUTCOMES] = B("\1" OUTCOME("\2id", "\0")),
    [LAST] = B(""),
    [THOUGHT] = B(""),
    [ADAPTER] = B(""),
};

struct change {
    enum section section;
    struct bytes bytes;
    enum section other; /* FLAGS: the change has one section, or two with the flags last */
    struct bytes others;
};

static void put(struct buf *b, const void *p, size_t n)
{
    if (n) assert_int_equal(buf_append(b, p, n), 0);
}

static void put_summary(struct buf *b)
{
    uint8_t p[SESSION_SUMMARY_BYTES] = {1, 2, 3};
    const uint64_t sum = XXH3_64bits(p, 24);
    for (int i = 0; i < 8; i++) p[24 + i] = (uint8_t)(sum >> 8 * i);
    put(b, p, sizeof(p));
}

static void build(struct buf *out, const struct change *c)
{
    buf_clear(out);
    for (enum section s = 0; s < SECTIONS; s++) {
        const struct bytes *x = &plain[s];
        if (c && c->section == s) x = &c->bytes;
        if (c && c->others.p && c->other == s) x = &c->others;
        put(out, x->p, x->n);
    }
    put_summary(out);
}

/* Apply the payload to a new session, or to one that has a plain turn. */
static int apply(const struct fixture *g, const struct buf *payload, size_t n, bool after, bool runs)
{
    struct session *x = NULL;
    struct buf first = BUF_INIT;
    assert_int_equal(session_acquire(g->store, 1, "x", 1, true, &x), 0);
    build(&first, NULL);
    if (after) assert_int_equal(session_record_apply(x, (const uint8_t *)first.data, first.len, false), 0);
    uint8_t *own = malloc(n ? n : 1); /* so that a byte too far is seen */
    if (n) memcpy(own, payload->data, n);
    const int r = session_record_apply(x, own, n, runs);
    free(own);
    session_revert(x);
    session_release(g->store, x);
    buf_fini(&first);
    return r;
}

static void expect(const struct fixture *g, const struct change *changes, size_t n, bool after, bool runs, int want)
{
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < n; i++) {
        build(&b, &changes[i]);
        const int r = apply(g, &b, b.len, after, runs);
        if (r != want) fail_msg("change %zu of section %d: %d, not %d", i, (int)changes[i].section, r, want);
        for (size_t k = 0; want == 0 && k < b.len; k++) assert_int_equal(apply(g, &b, k, after, runs), -EBADMSG);
        put(&b, "", 1); /* a byte behind the summary */
        assert_int_equal(apply(g, &b, b.len, after, runs), -EBADMSG);
    }
    buf_fini(&b);
}

#define COUNT(a)    (sizeof(a) / sizeof(*(a)))
#define WITH(flags) .other = FLAGS, .others = B(flags "\0" MODEL)

static void test_valid(void **state)
{
    static const struct change right[] = {
        {.section = FLAGS, B("\0\3" MODEL)},
        {.section = IDS, B("\2" MAX_32 "\6\1\2")},
        {.section = IDS, B("\0")},
        {.section = MARKUP, B("\3\1\0\2")},
        {.section = MESSAGES, B("\0")},
        {.section = OUTCOMES, B("\0")},
        {.section = OUTCOMES,
         B("\1" OUTCOME("\47"
                        "123456789-123456789-123456789-123456789",
                        "\4"))},
        {.section = LAST, B("\3why"), WITH("\2")},
        {.section = LAST, B("\4note"), WITH("\10")},
        {.section = THOUGHT, B("\7"), WITH("\20")},
        {.section = ADAPTER, B("\2ad"), WITH("\100")},
        {.section = MEDIA, B("\1\0\1\0\2\3\0" DIGEST "\1F"), WITH("\40")},
        {.section = MEDIA, B("\1\1\1\3" MAX_32 MAX_32 "\0" DIGEST "\1F"), WITH("\40")},
        {.section = MEDIA, B("\2\0\2\1\0\0\7" DIGEST "\1F\0\1\1\1\1\0" DIGEST "\1G"), WITH("\40")},
        {.section = MESSAGES, B("\2\4user\1q\11assistant\3abc\1\1\1t\0\0\1\2id\1f\2{}"), WITH("\4")},
    };
    struct fixture *g = *state;
    expect(g, right, COUNT(right), false, false, 0);
    expect(g, right, COUNT(right), true, false, 0);
}

static void test_cuts(void **state)
{
    static const struct change wrong[] = {
        {.section = CUT, B("\3\0\0")}, {.section = CUT, B("\0\4\0")}, {.section = CUT, B("\0\0\3")},
        {.section = CUT, B("\2\2\0")}, {.section = CUT, B("\1\0\0")}, {.section = CUT, B(TWO_32 "\0\0")},
    };
    static const struct change right[] = {
        {.section = CUT, B("\2\3\2"), .other = MARKUP, .others = B("\1\6")},
        {.section = CUT, B("\1\1\1"), .other = MARKUP, .others = B("\1\4")},
        {.section = CUT, B("\0\3\0"), .other = MARKUP, .others = B("\1\6")},
    };
    expect(*state, wrong, COUNT(wrong), true, false, -EBADMSG);
    expect(*state, wrong, COUNT(wrong), false, false, -EBADMSG);
    expect(*state, right, COUNT(right), true, false, 0);
    expect(*state, right, COUNT(right), false, false, -EBADMSG);
}

static void test_fields(void **state)
{
    static const struct change wrong[] = {
        {.section = FLAGS, B("\x80\0" MODEL)},
        {.section = FLAGS, B("\0\4" MODEL)},
        {.section = IDS, B("\2" TWO_32 "\6\1\2")},
        {.section = IDS, B("\2\5\6\1" TWO_32)},
        {.section = IDS, B("\2\5\6\1\3")},
        {.section = IDS, B("\xff\x7f")}, /* more than the bytes behind it */
        {.section = TEXT, B("\xff\x7f")},
        {.section = MARKUP, B("\1\2")},
        {.section = MARKUP, B("\2\1\1")},
        {.section = MARKUP, B("\2\1\3")},
        {.section = MARKUP, B("\1" TWO_32)},
        {.section = MARKUP, B("\xff\x7f")},
        {.section = MESSAGES, B("\xff\x7f")},
        {.section = MESSAGES, B("\1\4user\1q\1\7\0\0\0\0"), WITH("\4")}, /* parts of a message that there is not */
        {.section = MESSAGES, B("\1\4user\1q\2\0\0\0\0\0\0"), WITH("\4")},
        {.section = OUTCOMES, B("\1" OUTCOME("\2id", "\5"))},
        {.section = OUTCOMES, B("\1" OUTCOME("\0", "\0"))},
        {.section = OUTCOMES, B("\1" OUTCOME("\2\0d", "\0"))},
        {.section = OUTCOMES,
         B("\1" OUTCOME("\50"
                        "123456789-123456789-123456789-123456789-",
                        "\0"))},
        {.section = OUTCOMES, B("\xff\x7f")},
        {.section = LAST, B("\0"), WITH("\2")},
        {.section = LAST, B("\0"), WITH("\10")},
        {.section = LAST, B("\0\4note"), WITH("\12")},
        {.section = LAST, B("\0\7"), WITH("\22")}, /* no reason of a failure, and what was thought */
        {.section = ADAPTER, B("\0"), WITH("\100")},
    };
    expect(*state, wrong, COUNT(wrong), false, false, -EBADMSG);
    expect(*state, wrong, COUNT(wrong), true, false, -EBADMSG);
}

#define MEDIUM(s)                                                                                                      \
    {                                                                                                                  \
        .section = MEDIA, B(s), WITH("\40")                                                                            \
    }

static void test_media(void **state)
{
    static const struct change wrong[] = {
        MEDIUM("\0"),
        MEDIUM("\xff\x7f"),
        MEDIUM("\1\2\1\0\2\3\0" DIGEST "\1F"), /* of a message that there is not */
        MEDIUM("\1\0\0\0\2\3\0" DIGEST "\1F"), /* neither image nor sound */
        MEDIUM("\1\0\3\0\2\3\0" DIGEST "\1F"),
        MEDIUM("\1\0\x81\x80\x80\x80\x10\0\2\3\0" DIGEST "\1F"), /* 2^32 + 1 */
        MEDIUM("\1\0\1\0\x82\x80\x80\x80\x10\3\0" DIGEST "\1F"),
        MEDIUM("\1\0\1\0\2\x83\x80\x80\x80\x10\0" DIGEST "\1F"),
        MEDIUM("\1\0\1\0\0\3\0" DIGEST "\1F"), /* an image without width, without height, with samples */
        MEDIUM("\1\0\1\0\2\0\0" DIGEST "\1F"),
        MEDIUM("\1\0\1\0\2\3\1" DIGEST "\1F"),
        MEDIUM("\1\0\2\0\0\0\0" DIGEST "\1F"), /* a sound without samples, with width, with height */
        MEDIUM("\1\0\2\0\2\0\7" DIGEST "\1F"),
        MEDIUM("\1\0\2\0\0\3\7" DIGEST "\1F"),
        MEDIUM("\1\0\1\2\2\3\0" DIGEST "\1F"),                          /* behind the end of the text */
        MEDIUM("\2\0\1\1\2\3\0" DIGEST "\1F\0\1\0\2\3\0" DIGEST "\1G"), /* before the one before it */
        MEDIUM("\1\0\1\0\2\3\0" DIGEST "\0"),                           /* no file */
    };
    expect(*state, wrong, COUNT(wrong), false, false, -EBADMSG);
    expect(*state, wrong, COUNT(wrong), true, false, -EBADMSG);
}

#define RUNS_OF(ids, runs)                                                                                             \
    {                                                                                                                  \
        .section = IDS, B(ids), .other = RUNS, .others = B(runs)                                                       \
    }

static void test_runs(void **state)
{
    static const struct change right[] = {
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\0\2\1" DIGEST),
        RUNS_OF("\3\5" EMBD EMBD "\1\1\0", "\1\1\2\2" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\1", "\2\0\1\1" DIGEST "\0\1\2" DIGEST),
    };
    static const struct change wrong[] = {
        RUNS_OF("\2\5\6\1\1", "\0"),                       /* a record of this kind has runs */
        RUNS_OF("\2" EMBD EMBD "\1\1", "\1\0\2\1" DIGEST), /* no place in the text has two ids of a run */
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\0\1\1" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\0\3\1" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\0\0\1" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\0" MAX_31 "\1" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\3\2\1" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1" MAX_31 "\1\1" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\0\2\0" DIGEST),
        RUNS_OF("\2" EMBD EMBD "\1\0", "\1\0\2\x81\x80\x80\x80\x10" DIGEST), /* kind 2^32 + 1 */
        RUNS_OF("\2" EMBD EMBD "\1\0", "\xff\x7f"),
        RUNS_OF("\2\5\6\1\0", "\1\0\2\1" DIGEST),
    };
    expect(*state, right, COUNT(right), false, true, 0);
    expect(*state, wrong, COUNT(wrong), false, true, -EBADMSG);
    expect(*state, right, COUNT(right), false, false, -EBADMSG);
}

/* A run at the end of the record whose numbers take more bytes than they need to. */
static void test_run_without_digest(void **state)
{
    struct buf b = BUF_INIT;
    put(&b, "\0\0" MODEL "\0\0\0\2" EMBD EMBD "\1\0", 2 + 16 + 3 + 1 + 10 + 2);
    put(&b,
        "\1\x80\x80\x80\x80\0\2\1"
        "123456789012",
        20);
    assert_int_equal(apply(*state, &b, b.len, false, true), -EBADMSG);
    buf_fini(&b);
}

static void test_summary(void **state)
{
    struct buf b = BUF_INIT;
    build(&b, NULL);
    for (size_t bit = 0; bit < 8 * SESSION_SUMMARY_BYTES; bit++) {
        char *p = b.data + b.len - SESSION_SUMMARY_BYTES + bit / 8;
        *p ^= (char)(1 << bit % 8);
        assert_int_equal(apply(*state, &b, b.len, false, false), -EBADMSG);
        *p ^= (char)(1 << bit % 8);
    }
    assert_int_equal(apply(*state, &b, b.len, false, false), 0);
    buf_fini(&b);
}

/* What a turn sets holds for that turn only. */
static void test_last_turn_counts(void **state)
{
    static const struct change with = {.section = ADAPTER, B("\2ad"), WITH("\100")};
    struct fixture *g = *state;
    struct session *x = NULL;
    struct buf b = BUF_INIT;
    assert_int_equal(session_acquire(g->store, 1, "x", 1, true, &x), 0);
    build(&b, &with);
    assert_int_equal(session_record_apply(x, (const uint8_t *)b.data, b.len, false), 0);
    assert_int_equal(x->content.adapter.len, 2);
    assert_memory_equal(x->content.adapter.data, "ad", 2);
    build(&b, NULL);
    assert_int_equal(session_record_apply(x, (const uint8_t *)b.data, b.len, false), 0);
    assert_int_equal(x->content.adapter.len, 0);
    session_revert(x);
    session_release(g->store, x);
    buf_fini(&b);
}

/* More outcomes than a session keeps: the tokens of thinking are those of the last ones. */
static void test_many_outcomes(void **state)
{
    struct fixture *g = *state;
    for (size_t more = 0; more < 4; more++) {
        const size_t n = SESSION_OUTCOMES + more;
        struct session *x = NULL;
        struct buf b = BUF_INIT;
        put(&b, "\20\0" MODEL "\0\0\0\0\0\0\0", 2 + 16 + 7);
        assert_int_equal(record_put(&b, n), 0);
        for (size_t i = 0; i < n; i++) {
            char uuid[16];
            put(&b, uuid, (size_t)snprintf(uuid, sizeof(uuid), "\6id%04zu", i));
            put(&b, "\0\1\2\3\4" U64_5 U64_5 "\0", 5 + 17);
        }
        for (size_t i = 0; i < n; i++) assert_int_equal(record_put(&b, 1000 + i), 0);
        put_summary(&b);
        assert_int_equal(session_acquire(g->store, 1, "x", 1, true, &x), 0);
        assert_int_equal(session_record_apply(x, (const uint8_t *)b.data, b.len, false), 0);
        assert_int_equal(x->content.n_outcomes, SESSION_OUTCOMES);
        for (size_t i = 0; i < SESSION_OUTCOMES; i++) {
            char uuid[16];
            snprintf(uuid, sizeof(uuid), "id%04zu", i + more);
            assert_string_equal(x->content.outcomes[i].uuid, uuid);
            assert_int_equal(x->content.outcomes[i].usage_thinking, 1000 + i + more);
        }
        session_revert(x);
        session_release(g->store, x);
        buf_fini(&b);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_valid),   T(test_cuts),          T(test_fields),
        T(test_media),   T(test_runs),          T(test_run_without_digest),
        T(test_summary), T(test_many_outcomes), T(test_last_turn_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
