/* SPDX-License-Identifier: MIT */
/* Peers that close the connection, send invalid data or wrong lengths: one error line, the right exit status, no
 * second\n * turn. */
#include "libcommon/frame.h"
#include "tests/client/peer.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

static void hang_up(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
}

static void hang_up_greeted(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
}

static void draining(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_error(p, ESHUTDOWN, "the daemon is stopping");
}

static void hang_up_queued(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_QUEUED, .id = 1, .position = 1});
}

static void hang_up_speaking(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "half of");
}

/* Ends with the first bytes of a frame. */
static void hang_up_in_a_frame(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "half of");
    peer_bytes(p, "\x40\0\0\0\x83", 5);
}

static void answer(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "fine");
    peer_done(p, PROTO_STOP_EOS);
}

/* The same in single bytes. */
static void answer_in_pieces(struct peer *p)
{
    struct proto_event hello = {.type = PROTO_EV_HELLO, .version = PROTO_VERSION},
                       text = {.type = PROTO_EV_TEXT, .id = 1, .text = {(char *)"fine", 4}},
                       done = {.type = PROTO_EV_DONE, .id = 1, .reason = PROTO_STOP_EOS};
    struct buf b = BUF_INIT;
    size_t i;

    peer_expect(p, PROTO_GENERATE);
    assert_int_equal(proto_write_event(&b, &hello), 0);
    assert_int_equal(proto_write_event(&b, &text), 0);
    assert_int_equal(proto_write_event(&b, &done), 0);
    for (i = 0; i < b.len; i++) {
        peer_bytes(p, b.data + i, 1);
        if (i % 16 == 0) usleep(500);
    }
    buf_fini(&b);
}

/* {"event": "sparkle", "id": 1, "colour": "red"}, and an answer to a request that was never made. */
static void answer_with_news(struct peer *p)
{
    static const char news[] = "\x83\xa5"
                               "event\xa7sparkle\xa2id\x01\xa6"
                               "colour\xa3red";
    struct proto_event other = {.type = PROTO_EV_TEXT, .id = 77, .text = {(char *)"not yours", 9}};

    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_frame(p, news, sizeof news - 1);
    peer_send(p, &other);
    peer_text(p, "fine");
    peer_frame(p, news, sizeof news - 1);
    peer_done(p, PROTO_STOP_EOS);
}

static void one_line(struct peer_result *r, int status, const char *out, const char *says)
{
    if (!strstr(r->err, says)) print_message("# said: %s", r->err);
    assert_non_null(strstr(r->err, says));
    assert_string_equal(r->out, out);
    assert_int_equal(r->status, status);
    assert_ptr_equal(strchr(r->err, '\n'), r->err + r->err_len - 1);
    peer_fini(r);
}

static void test_request_is_sent_again_with_the_same_uuid(void **state)
{
    struct peer_result r;

    peer_run(&r, (const peer_script[]){hang_up, hang_up_greeted, answer, NULL}, -1, (const char *const[]){"hi", NULL});
    assert_int_equal(r.connections, 3);
    assert_int_equal(strlen(r.uuids[0]), 36);
    assert_string_equal(r.uuids[0], r.uuids[1]);
    assert_string_equal(r.uuids[0], r.uuids[2]);
    assert_string_equal(r.out, "fine\n");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void test_request_goes_to_the_next_daemon(void **state)
{
    struct peer_result r;

    peer_run(&r, (const peer_script[]){draining, answer, NULL}, -1, (const char *const[]){"hi", NULL});
    assert_int_equal(r.connections, 2);
    assert_string_equal(r.uuids[0], r.uuids[1]);
    assert_string_equal(r.out, "fine\n");
    assert_string_equal(r.err, "");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void warm_hang_up(struct peer *p)
{
    peer_expect(p, PROTO_WARM);
}

static void warm_draining(struct peer *p)
{
    peer_expect(p, PROTO_WARM);
    peer_hello(p);
    peer_error(p, ESHUTDOWN, "the daemon is stopping");
}

static void warm_done(struct peer *p)
{
    peer_expect(p, PROTO_WARM);
    peer_hello(p);
    peer_done(p, PROTO_STOP_EOS);
}

static void warm_hang_up_begun(struct peer *p)
{
    peer_expect(p, PROTO_WARM);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_PREFILL, .id = 1, .done = 1, .total = 9});
}

static void test_warm_is_sent_again(void **state)
{
    struct peer_result r;

    peer_run(&r, (const peer_script[]){warm_hang_up, warm_draining, warm_done, NULL}, -1,
             (const char *const[]){"--warm", "hi", NULL});
    assert_int_equal(r.connections, 3);
    assert_int_equal(strlen(r.uuids[0]), 36);
    assert_string_equal(r.uuids[0], r.uuids[1]);
    assert_string_equal(r.uuids[0], r.uuids[2]);
    assert_string_equal(r.out, "");
    assert_string_equal(r.err, "");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
    PEER_RUN(&r, warm_hang_up_begun, "--warm", "hi");
    assert_int_equal(r.connections, 1);
    one_line(&r, 69, "", "closed the connection before");
}

static void test_two_requests_have_two_uuids(void **state)
{
    struct peer_result a, b;

    PEER_RUN(&a, answer, "hi");
    PEER_RUN(&b, answer, "hi");
    assert_int_equal(strlen(a.uuids[0]), 36);
    assert_string_not_equal(a.uuids[0], b.uuids[0]);
    peer_fini(&a);
    peer_fini(&b);
}

static void test_gives_up_without_an_answer(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, hang_up, "hi");
    assert_int_equal(r.connections, 4);
    one_line(&r, 69, "", "closed the connection without an answer");
}

static void test_a_begun_request_is_not_sent_again(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, hang_up_queued, "hi");
    assert_int_equal(r.connections, 1);
    one_line(&r, 69, "", "closed the connection before");
}

static void test_end_in_the_middle_of_the_answer(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, hang_up_speaking, "hi");
    assert_int_equal(r.connections, 1);
    one_line(&r, 69, "half of", "closed the connection before");
    PEER_RUN(&r, hang_up_in_a_frame, "hi");
    one_line(&r, 69, "half of", "closed the connection before");
}

static void test_end_in_the_middle_as_json(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, hang_up_speaking, "--jsonl", "hi");
    assert_non_null(strstr(
        r.out, "{\"event\":\"error\",\"code\":\"ESHUTDOWN\",\"message\":\"the daemon closed the connection before"));
    assert_int_equal(r.status, 69);
    peer_fini(&r);
}

static void test_split_reads(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, answer_in_pieces, "hi");
    assert_string_equal(r.out, "fine\n");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void test_unknown_events_and_ids_are_ignored(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, answer_with_news, "hi");
    assert_string_equal(r.err, "");
    assert_string_equal(r.out, "fine\n");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void http(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_bytes(p, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
}

static void oversized(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_bytes(p, "\xff\xff\xff\xff", 4);
}

static void not_msgpack(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_frame(p, "\xc1\xc1\xc1", 3);
}

/* A map of 2^32-1 entries in five bytes. */
static void counts_that_lie(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_frame(p, "\xdf\xff\xff\xff\xff", 5);
}

static void no_greeting(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_text(p, "hello");
}

static void other_version(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_HELLO, .version = 42});
}

static void test_nonsense_is_refused(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, http, "hi");
    one_line(&r, 1, "", "over the limit");
    PEER_RUN(&r, oversized, "hi");
    one_line(&r, 1, "", "over the limit");
    PEER_RUN(&r, not_msgpack, "hi");
    one_line(&r, 1, "", "invalid message from the daemon: ");
    PEER_RUN(&r, counts_that_lie, "hi");
    one_line(&r, 1, "", "invalid message from the daemon: ");
    PEER_RUN(&r, no_greeting, "hi");
    one_line(&r, 1, "", "not hobd");
}

static void test_other_version_is_named(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, other_version, "hi");
    one_line(&r, 1, "", "42");
}

/* Refuses without reading on, while the client is still sending. */
static void refuse_early(struct peer *p)
{
    struct proto_event e = {.type = PROTO_EV_ERROR, .id = 0, .code = EMSGSIZE, .message = {(char *)"too much", 8}};

    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    peer_send(p, &e);
}

static void test_refusal_is_read_while_sending(void **state)
{
    size_t n = 8u << 20, i;
    char path[] = "/tmp/hob-test-XXXXXX", *text = malloc(n);
    struct peer_result r;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_non_null(text);
    for (i = 0; i < n; i++) text[i] = (char)('a' + i % 26);
    assert_int_equal(write(fd, text, n), n);
    PEER_RUN(&r, refuse_early, "-f", path);
    one_line(&r, 1, "", "too much");
    free(text);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_is_sent_again_with_the_same_uuid),
        cmocka_unit_test(test_request_goes_to_the_next_daemon),
        cmocka_unit_test(test_warm_is_sent_again),
        cmocka_unit_test(test_two_requests_have_two_uuids),
        cmocka_unit_test(test_gives_up_without_an_answer),
        cmocka_unit_test(test_a_begun_request_is_not_sent_again),
        cmocka_unit_test(test_end_in_the_middle_of_the_answer),
        cmocka_unit_test(test_end_in_the_middle_as_json),
        cmocka_unit_test(test_split_reads),
        cmocka_unit_test(test_unknown_events_and_ids_are_ignored),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_other_version_is_named),
        cmocka_unit_test(test_refusal_is_read_while_sending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
