/* SPDX-License-Identifier: MIT */
#include "client/sessions-view.h"
#include "client/columns.h"
#include "client/json.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *sessions_view_age(char *out, int64_t then, int64_t now)
{
    static const struct {
        int64_t seconds, below;
        const char *unit;
    } steps[] = {{1, 60, "s"}, {60, 60, "min"}, {3600, 24, "h"}, {86400, 60, "days"}};
    int64_t age = then < now ? now - then : 0;
    time_t t = (time_t)then;
    struct tm day;

    if (age < 5) return strcpy(out, "just now");
    for (unsigned i = 0; i < 4; i++) {
        int64_t n = age / steps[i].seconds;
        if (n >= steps[i].below) continue;
        snprintf(out, 16, "%d %s ago", (int)n, i == 3 && n == 1 ? "day" : steps[i].unit);
        return out;
    }
    if (then < 0 || !localtime_r(&t, &day) || !strftime(out, 16, "%Y-%m-%d", &day)) strcpy(out, "long ago");
    return out;
}

struct list_view {
    struct table table;
    int64_t now;
    char *name; /* name of the session whose object is open */
    int64_t used, messages, tokens, bytes, shared;
    bool raw, busy;
};

/* The session's own bytes, then + and the bytes that it shares with other sessions. */
static void list_size(char out[64], const struct list_view *v)
{
    char own[32], shared[32];
    format_size(own, v->bytes > 0 ? (uint64_t)v->bytes : 0);
    format_size(shared, v->shared > 0 ? (uint64_t)v->shared : 0);
    snprintf(out, 64, v->shared > 0 ? "%s+%s" : "%s", own, shared);
}

static int list_row(struct list_view *v)
{
    char messages[24] = "raw", tokens[24], age[16], bytes[64];
    if (!v->name) return error_say(-EBADMSG, "a session without a name");
    if (!v->raw) snprintf(messages, sizeof(messages), "%" PRId64, v->messages);
    snprintf(tokens, sizeof(tokens), "%" PRId64, v->tokens);
    list_size(bytes, v);
    int r = table_put(&v->table, v->name);
    if (r == 0) r = table_put(&v->table, messages);
    if (r == 0) r = table_put(&v->table, tokens);
    if (r == 0) r = table_put(&v->table, bytes);
    return r == 0 ? table_put(&v->table, v->busy ? "in use" : sessions_view_age(age, v->used, v->now)) : r;
}

static void list_number(int64_t *v, const struct json_item *item)
{
    if (item->kind == JSON_SCALAR) *v = strtoll(item->text, NULL, 10);
}

static int list_value(struct list_view *v, const struct json_item *item)
{
    if (strcmp(item->key, "used") == 0) list_number(&v->used, item);
    if (strcmp(item->key, "messages") == 0) list_number(&v->messages, item);
    if (strcmp(item->key, "tokens") == 0) list_number(&v->tokens, item);
    if (strcmp(item->key, "bytes") == 0) list_number(&v->bytes, item);
    if (strcmp(item->key, "shared") == 0) list_number(&v->shared, item);
    if (strcmp(item->key, "raw") == 0) v->raw = strcmp(item->text, "true") == 0;
    if (strcmp(item->key, "busy") == 0) v->busy = strcmp(item->text, "true") == 0;
    if (strcmp(item->key, "name") != 0 || item->kind != JSON_STRING) return 0;
    free(v->name);
    v->name = strdup(item->text);
    return v->name ? 0 : -ENOMEM;
}

static int list_item(void *ctx, const struct json_item *item)
{
    struct list_view *v = ctx;
    bool edge = item->kind == JSON_OPEN || item->kind == JSON_CLOSE;
    int r;
    if (item->depth == 0) return edge && *item->text == '[' ? 0 : error_say(-EBADMSG, "not a list");
    if (item->depth == 1 && item->kind == JSON_OPEN && *item->text == '{') {
        v->used = v->messages = v->tokens = v->bytes = v->shared = 0;
        v->raw = v->busy = false;
        return 0;
    }
    if (item->depth == 1 && item->kind == JSON_CLOSE) {
        r = list_row(v);
        free(v->name);
        v->name = NULL;
        return r;
    }
    if (item->depth == 1) return error_say(-EBADMSG, "not a list of sessions");
    return item->depth == 2 && item->key ? list_value(v, item) : 0;
}

static int view_bad(int r)
{
    return r == -EBADMSG ? error_in(r, "the daemon's sessions") : r;
}

int sessions_view_list(struct buf *out, const char *json, size_t len, int64_t now, unsigned width)
{
    static const char *const heads[] = {"NAME", "MESSAGES", "TOKENS", "SIZE", "LAST USED"};
    struct list_view v = {
        .now = now,
        .table = {.columns = 5, .right = 1u << 1 | 1u << 2 | 1u << 3, .optional = 1u << 1 | 1u << 2, .width = width}};
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 5; i++) r = table_put(&v.table, heads[i]);
    size_t empty = v.table.cells.len;
    if (r == 0) r = json_walk(json, len, list_item, &v);
    if (r == 0 && v.table.cells.len > empty) r = table_print(out, &v.table);
    free(v.name);
    table_fini(&v.table);
    return view_bad(r);
}

struct sum_view {
    bool in_own;
    int64_t sessions, bytes, max; /* -1: unknown */
};

static int sum_item(void *ctx, const struct json_item *item)
{
    struct sum_view *v = ctx;
    const char *key = item->key ? item->key : "";
    if (item->depth == 1) v->in_own = item->kind == JSON_OPEN && strcmp(key, "own") == 0;
    if (item->depth != 2 || !v->in_own || item->kind != JSON_SCALAR) return 0;
    if (strcmp(key, "sessions") == 0) v->sessions = strtoll(item->text, NULL, 10);
    if (strcmp(key, "sessions_bytes") == 0) v->bytes = strtoll(item->text, NULL, 10);
    if (strcmp(key, "sessions_max_bytes") == 0) v->max = strtoll(item->text, NULL, 10);
    return 0;
}

int sessions_view_sum(struct buf *out, const char *json, size_t len)
{
    struct sum_view v = {.sessions = -1, .bytes = -1, .max = -1};
    char bytes[32], max[32];
    int r = json_walk(json, len, sum_item, &v);
    if (r < 0 || v.sessions <= 0 || v.bytes < 0) return view_bad(r);
    r = buf_printf(out, "%" PRId64 " %s, %s", v.sessions, v.sessions == 1 ? "session" : "sessions",
                   format_size(bytes, (uint64_t)v.bytes));
    if (r == 0 && v.max > 0) r = buf_printf(out, " of %s", format_size(max, (uint64_t)v.max));
    return r == 0 ? buf_puts(out, "\n") : r;
}
