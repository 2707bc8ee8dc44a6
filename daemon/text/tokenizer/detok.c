/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/utf8.h"
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Passes one byte to a detokenizer that holds the valid beginning of a character, or nothing. @out has room. */
static void push_byte(struct detok *d, char c, struct buf *out)
{
    for (;;) {
        d->pending[d->n_pending] = c;
        size_t n = d->n_pending + 1;
        if (utf8_check(d->pending, n) == n) {
            buf_append(out, d->pending, n);
            d->n_pending = 0;
            return;
        }
        if (utf8_whole(d->pending, n) == 0) {
            d->n_pending = n;
            return;
        }
        /* The pending bytes are a maximal subpart, and @c begins a new character. Or @c alone begins no character. */
        buf_append(out, replacement, 3);
        if (n == 1) return;
        d->n_pending = 0;
    }
}

/* The first word of a text has a space in front that the text had not. */
static bool begins_with_space(const struct tokenizer *t)
{
    return t->space_prefix || t->normalization.merge_spaces || t->model == TOKENIZER_WPM;
}

int detok_push(struct detok *d, const struct tokenizer *t, int32_t id, struct buf *out)
{
    size_t len;
    const char *s = tokenizer_piece(t, id, &len);
    if (!len || tokenizer_is_control(t, id)) return 0;
    /* Every byte becomes at most one U+FFFD. After this call no append below can fail. */
    int r = buf_reserve(out, (d->n_pending + len) * 3);
    if (r < 0) return r;

    if (d->at_start && begins_with_space(t) && *s == ' ') {
        s++;
        len--;
    }
    d->at_start = false;
    while (len) {
        size_t whole = d->n_pending ? 0 : utf8_check(s, len);
        if (whole) {
            buf_append(out, s, whole);
        } else {
            push_byte(d, *s, out);
            whole = 1;
        }
        s += whole;
        len -= whole;
    }
    return 0;
}

int detok_flush(struct detok *d, struct buf *out)
{
    if (!d->n_pending) return 0;
    int r = buf_append(out, replacement, 3);
    if (r < 0) return r;
    d->n_pending = 0;
    return 0;
}
