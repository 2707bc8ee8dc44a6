/* SPDX-License-Identifier: MIT */
/* hob log show: an exchange as hob sessions show prints a conversation. */
#include "client/exit-status.h"
#include "client/log/column.h"
#include "client/log/log-options.h"
#include "client/log/row.h"
#include "client/output.h"
#include "client/sessions-view.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *text_of(sqlite3_stmt *q, enum column_id c)
{
    const char *text = (const char *)sqlite3_column_text(q, c + 1);
    return text ? text : "";
}

/* ", NAME VALUE" if the column has a value. */
static int put_named(struct buf *out, sqlite3_stmt *q, const char *name, enum column_id c)
{
    const char *text = text_of(q, c);
    if (!*text) return 0;
    int r = buf_printf(out, ", %s ", name);
    return r == 0 ? plain_line(out, text, strlen(text)) : r;
}

/* "exchange @12, 2026-11-23 18:04, model default, …" */
static int put_head(struct buf *out, sqlite3_stmt *q)
{
    const int64_t began = sqlite3_column_int64(q, COLUMN_BEGAN_MS + 1);
    const time_t t = (time_t)(began / 1000);
    char when[32] = "?";
    struct tm day;
    if (localtime_r(&t, &day)) strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &day);
    int r = buf_printf(out, "exchange @%" PRId64 ", %s", (int64_t)sqlite3_column_int64(q, 0), when);
    if (r == 0) r = put_named(out, q, "model", COLUMN_MODEL);
    if (r == 0) r = put_named(out, q, "session", COLUMN_SESSION);
    if (r == 0) r = buf_printf(out, ", %.1f s", (double)sqlite3_column_int64(q, COLUMN_TOOK_MS + 1) / 1000);
    if (r == 0 && sqlite3_column_int64(q, COLUMN_STATUS + 1))
        r = buf_printf(out, ", exit status %" PRId64, (int64_t)sqlite3_column_int64(q, COLUMN_STATUS + 1));
    if (r == 0) r = put_named(out, q, "reason", COLUMN_REASON);
    return r == 0 ? buf_puts(out, "\n") : r;
}

/* "[HEAD]" and the text of the column, if it has any. */
static int put_part(struct buf *out, sqlite3_stmt *q, const char *head, enum column_id c)
{
    const char *text = text_of(q, c);
    if (!*text || strcmp(text, "{}") == 0) return 0;
    int r = buf_printf(out, "\n[%s]\n%s", head, text);
    return r == 0 && text[strlen(text) - 1] != '\n' ? buf_puts(out, "\n") : r;
}

/* A JSON array of messages, as a session's. */
static int put_messages(struct buf *out, const char *head, const char *array, const char *tail)
{
    struct buf json = BUF_INIT, text = BUF_INIT;
    if (!*array) return 0;
    int r = buf_printf(&json, "{\"messages\":%s%s%s}", head, array, tail);
    if (r == 0) r = sessions_view_show(&text, json.data, json.len);
    if (r == 0 && text.len) r = buf_puts(out, "\n");
    if (r == 0) r = buf_append(out, text.data, text.len);
    buf_fini(&json);
    buf_fini(&text);
    return r;
}

static int put_exchange(struct buf *out, sqlite3_stmt *q)
{
    bool infill = strcmp(text_of(q, COLUMN_WHICH), "infill") == 0;
    int r = put_head(out, q);
    if (r == 0) r = put_part(out, q, "options", COLUMN_OPTIONS);
    if (r == 0) r = put_part(out, q, "system", COLUMN_SYSTEM);
    if (r == 0) r = put_messages(out, "", text_of(q, COLUMN_BEFORE), "");
    if (r == 0) r = put_part(out, q, infill ? "prefix" : "user", COLUMN_PROMPT);
    if (r == 0) r = put_part(out, q, "suffix", COLUMN_SUFFIX);
    if (r == 0) r = put_part(out, q, "media", COLUMN_MEDIA);
    if (r == 0) r = put_messages(out, "", text_of(q, COLUMN_STEPS), "");
    if (r == 0) r = put_part(out, q, "thinking", COLUMN_THINKING);
    if (r == 0) r = put_part(out, q, "assistant", COLUMN_ANSWER);
    if (r == 0) r = put_messages(out, "[{\"tool_calls\":", text_of(q, COLUMN_TOOL_CALLS), "}]");
    if (r == 0) r = put_part(out, q, "other answers", COLUMN_OTHERS);
    if (r == 0) r = put_part(out, q, "failed", COLUMN_ERROR);
    return r == 0 ? put_part(out, q, "usage", COLUMN_USAGE) : r;
}

static int print_exchange(sqlite3_stmt *q, const struct log_options *o)
{
    struct buf text = BUF_INIT, safe = BUF_INIT;
    int r = o->json ? row_json(&text, q) : put_exchange(&text, q);
    if (r == 0 && !o->json && isatty(STDOUT_FILENO)) {
        r = plain_text(&safe, text.data, text.len);
        buf_fini(&text);
        text = safe;
    }
    if (r == -ENOMEM) r = error_say(r, "no memory for the exchange");
    if (r == 0) r = output_print(text.data, text.len);
    buf_fini(&text);
    return r;
}

static int show(struct store *s, const struct log_options *o, int64_t id)
{
    struct buf sql = BUF_INIT;
    sqlite3_stmt *q = NULL;
    int r = buf_printf(&sql, "SELECT id,%s FROM exchange WHERE %s", column_names,
                       id ? "id = ?1" : "id = (SELECT max(id) FROM exchange)");
    r = r < 0 ? error_say(r, "no memory for the exchange") : store_prepare(s, &q, sql.data);
    if (r == 0 && id) sqlite3_bind_int64(q, 1, id);
    if (r == 0) r = store_step(s, q);
    if (r == 0) r = print_exchange(q, o);
    if (r == STORE_NONE)
        r = id ? error_say(-ENOENT, "no exchange @%" PRId64 " in the log", id) : error_say(-ENOENT, "the log is empty");
    sqlite3_finalize(q);
    buf_fini(&sql);
    return r;
}

int log_show(const struct log_options *o)
{
    struct store s = {0};
    int64_t id = 0;
    int r = o->n_words ? row_id(&id, o->words[0]) : 0;
    if (r < 0) return exit_status_before(r);
    r = store_open(&s, false);
    if (r == STORE_NONE) r = error_say(-ENOENT, "the log is empty");
    if (r == 0) r = show(&s, o, id);
    store_close(&s);
    return r < 0 ? exit_status_report(r) : 0;
}
