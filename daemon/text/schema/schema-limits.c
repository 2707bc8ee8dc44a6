/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-expand.h"
#include "libcommon/error.h"

static const struct decimal *number(struct schema *c, const struct tree *at)
{
    struct decimal *d = schema_alloc(c, sizeof(*d));
    if (!d) return NULL;
    int e = at->kind == TREE_NUMBER ? decimal_parse(&c->arena, at->text, at->count, d) : -EBADMSG;
    if (e == -ENOMEM) schema_fail(c, error_origin(e));
    if (e == -EBADMSG) schema_invalid(c, at, "not a number");
    if (e == -E2BIG) schema_fail(c, error_say(e, "a number with an exponent over a billion"));
    return d;
}

static void raise(struct shape *s, struct limit l)
{
    int r = s->lo.value && l.value ? decimal_compare(l.value, s->lo.value) : 1;
    if (r > 0 || (r == 0 && l.exclusive)) s->lo = l;
}

static void lower(struct shape *s, struct limit l)
{
    int r = s->hi.value && l.value ? decimal_compare(l.value, s->hi.value) : -1;
    if (r < 0 || (r == 0 && l.exclusive)) s->hi = l;
}

/* minimum and its like. Draft 4 spells exclusiveMinimum as a boolean beside minimum. */
static void bound(struct schema *c, struct shape *s, const struct words *w, enum schema_word word, bool violated)
{
    const struct tree *at = w->at[word];
    bool is_min = word == WORD_MINIMUM || word == WORD_EXCLUSIVE_MINIMUM;
    bool exclusive = word == WORD_EXCLUSIVE_MINIMUM || word == WORD_EXCLUSIVE_MAXIMUM;
    const struct tree *beside = w->at[is_min ? WORD_EXCLUSIVE_MINIMUM : WORD_EXCLUSIVE_MAXIMUM];
    if (exclusive && (at->kind == TREE_TRUE || at->kind == TREE_FALSE)) {
        if (at->kind == TREE_TRUE && !w->at[is_min ? WORD_MINIMUM : WORD_MAXIMUM])
            schema_invalid(c, at, "a limit is missing beside it");
        if (violated) s->types = 0; /* it is part of the keyword beside it */
        return;
    }
    if (!exclusive) exclusive = beside && beside->kind == TREE_TRUE;
    if (violated) s->types &= TYPE_NUMBER;
    if (is_min != violated)
        raise(s, (struct limit){number(c, at), exclusive != violated});
    else
        lower(s, (struct limit){number(c, at), exclusive != violated});
}

static void multiple(struct schema *c, struct shape *s, const struct tree *at, bool violated)
{
    const struct decimal *d = number(c, at);
    struct factor *f = schema_alloc(c, sizeof(*f));
    if (!f || c->err) return;
    if (d->n == 0 || d->negative) {
        schema_invalid(c, at, "a multipleOf that is not over 0");
        return;
    }
    *f = (struct factor){s->factors, d, violated, at};
    s->factors = f;
    if (violated) s->types &= TYPE_NUMBER;
}

static void min_count(uint32_t n, uint32_t *min, uint32_t *max, bool violated)
{
    if (!violated && n > *min) *min = n;
    if (violated && n == 0) *min = 1, *max = 0;
    if (violated && n > 0 && n - 1 < *max) *max = n - 1;
}

static void count(struct schema *c, struct shape *s, const struct tree *at, enum schema_word word, bool violated)
{
    uint32_t n;
    if (!schema_count(c, at, &n)) return;
    bool is_text = word == WORD_MIN_LENGTH || word == WORD_MAX_LENGTH,
         is_array = word == WORD_MIN_ITEMS || word == WORD_MAX_ITEMS;
    bool is_min = word == WORD_MIN_LENGTH || word == WORD_MIN_ITEMS || word == WORD_MIN_PROPERTIES;
    uint32_t *min = is_text ? &s->min_length : is_array ? &s->min_items : &s->min_properties;
    uint32_t *max = is_text ? &s->max_length : is_array ? &s->max_items : &s->max_properties;
    if (violated) s->types &= is_text ? TYPE_STRING : is_array ? TYPE_ARRAY : TYPE_OBJECT;
    if (!is_text && !is_array) s->counted = at;
    if (is_min)
        min_count(n, min, max, violated);
    else if (violated)
        min_count(n + 1, min, max, false);
    else if (n < *max)
        *max = n;
}

static void text(struct schema *c, struct shape *s, expr_t e, bool violated)
{
    if (violated) s->types &= TYPE_STRING;
    if (e == EXPR_ERROR) { /* an annotation always holds */
        if (violated) s->types = 0;
        return;
    }
    if (violated) e = expr_and(c->b, c->spelling.text, expr_not(c->b, e));
    s->text = s->text == EXPR_ERROR ? e : expr_and(c->b, s->text, e);
}

static void values(struct schema *c, struct shape *s, const struct tree *at, bool single, bool violated)
{
    struct value_set *v = schema_alloc(c, sizeof(*v));
    if (!v) return;
    *v = (struct value_set){violated ? s->excluded : s->allowed, at, single};
    if (violated)
        s->excluded = v;
    else
        s->allowed = v;
}

static void unique(struct schema *c, struct shape *s, const struct tree *at, bool violated)
{
    if (at->kind != TREE_TRUE) {
        if (violated) s->types = 0;
    } else if (!violated) {
        s->unique = at;
    } else if (!schema_refuse(c, at, "equal elements cannot be asked for")) {
        s->types = 0;
    }
}

static bool put(struct schema *c, struct shape *s, const struct words *words, enum schema_word word, bool violated)
{
    const struct tree *at = words->at[word];
    expr_t e;
    switch (word) {
    case WORD_TYPE:
        s->types &= violated ? ~schema_types(c, at) : schema_types(c, at);
        return true;
    case WORD_ENUM:
    case WORD_CONST:
        values(c, s, at, word == WORD_CONST, violated);
        return true;
    case WORD_MINIMUM:
    case WORD_MAXIMUM:
    case WORD_EXCLUSIVE_MINIMUM:
    case WORD_EXCLUSIVE_MAXIMUM:
        bound(c, s, words, word, violated);
        return true;
    case WORD_MULTIPLE_OF:
        multiple(c, s, at, violated);
        return true;
    case WORD_MIN_LENGTH:
    case WORD_MAX_LENGTH:
    case WORD_MIN_ITEMS:
    case WORD_MAX_ITEMS:
    case WORD_MIN_PROPERTIES:
    case WORD_MAX_PROPERTIES:
        count(c, s, at, word, violated);
        return true;
    case WORD_PATTERN:
        if (at->kind != TREE_STRING) return schema_invalid(c, at, "a pattern that is no string"), true;
        e = schema_pattern(c, at->text, at->count, at);
        if (e != EXPR_ERROR || !c->err) text(c, s, e, violated);
        return true;
    case WORD_FORMAT:
        if (schema_format(c, at, &e)) text(c, s, e, violated);
        return true;
    case WORD_UNIQUE_ITEMS:
        unique(c, s, at, violated);
        return true;
    default:
        return false;
    }
}

bool hold_limit(struct schema *c, struct shape *s, const struct words *words, enum schema_word word)
{
    return put(c, s, words, word, false);
}

bool violate_limit(struct schema *c, struct shape *s, const struct words *words, enum schema_word word)
{
    return put(c, s, words, word, true);
}
