/* SPDX-License-Identifier: MIT */
/* Where the parser of a markup is: for constraints of the answer and of its calls. */
#include "daemon/output/markup-parser.h"
#include <errno.h>
#include <string.h>

/* With thinking in the format, not before the first character: a thought may come first. */
bool markup_answers(const struct channel_parser *base)
{
    const struct markup_parser *p = (const struct markup_parser *)base;
    const struct markup_thinking *t = &p->format->markup->thinking;
    return p->at == AT_TEXT && (!p->fresh || (!*t->open && !*t->close));
}

enum channel_before markup_before(const struct channel_parser *base)
{
    const struct markup_parser *p = (const struct markup_parser *)base;
    if (p->at != AT_TEXT) return BEFORE_FREE;
    return n_unread(p) > mark_white(unread(p), n_unread(p)) ? BEFORE_MARK : BEFORE_TEXT;
}

bool markup_is_mark(const struct channel_parser *base, const char *text, size_t len)
{
    enum { WHITE_MAX = 2 };
    const struct markup_parser *p = (const struct markup_parser *)base;
    const char *open = p->format->markup->thinking.open;
    size_t held = n_unread(p), n = strlen(open), white = mark_white(unread(p), held), at = held - white;
    if (at == 0) { /* of the mark, nothing came before */
        size_t more = mark_white(text, len);
        white += more;
        text += more;
        len -= more;
    }
    if (p->white + white > WHITE_MAX || held > MARK_WHITE_MAX) return false;
    if (at == 0 && len == 0) return p->skip_white; /* otherwise it would be text */
    if (p->thought || n == 0 || at > n) return false;
    size_t compared = len < n - at ? len : n - at;
    return len > 0 && memcmp(open, unread(p) + white, at) == 0 && memcmp(open + at, text, compared) == 0;
}

int markup_call_text(const struct channel_parser *base, struct buf *out)
{
    const struct markup_parser *p = (const struct markup_parser *)base;
    const struct buf *raw = &p->call.raw;
    bool doubtful = call_is_bare(p) || *calls_of(p)->text_name;
    if (!p->call.open || (doubtful && !p->call.begun)) return 0;
    if (raw->len > p->call.mark && buf_append(out, raw->data + p->call.mark, raw->len - p->call.mark) < 0)
        return -ENOMEM;
    return n_unread(p) && buf_append(out, unread(p), n_unread(p)) < 0 ? -ENOMEM : 1;
}
