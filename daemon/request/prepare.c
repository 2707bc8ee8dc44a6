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
    for (size_t i = 0; !g->raw && i < g->n_messages; i++) empty = empty && proto_message_empty(&g->messages[i]);
    if (empty) return error_say(-EINVAL, "the prompt is empty");
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

int prepare_prompt(struct prompt *p, const struct loaded *m, const struct proto_generate *g, const struct session *x,
                   const struct prompt_extras *e)
{
    _cleanup_(text_fini) struct text t = {0};
    int r = check_request(g, x);
    if (r == 0) r = g->raw ? append_raw(&t, g, x) : messages_render(m, g, x, e, &t);
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
    if (r == 0 && c && !g->raw) r = kept_tokens(p, m->tokenizer, c, &keep);
    if (r == 0) r = keep_ids(p, c, keep);
    if (r == 0) r = tokenize_rest(p, m, &t);
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

int prepare_request(struct request *r)
{
    const struct loaded *m = &r->core->model;
    const struct proto_generate *g = &r->proto.gen;
    struct request_session *t = &r->turn;
    struct seq *s = request_first(r);
    int result = context_check_bytes(m, &r->proto);
    if (result < 0) return refuse(r, result);
    result = read_tools(r);
    const struct prompt_extras extras = {r->format.tools, r->proto.thinking.mode, r->proto.thinking.limited};
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
