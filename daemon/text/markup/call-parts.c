/* SPDX-License-Identifier: MIT */
/* The parts of one rendered call. */
#include "daemon/text/markup/derive.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

/* The outermost JSON object around the name that has the arguments, but not the other call. */
static bool find_object(struct piece reply, size_t name, bool first, struct call_text *out)
{
    for (size_t i = 0; i < name; i++) {
        size_t end = reply.p[i] == '{' ? piece_bracket_end(reply, i) : 0;
        struct piece object = piece_of(reply.p, i, end);
        if (end <= name || piece_find(object, first ? PROBE_VALUE1 : PROBE_VALUE4) == SIZE_MAX ||
            piece_find(object, first ? PROBE_NAME2 : PROBE_NAME1) != SIZE_MAX)
            continue;
        json_auto_t *json = json_loadb(object.p, object.n, 0, NULL);
        if (!json) continue;
        out->begin = i;
        out->end = end;
        return true;
    }
    return false;
}

/* The end of the last value of tagged arguments; 0: not found. */
static size_t tagged_end(struct piece reply, size_t from, bool first)
{
    struct piece rest = piece_of(reply.p, from, reply.n);
    size_t at = piece_find(rest, first ? PROBE_KEY3 : PROBE_VALUE4);
    if (at == SIZE_MAX) return 0;
    if (!first) return from + at + strlen(PROBE_VALUE4);
    struct piece value = piece_of(rest.p, at, rest.n);
    size_t brace = piece_find(value, "{");
    size_t end = brace == SIZE_MAX ? 0 : piece_bracket_end(value, brace);
    return end ? from + at + end : 0;
}

enum markup_form locate_call(struct piece reply, size_t name, bool first, struct call_text *out)
{
    out->reply = reply;
    if (find_object(reply, name, first, out)) return MARKUP_ENVELOPE;
    size_t after = name + strlen(PROBE_NAME1);
    size_t key = piece_find(piece_of(reply.p, after, reply.n), PROBE_KEY1);
    if (key == SIZE_MAX) return MARKUP_NO_CALLS;
    out->begin = name;
    struct piece between = piece_of(reply.p, after, after + key);
    size_t brace = piece_find(between, "{"), paren = piece_find(between, "(");
    size_t open = brace < paren ? brace : paren;
    out->name_end = after + open;
    if (open != SIZE_MAX) {
        out->end = piece_bracket_end(reply, out->name_end);
        if (out->end <= after + key) return MARKUP_NO_CALLS;
        return brace < paren ? MARKUP_LITERAL : MARKUP_PYTHON;
    }
    out->end = tagged_end(reply, after, first);
    return out->end ? MARKUP_TAGS : MARKUP_NO_CALLS;
}

static int set_key(char **to, const char *key)
{
    return piece_set(to, piece_of(key, 0, strlen(key)));
}

static bool string_has(const json_t *v, const char *text)
{
    return json_is_string(v) && strstr(json_string_value(v), text);
}

/* The keys of @object, or of the object in it. @depth: of wrappers. */
static int describe_keys(struct markup_calls *c, const json_t *object, int depth)
{
    const char *key;
    json_t *v;
    int r = 0;
    json_object_foreach((json_t *)object, key, v)
    {
        if (r < 0) break;
        if (string_has(v, PROBE_NAME1))
            r = set_key(&c->name_key, key);
        else if (json_object_get(v, PROBE_KEY1) || string_has(v, PROBE_KEY1))
            r = set_key(&c->args_key, strcmp(key, PROBE_NAME1) == 0 ? "" : key);
        else if (string_has(v, PROBE_ID1))
            r = set_key(&c->id_key, key);
        else if (json_is_object(v) && depth == 0) {
            r = set_key(&c->wrapper_key, key);
            if (r == 0) r = describe_keys(c, v, 1);
        }
    }
    return r;
}

int describe_envelope(struct markup_calls *c, const struct call_text *one)
{
    json_auto_t *object = json_loadb(one->reply.p + one->begin, one->end - one->begin, 0, NULL);
    return object ? describe_keys(c, object, 0) : -ENOMEM;
}

/* @a, a text between name and arguments, has the number of the call where @b has another: sets id_begin and name_end.
 */
static int describe_index(struct markup_calls *c, struct piece a, struct piece b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    size_t end = n;
    while (end < a.n && a.p[end] >= '0' && a.p[end] <= '9') end++;
    if (end == n) return piece_set(&c->name_end, a);
    c->id_is_index = true;
    int r = piece_set(&c->id_begin, piece_of(a.p, 0, n));
    return r < 0 ? r : piece_set(&c->name_end, piece_of(a.p, end, a.n));
}

/* Strings: the text behind the first value, up to the comma. */
static int describe_quote(struct markup_calls *c, const struct call_text *one)
{
    struct piece args = piece_of(one->reply.p, one->name_end, one->end);
    size_t at = piece_find(args, PROBE_VALUE1);
    if (at == SIZE_MAX) return 0;
    struct piece after = piece_of(args.p, at + strlen(PROBE_VALUE1), args.n);
    size_t comma = piece_find(after, ",");
    return piece_set(&c->quote, piece_of(after.p, 0, comma == SIZE_MAX ? 0 : comma));
}

int describe_literal(struct markup_calls *c, const struct call_text *one, const struct call_text *two)
{
    size_t name = strlen(PROBE_NAME1);
    struct piece a = piece_of(one->reply.p, one->begin + name, one->name_end), b = a;
    if (two->end) b = piece_of(two->reply.p, two->begin + name, two->name_end);
    size_t id = piece_find(a, PROBE_ID1);
    int r = describe_quote(c, one);
    if (r < 0) return r;
    if (id == SIZE_MAX) return describe_index(c, a, b);
    r = piece_set(&c->id_begin, piece_of(a.p, 0, id));
    return r < 0 ? r : piece_set(&c->name_end, piece_of(a.p, id + strlen(PROBE_ID1), a.n));
}

static size_t shorter(size_t a, size_t b)
{
    return a < b ? a : b;
}

int describe_tags(struct markup_calls *c, const struct call_text *one, struct piece *rest, struct piece *last)
{
    struct piece call = piece_of(one->reply.p, one->begin, one->end);
    size_t name = strlen(PROBE_NAME1), key1 = piece_find(call, PROBE_KEY1), value1 = piece_find(call, PROBE_VALUE1);
    size_t key2 = piece_find(call, PROBE_KEY2), value2 = piece_find(call, PROBE_VALUE2);
    if (value1 == SIZE_MAX || key2 == SIZE_MAX || value2 == SIZE_MAX || key1 > value1 || value1 > key2 || key2 > value2)
        return 1;
    struct piece head = piece_of(call.p, name, key1);
    struct piece between = piece_of(call.p, value1 + strlen(PROBE_VALUE1), key2);
    size_t begin = piece_common_end(head, between);
    struct piece end = {between.p, between.n - begin};
    end.n = shorter(piece_common_begin(end, *rest), piece_common_begin(end, *last));
    if (piece_is_blank(end) || begin == 0) return 1;
    int r = piece_set(&c->arg_begin, piece_of(head.p, head.n - begin, head.n));
    if (r == 0) r = piece_set(&c->name_end, piece_of(head.p, 0, head.n - begin));
    if (r == 0) r = piece_set(&c->arg_mid, piece_of(call.p, key1 + strlen(PROBE_KEY1), value1));
    if (r == 0) r = piece_set(&c->arg_mid_other, piece_of(call.p, key2 + strlen(PROBE_KEY2), value2));
    if (r == 0) r = piece_set(&c->arg_end, end);
    *rest = piece_of(rest->p, end.n, rest->n);
    *last = piece_of(last->p, end.n, last->n);
    return r;
}
