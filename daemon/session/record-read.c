/* SPDX-License-Identifier: MIT */
/* Reading and applying the payload of a turn record. */
#include "daemon/session/record-bytes.h"
#include "daemon/session/record-media.h"
#include "daemon/session/record.h"
#include "libcommon/cleanup.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    FLAGS = SESSION_RECORD_RAW | SESSION_RECORD_FAILED | SESSION_RECORD_PARTS | SESSION_RECORD_NOTE |
            SESSION_RECORD_THOUGHT | SESSION_RECORD_MEDIA | SESSION_RECORD_ADAPTER
};

struct turn_ids {
    int32_t *ids;          /* [n] */
    uint32_t *ends;        /* [n] */
    struct item_run *runs; /* [n_runs] with positions in @ids */
    size_t n, n_runs;
};

static void turn_ids_fini(struct turn_ids *t)
{
    free(t->ids);
    free(t->ends);
    free(t->runs);
}

static int get_ids(struct record_cursor *c, struct turn_ids *t, uint64_t text)
{
    t->n = record_count(c, 2);
    t->ids = calloc(t->n ? t->n : 1, sizeof(*t->ids));
    t->ends = calloc(t->n ? t->n : 1, sizeof(*t->ends));
    if (!t->ids || !t->ends) return -ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        uint64_t v = record_number(c);
        if (v > UINT32_MAX) return -EBADMSG;
        t->ids[i] = (int32_t)(uint32_t)v;
    }
    for (size_t i = 0; i < t->n; i++) {
        uint64_t v = record_number(c);
        if (v > UINT32_MAX - text) return -EBADMSG;
        text += v;
        t->ends[i] = (uint32_t)text;
    }
    return c->bad ? -EBADMSG : 0;
}

static struct items items_of(const struct turn_ids *t)
{
    return (struct items){.ids = t->ids, .n = (uint32_t)t->n, .runs = t->runs, .n_runs = (uint32_t)t->n_runs};
}

/* The runs among the ids, which are complete. @with: the record has some. */
static int get_runs(struct record_cursor *c, struct turn_ids *t, bool with)
{
    uint64_t at = 0;
    t->n_runs = with ? record_count(c, 3 + sizeof(t->runs->digest)) : 0;
    if (t->n_runs && !(t->runs = calloc(t->n_runs, sizeof(*t->runs)))) return -ENOMEM;
    for (size_t i = 0; i < t->n_runs; i++) {
        uint64_t skip = record_number(c), n = record_number(c), kind = record_number(c);
        const uint8_t *digest = record_fixed(c, sizeof(t->runs->digest));
        if (!digest || skip > t->n - at || n == 0 || n > t->n - at - skip || kind > UINT32_MAX) return -EBADMSG;
        at += skip;
        t->runs[i] = (struct item_run){.at = (uint32_t)at, .n = (uint32_t)n, .kind = (uint16_t)kind};
        t->runs[i].columns = (uint16_t)(kind >> 16);
        memcpy(t->runs[i].digest, digest, sizeof(t->runs->digest));
        at += n;
        if (t->ends[t->runs[i].at] != t->ends[at - 1]) return -EBADMSG;
    }
    const struct items items = items_of(t);
    return t->n > UINT32_MAX || with != (t->n_runs > 0) || !items_check(&items) ? -EBADMSG : 0;
}

/* The flags of the whole text. */
static int get_markup(struct record_cursor *c, struct session *x)
{
    size_t n = record_count(c, 1), at = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t len = record_number(c);
        if (len > x->content.markup.len - at) return -EBADMSG;
        memset(x->content.markup.data + at, i & 1, (size_t)len);
        at += (size_t)len;
    }
    return c->bad || at != x->content.markup.len ? -EBADMSG : 0;
}

static int apply_text(struct record_cursor *c, struct session *x, bool runs)
{
    uint64_t ids = record_number(c), text = record_number(c), messages = record_number(c);
    _cleanup_(turn_ids_fini) struct turn_ids t = {0};
    if (c->bad || ids > x->content.n_ids || text > x->content.text.len || messages > x->content.n_messages)
        return -EBADMSG;
    if ((ids && x->content.ends[ids - 1] > text) || session_cuts_run(&x->content, ids)) return -EBADMSG;
    int r = get_ids(c, &t, text);
    if (r == 0) r = get_runs(c, &t, runs);
    if (r < 0) return r;
    size_t len;
    const char *s = record_bytes(c, &len);
    if (c->bad || len > UINT32_MAX - text || (t.n && t.ends[t.n - 1] > text + len)) return -EBADMSG;
    x->content.n_ids = (size_t)ids;
    session_cut_runs(&x->content, (size_t)ids);
    x->content.text.len = x->content.markup.len = (size_t)text;
    /* @s stands for the flags here; get_markup() sets all of them. */
    r = session_extend(x, items_of(&t), t.ends, s, s, len);
    if (r == 0) r = get_markup(c, x);
    session_drop_messages(x, (size_t)messages);
    return r;
}

/* Points into the record. */
static struct proto_text get_text(struct record_cursor *c)
{
    size_t len;
    const char *s = record_bytes(c, &len);
    return (struct proto_text){len ? (char *)(uintptr_t)s : NULL, len};
}

/* The parts of one message, whose strings point into the record; the caller frees m->calls. */
static int get_parts(struct record_cursor *c, struct proto_message *m)
{
    m->thinking = get_text(c);
    m->call_id = get_text(c);
    m->name = get_text(c);
    m->n_calls = record_count(c, 3);
    m->calls = m->n_calls ? calloc(m->n_calls, sizeof(*m->calls)) : NULL;
    if (m->n_calls && !m->calls) return -ENOMEM;
    for (size_t i = 0; i < m->n_calls; i++) {
        m->calls[i].id = get_text(c);
        m->calls[i].name = get_text(c);
        m->calls[i].arguments = get_text(c);
    }
    return c->bad ? -EBADMSG : 0;
}

static int apply_messages(struct record_cursor *c, struct session *x, bool parts)
{
    size_t n = record_count(c, 2), left, at = 0;
    struct record_cursor texts = *c; /* the parts follow them */
    int r = 0;
    for (size_t i = 0; i < 2 * n; i++) (void)get_text(c);
    left = parts ? record_count(c, 5) : 0;
    uint64_t next = left ? record_number(c) : 0;
    for (; r == 0 && at < n && !c->bad; at++) {
        struct proto_message m = {.role = get_text(&texts), .content = get_text(&texts)};
        if (left && next == at) {
            r = get_parts(c, &m);
            if (--left) next += 1 + record_number(c);
        }
        if (r == 0) r = session_add_parts(x, &m);
        free(m.calls);
    }
    return r < 0 ? r : c->bad || left ? -EBADMSG : 0;
}

static int apply_outcome(struct record_cursor *c, struct session *x, size_t message)
{
    struct session_outcome o = {.message = message};
    size_t len;
    const char *uuid = record_bytes(c, &len);
    const uint8_t *reason = record_fixed(c, 1);
    if (!reason || *reason > PROTO_STOP_TOOL_CALLS || len == 0 || len >= sizeof(o.uuid)) return -EBADMSG;
    memcpy(o.uuid, uuid, len);
    o.reason = (enum proto_reason) * reason;
    o.usage_prompt = record_number(c);
    o.usage_cached = record_number(c);
    o.usage_completion = record_number(c);
    o.shifted = record_number(c);
    o.miss_at = (int64_t)record_u64(c);
    o.seed = (int64_t)record_u64(c);
    const char *answer = record_bytes(c, &len);
    if (c->bad || memchr(o.uuid, 0, sizeof(o.uuid)) == o.uuid) return -EBADMSG;
    o.answer = (struct proto_text){(char *)(uintptr_t)answer, len}; /* session_add_outcome() copies it */
    return session_add_outcome(x, &o);
}

/* The texts at the end, error message and note, by the flags of the record. */
static int apply_last(struct record_cursor *c, struct session *x, uint8_t flags)
{
    bool failed = flags & SESSION_RECORD_FAILED, noted = flags & SESSION_RECORD_NOTE;
    size_t len = 0, note_len = 0;
    const char *why = failed ? record_bytes(c, &len) : "", *note = noted ? record_bytes(c, &note_len) : "";
    if (c->bad || (failed && len == 0) || (noted && note_len == 0)) return -EBADMSG;
    int r = session_set_failed(x, why, len);
    return r == 0 ? session_set_note(x, note, note_len) : r;
}

/* Of the last @n outcomes, of which the first may be dropped. */
static int apply_thought(struct record_cursor *c, struct session *x, size_t n)
{
    struct session_content *content = &x->content;
    for (; n > 0; n--) {
        uint64_t v = record_number(c);
        if (n <= content->n_outcomes) content->outcomes[content->n_outcomes - n].usage_thinking = v;
    }
    return c->bad ? -EBADMSG : 0;
}

/* @with: the session has an adapter from now on. */
static int apply_adapter(struct record_cursor *c, struct session *x, bool with)
{
    size_t len = 0;
    const char *name = with ? record_bytes(c, &len) : "";
    if (c->bad || (with && len == 0)) return -EBADMSG;
    return session_set_adapter(x, name, len);
}

/* The number of the answer's message, from 1, if the record has one turn and not a whole log: its last message, if that
 * is the only answer behind the first @before messages. 0: it cannot be told. */
static size_t answer_of(const struct session_content *c, size_t before)
{
    size_t answers = 0;
    bool last = false;
    for (size_t i = before; i < c->n_messages; i++) {
        const struct proto_text *role = &c->messages[i].role;
        last = role->len == 9 && memcmp(role->data, "assistant", 9) == 0;
        answers += last;
    }
    return last && answers == 1 ? c->n_messages : 0;
}

bool session_summary_read(const uint8_t p[SESSION_SUMMARY_BYTES], struct session_summary *out)
{
    struct record_cursor c = {p, p + SESSION_SUMMARY_BYTES, false};
    struct session_summary s = {.used = record_u64(&c), .bytes = record_u64(&c)};
    uint64_t counts = record_u64(&c);
    s.ids = (uint32_t)counts;
    s.messages = (uint32_t)(counts >> 32);
    if (record_u64(&c) != XXH3_64bits(p, 24)) return false;
    *out = s;
    return true;
}

int session_record_apply(struct session *x, const uint8_t *p, size_t n, bool runs)
{
    struct record_cursor c = {p, p + n, false};
    struct session_summary s;
    const uint8_t *flags = record_fixed(&c, 1), *context = record_fixed(&c, 1),
                  *model = record_fixed(&c, sizeof(x->content.model));
    if (!model || *flags > FLAGS || *context > PROTO_CONTEXT_ROTATE) return -EBADMSG;
    x->content.raw = *flags & SESSION_RECORD_RAW;
    x->content.context = (enum proto_context) * context;
    memcpy(x->content.model, model, sizeof(x->content.model));
    int r = apply_text(&c, x, runs);
    size_t before = x->content.n_messages;
    if (r == 0) r = apply_messages(&c, x, *flags & SESSION_RECORD_PARTS);
    if (r == 0 && *flags & SESSION_RECORD_MEDIA) r = record_apply_media(&c, x, before);
    size_t outcomes = record_count(&c, 1);
    size_t message = outcomes == 1 ? answer_of(&x->content, before) : 0;
    for (size_t i = 0; r == 0 && i < outcomes; i++) r = apply_outcome(&c, x, message);
    if (r == 0) r = apply_last(&c, x, *flags);
    if (r == 0 && *flags & SESSION_RECORD_THOUGHT) r = apply_thought(&c, x, outcomes);
    if (r == 0) r = apply_adapter(&c, x, *flags & SESSION_RECORD_ADAPTER);
    if (r < 0) return r;
    const uint8_t *summary = record_fixed(&c, SESSION_SUMMARY_BYTES);
    if (!summary || c.p != c.end || !session_summary_read(summary, &s)) return -EBADMSG;
    return 0;
}
