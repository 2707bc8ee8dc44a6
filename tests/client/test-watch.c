/* SPDX-License-Identifier: MIT */
/* What hob status --watch shows. */
#include "tests/client/peer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void send_status(struct peer *p, const char *json)
{
    struct proto_event e = {.type = PROTO_EV_STATUS, .id = 1, .status = {(char *)json, strlen(json)}};

    peer_send(p, &e);
}

static void twice_then_closed(struct peer *p)
{
    peer_expect(p, PROTO_STATUS);
    peer_hello(p);
    send_status(p, "{\"state\":\"ready\",\"model\":\"a\",\"uptime_s\":1,\"running\":0}");
    peer_expect_next(p, PROTO_STATUS);
    send_status(p, "{\"state\":\"stopping\",\"model\":\"a\",\"uptime_s\":2}");
    peer_expect_next(p, PROTO_STATUS);
}

static void test_blocks_when_not_a_terminal(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, twice_then_closed, "status", "--watch", "50ms");
    assert_non_null(strstr(r.out, "a: ready, up 1s\nrunning "));
    assert_non_null(strstr(r.out, "\n\na: stopping, up 2s\n"));
    assert_null(strchr(r.out, '\033'));
    assert_string_equal(r.err, "hob: the daemon closed the connection before it answered\n");
    assert_int_equal(r.status, 69);
    assert_int_equal(r.connections, 1);
    peer_fini(&r);
    PEER_RUN(&r, twice_then_closed, "status", "--json", "--watch=0.05");
    assert_non_null(strstr(r.out, "\"running\":0}\n{\"state\":\"stopping\""));
    assert_int_equal(r.status, 69);
    peer_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_when_not_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
