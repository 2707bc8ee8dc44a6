/* SPDX-License-Identifier: MIT */
#include "daemon/request/text-tokens.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <inttypes.h>

/* Append the tokens of one text and the one for its end, all of type @type. */
static int push_text(struct tokens *out, const struct tokenizer *k, const struct proto_text *text, uint32_t type)
{
    _cleanup_(text_fini) struct text t = {0};
    _cleanup_(tokens_fini) struct tokens ids = {0};
    const int32_t end = tokenizer_end(k);
    if (text_append(&t, text->data ? text->data : "", text->len, false) < 0) return -ENOMEM;
    int r = tokenizer_encode(k, &t, 0, true, &ids);
    for (size_t i = 0; r == 0 && i < ids.n; i++) r = tokens_push(out, ids.ids[i], type);
    return r < 0 || end < 0 ? r : tokens_push(out, end, type);
}

static int push_all(struct tokens *out, const struct tokenizer *k, const struct proto_text *question,
                    const struct proto_text *text)
{
    int r = tokenizer_add_bos(k) && tokenizer_bos(k) >= 0 ? tokens_push(out, tokenizer_bos(k), 0) : 0;
    if (r == 0 && question) r = push_text(out, k, question, 0);
    return r < 0 ? r : push_text(out, k, text, question != NULL);
}

int text_tokens(struct tokens *out, const struct loaded *m, const struct proto_text *question,
                const struct proto_text *text)
{
    /* No text of the context has more bytes: tokenizing it would be for nothing. */
    const uint64_t most = (uint64_t)m->ctx * (m->piece_max ? m->piece_max : 1);
    if (text->len > most)
        return error_say(-E2BIG, "%zu bytes; the context holds %" PRIu32 " tokens, at most %" PRIu64 " bytes",
                         text->len, m->ctx, most);
    int r = push_all(out, m->tokenizer, question, text);
    if (r < 0) return r == -ENOMEM ? error_origin(r) : r;
    if (out->n > m->ctx) return error_say(-E2BIG, "%zu tokens; the context holds %" PRIu32, out->n, m->ctx);
    if (out->n == 0) return error_say(-EINVAL, "is empty, and the model has no token for the end of a text");
    return 0;
}
