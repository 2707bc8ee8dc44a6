/* SPDX-License-Identifier: MIT */
#include "daemon/request/turn.h"
#include "daemon/request/messages.h"
#include "daemon/request/request-job.h"
#include "daemon/request/session-limits.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES 65536 /* claimed on disk for what a turn writes besides its prompt */

/* --- before the turn --- */

/* Bytes that the turn adds to its session, as text and ids, without the answer. */
static uint64_t turn_bytes(const struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    const struct prompt *p = &request_first(r)->prompt;
    uint64_t ids = p->tokens.n - p->keep, bytes = p->text.len - (p->keep ? p->tokens.ends[p->keep - 1] : 0);
    for (size_t i = 0; i < g->n_messages; i++) bytes += proto_message_bytes(&g->messages[i]);
    return bytes + 8 * ids + sizeof(struct item_run) * p->runs.n;
}

int turn_claim(struct request *r)
{
    return session_claim(r->turn.session, turn_bytes(r) + ANSWER_BYTES);
}

int turn_load(struct core *core, struct session *x)
{
    int r = session_load(x);
    const struct session_content *c = session_content(x);
    if (r == 0 && c->n_ids && !core_is_model(core, c->model)) session_forget_tokens(x);
    return r;
}

/* The new session is filled and saved with the turn itself. */
int turn_fork(struct request *r)
{
    const struct proto_text *name = &r->proto.gen.fork;
    struct session_store *store = r->core->sessions;
    struct session *from = r->turn.session;
    int result = session_fork(store, from, name->data, name->len, &r->turn.session);
    if (result < 0) {
        r->turn.session = from;
        return result;
    }
    session_take_claim(r->turn.session, from);
    result = session_copy(r->turn.session, from);
    r->turn.forked = true;
    session_release(store, from);
    return result;
}

/* --- saving --- */

static void set_model(const struct core *core, struct session *x)
{
    uint8_t id[16];
    core_model_id(core, id);
    session_set_model(x, id);
}

static int save_session(struct request *r)
{
    set_model(r->core, r->turn.session);
    return session_save(r->turn.session);
}

/* `done` would promise that the turn is on disk. */
static void not_saved(struct request *r, int error, const char *why)
{
    if (r->end.type != PROTO_EV_DONE) return;
    proto_event_fini(&r->end);
    r->end = (struct proto_event){.type = PROTO_EV_ERROR, .code = -error};
    (void)!proto_text_set(&r->end.message, why, strlen(why)); /* without memory the code says it */
}

static void saved(struct request *r, int result)
{
    if (result < 0) {
        log_warning("%s", request_job_error(r));
        not_saved(r, result, request_job_error(r));
    }
    request_end(r, request_first(r));
}

static void save(struct request *r)
{
    struct seq *s = request_first(r);
    core_free_slot(r->core, s);
    s->state = SEQ_SAVING;
    plan_leave(r->core, s);
    r->turn.forked = false;
    request_send(r, REQUEST_SAVING, save_session, saved);
}

/* --- the end of a turn --- */

static struct proto_text text_of(const struct buf *b)
{
    return (struct proto_text){b->data, b->len};
}

/* The assistant's message. A call that was cut is left out. */
static int add_answer(struct session *x, const struct output *o)
{
    struct proto_message m = {.role = {(char *)(uintptr_t) "assistant", 9},
                              .content = text_of(&o->answer),
                              .thinking = text_of(&o->thinking),
                              .n_calls = call_list_whole(&o->calls)};
    if (m.n_calls && !(m.calls = calloc(m.n_calls, sizeof(*m.calls)))) return -ENOMEM;
    for (size_t i = 0; i < m.n_calls; i++) {
        const struct listed_call *call = &o->calls.calls[i];
        m.calls[i] = (struct proto_call){text_of(&call->id), text_of(&call->name), text_of(&call->arguments)};
    }
    int r = session_add_parts(x, &m);
    free(m.calls);
    return r;
}

/* An error may end an answer whose text is kept: the same request again gets this text, as of a cancelled answer, and
 * the session no second turn. */
static int add_outcome(struct request *r, const struct seq *s)
{
    struct session_outcome o = {
        .reason = r->end.type == PROTO_EV_DONE ? r->end.reason : PROTO_STOP_CANCEL,
        .usage_prompt = s->n_prompt,
        .usage_cached = s->cached,
        .usage_completion = s->generated,
        .usage_thinking = s->output.thought,
        .shifted = s->context.shifted,
        .miss_at = s->prompt.miss_at,
        .seed = (int64_t)s->sampling.seed,
        .answer = {.data = s->output.answer.data, .len = s->output.answer.len},
        .message = r->proto.gen.raw ? 0 : session_content(r->turn.session)->n_messages,
    };
    memcpy(o.uuid, r->proto.gen.uuid, sizeof(o.uuid));
    return session_add_outcome(r->turn.session, &o);
}

static int add_messages(struct request *r, struct seq *s)
{
    const struct proto_generate *g = &r->proto.gen;
    struct session *x = r->turn.session;
    int result = 0;
    for (size_t i = messages_first_new(g, x); result == 0 && !g->raw && i < g->n_messages; i++)
        result = session_add_parts(x, &g->messages[i]);
    return result == 0 && !g->raw ? add_answer(x, &s->output) : result;
}

/* Add tokens, text, messages and, if it is @whole, the outcome to the session. 0; -ENOMEM, and the session has the
 * turns that it had. */
static int commit(struct request *r, struct seq *s, bool whole)
{
    struct prompt *p = &s->prompt;
    struct session *x = r->turn.session;
    /* The last tokens may end inside a character that was never completed. */
    for (size_t i = p->tokens.n; i-- > 0 && p->tokens.ends[i] > p->text.len;) p->tokens.ends[i] = (uint32_t)p->text.len;
    size_t n_messages = session_content(x)->n_messages, at = p->keep ? p->tokens.ends[p->keep - 1] : 0;
    const struct items new = items_from(prompt_items(p), (uint32_t)p->keep);
    int result = add_messages(r, s);
    if (result == 0) result = session_reserve(x, new, p->text.len - at);
    if (result == 0 && whole) result = add_outcome(r, s);
    if (result == 0) result = adapters_keep(r);
    if (result == 0) result = session_set_note(x, r->proto.note.data, r->proto.note.len);
    if (result < 0) {
        session_drop_messages(x, n_messages);
        if (whole) session_drop_outcome(x, r->proto.gen.uuid);
        return result;
    }
    session_truncate(x, p->keep);
    if (at) session_set_markup(x, p->markup.data, at); /* as the template marks it now */
    /* cannot fail: the room was reserved, and a text without bytes needs none */
    (void)!session_extend(x, new, p->tokens.ends + p->keep, p->text.data + at, p->markup.data + at, p->text.len - at);
    (void)!session_set_failed(x, "", 0);
    session_set_raw(x, r->proto.gen.raw);
    session_set_context(x, s->context.policy);
    return 0;
}

/* A detached request that was accepted: no client waits for it, so its session stores the reason of a failure. */
static bool fails_alone(const struct request *r)
{
    const struct seq *s = request_first(r);
    return r->proto.gen.detach && r->turn.session && session_loaded(r->turn.session) &&
           (s->times.admitted || s->sched.position);
}

static void note_failure(struct request *r, const struct proto_text *why)
{
    struct session *x = r->turn.session;
    log_warning("a detached turn of session '%s' failed: %s", session_name(x)->data,
                why->len ? why->data : "out of memory");
    if (session_set_failed(x, why->len ? why->data : "out of memory", why->len ? why->len : 13) < 0)
        log_warning("no memory to store the error in the session");
}

bool turn_note_failure(struct request *r)
{
    if (r->end.type != PROTO_EV_ERROR || !fails_alone(r)) return false;
    note_failure(r, &r->end.message);
    reuse_end(&r->core->cache, request_first(r));
    save(r);
    return true;
}

void turn_cut(struct request *r)
{
    static const char why[] = "the daemon stopped before the answer was complete";
    struct seq *s = request_first(r);
    if (!s || r->state == REQUEST_ENDED || r->state == REQUEST_SAVING || r->in_job || s->fetch || !fails_alone(r))
        return;
    r->turn.forked = false;
    if (s->generated && s->output.answer.len && commit(r, s, false) < 0)
        log_warning("no memory to store the partial answer");
    set_model(r->core, r->turn.session);
    note_failure(r, &(struct proto_text){(char *)why, sizeof(why) - 1});
}

bool turn_keep(struct request *r)
{
    struct seq *s = request_first(r);
    struct session *x = r->turn.session;
    bool whole = r->end.type == PROTO_EV_DONE || !fails_alone(r);
    if (commit(r, s, whole) < 0) {
        log_warning("no memory to store a turn of session '%s'", session_name(x)->data);
        not_saved(r, -ENOMEM, "no memory to store the turn");
        return false;
    }
    if (!whole) note_failure(r, &r->end.message);
    sessions_set_tail(r->core, x, s->kv.tables[0].n_blocks ? reuse_end(&r->core->cache, s) : s->reuse.tail);
    save(r);
    return true;
}

/* --- the same turn again --- */

void turn_find_fork(struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    if (r->proto.type != PROTO_GENERATE || !g->fork.len || !g->uuid[0]) return;
    (void)!session_acquire(r->core->sessions, r->uid, g->fork.data, g->fork.len, false, &r->turn.target);
}

/* The outcome of the turn with this UUID. If it went to the new session of a fork, that becomes the request's. */
static const struct session_outcome *made_before(struct request *r)
{
    const char *uuid = r->proto.gen.uuid;
    struct request_session *t = &r->turn;
    if (!t->session || !uuid[0] || r->proto.type != PROTO_GENERATE) return NULL;
    const struct session_outcome *o = t->target ? session_find_outcome(t->target, uuid) : NULL;
    struct session *unused = t->target;
    if (o) {
        unused = t->session;
        t->session = t->target;
    }
    t->target = NULL;
    if (unused) session_release(r->core->sessions, unused);
    return o ? o : session_find_outcome(t->session, uuid);
}

/* The outcome has no calls; they are those of the session's message. */
static void replay_calls(struct request *r, const struct session_outcome *o)
{
    const struct proto_message *m = session_outcome_message(r->turn.session, o);
    for (size_t i = 0; m && i < m->n_calls; i++) {
        struct proto_event ev = {.type = PROTO_EV_TOOL_CALL, .part.number = (uint32_t)i};
        const struct proto_call *from = &m->calls[i];
        struct proto_call *to = &ev.part.call;
        if ((from->id.len && proto_text_set(&to->id, from->id.data, from->id.len) < 0) ||
            proto_text_set(&to->name, from->name.data, from->name.len) < 0 ||
            proto_text_set(&to->arguments, from->arguments.data, from->arguments.len) < 0)
            proto_event_fini(&ev);
        else
            request_emit(r, request_first(r), &ev);
    }
}

bool turn_replay(struct request *r)
{
    const struct session_outcome *o = made_before(r);
    if (!o) return false;
    struct proto_event text = {.type = PROTO_EV_TEXT, .channel = "answer"};
    if (o->answer.len && proto_text_set(&text.text, o->answer.data, o->answer.len) == 0)
        request_emit(r, request_first(r), &text);
    if (o->reason == PROTO_STOP_TOOL_CALLS) replay_calls(r, o);
    r->end = (struct proto_event){
        .type = PROTO_EV_DONE,
        .reason = o->reason,
        .usage_prompt = o->usage_prompt,
        .usage_cached = o->usage_cached,
        .usage_completion = o->usage_completion,
        .usage_thinking = o->usage_thinking,
        .cut.shifted = o->shifted,
        .miss_at = o->miss_at,
        .seed = o->seed,
    };
    (void)!proto_text_set(&r->end.session, session_name(r->turn.session)->data, session_name(r->turn.session)->len);
    if (session_saved(r->turn.session))
        request_end(r, request_first(r));
    else
        save(r); /* the first answer to this request was that it could not be saved */
    return true;
}
