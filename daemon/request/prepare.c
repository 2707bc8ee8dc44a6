/* SPDX-License-Identifier: MIT */
#include "daemon/request/prepare.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <inttypes.h>
#include <string.h>

static void json_drop(json_t **j)
{
    json_decref(*j);
}

static bool same(const struct proto_text *a, const struct proto_text *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

size_t prepare_first_message(const struct proto_generate *g, const struct session *x)
{
    static const char system[] = "system";
    const struct session_content *c = session_content(x);
    if (!c || c->n_messages == 0 || g->n_messages == 0) return 0;
    const struct proto_message *a = &c->messages[0], *b = &g->messages[0];
    bool is_system = b->role.len == strlen(system) && memcmp(b->role.data, system, b->role.len) == 0;
    return is_system && same(&a->role, &b->role) && same(&a->content, &b->content);
}

/* --- context --- */

#define CONTEXT_TIMES 16 /* contexts full of tokens that a sequence has at most, with a policy */

enum proto_context prepare_context(const struct proto_generate *g, const struct session *x)
{
    if (g->context != PROTO_CONTEXT_UNSET) return g->context;
    const struct session_content *c = session_content(x);
    return c && c->context != PROTO_CONTEXT_UNSET ? c->context : PROTO_CONTEXT_REFUSE;
}

uint64_t prepare_limit(uint32_t ctx, enum proto_context policy)
{
    return (uint64_t)ctx * (policy == PROTO_CONTEXT_REFUSE ? 1 : CONTEXT_TIMES);
}

/* --- messages --- */

/* @n: which message, from 1, for the sentence. */
static int message_push(json_t *list, const struct proto_message *m, size_t n)
{
    const struct proto_text *parts[] = {&m->role, &m->content};
    for (int i = 0; i < 2; i++) {
        size_t at = utf8_check(parts[i]->data ? parts[i]->data : "", parts[i]->len);
        if (at < parts[i]->len) return error_say(-EILSEQ, "the prompt is not UTF-8: byte %zu of message %zu", at, n);
    }
    if (m->role.len == 0) return error_say(-EINVAL, "message %zu has no role", n);
    json_t *o = json_object();
    json_t *role = json_stringn(m->role.data, m->role.len);
    json_t *content = json_stringn(m->content.data ? m->content.data : "", m->content.len);
    int r = json_object_set_new(o, "role", role) | json_object_set_new(o, "content", content);
    return json_array_append_new(list, o) | r ? -ENOMEM : 0;
}

static int set_token(json_t *vars, const char *key, const struct tokenizer *t, int32_t id)
{
    size_t len = 0;
    const char *piece = id < 0 ? "" : tokenizer_piece(t, id, &len);
    json_t *s = json_stringn(piece ? piece : "", len);
    if (!s) s = json_string(""); /* a piece that is not UTF-8 */
    return json_object_set_new(vars, key, s) ? -ENOMEM : 0;
}

static int render(const struct loaded *m, const struct proto_generate *g, const struct session *x, struct text *out)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    static const struct template_limits limits = TEMPLATE_LIMITS;
    if (!m->template)
        return error_say(-EOPNOTSUPP, "the model's chat template cannot be used (%s); use a raw prompt",
                         m->template_why);
    _cleanup_(json_drop) json_t *vars = json_object();
    json_t *list = json_array();
    if (json_object_set_new(vars, "messages", list)) return -ENOMEM;
    size_t n = 0;
    int r = 0;
    const struct session_content *c = session_content(x);
    for (size_t i = 0; r == 0 && c && i < c->n_messages; i++) r = message_push(list, &c->messages[i], ++n);
    for (size_t i = prepare_first_message(g, x); r == 0 && i < g->n_messages; i++)
        r = message_push(list, &g->messages[i], ++n);
    if (r == 0 && json_object_set_new(vars, "add_generation_prompt", json_true())) r = -ENOMEM;
    if (r == 0) r = set_token(vars, "bos_token", m->tokenizer, tokenizer_bos(m->tokenizer));
    if (r == 0) r = set_token(vars, "eos_token", m->tokenizer, tokenizer_eos(m->tokenizer));
    if (r < 0) return r;
    r = template_render(m->template, vars, trusted, time(NULL), &limits, out);
    return r < 0 && r != -ENOMEM ? error_in(r, "chat template") : r;
}

/* --- what of the session still holds --- */

static int flags_of(struct buf *out, const struct text *t)
{
    if (buf_reserve(out, t->s.len) < 0) return -ENOMEM;
    size_t at = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        memset(out->data + at, t->spans[i].markup, t->spans[i].end - at);
        at = t->spans[i].end;
    }
    out->len = t->s.len;
    if (out->data) out->data[out->len] = '\0';
    return 0;
}

static size_t agree(const struct buf *a, const struct buf *b)
{
    size_t n = a->len < b->len ? a->len : b->len, i = 0;
    while (i < n && a->data[i] == b->data[i]) i++;
    return i;
}

static bool inside_character(const struct buf *s, size_t at)
{
    return at < s->len && ((unsigned char)s->data[at] & 0xC0) == 0x80;
}

/* The number of the session's ids that end at or before byte @at. */
static size_t ids_before(const struct session_content *x, size_t at)
{
    size_t lo = 0, hi = x->n_ids;
    while (lo < hi) { /* ends never fall */
        size_t mid = lo + (hi - lo) / 2;
        if (x->ends[mid] <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Bytes [from, to) were markup and are data now: where the first control token or run begins that the session has
 * there, or @to. */
static size_t lost_control(const struct session_content *x, const struct tokenizer *k, size_t from, size_t to)
{
    for (size_t i = ids_before(x, from); i < x->n_ids; i++) {
        size_t begin = i ? x->ends[i - 1] : 0;
        if (begin >= to) break;
        if (x->ids[i] == ITEM_EMBD || tokenizer_is_control(k, x->ids[i])) return begin;
    }
    return to;
}

/* They were data and are markup now: where the first control token begins that the template makes of them, or @to. < 0:
 * -errno. */
static int new_control(const struct prompt *p, const struct tokenizer *k, size_t from, size_t to, size_t *at)
{
    _cleanup_(text_fini) struct text t = {0};
    _cleanup_(tokens_fini) struct tokens ids = {0};
    size_t begin = from, end = to;
    while (begin > 0 && p->markup.data[begin - 1]) begin--;
    while (end < p->markup.len && p->markup.data[end]) end++;
    int r = text_append(&t, p->text.data + begin, end - begin, true);
    if (r == 0) r = tokenizer_encode(k, &t, 0, false, &ids);
    if (r < 0) return r;
    *at = to;
    for (size_t i = 0; i < ids.n; i++) {
        size_t a = begin + (i ? ids.ends[i - 1] : 0), b = begin + ids.ends[i];
        if (!tokenizer_is_control(k, ids.ids[i]) || a >= to || b <= from) continue;
        *at = a;
        break;
    }
    return 0;
}

/*
 * How many of the session's ids stand for text that p begins with: the bytes are equal, and so is what is a control
 * token. No run is cut: its ids end at the same byte. Provenance alone may differ ("assistant" is the template's word
 * before an answer and a message's role after it).
 */
static int common_ids(const struct prompt *p, const struct tokenizer *k, const struct session_content *x, size_t *keep)
{
    size_t end = agree(&p->text, &x->text);
    for (size_t i = 0, j; i < end; i = j) {
        j = i + 1;
        char was = x->markup.data[i], is = p->markup.data[i];
        if (was == is) continue;
        while (j < end && x->markup.data[j] == was && p->markup.data[j] == is) j++;
        size_t same_to = j;
        int r = 0;
        if (was)
            same_to = lost_control(x, k, i, j);
        else
            r = new_control(p, k, i, j, &same_to);
        if (r < 0) return r;
        if (same_to < j) end = same_to;
    }
    size_t n = ids_before(x, end);
    while (n > 0 && inside_character(&p->text, x->ends[n - 1])) n--;
    *keep = n;
    return 0;
}

static int keep_ids(struct prompt *p, const struct session_content *x, size_t keep)
{
    for (size_t i = 0; i < keep; i++)
        if (tokens_push(&p->tokens, x->ids[i], x->ends[i]) < 0) return -ENOMEM;
    for (size_t i = 0; keep && i < x->n_runs && x->runs[i].at < keep; i++) /* their embeddings are not at hand */
        if (run_list_add(&p->runs, &x->runs[i], NULL) < 0) return -ENOMEM;
    p->keep = keep;
    p->miss_at = x && keep < x->n_ids ? (int64_t)keep : -1;
    return 0;
}

/* Tokenize @t from where the kept ids end; a BOS in front where the file wants one and the text has none of its own. */
static int tokenize_rest(struct prompt *p, const struct loaded *m, const struct text *t)
{
    const struct tokenizer *k = m->tokenizer;
    _cleanup_(tokens_fini) struct tokens rest = {0};
    size_t from = p->keep ? p->tokens.ends[p->keep - 1] : 0;
    bool first = p->keep == 0 || tokenizer_is_control(k, p->tokens.ids[p->keep - 1]);
    int r = tokenizer_encode(k, t, from, first, &rest);
    if (r < 0) return r == -EILSEQ ? error_in(r, "the prompt") : r;
    int32_t bos = tokenizer_bos(k);
    if (p->keep == 0 && bos >= 0 && tokenizer_add_bos(k) && (rest.n == 0 || rest.ids[0] != bos))
        if (tokens_push(&p->tokens, bos, 0) < 0) return -ENOMEM;
    for (size_t i = 0; i < rest.n; i++)
        if (tokens_push(&p->tokens, rest.ids[i], rest.ends[i]) < 0) return -ENOMEM;
    return 0;
}

static int check_size(const struct prompt *p, uint64_t limit, enum proto_context policy)
{
    size_t n = p->tokens.n;
    if (n >= limit && policy != PROTO_CONTEXT_REFUSE)
        return error_say(-E2BIG, "the prompt is %zu tokens; with shift or rotate the limit is %" PRIu64, n, limit - 1);
    if (n > limit) return error_say(-E2BIG, "the prompt is %zu tokens; the context holds %" PRIu64, n, limit);
    if (n == limit)
        return error_say(-E2BIG, "the prompt is %zu tokens; the context holds %" PRIu64 ", answer included", n, limit);
    if (n == 0) return error_say(-EINVAL, "the prompt is empty");
    return 0;
}

static int check_request(const struct proto_generate *g, const struct session *x)
{
    bool empty = g->raw ? g->prompt.len == 0 : true;
    for (size_t i = 0; !g->raw && i < g->n_messages; i++) empty = empty && g->messages[i].content.len == 0;
    if (empty) return error_say(-EINVAL, "the prompt is empty");
    const struct session_content *c = session_content(x);
    if (c && (c->n_ids || c->n_messages) && c->raw != g->raw)
        return error_say(-EINVAL,
                         c->raw ? "session '%.*s' is raw text; messages cannot continue it"
                                : "session '%.*s' is made of messages; raw text cannot continue it",
                         (int)session_name(x)->len, session_name(x)->data);
    return 0;
}

/* The whole text, session's included, and its provenance. */
static int gather(struct text *t, const struct loaded *m, const struct proto_generate *g, const struct session *x)
{
    if (!g->raw) return render(m, g, x, t);
    const struct session_content *c = session_content(x);
    size_t at = 0;
    for (size_t i = 0; c && i <= c->text.len; i++) {
        if (i < c->text.len && c->markup.data[i] == c->markup.data[at]) continue;
        if (i > at && text_append(t, c->text.data + at, i - at, c->markup.data[at]) < 0) return -ENOMEM;
        at = i;
    }
    return text_append(t, g->prompt.data, g->prompt.len, g->special);
}

int prepare_prompt(struct prompt *p, const struct loaded *m, const struct proto_generate *g, const struct session *x)
{
    _cleanup_(text_fini) struct text t = {0};
    int r = check_request(g, x);
    if (r == 0) r = gather(&t, m, g, x);
    if (r < 0) return r;
    enum proto_context policy = prepare_context(g, x);
    uint64_t limit = prepare_limit(m->ctx, policy), most = limit * m->piece_max;
    if (t.s.len > most)
        return error_say(-E2BIG, "the prompt is %zu bytes; %" PRIu64 " tokens hold at most %" PRIu64, t.s.len, limit,
                         most);
    if (flags_of(&p->markup, &t) < 0 || buf_append(&p->text, t.s.data, t.s.len) < 0) r = -ENOMEM;
    /* Raw text goes behind the ids the session has, whatever their text looks like. */
    const struct session_content *c = session_content(x);
    size_t keep = c ? c->n_ids : 0;
    if (r == 0 && c && !g->raw) r = common_ids(p, m->tokenizer, c, &keep);
    if (r == 0) r = keep_ids(p, c, keep);
    if (r == 0) r = tokenize_rest(p, m, &t);
    if (r == 0) r = check_size(p, limit, policy);
    if (r < 0) prompt_fini(p);
    return r;
}

int prepare_tokens(struct tokens *out, const struct loaded *m, const struct proto_text *text, bool special)
{
    _cleanup_(text_fini) struct text t = {0};
    /* No reply can hold what a longer one would give: not worth the time. */
    uint64_t most = (uint64_t)PROTO_ELEMS_MAX * m->piece_max;
    if (text->len > most)
        return error_say(-E2BIG, "the text is %zu bytes; the %u ids of a reply stand for at most %" PRIu64, text->len,
                         PROTO_ELEMS_MAX, most);
    if (text_append(&t, text->data ? text->data : "", text->len, special) < 0) return -ENOMEM;
    int r = tokenizer_encode(m->tokenizer, &t, 0, true, out);
    return r == -EILSEQ ? error_in(r, "the text") : r;
}

/* Written by its user alone, so that a special token's text means the token. */
static int bias_of_text(int32_t *id, const struct tokenizer *k, const struct proto_text *text)
{
    _cleanup_(text_fini) struct text t = {0};
    _cleanup_(tokens_fini) struct tokens ids = {0};
    if (text_append(&t, text->data, text->len, true) < 0) return -ENOMEM;
    int r = tokenizer_encode(k, &t, 0, false, &ids);
    if (r == 0 && ids.n != 1)
        r = error_say(-EINVAL, "'%.*s' is %zu tokens, not one", (int)text->len, text->data, ids.n);
    if (r == 0) *id = ids.ids[0];
    return r;
}

static int bias_of(struct sample_bias *out, const struct loaded *m, const struct proto_bias *b)
{
    int r = 0;
    out->bias = b->bias;
    if (b->text.len)
        r = bias_of_text(&out->id, m->tokenizer, &b->text);
    else if (b->id < 0 || b->id >= (int64_t)m->vocab)
        r = error_say(-EINVAL, "%" PRId64 " is not a token of the model (0 to %" PRIu32 ")", b->id, m->vocab - 1);
    else
        out->id = (int32_t)b->id;
    if (r == 0 && !(b->bias >= -100.0f && b->bias <= 100.0f)) /* written so that a NaN fails */
        r = error_say(-EINVAL, "the bias is %g; it must be from -100 to 100", (double)b->bias);
    return r;
}

int prepare_biases(struct sample_bias **out, size_t *n, const struct loaded *m, const struct proto_generate *g)
{
    if (g->n_biases == 0) return 0;
    struct sample_bias *b = calloc(g->n_biases, sizeof(*b));
    int r = b ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < g->n_biases; i++) r = bias_of(&b[i], m, &g->biases[i]);
    if (r < 0) {
        free(b);
        return r == -ENOMEM ? r : error_in(r, "logit_bias");
    }
    *out = b;
    *n = g->n_biases;
    return 0;
}
