/* SPDX-License-Identifier: MIT */
/* What the client makes of several answers that come mixed. */
#include "tests/client/peer.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void text(struct peer *p, uint32_t index, const char *s)
{
    const struct proto_event e = {
        .type = PROTO_EV_TEXT, .id = 1, .index = index, .channel = "answer", .text = {(char *)s, strlen(s)}};

    peer_send(p, &e);
}

static void done(struct peer *p, uint32_t index, bool more)
{
    const struct proto_event e = {.type = PROTO_EV_DONE,
                                  .id = 1,
                                  .index = index,
                                  .more = more,
                                  .usage_prompt = 7,
                                  .usage_completion = 10 + index,
                                  .decode_ms = 1000,
                                  .energy = {true, 10, 0.5 * (index + 1), 4},
                                  .miss_at = -1,
                                  .seed = 4};

    peer_send(p, &e);
}

static void error(struct peer *p, uint32_t index, bool more, int code, const char *s)
{
    const struct proto_event e = {
        .type = PROTO_EV_ERROR, .id = 1, .index = index, .more = more, .code = code, .message = {(char *)s, strlen(s)}};

    peer_send(p, &e);
}

static void greet(struct peer *p, uint32_t n)
{
    struct proto_request r;

    peer_take(p, PROTO_HELLO, &r);
    proto_request_fini(&r);
    peer_take(p, PROTO_GENERATE, &r);
    if (r.gen.n != n) peer_error(p, EINVAL, "not so many");
    proto_request_fini(&r);
    peer_hello(p);
}

/* The last one ends first, the first one last. */
static void mixed(struct peer *p)
{
    greet(p, 3);
    text(p, 2, "third");
    text(p, 0, "fir");
    text(p, 1, "sec");
    done(p, 2, true);
    text(p, 0, "st\n");
    text(p, 1, "ond\n");
    done(p, 1, true);
    done(p, 0, false);
}

static const char in_order[] = "==> 1 of 3 <==\nfirst\n\n==> 2 of 3 <==\nsecond\n\n==> 3 of 3 <==\nthird\n";

static void test_one_after_another(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, mixed, "--n", "3", "-q", "x");
    assert_string_equal(r.out, in_order);
    assert_string_equal(r.err, "");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
    PEER_RUN(&r, mixed, "--n", "3", "-q", "--no-stream", "x");
    assert_string_equal(r.out, in_order);
    peer_fini(&r);
}

static void test_usage_is_of_all(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, mixed, "--n", "3", "-v", "x");
    assert_non_null(strstr(r.err, "prompt 7 tokens"));
    assert_non_null(strstr(r.err, "answer 33 tokens"));
    assert_non_null(strstr(r.err, "energy 30 J prompt, 1.03 J/token, 12 J saved")); /* (10*0.5 + 11*1 + 12*1.5) / 33 */
    assert_null(strstr(strstr(r.err, "prompt 7") + 1, "prompt 7"));                 /* once */
    peer_fini(&r);
}

/* No newline is added to the last one. */
static void test_raw(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, mixed, "--n", "3", "-q", "--raw", "x");
    assert_string_equal(r.out, "==> 1 of 3 <==\nfirst\n\n==> 2 of 3 <==\nsecond\n\n==> 3 of 3 <==\nthird");
    peer_fini(&r);
}

static void test_json_in_order_of_arrival(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, mixed, "--n", "3", "-q", "--jsonl", "x");
    assert_int_equal(r.status, 0);
    assert_ptr_equal(strstr(r.out, "{\"event\":\"text\",\"index\":2,\"text\":\"third\"}\n"), r.out);
    assert_non_null(strstr(r.out, "{\"event\":\"done\",\"index\":2,\"reason\":\"stop\",\"text\":\"third\","));
    assert_non_null(strstr(r.out, "{\"event\":\"done\",\"index\":1,\"reason\":\"stop\",\"text\":\"second\\n\","));
    assert_non_null(strstr(r.out, "{\"event\":\"done\",\"index\":0,\"reason\":\"stop\",\"text\":\"first\\n\","));
    peer_fini(&r);
}

static void one_fails(struct peer *p)
{
    greet(p, 2);
    text(p, 0, "a");
    text(p, 1, "b");
    error(p, 0, true, EIO, "broken");
    done(p, 1, false);
}

/* The other one is shown all the same, and the failure told. */
static void test_one_fails(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, one_fails, "--n", "2", "-q", "x");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "==> 2 of 2 <==\nb\n"));
    assert_non_null(strstr(r.err, "broken"));
    peer_fini(&r);
    PEER_RUN(&r, one_fails, "--n", "2", "-q", "--jsonl", "x");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "{\"event\":\"error\",\"index\":0,\"code\":\"EIO\",\"message\":\"broken\"}\n"));
    assert_non_null(strstr(r.out, "\"event\":\"done\",\"index\":1"));
    peer_fini(&r);
}

static void all_fail(struct peer *p)
{
    greet(p, 2);
    error(p, 0, false, EBUSY, "the queue is full");
}

static void test_refused_before_there_were_several(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, all_fail, "--n", "2", "x");
    assert_int_equal(r.status, 75);
    assert_string_equal(r.out, "");
    peer_fini(&r);
}

static void one_too_many(struct peer *p)
{
    greet(p, 2);
    text(p, 2, "x");
    done(p, 2, false);
}

static void test_unknown_index(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, one_too_many, "--n", "2", "x");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "an answer with an unknown index"));
    peer_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_usage_is_of_all),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_json_in_order_of_arrival),
        cmocka_unit_test(test_one_fails),
        cmocka_unit_test(test_refused_before_there_were_several),
        cmocka_unit_test(test_unknown_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
