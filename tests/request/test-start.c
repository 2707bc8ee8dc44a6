/* SPDX-License-Identifier: MIT */
/* Covers start.c: a turn of the engine begins with a few new requests of each user, so that nobody's many make it long.
 */
#include "daemon/request/request-job.h"
#include "tests/engine/harness.h"

#define A_TURN 16 /* requests of a user */

/* The requests that went to the job pool to begin, in their order: whose, and in which turn of the engine. */
static struct {
    uid_t uid;
    enum proto_type type;
    uint64_t turn;
} starts[ANSWERS];
static unsigned n_starts; /* the engine's thread changes it until the answers have come */

void __real_request_prepare(struct request *r);
void __wrap_request_prepare(struct request *r);

void __wrap_request_prepare(struct request *r)
{
    starts[n_starts].uid = r->uid;
    starts[n_starts].type = r->proto.type;
    starts[n_starts++].turn = r->core->turns;
    __real_request_prepare(r);
}

static uint64_t tokenize(struct harness *h, uid_t uid)
{
    struct proto_request r = harness_simple(PROTO_TOKENIZE);
    assert_int_equal(proto_text_set(&r.text, "abc", 3), 0);
    return harness_submit_as(h, 1, uid, &r);
}

static uint64_t list(struct harness *h, uint64_t conn)
{
    struct proto_request r = harness_simple(PROTO_SESSION_LIST);
    return harness_submit_as(h, conn, 1000, &r);
}

/* How many of @uid began in turn @turn, counted from the first in which any did. */
static unsigned began(uid_t uid, uint64_t turn)
{
    unsigned n = 0;
    for (unsigned i = 0; i < n_starts; i++) n += starts[i].uid == uid && starts[i].turn == starts[0].turn + turn;
    return n;
}

/* The other user came last, and is served in the same turn. */
static void test_a_few_of_each_user(void **state)
{
    struct harness *h = *state;
    n_starts = 0;
    harness_start(h);
    harness_hold(h);
    for (unsigned i = 0; i < 2 * A_TURN + 8; i++) tokenize(h, 1000);
    for (unsigned i = 0; i < 3; i++) tokenize(h, 1001);
    harness_go(h);
    for (uint64_t id = 1; id <= h->n; id++) assert_int_equal(harness_wait(h, id)->last.type, PROTO_EV_TOKENS);
    assert_int_equal(n_starts, h->n);
    assert_int_equal(began(1001, 0), 3);
    assert_int_equal(began(1000, 0), A_TURN);
    assert_int_equal(began(1000, 1), A_TURN);
    assert_int_equal(began(1000, 2), 8);
}

/* A list can be large: it is not made for a connection that does not read; the user's others begin. */
static void test_no_list_for_a_slow_reader(void **state)
{
    struct harness *h = *state;
    n_starts = 0;
    harness_start(h);
    engine_pause(h->engine, 6, true);
    harness_hold(h);
    uint64_t slow = list(h, 6), other = list(h, 7), tokens = tokenize(h, 1000);
    harness_go(h);
    harness_wait(h, other);
    harness_wait(h, tokens);
    assert_int_equal(n_starts, 2);
    assert_int_equal(began(1000, 0), 2);
    assert_false(h->answers[slow].ended);
    engine_pause(h->engine, 6, false);
    assert_int_equal(harness_wait(h, slow)->last.type, PROTO_EV_SESSIONS);
    assert_int_equal(n_starts, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_few_of_each_user, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_no_list_for_a_slow_reader, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests_name("starts", tests, NULL, NULL);
}
