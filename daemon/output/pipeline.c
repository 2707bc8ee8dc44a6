/* SPDX-License-Identifier: MIT */
#include "daemon/output/pipeline.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int output_init(struct output *o, const struct tokenizer *t, const struct output_request *q)
{
    const struct channel_format *format = q->format ? q->format : &channel_plain;
    *o = (struct output){.tokenizer = t, .format = format, .lines = {.most = q->max_lines, .left = q->max_lines}};
    int r = format->new_parser(format, &o->parser);
    if (r == 0) r = stop_init(&o->stop, q->stop, q->n_stop);
    if (r < 0) output_fini(o);
    return r;
}

void output_fini(struct output *o)
{
    if (o->parser) o->parser->ops->free(o->parser);
    stop_fini(&o->stop);
    buf_fini(&o->answer);
    buf_fini(&o->thinking);
    call_list_fini(&o->calls);
    buf_fini(&o->shown);
    *o = (struct output){0};
}

int output_set_format(struct output *o, const struct channel_format *format)
{
    struct channel_parser *p;
    int r = format->new_parser(format, &p);
    if (r < 0) return r;
    o->parser->ops->free(o->parser);
    o->parser = p;
    o->format = format;
    return 0;
}

int output_clone(struct output *to, const struct output *from)
{
    *to = (struct output){.tokenizer = from->tokenizer,
                          .format = from->format,
                          .detok = from->detok,
                          .lines = from->lines,
                          .held = from->held,
                          .call_seed = from->call_seed,
                          .thought = from->thought};
    int r = from->parser ? from->parser->ops->clone(from->parser, &to->parser) : 0;
    if (r < 0) to->parser = NULL;
    if (r == 0) r = stop_clone(&to->stop, &from->stop);
    if (r == 0 && from->answer.len) r = buf_append(&to->answer, from->answer.data, from->answer.len);
    if (r == 0 && from->thinking.len) r = buf_append(&to->thinking, from->thinking.data, from->thinking.len);
    if (r == 0) r = call_list_clone(&to->calls, &from->calls);
    if (r < 0) output_fini(to);
    return r;
}

int output_clone_start(struct output *to, const struct output *from)
{
    const struct output_request q = {
        .stop = from->stop.strings, .n_stop = from->stop.n, .max_lines = from->lines.most, .format = from->format};
    int r = output_init(to, from->tokenizer, &q);
    to->call_seed = from->call_seed;
    return r;
}

/* --- events --- */

void output_step_clear(struct output_step *out)
{
    for (size_t i = 0; i < out->n; i++) {
        buf_fini(&out->events[i].text);
        buf_fini(&out->events[i].call.name);
        buf_fini(&out->events[i].call.id);
    }
    out->n = out->pending = 0;
    out->channel = out->warning = NULL;
    out->markup = false;
    buf_clear(&out->tail);
    buf_clear(&out->text);
}

void output_step_fini(struct output_step *out)
{
    output_step_clear(out);
    free(out->events);
    buf_fini(&out->tail);
    buf_fini(&out->text);
    *out = (struct output_step){0};
}

/* NULL without memory. */
static struct output_event *new_event(struct output_step *out, const char *channel)
{
    if (out->n == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 2;
        struct output_event *events = reallocarray(out->events, cap, sizeof(*events));
        if (!events) return NULL;
        out->events = events;
        out->cap = cap;
    }
    out->events[out->n] = (struct output_event){.channel = channel};
    return &out->events[out->n++];
}

/* The last event if it is of @channel, otherwise a new one. NULL without memory. */
static struct output_event *event_of(struct output_step *out, const char *channel)
{
    if (out->n && strcmp(out->events[out->n - 1].channel, channel) == 0) return &out->events[out->n - 1];
    return new_event(out, channel);
}

/* --- the stages behind the parser --- */

/* The text in o->shown leaves the pipeline. 0; 1: it ends the last line; -ENOMEM. */
static int show(struct output *o, struct output_step *out)
{
    bool last = line_limit_cut(&o->lines, &o->shown, 0);
    if (o->shown.len) {
        struct output_event *e = event_of(out, o->held);
        if (!e || buf_append(&e->text, o->shown.data, o->shown.len) < 0) return -ENOMEM;
        struct buf *all = strcmp(o->held, CHANNEL_ANSWER) == 0     ? &o->answer
                          : strcmp(o->held, CHANNEL_THINKING) == 0 ? &o->thinking
                                                                   : NULL;
        if (all && buf_append(all, o->shown.data, o->shown.len) < 0) return -ENOMEM;
    }
    return last;
}

/* The part ends: no stop string can begin in the held text any more. */
static int show_held(struct output *o, struct output_step *out)
{
    buf_clear(&o->shown);
    int r = stop_flush(&o->stop, &o->shown);
    return r < 0 ? r : show(o, out);
}

struct sink {
    struct channel_sink base;
    struct output *o;
    struct output_step *out;
};

static int sink_text(struct channel_sink *base, const char *channel, const char *text, size_t len)
{
    struct sink *s = (struct sink *)base;
    struct output *o = s->o;
    if (o->held && strcmp(o->held, channel) != 0) {
        int r = show_held(o, s->out);
        if (r != 0) return r;
    }
    o->held = channel;
    buf_clear(&o->shown);
    int stopped = stop_feed(&o->stop, text, len, &o->shown);
    if (stopped < 0) return stopped;
    int r = show(o, s->out);
    return r != 0 ? r : stopped;
}

/* Stop strings and the line limit are for text: the steps of calls pass by them. */
static int sink_call(struct channel_sink *base, const struct channel_call *call)
{
    struct sink *s = (struct sink *)base;
    int r = s->o->held ? show_held(s->o, s->out) : 0;
    if (r != 0) return r;
    s->o->held = NULL;
    char made[CALL_ID_BYTES + 1];
    const char *id = call->id ? call->id : made;
    call_id_make(made, s->o->call_seed, call->index);
    if (call_list_add(&s->o->calls, call, id) < 0) return -ENOMEM;
    struct output_event *e = new_event(s->out, CHANNEL_TOOL_CALL);
    if (!e) return -ENOMEM;
    e->call.step = call->step;
    e->call.index = call->index;
    if (call->step == CALL_BEGINS && (buf_puts(&e->call.name, call->name) < 0 || buf_puts(&e->call.id, id) < 0))
        return -ENOMEM;
    return call->len ? buf_append(&e->text, call->text, call->len) : 0;
}

static int sink_warn(struct channel_sink *base, const char *warning)
{
    ((struct sink *)base)->out->warning = warning;
    return 0;
}

static struct sink sink_of(struct output *o, struct output_step *out)
{
    return (struct sink){{sink_text, sink_call, sink_warn}, o, out};
}

/* --- tokens --- */

static int parse(struct output *o, const char *text, size_t len, struct output_step *out)
{
    struct sink s = sink_of(o, out);
    return len ? o->parser->ops->text(o->parser, text, len, &s.base) : 0;
}

/* An incomplete character that no token will complete is shown as U+FFFD. */
static int show_partial(struct output *o, struct output_step *out)
{
    size_t from = out->tail.len;
    if (o->detok.n_pending == 0) return 0;
    int r = detok_flush(&o->detok, &out->tail);
    return r < 0 ? r : parse(o, out->tail.data + from, out->tail.len - from, out);
}

/* The answer, or a part of it, ends. 1: its last character made a stop string or ended the last line. */
static int show_rest(struct output *o, struct output_step *out)
{
    struct sink s = sink_of(o, out);
    int r = show_partial(o, out);
    if (r == 0 && o->parser->ops->finish) r = o->parser->ops->finish(o->parser, &s.base);
    return r == 0 ? show_held(o, out) : r;
}

int output_finish(struct output *o, struct output_step *out)
{
    int r = show_rest(o, out);
    return r < 0 ? r : 0;
}

/* A control token has raw text, but none to be shown. 1: text that waited for it ends the answer. */
static int push_control(struct output *o, int32_t id, struct output_step *out)
{
    size_t len;
    const char *piece = tokenizer_piece(o->tokenizer, id, &len);
    struct sink s = sink_of(o, out);
    out->markup = true;
    if (buf_append(&out->text, piece, len) < 0) return -ENOMEM;
    return o->parser->ops->control(o->parser, piece, len, &s.base);
}

static int push_text(struct output *o, int32_t id, struct output_step *out)
{
    int r = detok_push(&o->detok, o->tokenizer, id, &out->text);
    out->pending = o->detok.n_pending;
    return r < 0 ? r : parse(o, out->text.data, out->text.len, out);
}

int output_push(struct output *o, int32_t id, struct output_step *out)
{
    const struct channel_parser_ops *ops = o->parser->ops;
    bool ends = tokenizer_is_eog(o->tokenizer, id);
    int r;
    out->channel = ops->channel(o->parser); /* a control token changes the channel of the text after it */
    o->thought += strcmp(out->channel, CHANNEL_THINKING) == 0;
    if (!ends && !tokenizer_is_control(o->tokenizer, id)) return push_text(o, id, out);
    r = ends || ops->ends_part(o->parser) ? show_rest(o, out) : show_partial(o, out);
    if (r < 0) return r;
    int marked = push_control(o, id, out);
    return marked < 0 ? marked : r || marked || ends;
}
