/* SPDX-License-Identifier: MIT */
#include "daemon/request/text-vectors.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

enum { EVENT_BYTES = 128 << 10, EVENT_TEXTS = 4096 }; /* of vectors, in one event, at most */

const struct proto_text *text_of(const struct request *r, uint32_t i)
{
    const struct proto_embed *e = &r->proto.embed;
    if (r->texts->method != TEXTS_COSINE) return &e->texts[i];
    return i == 0 ? e->question : &e->texts[i - 1];
}

const struct proto_text *text_question(const struct request *r)
{
    return r->texts->method == TEXTS_RANK ? r->proto.embed.question : NULL;
}

static struct vector_key key_of(const struct request *r, uint32_t i)
{
    const struct proto_text *text = text_of(r, i), *question = text_question(r);
    struct vector_key k = {.pooling = r->texts->pooling, .text = text->data, .len = text->len};
    memcpy(k.namespace, r->texts->namespace.bytes, sizeof(k.namespace));
    if (question) k.question = question->data;
    if (question) k.question_len = question->len;
    return k;
}

bool text_find(struct request *r, uint32_t i)
{
    struct texts *t = r->texts;
    struct text_item *item = &t->items[i];
    const struct vector_key key = key_of(r, i);
    if (item->vector) return true;
    item->vector = malloc(t->dim * sizeof(*item->vector));
    if (!item->vector) return false;
    if (!vector_cache_find(&r->core->vectors, &key, r->uid, item->vector, &item->n_tokens)) {
        free(steal(item->vector));
        return false;
    }
    item->cached = true;
    t->tokens += item->n_tokens;
    t->cached += item->n_tokens;
    return true;
}

int text_keep(struct request *r, const struct text_slot *x, uint32_t tokens)
{
    struct texts *t = r->texts;
    struct text_item *item = &t->items[x->item];
    const struct vector_key key = key_of(r, x->item);
    struct backend *b = r->core->model.backend;
    const size_t most = t->dim > t->width ? t->dim : t->width; /* the row becomes the head's output */
    item->vector = malloc(most * sizeof(*item->vector));
    if (!item->vector) return error_origin(-ENOMEM);
    if (x->sums)
        pooling_mean(item->vector, x->sums, tokens, t->width);
    else
        memcpy(item->vector, x->row, t->width * sizeof(*x->row));
    int result = b->ops->head(b, t->pooling, item->vector, 1, item->vector);
    if (result < 0) return result;
    item->n_tokens = tokens;
    t->tokens += tokens;
    vector_cache_add(&r->core->vectors, &key, r->uid, item->vector, tokens);
    return 0;
}

/* --- events --- */

/* Put the values of an item to @out, in the form that was asked for, and drop the vector. */
static void put_item(struct request *r, uint32_t i, float *out)
{
    struct texts *t = r->texts;
    struct text_item *item = &t->items[i];
    if (t->method == TEXTS_VECTORS) {
        memcpy(out, item->vector, t->dims * sizeof(*out));
        pooling_finish(out, t->dims, !r->proto.embed.unscaled);
    } else if (t->method == TEXTS_COSINE) {
        *out = (float)pooling_cosine(t->items[0].vector, item->vector, t->dim);
    } else {
        *out = item->vector[0];
    }
    free(steal(item->vector));
}

/* Emit the next @n items. 0 or -ENOMEM. */
static int emit(struct request *r, uint32_t n)
{
    struct texts *t = r->texts;
    const bool scores = t->method != TEXTS_VECTORS;
    struct proto_vectors v = {.first = t->emitted - (t->method == TEXTS_COSINE), .n = n, .dim = scores ? 1 : t->dims};
    v.values = reallocarray(NULL, n, v.dim * sizeof(*v.values));
    v.tokens = reallocarray(NULL, n, sizeof(*v.tokens));
    if (!v.values || !v.tokens) {
        proto_vectors_fini(&v);
        return error_origin(-ENOMEM);
    }
    if (scores) v.method = t->method == TEXTS_COSINE ? "cosine" : "rank";
    for (uint32_t i = 0; i < n; i++, t->emitted++) {
        const struct text_item *item = &t->items[t->emitted];
        v.tokens[i] = item->n_tokens;
        v.cached += item->cached;
        put_item(r, t->emitted, v.values + (size_t)i * v.dim);
    }
    struct proto_event ev = {.type = scores ? PROTO_EV_SCORES : PROTO_EV_EMBEDDINGS, .vectors = v};
    request_emit(r, NULL, &ev);
    return 0;
}

int text_emit(struct request *r)
{
    struct texts *t = r->texts;
    const uint32_t dim = t->method == TEXTS_VECTORS ? t->dims : 1;
    uint32_t most = EVENT_BYTES / (uint32_t)sizeof(float) / dim;
    int result = 0;
    if (most > EVENT_TEXTS) most = EVENT_TEXTS;
    if (most == 0) most = 1;
    /* the question's vector stays for the scores */
    if (t->method == TEXTS_COSINE && t->emitted == 0 && t->items[0].vector) t->emitted = 1;
    for (;;) {
        uint32_t n = 0;
        while (n < most && t->emitted + n < t->next && t->items[t->emitted + n].vector) n++;
        if (n == 0 || result < 0 || (n < most && t->emitted + n < t->n)) return result;
        result = emit(r, n);
    }
}
