/* SPDX-License-Identifier: MIT */
#include "libcommon/json-whole.h"
#include "libcommon/utf8.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static _Thread_local bool partial; /* a value, or a part of one, is missing */

static void *allocate(size_t n)
{
    void *p = malloc(n);
    if (!p) partial = true;
    return p;
}

void json_whole_watch(void)
{
    json_set_alloc_funcs(allocate, free);
}

int json_whole_load(json_t **out, const char *text, size_t n, size_t flags, json_error_t *why)
{
    partial = false;
    *out = json_loadb(text, n, flags, why);
    if (partial) json_decref(*out), *out = NULL;
    const bool lacking = partial || (!*out && json_error_code(why) == json_error_out_of_memory);
    const int r = *out ? 0 : lacking ? -ENOMEM : -EBADMSG;
    partial = false;
    return r;
}

void json_whole_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value)) partial = true;
}

void json_whole_append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value)) partial = true;
}

void json_whole_set_str(json_t *object, const char *key, const char *s, size_t n)
{
    json_whole_set(object, key, s && utf8_check(s, n) == n ? json_stringn(s, n) : json_null());
}

static int add(const char *text, size_t n, void *to)
{
    if (buf_append(to, text, n) == 0) return 0;
    partial = true;
    return -1;
}

/* jansson 2.14 ignores that there is no memory for the text of a key, so that the errors of add() count. */
int json_whole_put(struct buf *out, json_t *json)
{
    if (json_dump_callback(json, add, out, JSON_COMPACT | JSON_ENCODE_ANY)) partial = true;
    const int r = partial ? -ENOMEM : 0;
    partial = false;
    json_decref(json);
    return r;
}

char *json_whole_text(json_t *json)
{
    struct buf text = BUF_INIT;
    size_t n;
    if (json_whole_put(&text, json) || buf_append(&text, "", 1)) buf_fini(&text);
    return buf_steal(&text, &n);
}
