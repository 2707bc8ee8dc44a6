/* SPDX-License-Identifier: MIT */
#include "daemon/request/finish.h"
#include "daemon/request/draft.h"
#include "daemon/request/emit.h"
#include "daemon/request/encode-media.h"
#include "daemon/request/request-job.h"
#include "daemon/request/texts.h"
#include "daemon/request/turn.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include <string.h>

/* Show the text that a stop string might have begun with. */
static void show_held(struct request *r, struct seq *s)
{
    if (!s || s->generated == 0) return;
    struct output_step out = {0};
    if (seq_cut(s, &out) == 0) emit_output(r, s, &out, NULL);
    output_step_fini(&out);
}

/* End with @ev. @keep: the session keeps the text so far. A job that still waits is removed from the queue, so that no
 * user is charged for it; the memory that a running job uses is freed when the job returns. */
static void end(struct request *r, struct seq *s, bool keep, struct proto_event *ev)
{
    if (r->texts) s = NULL; /* none of its sequences ends it alone */
    if (s) encode_leave(r->core, s);
    if (!request_recall(r, s)) {
        request_end_in_job(r, s, ev);
        return;
    }
    proto_event_fini(&r->end); /* an answer that a job has begun */
    r->end = *ev;
    *ev = (struct proto_event){0};
    if (s && r->turn.session && keep && s->generated && turn_keep(r)) return;
    if (turn_note_failure(r)) return;
    request_end(r, s);
}

void answer_fail(struct request *r, struct seq *s, int error, const char *why)
{
    struct proto_event ev = {.type = PROTO_EV_ERROR, .code = -error};
    (void)!proto_text_set(&ev.message, why, strlen(why)); /* without memory the code says it */
    show_held(r, s);
    end(r, s, s && s->output.answer.len > 0, &ev);
}

/* Milliseconds between two times, without @less us of them; 0: one of them is not known. */
static double ms(uint64_t from, uint64_t to, uint64_t less)
{
    return from && to > from + less ? (double)(to - from - less) / 1000 : 0;
}

static void set_usage(struct proto_event *ev, const struct request *r, const struct seq *s, uint64_t now)
{
    const struct seq_times *t = &s->times;
    ev->usage_prompt = s->n_prompt;
    ev->usage_cached = s->cached;
    ev->usage_completion = s->generated;
    ev->usage_thinking = s->output.thought;
    ev->usage_drafted = s->speculation.drafted;
    ev->usage_accepted = s->speculation.accepted;
    ev->usage_drafted_model = s->speculation.drafted_model;
    ev->queue_ms = ms(r->submitted, t->admitted ? t->admitted : now, 0) + (double)(t->waited[0] + t->waited[1]) / 1000;
    ev->prefill_ms = ms(t->admitted, t->first_token ? t->first_token : now, t->waited[0]);
    ev->decode_ms = ms(t->first_token, now, t->waited[1]);
    ev->ttft_ms = ms(r->submitted, t->first_token, 0);
    ev->cut.shifted = s->context.shifted;
    ev->seed = (int64_t)s->sampling.seed;
    if (s->n_prompt == 0) return; /* a job may still have the prompt */
    encode_usage(ev, r, s);
    ev->miss_at = s->prompt.miss_at;
    ev->cut.prefix = s->prompt.cut_prefix;
    ev->cut.suffix = s->prompt.cut_suffix;
}

void answer_done(struct request *r, struct seq *s, enum proto_reason reason)
{
    uint64_t now = clock_now_usec();
    const struct session *x = r->turn.session;
    struct proto_event ev = {.type = PROTO_EV_DONE, .reason = reason, .miss_at = -1};
    if (reason == PROTO_STOP_EOS && s && call_list_whole(&s->output.calls)) ev.reason = PROTO_STOP_TOOL_CALLS;
    if (s) seq_resumed(s, now);
    if (reason == PROTO_STOP_CANCEL) show_held(r, s);
    if (s) {
        set_usage(&ev, r, s, now);
        energy_done(&r->core->energy, &r->core->seqs, s, now, &ev);
    } else {
        if (r->texts) texts_usage(r, &ev);
        ev.queue_ms = ms(r->submitted, now, 0);
    }
    if (x) (void)!proto_text_set(&ev.session, session_name(x)->data, session_name(x)->len);
    bool keep = s && (reason != PROTO_STOP_CANCEL || s->output.answer.len > 0);
    end(r, s, keep && r->proto.type == PROTO_GENERATE, &ev);
}

void answer_preempt(struct seq *s)
{
    struct core *core = s->request->core;
    draft_leave(core, s, false);
    s->reuse.tail = reuse_end(&core->cache, s);
    core_free_slot(core, s);
    free(steal(s->held)); /* its last token is computed again */
    s->state = SEQ_WAITING;
    seq_preempted(s, clock_now_usec());
    encode_wait(core, s);
    if (s->generated) plan_part(core, s); /* no other waits for its prompt, and its context may have been shifted */
    plan_wait(core, s);
}
