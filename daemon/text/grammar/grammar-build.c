/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/grammar-build.h"
#include "daemon/text/grammar/builder.h"
#include "daemon/text/grammar/utf8-ranges.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

int grammar_builder_new(struct grammar_builder **out)
{
    struct grammar_builder *b = calloc(1, sizeof(*b));
    int r = b ? regex_store_init(&b->store) : error_origin(-ENOMEM);
    if (r < 0) {
        grammar_builder_free(b);
        return r;
    }
    *out = b;
    return 0;
}

void grammar_builder_set_memory(struct grammar_builder *b, struct grammar_memory *m)
{
    b->store.share.memory = grammar_memory_ref(m);
}

struct grammar_builder *grammar_builder_free(struct grammar_builder *b)
{
    if (!b) return NULL;
    regex_store_fini(&b->store);
    for (size_t i = 0; i < b->n_token_sets; i++) free(b->token_sets[i].ids);
    free(b->token_sets);
    free(b->bodies);
    free(b);
    return NULL;
}

int builder_status(const struct grammar_builder *b)
{
    if (b->store.status == -EINVAL) return error_say(-EINVAL, "an expression with rules inside cannot be intersected");
    struct regex_store copy = {.status = b->store.status, .work_max = b->store.work_max, .share = b->store.share};
    if (copy.status) regex_fail(&copy, copy.status);
    return b->store.status;
}

expr_t expr_none(struct grammar_builder *b)
{
    return b->store.status ? EXPR_ERROR : REGEX_ID_NONE;
}

expr_t expr_empty(struct grammar_builder *b)
{
    return b->store.status ? EXPR_ERROR : REGEX_ID_EMPTY;
}

expr_t expr_bytes(struct grammar_builder *b, const char *s, size_t n)
{
    expr_t e = expr_empty(b);
    for (size_t i = n; i-- > 0;) e = regex_cat(&b->store, regex_byte(&b->store, (uint8_t)s[i]), e);
    return e;
}

expr_t expr_byte_set(struct grammar_builder *b, const uint64_t set[4])
{
    struct byte_set x;
    memcpy(x.w, set, sizeof(x.w));
    return b->store.status ? EXPR_ERROR : regex_set(&b->store, &x);
}

static void add_bytes(struct byte_set *set, uint8_t first, uint8_t last)
{
    for (unsigned c = first; c <= last; c++) set->w[c >> 6] |= 1ull << (c & 63);
}

static expr_t byte_range(struct regex_store *s, uint8_t first, uint8_t last)
{
    struct byte_set set = {{0}};
    add_bytes(&set, first, last);
    return regex_set(s, &set);
}

static expr_t char_range(struct grammar_builder *b, const struct expr_range *r)
{
    struct utf8_sequence seq[UTF8_SEQUENCES_MAX];
    expr_t e[UTF8_SEQUENCES_MAX];
    size_t n = utf8_ranges(r->first, r->last < 0x10ffff ? r->last : 0x10ffff, seq);
    for (size_t i = 0; i < n; i++) {
        e[i] = expr_empty(b);
        for (unsigned k = seq[i].n; k-- > 0;)
            e[i] = regex_cat(&b->store, byte_range(&b->store, seq[i].first[k], seq[i].last[k]), e[i]);
    }
    return regex_alt(&b->store, e, n);
}

expr_t expr_chars(struct grammar_builder *b, const struct expr_range *r, size_t n)
{
    expr_t *e = calloc(n + 1, sizeof(*e));
    if (!e) return regex_fail(&b->store, -ENOMEM);
    for (size_t i = 0; i < n; i++) e[i] = char_range(b, &r[i]);
    expr_t all = regex_alt(&b->store, e, n);
    free(e);
    return all;
}

expr_t expr_seq(struct grammar_builder *b, const expr_t *e, size_t n)
{
    expr_t all = expr_empty(b);
    for (size_t i = n; i-- > 0;) all = regex_cat(&b->store, e[i], all);
    return all;
}

expr_t expr_alt(struct grammar_builder *b, const expr_t *e, size_t n)
{
    expr_t *copy = calloc(n + 1, sizeof(*copy));
    if (!copy) return regex_fail(&b->store, -ENOMEM);
    if (n) memcpy(copy, e, n * sizeof(*copy));
    expr_t all = regex_alt(&b->store, copy, n);
    free(copy);
    return all;
}

expr_t expr_repeat(struct grammar_builder *b, expr_t e, uint32_t min, uint32_t max)
{
    return regex_repeat(&b->store, e, min, max);
}

static int compare_ids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

expr_t expr_tokens(struct grammar_builder *b, const int32_t *ids, size_t n, bool others)
{
    struct regex_store *s = &b->store;
    if (s->status) return EXPR_ERROR;
    if (!regex_grow(s, &b->token_sets, &b->cap_token_sets, b->n_token_sets + 1, sizeof(*b->token_sets)))
        return EXPR_ERROR;
    struct token_set set = {calloc(n + 1, sizeof(*ids)), n, others};
    if (!set.ids) return regex_fail(s, -ENOMEM);
    if (n) memcpy(set.ids, ids, n * sizeof(*ids));
    qsort(set.ids, n, sizeof(*ids), compare_ids);
    struct regex_node node = {.kind = REGEX_TOKENS, .a = (uint32_t)b->n_token_sets, .min_len = UINT32_MAX};
    b->token_sets[b->n_token_sets++] = set;
    return regex_intern(s, &node, NULL);
}

expr_t expr_rule(struct grammar_builder *b)
{
    if (b->store.status) return EXPR_ERROR;
    if (!regex_grow(&b->store, &b->bodies, &b->cap_rules, b->n_rules + 1, sizeof(*b->bodies))) return EXPR_ERROR;
    struct regex_node n = {.kind = REGEX_RULE, .a = (uint32_t)b->n_rules, .min_len = UINT32_MAX};
    b->bodies[b->n_rules++] = REGEX_ID_NONE;
    return regex_intern(&b->store, &n, NULL);
}

void expr_define(struct grammar_builder *b, expr_t rule, expr_t body)
{
    if (b->store.status || rule == EXPR_ERROR) return;
    if (body == EXPR_ERROR || regex_node(&b->store, rule)->kind != REGEX_RULE) {
        regex_fail(&b->store, -EINVAL);
        return;
    }
    b->bodies[regex_node(&b->store, rule)->a] = body;
}

bool expr_is_regular(const struct grammar_builder *b, expr_t e)
{
    return e != EXPR_ERROR && regex_has(&b->store, e, REGEX_REGULAR);
}

expr_t expr_and(struct grammar_builder *b, expr_t x, expr_t y)
{
    if (b->store.status || x == EXPR_ERROR || y == EXPR_ERROR) return EXPR_ERROR;
    expr_t e[] = {x, y};
    if (!expr_is_regular(b, x) || !expr_is_regular(b, y)) return regex_fail(&b->store, -EINVAL);
    return regex_and(&b->store, e, 2);
}

expr_t expr_not(struct grammar_builder *b, expr_t x)
{
    if (b->store.status || x == EXPR_ERROR) return EXPR_ERROR;
    if (!expr_is_regular(b, x)) return regex_fail(&b->store, -EINVAL);
    return regex_not(&b->store, x);
}

int expr_is_none(struct grammar_builder *b, expr_t e, size_t states)
{
    if (b->store.status) return builder_status(b);
    if (!expr_is_regular(b, e)) return error_say(-EINVAL, "an expression with rules inside cannot be explored");
    return regex_is_none(&b->store, e, states);
}

int expr_matches(struct grammar_builder *b, expr_t e, const char *s, size_t n)
{
    if (b->store.status) return builder_status(b);
    if (!expr_is_regular(b, e)) return error_say(-EINVAL, "an expression with rules inside cannot be explored");
    for (size_t i = 0; i < n && e != REGEX_ID_NONE; i++) {
        e = regex_step(&b->store, e, (uint8_t)s[i]);
        if (e == EXPR_ERROR) return builder_status(b);
    }
    return regex_has(&b->store, e, REGEX_NULLABLE);
}
