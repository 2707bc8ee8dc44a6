/* SPDX-License-Identifier: MIT */
#include "client/status.h"
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/json.h"
#include "client/output.h"
#include "client/rpc.h"
#include "client/watch.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_ID      1
#define STATUS_WAIT_MS 10000 /* the main thread of the daemon answers, and it never waits */

/* The objects under these keys are printed as rows of a table, which is shorter. */
static const char *const status_tables[] = {"uids", "peers", "adapters"};

/* The keys of the first object are the columns. Other keys of later objects are dropped; a missing value is "-". */
struct status_table {
    struct table lines;
    char *keys[TABLE_COLUMNS_MAX], *cells[TABLE_COLUMNS_MAX]; /* owned; cells: of the row in progress */
    unsigned n;                                               /* number of keys */
};

#define STATUS_TABLE ((struct status_table){.lines = {.prefix = "  ", .right = UINT_MAX}})

struct status_view {
    struct buf *out;
    int status;
    bool in_table;
    struct status_table table;
};

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static int status_real(struct buf *out, double v)
{
    char text[32];
    size_t n = (size_t)snprintf(text, sizeof(text), "%.3f", v);
    while (text[n - 1] == '0') n--;
    return buf_append(out, text, text[n - 1] == '.' ? n - 1 : n);
}

/* Print a value: bytes as a size, a ratio as a percentage, other text unchanged on one line. */
static int status_value(struct buf *out, const struct json_item *item)
{
    const char *key = item->key ? item->key : "";
    char size[32], *end;
    if (item->kind == JSON_SCALAR && strstr(key, "bytes")) {
        unsigned long long v = strtoull(item->text, &end, 10);
        if (end != item->text && !*end && *item->text != '-') return buf_puts(out, format_size(size, v));
    }
    if (item->kind == JSON_SCALAR && (strcmp(key, "hit_rate") == 0 || strcmp(key, "accept_rate") == 0)) {
        double v = strtod(item->text, &end);
        if (end != item->text && !*end && v >= 0 && v <= 1) return buf_printf(out, "%.1f%%", v * 100);
    }
    if (item->kind == JSON_SCALAR && strcmp(key, "energy") == 0 && strcmp(item->text, "null") == 0)
        return buf_puts(out, "unknown");
    /* At most three decimals, without trailing zeros. */
    if (item->kind == JSON_SCALAR && strchr(item->text, '.')) {
        double v = strtod(item->text, &end);
        if (end != item->text && !*end && fabs(v) < 1e15) return status_real(out, v);
    }
    return table_plain(out, item->text);
}

/* "memory" for "blocks_memory": a table is narrow. */
static const char *status_head(const char *key)
{
    if (starts(key, "blocks_")) return key + 7;
    return starts(key, "tokens_") ? key + 7 : key;
}

/* Finish the row. */
static int status_row(struct status_table *t)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && !t->lines.columns && i < t->n; i++)
        r = table_put(&t->lines, status_head(t->keys[i]));
    t->lines.columns = t->n;
    for (unsigned i = 0; r == 0 && i < t->n; i++) {
        r = table_put(&t->lines, t->cells[i] ? t->cells[i] : "-");
        free(t->cells[i]);
        t->cells[i] = NULL;
    }
    return r;
}

/* A gateway's user: "1000:ada" in the column of the uid, which is the first one. */
static int status_user(struct status_table *t, const char *name)
{
    struct buf text = BUF_INIT;
    size_t len;
    if (t->n == 0 || !t->cells[0]) return 0;
    int r = buf_printf(&text, "%s:", t->cells[0]);
    if (r == 0) r = table_plain(&text, name);
    if (r < 0) {
        buf_fini(&text);
        return r;
    }
    free(t->cells[0]);
    t->cells[0] = buf_steal(&text, &len);
    return 0;
}

static int status_cell(struct status_table *t, const struct json_item *item)
{
    struct buf text = BUF_INIT;
    unsigned i = 0;
    size_t len;
    if (strcmp(item->key, "user") == 0) return status_user(t, item->text);
    while (i < t->n && strcmp(t->keys[i], item->key) != 0) i++;
    if (i == t->n && (t->lines.columns || i == TABLE_COLUMNS_MAX)) return 0;
    if (i == t->n) {
        t->keys[i] = strdup(item->key);
        if (!t->keys[i]) return -ENOMEM;
        t->n++;
    }
    int r = status_value(&text, item);
    free(t->cells[i]);
    t->cells[i] = buf_steal(&text, &len);
    return r;
}

static void status_table_fini(struct status_table *t)
{
    table_fini(&t->lines);
    for (unsigned i = 0; i < t->n; i++) {
        free(t->keys[i]);
        free(t->cells[i]);
    }
    *t = STATUS_TABLE;
}

static bool status_is_table(const char *key)
{
    for (size_t i = 0; i < sizeof(status_tables) / sizeof(*status_tables); i++)
        if (strcmp(key, status_tables[i]) == 0) return true;
    return false;
}

/* Handle an item in the array of a table, or the end of the array. */
static int status_table(struct status_view *v, const struct json_item *item)
{
    if (item->depth == 1) {
        int r = table_print(v->out, &v->table.lines);
        v->in_table = false;
        status_table_fini(&v->table);
        return r;
    }
    if (item->depth == 2 && item->kind == JSON_CLOSE) return status_row(&v->table);
    if (item->depth == 3 && item->key && (item->kind == JSON_SCALAR || item->kind == JSON_STRING))
        return status_cell(&v->table, item);
    return 0;
}

static int status_item(void *ctx, const struct json_item *item)
{
    struct status_view *v = ctx;
    unsigned indent = item->depth > 0 ? item->depth - 1 : 0;
    if (v->in_table) return status_table(v, item);
    if (item->depth == 0) {
        if (item->kind == JSON_CLOSE || (item->kind == JSON_OPEN && *item->text == '{')) return 0;
        return error_say(-EBADMSG, "the daemon's status is not an object");
    }
    if (item->kind == JSON_CLOSE) return 0;
    if (item->depth == 1 && item->kind == JSON_STRING && item->key && strcmp(item->key, "state") == 0) {
        bool soon = strcmp(item->text, "loading") == 0 || strcmp(item->text, "stopping") == 0;
        v->status = strcmp(item->text, "ready") == 0 ? EXIT_ANSWERED : soon ? EXIT_BUSY : EXIT_FAILED;
    }
    int r = buf_printf(v->out, "%*s", (int)(2 * indent), "");
    if (r == 0) r = item->key ? table_plain(v->out, item->key) : buf_puts(v->out, "-");
    if (r == 0 && item->key) r = buf_puts(v->out, ":");
    if (r == 0 && item->kind != JSON_OPEN) r = buf_puts(v->out, " ");
    if (r == 0 && item->kind != JSON_OPEN) r = status_value(v->out, item);
    v->in_table =
        item->depth == 1 && item->kind == JSON_OPEN && *item->text == '[' && item->key && status_is_table(item->key);
    return r == 0 ? buf_puts(v->out, "\n") : r;
}

int status_format(struct buf *out, const char *json, size_t len, int *status)
{
    struct status_view v = {.out = out, .status = EXIT_FAILED, .table = STATUS_TABLE};
    int r = json_walk(json, len, status_item, &v);
    status_table_fini(&v.table);
    if (r == -EBADMSG) return error_in(r, "the daemon's status");
    *status = v.status;
    return r;
}

static int status_print(const struct options *o, const struct proto_text *json)
{
    struct buf text = BUF_INIT, plain = BUF_INIT;
    int status = EXIT_FAILED, r = status_format(&text, json->data, json->len, &status);
    if (r == 0 && o->json) {
        r = buf_append(&plain, json->data, json->len);
        if (r == 0) r = buf_puts(&plain, "\n");
    }
    if (r == 0) r = output_print(o->json ? plain.data : text.data, o->json ? plain.len : text.len);
    if (r < 0) status = exit_status_report(r);
    buf_fini(&text);
    buf_fini(&plain);
    return status;
}

int status_run(const struct options *o)
{
    static const struct rpc how = {.want = PROTO_EV_STATUS, .wait_ms = STATUS_WAIT_MS};
    const struct proto_request request = {.type = PROTO_STATUS, .id = STATUS_ID};
    struct connection c = CONNECTION_INIT;
    struct proto_event e = {0};
    if (o->watch_ms) return watch_run(o);
    int status = rpc_call(o, &c, &request, &how, &e);
    if (status == 0) {
        status = status_print(o, &e.status);
        proto_event_fini(&e);
    }
    connection_close(&c);
    return status;
}

int status_stop(const struct options *o)
{
    static const struct rpc how = {.want = PROTO_EV_STOPPING, .wait_ms = STATUS_WAIT_MS};
    const struct proto_request request = {.type = PROTO_STOP, .id = STATUS_ID};
    struct connection c = CONNECTION_INIT;
    struct proto_event e = {0};
    int r, status = rpc_call(o, &c, &request, &how, &e);
    if (status == 0) {
        proto_event_fini(&e);
        /* The daemon serves accepted requests first: wait without a timeout. */
        while ((r = connection_next(&c, &e, -1, -1)) == 0) proto_event_fini(&e);
        if (r < 0) status = exit_status_report(r);
    }
    connection_close(&c);
    return status;
}
