/* SPDX-License-Identifier: MIT */
/* The part of an answer before its constrained text. */
#include "daemon/sequence/constrain-inside.h"
#include "libcommon/error.h"
#include <string.h>

/* Collects the text of the answer. */
struct collect {
    struct channel_sink base;
    struct buf text;
};

static int collect_text(struct channel_sink *s, const char *channel, const char *text, size_t len)
{
    struct collect *c = (struct collect *)s;
    return strcmp(channel, CHANNEL_ANSWER) == 0 ? buf_append(&c->text, text, len) : 0;
}

static bool has_begun(const struct channel_parser *p)
{
    return p->ops->answers ? p->ops->answers(p) : strcmp(p->ops->channel(p), CHANNEL_ANSWER) == 0;
}

static void drop_parser(struct constrain *x)
{
    if (x->parser) x->parser->ops->free(x->parser);
    x->parser = NULL;
}

int constrain_begin(struct constrain *x)
{
    drop_parser(x);
    x->detok = (struct detok){0};
    int r = x->c.format->new_parser(x->c.format, &x->parser);
    if (r == 0 && has_begun(x->parser)) drop_parser(x);
    return r;
}

/* The parser and the detokenizer read token @id. 0 or -ENOMEM. */
static int feed(const struct constrain *x, struct channel_parser *p, struct detok *d, int32_t id, struct collect *c)
{
    const struct tokenizer *t = x->c.tokenizer;
    struct buf text = BUF_INIT;
    int r;
    if (tokenizer_is_control(t, id)) {
        size_t len;
        const char *piece = tokenizer_piece(t, id, &len);
        r = detok_flush(d, &text);
        if (r == 0 && text.len) r = p->ops->text(p, text.data, text.len, &c->base);
        if (r == 0 && p->ops->ends_part(p) && p->ops->finish) r = p->ops->finish(p, &c->base);
        if (r == 0) r = p->ops->control(p, piece, len, &c->base);
    } else {
        r = detok_push(d, t, id, &text);
        if (r == 0 && text.len) r = p->ops->text(p, text.data, text.len, &c->base);
    }
    buf_fini(&text);
    return r;
}

/* A token was read by @p. Does the grammar allow its @text of the answer? @partial: the beginning of a character is
 * held back, which the grammar has not seen, and which would be text in front of the answer. 1; 0; -errno. */
static int allows(struct constrain *x, const struct channel_parser *p, bool partial, const struct buf *text)
{
    if (partial && strcmp(p->ops->channel(p), CHANNEL_ANSWER) == 0) return 0;
    if (!has_begun(p)) return text->len == 0;
    return text->len ? grammar_state_accept_bytes(x->st, text->data, text->len) : 1;
}

int constrain_accept_before(struct constrain *x, int32_t id)
{
    struct collect c = {{.text = collect_text}, BUF_INIT};
    struct channel_parser *p;
    struct detok d = x->detok;
    if (tokenizer_is_eog(x->c.tokenizer, id)) return -EAGAIN;
    int r = x->parser->ops->clone(x->parser, &p);
    if (r < 0) return r;
    r = feed(x, p, &d, id, &c);
    bool begun = r == 0 && has_begun(p);
    if (r == 0) r = tokens_push(&x->before, id, 0);
    if (r == 0) {
        r = allows(x, p, d.n_pending > 0, &c.text);
        if (r <= 0) x->before.n--;
        r = r > 0 ? 0 : r == 0 ? -EAGAIN : r;
    }
    if (r == 0) {
        x->straddle = begun && c.text.len > 0;
        x->parser->ops->free(x->parser);
        x->parser = begun ? NULL : p;
        x->detok = d;
    }
    if (r < 0 || begun) p->ops->free(p);
    buf_fini(&c.text);
    return r;
}
