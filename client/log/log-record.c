/* SPDX-License-Identifier: MIT */
#include "client/log/log-record.h"
#include "client/options.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static void answers_clear(struct record *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct record_answer *a = &r->answers[i];
        buf_fini(&a->text);
        buf_fini(&a->thinking);
        buf_fini(&a->error);
        tool_calls_fini(&a->calls);
    }
    free(r->answers);
    r->answers = NULL;
    r->n = 0;
}

void record_fini(struct record *r)
{
    if (!r) return;
    answers_clear(r);
    buf_fini(&r->session);
    *r = (struct record){0};
}

void record_follow(struct record *r, const char *after, const char *conversation, size_t old)
{
    if (!r) return;
    strcpy(r->after, after);
    strcpy(r->conversation, *conversation ? conversation : after);
    r->old = old;
    r->whole = false;
}

void record_whole(struct record *r)
{
    if (r) r->whole = true;
}

void record_open(struct record *r, const struct proto_request *q)
{
    struct timespec now;
    if (!r) return;
    if (r->depth++ == 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        r->began_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
        r->began_usec = clock_now_usec();
        r->rounds = 0;
        r->broken = false;
        buf_clear(&r->session);
    } else {
        r->rounds++;
    }
    strcpy(r->uuid, q->gen.uuid);
    answers_clear(r);
    r->end = (struct record_end){0};
}

/* The answer with the index of an event; NULL: no memory, or no valid index. */
static struct record_answer *answer_of(struct record *r, uint32_t index)
{
    if (index >= PROTO_ANSWERS_MAX) return NULL;
    if (index >= r->n) {
        struct record_answer *more = reallocarray(r->answers, index + 1, sizeof(*more));
        if (!more) return NULL;
        memset(more + r->n, 0, (index + 1 - r->n) * sizeof(*more));
        r->answers = more;
        r->n = index + 1;
    }
    return &r->answers[index];
}

/* The event belongs to others, so its texts are copied. */
static int add_call(struct record_answer *a, const struct proto_event *e)
{
    struct proto_event copy = *e;
    const struct proto_call *from = &e->part.call;
    copy.part.call.id = copy.part.call.name = (struct proto_text){0};
    int r = from->id.len ? proto_text_set(&copy.part.call.id, from->id.data, from->id.len) : 0;
    if (r == 0 && from->name.len) r = proto_text_set(&copy.part.call.name, from->name.data, from->name.len);
    if (r == 0) r = tool_calls_add(&a->calls, &copy);
    proto_text_fini(&copy.part.call.id);
    proto_text_fini(&copy.part.call.name);
    return r;
}

static int add_done(struct record *r, struct record_answer *a, const struct proto_event *e)
{
    a->ended = true;
    a->reason = e->reason;
    a->completion = e->usage_completion;
    r->end = (struct record_end){true,        e->usage_prompt, e->usage_cached, e->usage_thinking,
                                 e->queue_ms, e->prefill_ms,   e->decode_ms,    e->ttft_ms,
                                 e->seed};
    buf_clear(&r->session);
    return buf_append(&r->session, e->session.data, e->session.len);
}

void record_event(struct record *r, const struct proto_event *e)
{
    if (!r || !r->depth || r->broken) return;
    bool counts = e->type == PROTO_EV_TEXT || e->type == PROTO_EV_TOOL_CALL || e->type == PROTO_EV_DONE ||
                  e->type == PROTO_EV_ERROR;
    if (!counts) return;
    struct record_answer *a = answer_of(r, e->index);
    int result = a ? 0 : -ENOMEM;
    if (!a)
        ;
    else if (e->type == PROTO_EV_TEXT)
        result = buf_append(proto_is_answer(e) ? &a->text : &a->thinking, e->text.data, e->text.len);
    else if (e->type == PROTO_EV_TOOL_CALL)
        result = add_call(a, e);
    else if (e->type == PROTO_EV_DONE)
        result = add_done(r, a, e);
    else
        result = buf_append(&a->error, e->message.data, e->message.len);
    if (result == -ENOMEM) r->broken = true;
}

void record_close(struct record *r, const struct options *o, const struct proto_request *q, int status)
{
    struct buf line = BUF_INIT;
    if (!r || !r->depth) return;
    if (--r->depth > 0) return;
    int result = r->broken || q->type == PROTO_WARM ? 0 : record_json(&line, r, o, q, status);
    /* The exchanges of a chat get their numbers in order. The writer had the time of an answer. */
    while (r->writer && waitpid(r->writer, NULL, 0) < 0 && errno == EINTR) continue;
    r->writer = 0;
    if (result == 0 && line.len) result = record_send(line.data, line.len, o, &r->writer);
    if (r->broken || result == -ENOMEM) error_say(result = -ENOMEM, "no memory");
    if (result < 0) log_warning("the exchange is not in the log: %s", error_text(result));
    buf_fini(&line);
    answers_clear(r);
    record_follow(r, "", "", 0);
}
