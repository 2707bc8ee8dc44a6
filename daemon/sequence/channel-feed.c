/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/channel-feed.h"
#include <errno.h>
#include <string.h>

int channel_reader_init(struct channel_reader *r, const struct tokenizer *t, const struct channel_format *f)
{
    *r = (struct channel_reader){.tokenizer = t};
    return f->new_parser(f, &r->parser);
}

void channel_reader_fini(struct channel_reader *r)
{
    if (r->parser) r->parser->ops->free(r->parser);
    *r = (struct channel_reader){0};
}

int channel_reader_clone(struct channel_reader *to, const struct channel_reader *from)
{
    *to = *from;
    if (from->parser && from->parser->ops->clone(from->parser, &to->parser) < 0) {
        *to = (struct channel_reader){0};
        return -ENOMEM;
    }
    return 0;
}

static int no_text(struct channel_sink *s, const char *channel, const char *text, size_t len)
{
    return 0;
}

int channel_feed(struct channel_parser *p, struct detok *d, const struct tokenizer *t, int32_t id,
                 struct channel_sink *sink)
{
    struct buf text = BUF_INIT;
    int r;
    if (tokenizer_is_control(t, id)) {
        size_t len;
        const char *piece = tokenizer_piece(t, id, &len);
        r = detok_flush(d, &text);
        if (r == 0 && text.len) r = p->ops->text(p, text.data, text.len, sink);
        if (r == 0 && p->ops->ends_part(p) && p->ops->finish) r = p->ops->finish(p, sink);
        if (r == 0) r = p->ops->control(p, piece, len, sink);
    } else {
        r = detok_push(d, t, id, &text);
        if (r == 0 && text.len) r = p->ops->text(p, text.data, text.len, sink);
    }
    buf_fini(&text);
    return r;
}

struct counter {
    struct channel_sink base;
    uint32_t ended;
};

static int count_call(struct channel_sink *s, const struct channel_call *call)
{
    if (call->step == CALL_ENDS) ((struct counter *)s)->ended++;
    return 0;
}

int channel_reader_feed(struct channel_reader *r, int32_t id)
{
    struct counter c = {.base = {.text = no_text, .call = count_call}};
    int e = channel_feed(r->parser, &r->detok, r->tokenizer, id, &c.base);
    r->ended += c.ended;
    return e;
}

bool channel_reader_is_at(const struct channel_reader *r, const char *channel)
{
    return strcmp(r->parser->ops->channel(r->parser), channel) == 0;
}

int channel_replay(struct logits_processor *p, struct tokens *past, size_t n)
{
    struct tokens before = *past;
    int r = 0;
    *past = (struct tokens){0};
    for (size_t i = 0; i + n < before.n && r == 0; i++) r = p->ops->accept(p, before.ids[i]);
    tokens_fini(&before);
    return r;
}
