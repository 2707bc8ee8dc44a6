/* SPDX-License-Identifier: MIT */
/* hob log conversation: the messages up to an exchange, for hob -c @ID. */
#include "client/exit-status.h"
#include "client/json.h"
#include "client/log/column.h"
#include "client/log/log-options.h"
#include "client/log/row.h"
#include "client/output.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 10000 /* exchanges of a conversation */

static const char *text_of(sqlite3_stmt *q, enum column_id c)
{
    const char *text = (const char *)sqlite3_column_text(q, c + 1);
    return text ? text : "";
}

/* The numbers of the exchanges of the conversation, the last one first. */
struct chain {
    int64_t ids[CHAIN_MAX];
    size_t n;
};

static int find(struct store *s, sqlite3_stmt **q, int64_t id)
{
    struct buf sql = BUF_INIT;
    int r = buf_printf(&sql, "SELECT id,%s FROM exchange WHERE id = ?1", column_names);
    r = r < 0 ? error_say(r, "no memory for the conversation") : store_prepare(s, q, sql.data);
    if (r == 0) sqlite3_bind_int64(*q, 1, id);
    if (r == 0) r = store_step(s, *q);
    buf_fini(&sql);
    return r == STORE_NONE ? error_say(-ENOENT, "no exchange @%" PRId64 " in the log", id) : r;
}

/* The exchange that @q follows. 0; STORE_NONE: it begins the conversation. */
static int parent(struct store *s, sqlite3_stmt *q, int64_t *id)
{
    static const char sql[] = "SELECT id FROM exchange WHERE uuid = ?1 AND id < ?2 AND session IS NULL";
    sqlite3_stmt *p = NULL;
    if (!*text_of(q, COLUMN_FOLLOWS) || *text_of(q, COLUMN_BEFORE) || *text_of(q, COLUMN_SESSION)) return STORE_NONE;
    int r = store_prepare(s, &p, sql);
    if (r == 0) {
        sqlite3_bind_text(p, 1, text_of(q, COLUMN_FOLLOWS), -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(p, 2, sqlite3_column_int64(q, 0));
        r = store_step(s, p);
    }
    if (r == 0) *id = sqlite3_column_int64(p, 0);
    if (r == STORE_NONE)
        r = error_say(-ENOENT, "exchange @%" PRId64 " follows one that was removed from the log",
                      (int64_t)sqlite3_column_int64(q, 0));
    sqlite3_finalize(p);
    return r;
}

static int find_chain(struct store *s, struct chain *c, int64_t id)
{
    int r = 0;
    while (r == 0 && c->n < CHAIN_MAX) {
        sqlite3_stmt *q = NULL;
        c->ids[c->n++] = id;
        r = find(s, &q, id);
        if (r == 0) r = parent(s, q, &id);
        sqlite3_finalize(q);
    }
    if (r == 0) return error_say(-E2BIG, "the conversation has more than %d exchanges", CHAIN_MAX);
    return r < 0 ? r : 0;
}

/* --- messages --- */

struct writer {
    struct buf *out;
    size_t n; /* messages */
};

static int put_message(struct writer *w, const char *role, const char *content, const char *thinking)
{
    int r = buf_printf(w->out, "%s{\"role\":\"%s\",\"content\":", w->n++ ? "," : "", role);
    if (r == 0) r = json_put_string(w->out, content, strlen(content));
    if (r == 0 && *thinking) r = buf_puts(w->out, ",\"thinking\":");
    if (r == 0 && *thinking) r = json_put_string(w->out, thinking, strlen(thinking));
    return r == 0 ? buf_puts(w->out, "}") : r;
}

static int count(void *ctx, const struct json_item *item)
{
    *(size_t *)ctx += item->depth == 1 && item->kind == JSON_OPEN;
    return 0;
}

/* The elements of the JSON array @array. */
static int put_array(struct writer *w, const char *array)
{
    size_t n = 0, len = strlen(array);
    if (len < 3) return 0;
    int r = json_walk(array, len, count, &n);
    if (r == 0 && n && w->n) r = buf_puts(w->out, ",");
    if (r == 0 && n) r = buf_append(w->out, array + 1, len - 2);
    w->n += n;
    return r;
}

static int put_exchange(struct writer *w, sqlite3_stmt *q, bool first)
{
    const char *system = text_of(q, COLUMN_SYSTEM), *media = text_of(q, COLUMN_MEDIA);
    int r = first && *system ? put_message(w, "system", system, "") : 0;
    if (r == 0) r = put_array(w, text_of(q, COLUMN_BEFORE));
    if (r == 0) r = put_message(w, "user", text_of(q, COLUMN_PROMPT), "");
    if (r == 0 && *media) {
        w->out->len--; /* the end of the message */
        r = buf_printf(w->out, ",\"media\":%s}", media);
    }
    if (r == 0) r = put_array(w, text_of(q, COLUMN_STEPS));
    const char *calls = text_of(q, COLUMN_TOOL_CALLS);
    if (r == 0) r = put_message(w, "assistant", text_of(q, COLUMN_ANSWER), text_of(q, COLUMN_THINKING));
    if (r == 0 && *calls) {
        w->out->len--;
        r = buf_printf(w->out, ",\"tool_calls\":%s}", calls);
    }
    return r;
}

/* The texts of a raw conversation, joined. */
static int put_raw(struct buf *out, struct store *s, const struct chain *c)
{
    struct buf text = BUF_INIT;
    int r = 0;
    for (size_t i = c->n; r == 0 && i-- > 0;) {
        sqlite3_stmt *q = NULL;
        r = find(s, &q, c->ids[i]);
        if (r == 0) r = buf_puts(&text, text_of(q, COLUMN_PROMPT));
        if (r == 0) r = buf_puts(&text, text_of(q, COLUMN_ANSWER));
        sqlite3_finalize(q);
    }
    if (r == 0) r = buf_puts(out, ",\"raw\":true,\"text\":");
    if (r == 0) r = json_put_string(out, text.data, text.len);
    buf_fini(&text);
    return r;
}

static int put_messages(struct buf *out, struct store *s, const struct chain *c)
{
    struct writer w = {.out = out};
    size_t own = 0;
    int r = buf_puts(out, ",\"messages\":[");
    for (size_t i = c->n; r == 0 && i-- > 0;) {
        sqlite3_stmt *q = NULL;
        size_t before = w.n;
        r = find(s, &q, c->ids[i]);
        bool first = i + 1 == c->n;
        if (r == 0) r = put_exchange(&w, q, first);
        own = w.n - before - (r == 0 && first && *text_of(q, COLUMN_SYSTEM));
        sqlite3_finalize(q);
    }
    return r == 0 ? buf_printf(out, "],\"own\":%zu", own) : r;
}

static int put_text(struct buf *out, const char *key, const char *text)
{
    if (!*text) return 0;
    int r = buf_printf(out, ",\"%s\":", key);
    return r == 0 ? json_put_string(out, text, strlen(text)) : r;
}

static int print_conversation(struct store *s, const struct chain *c)
{
    struct buf out = BUF_INIT;
    sqlite3_stmt *q = NULL;
    int r = find(s, &q, c->ids[0]);
    bool raw = r == 0 && strcmp(text_of(q, COLUMN_WHICH), "raw") == 0;
    if (r == 0 && strcmp(text_of(q, COLUMN_WHICH), "infill") == 0)
        r = error_say(-EINVAL, "exchange @%" PRId64 " is an infill, which cannot be continued", c->ids[0]);
    if (r == 0) r = buf_printf(&out, "{\"id\":%" PRId64, c->ids[0]);
    if (r == 0) r = put_text(&out, "uuid", text_of(q, COLUMN_UUID));
    if (r == 0) r = put_text(&out, "conversation", text_of(q, COLUMN_CONVERSATION));
    if (r == 0) r = put_text(&out, "model", text_of(q, COLUMN_MODEL));
    if (r == 0) r = put_text(&out, "session", text_of(q, COLUMN_SESSION));
    if (r == 0) r = raw ? put_raw(&out, s, c) : put_messages(&out, s, c);
    if (r == 0) r = buf_puts(&out, "}\n");
    if (r == -ENOMEM) error_say(r, "no memory for the conversation");
    if (r == 0) r = output_print(out.data, out.len);
    sqlite3_finalize(q);
    buf_fini(&out);
    return r;
}

int log_conversation(const struct log_options *o)
{
    struct chain *c = calloc(1, sizeof(*c));
    struct store s = {0};
    int64_t id;
    int r = c ? row_id(&id, o->words[0]) : error_say(-ENOMEM, "no memory for the conversation");
    if (r == 0) r = store_open(&s, false);
    if (r == STORE_NONE) r = error_say(-ENOENT, "the log is empty");
    if (r == 0) r = find_chain(&s, c, id);
    if (r == 0) r = print_conversation(&s, c);
    store_close(&s);
    free(c);
    return r < 0 ? exit_status_before(r) : 0;
}
