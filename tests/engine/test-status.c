/* SPDX-License-Identifier: MIT */
/* What a uid sees. */
#include "tests/engine/harness.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_status_is_ones_own, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
