/* SPDX-License-Identifier: MIT */
#include "daemon/request/prepare.h"
#include "daemon/request/constraint.h"
#include "daemon/request/context-policy.h"
#include "daemon/request/infill-prompt.h"
#include "daemon/request/kept-tokens.h"
#include "daemon/request/logit-bias.h"
#include "daemon/request/messages.h"
#include "daemon/request/tools.h"
#include "daemon/request/turn.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <string.h>

/* --- the prompt --- */

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

/* A BOS in front of @rest, the first tokens of the prompt, where the file wants one and the text has none of its own.
 */
static int push_bos(struct prompt *p, const struct tokenizer *k, const struct tokens *rest)
{
    int32_t bos = tokenizer_bos(k);
    if (p->tokens.n || bos < 0 || !tokenizer_add_bos(k) || (rest->n && rest->ids[0] == bos)) return 0;
    return tokens_push(&p->tokens, bos, 0) < 0 ? -ENOMEM : 0;
}

static bool behind_special(const struct tokenizer *k, const struct text *t, const struct tokens *ids)
{
    size_t from = ids->n > 1 ? ids->ends[ids->n - 2] : 0, end = ids->ends[ids->n - 1];
    return tokenizer_was_special(k, ids->ids[ids->n - 1], t->s.data + from, end - from);
}

/* Tokenize the piece [@begin, @end) of @t from where the ids end. */
static int tokenize_piece(struct prompt *p, const struct tokenizer *k, const struct text *t, size_t begin, size_t end)
{
    _cleanup_(tokens_fini) struct tokens rest = {0};
    _cleanup_(text_fini) struct text part = {0};
    size_t n = p->tokens.n, from = n ? p->tokens.ends[n - 1] : 0, base = 0;
    bool first = from <= begin || behind_special(k, t, &p->tokens);
    if (from < begin) from = begin;
    if (end < t->s.len) {
        base = begin; /* what is in front of the rest matters */
        if (text_append_range(&part, t, begin, end) < 0) return -ENOMEM;
        t = &part;
    }
    int r = tokenizer_encode(k, t, from - base, first, &rest);
    if (r < 0) return r == -EILSEQ ? error_in(r, "the prompt") : r;
    r = push_bos(p, k, &rest);
    for (size_t i = 0; r == 0 && i < rest.n; i++)
        if (tokens_push(&p->tokens, rest.ids[i], rest.ends[i] + (uint32_t)base) < 0) r = -ENOMEM;
    return r;
}

/* Tokenize @t from where the kept ids end. */
static int tokenize_rest(struct prompt *p, const struct tokenizer *k, const struct text *t,
                         const struct prompt_pieces *pieces)
{
    const struct tokens none = {0};
    size_t kept = p->keep ? p->tokens.ends[p->keep - 1] : 0, begin = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < pieces->n; begin = pieces->list[i++].end) {
        const struct prompt_piece *piece = &pieces->list[i];
        if (piece->end <= kept) continue;
        if (!piece->run.n) {
            r = tokenize_piece(p, k, t, begin, piece->end);
            continue;
        }
        r = push_bos(p, k, &none);
        if (r == 0) r = prompt_push_run(p, piece->run, (uint32_t)piece->end, NULL);
    }
    return r < 0 ? r : push_bos(p, k, &none);
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

static int check_request(const struct proto_generate *g, const struct session *x, const struct prompt_extras *e)
{
    bool empty = g->raw ? g->prompt.len == 0 : true;
    for (size_t i = 0; !g->raw && i < g->n_messages; i++) empty = empty && proto_message_empty(&g->messages[i]);
    if (empty) return error_say(-EINVAL, "the prompt is empty");
    if (g->raw && e && e->n_sources) return error_say(-EINVAL, "a raw prompt has no images");
    const struct session_content *c = session_content(x);
    if (c && (c->n_ids || c->n_messages) && c->raw != g->raw)
        return error_say(-EINVAL,
                         c->raw ? "session '%.*s' is raw text; messages cannot continue it"
                                : "session '%.*s' is made of messages; raw text cannot continue it",
                         (int)session_name(x)->len, session_name(x)->data);
    return 0;
}

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

/* The session's text, with its provenance, and the request's behind it. */
static int append_raw(struct text *t, const struct proto_generate *g, const struct session *x)
{
    const struct session_content *c = session_content(x);
    size_t at = 0;
    for (size_t i = 0; c && i <= c->text.len; i++) {
        if (i < c->text.len && c->markup.data[i] == c->markup.data[at]) continue;
        if (i > at && text_append(t, c->text.data + at, i - at, c->markup.data[at]) < 0) return -ENOMEM;
        at = i;
    }
    return text_append(t, g->prompt.data, g->prompt.len, g->special);
}

/* The text of the messages, and its pieces. */
static int text_of_messages(struct text *t, struct prompt_pieces *pieces, struct prompt_sources *sources,
                            const struct loaded *m, const struct proto_generate *g, const struct session *x,
                            const struct prompt_extras *e)
{
    _cleanup_(text_fini) struct text marked = {0};
    struct media_marks marks;
    int r = messages_media(g, x, e, sources);
    if (r == 0 && sources->n == 0) {
        r = messages_render(m, g, x, e, NULL, t);
        return r < 0 ? r : prompt_pieces_text(pieces, t->s.len);
    }
    if (r == 0 && !m->encoder) r = error_say(-EOPNOTSUPP, "the model reads no images: it has no encoder (--mmproj)");
    if (r == 0) r = media_marks_init(&marks);
    if (r == 0) r = messages_render(m, g, x, e, &marks, &marked);
    return r < 0 ? r : prompt_pieces_place(pieces, m->encoder, sources, &marks, &marked, t);
}

static int push_media(struct prompt *p, const struct prompt_sources *sources, const struct prompt_pieces *pieces)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < sources->n; i++) r = prompt_push_media(p, sources->list[i], pieces->runs[i]);
    return r;
}

int prepare_prompt(struct prompt *p, const struct loaded *m, const struct proto_generate *g, const struct session *x,
                   const struct prompt_extras *e)
{
    _cleanup_(text_fini) struct text t = {0};
    _cleanup_(prompt_pieces_fini) struct prompt_pieces pieces = {0};
    _cleanup_(prompt_sources_fini) struct prompt_sources sources = {0};
    int r = check_request(g, x, e);
    if (r == 0 && !g->raw) r = text_of_messages(&t, &pieces, &sources, m, g, x, e);
    if (r == 0 && g->raw) r = append_raw(&t, g, x);
    if (r == 0 && g->raw) r = prompt_pieces_text(&pieces, t.s.len);
    if (r < 0) return r;
    enum proto_context policy = context_policy(g, x);
    uint64_t limit = context_limit(m->ctx, policy), most = limit * m->piece_max;
    if (t.s.len > most)
        return error_say(-E2BIG, "the prompt is %zu bytes; %" PRIu64 " tokens hold at most %" PRIu64, t.s.len, limit,
                         most);
    if (flags_of(&p->markup, &t) < 0 || buf_append(&p->text, t.s.data, t.s.len) < 0) r = -ENOMEM;
    /* Raw text goes behind the ids the session has, whatever their text looks like. */
    const struct session_content *c = session_content(x);
    size_t keep = c ? c->n_ids : 0;
    if (r == 0 && c && !g->raw) r = kept_tokens(p, &pieces, m->tokenizer, c, &keep);
    if (r == 0) r = keep_ids(p, c, keep);
    if (r == 0) r = tokenize_rest(p, m->tokenizer, &t, &pieces);
    if (r == 0) r = push_media(p, &sources, &pieces);
    if (r == 0) r = check_size(p, limit, policy);
    if (r < 0) prompt_fini(p);
    return r;
}

/* --- the job --- */

/* A job frees the memory of a large text, because that takes milliseconds. */
static int refuse(struct request *r, int result)
{
    struct proto_generate *g = &r->proto.gen;
    proto_text_fini(&g->prompt);
    for (size_t i = 0; i < g->n_messages; i++) proto_text_fini(&g->messages[i].content);
    return result;
}

static int hold_constraint(struct request *r)
{
    struct proto_constraint *c = &r->proto.constraint;
    const struct constraint_owner owner = {r->uid, &r->proto.gen.salt};
    const struct constraint_source source = {.constraint = c};
    if (!c->type) return 0;
    int result = constraint_hold(r->core->model.constraints, &owner, &source, &r->constraint);
    proto_text_fini(&c->text); /* may be large */
    return result;
}

/* With the choice "none" the model hears of no tools. */
static int read_tools(struct request *r)
{
    const struct proto_tools *t = &r->proto.tools;
    if (!t->list.len) return 0;
    int result = tools_parse(&r->format.tools, t);
    if (result == 0 && t->choice == PROTO_TOOL_NONE) {
        json_decref(r->format.tools);
        r->format.tools = NULL;
    }
    return result;
}

/* A raw prompt with special tokens is one that the client has rendered. */
static int set_format(struct request *r, struct seq *s)
{
    const struct proto_generate *g = &r->proto.gen;
    bool raw = r->proto.type == PROTO_INFILL || (g->raw && !g->special);
    if (raw) answer_format_raw(&r->format, &r->core->model);
    if (raw) return 0;
    answer_format_set(&r->format, &r->core->model, s->prompt.text.data, s->prompt.text.len);
    return output_set_format(&s->output, r->format.format);
}

/* The calls of the request's tools. */
static int hold_tools(struct request *r)
{
    const struct loaded *m = &r->core->model;
    struct proto_tools *t = &r->proto.tools;
    const struct constraint_owner owner = {r->uid, &r->proto.gen.salt};
    const bool forced = t->choice == PROTO_TOOL_REQUIRED || t->choice == PROTO_TOOL_NAMED;
    const struct tool_grammar calls = {.markup = m->markup,
                                       .tokenizer = m->tokenizer,
                                       .tools = r->format.tools,
                                       .only = t->choice == PROTO_TOOL_NAMED ? t->name.data : NULL,
                                       .start = r->format.markup.start,
                                       .part = forced ? TOOL_CALLS_ANSWER : TOOL_CALLS_REST};
    const struct constraint_source source = {.tools = &calls, .list = &t->list};
    if (!r->format.tools) return 0;
    return constraint_hold(m->constraints, &owner, &source, &r->constraint);
}

/* Write down in the messages, for a session, what the decoder has found out about their media. */
static void note_media(struct request *r)
{
    struct proto_generate *g = &r->proto.gen;
    size_t n = 0;
    for (size_t i = 0; i < g->n_messages; i++)
        for (size_t j = 0; j < g->messages[i].n_media && n < r->n_sources; j++, n++) {
            const struct media_source *s = r->sources[n];
            struct proto_media *m = &g->messages[i].media[j];
            m->kind = s->kind == MEDIA_SOUND ? PROTO_MEDIA_SOUND : PROTO_MEDIA_IMAGE;
            m->width = s->width;
            m->height = s->height;
            m->samples = s->samples;
            memcpy(m->digest, s->digest, sizeof(m->digest));
        }
}

int prepare_request(struct request *r)
{
    const struct loaded *m = &r->core->model;
    const struct proto_generate *g = &r->proto.gen;
    struct request_session *t = &r->turn;
    struct seq *s = request_first(r);
    int result = context_check_bytes(m, &r->proto);
    if (result < 0) return refuse(r, result);
    result = read_tools(r);
    const struct prompt_extras extras = {.tools = r->format.tools,
                                         .thinking = r->proto.thinking.mode,
                                         .limited = r->proto.thinking.limited,
                                         .sources = r->sources,
                                         .n_sources = r->n_sources};
    if (result == 0 && r->n_sources && r->proto.type == PROTO_INFILL)
        result = error_say(-EINVAL, "a text to fill in has no images");
    note_media(r);
    if (result == 0 && t->session) result = turn_load(r->core, t->session);
    if (result == 0 && t->target) (void)!turn_load(r->core, t->target); /* even unreadable it is in the way */
    if (result == 0) result = logit_biases_of(&s->biases, &s->n_biases, m, g);
    if (result == 0) result = hold_constraint(r);
    if (result == 0 && r->proto.type == PROTO_INFILL)
        result = fim_prepare(&s->prompt, m, g);
    else if (result == 0)
        result = prepare_prompt(&s->prompt, m, g, t->session, &extras);
    if (result == 0) result = set_format(r, s);
    if (result == 0) result = hold_tools(r);
    if (result == 0 && t->session && r->proto.type == PROTO_GENERATE) result = turn_claim(r);
    proto_text_fini(&r->proto.gen.infill.prefix); /* large; the prompt has its own copy */
    proto_text_fini(&r->proto.gen.infill.suffix);
    return result;
}
