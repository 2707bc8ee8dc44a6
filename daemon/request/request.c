/* SPDX-License-Identifier: MIT */
#include "daemon/request/request.h"
#include "daemon/request/constraint.h"
#include "daemon/request/decode-media.h"
#include "daemon/request/draft.h"
#include "daemon/request/encode-media.h"
#include "daemon/request/plan-blocks.h"
#include "daemon/request/texts.h"
#include "daemon/request/types.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- lists --- */

void request_list_push(struct request_list *l, struct request *r)
{
    r->prev = l->tail;
    r->next = NULL;
    if (l->tail)
        l->tail->next = r;
    else
        l->head = r;
    l->tail = r;
}

void request_list_remove(struct request_list *l, struct request *r)
{
    if (r->prev)
        r->prev->next = r->next;
    else
        l->head = r->next;
    if (r->next)
        r->next->prev = r->prev;
    else
        l->tail = r->prev;
    r->prev = r->next = NULL;
}

/* --- begin --- */

static uint64_t deadline_of(uint64_t now, int64_t ms)
{
    uint64_t us;
    if (ms < 0 || __builtin_mul_overflow((uint64_t)ms, 1000, &us) || __builtin_add_overflow(us, now, &us)) return 0;
    return us;
}

/* The first sequence. The others are copies of it, made when the prompt is computed. */
static int new_answers(struct request *r)
{
    uint32_t n = r->proto.gen.n > 1 ? r->proto.gen.n : 1;
    struct seq *s;
    if (n > PROTO_ANSWERS_MAX) n = 1; /* refused when the request begins */
    r->answers.seqs = calloc(n, sizeof(*r->answers.seqs));
    if (!r->answers.seqs || seq_new(&s, r, &r->answers, 0) < 0) return -ENOMEM;
    r->answers.n = n;
    r->answers.left = 1;
    s->uid = r->uid;
    s->end_node = steal(r->end_node);
    return 0;
}

int request_new(struct request **out, struct core *core, const struct request_type *type, uint64_t conn, uid_t uid,
                struct proto_request *proto)
{
    struct request *r = calloc(1, sizeof(*r));
    if (!r) return -ENOMEM;
    r->core = core;
    r->type = type;
    r->conn = conn;
    r->uid = uid;
    r->submitted = clock_now_usec();
    r->proto = *proto;
    r->end_node = malloc(sizeof(*r->end_node));
    if (!r->end_node || (type->answers && !type->texts && new_answers(r) < 0)) {
        r->proto = (struct proto_request){0};
        request_free(r);
        return -ENOMEM;
    }
    if (type->answers) r->deadline = deadline_of(r->submitted, proto->gen.timeout_ms);
    memset(proto, 0, sizeof(*proto));
    *out = r;
    return 0;
}

struct request *request_free(struct request *r)
{
    if (!r) return NULL;
    assert(!r->turn.session && !r->turn.target && !r->user && !r->in_job);
    for (uint32_t i = 0; i < r->answers.n; i++) seq_free(r->answers.seqs[i]);
    free(r->answers.seqs);
    texts_free(r);
    constraint_drop(r->core->model.constraints, r->constraint);
    answer_format_fini(&r->format);
    proto_request_fini(&r->proto);
    proto_event_fini(&r->end);
    session_page_fini(&r->page);
    tokens_fini(&r->tokens);
    decode_media_fini(r);
    free(r->job.error);
    free(r->end_node);
    free(r);
    return NULL;
}

/* --- events --- */

/* Queue the event for the reader of @s. With @node it cannot fail. Takes the contents of @ev. The caller holds the
 * lock.
 */
static int push(struct request *r, const struct seq *s, struct proto_event *ev, bool last, struct event_node *node)
{
    struct engine_event out = {.conn = r->conn, .last = last, .ev = *ev};
    memset(ev, 0, sizeof(*ev));
    out.ev.id = r->proto.id;
    out.ev.index = s ? s->nth : 0;
    int result = event_queue_push(r->core->mail.events, &out, node);
    if (result < 0) proto_event_fini(&out.ev);
    return result;
}

void request_emit(struct request *r, const struct seq *s, struct proto_event *ev)
{
    struct mailbox *m = &r->core->mail;
    if (r->control.silent) {
        proto_event_fini(ev);
        return;
    }
    bool text = ev->type == PROTO_EV_TEXT || ev->type == PROTO_EV_TOOL_CALL;
    pthread_mutex_lock(&m->lock);
    /* An answer with a gap is of no use; the sweep ends it. */
    if (push(r, s, ev, false, NULL) < 0 && text) r->control.lost = true;
    pthread_mutex_unlock(&m->lock);
}

/* --- ends --- */

/* Give back what @s and the request hold. */
static void release(struct request *r, struct seq *s)
{
    struct session_store *sessions = r->core->sessions;
    struct request_session *t = &r->turn;
    if (s) draft_leave(r->core, s, true);
    if (s) reuse_end(&r->core->cache, s);
    if (t->session && t->forked) session_revert(t->session);
    if (t->session) session_release(sessions, t->session);
    if (t->target) session_release(sessions, t->target);
    t->session = t->target = NULL;
}

/* Free an answer that has left the plan. */
static void free_answer(struct request *r, struct seq *s)
{
    plan_count_held(r->core, s);
    seq_list_remove(&r->core->seqs, s);
    seq_free(s);
}

/* Free a request that has ended, unless a job has it or one of its sequences. */
static void free_if_unused(struct request *r)
{
    struct mailbox *m = &r->core->mail;
    if (r->state != REQUEST_ENDED || r->in_job) return;
    for (uint32_t i = 0; i < r->answers.n; i++)
        if (r->answers.seqs[i]) return;
    pthread_mutex_lock(&m->lock);
    request_list_remove(&r->core->requests, r);
    pthread_mutex_unlock(&m->lock);
    request_free(r);
}

/* The last event of an answer: no event (NULL) for a request that is dropped. */
static void push_last(struct request *r, struct seq *s, struct proto_event *ev, bool last)
{
    struct mailbox *m = &r->core->mail;
    pthread_mutex_lock(&m->lock);
    if (ev && !r->control.silent)
        push(r, s, ev, last, s ? steal(s->end_node) : steal(r->end_node));
    else if (ev)
        proto_event_fini(ev);
    if (last && !r->control.internal) {
        m->load--;
        user_end(&m->users, r->user);
    }
    if (last && r->proto.gen.detach) m->detached--;
    if (last) user_drop(steal(r->user));
    mailbox_kick_locked(m); /* another request may get its blocks or its session */
    pthread_mutex_unlock(&m->lock);
}

void request_end_in_job(struct request *r, struct seq *s, struct proto_event *ev)
{
    bool last = true;
    if (r->in_job) decode_media_stop(r);
    if (r->texts) texts_stop(r);
    if (s) {
        encode_leave(r->core, s);
        core_free_slot(r->core, s);
        s->state = SEQ_ENDED;
        plan_leave(r->core, s);
        plan_part(r->core, s);
        last = --r->answers.left == 0;
    }
    if (ev) ev->more = !last;
    push_last(r, s, ev, last);
    if (last) r->state = REQUEST_ENDED;
    if (s && !s->fetch && !r->in_job) free_answer(r, s);
    free_if_unused(r);
}

void request_end_part(struct request *r, struct seq *s)
{
    release(r, s);
    core_free_slot(r->core, s);
    s->state = SEQ_ENDED;
    plan_leave(r->core, s);
    plan_part(r->core, s);
    free_answer(r, s);
}

void request_end(struct request *r, struct seq *s)
{
    struct proto_event ev = r->end;
    r->end = (struct proto_event){0};
    release(r, s);
    request_end_in_job(r, s, &ev);
}

void request_returned(struct request *r, struct seq *s)
{
    if (s) {
        release(r, s);
        free_answer(r, s);
    } else {
        release(r, NULL);
        for (uint32_t i = 0; i < r->answers.n; i++)
            if ((s = r->answers.seqs[i]) && s->state == SEQ_ENDED && !s->fetch) {
                draft_leave(r->core, s, true);
                reuse_end(&r->core->cache, s);
                free_answer(r, s);
            }
    }
    free_if_unused(r);
}

void request_drop(struct request *r)
{
    uint32_t n = r->answers.n, left = r->answers.left;
    if (n == 0) {
        if (!r->in_job) release(r, NULL);
        if (r->state != REQUEST_ENDED) request_end_in_job(r, NULL, NULL);
        return;
    }
    for (uint32_t i = 0; left && i < n; i++) {
        struct seq *s = r->answers.seqs[i];
        if (!s || s->state == SEQ_ENDED) continue;
        left--; /* with the last one the request may be freed */
        if (!r->in_job && !s->fetch) release(r, s);
        request_end_in_job(r, s, NULL);
    }
}
