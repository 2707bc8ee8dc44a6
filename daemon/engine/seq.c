/* SPDX-License-Identifier: MIT */
#include "daemon/engine/seq.h"
#include "daemon/engine/queue.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <string.h>
#include <sys/random.h>

#define MAX_TOKENS_DEFAULT 2048
#define STOP_LEN_MAX       1024 /* bytes; held-back text is compared with every stop string */

int seq_new(struct seq **out, uint64_t conn, uid_t uid, struct proto_request *r, uint64_t now)
{
    struct seq *s = calloc(1, sizeof(*s));
    if (!s || !(s->end_node = malloc(sizeof(*s->end_node)))) {
        free(s);
        return -ENOMEM;
    }
    s->conn = conn;
    s->uid = uid;
    s->req = *r;
    memset(r, 0, sizeof(*r));
    s->submitted = now;
    bool prompt = s->req.type == PROTO_GENERATE || s->req.type == PROTO_WARM || s->req.type == PROTO_INFILL;
    int64_t ms = prompt ? s->req.gen.timeout_ms : -1;
    uint64_t us;
    if (ms >= 0 && !__builtin_mul_overflow((uint64_t)ms, 1000, &us) && !__builtin_add_overflow(us, now, &us))
        s->deadline = us;
    *out = s;
    return 0;
}

struct seq *seq_free(struct seq *s)
{
    if (!s) return NULL;
    assert(!s->tally && !s->session && s->kv.n_blocks == 0 && !s->reuse.seat && !s->fetch && !s->answers);
    proto_request_fini(&s->req);
    prompt_fini(&s->prompt);
    tokens_fini(&s->answer_tokens);
    proto_event_fini(&s->end);
    session_page_fini(&s->page);
    free(s->aux_why);
    free(s->end_node);
    free(s->view);
    free(s->biases);
    stop_fini(&s->stop);
    buf_fini(&s->answer);
    free(s);
    return NULL;
}

void seq_park(struct seq *s, uint64_t now)
{
    s->parked = now;
}

void seq_unpark(struct seq *s, uint64_t now)
{
    if (s->parked) s->waited[s->first_token > 0] += now - s->parked;
    s->parked = 0;
}

bool seq_part(struct seq *s)
{
    struct answers *a = s->answers;
    s->answers = NULL;
    if (a && --a->left) return false;
    free(a);
    return true;
}

/* --- several answers --- */

static int copy_prompt(struct prompt *to, const struct prompt *from)
{
    const struct tokens *t = &from->tokens;
    for (size_t i = 0; i < t->n; i++)
        if (tokens_push(&to->tokens, t->ids[i], t->ends[i]) < 0) return -ENOMEM;
    to->keep = from->keep;
    to->miss_at = from->miss_at;
    int r = buf_append(&to->text, from->text.data ? from->text.data : "", from->text.len);
    return r < 0 ? r : buf_append(&to->markup, from->markup.data ? from->markup.data : "", from->markup.len);
}

/* What is asked of the answer; the prompt is not. */
static int copy_wishes(struct proto_generate *to, const struct proto_generate *from)
{
    int r = 0;
    proto_generate_init(to);
    to->n = from->n;
    to->raw = from->raw;
    to->priority = from->priority;
    to->timeout_ms = from->timeout_ms;
    to->max_tokens = from->max_tokens;
    to->ignore_eos = from->ignore_eos;
    to->logprobs = from->logprobs;
    for (size_t i = 0; r == 0 && i < from->n_stop; i++, to->n_stop++)
        r = proto_text_set(&to->stop[i], from->stop[i].data, from->stop[i].len);
    return r;
}

static int copy_sampling(struct seq *to, const struct seq *from)
{
    to->params = from->params;
    to->sampling = from->sampling;
    if (!from->n_biases) return 0;
    to->biases = calloc(from->n_biases, sizeof(*to->biases));
    if (!to->biases) return -ENOMEM;
    memcpy(to->biases, from->biases, from->n_biases * sizeof(*to->biases));
    to->n_biases = from->n_biases;
    to->params.bias = to->biases;
    return 0;
}

static int copy_view(struct seq *to, const struct seq *from)
{
    if (!from->view) return 0;
    to->view = calloc(from->ctx, sizeof(*to->view));
    if (!to->view) return -ENOMEM;
    memcpy(to->view, from->view, from->n_view * sizeof(*to->view));
    to->n_view = from->n_view;
    return 0;
}

int seq_fork(struct seq **out, const struct seq *s, uint32_t nth)
{
    struct seq *t = calloc(1, sizeof(*t));
    if (!t || !(t->end_node = malloc(sizeof(*t->end_node)))) {
        free(t);
        return -ENOMEM;
    }
    t->state = SEQ_WAITING;
    t->conn = s->conn;
    t->uid = s->uid;
    t->req.type = s->req.type;
    t->req.id = s->req.id;
    t->arrival = s->arrival + nth;
    t->nth = nth;
    t->cancel = s->cancel;
    t->paused = s->paused;
    t->reuse.space = s->reuse.space;
    t->miss = s->miss;
    t->context = s->context;
    t->ctx = s->ctx;
    t->keep = s->keep;
    t->shifted = s->shifted;
    t->n_prompt = s->n_prompt;
    t->cached = s->cached;
    t->max_tokens = s->max_tokens;
    t->max_is_context = s->max_is_context;
    t->seed = s->seed;
    t->last_step = s->last_step;
    t->submitted = s->submitted;
    t->deadline = s->deadline;
    t->admitted = s->admitted;
    int r = copy_wishes(&t->req.gen, &s->req.gen);
    if (r == 0) r = copy_prompt(&t->prompt, &s->prompt);
    if (r == 0) r = copy_view(t, s);
    if (r == 0) r = copy_sampling(t, s);
    t->stop.strings = t->req.gen.stop;
    t->stop.n = t->req.gen.n_stop;
    if (r < 0)
        seq_free(t);
    else
        *out = t;
    return r;
}

/* --- what is asked --- */

static int check_stops(const struct proto_generate *g)
{
    for (size_t i = 0; i < g->n_stop; i++) {
        const struct proto_text *t = &g->stop[i];
        if (t->len == 0) return error_say(-EINVAL, "a stop string may not be empty");
        if (t->len > STOP_LEN_MAX)
            return error_say(-EINVAL, "a stop string has at most %d bytes, this one %zu", STOP_LEN_MAX, t->len);
        if (utf8_check(t->data, t->len) < t->len) return error_say(-EINVAL, "a stop string is not UTF-8");
    }
    return 0;
}

int seq_configure(struct seq *s, const struct loaded *m)
{
    struct proto_generate *g = &s->req.gen;
    s->params = m->sampling;
    if (s->req.type == PROTO_INFILL) s->params.temperature = 0;
    int r = sample_params_request(&s->params, &g->sampling);
    if (r == 0) r = check_stops(g);
    if (r == 0 && s->req.type == PROTO_INFILL) r = fim_configure(&s->lines, g);
    if (r < 0) return r;
    if (g->max_tokens == 0 || g->max_tokens < -1) return error_say(-EINVAL, "max_tokens must be at least 1");
    if (g->n > PROTO_ANSWERS_MAX) return error_say(-EINVAL, "there are at most %d answers", PROTO_ANSWERS_MAX);
    if (g->n > 1 && (g->session.len || g->continue_last))
        return error_say(-EINVAL, "a session keeps one answer: several go without");
    if (g->ignore_eos) {
        s->params.ban = m->eog;
        s->params.n_ban = m->n_eog;
    }
    s->stop.strings = g->stop;
    s->stop.n = g->n_stop;
    s->seed = g->sampling.seed;
    if (s->seed < 0) {
        uint64_t drawn;
        if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) return error_origin(-errno);
        s->seed = (int64_t)(drawn >> 1);
    }
    return 0;
}

/* --- the length of it --- */

#define CONTEXT_KEEP  128 /* tokens that stay when a context is full; a quarter of it, when that is less */
#define CONTEXT_LEAST 64  /* a smaller one is not worth a policy */

uint64_t seq_shift(uint64_t n, uint32_t ctx, uint32_t keep)
{
    uint64_t half = (ctx - keep) / 2;
    return n < ctx ? 0 : half * (1 + (n - ctx) / half);
}

/* What is left of the tokens is a function of how many there are, not of how they came. */
static int make_view(struct seq *s)
{
    uint64_t n = s->prompt.tokens.n, out = seq_shift(n, s->ctx, s->keep);
    if (out == 0) return 0;
    if (!s->view) s->view = calloc(s->ctx, sizeof(*s->view));
    if (!s->view) return -ENOMEM;
    const int32_t *ids = s->prompt.tokens.ids;
    s->shifted = out;
    s->n_view = (uint32_t)(n - out);
    memcpy(s->view, ids, s->keep * sizeof(*ids));
    memcpy(s->view + s->keep, ids + s->keep + out, (s->n_view - s->keep) * sizeof(*ids));
    return 0;
}

int seq_plan(struct seq *s, const struct loaded *m)
{
    const struct proto_generate *g = &s->req.gen;
    s->params.bias = s->biases;
    s->params.n_bias = s->n_biases;
    s->n_prompt = s->prompt.tokens.n;
    s->ctx = m->ctx;
    s->keep = (m->ctx / 4 < CONTEXT_KEEP ? m->ctx / 4 : CONTEXT_KEEP) / PREFIX_BLOCK * PREFIX_BLOCK;
    s->context = prepare_context(g, s->session);
    if (s->context != PROTO_CONTEXT_REFUSE && s->ctx < CONTEXT_LEAST)
        return error_say(-EINVAL, "a context of %u tokens is too small to shift or rotate", s->ctx);
    const struct shape *shape = &m->backend->shape;
    if (s->context == PROTO_CONTEXT_ROTATE && shape->window)
        return error_say(-EOPNOTSUPP,
                         "a context cannot rotate in a '%s' model, whose layers have windows of their own; shift can",
                         shape->arch);
    uint64_t limit = prepare_limit(m->ctx, s->context);
    assert(s->n_prompt > 0 && s->n_prompt < limit); /* prepare_prompt saw to it */
    int64_t left = (int64_t)(limit - s->n_prompt), want = g->max_tokens > 0 ? g->max_tokens : MAX_TOKENS_DEFAULT;
    if (s->req.type == PROTO_INFILL) want = fim_tokens(g);
    if (s->req.type == PROTO_WARM) want = 1;
    s->max_is_context = want > left;
    s->max_tokens = (uint32_t)(want > left ? left : want);
    return s->context == PROTO_CONTEXT_SHIFT ? make_view(s) : 0;
}

uint32_t seq_positions(const struct seq *s)
{
    uint32_t n = seq_known(s) + (s->max_tokens - s->generated) - 1; /* the last token sampled is never computed */
    return s->context == PROTO_CONTEXT_SHIFT && n > s->ctx ? s->ctx : n;
}

bool seq_rotates(const struct seq *s)
{
    return s->context == PROTO_CONTEXT_ROTATE && seq_positions(s) > s->ctx;
}

uint32_t seq_blocks(const struct seq *s, uint32_t batch)
{
    uint32_t all = kv_table_blocks(seq_positions(s));
    /* what a step's tokens see, whole blocks at both ends of the window and of the part that stays */
    uint32_t most = kv_table_blocks(s->ctx) + kv_table_blocks(batch) + 2;
    return seq_rotates(s) && most < all ? most : all;
}

/* Text into the record of the sequence, after which the last token's end is where it now ends. */
static int record(struct prompt *p, const char *text, size_t len, bool markup)
{
    if (buf_reserve(&p->markup, len) < 0 || buf_append(&p->text, text, len) < 0) return -ENOMEM;
    memset(p->markup.data + p->markup.len, markup, len);
    p->markup.len += len;
    p->markup.data[p->markup.len] = '\0';
    return 0;
}

/* What is in @shown from @before on is of the answer, unless it was only thought. */
static int keep_shown(struct seq *s, const struct buf *shown, size_t before)
{
    if (shown->len == before || s->harmony.thinking) return 0;
    return buf_append(&s->answer, shown->data + before, shown->len - before);
}

static int show(struct seq *s, struct buf *shown, const char *text, size_t len)
{
    size_t before = shown->len;
    if (!harmony_text(&s->harmony, text, len)) return 0;
    int r = stop_feed(&s->stop, text, len, shown);
    if (r >= 0 && fim_end(&s->lines, shown, before)) r = 1;
    return r < 0 || keep_shown(s, shown, before) == 0 ? r : -ENOMEM;
}

/* An incomplete character that nothing will complete any more is text after all (U+FFFD). 1: that made a stop string.
 */
static int show_partial(struct seq *s, struct buf *shown)
{
    struct prompt *p = &s->prompt;
    if (s->detok.n_pending == 0) return 0;
    struct buf tail = BUF_INIT;
    int r = detok_flush(&s->detok, &tail);
    if (r == 0) r = record(p, tail.data ? tail.data : "", tail.len, false);
    if (r == 0) {
        p->tokens.ends[p->tokens.n - 1] = (uint32_t)p->text.len;
        r = show(s, shown, tail.data ? tail.data : "", tail.len);
    }
    buf_fini(&tail);
    return r;
}

/* Nothing more comes of this text. 1: its last character made a stop string. */
static int show_rest(struct seq *s, struct buf *shown)
{
    int r = show_partial(s, shown);
    if (r != 0) return r;
    size_t before = shown->len;
    r = stop_flush(&s->stop, shown);
    if (r == 0) fim_end(&s->lines, shown, before);
    return r == 0 ? keep_shown(s, shown, before) : r;
}

int seq_cut(struct seq *s, struct buf *shown)
{
    int r = show_rest(s, shown);
    return r < 0 ? r : 0;
}

/* A control token: no text of the answer, but of the sequence, as markup. */
static int push_control(struct seq *s, const struct loaded *m, int32_t id)
{
    struct prompt *p = &s->prompt;
    size_t len;
    const char *piece = tokenizer_piece(m->tokenizer, id, &len);
    harmony_control(&s->harmony, piece, len);
    int r = record(p, piece, len, true);
    return r < 0 ? r : tokens_push(&p->tokens, id, (uint32_t)p->text.len);
}

static int push_text(struct seq *s, const struct loaded *m, int32_t id, struct buf *shown)
{
    struct prompt *p = &s->prompt;
    struct buf text = BUF_INIT;
    int r = detok_push(&s->detok, m->tokenizer, id, &text);
    if (r == 0) r = record(p, text.data ? text.data : "", text.len, false);
    /* A token that ends inside a character ends at the bytes it will have there. */
    if (r == 0) r = tokens_push(&p->tokens, id, (uint32_t)(p->text.len + s->detok.n_pending));
    if (r == 0) r = show(s, shown, text.data ? text.data : "", text.len);
    buf_fini(&text);
    return r;
}

/* The token joins what is to be computed. */
static int go_on(struct seq *s, int32_t id)
{
    if (s->view) s->view[s->n_view++] = id;
    if (s->context != PROTO_CONTEXT_SHIFT || seq_known(s) < s->ctx) return 0;
    int r = make_view(s);
    return r < 0 ? r : 2;
}

int seq_push(struct seq *s, const struct loaded *m, int32_t id, struct buf *shown, enum proto_reason *reason)
{
    s->generated++;
    s->channel = harmony_channel(&s->harmony); /* what a control token changes is for what comes after it */
    bool control = tokenizer_is_control(m->tokenizer, id), eog = tokenizer_is_eog(m->tokenizer, id);
    int r;
    if (eog) {
        r = seq_cut(s, shown);
        if (r == 0) r = push_control(s, m, id);
        *reason = PROTO_STOP_EOS;
        return r < 0 ? r : 1;
    }
    r = !control ? push_text(s, m, id, shown) : s->harmony.begun ? show_rest(s, shown) : show_partial(s, shown);
    if (r >= 0 && control && push_control(s, m, id) < 0) r = -ENOMEM;
    if (r != 0) { /* 1: a stop string */
        *reason = PROTO_STOP_EOS;
        return r;
    }
    if (s->generated < s->max_tokens) return go_on(s, id);
    r = seq_cut(s, shown);
    *reason = s->max_is_context ? PROTO_STOP_CONTEXT : PROTO_STOP_LENGTH;
    return r < 0 ? r : 1;
}

int seq_commit(struct seq *s)
{
    const struct proto_generate *g = &s->req.gen;
    struct prompt *p = &s->prompt;
    struct session *x = s->session;
    /* The last tokens may end inside a character that never came. */
    for (size_t i = p->tokens.n; i-- > 0 && p->tokens.ends[i] > p->text.len;) p->tokens.ends[i] = (uint32_t)p->text.len;
    size_t n_messages = x->n_messages, first = prepare_first_message(g, x);
    int r = 0;
    for (size_t i = first; r == 0 && !g->raw && i < g->n_messages; i++) {
        const struct proto_message *m = &g->messages[i];
        r = session_add_message(x, m->role.data, m->role.len, m->content.data, m->content.len);
    }
    if (r == 0 && !g->raw) r = session_add_message(x, "assistant", 9, s->answer.data, s->answer.len);
    if (r == 0) {
        session_truncate(x, p->keep);
        size_t at = p->keep ? p->tokens.ends[p->keep - 1] : 0;
        if (at) memcpy(x->markup.data, p->markup.data, at); /* as the template says now */
        r = session_extend(x, p->tokens.ids + p->keep, p->tokens.ends + p->keep, p->tokens.n - p->keep,
                           p->text.data + at, p->markup.data + at, p->text.len - at);
    }
    if (r < 0) {
        session_drop_messages(x, n_messages);
        return r;
    }
    x->raw = g->raw;
    x->context = s->context;
    return session_set_failed(x, "", 0);
}
