/* SPDX-License-Identifier: MIT */
/* Prefixes that the administrator installs for all users. */
#include "tests/engine/harness.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the administrator installs is found by all, and nothing else is. */
static void test_public_prefix(void **state)
{
    struct harness *h = *state;
    char path[128], doc[2048];
    harness_dirs(h);
    snprintf(path, sizeof(path), "%s/prefixes", h->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    h->config.prefixes_dir = path;
    harness_text(doc, sizeof(doc), 77, 100);
    char file[160];
    snprintf(file, sizeof(file), "%s/a.txt", path);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", doc);
    fclose(f);
    harness_start(h);
    struct answer *a[2];
    while (harness_status(h, 0, "tokens_computed") == 0) usleep(1000);
    for (unsigned i = 0; i < 2; i++) {
        while (harness_status(h, 0, "queued") || harness_status(h, 0, "running")) usleep(1000);
        struct proto_request r = harness_user(NULL, i ? "you" : "me");
        struct proto_message *m = calloc(2, sizeof(*m));
        assert_non_null(m);
        m[1] = r.gen.messages[0];
        free(r.gen.messages);
        r.gen.messages = m;
        r.gen.n_messages = 2;
        assert_int_equal(proto_text_set(&m[0].role, "system", 6), 0);
        assert_int_equal(proto_text_set(&m[0].content, doc, strlen(doc)), 0);
        a[i] = harness_wait(h, harness_submit_as(h, 1, 1000 + i, &r));
        assert_int_equal(a[i]->last.type, PROTO_EV_DONE);
        assert_true(a[i]->last.usage_cached > 80);
    }
    harness_stop(h);
    h->config.queue_timeout_usec = 0; /* nobody waits for them, so that they cannot be too late */
    harness_start(h);
    while (harness_status(h, 0, "tokens_computed") == 0) usleep(1000);
    while (harness_status(h, 0, "queued") || harness_status(h, 0, "running")) usleep(1000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_public_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
