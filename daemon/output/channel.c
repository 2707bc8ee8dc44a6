/* SPDX-License-Identifier: MIT */
#include "daemon/output/channel.h"
#include "daemon/output/harmony.h"
#include "libcommon/cleanup.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int plain_text(struct channel_parser *p, const char *text, size_t len, struct channel_sink *sink)
{
    return sink->text(sink, CHANNEL_ANSWER, text, len);
}

static void plain_control(struct channel_parser *p, const char *piece, size_t len)
{
}

static bool plain_ends_part(const struct channel_parser *p)
{
    return false;
}

static const char *plain_channel(const struct channel_parser *p)
{
    return CHANNEL_ANSWER;
}

static int plain_clone(const struct channel_parser *p, struct channel_parser **out)
{
    return channel_plain_new(out);
}

static void plain_free(struct channel_parser *p)
{
    free(p);
}

static const struct channel_parser_ops plain_ops = {.name = "plain",
                                                    .text = plain_text,
                                                    .control = plain_control,
                                                    .ends_part = plain_ends_part,
                                                    .channel = plain_channel,
                                                    .clone = plain_clone,
                                                    .free = plain_free};

int channel_plain_new(struct channel_parser **out)
{
    struct channel_parser *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->ops = &plain_ops;
    *out = p;
    return 0;
}

/* 1: @piece is a control token of @t; 0: it is none; -ENOMEM. */
static int has_control(const struct tokenizer *t, const char *piece)
{
    _cleanup_(text_fini) struct text text = {0};
    _cleanup_(tokens_fini) struct tokens ids = {0};
    if (text_append(&text, piece, strlen(piece), true) < 0) return -ENOMEM;
    int r = tokenizer_encode(t, &text, 0, false, &ids);
    if (r == -ENOMEM) return r;
    return r == 0 && ids.n == 1 && tokenizer_is_control(t, ids.ids[0]);
}

int channel_parser_new(struct channel_parser **out, const struct tokenizer *t)
{
    int r = has_control(t, HARMONY_CHANNEL);
    if (r < 0) return r;
    return r ? harmony_new(out) : channel_plain_new(out);
}
