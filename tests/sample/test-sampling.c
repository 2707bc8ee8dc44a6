/* SPDX-License-Identifier: MIT */
/* A whole answer: rollback to any position, clones, a processor of the test's own. */
#include "daemon/sample/rng.h"
#include "libcommon/error.h"
#include "tests/sample/fixture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 700, TOKENS = 60, PROMPT = 5 };

/* An answer being made: the row of a position depends on the tokens before, as a model's does. */
struct writer {
    struct sampling s;
    struct sample_scratch *x;
    int32_t ids[PROMPT + TOKENS]; /* prompt, then answer */
    size_t n;
    float row[VOCAB];
};

static void fill_row(struct writer *w)
{
    uint64_t key = (uint64_t)w->ids[w->n - 1] * 1000003u + w->n;
    for (int i = 0; i < VOCAB; i++) w->row[i] = (float)(rng_uniform(key, 3, (uint64_t)i) * 9 - 5);
}

static void write_token(struct writer *w)
{
    float before[VOCAB];
    int32_t id = -1;
    fill_row(w);
    memcpy(before, w->row, sizeof(before));
    assert_int_equal(sampling_pick(&w->s, w->x, (struct logits){.row = w->row}, w->ids, w->n, &id), 0);
    assert_memory_equal(w->row, before, sizeof(before));
    w->ids[w->n++] = id;
}

static void take_back(struct writer *w, size_t n)
{
    sampling_rollback(&w->s, n);
    w->n -= n;
}

static const struct sample_bias biases[] = {{2, 3.5f}, {5, -3}};
static const int32_t banned[] = {9, 11};

static void begin(struct writer *w, const struct sample_params *p)
{
    *w = (struct writer){.s = {.params = *p, .seed = 5, .answer = 2}, .ids = {1, 2, 3, 2, 1}, .n = PROMPT};
    assert_int_equal(sample_scratch_new(&w->x, VOCAB), 0);
    assert_int_equal(sampling_start(&w->s, biases, 2, banned, 2), 0);
}

static void end(struct writer *w)
{
    sampling_fini(&w->s);
    sample_scratch_free(w->x);
}

/* Greedy, truncation and mirostat, with penalties. */
static struct sample_params params(int kind)
{
    struct sample_params p;
    sample_params_init(&p);
    p.repeat = 1.2f;
    p.frequency = 0.3f;
    p.repeat_n = 20;
    p.temperature = kind == 0 ? 0 : 0.9f;
    p.mirostat = kind == 2 ? 4 : 0;
    return p;
}

/* Each token is what one chain call of the same parameters, history and random number gives. */
static void test_random_numbers_are_those_of_the_position(void **state)
{
    struct fixture_request q = {params(1), biases, 2, banned, 2};
    struct writer w;
    begin(&w, &q.p);
    for (int t = 0; t < TOKENS; t++) {
        int32_t id = -1;
        fill_row(&w);
        assert_int_equal(fixture_pick(w.x, &q, w.row, w.ids, w.n, rng_uniform(5, 2, (uint64_t)t), &id), 0);
        write_token(&w);
        assert_int_equal(w.ids[w.n - 1], id);
        assert_int_equal(w.s.position, t + 1);
    }
    end(&w);
}

static void test_rollback_is_exact(void **state)
{
    for (int kind = 0; kind < 3; kind++) {
        struct sample_params p = params(kind);
        int32_t want[PROMPT + TOKENS];
        struct writer w;
        begin(&w, &p);
        while (w.n < PROMPT + TOKENS) write_token(&w);
        memcpy(want, w.ids, sizeof(want));
        for (uint64_t k = 0; k < 200; k++) {
            size_t back = (size_t)(rng_uniform(6, 0, k) * (double)(w.n - PROMPT + 1));
            take_back(&w, back);
            size_t on = (size_t)(rng_uniform(6, 1, k) * (double)(PROMPT + TOKENS - w.n + 1));
            while (on-- > 0) write_token(&w);
            assert_memory_equal(w.ids, want, w.n * sizeof(*want));
        }
        end(&w);
    }
}

/* A token that was picked ahead, with other memory, is the one that would have been picked, and leaves the same state.
 */
static void test_foreseen(void **state)
{
    for (int kind = 0; kind < 3; kind++) {
        struct sample_params p = params(kind);
        struct sample_scratch *other;
        struct writer w, plain;
        begin(&w, &p);
        begin(&plain, &p);
        assert_int_equal(sample_scratch_new(&other, VOCAB), 0);
        while (w.n < PROMPT + TOKENS) {
            fill_row(&w);
            struct logits row = {.row = w.row};
            int32_t id = -1, ahead = sampling_foresee(&w.s, other, row, w.ids, w.n);
            assert_int_equal(w.s.position, w.n - PROMPT);
            assert_int_equal(sampling_foresee(&w.s, other, row, w.ids, w.n), ahead);
            if (w.n % 3) row.picked = &ahead; /* it may be picked again */
            assert_int_equal(sampling_pick(&w.s, w.x, row, w.ids, w.n, &id), 0);
            assert_int_equal(id, ahead);
            w.ids[w.n++] = id;
            write_token(&plain);
        }
        assert_memory_equal(w.ids, plain.ids, sizeof(w.ids));
        for (int i = 0; i < VOCAB; i++) w.row[i] = NAN;
        assert_int_equal(sampling_foresee(&w.s, other, (struct logits){.row = w.row}, w.ids, w.n), -1);
        sample_scratch_free(other);
        end(&plain);
        end(&w);
    }
}

/* A clone goes its own way, whatever becomes of the original. */
static void test_clone(void **state)
{
    for (int kind = 0; kind < 3; kind++) {
        struct sample_params p = params(kind);
        struct writer w, a;
        begin(&w, &p);
        while (w.n < PROMPT + TOKENS / 2) write_token(&w);
        a = w;
        assert_int_equal(sampling_clone(&a.s, &w.s), 0);
        while (w.n < PROMPT + TOKENS) write_token(&w);
        sampling_fini(&w.s);
        take_back(&a, 10);
        while (a.n < PROMPT + TOKENS) write_token(&a);
        assert_memory_equal(a.ids, w.ids, sizeof(a.ids));
        end(&a);
    }
}

/* --- a processor of the test's own --- */

/* Allows one id at each position that has one: a mask, as a grammar makes it. */
struct force {
    struct logits_processor base;
    int32_t ids[TOKENS]; /* -1: any */
    size_t at;
    size_t *freed;
};

static int force_apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    const struct force *f = (const struct force *)p;
    int32_t id = f->ids[f->at];
    if (id == -2) return error_say(-EPROTO, "no token is allowed");
    if (id < 0) return 0;
    float *x = logits_write(row);
    for (uint32_t i = 0; i < row->vocab; i++)
        if (i != (uint32_t)id) x[i] = -INFINITY;
    return 0;
}

static int force_accept(struct logits_processor *p, int32_t token)
{
    struct force *f = (struct force *)p;
    if (f->at + 1 == TOKENS) return -ENOMEM;
    f->at++;
    return 0;
}

static void force_rollback(struct logits_processor *p, size_t n)
{
    ((struct force *)p)->at -= n;
}

static int force_clone(const struct logits_processor *p, struct logits_processor **out)
{
    struct force *f = malloc(sizeof(*f));
    if (!f) return -ENOMEM;
    *f = *(const struct force *)p;
    *out = &f->base;
    return 0;
}

static void force_free(struct logits_processor *p)
{
    ++*((struct force *)p)->freed;
    free(p);
}

static const struct logits_processor_ops force_ops = {.name = "force",
                                                      .apply = force_apply,
                                                      .accept = force_accept,
                                                      .rollback = force_rollback,
                                                      .clone = force_clone,
                                                      .free = force_free};

static struct force *force_new(size_t *freed)
{
    struct force *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->base.ops = &force_ops;
    f->freed = freed;
    for (int i = 0; i < TOKENS; i++) f->ids[i] = i % 3 == 0 ? 100 + i : -1;
    return f;
}

static void test_a_processor_of_ones_own(void **state)
{
    size_t freed = 0;
    for (int kind = 0; kind < 3; kind++) {
        struct sample_params p = params(kind);
        int32_t want[PROMPT + TOKENS];
        struct writer w;
        struct sampling other = {0};
        begin(&w, &p);
        logits_chain_add(&w.s.chain, &force_new(&freed)->base);
        while (w.n < PROMPT + TOKENS - 1) write_token(&w);
        for (int i = 0; i < TOKENS - 1; i += 3) assert_int_equal(w.ids[PROMPT + i], 100 + i);
        memcpy(want, w.ids, sizeof(want));
        take_back(&w, 31);
        assert_int_equal(sampling_clone(&other, &w.s), 0);
        sampling_fini(&w.s);
        w.s = other;
        while (w.n < PROMPT + TOKENS - 1) write_token(&w);
        assert_memory_equal(w.ids, want, w.n * sizeof(*want));
        end(&w);
    }
    assert_int_equal(freed, 6);
}

/* A processor that fails, in apply or in accept, leaves all others as they were. */
static void test_errors_change_nothing(void **state)
{
    struct sample_params p = params(2);
    size_t freed = 0;
    struct writer w, plain;
    int32_t id = -1;
    begin(&w, &p);
    begin(&plain, &p);
    struct force *first = force_new(&freed), *last = force_new(&freed);
    memset(first->ids, -1, sizeof(first->ids));
    memset(last->ids, -1, sizeof(last->ids));
    logits_chain_add(&w.s.chain, &first->base);
    logits_chain_add(&w.s.chain, &last->base);
    last->ids[0] = -2;
    fill_row(&w);
    assert_int_equal(sampling_pick(&w.s, w.x, (struct logits){.row = w.row}, w.ids, w.n, &id), -EPROTO);
    assert_string_equal(error_text(-EPROTO), "no token is allowed");
    last->ids[0] = -1;
    last->at = TOKENS - 1;
    assert_int_equal(sampling_pick(&w.s, w.x, (struct logits){.row = w.row}, w.ids, w.n, &id), -ENOMEM);
    assert_int_equal(id, -1);
    assert_int_equal(first->at, 0);
    assert_int_equal(w.s.position, 0);
    last->at = 0;
    while (w.n < PROMPT + 20) {
        write_token(&w);
        write_token(&plain);
    }
    assert_memory_equal(w.ids, plain.ids, w.n * sizeof(*w.ids));
    end(&plain);
    end(&w);
    assert_int_equal(freed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_numbers_are_those_of_the_position),
        cmocka_unit_test(test_rollback_is_exact),
        cmocka_unit_test(test_foreseen),
        cmocka_unit_test(test_clone),
        cmocka_unit_test(test_a_processor_of_ones_own),
        cmocka_unit_test(test_errors_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
