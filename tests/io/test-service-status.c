/* SPDX-License-Identifier: MIT */
/* Status keys of connections: "clients" for everybody, "peers" for root and the daemon's own user. */
#include "daemon/io/service-status.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL_CLIENTS "\"clients\":{\"connections\":3,\"connections_max\":10,\"bytes_held\":200,\"bytes_max\":1000}"
#define PEERS                                                                                                          \
    "\"peers\":[{\"uid\":%lu,\"connections\":2,\"live\":4,\"bytes_held\":120,\"messages\":30,\"errors\":5,"            \
    "\"refused\":2,"                                                                                                   \
    "\"busy_ms\":6001,\"throttled_ms\":7},"                                                                            \
    "{\"uid\":%lu,\"connections\":1,\"live\":0,\"bytes_held\":80,\"messages\":0,\"errors\":0,\"refused\":0,"           \
    "\"busy_ms\":0,\"throttled_ms\":0}]"

enum { DAEMON = 65000 }; /* the daemon's uid where the test runs as root */

/* Two users who are neither root nor the daemon's. */
struct fixture {
    struct accounts *all;
    struct account *open[3]; /* two of uid[0], one of uid[1] */
    uint64_t charged[3];
    uid_t uid[2];
};

static int setup(void **state)
{
    const struct account_limits limits = {.connections = 10, .uid_connections = 2, .bytes = 1000, .uid_bytes = 400};
    static const uint64_t bytes[] = {50, 70, 80};
    struct fixture *g = calloc(1, sizeof *g);
    struct account *refused;

    if (!g) return -1;
    *state = g;
    g->uid[0] = geteuid() + 1000;
    g->uid[1] = geteuid() + 1001;
    assert_int_equal(accounts_new(&g->all, &limits), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(account_open(g->all, g->uid[i / 2], 0, &g->open[i]), 0);
        assert_int_equal(account_charge(g->open[i], &g->charged[i], bytes[i]), 0);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(account_open(g->all, g->uid[0], 0, &refused), -EBUSY);
    account_counts(g->open[0])->messages = 30;
    account_counts(g->open[0])->errors = 5;
    account_queue(g->open[0])->live = 4;
    account_queue(g->open[0])->spent = 6001999;
    account_queue(g->open[0])->waited = 7000;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *g = *state;

    if (seteuid(getuid()) < 0) return -1;
    account_queue(g->open[0])->live = 0;
    for (int i = 0; i < 3; i++) {
        account_charge(g->open[i], &g->charged[i], 0);
        account_close(g->open[i]);
    }
    accounts_free(g->all);
    free(g);
    return 0;
}

static void check(const struct fixture *g, uid_t uid, const char *before, const char *expected)
{
    struct proto_text status = {strdup(before), strlen(before)};

    assert_non_null(status.data);
    assert_int_equal(service_status_add(&status, g->all, uid), 0);
    assert_int_equal(status.len, strlen(expected));
    assert_memory_equal(status.data, expected, status.len);
    proto_text_fini(&status);
}

static void root_sees_everybody(void **state)
{
    const struct fixture *g = *state;
    char expected[1024];

    snprintf(expected, sizeof expected, "{\"state\":\"ready\"," ALL_CLIENTS "," PEERS "}", (unsigned long)g->uid[0],
             (unsigned long)g->uid[1]);
    if (getuid() == 0) assert_int_equal(seteuid(DAEMON), 0); /* else the two checks would be the same */
    check(g, 0, "{\"state\":\"ready\"}", expected);
    check(g, geteuid(), "{\"state\":\"ready\"}", expected);
}

static void another_user_sees_only_their_own(void **state)
{
    const struct fixture *g = *state;

    check(g, g->uid[0], "{\"state\":\"ready\"}",
          "{\"state\":\"ready\",\"clients\":{\"connections\":2,\"connections_max\":2,\"bytes_held\":120,"
          "\"bytes_max\":400}}");
    check(g, g->uid[1], "{\"state\":\"ready\"}",
          "{\"state\":\"ready\",\"clients\":{\"connections\":1,\"connections_max\":2,\"bytes_held\":80,"
          "\"bytes_max\":400}}");
    check(g, g->uid[1] + 1, "{\"state\":\"ready\"}",
          "{\"state\":\"ready\",\"clients\":{\"connections\":0,\"connections_max\":2,\"bytes_held\":0,"
          "\"bytes_max\":400}}");
}

static void a_named_user_is_told_from_the_gateway(void **state)
{
    const struct account_limits limits = {.connections = 10, .uid_connections = 2, .bytes = 1000, .uid_bytes = 400};
    struct fixture g = {0};
    struct account *x;

    assert_int_equal(accounts_new(&g.all, &limits), 0);
    assert_int_equal(account_open(g.all, 1000, 0, &x), 0);
    assert_int_equal(account_move(&x, 0x80000000, "ada", 0), 0);
    check(&g, 0, "{\"a\":1}",
          "{\"a\":1,\"clients\":{\"connections\":1,\"connections_max\":10,\"bytes_held\":0,\"bytes_max\":1000},"
          "\"peers\":[{\"uid\":1000,\"user\":\"ada\",\"connections\":1,\"live\":0,\"bytes_held\":0,\"messages\":0,"
          "\"errors\":0,\"refused\":0,\"busy_ms\":0,\"throttled_ms\":0},"
          "{\"uid\":1000,\"connections\":0,\"live\":0,\"bytes_held\":0,\"messages\":0,"
          "\"errors\":0,\"refused\":0,\"busy_ms\":0,\"throttled_ms\":0}]}");
    check(&g, 0x80000000, "{\"a\":1}",
          "{\"a\":1,\"clients\":{\"connections\":1,\"connections_max\":2,\"bytes_held\":0,\"bytes_max\":400}}");
    account_close(x);
    accounts_free(g.all);
}

static void no_account_is_an_empty_table(void **state)
{
    const struct account_limits limits = {.connections = 10, .uid_connections = 2, .bytes = 1000, .uid_bytes = 400};
    struct fixture g = {0};

    assert_int_equal(accounts_new(&g.all, &limits), 0);
    check(&g, 0, "{\"a\":1}",
          "{\"a\":1,\"clients\":{\"connections\":0,\"connections_max\":10,\"bytes_held\":0,\"bytes_max\":1000},"
          "\"peers\":[]}");
    accounts_free(g.all);
}

static void text_that_is_no_object_stays(void **state)
{
    const struct fixture *g = *state;

    check(g, 0, "", "");
    check(g, 0, "}", "}");
    check(g, 0, "[1]", "[1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(root_sees_everybody, setup, teardown),
        cmocka_unit_test_setup_teardown(another_user_sees_only_their_own, setup, teardown),
        cmocka_unit_test(a_named_user_is_told_from_the_gateway),
        cmocka_unit_test(no_account_is_an_empty_table),
        cmocka_unit_test_setup_teardown(text_that_is_no_object_stays, setup, teardown),
    };

    return cmocka_run_group_tests_name("service-status", tests, NULL, NULL);
}
