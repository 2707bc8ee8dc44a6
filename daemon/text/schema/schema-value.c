/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/number-range.h"
#include "daemon/text/schema/object-build.h"
#include <string.h>

static expr_t number(struct schema *c, const struct tree *v, bool point)
{
    struct decimal x;
    struct digits d;
    char whole[DECIMAL_DIGITS_MAX + 1], part[DECIMAL_DIGITS_MAX + 1];
    expr_t written = expr_bytes(c->b, v->text, v->count);
    if (decimal_parse(&c->arena, v->text, v->count, &x) < 0 || !decimal_plain(&x, whole, part)) return written;
    digits_init(&d, c->b);
    expr_t size = point || *part ? digits_equal(&d, &x) : expr_bytes(c->b, whole, strlen(whole));
    if (x.negative) size = expr_seq(c->b, (expr_t[]){expr_bytes(c->b, "-", 1), size}, 2);
    return expr_alt(c->b, (expr_t[]){size, written}, 2);
}

static expr_t array(struct schema *c, const struct tree *v)
{
    expr_t out = c->close_array;
    for (uint32_t i = v->count; i > 0; i--)
        out = expr_seq(
            c->b, (expr_t[]){i > 1 ? c->comma : expr_empty(c->b), compile_value(c, v->child[i - 1], true), out}, 3);
    return expr_seq(c->b, (expr_t[]){c->open_array, out}, 2);
}

static expr_t object(struct schema *c, const struct tree *v)
{
    struct object o = {.core = c, .n = v->count, .others = expr_none(c->b), .max = EXPR_UNLIMITED};
    o.members = schema_alloc(c, (o.n + 1) * sizeof(*o.members));
    for (uint32_t i = 0; o.members && i < v->count; i++) {
        expr_t name = compile_quoted(c, spell_text(&c->spelling, v->child[i]->key, v->child[i]->key_len));
        o.members[i].text = expr_seq(c->b, (expr_t[]){name, c->colon, compile_value(c, v->child[i], true)}, 3);
        o.members[i].required = true;
        o.members[i].rank = i;
    }
    if (c->err) return EXPR_ERROR;
    expr_t members = c->options.any_order ? object_any_order(&o) : object_in_order(&o);
    return expr_seq(c->b, (expr_t[]){c->open_object, members, c->close_object}, 3);
}

expr_t compile_value(struct schema *c, const struct tree *v, bool point)
{
    if (!schema_step(c)) return EXPR_ERROR;
    switch (v->kind) {
    case TREE_NULL:
        return expr_bytes(c->b, "null", 4);
    case TREE_FALSE:
        return expr_bytes(c->b, "false", 5);
    case TREE_TRUE:
        return expr_bytes(c->b, "true", 4);
    case TREE_NUMBER:
        return number(c, v, point);
    case TREE_STRING:
        return compile_quoted(c, spell_text(&c->spelling, v->text, v->count));
    case TREE_ARRAY:
        return array(c, v);
    default:
        return object(c, v);
    }
}
