/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-core.h"
#include "daemon/text/schema/uri.h"
#include "libcommon/error.h"
#include <string.h>

struct place {
    const struct place *next;
    const struct tree *schema, *resource;
    const char *name; /* an absolute URI, or the name of an anchor */
    bool is_anchor, is_dynamic;
};

static const struct tree *id_of(const struct schema *c, const struct tree *t)
{
    const struct tree *id = tree_get(t, c->draft <= 4 ? "id" : "$id");
    if (!id || id->kind != TREE_STRING) return NULL;
    return c->draft < 2019 && tree_get(t, "$ref") ? NULL : id;
}

static bool only_fragment(const struct tree *id)
{
    return id->count > 0 && id->text[0] == '#';
}

/* The schemas with an id of their own are marked, the root among them. */
static const struct tree *resource_of(const struct tree *t)
{
    while (t->parent && !t->marked) t = t->parent;
    return t;
}

static const char *resource_uri(struct schema *c, const struct tree *resource)
{
    for (const struct place *p = c->places; p && schema_step(c); p = p->next)
        if (!p->is_anchor && p->schema == resource) return p->name;
    return "";
}

static void add_place(struct schema *c, const struct tree *t, const char *name, bool is_anchor, bool is_dynamic)
{
    struct place *p = schema_alloc(c, sizeof(*p));
    if (!p) return;
    *p = (struct place){c->places, t, resource_of(t), name, is_anchor, is_dynamic};
    c->places = p;
}

static const char *text_of(struct schema *c, const char *text, size_t n)
{
    char *copy = schema_alloc(c, n + 1);
    return copy ? memcpy(copy, text, n) : "";
}

/* @base: the URI around @t. Returns that of @t. */
static const char *note_places(struct schema *c, const struct tree *t, const char *base)
{
    const struct tree *id = id_of(c, t);
    if (id && !only_fragment(id)) {
        ((struct tree *)t)->marked = true;
        char *uri = schema_alloc(c, strlen(base) + id->count + 2);
        if (!uri) return base;
        base = uri_resolve(uri, base, id->text, id->count);
        add_place(c, t, base, false, false);
    } else if (id) {
        add_place(c, t, text_of(c, id->text + 1, id->count - 1), true, false);
    }
    static const char *const anchors[] = {"$anchor", "$dynamicAnchor"};
    for (int i = 0; i < 2; i++) {
        const struct tree *a = tree_get(t, anchors[i]);
        if (a && a->kind == TREE_STRING) add_place(c, t, text_of(c, a->text, a->count), true, i == 1);
    }
    const struct tree *a = tree_get(t, "$recursiveAnchor");
    if (a && a->kind == TREE_TRUE) add_place(c, t, "", true, true);
    return base;
}

static void find_places(struct schema *c, const struct tree *t, const char *base);

static bool is_named(const struct tree *t, const char *const *names)
{
    for (; *names; names++)
        if (t->key_len == strlen(*names) && memcmp(t->key, *names, t->key_len) == 0) return true;
    return false;
}

/* The schemas in the value of a keyword. */
static void find_inside(struct schema *c, const struct tree *value, const char *base)
{
    static const char *const schemas[] = {"not",
                                          "if",
                                          "then",
                                          "else",
                                          "items",
                                          "contains",
                                          "additionalItems",
                                          "additionalProperties",
                                          "propertyNames",
                                          "unevaluatedItems",
                                          "unevaluatedProperties",
                                          "allOf",
                                          "anyOf",
                                          "oneOf",
                                          "prefixItems",
                                          NULL};
    static const char *const maps[] = {
        "$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies", NULL};
    bool map = value->kind == TREE_OBJECT && is_named(value, maps);
    if (!map && !is_named(value, schemas)) return;
    if (!map && value->kind == TREE_OBJECT) find_places(c, value, base);
    for (uint32_t i = 0; (map || value->kind == TREE_ARRAY) && i < value->count; i++)
        if (value->child[i]->kind == TREE_OBJECT) find_places(c, value->child[i], base);
}

/* Every $id and anchor of the schemas in @t, a schema. @base: the URI around it. */
static void find_places(struct schema *c, const struct tree *t, const char *base)
{
    if (!schema_step(c) || t->kind != TREE_OBJECT) return;
    base = note_places(c, t, base);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->child[i]->kind >= TREE_ARRAY) find_inside(c, t->child[i], base);
}

/* The value at a JSON pointer below @t, with its percent escapes undone. */
static const struct tree *follow(const struct tree *t, const char *p, size_t n)
{
    char name[512];
    while (t && n > 0 && *p == '/') {
        size_t len = 0, end = 1;
        while (end < n && p[end] != '/') end++;
        if (end > sizeof(name)) return NULL;
        for (size_t i = 1; i < end; i++) {
            bool tilde = p[i] == '~' && i + 1 < end && (p[i + 1] == '0' || p[i + 1] == '1');
            name[len++] = !tilde ? p[i] : p[i + 1] == '0' ? '~' : '/';
            i += tilde;
        }
        p += end;
        n -= end;
        if (t->kind == TREE_ARRAY) {
            uint32_t index = 0;
            for (size_t i = 0; i < len && index < 100000000; i++)
                index = name[i] >= '0' && name[i] <= '9' ? index * 10 + (uint32_t)(name[i] - '0') : UINT32_MAX;
            t = len > 0 && index < t->count ? t->child[index] : NULL;
        } else {
            t = tree_member(t, name, len);
        }
    }
    return n == 0 ? t : NULL;
}

static const struct place *find_anchor(struct schema *c, const struct tree *resource, const char *name)
{
    for (const struct place *p = c->places; p && schema_step(c); p = p->next)
        if (p->is_anchor && p->resource == resource && strcmp(p->name, name) == 0) return p;
    return NULL;
}

/* Another schema with the same dynamic anchor could be meant when the document is entered there. */
static bool is_ambiguous(struct schema *c, const struct place *anchor)
{
    for (const struct place *p = c->places; p && schema_step(c); p = p->next)
        if (p != anchor && p->is_dynamic && strcmp(p->name, anchor->name) == 0) return true;
    return false;
}

static const struct tree *find_resource(struct schema *c, const struct tree *from, const char *uri, size_t n)
{
    const struct tree *resource = resource_of(from);
    if (n == 0) return resource;
    const char *base = resource_uri(c, resource);
    char *full = schema_alloc(c, strlen(base) + n + 2);
    if (!full) return NULL;
    full = uri_resolve(full, base, uri, n);
    for (const struct place *p = c->places; p && schema_step(c); p = p->next)
        if (!p->is_anchor && strcmp(p->name, full) == 0) return p->schema;
    return NULL;
}

const struct tree *schema_target(struct schema *c, const struct tree *ref, bool dynamic)
{
    if (ref->kind != TREE_STRING) {
        schema_invalid(c, ref, "a reference that is no string");
        return NULL;
    }
    if (!c->has_places) find_places(c, c->root, "");
    c->has_places = true;
    const char *hash = memchr(ref->text, '#', ref->count);
    size_t before = hash ? (size_t)(hash - ref->text) : ref->count;
    const struct tree *resource = find_resource(c, ref->parent, ref->text, before), *found = resource;
    const struct place *anchor = NULL;
    if (resource && hash) {
        char *fragment = schema_alloc(c, ref->count - before);
        if (!fragment) return NULL;
        size_t n = uri_unescape(fragment, hash + 1, ref->count - before - 1);
        if (n > 0 && *fragment == '/')
            found = follow(resource, fragment, n);
        else if (n > 0 || dynamic)
            anchor = find_anchor(c, resource, fragment), found = anchor ? anchor->schema : n > 0 ? NULL : resource;
    }
    if (c->err) return NULL;
    if (dynamic && anchor && anchor->is_dynamic && is_ambiguous(c, anchor))
        found = schema_refuse(c, ref, "which of several anchors \"%s\" it means depends on the way there", anchor->name)
                    ? &c->always
                    : NULL;
    else if (!found)
        found =
            schema_refuse(c, ref, "\"%.*s\" is not in this document", (int)ref->count, ref->text) ? &c->always : NULL;
    return found;
}
