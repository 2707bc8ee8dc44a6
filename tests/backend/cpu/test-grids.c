/* SPDX-License-Identifier: MIT */
/* Items with places in a grid (M-RoPE): against the independent pass; the same bits in parts of any size and with any
 * number of threads. */
#include "daemon/reference/reference.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 260 };

/* Tokens with three grids, two of them one behind the other. */
struct grids {
    int32_t ids[N];
    float *embd; /* [N][dim] */
    uint32_t dim;
    struct item_place places[N];
};

static const struct item_run runs[] = {{.at = 10, .n = 42, .kind = ITEM_IMAGE, .columns = 7},
                                       {.at = 52, .n = 12, .kind = ITEM_IMAGE, .columns = 12},
                                       {.at = 100, .n = 60, .kind = ITEM_IMAGE, .columns = 5}};

static struct gguf *open_arch(const char *arch)
{
    struct tiny t;
    tiny_init(&t);
    t.type = 0;
    t.arch = arch;
    return model_file_tiny(&t);
}

static void grids_init(struct grids *p, const struct backend *b)
{
    const struct items items = {.ids = p->ids, .n = N, .runs = runs, .n_runs = 3};
    uint32_t x = 1;
    p->dim = b->hparams.dim;
    seeded_tokens(p->ids, N, b->hparams.vocab, 5);
    p->embd = malloc((size_t)N * p->dim * sizeof(float));
    assert_non_null(p->embd);
    for (size_t i = 0; i < (size_t)N * p->dim; i++) {
        x = x * 1664525 + 1013904223;
        p->embd[i] = (float)(x >> 8) / (1 << 23) - 1;
    }
    for (size_t r = 0; r < 3; r++)
        for (uint32_t i = 0; i < runs[r].n; i++) p->ids[runs[r].at + i] = ITEM_EMBD;
    assert_true(items_check(&items) && items_places(&items, 0, N, p->places));
    assert_true(p->places[N - 1].of[2] == N - 1 - 35 - 48);
}

/* In entries of up to @most items. */
static void compute(struct backend *b, const struct grids *p, struct backend_seq *s, uint32_t most)
{
    while (s->done < N) {
        const uint32_t at = s->done;
        uint32_t n = 1;
        while (n < most && at + n < N && (p->ids[at + n] == ITEM_EMBD) == (p->ids[at] == ITEM_EMBD)) n++;
        struct batch_entry e = backend_seq_entry(s, n);
        e.tokens = p->ids[at] == ITEM_EMBD ? NULL : p->ids + at;
        e.embd = p->embd + (size_t)at * p->dim;
        e.places = p->places + at;
        int r = b->ops->forward(b, &e, 1, s->logits + (size_t)at * s->vocab, NULL);
        if (r < 0) fail_msg("%s", error_text(r));
        s->done += n;
    }
}

static float farthest(const float *a, const struct backend_seq *s)
{
    float worst = 0;
    for (size_t i = 0; i < (size_t)N * s->vocab; i++) worst = fmaxf(worst, fabsf(a[i] - s->logits[i]));
    return worst;
}

static void test_reference(void **state)
{
    struct gguf *g = open_arch("qwen2vl");
    struct reference *r = NULL;
    int e = reference_new(&r, g);
    if (e == -ENOENT) {
        print_message("skipped: %s\n", error_text(e));
        gguf_close(g);
        skip();
    }
    assert_int_equal(e, 0);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .kv_type = KERN_KV_F32});
    struct grids p;
    struct backend_seq s;
    grids_init(&p, b);
    backend_seq_init(&s, b, N, 5, 0);
    compute(b, &p, &s, 50);
    float *want = malloc((size_t)N * s.vocab * sizeof(float));
    assert_non_null(want);
    reference_places(r, p.places);
    assert_int_equal(reference_items(r, p.ids, p.embd, NULL, N, want), 0);
    float worst = farthest(want, &s);
    if (!(worst < 2e-4f)) fail_msg("a logit differs by %g", (double)worst);
    reference_places(r, NULL);
    assert_int_equal(reference_items(r, p.ids, p.embd, NULL, N, want), 0);
    assert_true(farthest(want, &s) > 0.1f);
    free(want);
    free(p.embd);
    reference_free(r);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

static void test_same_bits(void **state)
{
    static const uint32_t most[] = {1, 7, 64, 256};
    struct gguf *g = open_arch("qwen2vl");
    struct backend_seq want = {0};
    for (uint32_t i = 0; i < 4; i++) {
        struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 1 + i});
        struct grids p;
        struct backend_seq s;
        grids_init(&p, b);
        backend_seq_init(&s, b, N, 5, 0);
        compute(b, &p, &s, most[i]);
        free(p.embd);
        backend_free(b);
        if (i) backend_seq_same_logits(&want, &s);
        if (i) backend_seq_fini(&s);
        if (!i) want = s;
    }
    backend_seq_fini(&want);
    gguf_close(g);
}

/* A model without M-RoPE, and a context that rotates. */
static void test_refused(void **state)
{
    static const struct item_place places[5];
    for (int i = 0; i < 2; i++) {
        struct gguf *g = open_arch(i ? "qwen2vl" : "qwen2");
        struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
        struct backend_seq s;
        backend_seq_init(&s, b, 5, 5, 0);
        s.window = i ? 64 : 0;
        struct batch_entry e = backend_seq_entry(&s, 5);
        e.places = places;
        assert_int_equal(b->ops->forward(b, &e, 1, s.logits, NULL), -EOPNOTSUPP);
        assert_non_null(strstr(error_text(-EOPNOTSUPP), "items of a grid need a"));
        backend_seq_fini(&s);
        backend_free(b);
        gguf_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
