/* SPDX-License-Identifier: MIT */
#include "daemon/output/channel.h"
#include "daemon/output/harmony.h"
#include <errno.h>
#include <stdlib.h>

static int plain_text(struct channel_parser *p, const char *text, size_t len, struct channel_sink *sink)
{
    return sink->text(sink, CHANNEL_ANSWER, text, len);
}

static int plain_control(struct channel_parser *p, const char *piece, size_t len, struct channel_sink *sink)
{
    return 0;
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
    *out = malloc(sizeof(**out));
    if (!*out) return -ENOMEM;
    **out = *p;
    return 0;
}

static void plain_free(struct channel_parser *p)
{
    free(p);
}

static const struct channel_parser_ops plain_ops = {.text = plain_text,
                                                    .control = plain_control,
                                                    .ends_part = plain_ends_part,
                                                    .channel = plain_channel,
                                                    .clone = plain_clone,
                                                    .free = plain_free};

static int plain_new(const struct channel_format *f, struct channel_parser **out)
{
    struct channel_parser *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->ops = &plain_ops;
    *out = p;
    return 0;
}

const struct channel_format channel_plain = {.new_parser = plain_new};

const struct channel_format *channel_format_of(const struct tokenizer *t)
{
    return tokenizer_has_control(t, HARMONY_CHANNEL) ? &channel_harmony : &channel_plain;
}
