/* SPDX-License-Identifier: MIT */
/* Writing the payload of a turn record. */
#include "daemon/session/record-bytes.h"
#include "daemon/session/record-media.h"
#include "daemon/session/record.h"
#include "libcommon/error.h"
#include <string.h>
#include <xxhash.h>

/* Of these, an older hobd does not know. */
enum { NEWER = SESSION_RECORD_PARTS | SESSION_RECORD_NOTE | SESSION_RECORD_THOUGHT | SESSION_RECORD_ADAPTER };

#define RECORD_MAX ((size_t)1 << 30) /* bytes of a payload */

static int put_ids(struct buf *b, const struct session *x, size_t from, size_t text)
{
    size_t n = x->content.n_ids - from;
    int r = record_put(b, n);
    for (size_t i = from; r == 0 && i < x->content.n_ids; i++) r = record_put(b, (uint32_t)x->content.ids[i]);
    for (size_t i = from, last = text; r == 0 && i < x->content.n_ids; last = x->content.ends[i++])
        r = record_put(b, x->content.ends[i] - last);
    return r;
}

/* The runs behind the first @from ids are the last ones; returns their number. */
static size_t new_runs(const struct session *x, size_t from)
{
    const struct session_content *c = &x->content;
    size_t n = 0;
    while (n < c->n_runs && c->runs[c->n_runs - 1 - n].at >= from) n++;
    return n;
}

static int put_runs(struct buf *b, const struct session *x, size_t from)
{
    const struct session_content *c = &x->content;
    size_t n = new_runs(x, from);
    if (n == 0) return 0; /* a record of tokens alone */
    int r = record_put(b, n);
    for (const struct item_run *run = c->runs + c->n_runs - n; r == 0 && run < c->runs + c->n_runs; run++) {
        r = record_put(b, run->at - from);
        if (r == 0) r = record_put(b, run->n);
        if (r == 0) r = record_put(b, run->kind | (uint32_t)run->columns << 16);
        if (r == 0) r = buf_append(b, run->digest, sizeof(run->digest));
        from = run->at + run->n;
    }
    return r;
}

/* Length of the run of flags equal to @flag at @at. */
static size_t run(const struct buf *m, size_t at, bool flag)
{
    size_t i = at;
    while (i < m->len && (m->data[i] != 0) == flag) i++;
    return i - at;
}

static int put_markup(struct buf *b, const struct buf *m)
{
    uint64_t n = 0;
    bool flag = false;
    for (size_t at = 0; at < m->len; n++, flag = !flag) at += run(m, at, flag);
    int r = record_put(b, n);
    flag = false;
    for (size_t at = 0; r == 0 && at < m->len; flag = !flag) {
        size_t len = run(m, at, flag);
        r = record_put(b, len);
        at += len;
    }
    return r;
}

static int put_messages(struct buf *b, const struct session *x, size_t from)
{
    int r = record_put(b, x->content.n_messages - from);
    for (size_t i = from; r == 0 && i < x->content.n_messages; i++) {
        const struct proto_message *m = &x->content.messages[i];
        r = record_put_bytes(b, m->role.data, m->role.len);
        if (r == 0) r = record_put_bytes(b, m->content.data, m->content.len);
    }
    return r;
}

static bool has_parts(const struct proto_message *m)
{
    return m->thinking.len || m->n_calls || m->call_id.len || m->name.len;
}

static int put_text(struct buf *b, const struct proto_text *t)
{
    return record_put_bytes(b, t->data ? t->data : "", t->len);
}

static int put_message_parts(struct buf *b, const struct proto_message *m)
{
    int r = put_text(b, &m->thinking);
    if (r == 0) r = put_text(b, &m->call_id);
    if (r == 0) r = put_text(b, &m->name);
    if (r == 0) r = record_put(b, m->n_calls);
    for (size_t i = 0; r == 0 && i < m->n_calls; i++) {
        r = put_text(b, &m->calls[i].id);
        if (r == 0) r = put_text(b, &m->calls[i].name);
        if (r == 0) r = put_text(b, &m->calls[i].arguments);
    }
    return r;
}

/* Of the messages from @from on, and of the last @outcomes ones: has one of them what older records cannot hold? */
static bool needs_parts(const struct session *x, size_t from, size_t outcomes)
{
    const struct session_content *c = &x->content;
    for (size_t i = from; i < c->n_messages; i++)
        if (has_parts(&c->messages[i])) return true;
    for (size_t i = c->n_outcomes - outcomes; i < c->n_outcomes; i++)
        if (c->outcomes[i].reason > PROTO_STOP_CONTEXT) return true;
    return false;
}

static int put_parts(struct buf *b, const struct session *x, size_t from)
{
    const struct session_content *c = &x->content;
    size_t n = 0;
    for (size_t i = from; i < c->n_messages; i++) n += has_parts(&c->messages[i]);
    int r = record_put(b, n);
    for (size_t i = from, next = from; r == 0 && i < c->n_messages; i++) {
        if (!has_parts(&c->messages[i])) continue;
        r = record_put(b, i - next);
        next = i + 1;
        if (r == 0) r = put_message_parts(b, &c->messages[i]);
    }
    return r;
}

static int put_outcome(struct buf *b, const struct session_outcome *o)
{
    uint8_t reason = (uint8_t)o->reason;
    int r = record_put_bytes(b, o->uuid, strlen(o->uuid));
    if (r == 0) r = buf_append(b, &reason, 1);
    if (r == 0) r = record_put(b, o->usage_prompt);
    if (r == 0) r = record_put(b, o->usage_cached);
    if (r == 0) r = record_put(b, o->usage_completion);
    if (r == 0) r = record_put(b, o->shifted);
    if (r == 0) r = record_put_u64(b, (uint64_t)o->miss_at);
    if (r == 0) r = record_put_u64(b, (uint64_t)o->seed);
    return r < 0 ? r : record_put_bytes(b, o->answer.data, o->answer.len);
}

static int put_outcomes(struct buf *b, const struct session *x, size_t n)
{
    int r = record_put(b, n);
    for (size_t i = x->content.n_outcomes - n; r == 0 && i < x->content.n_outcomes; i++)
        r = put_outcome(b, &x->content.outcomes[i]);
    return r;
}

/* The tokens of thinking of the last @n outcomes. */
static int put_thought(struct buf *b, const struct session *x, size_t n)
{
    int r = 0;
    for (size_t i = x->content.n_outcomes - n; r == 0 && i < x->content.n_outcomes; i++)
        r = record_put(b, x->content.outcomes[i].usage_thinking);
    return r;
}

static bool has_thought(const struct session_content *c, size_t n)
{
    for (size_t i = c->n_outcomes - n; i < c->n_outcomes; i++)
        if (c->outcomes[i].usage_thinking) return true;
    return false;
}

/* Of a record with the messages from @from on, and the last @outcomes outcomes. */
static uint8_t flags_of(const struct session *x, size_t from, size_t outcomes)
{
    const struct session_content *c = &x->content;
    return (uint8_t)((c->raw ? SESSION_RECORD_RAW : 0) | (c->failed.len ? SESSION_RECORD_FAILED : 0) |
                     (needs_parts(x, from, outcomes) ? SESSION_RECORD_PARTS : 0) |
                     (c->note.len ? SESSION_RECORD_NOTE : 0) | (has_thought(c, outcomes) ? SESSION_RECORD_THOUGHT : 0) |
                     (record_media_count(x, from) ? SESSION_RECORD_MEDIA : 0) |
                     (c->adapter.len ? SESSION_RECORD_ADAPTER : 0));
}

int session_summary_write(struct buf *b, const struct session_summary *s)
{
    int r = record_put_u64(b, s->used);
    if (r == 0) r = record_put_u64(b, s->bytes);
    if (r == 0) r = record_put_u64(b, (uint64_t)s->messages << 32 | s->ids);
    return r < 0 ? r : record_put_u64(b, XXH3_64bits(b->data + b->len - 24, 24));
}

static int put_summary(struct buf *b, const struct session *x)
{
    const struct session_summary s = {.used = x->last_use.realtime,
                                      .bytes = x->charged.memory,
                                      .ids = (uint32_t)x->content.n_ids,
                                      .messages = (uint32_t)x->content.n_messages};
    return session_summary_write(b, &s);
}

int session_record_write(struct buf *out, const struct session *x, bool all)
{
    size_t ids = all ? 0 : x->log.ids, text = all ? 0 : x->log.text, messages = all ? 0 : x->log.messages;
    size_t before = out->len, outcomes = all ? x->content.n_outcomes : x->log.new_outcomes;
    uint8_t flags = flags_of(x, messages, outcomes), first[2] = {flags, (uint8_t)x->content.context};
    int r = buf_append(out, first, sizeof(first));
    if (r == 0) r = buf_append(out, x->content.model, sizeof(x->content.model));
    if (r == 0) r = record_put(out, ids);
    if (r == 0) r = record_put(out, text);
    if (r == 0) r = record_put(out, messages);
    if (r == 0) r = put_ids(out, x, ids, text);
    if (r == 0) r = put_runs(out, x, ids);
    if (r == 0)
        r = record_put_bytes(out, x->content.text.data ? x->content.text.data + text : "", x->content.text.len - text);
    if (r == 0) r = put_markup(out, &x->content.markup);
    if (r == 0) r = put_messages(out, x, messages);
    if (r == 0 && flags & SESSION_RECORD_PARTS) r = put_parts(out, x, messages);
    if (r == 0 && flags & SESSION_RECORD_MEDIA) r = record_put_media(out, x, messages);
    if (r == 0) r = put_outcomes(out, x, outcomes);
    if (r == 0 && x->content.failed.len) r = record_put_bytes(out, x->content.failed.data, x->content.failed.len);
    if (r == 0 && x->content.note.len) r = record_put_bytes(out, x->content.note.data, x->content.note.len);
    if (r == 0 && flags & SESSION_RECORD_THOUGHT) r = put_thought(out, x, outcomes);
    if (r == 0 && x->content.adapter.len) r = record_put_bytes(out, x->content.adapter.data, x->content.adapter.len);
    if (r == 0) r = put_summary(out, x);
    if (r < 0) return r;
    if (out->len - before > RECORD_MAX)
        return error_say(-E2BIG, "a turn of %zu bytes does not fit into a record of the log", out->len - before);
    return (new_runs(x, ids) ? SESSION_RECORD_HAS_RUNS : 0) | (flags & NEWER ? SESSION_RECORD_HAS_PARTS : 0) |
           (flags & SESSION_RECORD_MEDIA ? SESSION_RECORD_HAS_MEDIA : 0);
}
