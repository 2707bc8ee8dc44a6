/* SPDX-License-Identifier: MIT */
/* hob log write: what hob starts behind an answer. */
#include "client/exit-status.h"
#include "client/json.h"
#include "client/log/column.h"
#include "client/log/log-limits.h"
#include "client/log/log-options.h"
#include "client/log/log-store.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WRITE_SECONDS 120 /* the writer ends after this time in any case */

/* The exchange as it is read. */
struct incoming {
    struct buf values[COLUMNS];
    bool given[COLUMNS];
    struct buf more;          /* the texts inside nested values */
    enum column_id open;      /* the column whose nested value is read */
    struct json_copy copying; /* it */
};

static void incoming_fini(struct incoming *in)
{
    for (size_t i = 0; i < COLUMNS; i++) buf_fini(&in->values[i]);
    buf_fini(&in->more);
}

/* Whether a string of a nested value is text of the exchange. */
static bool is_text(enum column_id column, const char *key)
{
    static const char *const keys[] = {"content", "thinking", "answer", "arguments", "name", NULL};
    bool here = column == COLUMN_STEPS || column == COLUMN_TOOL_CALLS || column == COLUMN_OTHERS;
    for (size_t i = 0; here && key && keys[i]; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

static int nested_item(struct incoming *in, const struct json_item *item)
{
    int r = 0;
    if (item->kind == JSON_STRING && is_text(in->open, item->key)) {
        r = buf_append(&in->more, item->text, item->len);
        if (r == 0) r = buf_puts(&in->more, "\n");
    }
    return r == 0 ? json_copy_item(&in->copying, item) : r;
}

static int read_item(void *ctx, const struct json_item *item)
{
    struct incoming *in = ctx;
    if (item->depth == 0) return *item->text == '{' ? 0 : error_say(-EBADMSG, "not an object");
    if (item->depth > 1) return in->open < COLUMNS ? nested_item(in, item) : 0;
    if (item->kind == JSON_CLOSE) return in->open < COLUMNS ? json_copy_item(&in->copying, item) : 0;
    in->open = COLUMNS;
    enum column_id c = column_find(item->key ? item->key : "");
    if (c == COLUMNS || in->given[c]) return 0; /* of a newer hob */
    bool nested = item->kind == JSON_OPEN;
    if (nested != (columns[c].kind == COLUMN_JSON))
        return error_say(-EBADMSG, "%s has the wrong type", columns[c].name);
    in->given[c] = true;
    if (!nested) return buf_append(&in->values[c], item->text, item->len);
    in->open = c;
    in->copying = (struct json_copy){.out = &in->values[c]};
    return buf_puts(&in->values[c], item->text);
}

static int read_input(struct buf *out)
{
    for (;;) {
        int r = buf_reserve(out, out->len < 65536 ? 65536 : out->len / 2);
        if (r < 0) return error_say(r, "no memory for the exchange");
        ssize_t n = read(STDIN_FILENO, out->data + out->len, out->cap - out->len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_say(-errno, "standard input: %s", strerror(errno));
        if (n == 0) return 0;
        out->len += (size_t)n;
    }
}

static int bind(sqlite3_stmt *q, int at, const struct buf *value, enum column_kind kind)
{
    if (kind == COLUMN_NUMBER) return sqlite3_bind_int64(q, at, strtoll(value->data, NULL, 10));
    return sqlite3_bind_text64(q, at, value->data ? value->data : "", value->len, SQLITE_STATIC, SQLITE_UTF8);
}

static int insert(struct store *s, struct incoming *in, size_t bytes)
{
    struct buf sql = BUF_INIT;
    sqlite3_stmt *q = NULL;
    int bad = 0, r = buf_printf(&sql, "INSERT INTO exchange(%s,more,bytes) VALUES(", column_names);
    for (int i = 0; r == 0 && i < COLUMNS + 2; i++) r = buf_puts(&sql, i ? ",?" : "?");
    if (r == 0) r = buf_puts(&sql, ")");
    r = r < 0 ? error_say(r, "no memory for the exchange") : store_prepare(s, &q, sql.data);
    for (int i = 0; r == 0 && i < COLUMNS; i++)
        if (in->given[i]) bad |= bind(q, i + 1, &in->values[i], columns[i].kind);
    if (r == 0 && in->more.len) bad |= bind(q, COLUMNS + 1, &in->more, COLUMN_TEXT);
    if (r == 0) bad |= sqlite3_bind_int64(q, COLUMNS + 2, (int64_t)bytes);
    if (r == 0 && bad) r = error_say(-EMSGSIZE, "the exchange has %zu bytes, more than a database can hold", bytes);
    if (r == 0) r = store_step(s, q);
    sqlite3_finalize(q);
    buf_fini(&sql);
    return r < 0 ? r : 0;
}

/* The exchange has what the table needs. */
static int complete(struct incoming *in)
{
    static const enum column_id needed[] = {COLUMN_UUID, COLUMN_BEGAN_MS, COLUMN_WHICH, COLUMN_STATUS};
    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
        if (!in->given[needed[i]]) return error_say(-EBADMSG, "%s is missing", columns[needed[i]].name);
    if (in->given[COLUMN_CONVERSATION]) return 0;
    in->given[COLUMN_CONVERSATION] = true;
    const struct buf *uuid = &in->values[COLUMN_UUID];
    return buf_append(&in->values[COLUMN_CONVERSATION], uuid->data, uuid->len);
}

static int write_exchange(const struct log_options *o)
{
    struct incoming in = {.open = COLUMNS};
    struct buf line = BUF_INIT;
    struct store s = {0};
    int r = read_input(&line);
    if (r == 0) r = json_walk(line.data, line.len, read_item, &in);
    if (r == 0) r = complete(&in);
    if (r == 0) r = store_open(&s, true);
    if (r == 0) r = store_begin(&s);
    if (r == 0) r = store_end(&s, insert(&s, &in, line.len));
    if (r == 0) r = limits_keep(&s, o->size, o->age_ms);
    store_close(&s);
    incoming_fini(&in);
    buf_fini(&line);
    return r;
}

int log_write(const struct log_options *given)
{
    struct log_options o = *given;
    uint64_t size, age;
    alarm(WRITE_SECONDS);
    signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error like a full disk */
    int r = parse_u64(o.words[0], 0, INT64_MAX, &size);
    if (r == 0) r = parse_u64(o.words[1], 0, INT64_MAX, &age);
    if (r < 0) return exit_status_before(r);
    o.size = (int64_t)size;
    o.age_ms = (int64_t)age;
    r = write_exchange(&o);
    if (r < 0) log_warning("the exchange is not in the log: %s", error_text(r));
    return r < 0 ? EXIT_FAILED : 0;
}
