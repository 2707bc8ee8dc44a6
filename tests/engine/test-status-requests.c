/* SPDX-License-Identifier: MIT */
/* Covers status-requests.c, status-snapshot.c and status-json.c: what each uid sees. */
#include "daemon/engine/status-snapshot.h"
#include "tests/engine/harness.h"
#include <stdatomic.h>
#include <stdio.h>

static atomic_uint snapshots;

int __real_status_take(struct engine *e, uid_t uid, struct status_snapshot *out);
int __wrap_status_take(struct engine *e, uid_t uid, struct status_snapshot *out);

int __wrap_status_take(struct engine *e, uid_t uid, struct status_snapshot *out)
{
    snapshots++;
    return __real_status_take(e, uid, out);
}

static void test_status_is_ones_own(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw("x");
    assert_int_equal(proto_text_set(&r.gen.session, "s", 1), 0);
    harness_wait(h, harness_submit_as(h, 1, 1234, &r));
    const struct {
        uid_t uid;
        const char *requests, *sessions;
    } want[] = {{1234, "\"requests\":1", "\"sessions\":1"},
                {1235, "\"requests\":0", "\"sessions\":0"},
                {0, "\"requests\":1", "\"sessions\":1"}};
    for (int i = 0; i < 3; i++) {
        r = harness_simple(PROTO_STATUS);
        struct answer *a = harness_wait(h, harness_submit_as(h, 1, want[i].uid, &r));
        assert_non_null(strstr(a->last.status.data, want[i].requests));
        assert_non_null(strstr(a->last.status.data, want[i].sessions));
    }
}

/* Of very many users not all are told one by one, and none of what they did is lost. */
static void test_many_users(void **state)
{
    struct harness *h = *state;
    const char *at;
    unsigned users = 0;
    harness_start(h);
    for (uid_t uid = 0; uid < 1100; uid++) {
        struct proto_request r = harness_raw("x");
        r.gen.max_tokens = 1;
        r.gen.logprobs = false;
        struct answer *a = harness_wait(h, harness_submit_as(h, 1, 5000 + uid, &r));
        assert_done(a, PROTO_STOP_LENGTH);
        harness_forget(h);
    }
    struct proto_request r = harness_simple(PROTO_STATUS);
    struct answer *a = harness_wait(h, harness_submit_as(h, 1, 0, &r));
    for (at = a->last.status.data; at; at = strstr(at + 1, "\"uid\":")) users++;
    assert_in_range(users - 1, 1000, 1030);
    assert_int_equal(harness_status(h, 0, "requests"), 1100);
    assert_int_equal(harness_status(h, 0, "tokens_generated"), 1100);
    assert_int_equal(harness_status(h, 6099, "requests"), 1);
}

/* A step of a long prompt takes its time; who asks meanwhile is answered. Of a prompt that one step reads and one token
 * answers, nothing is ever seen running between steps. */
static void test_status_while_it_computes(void **state)
{
    struct harness *h = *state;
    char text[1700] = "";
    bool seen = false;
    h->config.batch_tokens = 2048;
    memset(text, 'x', sizeof(text) - 1);
    harness_start(h);
    for (int i = 0; i < 50 && !seen; i++) {
        text[0] = (char)('a' + i % 26);
        text[1] = (char)('a' + i / 26);
        struct proto_request r = harness_raw(text);
        r.gen.max_tokens = 1;
        uint64_t id = harness_submit(h, &r);
        while (!h->answers[id].ended && !seen) {
            seen = harness_status(h, 0, "running") == 1;
            if (h->n + 2 >= ANSWERS) break;
        }
        harness_wait(h, id);
        assert_done(&h->answers[id], PROTO_STOP_LENGTH);
        harness_stop(h);
        harness_start(h);
    }
    assert_true(seen);
}

/* Requests of three uids that come together: a snapshot for each uid, and its text for each of its requests. */
static void test_requests_that_come_together(void **state)
{
    static const uid_t uids[] = {1234, 0, 1235, 1236};
    struct harness *h = *state;
    const char *texts[4] = {NULL};
    uint64_t id[40];
    harness_start(h);
    for (unsigned i = 0; i < 5; i++) { /* two of 1234, three of 1235, none of 1236 */
        struct proto_request r = harness_raw("x");
        harness_wait(h, harness_submit_as(h, 1, i < 2 ? 1234 : 1235, &r));
        harness_forget(h);
    }
    harness_hold(h);
    snapshots = 0;
    for (unsigned i = 0; i < 40; i++) {
        struct proto_request r = harness_simple(PROTO_STATUS);
        id[i] = harness_submit_as(h, 1 + i % 7, uids[i % 4], &r);
    }
    assert_int_equal(snapshots, 0);
    harness_go(h);
    for (unsigned i = 0; i < 40; i++) {
        static const char *const requests[] = {"\"requests\":2,", "\"requests\":5,", "\"requests\":3,",
                                               "\"requests\":0,"};
        const struct answer *a = harness_wait(h, id[i]);
        assert_int_equal(a->last.type, PROTO_EV_STATUS);
        assert_non_null(strstr(a->last.status.data, requests[i % 4]));
        if (!texts[i % 4]) texts[i % 4] = a->last.status.data;
        assert_string_equal(a->last.status.data, texts[i % 4]);
    }
    assert_int_equal(snapshots, 4);
    assert_int_equal(engine_load(h->engine), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_status_is_ones_own, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_requests_that_come_together, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_many_users, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_status_while_it_computes, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
