/* SPDX-License-Identifier: MIT */
/* Invalid payloads with valid checksums: refused, or the content is valid. */
#include "daemon/session/record.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char huge; /* stands for bytes that are counted, but not copied */

int __real_buf_append(struct buf *b, const void *p, size_t n);
int __wrap_buf_append(struct buf *b, const void *p, size_t n);

int __wrap_buf_append(struct buf *b, const void *p, size_t n)
{
    if (p != &huge) return __real_buf_append(b, p, n);
    const int r = buf_reserve(b, n);
    if (r == 0) b->len += n;
    return r;
}

static void check_whole(const struct session *x)
{
    assert_int_equal(x->content.text.len, x->content.markup.len);
    for (size_t i = 0; i < x->content.n_ids; i++) assert_true(x->content.ends[i] >= (i ? x->content.ends[i - 1] : 0));
    if (x->content.n_ids) assert_true(x->content.ends[x->content.n_ids - 1] <= x->content.text.len);
    for (size_t i = 0; i < x->content.markup.len; i++)
        assert_true(x->content.markup.data[i] == 0 || x->content.markup.data[i] == 1);
}

#define TEXT(s)                                                                                                        \
    {                                                                                                                  \
        (char *)(s), sizeof(s) - 1                                                                                     \
    }

/* Messages with a thought and calls, and the result of one. */
static void add_parts(struct session *x)
{
    struct proto_call calls[] = {{TEXT("id1"), TEXT("f"), TEXT("{\"a\":1}")}, {TEXT(""), TEXT("g"), TEXT("{}")}};
    const struct proto_message m = {
        .role = TEXT("assistant"), .content = TEXT(""), .thinking = TEXT("hm"), .calls = calls, .n_calls = 2};
    const struct proto_message result = {
        .role = TEXT("tool"), .content = TEXT("7"), .call_id = TEXT("id1"), .name = TEXT("f")};
    assert_int_equal(session_add_parts(x, &m), 0);
    assert_int_equal(session_add_parts(x, &result), 0);
    assert_int_equal(session_add_message(x, "user", 4, "more", 4), 0);
}

static void expect(const struct proto_text *t, const char *want)
{
    assert_int_equal(t->len, strlen(want));
    if (t->len) assert_memory_equal(t->data, want, t->len);
}

static void check_parts(const struct session *x)
{
    const struct session_content *c = &x->content;
    const struct proto_message *m = &c->messages[c->n_messages - 3];
    expect(&m->thinking, "hm");
    assert_int_equal(m->n_calls, 2);
    expect(&m->calls[0].id, "id1");
    expect(&m->calls[0].name, "f");
    expect(&m->calls[0].arguments, "{\"a\":1}");
    expect(&m->calls[1].id, "");
    expect(&m->calls[1].name, "g");
    expect(&m[1].call_id, "id1");
    expect(&m[1].name, "f");
    expect(&m[1].content, "7");
    assert_int_equal(m[2].n_calls, 0);
    expect(&m[2].content, "more");
}

/* Apply a turn, then another that may be damaged. Returns the result of the second. */
static int apply(struct session_store *s, const struct buf *first, const uint8_t *second, size_t n, bool whole)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(s, 1, "x", 1, true, &x), 0);
    assert_int_equal(session_record_apply(x, (const uint8_t *)first->data, first->len, false), 0);
    int r = session_record_apply(x, second, n, false);
    if (r == 0) check_whole(x);
    if (r == 0 && whole) check_parts(x);
    assert_true(r == 0 || r == -EBADMSG);
    session_revert(x);
    session_release(s, x);
    return r;
}

/* A turn with a call of @name, whose outcome has the number @n. */
static void add_call_turn(struct session *x, const char *name, int n)
{
    struct proto_call call = {TEXT("id"), {(char *)name, strlen(name)}, TEXT("{}")};
    const struct proto_message m = {.role = TEXT("assistant"), .content = TEXT(""), .calls = &call, .n_calls = 1};
    assert_int_equal(session_add_message(x, "user", 4, "ask", 3), 0);
    assert_int_equal(session_add_parts(x, &m), 0);
    struct session_outcome o = {.reason = PROTO_STOP_TOOL_CALLS, .message = x->content.n_messages};
    snprintf(o.uuid, sizeof(o.uuid), "uuid-%d", n);
    assert_int_equal(session_add_outcome(x, &o), 0);
}

/* Checks which call the outcome of turn @n has; NULL: none can be told. */
static void check_call(const struct session *x, int n, const char *name)
{
    char uuid[16];
    snprintf(uuid, sizeof(uuid), "uuid-%d", n);
    const struct session_outcome *o = session_find_outcome(x, uuid);
    assert_non_null(o);
    const struct proto_message *m = session_outcome_message(x, o);
    if (!name) assert_null(m);
    if (!name) return;
    assert_non_null(m);
    expect(&m->calls[0].name, name);
}

/* An outcome's calls are those of its own turn, also behind others and after a restart. */
static void test_calls_of_outcomes(void **state)
{
    struct fixture fixture = {0}, *g = &fixture;
    static const char *const names[] = {"f", "g", "h"};
    fixture_make(g);
    for (int n = 0; n < 3; n++) {
        struct session *x = fixture_acquire(g, 1, "calls");
        add_call_turn(x, names[n], n);
        for (int k = 0; k <= n; k++) check_call(x, k, names[k]);
        assert_int_equal(session_save(x), 0);
        session_release(g->store, x);
        fixture_close(g);
        fixture_open(g);
    }
    struct session *x = fixture_acquire(g, 1, "calls"), *y = fixture_acquire(g, 1, "whole");
    for (int n = 0; n < 3; n++) check_call(x, n, names[n]);
    struct buf whole = BUF_INIT; /* as a log that is rewritten has it: calls with equal text cannot be told apart */
    assert_true(session_record_write(&whole, x, true) >= 0);
    assert_int_equal(session_record_apply(y, (const uint8_t *)whole.data, whole.len, false), 0);
    for (int n = 0; n < 3; n++) check_call(y, n, NULL);
    session_drop_messages(y, 2);
    for (int n = 0; n < 3; n++) check_call(y, n, NULL); /* it may have been dropped */
    session_drop_messages(x, 4);
    check_call(x, 1, "g");
    check_call(x, 2, NULL);
    session_revert(y);
    session_revert(x);
    session_release(g->store, y);
    session_release(g->store, x);
    buf_fini(&whole);
    fixture_remove(g);
}

static void test_changed_payloads(void **state)
{
    struct fixture g;
    struct session_store *s = NULL;
    struct buf first = BUF_INIT, second = BUF_INIT;
    fixture_make(&g);
    assert_int_equal(session_store_new(&s, 1 << 30), 0);
    struct session *x = fixture_acquire(&g, 7, "a");
    fixture_turn(x, 1);
    assert_int_equal(session_record_write(&first, x, true), 0);
    assert_int_equal(session_save(x), 0);
    session_truncate(x, 15);
    session_drop_messages(x, 1);
    fixture_turn(x, 2);
    add_parts(x);
    assert_int_equal(session_set_failed(x, "too late", 8), 0);
    assert_int_equal(session_set_note(x, "its own", 7), 0);
    assert_int_equal(session_add_outcome(x, &(struct session_outcome){.uuid = "thinks", .usage_thinking = 300}), 0);
    assert_int_equal(session_record_write(&second, x, false), SESSION_RECORD_HAS_PARTS);
    session_release(g.store, x);
    uint8_t *copy = malloc(second.len + 1);
    assert_int_equal(apply(s, &first, (uint8_t *)second.data, second.len, true), 0);
    for (size_t n = 0; n < second.len; n++) {
        uint8_t *cut = malloc(n ? n : 1); /* of its own, so that a byte too far is seen */
        memcpy(cut, second.data, n);
        assert_int_equal(apply(s, &first, cut, n, false), -EBADMSG);
        free(cut);
    }
    for (size_t n = 0; n < second.len; n++)
        for (int v = 0; v < 256; v += v < 4 || v > 250 ? 1 : 7) {
            memcpy(copy, second.data, second.len);
            copy[n] = (uint8_t)v;
            apply(s, &first, copy, second.len, false);
        }
    srandom(3);
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, second.data, second.len);
        for (long k = random() % 4; k >= 0; k--)
            copy[(size_t)random() % second.len] = (uint8_t)(random() % 3 ? random() : 0xff);
        apply(s, &first, copy, second.len, false);
    }
    /* the second without the first keeps what is not there */
    assert_int_equal(session_acquire(s, 1, "y", 1, true, &x), 0);
    assert_int_equal(session_record_apply(x, (uint8_t *)second.data, second.len, false), -EBADMSG);
    session_release(s, x);
    free(copy);
    buf_fini(&first);
    buf_fini(&second);
    session_store_free(s);
    fixture_remove(&g);
}

/* The error message of a failed turn is kept until a turn succeeds, also on disk. */
static void test_a_failure_is_kept(void **state)
{
    struct fixture g;
    fixture_make(&g);
    struct session *x = fixture_acquire(&g, 7, "a");
    assert_int_equal(session_set_failed(x, "too late", 8), 0);
    assert_int_equal(session_save(x), 0);
    session_release(g.store, x);
    for (int i = 0; i < 2; i++) {
        fixture_close(&g);
        fixture_open(&g);
        x = fixture_acquire(&g, 7, "a");
        assert_int_equal(session_load(x), 0);
        assert_int_equal(x->content.failed.len, i ? 0 : 8);
        if (i == 0) assert_string_equal(x->content.failed.data, "too late");
        fixture_turn(x, 1);
        assert_int_equal(session_set_failed(x, "", 0), 0);
        assert_int_equal(session_save(x), 0);
        session_release(g.store, x);
    }
    fixture_remove(&g);
}

/* The note of the last turn is kept on disk, also beside an error message, and the tokens of thinking; a fork has no
 * note. */
static void test_a_note_is_kept(void **state)
{
    struct fixture g;
    fixture_make(&g);
    struct session *x = fixture_acquire(&g, 7, "a"), *fork;
    fixture_turn(x, 1);
    assert_int_equal(session_set_note(x, "first", 5), 0);
    assert_int_equal(session_save(x), 0);
    fixture_turn(x, 2);
    assert_int_equal(session_add_outcome(x, &(struct session_outcome){.uuid = "thinks", .usage_thinking = 300}), 0);
    assert_int_equal(session_set_failed(x, "too late", 8), 0);
    assert_int_equal(session_set_note(x, "second", 6), 0);
    assert_int_equal(session_save(x), 0);
    assert_int_equal(session_fork(g.store, x, "b", 1, &fork), 0);
    assert_int_equal(session_duplicate(fork, x), 0);
    session_release(g.store, fork);
    session_release(g.store, x);
    fixture_close(&g);
    fixture_open(&g);
    x = fixture_acquire(&g, 7, "a");
    assert_int_equal(session_load(x), 0);
    assert_string_equal(x->content.note.data, "second");
    assert_int_equal(session_find_outcome(x, "thinks")->usage_thinking, 300);
    assert_int_equal(session_find_outcome(x, "turn-2")->usage_thinking, 0);
    assert_string_equal(x->content.failed.data, "too late");
    fork = fixture_acquire(&g, 7, "b");
    assert_int_equal(session_load(fork), 0);
    assert_true(fork->content.n_messages > 0 && fork->content.n_messages == x->content.n_messages);
    assert_int_equal(fork->content.note.len, 0);
    session_release(g.store, fork);
    fixture_turn(x, 3);
    assert_int_equal(session_set_note(x, NULL, 0), 0);
    assert_int_equal(session_save(x), 0);
    session_release(g.store, x);
    fixture_close(&g);
    fixture_open(&g);
    x = fixture_acquire(&g, 7, "a");
    assert_int_equal(session_load(x), 0);
    assert_int_equal(x->content.note.len, 0);
    session_release(g.store, x);
    fixture_remove(&g);
}

/* A record has at most 2^30 bytes. */
static void test_the_longest(void **state)
{
    const size_t most = (size_t)1 << 30;
    struct buf b = BUF_INIT;
    struct session x = {0};
    x.content.failed = (struct proto_text){&huge, most - 1000};
    assert_true(session_record_write(&b, &x, true) >= 0);
    x.content.failed.len += most - b.len;
    buf_clear(&b);
    assert_true(session_record_write(&b, &x, true) >= 0);
    assert_int_equal(b.len, most);
    buf_clear(&b);
    x.content.failed.len++;
    assert_int_equal(session_record_write(&b, &x, true), -E2BIG);
    assert_non_null(strstr(error_text(-E2BIG), "a turn of 1073741825 bytes does not fit into a record"));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changed_payloads), cmocka_unit_test(test_a_failure_is_kept),
        cmocka_unit_test(test_a_note_is_kept),   cmocka_unit_test(test_calls_of_outcomes),
        cmocka_unit_test(test_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
