/* SPDX-License-Identifier: MIT */
/* hob status and hob stop. */
#include "client/status.h"
#include "libcommon/error.h"
#include "tests/client/peer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

#define READY "{\"state\":\"ready\",\"ctx\":512}"

static int format(const char *json, struct buf *out, int *status)
{
    buf_clear(out);
    *status = -1;
    return status_format(out, json, strlen(json), status);
}

static void test_table_has_every_key(void **state)
{
    struct buf out = BUF_INIT;
    int status;

    assert_int_equal(format("{\"state\":\"ready\",\"pid\":12,\"kv\":{\"used_bytes\":1610612736,\"bytes\":2048,"
                            "\"empty\":{}},\"kv_bytes_used\":4096,\"states_bytes_memory\":3072,"
                            "\"users\":[{\"uid\":0},{\"uid\":1000}],\"list\":[1,\"a\\nb\"]}",
                            &out, &status),
                     0);
    assert_int_equal(status, 0);
    assert_string_equal(out.data, "state: ready\n"
                                  "pid: 12\n"
                                  "kv:\n"
                                  "  used_bytes: 1.5G\n"
                                  "  bytes: 2K\n"
                                  "  empty:\n"
                                  "kv_bytes_used: 4K\n"
                                  "states_bytes_memory: 3K\n"
                                  "users:\n"
                                  "  -\n"
                                  "    uid: 0\n"
                                  "  -\n"
                                  "    uid: 1000\n"
                                  "list:\n"
                                  "  - 1\n"
                                  "  - a b\n");
    buf_fini(&out);
}

static void test_uids_are_rows(void **state)
{
    struct buf out = BUF_INIT;
    int status;

    assert_int_equal(format("{\"uids\":[{\"uid\":0,\"sessions\":12,\"blocks_memory\":7,\"tokens_asked\":100},"
                            "{\"uid\":1000,\"tokens_asked\":5,\"new\":1,\"blocks_memory\":[8],\"sessions\":3},{}],"
                            "\"state\":\"ready\"}",
                            &out, &status),
                     0);
    assert_int_equal(status, 0);
    assert_string_equal(out.data, "uids:\n"
                                  "   uid  sessions  memory  asked\n"
                                  "     0        12       7    100\n"
                                  "  1000         3       -      5\n"
                                  "     -         -       -      -\n"
                                  "state: ready\n");
    /* Invalid parts do not suppress the rest of the status. */
    assert_int_equal(format("{\"uids\":[],\"a\":1}", &out, &status), 0);
    assert_string_equal(out.data, "uids:\na: 1\n");
    assert_int_equal(format("{\"uids\":[{},{\"uid\":1},7,[8]]}", &out, &status), 0);
    assert_int_equal(format("{\"uids\":{\"uid\":1}}", &out, &status), 0);
    assert_string_equal(out.data, "uids:\n  uid: 1\n");
    buf_fini(&out);
}

/* Root's table, as service-status.c makes it. A later table has columns of its own. */
static void test_peers_are_rows(void **state)
{
    struct buf out = BUF_INIT;
    int status;

    assert_int_equal(
        format("{\"state\":\"ready\",\"clients\":{\"connections\":3,\"connections_max\":1024,\"bytes_held\":4096,"
               "\"bytes_max\":536870912},\"peers\":[{\"uid\":1000,\"connections\":2,\"live\":1,"
               "\"bytes_held\":3145728,\"messages\":30,\"errors\":5,\"refused\":2,\"busy_ms\":6001,"
               "\"throttled_ms\":7},{\"uid\":0,\"connections\":1,\"live\":0,\"bytes_held\":0,\"messages\":4,"
               "\"errors\":0,\"refused\":0,\"busy_ms\":0,\"throttled_ms\":0}],\"uids\":[{\"uid\":7,\"sessions\":1}]}",
               &out, &status),
        0);
    assert_int_equal(status, 0);
    assert_string_equal(out.data,
                        "state: ready\n"
                        "clients:\n"
                        "  connections: 3\n"
                        "  connections_max: 1024\n"
                        "  bytes_held: 4K\n"
                        "  bytes_max: 512M\n"
                        "peers:\n"
                        "   uid  connections  live  bytes_held  messages  errors  refused  busy_ms  throttled_ms\n"
                        "  1000            2     1          3M        30       5        2     6001             7\n"
                        "     0            1     0          0B         4       0        0        0             0\n"
                        "uids:\n"
                        "  uid  sessions\n"
                        "    7         1\n");
    buf_fini(&out);
}

static void test_a_wide_row(void **state)
{
    struct buf json = BUF_INIT, out = BUF_INIT;
    int status;

    assert_int_equal(buf_puts(&json, "{\"uids\":[{\"k0\":0"), 0);
    for (int i = 1; i < 40; i++) assert_int_equal(buf_printf(&json, ",\"k%d\":%d", i, i), 0);
    assert_int_equal(buf_puts(&json, "}]}"), 0);
    assert_int_equal(format(json.data, &out, &status), 0);
    assert_non_null(strstr(out.data, "  k15\n"));
    assert_null(strstr(out.data, "k16"));
    buf_fini(&json);
    buf_fini(&out);
}

static void test_cache_is_readable(void **state)
{
    struct buf out = BUF_INIT;
    int status;

    assert_int_equal(format("{\"cache\":{\"blocks_memory\":12,\"bytes_memory\":1610612736,\"hit_rate\":0.8333,"
                            "\"last_miss\":\"evicted\"}}",
                            &out, &status),
                     0);
    assert_string_equal(out.data, "cache:\n"
                                  "  blocks_memory: 12\n"
                                  "  bytes_memory: 1.5G\n"
                                  "  hit_rate: 83.3%\n"
                                  "  last_miss: evicted\n");
    assert_int_equal(format("{\"hit_rate\":null,\"bytes_x\":-1,\"bytes_y\":\"4\"}", &out, &status), 0);
    assert_string_equal(out.data, "hit_rate: null\nbytes_x: -1\nbytes_y: 4\n");
    assert_int_equal(format("{\"step_ms\":0.070000000000000007,\"rate\":9.5530000000000008,\"n\":3.0,\"big\":1.5e300}",
                            &out, &status),
                     0);
    assert_string_equal(out.data, "step_ms: 0.07\nrate: 9.553\nn: 3\nbig: 1.5e300\n");
    assert_int_equal(format("{\"energy\":null}", &out, &status), 0);
    assert_string_equal(out.data, "energy: unknown\n");
    assert_int_equal(format("{\"energy\":{\"joules\":12.500}}", &out, &status), 0);
    assert_string_equal(out.data, "energy:\n  joules: 12.5\n");
    buf_fini(&out);
}

static void test_state_decides(void **state)
{
    struct buf out = BUF_INIT;
    int status;

    assert_int_equal(format("{\"state\":\"loading\"}", &out, &status), 0);
    assert_int_equal(status, 75);
    assert_int_equal(format("{\"state\":\"stopping\"}", &out, &status), 0);
    assert_int_equal(status, 75);
    assert_int_equal(format("{\"state\":\"failed\"}", &out, &status), 0);
    assert_int_equal(status, 1);
    /* Only the outermost one counts. */
    assert_int_equal(format("{\"x\":{\"state\":\"ready\"}}", &out, &status), 0);
    assert_int_equal(status, 1);
    buf_fini(&out);
}

static void test_bad_status_is_an_error(void **state)
{
    static const char *const bad[] = {"", "[]", "3", "{\"a\":}", "{\"a\":1", "{\"a\":1}x", "{\"a\" 1}", "{\"a\":\"b}"};
    struct buf out = BUF_INIT;
    int status;
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(format(bad[i], &out, &status), -EBADMSG);
    buf_fini(&out);
}

static void send_status(struct peer *p, const char *json)
{
    struct proto_event e = {.type = PROTO_EV_STATUS, .id = 1, .status = {(char *)json, strlen(json)}};

    peer_expect(p, PROTO_STATUS);
    peer_hello(p);
    peer_send(p, &e);
}

static void ready(struct peer *p)
{
    send_status(p, READY);
}

static void loading(struct peer *p)
{
    send_status(p, "{\"state\":\"loading\"}");
}

static void nonsense(struct peer *p)
{
    send_status(p, "ready, as ever");
}

static void test_status_command(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, ready, "status");
    assert_string_equal(r.out, "state: ready\nctx: 512\n");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
    PEER_RUN(&r, ready, "status", "--json");
    assert_string_equal(r.out, READY "\n");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
    PEER_RUN(&r, loading, "status");
    assert_string_equal(r.out, "state: loading\n");
    assert_int_equal(r.status, 75);
    peer_fini(&r);
    PEER_RUN(&r, nonsense, "status");
    assert_string_equal(r.out, "");
    assert_non_null(strstr(r.err, "the daemon's status"));
    assert_int_equal(r.status, 1);
    peer_fini(&r);
}

static void hang_up(struct peer *p)
{
    peer_expect(p, PROTO_STATUS);
}

static void test_status_timeout(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, hang_up, "status");
    assert_int_equal(r.status, 69);
    assert_int_equal(r.connections, 1);
    peer_fini(&r);
}

static ssize_t stop_heard;

/* Hangs up some time after it has agreed. */
static void stop_slowly(struct peer *p)
{
    char c;

    peer_expect(p, PROTO_STOP);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_STOPPING, .id = 1});
    usleep(100000);
    /* A client that had left would read as 0. */
    stop_heard = recv(p->fd, &c, 1, MSG_DONTWAIT);
}

static void refuse_stop(struct peer *p)
{
    peer_expect(p, PROTO_STOP);
    peer_hello(p);
    peer_error(p, EPERM, "only uid 0 may stop this daemon");
}

static void test_stop_waits_for_the_end(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, stop_slowly, "stop");
    assert_int_equal(stop_heard, -1);
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "");
    assert_string_equal(r.err, "");
    peer_fini(&r);
}

static void test_stop_may_be_refused(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, refuse_stop, "stop");
    assert_int_equal(r.status, 1);
    assert_string_equal(r.err, "hob: only uid 0 may stop this daemon\n");
    peer_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uids_are_rows),
        cmocka_unit_test(test_peers_are_rows),
        cmocka_unit_test(test_a_wide_row),
        cmocka_unit_test(test_cache_is_readable),
        cmocka_unit_test(test_table_has_every_key),
        cmocka_unit_test(test_state_decides),
        cmocka_unit_test(test_bad_status_is_an_error),
        cmocka_unit_test(test_status_command),
        cmocka_unit_test(test_status_timeout),
        cmocka_unit_test(test_stop_waits_for_the_end),
        cmocka_unit_test(test_stop_may_be_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
