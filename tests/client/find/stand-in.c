/* SPDX-License-Identifier: MIT */
#include "tests/client/find/stand-in.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each word adds a direction of its own. */
static void add_word(const struct stand_in *s, float *x, const char *word, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ s->seed;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint64_t)tolower((unsigned char)word[i])) * UINT64_C(1099511628211);
    for (uint32_t k = 0; k < s->dim; k++) {
        h = h * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        x[k] += (float)(int32_t)(h >> 32) / 2147483648.0f;
    }
}

void stand_in_vector(const struct stand_in *s, float *x, const char *text, size_t len)
{
    double sum = 0;
    memset(x, 0, s->dim * sizeof(*x));
    add_word(s, x, "", 0);
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && isalnum((unsigned char)text[i + n])) n++;
        if (n) add_word(s, x, text + i, n);
        i += n ? n : 1;
    }
    for (uint32_t k = 0; k < s->dim; k++) sum += (double)x[k] * (double)x[k];
    for (uint32_t k = 0; k < s->dim; k++) x[k] = (float)((double)x[k] / sqrt(sum));
}

static int run(struct embedder *e, const struct proto_text *texts, size_t n, embedder_sink sink, void *ctx)
{
    struct stand_in *s = e->ctx;
    float *x = malloc(s->dim * sizeof(*x));
    int r = x ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (s->fail_after && s->texts >= s->fail_after) r = -ECANCELED;
        if (r < 0) break;
        stand_in_vector(s, x, texts[i].data, texts[i].len);
        s->texts++;
        r = sink(ctx, x, 1, s->dim);
    }
    free(x);
    return r;
}

void stand_in_init(struct stand_in *s, uint32_t dim)
{
    *s = (struct stand_in){.e = {.run = run, .ctx = s, .status = 69}, .dim = dim};
}
