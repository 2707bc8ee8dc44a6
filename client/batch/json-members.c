/* SPDX-License-Identifier: MIT */
#include "client/batch/json-members.h"
#include "client/json.h"
#include "libcommon/error.h"
#include <string.h>

struct reader {
    json_member_fn fn;
    void *ctx;
    struct buf key, text;
    bool keyed; /* the member has a key */
    struct json_copy copy;
};

/* Give the member to the caller. */
static int give(struct reader *j, const char *key, enum json_member_kind kind, const struct json_item *item)
{
    const struct json_member m = {.key = key, .kind = kind, .text = item->text, .len = item->len};
    return j->fn(j->ctx, &m);
}

/* Begin the copy of a value, whose key is kept, because the reader reuses its memory. */
static int begin(struct reader *j, const struct json_item *item)
{
    struct json_item value = *item;
    buf_clear(&j->key);
    buf_clear(&j->text);
    j->keyed = item->key != NULL;
    j->copy = (struct json_copy){.out = &j->text};
    int r = buf_puts(&j->key, item->key ? item->key : "");
    value.key = NULL;
    return r == 0 ? json_copy_item(&j->copy, &value) : r;
}

static int end(struct reader *j, enum json_member_kind kind)
{
    const struct json_item whole = {.text = j->text.data, .len = j->text.len};
    const char *key = j->key.data ? j->key.data : "";
    return give(j, j->keyed ? key : NULL, kind, &whole);
}

static int on_item(void *ctx, const struct json_item *item)
{
    struct reader *j = ctx;
    int r;
    if (item->depth == 0)
        return item->kind >= JSON_OPEN ? 0 : error_say(-EBADMSG, "not JSON: neither an object nor a list");
    if (item->depth > 1) return json_copy_item(&j->copy, item);
    switch (item->kind) {
    case JSON_STRING:
        return give(j, item->key, MEMBER_STRING, item);
    case JSON_SCALAR:
        r = begin(j, item); /* also checks it */
        return r == 0 ? end(j, MEMBER_SCALAR) : r;
    case JSON_OPEN:
        return begin(j, item);
    default:
        r = json_copy_item(&j->copy, item);
        return r == 0 ? end(j, *item->text == '{' ? MEMBER_OBJECT : MEMBER_ARRAY) : r;
    }
}

int json_members(const char *s, size_t len, json_member_fn fn, void *ctx)
{
    struct reader j = {.fn = fn, .ctx = ctx};
    int r = json_walk(s, len, on_item, &j);
    buf_fini(&j.key);
    buf_fini(&j.text);
    return r;
}
