/* SPDX-License-Identifier: MIT */
#include "daemon/request/infill-prompt.h"
#include "daemon/cache/prefix/prefix.h"
#include "daemon/output/line-limit.h"
#include "daemon/request/prepare.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <string.h>

#define ANSWER_TOKENS 256 /* when the request sets no limit */
#define ROOM_LEAST    16  /* tokens of both texts; less room is refused */
#define TOKEN_BYTES   16  /* more than most tokens have; the first guess of the length to encode */

int64_t fim_tokens(const struct proto_generate *g)
{
    return g->max_tokens > 0 ? g->max_tokens : ANSWER_TOKENS;
}

/* --- tokens --- */

/* One of the texts: the tokens of its bytes [begin, end), of which [from, to) are kept. */
struct side {
    const struct proto_text *whole;
    size_t begin, end;
    struct tokens ids;
    size_t from, to;
};

static void side_drop(struct side *s)
{
    tokens_fini(&s->ids);
}

static bool inside_character(const struct proto_text *t, size_t at)
{
    return at < t->len && ((unsigned char)t->data[at] & 0xC0) == 0x80;
}

static int encode(struct side *s, const struct tokenizer *k, bool first)
{
    _cleanup_(text_fini) struct text t = {0};
    tokens_fini(&s->ids);
    if (s->begin == s->end) return 0;
    int r = text_append(&t, s->whole->data + s->begin, s->end - s->begin, false);
    return r < 0 ? r : tokenizer_encode(k, &t, 0, first, &s->ids);
}

/* Encode at least @need tokens at the end of the text, or all of it. The first encoded byte does not move with every
 * byte of the text. */
static int encode_prefix(struct side *s, const struct loaded *m, uint64_t need)
{
    for (uint64_t bytes = need * TOKEN_BYTES, most = need * m->piece_max;; bytes *= 4) {
        if (bytes > most) bytes = most;
        s->begin = s->whole->len > bytes ? (s->whole->len - bytes) / (bytes / 4) * (bytes / 4) : 0;
        while (inside_character(s->whole, s->begin)) s->begin--;
        s->end = s->whole->len;
        int r = encode(s, m->tokenizer, s->begin == 0);
        if (r < 0 || s->begin == 0 || s->ids.n >= need || bytes == most) return r;
    }
}

static int encode_suffix(struct side *s, const struct loaded *m, uint64_t need)
{
    for (uint64_t bytes = need * TOKEN_BYTES, most = need * m->piece_max;; bytes *= 4) {
        if (bytes > most) bytes = most;
        s->end = s->whole->len > bytes ? bytes : s->whole->len;
        while (inside_character(s->whole, s->end)) s->end++;
        int r = encode(s, m->tokenizer, false);
        if (r < 0 || s->end == s->whole->len || s->ids.n >= need || bytes == most) return r;
    }
}

/* The byte where token @i begins. */
static size_t begin_of(const struct side *s, size_t i)
{
    return s->begin + (i ? s->ids.ends[i - 1] : 0);
}

/* Leave out tokens until at most @most remain, in steps of @unit; then up to the next line, if it is near. */
static void cut_prefix(struct side *s, uint64_t most, uint64_t unit)
{
    uint64_t out = (s->ids.n - most + unit - 1) / unit * unit;
    for (uint64_t i = out; i < out + unit / 2 && i < s->ids.n; i++) {
        if (s->whole->data[begin_of(s, i) - 1] != '\n') continue;
        out = i;
        break;
    }
    while (out < s->ids.n && inside_character(s->whole, begin_of(s, out))) out++;
    s->from = out;
}

/* Choose the tokens of both texts that fit into @room. */
static void cut(struct side *prefix, struct side *suffix, uint64_t room)
{
    uint64_t unit = room / 8 / KV_BLOCK * KV_BLOCK;
    if (unit == 0) unit = room / 8;
    prefix->to = prefix->ids.n;
    suffix->to = suffix->ids.n;
    if (prefix->to + suffix->to <= room) return;
    uint64_t quarter = suffix->to < room / 4 ? suffix->to : room / 4, most = room - quarter;
    if (prefix->to > most) {
        cut_prefix(prefix, most, unit);
    } else {
        /* The end of the suffix does not move with every token either. */
        uint64_t taken = (prefix->to + unit - 1) / unit * unit;
        if (taken < most) quarter = room - taken;
    }
    if (suffix->to > quarter) suffix->to = quarter;
    while (suffix->to < suffix->ids.n && suffix->to > 0 &&
           inside_character(suffix->whole, begin_of(suffix, suffix->to)))
        suffix->to--;
}

/* --- the prompt --- */

static int put_special(struct prompt *p, const struct tokenizer *k, int32_t id)
{
    size_t len;
    const char *piece = tokenizer_piece(k, id, &len);
    if (buf_append(&p->text, piece, len) < 0) return -ENOMEM;
    return tokens_push(&p->tokens, id, (uint32_t)p->text.len);
}

static int put_side(struct prompt *p, const struct side *s)
{
    size_t at = p->text.len, begin = begin_of(s, s->from);
    if (buf_append(&p->text, s->whole->data ? s->whole->data + begin : "", begin_of(s, s->to) - begin) < 0)
        return -ENOMEM;
    for (size_t i = s->from; i < s->to; i++)
        if (tokens_push(&p->tokens, s->ids.ids[i], (uint32_t)(at + begin_of(s, i + 1) - begin)) < 0) return -ENOMEM;
    return 0;
}

static int put_all(struct prompt *p, const struct tokenizer *k, const struct side *prefix, const struct side *suffix)
{
    const struct tokenizer_fim *fim = tokenizer_fim(k);
    bool suffix_first = fim->mid < 0;
    int r = 0;
    if (tokenizer_add_bos(k) && tokenizer_bos(k) >= 0) r = tokens_push(&p->tokens, tokenizer_bos(k), 0);
    if (r == 0) r = put_special(p, k, suffix_first ? fim->suf : fim->pre);
    if (r == 0) r = put_side(p, suffix_first ? suffix : prefix);
    if (r == 0) r = put_special(p, k, suffix_first ? fim->pre : fim->suf);
    if (r == 0) r = put_side(p, suffix_first ? prefix : suffix);
    if (r == 0 && !suffix_first) r = put_special(p, k, fim->mid);
    /* An infill is never part of a session, the only use of markup. */
    if (r == 0) r = buf_reserve(&p->markup, p->text.len);
    if (r < 0) return r;
    memset(p->markup.data, 0, p->text.len + 1);
    p->markup.len = p->text.len;
    p->miss_at = -1;
    p->cut_prefix = begin_of(prefix, prefix->from);
    p->cut_suffix = suffix->whole->len - begin_of(suffix, suffix->to);
    return 0;
}

static int check_text(const struct proto_text *t, const char *name)
{
    size_t at = t->len ? utf8_check(t->data, t->len) : 0;
    return at < t->len ? error_say(-EILSEQ, "the %s is not UTF-8: byte %zu", name, at) : 0;
}

int fim_prepare(struct prompt *p, const struct loaded *m, const struct proto_generate *g)
{
    _cleanup_(side_drop) struct side prefix = {.whole = &g->infill.prefix}, suffix = {.whole = &g->infill.suffix};
    if (!tokenizer_fim(m->tokenizer))
        return error_say(-EOPNOTSUPP, "the model does not support infill: its vocabulary has no such tokens "
                                      "(fill-in-the-middle)");
    if (g->infill.prefix.len == 0 && g->infill.suffix.len == 0)
        return error_say(-EINVAL, "prefix and suffix are both empty");
    int r = check_text(&g->infill.prefix, "prefix");
    if (r == 0) r = check_text(&g->infill.suffix, "suffix");
    if (r < 0) return r;
    int64_t answer = fim_tokens(g), taken = (answer < m->ctx / 4 ? answer : m->ctx / 4) + 4; /* BOS and three */
    if (m->ctx < taken + ROOM_LEAST) return error_say(-E2BIG, "a context of %u tokens is too small for infill", m->ctx);
    uint64_t room = (uint64_t)(m->ctx - taken);
    r = encode_prefix(&prefix, m, room);
    if (r == 0) r = encode_suffix(&suffix, m, room);
    if (r == 0) {
        cut(&prefix, &suffix, room);
        r = put_all(p, m->tokenizer, &prefix, &suffix);
    }
    if (r < 0) prompt_fini(p);
    return r;
}

/* --- where the answer ends --- */

int fim_add_stop(struct proto_generate *g)
{
    const struct proto_text *t = &g->infill.suffix;
    size_t n = 0, seen = 0;
    if (g->n_stop == PROTO_STOPS_MAX)
        return error_say(-EINVAL, "stop: infill uses one of the %d stop strings itself", PROTO_STOPS_MAX);
    while (n < t->len && n < FIM_STOP_MOST && !(t->data[n] == '\n' && seen >= FIM_STOP_LEAST))
        seen += !line_blank(t->data[n++]);
    while (inside_character(t, n)) n--;
    while (n > 0 && line_blank(t->data[n - 1])) n--;
    if (n == 0 || utf8_check(t->data, n) < n) return 0; /* fim_prepare() refuses a suffix that is not UTF-8 */
    int r = proto_text_set(&g->stop[g->n_stop], t->data, n);
    if (r == 0) g->n_stop++;
    return r;
}
