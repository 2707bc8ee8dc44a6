/* SPDX-License-Identifier: MIT */
/* Rules, alternatives, sequences and groups of GBNF. */
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/gbnf-inside.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int gbnf_error(const struct gbnf *p, size_t at, const char *fmt, ...)
{
    char text[256];
    size_t line = 1, column = 1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (size_t i = 0; i < at && i < p->n; i++) {
        bool end = p->s[i] == '\n';
        line += end;
        column = end ? 1 : column + ((p->s[i] & 0xc0) != 0x80);
    }
    return error_say(-EINVAL, "line %zu, column %zu: %s", line, column, text);
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The slot of the rule with this name; a free one: there is none. */
static size_t slot_of(const struct gbnf *p, size_t name, size_t len)
{
    size_t at = XXH3_64bits(p->s + name, len) & p->mask;
    for (; p->table[at]; at = (at + 1) & p->mask) {
        const struct gbnf_rule *x = &p->rules[p->table[at] - 1];
        if (x->len == len && !memcmp(p->s + x->name, p->s + name, len)) break;
    }
    return at;
}

/* Makes room for one more rule. */
static int widen(struct gbnf *p)
{
    if (p->n_rules < p->cap_rules) return 0;
    size_t cap = p->cap_rules ? p->cap_rules * 2 : 32;
    struct gbnf_rule *v = reallocarray(p->rules, cap, sizeof(*v));
    if (v) p->rules = v;
    uint32_t *table = v ? calloc(cap * 2, sizeof(*table)) : NULL;
    if (!table) return error_origin(-ENOMEM);
    free(p->table);
    p->table = table;
    p->mask = cap * 2 - 1;
    p->cap_rules = cap;
    for (size_t i = 0; i < p->n_rules; i++) table[slot_of(p, p->rules[i].name, p->rules[i].len)] = (uint32_t)i + 1;
    return 0;
}

/* The rule with the name at the place, which is new if nobody has used it. */
static int rule_at(struct gbnf *p, struct gbnf_rule **out)
{
    size_t begin = p->at;
    while (p->at < p->n && is_name(p->s[p->at])) p->at++;
    size_t len = p->at - begin;
    if (len == 0) return gbnf_error(p, begin, "the name of a rule is missing");
    int r = widen(p);
    if (r < 0) return r;
    uint32_t *slot = &p->table[slot_of(p, begin, len)];
    if (!*slot) {
        p->rules[p->n_rules++] = (struct gbnf_rule){begin, len, expr_rule(p->b), false};
        *slot = (uint32_t)p->n_rules;
    }
    *out = &p->rules[*slot - 1];
    return 0;
}

static int alternatives(struct gbnf *p, bool nested, expr_t *e);

static int group(struct gbnf *p, expr_t *e)
{
    size_t begin = p->at++;
    if (p->depth == GBNF_DEPTH_MAX) return gbnf_error(p, begin, "more than %d nested groups", GBNF_DEPTH_MAX);
    p->depth++;
    gbnf_space(p, true);
    int r = alternatives(p, true, e);
    p->depth--;
    if (r < 0) return r;
    if (gbnf_peek(p) != ')') return gbnf_error(p, p->at < p->n ? p->at : begin, "a group needs ')' at its end");
    p->at++;
    return 0;
}

/* One element of a sequence. 1: there is none. */
static int element(struct gbnf *p, expr_t *e)
{
    static const struct expr_range any = {0, 0x10ffff};
    struct gbnf_rule *rule;
    char c = gbnf_peek(p);
    int r;
    switch (c) {
    case '"':
        return gbnf_literal(p, e);
    case '[':
        return gbnf_class(p, e);
    case '(':
        return group(p, e);
    case '<':
    case '!':
        return gbnf_token(p, e);
    case '.':
        p->at++;
        *e = expr_chars(p->b, &any, 1);
        return 0;
    case '*':
    case '+':
    case '?':
    case '{':
        return gbnf_error(p, p->at, "nothing stands before '%c'", c);
    }
    if (!is_name(c)) return 1;
    r = rule_at(p, &rule);
    if (r == 0) *e = rule->e;
    return r;
}

/* The repetitions behind an element. */
static int repetitions(struct gbnf *p, bool nested, expr_t *e)
{
    for (;; gbnf_space(p, nested)) {
        uint32_t min = 0, max = EXPR_UNLIMITED;
        char c = gbnf_peek(p);
        int r = 0;
        if (c == '*' || c == '+' || c == '?') {
            p->at++;
            min = c == '+';
            max = c == '?' ? 1 : EXPR_UNLIMITED;
        } else if (c == '{') {
            r = gbnf_counts(p, &min, &max);
        } else {
            return 0;
        }
        if (r < 0) return r;
        *e = expr_repeat(p->b, *e, min, max);
    }
}

static int sequence(struct gbnf *p, bool nested, expr_t *e)
{
    struct expr_list parts = {0};
    int r = 0;
    while (r == 0) {
        expr_t one;
        r = element(p, &one);
        if (r) break;
        gbnf_space(p, nested);
        r = repetitions(p, nested, &one);
        if (r == 0) r = expr_list_push(&parts, one);
    }
    if (r > 0) *e = expr_seq(p->b, parts.e, parts.n);
    free(parts.e);
    return r < 0 ? r : 0;
}

static int alternatives(struct gbnf *p, bool nested, expr_t *e)
{
    struct expr_list parts = {0};
    expr_t one;
    int r = sequence(p, nested, &one);
    if (r == 0) r = expr_list_push(&parts, one);
    while (r == 0 && gbnf_peek(p) == '|') {
        p->at++;
        gbnf_space(p, true);
        r = sequence(p, nested, &one);
        if (r == 0) r = expr_list_push(&parts, one);
    }
    if (r == 0) *e = expr_alt(p->b, parts.e, parts.n);
    free(parts.e);
    return r;
}

static int definition(struct gbnf *p)
{
    struct gbnf_rule *rule;
    expr_t body;
    int r = rule_at(p, &rule);
    if (r < 0) return r;
    size_t index = (size_t)(rule - p->rules);
    gbnf_space(p, false);
    if (p->n - p->at < 3 || memcmp(p->s + p->at, "::=", 3) != 0)
        return gbnf_error(p, p->at, "'::=' is missing behind the name");
    p->at += 3;
    gbnf_space(p, true);
    r = alternatives(p, false, &body);
    if (r < 0) return r;
    char c = gbnf_peek(p);
    if (p->at < p->n && c != '\n' && c != '\r') return gbnf_error(p, p->at, "'%c' does not belong here", c);
    expr_define(p->b, p->rules[index].e, body);
    p->rules[index].defined = true;
    gbnf_space(p, true);
    return builder_status(p->b);
}

static int parse(struct gbnf *p, expr_t *root)
{
    if (utf8_check(p->s, p->n) < p->n) return gbnf_error(p, utf8_check(p->s, p->n), "invalid UTF-8");
    if (memchr(p->s, 0, p->n)) return gbnf_error(p, strlen(p->s), "a NUL byte");
    gbnf_space(p, true);
    while (p->at < p->n) {
        int r = definition(p);
        if (r < 0) return r;
    }
    *root = EXPR_ERROR;
    for (size_t i = 0; i < p->n_rules; i++) {
        const struct gbnf_rule *rule = &p->rules[i];
        if (!rule->defined)
            return gbnf_error(p, rule->name, "the rule '%.*s' is not defined", (int)rule->len, p->s + rule->name);
        if (rule->len == 4 && !memcmp(p->s + rule->name, "root", 4)) *root = rule->e;
    }
    if (*root == EXPR_ERROR) return error_say(-EINVAL, "the grammar has no rule 'root'");
    return builder_status(p->b);
}

int gbnf_parse(struct grammar_builder *b, const char *s, size_t n, const struct tokenizer *t, expr_t *root)
{
    struct gbnf p = {.b = b, .t = t, .s = s, .n = n};
    int r = parse(&p, root);
    free(p.rules);
    free(p.table);
    return r;
}
