/* SPDX-License-Identifier: MIT */
/* Requests about sessions, and two requests for one session. */
#include "tests/engine/harness.h"
#include <errno.h>
#include <stdio.h>

static void test_busy(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_user("s", "the"), q = harness_user("s", "the");
    r.gen.max_tokens = 1500;
    r.gen.ignore_eos = true;
    uint64_t id = harness_submit(h, &r);
    harness_wait_texts(h, id, 1);
    assert_error(harness_run(h, &q), EBUSY, "session 's' is in use by another request");
    engine_cancel(h->engine, 1, id);
    assert_done(harness_wait(h, id), PROTO_STOP_CANCEL);
}

static struct answer *list(struct harness *h, const struct proto_text *after, uint32_t limit)
{
    struct proto_request r = harness_simple(PROTO_SESSION_LIST);
    r.limit = limit;
    if (after->len) assert_int_equal(proto_text_set(&r.after, after->data, after->len), 0);
    return harness_run(h, &r);
}

static unsigned count(const char *s, const char *part)
{
    unsigned n = 0;
    for (; (s = strstr(s, part)); s++) n++;
    return n;
}

/* A page has so many as the request says, else 256; the last one no cursor. */
static void test_list_in_pages(void **state)
{
    struct harness *h = *state;
    static const struct proto_text none = {0};
    char name[8];
    harness_start(h);
    for (int i = 0; i < 258; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        struct proto_request r = harness_user(name, "x");
        r.gen.max_tokens = 1;
        assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
        harness_forget(h);
    }
    struct answer *a = list(h, &none, 0), *b = list(h, &a->last.next, 0);
    assert_int_equal(count(a->last.sessions.data, "\"name\":"), 256);
    assert_non_null(strstr(a->last.sessions.data, "[{\"name\":\"s257\","));
    assert_int_equal(count(b->last.sessions.data, "\"name\":"), 2);
    assert_non_null(strstr(b->last.sessions.data, "[{\"name\":\"s1\","));
    assert_int_equal(b->last.next.len, 0);
    a = list(h, &none, 3);
    b = list(h, &a->last.next, 1000);
    assert_int_equal(count(a->last.sessions.data, "\"name\":"), 3);
    assert_int_equal(count(b->last.sessions.data, "\"name\":"), 255);
    assert_non_null(strstr(b->last.sessions.data, "[{\"name\":\"s254\","));
    assert_int_equal(b->last.next.len, 0);
    assert_error(list(h, &(struct proto_text){(char *)"s1", 2}, 3), EINVAL, "session.list: after: ");
    struct proto_request r = harness_simple(PROTO_SESSION_LIST);
    b = harness_wait(h, harness_submit_as(h, 1, 1001, &r));
    assert_string_equal(b->last.sessions.data, "[]");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_busy),
        TEST(test_list_in_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
