/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-job.h"
#include "client/json.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define JOB_FRAME_HEADER 4 /* bytes of the length of a body, see libcommon/frame.h */

struct batch_job *batch_job_new(uint64_t number)
{
    struct batch_job *j = calloc(1, sizeof(*j));
    if (j) j->number = number;
    return j;
}

static void forget_answer(struct batch_job *j)
{
    answer_parts_fini(&j->answer.parts);
    buf_fini(&j->answer.ids);
    buf_fini(&j->answer.logprobs);
    buf_fini(&j->answer.warnings);
    j->answer.tokens = 0;
    buf_fini(&j->message);
    proto_event_fini(&j->done);
    j->done = (struct proto_event){0};
    j->code = 0;
}

struct batch_job *batch_job_free(struct batch_job *j)
{
    if (!j) return NULL;
    forget_answer(j);
    batch_line_fini(&j->line);
    buf_fini(&j->frame);
    free(j->name);
    free(j);
    return NULL;
}

void batch_queue_push(struct batch_queue *q, struct batch_job *j)
{
    j->next = NULL;
    j->previous = q->last;
    if (q->last)
        q->last->next = j;
    else
        q->first = j;
    q->last = j;
    q->n++;
    q->bytes += j->frame.len;
}

void batch_queue_remove(struct batch_queue *q, struct batch_job *j)
{
    *(j->previous ? &j->previous->next : &q->first) = j->next;
    *(j->next ? &j->next->previous : &q->last) = j->previous;
    q->n--;
    q->bytes -= j->frame.len;
}

void batch_queue_fini(struct batch_queue *q)
{
    while (q->first) {
        struct batch_job *j = q->first;
        batch_queue_remove(q, j);
        batch_job_free(j);
    }
}

/* Read the frame as the daemon will: a connection on which many messages are invalid is closed by it. */
static int check_frame(const struct buf *frame)
{
    struct proto_request copy;
    int r = proto_read_request(&copy, frame->data + JOB_FRAME_HEADER, frame->len - JOB_FRAME_HEADER);
    if (r == 0) proto_request_fini(&copy);
    return r;
}

int batch_job_frame(struct batch_job *j, uint64_t id)
{
    struct proto_request *r = &j->line.request;
    r->id = j->request_id = id;
    j->patient = r->gen.timeout_ms < 0;
    int e = proto_write_request(&j->frame, r);
    proto_request_fini(r);
    return e == 0 ? check_frame(&j->frame) : e;
}

void batch_job_fail(struct batch_job *j, int r)
{
    const char *why = error_text(r);
    j->state = BATCH_FAILED;
    j->code = -r;
    buf_clear(&j->message);
    (void)buf_puts(&j->message, why); /* without memory the code has to be enough */
}

void batch_job_again(struct batch_job *j)
{
    forget_answer(j);
    j->state = BATCH_WAITING;
}

/* Append @e's ids and logprobs. */
static int add_ids(struct batch_job *j, const struct proto_event *e)
{
    int r = 0;
    for (size_t i = 0; r == 0 && e->tokens.logprobs && i < e->tokens.n; i++) {
        if (j->answer.ids.len) r = buf_puts(&j->answer.ids, ",");
        if (r == 0) r = buf_printf(&j->answer.ids, "%" PRId32, e->tokens.ids[i]);
        if (r == 0 && j->answer.logprobs.len) r = buf_puts(&j->answer.logprobs, ",");
        if (r == 0) r = json_put_float(&j->answer.logprobs, e->tokens.logprobs[i]);
    }
    return r;
}

static int add_warning(struct buf *out, const struct proto_event *e)
{
    int r = out->len ? buf_puts(out, ",") : 0;
    return r == 0 ? json_put_string(out, e->message.data ? e->message.data : "", e->message.len) : r;
}

static int fail(struct batch_job *j, const struct proto_event *e)
{
    const char *why = e->message.len ? e->message.data : strerror(e->code);
    j->state = BATCH_FAILED;
    j->code = e->code;
    buf_clear(&j->message);
    return buf_puts(&j->message, why);
}

int batch_job_event(struct batch_job *j, struct proto_event *e)
{
    struct answer_parts *parts = &j->answer.parts;
    int r;
    switch (e->type) {
    case PROTO_EV_TEXT:
        j->answer.tokens++;
        r = e->text.len ? buf_append(proto_is_answer(e) ? &parts->text : &parts->thinking, e->text.data, e->text.len)
                        : 0;
        return r == 0 ? add_ids(j, e) : r;
    case PROTO_EV_TOOL_CALL:
        return tool_calls_add(&parts->calls, e);
    case PROTO_EV_WARNING:
        return add_warning(&j->answer.warnings, e);
    case PROTO_EV_DONE:
        j->state = BATCH_ANSWERED;
        j->done = *e;
        *e = (struct proto_event){0};
        return 0;
    case PROTO_EV_ERROR:
        return fail(j, e);
    default:
        return 0;
    }
}
