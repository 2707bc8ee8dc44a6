/* SPDX-License-Identifier: MIT */
/* The fingerprint of a backend's model, when it is known, and the KV identity of two backends. */
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct place {
    char top[64], dir[80], model[80];
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    const char *tmp = getenv("TMPDIR");
    struct tiny t;
    snprintf(p->top, sizeof(p->top), "%.40s/hob-identity-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(p->top)) return -1;
    snprintf(p->dir, sizeof(p->dir), "%s/packed", p->top);
    snprintf(p->model, sizeof(p->model), "%s/m.gguf", p->top);
    tiny_init(&t);
    *state = p;
    return tiny_write(&t, p->model);
}

static int teardown(void **state)
{
    struct place *p = *state;
    char cmd[128];
    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", p->top);
    free(p);
    return system(cmd);
}

struct start {
    struct gguf *g;
    struct backend *b;
};

static void start(struct start *s, const struct place *p, const struct tiny_backend_config *c)
{
    int r = gguf_open(&s->g, p->model);
    if (r) fail_msg("%s", error_text(r));
    s->b = tiny_backend(s->g, c);
}

static int verify(struct start *s, bool stopped)
{
    atomic_bool stop = stopped;
    return s->b->ops->verify_weights(s->b, &stop);
}

static void keep(struct start *s)
{
    atomic_bool stop = false;
    s->b->ops->keep_weights(s->b, &stop);
}

static void end(struct start *s)
{
    backend_free(s->b);
    gguf_close(s->g);
}

/* The truth: the hash of the file. */
static void expect_known(const struct start *s)
{
    struct fingerprint want, have = {0};
    atomic_bool stop = false;
    uint8_t id[16];
    assert_int_equal(fingerprint_make(&want, s->g, &stop), 0);
    assert_int_equal(s->b->ops->fingerprint(s->b, &have), 0);
    assert_memory_equal(&want, &have, sizeof(want));
    assert_int_equal(backend_kv_identity(s->b, id), 0);
}

static void expect_unknown(const struct start *s)
{
    struct fingerprint f;
    uint8_t id[16];
    assert_int_equal(s->b->ops->fingerprint(s->b, &f), 1);
    assert_int_equal(backend_kv_identity(s->b, id), 1);
}

static void test_verify_makes_it(void **state)
{
    struct start s;
    start(&s, *state, &(struct tiny_backend_config){0});
    expect_unknown(&s);
    assert_int_equal(verify(&s, false), 0);
    expect_known(&s);
    end(&s);
}

static void test_recalled_at_load(void **state)
{
    struct place *p = *state;
    struct start s;
    start(&s, p, &(struct tiny_backend_config){.packed_dir = p->dir});
    expect_unknown(&s);
    assert_int_equal(verify(&s, false), 0);
    expect_known(&s);
    end(&s);
    start(&s, p, &(struct tiny_backend_config){.packed_dir = p->dir});
    assert_false(s.b->weights_mapped);
    expect_known(&s);
    assert_int_equal(verify(&s, true), 0); /* there is nothing left to do */
    keep(&s);
    end(&s);
    start(&s, p, &(struct tiny_backend_config){.packed_dir = p->dir});
    assert_true(s.b->weights_mapped);
    expect_known(&s);
    assert_int_equal(verify(&s, false), 0);
    expect_known(&s);
    end(&s);
}

static void test_stopped_before_it_was_made(void **state)
{
    struct start s;
    start(&s, *state, &(struct tiny_backend_config){0});
    assert_int_equal(verify(&s, true), 1);
    expect_unknown(&s);
    end(&s);
}

/* A place that cannot be written to keeps nothing, and takes nothing else away. */
static void test_without_a_place_for_the_record(void **state)
{
    struct place *p = *state;
    struct start s;
    start(&s, p, &(struct tiny_backend_config){.packed_dir = "/dev/null/packed"});
    assert_int_equal(verify(&s, false), 0);
    expect_known(&s);
    end(&s);
}

static void test_file_that_has_changed(void **state)
{
    struct place *p = *state;
    struct start s;
    start(&s, p, &(struct tiny_backend_config){0});
    assert_int_equal(chmod(p->model, 0600), 0);
    FILE *f = fopen(p->model, "a");
    assert_non_null(f);
    fputc('x', f);
    fclose(f);
    assert_int_equal(verify(&s, false), 0);
    expect_unknown(&s);
    end(&s);
}

static void *verify_thread(void *arg)
{
    return (void *)(intptr_t)verify(arg, false);
}

/* A reader sees no fingerprint, then a whole one, while several threads compute it. */
static void test_fingerprint_during_verify(void **state)
{
    struct place *p = *state;
    struct start s;
    pthread_t threads[3];
    struct fingerprint f;
    void *r;
    start(&s, p, &(struct tiny_backend_config){.packed_dir = p->dir});
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, verify_thread, &s), 0);
    while (s.b->ops->fingerprint(s.b, &f)) sched_yield();
    expect_known(&s);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &r);
        assert_null(r);
    }
    end(&s);
    start(&s, p, &(struct tiny_backend_config){.packed_dir = p->dir});
    expect_known(&s);
    end(&s);
}

/* --- of KV --- */

static void identity(uint8_t out[16], const struct place *p, const struct tiny_backend_config *c)
{
    struct start s;
    start(&s, p, c);
    assert_int_equal(verify(&s, false), 0);
    assert_int_equal(backend_kv_identity(s.b, out), 0);
    end(&s);
}

static void test_what_changes_no_bit_of_kv(void **state)
{
    uint8_t want[16], have[16];
    const struct kernels *k;
    identity(want, *state, &(struct tiny_backend_config){0});
    identity(have, *state, &(struct tiny_backend_config){.threads = 2, .ctx = 100, .blocks = 9, .batch_tokens = 7});
    assert_memory_equal(want, have, 16);
    for (size_t i = 0; (k = kernels_nth(i)); i++) {
        identity(have, *state, &(struct tiny_backend_config){.cpu = k->name});
        assert_memory_equal(want, have, 16);
    }
}

static void test_what_does(void **state)
{
    struct place *p = *state;
    uint8_t ids[KERN_KV_TYPES + 3][16];
    size_t n = 0;
    struct tiny t;
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++)
        identity(ids[n++], p, &(struct tiny_backend_config){.kv_type = kv});
    tiny_init(&t);
    t.rope_base = 20000;
    assert_int_equal(tiny_write(&t, p->model), 0);
    identity(ids[n++], p, &(struct tiny_backend_config){0});
    tiny_init(&t);
    t.seed++;
    assert_int_equal(tiny_write(&t, p->model), 0);
    identity(ids[n++], p, &(struct tiny_backend_config){0});
    t.kv_heads = 4;
    assert_int_equal(tiny_write(&t, p->model), 0);
    identity(ids[n++], p, &(struct tiny_backend_config){0});
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(ids[i], ids[j], 16);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_verify_makes_it),
        CASE(test_recalled_at_load),
        CASE(test_stopped_before_it_was_made),
        CASE(test_without_a_place_for_the_record),
        CASE(test_file_that_has_changed),
        CASE(test_fingerprint_during_verify),
        CASE(test_what_changes_no_bit_of_kv),
        CASE(test_what_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
