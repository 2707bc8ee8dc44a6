/* SPDX-License-Identifier: MIT */
/* The operands of expressions: names, literals, lists, dictionaries, parentheses. */
#include "daemon/text/template/jinja-parse.h"
#include "daemon/text/template/jinja-str.h"

static struct jj_node *constant(struct jj_parser *p, unsigned line, struct jj_value v)
{
    struct jj_node *n = jj_node_new(p, JJ_N_CONST, line);
    if (n) n->value = v;
    return n;
}

static struct jj_node *parse_name(struct jj_parser *p)
{
    const struct jj_token *t = p->t++;
    static const struct {
        const char *text;
        struct jj_value v;
    } words[] = {
        {"true", {.type = JJ_BOOL, .b = true}},
        {"True", {.type = JJ_BOOL, .b = true}},
        {"false", {.type = JJ_BOOL, .b = false}},
        {"False", {.type = JJ_BOOL, .b = false}},
        {"none", {.type = JJ_NONE}},
        {"None", {.type = JJ_NONE}},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].text) == t->len && !memcmp(words[i].text, t->p, t->len))
            return constant(p, t->line, words[i].v);
    struct jj_node *n = jj_node_new(p, JJ_N_NAME, t->line);
    if (!n) return NULL;
    n->name = jj_token_str(p, t);
    if (!n->name) return NULL;
    if (jj_str_is(n->name, "caller")) p->uses |= JJ_USES_CALLER;
    if (jj_str_is(n->name, "varargs")) p->uses |= JJ_USES_VARARGS;
    if (jj_str_is(n->name, "kwargs")) p->uses |= JJ_USES_KWARGS;
    if (jj_str_is(n->name, "self")) p->self = true;
    return n;
}

/* Adjacent strings are one string. */
static struct jj_node *parse_strings(struct jj_parser *p)
{
    const struct jj_token *t = p->t;
    size_t len = 0;
    while (p->t->type == JJ_T_STRING) len += (p->t++)->len;
    struct jj_token whole = {.p = t->p, .len = len};
    if (p->t - t > 1) {
        char *s = jj_arena_bytes(p->arena, len, &p->err);
        if (!s) return NULL;
        whole.p = s;
        for (const struct jj_token *i = t; i < p->t; i++) {
            if (i->len) memcpy(s, i->p, i->len);
            s += i->len;
        }
    }
    const struct jj_str *s = jj_token_str(p, &whole);
    return s ? constant(p, t->line, jj_string(s)) : NULL;
}

static struct jj_node *parse_list(struct jj_parser *p)
{
    struct jj_node *n = jj_node_new(p, JJ_N_LIST, p->t++->line);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    while (!jj_at_op(p, JJ_OP_RBRACKET)) {
        if (n->n && jj_expect_op(p, JJ_OP_COMMA) < 0) return NULL;
        if (jj_at_op(p, JJ_OP_RBRACKET)) break;
        if (jj_list_add(p, &l, n, jj_parse_expression(p, true)) < 0) return NULL;
    }
    p->t++;
    return n;
}

static struct jj_node *parse_dict(struct jj_parser *p)
{
    struct jj_node *n = jj_node_new(p, JJ_N_DICT, p->t++->line);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    while (!jj_at_op(p, JJ_OP_RBRACE)) {
        if (n->n && jj_expect_op(p, JJ_OP_COMMA) < 0) return NULL;
        if (jj_at_op(p, JJ_OP_RBRACE)) break;
        unsigned line = p->t->line;
        struct jj_node *key = jj_parse_expression(p, true);
        if (!key || jj_expect_op(p, JJ_OP_COLON) < 0) return NULL;
        if (jj_list_add(p, &l, n, jj_node_binary(p, JJ_N_PAIR, JJ_OP_NONE, line, key, jj_parse_expression(p, true))) <
            0)
            return NULL;
    }
    p->t++;
    return n;
}

struct jj_node *jj_parse_primary(struct jj_parser *p)
{
    const struct jj_token *t = p->t;
    switch (t->type) {
    case JJ_T_NAME:
        return parse_name(p);
    case JJ_T_STRING:
        return parse_strings(p);
    case JJ_T_INT:
        p->t++;
        return constant(p, t->line, jj_int(t->i));
    case JJ_T_FLOAT:
        p->t++;
        return constant(p, t->line, jj_float(t->f));
    default:
        break;
    }
    if (jj_at_op(p, JJ_OP_LBRACKET)) return parse_list(p);
    if (jj_at_op(p, JJ_OP_LBRACE)) return parse_dict(p);
    if (!jj_skip_op(p, JJ_OP_LPAREN)) {
        jj_parse_unexpected(p, NULL);
        return NULL;
    }
    struct jj_node *n = jj_parse_tuple(p, JJ_TUPLE_COND | JJ_TUPLE_EMPTY, NULL);
    return n && jj_expect_op(p, JJ_OP_RPAREN) == 0 ? n : NULL;
}
