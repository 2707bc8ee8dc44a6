/* SPDX-License-Identifier: MIT */
/* The part of an answer before its constrained text. */
#include "daemon/sequence/channel-feed.h"
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
    if (!x->c.format) return 0;
    int r = x->c.format->new_parser(x->c.format, &x->parser);
    if (r == 0 && has_begun(x->parser)) drop_parser(x);
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

enum channel_before constrain_before(const struct constrain *x)
{
    const struct channel_parser *p = x->parser;
    if (x->detok.n_pending || !p->ops->before) return BEFORE_FREE;
    return p->ops->before(p);
}

bool constrain_is_mark(const struct constrain *x, int32_t id)
{
    size_t len;
    const char *s = tokenizer_is_control(x->c.tokenizer, id) ? tokenizer_piece(x->c.tokenizer, id, &len)
                                                             : token_trie_text(x->c.trie, id, &len);
    return s && len && x->parser->ops->is_mark(x->parser, s, len);
}

/* The answer begins with token @id. 1; 0: the grammar does not allow it; -EAGAIN: its completion would not fit; -errno.
 */
static int begin_answer(struct constrain *x, int32_t id)
{
    int r = grammar_state_accept_token(x->st, x->c.trie, id);
    if (r <= 0) return r;
    if (x->c.close && !grammar_state_has_ended(x->st)) {
        size_t used = x->before.n + 1;
        int fits = used < x->c.max_tokens ? constrain_fits(x, x->c.max_tokens - used) : 0;
        r = fits < 0 ? fits : fits == 0 ? -EAGAIN : 1;
    }
    if (r > 0 && tokens_push(&x->before, id, 0) < 0) r = -ENOMEM;
    if (r < 0) {
        grammar_state_rollback(x->st, 1);
        return r;
    }
    x->straddle = 1;
    drop_parser(x);
    return 1;
}

int constrain_close_before(struct constrain *x)
{
    drop_parser(x);
    x->straddle = 0;
    return constrain_close(x);
}

/* The token leaves the parser before the answer, or begins the answer with its text. 0; -EAGAIN: refused; -ENOMEM. */
static int read_before(struct constrain *x, int32_t id)
{
    struct collect c = {{.text = collect_text}, BUF_INIT};
    struct channel_parser *p;
    struct detok d = x->detok;
    if (tokenizer_is_eog(x->c.tokenizer, id)) return -EAGAIN;
    int r = x->parser->ops->clone(x->parser, &p);
    if (r < 0) return r;
    r = channel_feed(p, &d, x->c.tokenizer, id, &c.base);
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

int constrain_accept_before(struct constrain *x, int32_t id)
{
    if (constrain_before(x) == BEFORE_TEXT) {
        int r = begin_answer(x, id);
        if (r != 0) return r > 0 ? 0 : r;
        if (!constrain_is_mark(x, id)) return -EAGAIN;
    }
    return read_before(x, id);
}
