/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/think-limit.h"
#include "daemon/sequence/channel-feed.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct think_limit {
    struct logits_processor base;
    const struct tokenizer *tokenizer;
    const struct channel_format *format;
    uint32_t budget;
    struct tokens close; /* of the closing mark; their ends are not used */
    struct tokens past;  /* all tokens so far, for a rollback; likewise */

    struct channel_reader reader; /* no parser: the thought is over */
    uint32_t used;                /* tokens of the thought */
    size_t closing;               /* the next token of @close; @close.n: none */
    bool broken;                  /* there was no memory */
};

/* The next token must be of the closing mark. */
static bool closes(const struct think_limit *x)
{
    return x->closing < x->close.n;
}

/* After a token, or before the first one. */
static void look(struct think_limit *x)
{
    if (x->reader.parser && !closes(x) && x->used >= x->budget && channel_reader_is_at(&x->reader, CHANNEL_THINKING))
        x->closing = 0;
}

static int start(struct think_limit *x)
{
    channel_reader_fini(&x->reader);
    x->used = 0;
    x->closing = x->close.n;
    int r = channel_reader_init(&x->reader, x->tokenizer, x->format);
    if (r == 0) look(x);
    return r;
}

static int read(struct think_limit *x, int32_t id)
{
    if (tokens_push(&x->past, id, 0) < 0) return -ENOMEM;
    if (closes(x)) {
        if (++x->closing == x->close.n) channel_reader_fini(&x->reader);
        return 0;
    }
    if (!x->reader.parser) return 0;
    x->used += channel_reader_is_at(&x->reader, CHANNEL_THINKING);
    int r = channel_reader_feed(&x->reader, id);
    if (r == 0) look(x);
    return r;
}

static int apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    struct think_limit *x = (struct think_limit *)p;
    if (!closes(x)) return 0;
    float *logits = logits_write(row);
    int32_t id = x->close.ids[x->closing];
    for (uint32_t i = 0; i < row->vocab; i++)
        if (i != (uint32_t)id) logits[i] = -INFINITY;
    if (!isfinite(logits[id])) logits[id] = 0;
    return 0;
}

static int accept(struct logits_processor *p, int32_t id)
{
    struct think_limit *x = (struct think_limit *)p;
    return x->broken ? -ENOMEM : read(x, id);
}

/* A failure ends the answer at its next token. */
static void rollback(struct logits_processor *p, size_t n)
{
    struct think_limit *x = (struct think_limit *)p;
    x->broken = start(x) < 0;
    if (!x->broken) x->broken = channel_replay(p, &x->past, n) < 0;
}

static void fini(struct logits_processor *p)
{
    struct think_limit *x = (struct think_limit *)p;
    channel_reader_fini(&x->reader);
    tokens_fini(&x->close);
    tokens_fini(&x->past);
    free(x);
}

static int clone(const struct logits_processor *p, struct logits_processor **out)
{
    const struct think_limit *from = (const struct think_limit *)p;
    struct think_limit *x = malloc(sizeof(*x));
    if (!x) return -ENOMEM;
    *x = *from;
    x->close = x->past = (struct tokens){0};
    int r = channel_reader_clone(&x->reader, &from->reader);
    if (r == 0) r = tokens_copy(&x->close, &from->close);
    if (r == 0) r = tokens_copy(&x->past, &from->past);
    if (r < 0)
        fini(&x->base);
    else
        *out = &x->base;
    return r;
}

static const struct logits_processor_ops ops = {
    .name = "think-limit", .apply = apply, .accept = accept, .rollback = rollback, .clone = clone, .free = fini};

static int tokenize(struct tokens *out, const struct tokenizer *t, const char *s)
{
    struct text text = {0};
    int r = text_append(&text, s, strlen(s), true);
    if (r == 0) r = tokenizer_encode(t, &text, 0, false, out);
    text_fini(&text);
    return r;
}

int think_limit_new(struct logits_processor **out, const struct think_limit_config *c)
{
    struct think_limit *x = calloc(1, sizeof(*x));
    if (!x) return error_origin(-ENOMEM);
    x->base.ops = &ops;
    x->tokenizer = c->tokenizer;
    x->format = c->format;
    x->budget = c->budget;
    int r = tokenize(&x->close, c->tokenizer, c->close);
    if (r == 0) r = start(x);
    if (r < 0)
        fini(&x->base);
    else
        *out = &x->base;
    return r;
}
