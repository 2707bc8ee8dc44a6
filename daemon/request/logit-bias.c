/* SPDX-License-Identifier: MIT */
#include "daemon/request/logit-bias.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdlib.h>

/* Written by its user alone, so that a special token's text means the token. */
static int bias_of_text(int32_t *id, const struct tokenizer *k, const struct proto_text *text)
{
    _cleanup_(text_fini) struct text t = {0};
    _cleanup_(tokens_fini) struct tokens ids = {0};
    if (text_append(&t, text->data, text->len, true) < 0) return -ENOMEM;
    int r = tokenizer_encode(k, &t, 0, false, &ids);
    if (r == 0 && ids.n != 1)
        r = error_say(-EINVAL, "'%.*s' is %zu tokens, not one", (int)text->len, text->data, ids.n);
    if (r == 0) *id = ids.ids[0];
    return r;
}

static int bias_of(struct sample_bias *out, const struct loaded *m, const struct proto_bias *b)
{
    int r = 0;
    out->bias = b->bias;
    if (b->text.len)
        r = bias_of_text(&out->id, m->tokenizer, &b->text);
    else if (b->id < 0 || b->id >= (int64_t)m->vocab)
        r = error_say(-EINVAL, "%" PRId64 " is not a token of the model (0 to %" PRIu32 ")", b->id, m->vocab - 1);
    else
        out->id = (int32_t)b->id;
    if (r == 0 && !(b->bias >= -100.0f && b->bias <= 100.0f)) /* written so that a NaN fails */
        r = error_say(-EINVAL, "the bias is %g; it must be from -100 to 100", (double)b->bias);
    return r;
}

int logit_biases_of(struct sample_bias **out, size_t *n, const struct loaded *m, const struct proto_generate *g)
{
    if (g->n_biases == 0) return 0;
    struct sample_bias *b = calloc(g->n_biases, sizeof(*b));
    int r = b ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < g->n_biases; i++) r = bias_of(&b[i], m, &g->biases[i]);
    if (r < 0) {
        free(b);
        return r == -ENOMEM ? r : error_in(r, "logit_bias");
    }
    *out = b;
    *n = g->n_biases;
    return 0;
}
