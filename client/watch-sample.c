/* SPDX-License-Identifier: MIT */
#include "client/columns.h"
#include "client/json.h"
#include "client/watch-view.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The key of each figure in the status object. */
static const struct {
    enum figure figure;
    const char *in; /* the object at depth 1 that contains it; NULL: the outermost object */
    const char *key;
} figure_keys[] = {
    {FIGURE_UPTIME, NULL, "uptime_s"},
    {FIGURE_PARALLEL, NULL, "parallel"},
    {FIGURE_QUEUE, NULL, "queue"},
    {FIGURE_RUNNING, NULL, "running"},
    {FIGURE_QUEUED, NULL, "queued"},
    {FIGURE_SESSIONS, NULL, "sessions"},
    {FIGURE_REQUESTS, NULL, "requests"},
    {FIGURE_PROMPT, NULL, "tokens_prompt"},
    {FIGURE_CACHED, NULL, "tokens_cached"},
    {FIGURE_GENERATED, NULL, "tokens_generated"},
    {FIGURE_STEP_MS, NULL, "step_ms"},
    {FIGURE_STEP_MS, "rolling", "step_ms"},
    {FIGURE_BATCH, "rolling", "batch"},
    {FIGURE_READ, "rolling", "prefill_tok_s"},
    {FIGURE_SAID, "rolling", "decode_tok_s"},
    {FIGURE_KV_BLOCKS, NULL, "kv_blocks"},
    {FIGURE_KV_FREE, NULL, "kv_blocks_free"},
    {FIGURE_KV_UNUSED, NULL, "kv_blocks_unused"},
    {FIGURE_BLOCKS_MEMORY, "cache", "blocks_memory"},
    {FIGURE_BLOCKS_DISK, "cache", "blocks_disk"},
    {FIGURE_BYTES_MEMORY, "cache", "bytes_memory"},
    {FIGURE_BYTES_DISK, "cache", "bytes_disk"},
    {FIGURE_HIT_RATE, "cache", "hit_rate"},
    {FIGURE_ACCEPTED, "speculation", "accept_rate"},
    {FIGURE_PASS_TOKENS, "speculation", "tokens_pass"},
};

static const char *const user_keys[USER_COUNT] = {
    [USER_UID] = "uid",
    [USER_RUNNING] = "running",
    [USER_QUEUED] = "queued",
    [USER_SESSIONS] = "sessions",
    [USER_GENERATED] = "tokens_generated",
    [USER_FOUND] = "tokens_found",
    [USER_ASKED] = "tokens_asked",
    [USER_MEMORY] = "blocks_memory",
    [USER_DISK] = "blocks_disk",
};

/* The keys of messages for people. */
static const struct {
    const char *key, *before;
} note_keys[] = {
    {"error", ""},
    {"model_changed", ""},
    {"restart_pending", "restart the daemon to apply the changes of "},
    {"reload_failed", "configuration reload failed: "},
};

struct reader {
    struct watch_sample *s;
    char in[32]; /* the open object or array at depth 1; "": none */
};

static double number(const struct json_item *item)
{
    char *end;
    double v = strtod(item->text, &end);
    return item->kind == JSON_SCALAR && end != item->text && !*end && isfinite(v) ? v : NAN;
}

static int read_note(struct watch_sample *s, const struct json_item *item)
{
    int r = 0;
    for (size_t i = 0; i < sizeof(note_keys) / sizeof(*note_keys); i++) {
        if (strcmp(note_keys[i].key, item->key) != 0) continue;
        r = buf_puts(&s->notes, note_keys[i].before);
        if (r == 0) r = table_plain(&s->notes, item->text);
        if (r == 0) r = buf_puts(&s->notes, "\n");
    }
    return r;
}

static int read_text(struct watch_sample *s, const struct json_item *item)
{
    struct buf *to = strcmp(item->key, "state") == 0 ? &s->state : strcmp(item->key, "model") == 0 ? &s->model : NULL;
    if (!to) return read_note(s, item);
    buf_clear(to);
    return table_plain(to, item->text);
}

static int add_user(struct watch_sample *s)
{
    struct watch_user *users = reallocarray(s->users, s->n_users + 1, sizeof(*users));
    if (!users) return -ENOMEM;
    s->users = users;
    for (int i = 0; i < USER_COUNT; i++) users[s->n_users].figures[i] = NAN;
    *users[s->n_users].name = 0;
    s->n_users++;
    return 0;
}

static int read_name(struct watch_user *u, const char *name)
{
    struct buf text = BUF_INIT;
    int r = table_plain(&text, name);
    if (r == 0)
        snprintf(u->name, sizeof(u->name), "%.*s", (int)utf8_whole(text.data, strnlen(text.data, sizeof(u->name) - 1)),
                 text.data);
    buf_fini(&text);
    return r;
}

static int read_item(void *ctx, const struct json_item *item)
{
    struct reader *r = ctx;
    const char *in = item->depth > 1 ? r->in : NULL;
    bool users = in && strcmp(in, "uids") == 0;
    if (item->depth == 0 && item->kind != JSON_CLOSE && (item->kind != JSON_OPEN || *item->text != '{'))
        return error_say(-EBADMSG, "not an object");
    if (item->depth == 1 && item->kind == JSON_OPEN && item->key) snprintf(r->in, sizeof(r->in), "%s", item->key);
    if (users && item->depth == 2 && item->kind == JSON_OPEN) return add_user(r->s);
    if (item->kind == JSON_OPEN || item->kind == JSON_CLOSE || !item->key) return 0;
    if (users && item->depth == 3 && r->s->n_users) {
        for (int i = 0; i < USER_COUNT; i++)
            if (strcmp(user_keys[i], item->key) == 0) r->s->users[r->s->n_users - 1].figures[i] = number(item);
        if (strcmp(item->key, "user") == 0) return read_name(&r->s->users[r->s->n_users - 1], item->text);
        return 0;
    }
    if (item->depth == 1 && item->kind == JSON_STRING) return read_text(r->s, item);
    if (item->depth > 2) return 0;
    for (size_t i = 0; i < sizeof(figure_keys) / sizeof(*figure_keys); i++) {
        bool here = figure_keys[i].in ? in && strcmp(in, figure_keys[i].in) == 0 : !in;
        if (here && strcmp(figure_keys[i].key, item->key) == 0) r->s->figures[figure_keys[i].figure] = number(item);
    }
    return 0;
}

int watch_read(struct watch_sample *s, const char *json, size_t len, int64_t at)
{
    struct reader reader = {.s = s};
    *s = (struct watch_sample){.at = at};
    for (int i = 0; i < FIGURE_COUNT; i++) s->figures[i] = NAN;
    int r = json_walk(json, len, read_item, &reader);
    if (r == 0) return 0;
    watch_fini(s);
    return r == -EBADMSG ? error_in(r, "the daemon's status") : r;
}

void watch_fini(struct watch_sample *s)
{
    free(s->users);
    buf_fini(&s->state);
    buf_fini(&s->model);
    buf_fini(&s->notes);
    *s = (struct watch_sample){0};
}
