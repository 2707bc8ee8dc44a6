/* SPDX-License-Identifier: MIT */
#include "daemon/output/harmony.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Zero at the beginning of an answer. */
struct harmony {
    struct channel_parser base;
    bool begun; /* there was a <|channel|> */
    enum { HARMONY_TEXT, HARMONY_HEADER, HARMONY_NAME } at;
    bool thinking;
    char name[8]; /* the channel's, its first bytes; longer than "final" */
    size_t n;
};

static bool equals(const char *piece, size_t len, const char *s)
{
    return len == strlen(s) && memcmp(piece, s, len) == 0;
}

static const char *harmony_channel(const struct channel_parser *p)
{
    return ((const struct harmony *)p)->thinking ? CHANNEL_THINKING : CHANNEL_ANSWER;
}

static bool harmony_ends_part(const struct channel_parser *p)
{
    return ((const struct harmony *)p)->begun;
}

static void harmony_control(struct channel_parser *p, const char *piece, size_t len)
{
    struct harmony *h = (struct harmony *)p;
    if (equals(piece, len, HARMONY_CHANNEL)) {
        h->begun = true;
        h->at = HARMONY_NAME;
        h->n = 0;
    } else if (!h->begun) {
        return;
    } else if (equals(piece, len, "<|message|>")) {
        h->thinking = h->at != HARMONY_NAME || !equals(h->name, h->n, "final");
        h->at = HARMONY_TEXT;
    } else if (equals(piece, len, "<|start|>") || equals(piece, len, "<|end|>")) {
        h->at = HARMONY_HEADER;
    }
}

static int harmony_text(struct channel_parser *p, const char *text, size_t len, struct channel_sink *sink)
{
    struct harmony *h = (struct harmony *)p;
    if (h->at == HARMONY_TEXT) return sink->text(sink, harmony_channel(p), text, len);
    for (size_t i = 0; h->at == HARMONY_NAME && i < len && h->n < sizeof(h->name); i++) h->name[h->n++] = text[i];
    return 0;
}

static int harmony_clone(const struct channel_parser *p, struct channel_parser **out)
{
    struct harmony *h = malloc(sizeof(*h));
    if (!h) return -ENOMEM;
    *h = *(const struct harmony *)p;
    *out = &h->base;
    return 0;
}

static void harmony_free(struct channel_parser *p)
{
    free(p);
}

static const struct channel_parser_ops harmony_ops = {.text = harmony_text,
                                                      .control = harmony_control,
                                                      .ends_part = harmony_ends_part,
                                                      .channel = harmony_channel,
                                                      .clone = harmony_clone,
                                                      .free = harmony_free};

static int harmony_new(struct channel_parser **out)
{
    struct harmony *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->base.ops = &harmony_ops;
    *out = &h->base;
    return 0;
}

const struct channel_format channel_harmony = {.new_parser = harmony_new};
