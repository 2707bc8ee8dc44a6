/* SPDX-License-Identifier: MIT */
#include "client/choices.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdlib.h>

int choices_init(struct choices *s, struct answer *a)
{
    *s = (struct choices){.answer = a, .n = a->opt->n > 1 ? (uint32_t)a->opt->n : 1};
    if (a->opt->warm) s->n = 1;
    if (s->n == 1) return 0;
    s->parts = calloc(s->n, sizeof(*s->parts));
    return s->parts ? 0 : error_say(-ENOMEM, "no memory for %" PRIu32 " answers", s->n);
}

void choices_fini(struct choices *s)
{
    for (uint32_t i = 0; s->parts && i < s->n; i++) {
        answer_parts_fini(&s->parts[i].parts);
        proto_event_fini(&s->parts[i].end);
    }
    free(s->parts);
    *s = (struct choices){0};
}

static bool choices_is_end(const struct proto_event *e)
{
    return e->type == PROTO_EV_DONE || e->type == PROTO_EV_ERROR;
}

/* Like answer_event. A done or error event ends all answers only when @last. */
static int choices_print(struct choices *s, struct proto_event *e, bool last)
{
    struct answer *a = s->answer;
    a->more = !last;
    int r = answer_event(a, e);
    if (r <= 0) return r;
    if (e->type == PROTO_EV_DONE) answer_add(a, e);
    if (s->status == 0) s->status = a->status;
    a->status = s->status;
    a->spoke = a->thought = false;
    return last;
}

/* --- as text --- */

static int choices_head(struct choices *s)
{
    struct answer *a = s->answer;
    int r = 0;
    if (s->headed) return 0;
    s->headed = true;
    answer_parts_fini(&a->parts);
    a->parts.calls = s->parts[s->at].parts.calls;
    s->parts[s->at].parts.calls = (struct tool_calls){0};
    a->last = '\n';
    a->render = (struct render){0};
    buf_clear(&a->line);
    r = buf_printf(&a->line, "%s==> %" PRIu32 " of %" PRIu32 " <==\n", s->at ? "\n" : "", s->at + 1, s->n);
    return r < 0 ? error_say(r, "no memory for the answer") : output_write(a->out, a->line.data, a->line.len);
}

/* End the answer that is printed now. @last: it is the last one. */
static int choices_finish(struct choices *s, struct proto_event *e, bool last)
{
    struct answer *a = s->answer;
    /* No newline is added to the end of a raw answer, but a heading starts on a new line. */
    bool newline = !last && a->last != '\n' && a->opt->raw && !a->out->tty && e->type == PROTO_EV_DONE;
    int r = newline ? output_write(a->out, "\n", 1) : 0;

    if (r == 0) r = choices_print(s, e, last);
    s->at++;
    s->headed = false;
    return r;
}

static int choices_text(struct choices *s, const char *channel, struct buf *text)
{
    struct proto_event e = {.type = PROTO_EV_TEXT, .index = s->at, .channel = channel, .text = {text->data, text->len}};
    int r = text->len ? answer_event(s->answer, &e) : 0;
    buf_clear(text);
    return r;
}

/* Print the buffered text of the answers that follow. */
static int choices_catch_up(struct choices *s)
{
    int r = 0;
    while (r == 0 && s->at < s->n) {
        struct choice *p = &s->parts[s->at];
        if (!p->ended && !p->parts.text.len && !p->parts.thinking.len) break;
        r = choices_head(s);
        if (r == 0) r = choices_text(s, "thinking", &p->parts.thinking);
        if (r == 0) r = choices_text(s, "answer", &p->parts.text);
        if (r != 0 || !p->ended) break;
        r = choices_finish(s, &p->end, s->at + 1 == s->n);
    }
    return r;
}

static int choices_keep(struct choice *p, struct proto_event *e)
{
    if (choices_is_end(e)) {
        p->ended = true;
        proto_event_fini(&p->end); /* if the daemon ends the same answer twice */
        p->end = *e;
        *e = (struct proto_event){0};
        return 0;
    }
    int r = 0;
    if (e->type == PROTO_EV_TOOL_CALL) r = tool_calls_add(&p->parts.calls, e);
    if (e->type == PROTO_EV_TEXT && e->text.len)
        r = buf_append(proto_is_answer(e) ? &p->parts.text : &p->parts.thinking, e->text.data, e->text.len);
    return r == -ENOMEM ? error_say(r, "no memory for the answers that wait") : r;
}

static int choices_show(struct choices *s, struct proto_event *e)
{
    bool end = choices_is_end(e);
    if (e->type != PROTO_EV_TEXT && e->type != PROTO_EV_TOOL_CALL && !end) return answer_event(s->answer, e);
    if (e->index != s->at) return choices_keep(&s->parts[e->index], e);
    int r = choices_head(s);
    if (r < 0) return r;
    if (!end) return answer_event(s->answer, e);
    r = choices_finish(s, e, s->at + 1 == s->n);
    return r == 0 ? choices_catch_up(s) : r;
}

/* --- as lines of JSON --- */

/* Like answer_event: append to the text of this answer, and print the text at its end. */
static int choices_print_json(struct choices *s, struct proto_event *e)
{
    struct answer *a = s->answer;
    struct choice *p = &s->parts[e->index];
    struct answer_parts parts = a->parts;
    a->parts = p->parts;
    int r = choices_is_end(e) ? choices_print(s, e, !e->more) : answer_event(a, e);
    p->parts = a->parts;
    p->ended |= choices_is_end(e);
    a->parts = parts;
    return r;
}

int choices_event(struct choices *s, struct proto_event *e)
{
    struct answer *a = s->answer;
    bool none = true;
    if (!s->parts) return answer_event(a, e);
    if (e->index >= s->n)
        return answer_fail(a, error_say(-EPROTO, "the daemon sent an answer with an unknown index"), 1);
    /* A single done or error event before any answer ended, or the end of the connection, ends all answers. */
    for (uint32_t i = 0; i < s->n; i++) none &= !s->parts[i].ended;
    if (choices_is_end(e) && !e->more && ((none && s->at == 0) || e->id == 0)) return answer_event(a, e);
    return a->opt->jsonl ? choices_print_json(s, e) : choices_show(s, e);
}
