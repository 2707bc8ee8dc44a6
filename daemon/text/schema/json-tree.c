/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/json-tree.h"
#include "daemon/text/schema/json-read.h"
#include "libcommon/buf.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *x, const void *y)
{
    const struct tree *a = *(struct tree *const *)x, *b = *(struct tree *const *)y;
    size_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
    int r = n ? memcmp(a->key, b->key, n) : 0;
    return r ? r : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

static int sort_members(struct json_reader *r, struct tree *t)
{
    int err = 0;
    t->sorted = jj_arena_alloc(r->arena, (t->count ? t->count : 1) * sizeof(struct tree *), &err);
    if (!t->sorted) return err;
    if (t->count) memcpy(t->sorted, t->child, t->count * sizeof(struct tree *));
    qsort(t->sorted, t->count, sizeof(struct tree *), by_name);
    for (uint32_t i = 1; i < t->count; i++)
        if (by_name(&t->sorted[i - 1], &t->sorted[i]) == 0)
            return error_say(-EBADMSG, "the name \"%.*s\" stands twice in an object", (int)t->sorted[i]->key_len,
                             t->sorted[i]->key);
    return 0;
}

static int read_value(struct json_reader *r, unsigned depth, struct tree **out);

/* One member or element. The children of an open container lie on the reader's stack. */
static int read_child(struct json_reader *r, struct tree *parent, unsigned depth)
{
    const char *key = NULL;
    uint32_t key_len = 0;
    reader_skip(r);
    if (parent->kind == TREE_OBJECT) {
        int e = reader_string(r, &key, &key_len);
        if (e < 0) return e;
        reader_skip(r);
        if (!reader_take(r, ':')) return reader_bad(r, "':' is missing");
        reader_skip(r);
    }
    struct tree *t;
    int e = read_value(r, depth + 1, &t);
    if (e < 0) return e;
    t->parent = parent;
    t->key = key;
    t->key_len = key_len;
    return buf_append(&r->stack, &t, sizeof(struct tree *));
}

static int read_children(struct json_reader *r, struct tree *t, char close, unsigned depth)
{
    if (depth >= TREE_DEPTH_MAX) return error_say(-E2BIG, "nested deeper than %d", TREE_DEPTH_MAX);
    size_t base = r->stack.len;
    reader_skip(r);
    if (!reader_take(r, close)) {
        do {
            int e = read_child(r, t, depth);
            if (e < 0) return e;
            reader_skip(r);
        } while (reader_take(r, ','));
        if (!reader_take(r, close)) return reader_bad(r, "',' or the end of an array or object is missing");
    }
    size_t bytes = r->stack.len - base;
    int err = 0;
    t->count = (uint32_t)(bytes / sizeof(struct tree *));
    t->child = jj_arena_alloc(r->arena, bytes ? bytes : 1, &err);
    if (!t->child) return err;
    if (bytes) memcpy(t->child, r->stack.data + base, bytes);
    r->stack.len = base;
    return t->kind == TREE_OBJECT ? sort_members(r, t) : 0;
}

static int read_value(struct json_reader *r, unsigned depth, struct tree **out)
{
    int err = 0;
    struct tree *t = jj_arena_alloc(r->arena, sizeof(*t), &err);
    if (!t) return err;
    t->id = r->values++;
    t->source = r->at;
    *out = t;
    if (reader_take(r, '{')) {
        t->kind = TREE_OBJECT;
        err = read_children(r, t, '}', depth);
    } else if (reader_take(r, '[')) {
        t->kind = TREE_ARRAY;
        err = read_children(r, t, ']', depth);
    } else if (r->at < r->end && *r->at == '"') {
        t->kind = TREE_STRING;
        err = reader_string(r, &t->text, &t->count);
    } else if (reader_word(r, "null") || reader_word(r, "false") || reader_word(r, "true")) {
        t->kind = *t->source == 'n' ? TREE_NULL : *t->source == 'f' ? TREE_FALSE : TREE_TRUE;
    } else {
        t->kind = TREE_NUMBER;
        err = reader_number(r, &t->text, &t->count);
    }
    t->source_len = (size_t)(r->at - t->source);
    return err;
}

int tree_parse(struct jj_arena *a, const char *s, size_t n, struct tree **out)
{
    if (n > TREE_BYTES_MAX) return error_say(-E2BIG, "a JSON text of more than %u MiB", TREE_BYTES_MAX >> 20);
    struct json_reader r = {.arena = a, .start = s, .at = s, .end = s + n};
    reader_skip(&r);
    int e = read_value(&r, 0, out);
    if (e == 0) {
        reader_skip(&r);
        if (r.at != r.end) e = reader_bad(&r, "more text after the value");
    }
    buf_fini(&r.stack);
    if (e == -ENOMEM) return error_origin(e);
    if (e == -E2BIG && a->budget && a->budget->left == 0) return error_say(e, "a JSON text with too many values");
    return e;
}

const struct tree *tree_member(const struct tree *t, const char *name, size_t len)
{
    if (!t || t->kind != TREE_OBJECT || len > UINT32_MAX) return NULL;
    struct tree want = {.key = name, .key_len = (uint32_t)len}, *key = &want;
    struct tree **found = bsearch(&key, t->sorted, t->count, sizeof(struct tree *), by_name);
    return found ? *found : NULL;
}

const struct tree *tree_get(const struct tree *t, const char *name)
{
    return tree_member(t, name, strlen(name));
}

bool tree_is(const struct tree *t, const char *text)
{
    return t && t->kind == TREE_STRING && t->count == strlen(text) && memcmp(t->text, text, t->count) == 0;
}

static size_t put_name(const struct tree *t, char *out, size_t n)
{
    size_t len = 0;
    if (t->parent->kind == TREE_ARRAY) {
        uint32_t i = 0;
        while (i + 1 < t->parent->count && t->parent->child[i] != t) i++;
        return (size_t)snprintf(out, n, "/%u", i);
    }
    if (len < n) out[len++] = '/';
    for (uint32_t i = 0; i < t->key_len && len + 2 < n; i++) {
        char c = t->key[i];
        if (c == '~' || c == '/') {
            out[len++] = '~';
            out[len++] = c == '~' ? '0' : '1';
        } else {
            out[len++] = c;
        }
    }
    return len;
}

char *tree_pointer(const struct tree *t, char *out, size_t n)
{
    const struct tree *path[TREE_DEPTH_MAX + 1];
    size_t depth = 0, len = 0;
    for (; t && t->parent && depth <= TREE_DEPTH_MAX; t = t->parent) path[depth++] = t;
    if (n > 0) out[len++] = '#';
    while (depth > 0 && len + 16 < n) len += put_name(path[--depth], out + len, n - len - 1);
    if (n > 0) out[len < n ? len : n - 1] = 0;
    return out;
}
