/* SPDX-License-Identifier: MIT */
/* The independent pass by itself; test-attention compares it with the fast one. */
#include "daemon/reference/reference.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct reference *open_or_skip(struct gguf **g, const struct tiny *t)
{
    struct reference *r = NULL;
    *g = model_file_tiny(t);
    int e = reference_new(&r, *g);
    if (e == -ENOENT) {
        print_message("skipped: %s\n", error_text(e));
        gguf_close(*g);
        skip();
    }
    assert_int_equal(e, 0);
    return r;
}

#define N 20

static void run(struct reference *r, const int32_t *tokens, uint32_t n, uint32_t vocab, float **out)
{
    *out = malloc((size_t)n * vocab * sizeof(float));
    assert_non_null(*out);
    assert_int_equal(reference_forward(r, tokens, n, *out), 0);
    for (size_t i = 0; i < (size_t)n * vocab; i++) assert_true(isfinite((*out)[i]));
}

/* A token changes the logits after it, and none before it. */
static void test_causal(void **state)
{
    struct tiny t;
    struct gguf *g;
    struct hparams s;
    tiny_init(&t);
    t.type = 0;
    struct reference *r = open_or_skip(&g, &t);
    assert_int_equal(hparams_read(&s, g), 0);
    int32_t tokens[N];
    seeded_tokens(tokens, N, s.vocab, 4);
    float *a, *b, early = 0, late = 0;
    run(r, tokens, N, s.vocab, &a);
    tokens[10] = (tokens[10] + 1) % (int32_t)s.vocab;
    run(r, tokens, N, s.vocab, &b);
    for (size_t i = 0; i < N * s.vocab; i++) {
        float d = fabsf(a[i] - b[i]);
        if (i < 10 * s.vocab)
            early = fmaxf(early, d);
        else if (i >= 11 * s.vocab)
            late = fmaxf(late, d);
    }
    assert_true(early < 1e-5f && late > 1e-2f);
    free(a);
    free(b);
    reference_free(r);
    gguf_close(g);
}

static void test_bad_token(void **state)
{
    struct tiny t;
    struct gguf *g;
    struct hparams s;
    tiny_init(&t);
    struct reference *r = open_or_skip(&g, &t);
    assert_int_equal(hparams_read(&s, g), 0);
    float *out = malloc(2 * s.vocab * sizeof(float));
    assert_non_null(out);
    assert_int_equal(reference_forward(r, (int32_t[]){1, (int32_t)s.vocab}, 2, out), -EINVAL);
    assert_int_equal(reference_forward(r, (int32_t[]){-1}, 1, out), -EINVAL);
    free(out);
    reference_free(r);
    gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_bad_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
