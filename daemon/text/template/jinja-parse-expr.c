/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-parse.h"
#include "daemon/text/template/jinja-str.h"
#include "libcommon/error.h"

static struct jj_node *parse_unary(struct jj_parser *p, bool filters);
static struct jj_node *parse_arguments(struct jj_parser *p, struct jj_node *call);

static struct jj_node *wrap(struct jj_parser *p, enum jj_kind kind, unsigned line, struct jj_node *a)
{
    struct jj_node *n = a ? jj_node_new(p, kind, line) : NULL;
    if (!n || jj_adopt(p, n, a) < 0) return NULL;
    n->a = a;
    return n;
}

/* Binary operators of equal precedence, left-associative. */
static struct jj_node *left_binary(struct jj_parser *p, const enum jj_op *ops,
                                   struct jj_node *(*operand)(struct jj_parser *))
{
    unsigned line = p->t->line;
    struct jj_node *left = operand(p);
    while (left && p->t->type == JJ_T_OP) {
        const enum jj_op *op = ops;
        while (*op && *op != p->t->op) op++;
        if (!*op) break;
        p->t++;
        left = jj_node_binary(p, JJ_N_BINARY, *op, line, left, operand(p));
        line = p->t->line;
    }
    return left;
}

static struct jj_node *parse_factor(struct jj_parser *p)
{
    return parse_unary(p, true);
}

static struct jj_node *parse_pow(struct jj_parser *p)
{
    static const enum jj_op ops[] = {JJ_OP_POW, JJ_OP_NONE};
    return left_binary(p, ops, parse_factor);
}

static struct jj_node *parse_product(struct jj_parser *p)
{
    static const enum jj_op ops[] = {JJ_OP_MUL, JJ_OP_DIV, JJ_OP_FLOORDIV, JJ_OP_MOD, JJ_OP_NONE};
    return left_binary(p, ops, parse_pow);
}

static struct jj_node *parse_concat(struct jj_parser *p)
{
    unsigned line = p->t->line;
    struct jj_node *first = parse_product(p);
    if (!first || !jj_at_op(p, JJ_OP_TILDE)) return first;
    struct jj_node *n = jj_node_new(p, JJ_N_CONCAT, line);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    if (jj_list_add(p, &l, n, first) < 0) return NULL;
    while (jj_skip_op(p, JJ_OP_TILDE))
        if (jj_list_add(p, &l, n, parse_product(p)) < 0) return NULL;
    return n;
}

static struct jj_node *parse_sum(struct jj_parser *p)
{
    static const enum jj_op ops[] = {JJ_OP_ADD, JJ_OP_SUB, JJ_OP_NONE};
    return left_binary(p, ops, parse_concat);
}

/* Skips the comparison at the current token and returns it. JJ_OP_NONE: it is not a comparison. */
static enum jj_op skip_comparison(struct jj_parser *p)
{
    if (p->t->type == JJ_T_OP && p->t->op >= JJ_OP_EQ && p->t->op <= JJ_OP_GE) return (p->t++)->op;
    if (jj_skip_name(p, "in")) return JJ_OP_IN;
    if (!jj_at_name(p, "not") || p->t[1].type != JJ_T_NAME || p->t[1].len != 2 || memcmp(p->t[1].p, "in", 2) != 0)
        return JJ_OP_NONE;
    p->t += 2;
    return JJ_OP_NOTIN;
}

static struct jj_node *parse_compare(struct jj_parser *p)
{
    unsigned line = p->t->line;
    struct jj_node *a = parse_sum(p);
    enum jj_op op = a ? skip_comparison(p) : JJ_OP_NONE;
    if (!op) return a;
    struct jj_node *n = wrap(p, JJ_N_COMPARE, line, a);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    for (; op; op = skip_comparison(p)) {
        struct jj_node *operand = wrap(p, JJ_N_OPERAND, p->t->line, parse_sum(p));
        if (jj_list_add(p, &l, n, operand) < 0) return NULL;
        operand->op = op;
    }
    return n;
}

static struct jj_node *parse_not(struct jj_parser *p)
{
    unsigned line = p->t->line;
    if (!jj_skip_name(p, "not")) return parse_compare(p);
    if (jj_parse_enter(p) < 0) return NULL;
    struct jj_node *a = parse_not(p);
    p->depth--;
    return wrap(p, JJ_N_NOT, line, a);
}

static struct jj_node *parse_and(struct jj_parser *p)
{
    unsigned line = p->t->line;
    struct jj_node *left = parse_not(p);
    while (left && jj_skip_name(p, "and")) left = jj_node_binary(p, JJ_N_AND, JJ_OP_NONE, line, left, parse_not(p));
    return left;
}

static struct jj_node *parse_or(struct jj_parser *p)
{
    unsigned line = p->t->line;
    struct jj_node *left = parse_and(p);
    while (left && jj_skip_name(p, "or")) left = jj_node_binary(p, JJ_N_OR, JJ_OP_NONE, line, left, parse_and(p));
    return left;
}

/* a if b else c if d else e … */
static struct jj_node *parse_condition(struct jj_parser *p)
{
    unsigned line = p->t->line;
    bool soft = p->soft;
    const struct jj_node *missing = p->missing;
    struct jj_node *a = parse_or(p);
    while (a && jj_skip_name(p, "if")) {
        p->missing = missing; /* the expression before "if" is a branch */
        p->soft = true;
        struct jj_node *test = parse_or(p), *other = NULL;
        if (test && jj_skip_name(p, "else")) {
            other = jj_parse_enter(p) < 0 ? NULL : parse_condition(p);
            p->depth--;
            if (!other) return NULL;
        }
        p->soft = soft;
        a = jj_node_binary(p, JJ_N_COND, JJ_OP_NONE, line, a, test);
        if (!a || (other && jj_adopt(p, a, other) < 0)) return NULL;
        a->c = other;
        line = p->t->line;
    }
    return a;
}

int jj_check_names(struct jj_parser *p)
{
    const struct jj_node *n = p->missing;
    if (p->expressions || !n) return 0;
    p->missing = NULL;
    return jj_parse_fail(p, n->line, "no %s named '%.*s'", n->kind == JJ_N_TEST ? "test" : "filter",
                         n->name->len > 100 ? 100 : (int)n->name->len, n->name->p);
}

struct jj_node *jj_parse_expression(struct jj_parser *p, bool cond)
{
    if (jj_parse_enter(p) < 0) return NULL;
    p->expressions++;
    struct jj_node *n = cond ? parse_condition(p) : parse_or(p);
    p->expressions--;
    p->depth--;
    return n && jj_check_names(p) == 0 ? n : NULL;
}

static bool tuple_ends(const struct jj_parser *p, const char *end)
{
    return p->t->type == JJ_T_VAR_END || p->t->type == JJ_T_BLOCK_END || jj_at_op(p, JJ_OP_RPAREN) ||
           (end && jj_at_name(p, end));
}

struct jj_node *jj_parse_tuple(struct jj_parser *p, int flags, const char *end)
{
    unsigned line = p->t->line;
    if (tuple_ends(p, end) && !(flags & JJ_TUPLE_EMPTY)) {
        jj_parse_unexpected(p, "an expression");
        return NULL;
    }
    struct jj_node *first = tuple_ends(p, end) ? NULL : jj_parse_expression(p, flags & JJ_TUPLE_COND);
    if (p->err < 0 || (first && !jj_at_op(p, JJ_OP_COMMA))) return first;

    struct jj_node *n = jj_node_new(p, JJ_N_TUPLE, line);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    if (first && jj_list_add(p, &l, n, first) < 0) return NULL;
    while (jj_skip_op(p, JJ_OP_COMMA)) {
        if (tuple_ends(p, end)) break;
        if (jj_list_add(p, &l, n, jj_parse_expression(p, flags & JJ_TUPLE_COND)) < 0) return NULL;
    }
    return n;
}

static int parse_slice_part(struct jj_parser *p, struct jj_node *n, struct jj_node **part)
{
    if (jj_at_op(p, JJ_OP_COLON) || jj_at_op(p, JJ_OP_RBRACKET) || jj_at_op(p, JJ_OP_COMMA)) return 0;
    *part = jj_parse_expression(p, true);
    return *part ? jj_adopt(p, n, *part) : p->err;
}

/* The content of [ and ]: an expression or a slice. */
static struct jj_node *parse_subscript(struct jj_parser *p)
{
    unsigned line = p->t->line;
    struct jj_node *first = jj_at_op(p, JJ_OP_COLON) ? NULL : jj_parse_expression(p, true);
    if (p->err < 0 || !jj_skip_op(p, JJ_OP_COLON)) return first;
    struct jj_node *n = jj_node_new(p, JJ_N_SLICE, line);
    if (!n || (first && jj_adopt(p, n, first) < 0)) return NULL;
    n->a = first;
    if (parse_slice_part(p, n, &n->b) < 0) return NULL;
    if (jj_skip_op(p, JJ_OP_COLON) && parse_slice_part(p, n, &n->c) < 0) return NULL;
    return n;
}

static struct jj_node *parse_item(struct jj_parser *p, struct jj_node *of)
{
    unsigned line = p->t++->line;
    struct jj_node *sub = parse_subscript(p);
    if (sub && jj_at_op(p, JJ_OP_COMMA)) {
        struct jj_node *tuple = jj_node_new(p, JJ_N_TUPLE, line);
        struct jj_list l = {tuple ? &tuple->list : NULL, tuple ? &tuple->n : NULL};
        if (!tuple || jj_list_add(p, &l, tuple, sub) < 0) return NULL;
        while (jj_skip_op(p, JJ_OP_COMMA))
            if (jj_list_add(p, &l, tuple, parse_subscript(p)) < 0) return NULL;
        sub = tuple;
    }
    if (!sub || jj_expect_op(p, JJ_OP_RBRACKET) < 0) return NULL;
    return jj_node_binary(p, JJ_N_ITEM, JJ_OP_NONE, line, of, sub);
}

static struct jj_node *parse_attribute(struct jj_parser *p, struct jj_node *of)
{
    struct jj_node *n = wrap(p, JJ_N_ATTR, p->t++->line, of);
    if (!n) return NULL;
    if (p->t->type == JJ_T_NAME) {
        n->value = jj_string(jj_token_str(p, p->t));
        if (!n->value.s) return NULL;
    } else if (p->t->type == JJ_T_INT) {
        n->value = jj_int(p->t->i);
    } else {
        jj_parse_unexpected(p, "a name or number");
        return NULL;
    }
    p->t++;
    return n;
}

static struct jj_node *parse_call(struct jj_parser *p, struct jj_node *callee)
{
    return parse_arguments(p, wrap(p, JJ_N_CALL, p->t->line, callee));
}

static struct jj_node *parse_postfix(struct jj_parser *p, struct jj_node *n)
{
    while (n) {
        if (jj_at_op(p, JJ_OP_DOT))
            n = parse_attribute(p, n);
        else if (jj_at_op(p, JJ_OP_LBRACKET))
            n = parse_item(p, n);
        else if (jj_at_op(p, JJ_OP_LPAREN))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* One argument of a call: a, name=a, *a or **a, in this order only. */
static struct jj_node *parse_argument(struct jj_parser *p, const struct jj_node *before)
{
    unsigned line = p->t->line;
    enum jj_kind kind = JJ_N_ARG, last = before ? before->kind : JJ_N_ARG;
    const struct jj_str *name = NULL;
    if (jj_skip_op(p, JJ_OP_MUL)) {
        kind = JJ_N_STAR;
    } else if (jj_skip_op(p, JJ_OP_POW)) {
        kind = JJ_N_STARSTAR;
    } else if (p->t->type == JJ_T_NAME && p->t[1].type == JJ_T_OP && p->t[1].op == JJ_OP_ASSIGN) {
        kind = JJ_N_KWARG;
        name = jj_token_str(p, p->t);
        if (!name) return NULL;
        p->t += 2;
    }
    bool ok = kind == JJ_N_ARG     ? last == JJ_N_ARG
              : kind == JJ_N_KWARG ? last != JJ_N_STARSTAR
              : kind == JJ_N_STAR  ? last == JJ_N_ARG || last == JJ_N_KWARG
                                   : last != JJ_N_STARSTAR;
    if (!ok) {
        jj_parse_fail(p, line, "arguments in the wrong order");
        return NULL;
    }
    struct jj_node *n = wrap(p, kind, line, jj_parse_expression(p, true));
    if (n) n->name = name;
    return n;
}

/* Parses (…) into @call->list. */
static struct jj_node *parse_arguments(struct jj_parser *p, struct jj_node *call)
{
    if (!call || jj_expect_op(p, JJ_OP_LPAREN) < 0) return NULL;
    struct jj_list l = {&call->list, &call->n};
    struct jj_node *last = NULL;
    while (!jj_at_op(p, JJ_OP_RPAREN)) {
        if (last && jj_expect_op(p, JJ_OP_COMMA) < 0) return NULL;
        if (jj_at_op(p, JJ_OP_RPAREN)) break;
        last = parse_argument(p, last);
        if (jj_list_add(p, &l, call, last) < 0) return NULL;
    }
    p->t++;
    return call;
}

/* a.b.c, the name of a filter or test. */
static const struct jj_str *parse_dotted(struct jj_parser *p)
{
    const struct jj_token *first = p->t;
    do {
        if (p->t->type != JJ_T_NAME) {
            jj_parse_unexpected(p, "a name");
            return NULL;
        }
        p->t++;
    } while (jj_skip_op(p, JJ_OP_DOT));
    struct jj_token whole = *first;
    whole.len = (size_t)(p->t[-1].p + p->t[-1].len - first->p);
    return jj_token_str(p, &whole);
}

struct jj_node *jj_parse_filters(struct jj_parser *p, struct jj_node *a, bool inline_first)
{
    while (inline_first || jj_at_op(p, JJ_OP_PIPE)) {
        if (!inline_first) p->t++;
        inline_first = false;
        struct jj_node *n = jj_node_new(p, JJ_N_FILTER, p->t->line);
        if (!n || (a && jj_adopt(p, n, a) < 0)) return NULL;
        n->a = a;
        n->name = parse_dotted(p);
        if (!n->name) return NULL;
        n->fn = jj_find_filter(n->name);
        if (!n->fn && !p->soft && !p->missing) p->missing = n;
        if (jj_at_op(p, JJ_OP_LPAREN) && !parse_arguments(p, n)) return NULL;
        a = n;
    }
    return a;
}

/* True if a test's argument without parentheses follows. */
static bool bare_argument(const struct jj_parser *p)
{
    if (p->t->type == JJ_T_STRING || p->t->type == JJ_T_INT || p->t->type == JJ_T_FLOAT) return true;
    if (jj_at_op(p, JJ_OP_LBRACKET) || jj_at_op(p, JJ_OP_LBRACE)) return true;
    if (p->t->type != JJ_T_NAME) return false;
    return !jj_at_name(p, "else") && !jj_at_name(p, "or") && !jj_at_name(p, "and");
}

static struct jj_node *parse_test(struct jj_parser *p, struct jj_node *a)
{
    unsigned line = p->t++->line;
    bool negated = jj_skip_name(p, "not");
    struct jj_node *n = wrap(p, JJ_N_TEST, line, a);
    if (!n) return NULL;
    n->name = parse_dotted(p);
    if (!n->name) return NULL;
    n->fn = jj_find_test(n->name);
    if (!n->fn && !p->soft && !p->missing) p->missing = n;
    if (jj_at_op(p, JJ_OP_LPAREN)) {
        if (!parse_arguments(p, n)) return NULL;
    } else if (bare_argument(p)) {
        if (jj_at_name(p, "is")) {
            jj_parse_fail(p, line, "tests cannot be chained with is");
            return NULL;
        }
        struct jj_list l = {&n->list, &n->n};
        struct jj_node *arg = parse_postfix(p, jj_parse_primary(p));
        if (jj_list_add(p, &l, n, wrap(p, JJ_N_ARG, line, arg)) < 0) return NULL;
    }
    return negated ? wrap(p, JJ_N_NOT, line, n) : n;
}

static struct jj_node *parse_unary(struct jj_parser *p, bool filters)
{
    struct jj_node *n;
    if (jj_at_op(p, JJ_OP_SUB) || jj_at_op(p, JJ_OP_ADD)) {
        const struct jj_token *t = p->t++;
        if (jj_parse_enter(p) < 0) return NULL;
        n = wrap(p, JJ_N_UNARY, t->line, parse_unary(p, false));
        p->depth--;
        if (n) n->op = t->op;
    } else {
        n = jj_parse_primary(p);
    }
    n = parse_postfix(p, n);
    while (filters && n) {
        if (jj_at_op(p, JJ_OP_PIPE))
            n = jj_parse_filters(p, n, false);
        else if (jj_at_name(p, "is"))
            n = parse_test(p, n);
        else if (jj_at_op(p, JJ_OP_LPAREN))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}
