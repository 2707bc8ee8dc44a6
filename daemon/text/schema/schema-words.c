/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-core.h"
#include "libcommon/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *schema_alloc(struct schema *c, size_t n)
{
    int err = 0;
    void *p = c->err ? NULL : jj_arena_alloc(&c->arena, n, &err);
    if (err)
        schema_fail(c, err == -E2BIG ? error_say(err, "a schema that needs more than %zu MiB", SCHEMA_BYTES_MAX >> 20)
                                     : error_origin(err));
    return p;
}

int schema_fail(struct schema *c, int err)
{
    if (c->err == 0) c->err = err;
    return err;
}

/* The name under which @at is found. */
static void keyword_of(const struct tree *at, char *out, size_t n)
{
    while (at->parent && at->parent->kind == TREE_ARRAY) at = at->parent;
    snprintf(out, n, "%.*s", at->parent ? (int)at->key_len : 6, at->parent ? at->key : "schema");
}

bool schema_refuse(struct schema *c, const struct tree *at, const char *fmt, ...)
{
    if (c->err) return false;
    char why[300], pointer[300], keyword[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    tree_pointer(at, pointer, sizeof(pointer));
    keyword_of(at, keyword, sizeof(keyword));
    if (c->options.lenient && !c->quiet) {
        if (c->ignored && buf_printf(c->ignored, "%s: %s: %s\n", pointer, keyword, why) < 0) schema_fail(c, -ENOMEM);
        return c->err == 0;
    }
    schema_fail(c, error_say(-ENOTSUP, "%s cannot be enforced at %s: %s", keyword, pointer, why));
    return false;
}

int schema_invalid(struct schema *c, const struct tree *at, const char *why)
{
    if (c->err) return c->err;
    char pointer[300];
    tree_pointer(at, pointer, sizeof(pointer));
    return schema_fail(c, error_say(-EBADMSG, "not a schema: %s at %s", why, pointer));
}

bool schema_step(struct schema *c)
{
    if (c->err) return false;
    if (++c->steps <= SCHEMA_STEPS_MAX) return true;
    schema_fail(c, error_say(-E2BIG, "a schema whose combinations take more than %d steps", SCHEMA_STEPS_MAX));
    return false;
}

static int word_of(const char *key, uint32_t len)
{
#define X(id, name) {name, sizeof(name) - 1},
    static const struct {
        const char *name;
        uint32_t len;
    } all[] = {SCHEMA_KEYWORDS(X)};
#undef X
    for (int i = 0; i < WORD_COUNT; i++)
        if (all[i].len == len && memcmp(all[i].name, key, len) == 0) return i;
    return -1;
}

static bool all_strings(const struct tree *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->child[i]->kind != TREE_STRING) return false;
    return true;
}

/* The compound keywords have the kind of value that they must have, so that nobody else needs to look. */
static bool check_words(struct schema *c, const struct words *w)
{
    static const enum schema_word objects[] = {WORD_PROPERTIES, WORD_PATTERN_PROPERTIES, WORD_DEPENDENCIES,
                                               WORD_DEPENDENT_REQUIRED, WORD_DEPENDENT_SCHEMAS};
    static const enum schema_word arrays[] = {WORD_ALL_OF,       WORD_ANY_OF,   WORD_ONE_OF,
                                              WORD_PREFIX_ITEMS, WORD_REQUIRED, WORD_ENUM};
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        const struct tree *t = w->at[objects[i]];
        if (t && t->kind != TREE_OBJECT) return schema_invalid(c, t, "an object is missing"), false;
        for (uint32_t k = 0; t && i >= 2 && k < t->count; k++)
            if (t->child[k]->kind == TREE_ARRAY && !all_strings(t->child[k]))
                return schema_invalid(c, t->child[k], "a name that is no string"), false;
    }
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        const struct tree *t = w->at[arrays[i]];
        if (t && t->kind != TREE_ARRAY) return schema_invalid(c, t, "an array is missing"), false;
    }
    if (w->at[WORD_REQUIRED] && !all_strings(w->at[WORD_REQUIRED]))
        return schema_invalid(c, w->at[WORD_REQUIRED], "a name that is no string"), false;
    return true;
}

const struct words *schema_words(struct schema *c, const struct tree *schema)
{
    if (schema->words) return schema->words;
    struct words *w = schema_alloc(c, sizeof(*w));
    if (!w) return NULL;
    for (uint32_t i = 0; i < schema->count; i++) {
        int word = word_of(schema->child[i]->key, schema->child[i]->key_len);
        if (word >= 0) w->at[word] = schema->child[i];
    }
    if (w->at[WORD_REF] && c->draft < 2019) *w = (struct words){.at[WORD_REF] = w->at[WORD_REF]};
    if (!check_words(c, w)) return NULL;
    ((struct tree *)schema)->words = w;
    return w;
}

static unsigned one_type(const struct tree *t)
{
    static const struct {
        const char *name;
        unsigned type;
    } all[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER},
               {"string", TYPE_STRING}, {"array", TYPE_ARRAY},     {"object", TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (tree_is(t, all[i].name)) return all[i].type;
    return 0;
}

unsigned schema_types(struct schema *c, const struct tree *type)
{
    unsigned types = 0;
    if (type->kind != TREE_ARRAY) types = one_type(type);
    for (uint32_t i = 0; type->kind == TREE_ARRAY && i < type->count; i++) {
        unsigned one = one_type(type->child[i]);
        if (!one) schema_invalid(c, type->child[i], "an unknown type");
        types |= one;
    }
    if (!types && type->kind != TREE_ARRAY) schema_invalid(c, type, "an unknown type");
    return types;
}

bool schema_count(struct schema *c, const struct tree *at, uint32_t *out)
{
    struct decimal d;
    char whole[DECIMAL_DIGITS_MAX + 1], part[DECIMAL_DIGITS_MAX + 1];
    int e = at->kind == TREE_NUMBER ? decimal_parse(&c->arena, at->text, at->count, &d) : -EBADMSG;
    if (e == -EBADMSG || (e == 0 && (d.negative || !decimal_is_integer(&d)))) {
        schema_invalid(c, at, "not a count");
        return false;
    }
    if (e == -ENOMEM) {
        schema_fail(c, error_origin(e));
        return false;
    }
    uint64_t v = 0;
    if (e == 0 && decimal_plain(&d, whole, part))
        for (const char *p = whole; *p && v < EXPR_UNLIMITED; p++) v = v * 10 + (uint64_t)(*p - '0');
    else
        v = EXPR_UNLIMITED;
    *out = v < EXPR_UNLIMITED ? (uint32_t)v : EXPR_UNLIMITED - 1;
    return true;
}
