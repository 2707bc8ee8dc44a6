/* SPDX-License-Identifier: MIT */
#include "daemon/output/harmony.h"
#include <string.h>

static bool is(const char *piece, size_t len, const char *what)
{
    return len == strlen(what) && memcmp(piece, what, len) == 0;
}

void harmony_control(struct harmony *h, const char *piece, size_t len)
{
    if (is(piece, len, "<|channel|>")) {
        h->begun = true;
        h->at = HARMONY_NAME;
        h->n = 0;
    } else if (!h->begun) {
        return;
    } else if (is(piece, len, "<|message|>")) {
        h->thinking = h->at != HARMONY_NAME || !is(h->name, h->n, "final");
        h->at = HARMONY_TEXT;
    } else if (is(piece, len, "<|start|>") || is(piece, len, "<|end|>")) {
        h->at = HARMONY_HEADER;
    }
}

bool harmony_text(struct harmony *h, const char *text, size_t len)
{
    for (size_t i = 0; h->at == HARMONY_NAME && i < len && h->n < sizeof(h->name); i++) h->name[h->n++] = text[i];
    return h->at == HARMONY_TEXT;
}

const char *harmony_channel(const struct harmony *h)
{
    return h->thinking ? "thinking" : "answer";
}
