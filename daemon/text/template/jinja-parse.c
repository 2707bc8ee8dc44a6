/* SPDX-License-Identifier: MIT */
/* The statements of the parser. */
#include "daemon/text/template/jinja-parse.h"
#include "daemon/text/template/jinja-str.h"
#include "libcommon/error.h"
#include <stdlib.h>

static int parse_body(struct jj_parser *p, struct jj_node *parent, struct jj_list l, const struct jj_token *opening,
                      const char *const *ends);

static int expect_end(struct jj_parser *p)
{
    if (p->t->type != JJ_T_BLOCK_END) return jj_parse_unexpected(p, "%}");
    p->t++;
    return 0;
}

static struct jj_node *parse_target_name(struct jj_parser *p, bool ns)
{
    static const char *const reserved[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < 6; i++) {
        if (!jj_at_name(p, reserved[i])) continue;
        jj_parse_fail(p, p->t->line, "cannot assign to '%s'", reserved[i]);
        return NULL;
    }
    if (p->t->type != JJ_T_NAME) {
        jj_parse_unexpected(p, "a name to assign to");
        return NULL;
    }
    struct jj_node *n = jj_node_new(p, JJ_N_NAME, p->t->line);
    if (!n || !(n->name = jj_token_str(p, p->t))) return NULL;
    p->t++;
    if (!ns || !jj_skip_op(p, JJ_OP_DOT)) return n;
    if (p->t->type != JJ_T_NAME) {
        jj_parse_unexpected(p, "a name");
        return NULL;
    }
    n->kind = JJ_N_NSREF;
    n->value = jj_string(jj_token_str(p, p->t));
    p->t++;
    return n->value.s ? n : NULL;
}

/* One target: a name, or targets in parentheses. */
static struct jj_node *parse_one_target(struct jj_parser *p, bool ns)
{
    if (!jj_skip_op(p, JJ_OP_LPAREN)) return parse_target_name(p, ns);
    if (jj_parse_enter(p) < 0) return NULL;
    struct jj_node *n = jj_parse_target(p, ns, NULL);
    p->depth--;
    return n && jj_expect_op(p, JJ_OP_RPAREN) == 0 ? n : NULL;
}

struct jj_node *jj_parse_target(struct jj_parser *p, bool ns, const char *end)
{
    unsigned line = p->t->line;
    struct jj_node *first = parse_one_target(p, ns);
    if (!first || !jj_at_op(p, JJ_OP_COMMA)) return first;
    struct jj_node *n = jj_node_new(p, JJ_N_TUPLE, line);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    if (jj_list_add(p, &l, n, first) < 0) return NULL;
    while (jj_skip_op(p, JJ_OP_COMMA)) {
        if (p->t->type != JJ_T_NAME && !jj_at_op(p, JJ_OP_LPAREN)) break;
        if (end && jj_at_name(p, end)) break;
        if (jj_list_add(p, &l, n, parse_one_target(p, ns)) < 0) return NULL;
    }
    return n;
}

/* Parses a body with a scope of its own. Its filters are looked up at once. break and continue in it do not belong to
 * an enclosing loop. */
static int parse_scope(struct jj_parser *p, struct jj_node *n, const struct jj_token *opening, const char *end,
                       bool in_loop)
{
    bool soft = p->soft, loop = p->in_loop;
    p->soft = false;
    p->in_loop = in_loop;
    int r = parse_body(p, n, (struct jj_list){&n->list, &n->n}, opening, (const char *const[]){end, NULL});
    p->soft = soft;
    p->in_loop = loop;
    if (r == 0) p->t++;
    return r;
}

static struct jj_node *parse_if(struct jj_parser *p, const struct jj_token *opening)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const endif[] = {"endif", NULL};
    struct jj_node *n = jj_node_new(p, JJ_N_IF, opening->line);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    bool soft = p->soft, more = true;
    p->soft = true;
    for (bool last = false; more; more = !last && !jj_at_name(p, "endif")) {
        struct jj_node *branch = jj_node_new(p, JJ_N_PAIR, p->t->line);
        if (!branch) return NULL;
        if (n->n && jj_skip_name(p, "else")) {
            last = true;
        } else {
            if (n->n) p->t++; /* elif */
            branch->a = jj_parse_tuple(p, 0, NULL);
            if (!branch->a || jj_adopt(p, branch, branch->a) < 0) return NULL;
        }
        uint32_t ignored;
        if (parse_body(p, branch, (struct jj_list){&branch->b, &ignored}, opening, last ? endif : ends) < 0)
            return NULL;
        if (jj_list_add(p, &l, n, branch) < 0) return NULL;
    }
    p->t++;
    p->soft = soft;
    return n;
}

static struct jj_node *parse_for(struct jj_parser *p, const struct jj_token *opening)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jj_node *n = jj_node_new(p, JJ_N_FOR, opening->line);
    if (!n || !(n->a = jj_parse_target(p, false, "in"))) return NULL;
    if (!jj_skip_name(p, "in")) {
        jj_parse_unexpected(p, "'in'");
        return NULL;
    }
    if (!(n->b = jj_parse_tuple(p, 0, "recursive")) || jj_adopt(p, n, n->b) < 0) return NULL;
    if (jj_skip_name(p, "if") && (!(n->c = jj_parse_expression(p, true)) || jj_adopt(p, n, n->c) < 0)) return NULL;
    n->flag = jj_skip_name(p, "recursive");

    bool soft = p->soft, loop = p->in_loop;
    p->soft = false;
    p->in_loop = true;
    int r = parse_body(p, n, (struct jj_list){&n->list, &n->n}, opening, ends);
    p->in_loop = loop;
    uint32_t ignored;
    if (r == 0 && jj_skip_name(p, "else")) r = parse_body(p, n, (struct jj_list){&n->d, &ignored}, opening, ends + 1);
    p->soft = soft;
    if (r < 0) return NULL;
    p->t++;
    return n;
}

static struct jj_node *parse_set(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_SET, opening->line);
    if (!n || !(n->a = jj_parse_target(p, true, NULL))) return NULL;
    if (jj_skip_op(p, JJ_OP_ASSIGN)) {
        n->b = jj_parse_tuple(p, JJ_TUPLE_COND, NULL);
        return n->b && jj_adopt(p, n, n->b) == 0 ? n : NULL;
    }
    n->kind = JJ_N_SET_BLOCK;
    n->b = jj_parse_filters(p, NULL, false);
    if (p->err < 0 || jj_check_names(p) < 0 || (n->b && jj_adopt(p, n, n->b) < 0)) return NULL;
    return parse_scope(p, n, opening, "endset", false) < 0 ? NULL : n;
}

/* Parses (a, b=1) into n->d. */
static int parse_params(struct jj_parser *p, struct jj_node *n)
{
    uint32_t count = 0;
    struct jj_list l = {&n->d, &count};
    bool defaults = false;
    if (jj_expect_op(p, JJ_OP_LPAREN) < 0) return p->err;
    while (!jj_at_op(p, JJ_OP_RPAREN)) {
        if (count && jj_expect_op(p, JJ_OP_COMMA) < 0) return p->err;
        if (jj_at_op(p, JJ_OP_RPAREN)) break;
        struct jj_node *param = parse_target_name(p, false);
        if (!param) return p->err;
        param->kind = JJ_N_PARAM;
        if (jj_skip_op(p, JJ_OP_ASSIGN)) {
            defaults = true;
            if (!(param->a = jj_parse_expression(p, true)) || jj_adopt(p, param, param->a) < 0) return p->err;
        } else if (defaults) {
            return jj_parse_fail(p, param->line, "a parameter without a default after one with a default");
        }
        if (jj_list_add(p, &l, n, param) < 0) return p->err;
    }
    p->t++;
    return 0;
}

/* The body of a macro or caller. The enclosing macro also uses the variables that the body uses. */
static int parse_macro_body(struct jj_parser *p, struct jj_node *macro, const struct jj_token *opening, const char *end)
{
    uint8_t outer = p->uses;
    p->uses = 0;
    int r = parse_scope(p, macro, opening, end, false);
    macro->uses = p->uses;
    p->uses |= outer;
    return r;
}

static struct jj_node *parse_macro(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_MACRO, opening->line);
    struct jj_node *name = n ? parse_target_name(p, false) : NULL;
    if (!name) return NULL;
    n->name = name->name;
    if (parse_params(p, n) < 0 || parse_macro_body(p, n, opening, "endmacro") < 0) return NULL;
    return n;
}

static struct jj_node *parse_call_block(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_CALL_BLOCK, opening->line);
    struct jj_node *caller = n ? jj_node_new(p, JJ_N_MACRO, opening->line) : NULL;
    if (!caller) return NULL;
    if (jj_at_op(p, JJ_OP_LPAREN) && parse_params(p, caller) < 0) return NULL;
    unsigned line = p->t->line;
    n->a = jj_parse_expression(p, true);
    if (!n->a) return NULL;
    if (n->a->kind != JJ_N_CALL) {
        jj_parse_fail(p, line, "expected a call");
        return NULL;
    }
    if (parse_macro_body(p, caller, opening, "endcall") < 0) return NULL;
    n->b = caller;
    return jj_adopt(p, n, n->a) == 0 && jj_adopt(p, n, caller) == 0 ? n : NULL;
}

static struct jj_node *parse_filter_block(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_FILTER_BLOCK, opening->line);
    if (!n || !(n->b = jj_parse_filters(p, NULL, true)) || jj_check_names(p) < 0 || jj_adopt(p, n, n->b) < 0)
        return NULL;
    return parse_scope(p, n, opening, "endfilter", false) < 0 ? NULL : n;
}

static struct jj_node *parse_with(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_WITH, opening->line);
    if (!n) return NULL;
    uint32_t count = 0;
    struct jj_list l = {&n->d, &count};
    while (p->t->type != JJ_T_BLOCK_END) {
        if (count && jj_expect_op(p, JJ_OP_COMMA) < 0) return NULL;
        struct jj_node *pair = jj_node_new(p, JJ_N_PAIR, p->t->line);
        if (!pair || !(pair->a = parse_one_target(p, false)) || jj_expect_op(p, JJ_OP_ASSIGN) < 0) return NULL;
        if (!(pair->b = jj_parse_expression(p, true)) || jj_adopt(p, pair, pair->b) < 0) return NULL;
        if (jj_list_add(p, &l, n, pair) < 0) return NULL;
    }
    return parse_scope(p, n, opening, "endwith", p->in_loop) < 0 ? NULL : n;
}

static struct jj_node *parse_autoescape(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_AUTOESCAPE, opening->line);
    if (!n || !(n->a = jj_parse_expression(p, true)) || jj_adopt(p, n, n->a) < 0) return NULL;
    return parse_scope(p, n, opening, "endautoescape", p->in_loop) < 0 ? NULL : n;
}

/* Templates have no parents. A block is rendered at its position, and where self calls it. */
static struct jj_node *parse_block(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_BLOCK, opening->line);
    struct jj_node *name = n ? parse_target_name(p, false) : NULL;
    struct jj_node *macro = name ? jj_node_new(p, JJ_N_MACRO, opening->line) : NULL;
    if (!macro) return NULL;
    macro->name = name->name;
    if (jj_block_add(p, macro) < 0) return NULL;
    n->flag = jj_skip_name(p, "scoped");
    if (parse_scope(p, n, opening, "endblock", false) < 0) return NULL;
    macro->list = n->list;
    if (p->t->type == JJ_T_NAME && p->t->len == name->name->len && !memcmp(p->t->p, name->name->p, p->t->len)) p->t++;
    return n;
}

static struct jj_node *parse_generation(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_SCOPE, opening->line);
    return n && parse_scope(p, n, opening, "endgeneration", false) == 0 ? n : NULL;
}

/* {% print a, b %} */
static struct jj_node *parse_print(struct jj_parser *p, const struct jj_token *opening)
{
    struct jj_node *n = jj_node_new(p, JJ_N_SCOPE, opening->line);
    if (!n) return NULL;
    struct jj_list l = {&n->list, &n->n};
    while (p->t->type != JJ_T_BLOCK_END) {
        if (n->n && jj_expect_op(p, JJ_OP_COMMA) < 0) return NULL;
        struct jj_node *o = jj_node_new(p, JJ_N_OUTPUT, p->t->line);
        if (!o || !(o->a = jj_parse_expression(p, true)) || jj_adopt(p, o, o->a) < 0) return NULL;
        if (jj_list_add(p, &l, n, o) < 0) return NULL;
    }
    return n;
}

static struct jj_node *parse_jump(struct jj_parser *p, const struct jj_token *opening)
{
    enum jj_kind kind = opening->p[0] == 'b' ? JJ_N_BREAK : JJ_N_CONTINUE;
    if (p->in_loop) return jj_node_new(p, kind, opening->line);
    jj_parse_fail(p, opening->line, "'%s' outside of a loop", kind == JJ_N_BREAK ? "break" : "continue");
    return NULL;
}

static struct jj_node *parse_unavailable(struct jj_parser *p, const struct jj_token *opening)
{
    jj_parse_fail(p, opening->line, "'%.*s' is not supported: it needs another template", (int)opening->len,
                  opening->p);
    return NULL;
}

static struct jj_node *parse_statement(struct jj_parser *p)
{
    static const struct {
        const char *tag;
        struct jj_node *(*parse)(struct jj_parser *, const struct jj_token *);
    } tags[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"autoescape", parse_autoescape},
        {"block", parse_block},
        {"generation", parse_generation},
        {"print", parse_print},
        {"break", parse_jump},
        {"continue", parse_jump},
        {"include", parse_unavailable},
        {"import", parse_unavailable},
        {"from", parse_unavailable},
        {"extends", parse_unavailable},
    };
    const struct jj_token *t = p->t;
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        if (jj_skip_name(p, tags[i].tag)) return tags[i].parse(p, t);
    if (t->type == JJ_T_NAME)
        jj_parse_fail(p, t->line, "unknown tag '%.*s'", t->len > 50 ? 50 : (int)t->len, t->p);
    else
        jj_parse_unexpected(p, "the name of a tag");
    return NULL;
}

static struct jj_node *parse_output(struct jj_parser *p)
{
    struct jj_node *n = jj_node_new(p, JJ_N_OUTPUT, p->t++->line);
    if (!n || !(n->a = jj_parse_tuple(p, JJ_TUPLE_COND, NULL)) || jj_adopt(p, n, n->a) < 0) return NULL;
    if (p->t->type != JJ_T_VAR_END) {
        jj_parse_unexpected(p, "}}");
        return NULL;
    }
    p->t++;
    return n;
}

static struct jj_node *parse_data(struct jj_parser *p)
{
    struct jj_node *n = jj_node_new(p, JJ_N_DATA, p->t->line);
    if (!n) return NULL;
    n->value = jj_string(jj_token_str(p, p->t++));
    return n->value.s ? n : NULL;
}

static bool at_end_tag(const struct jj_parser *p, const char *const *ends)
{
    while (ends && *ends)
        if (jj_at_name(p, *ends++)) return true;
    return false;
}

/* Parses statements into @l until one of @ends, which becomes the current token (NULL: until the end of the template).
 */
static int parse_statements(struct jj_parser *p, struct jj_node *parent, struct jj_list *l,
                            const struct jj_token *opening, const char *const *ends)
{
    for (;;) {
        struct jj_node *n;
        if (p->t->type == JJ_T_EOF) {
            if (!ends) return 0;
            while (ends[1]) ends++; /* the last of @ends is the mandatory one */
            return jj_parse_fail(p, opening->line, "'%.*s' is not closed: '%s' is missing", (int)opening->len,
                                 opening->p, *ends);
        } else if (p->t->type == JJ_T_DATA) {
            n = parse_data(p);
        } else if (p->t->type == JJ_T_VAR_BEGIN) {
            n = parse_output(p);
        } else {
            p->t++; /* {% */
            if (at_end_tag(p, ends)) return 0;
            n = parse_statement(p);
            if (n && expect_end(p) < 0) return p->err;
        }
        int r = jj_list_add(p, l, parent, n);
        if (r < 0) return r;
    }
}

static int parse_body(struct jj_parser *p, struct jj_node *parent, struct jj_list l, const struct jj_token *opening,
                      const char *const *ends)
{
    if (opening) {
        jj_skip_op(p, JJ_OP_COLON);
        if (expect_end(p) < 0) return p->err;
    }
    if (jj_parse_enter(p) < 0) return p->err;
    int r = parse_statements(p, parent, &l, opening, ends);
    p->depth--;
    return r;
}

int jj_parse(struct jj_arena *a, const char *src, size_t len, struct jj_node **out)
{
    struct jj_tokens tokens = {0};
    if (len > TEMPLATE_SOURCE_MAX)
        return error_say(-E2BIG, "a template of %zu bytes is too long (at most %u)", len, TEMPLATE_SOURCE_MAX);
    int r = jj_lex(a, src, len, &tokens);
    if (r == 0) {
        struct jj_parser p = {.arena = a, .t = tokens.v};
        struct jj_node *root = jj_node_new(&p, JJ_N_SCOPE, 1);
        r = root ? parse_body(&p, root, (struct jj_list){&root->list, &root->n}, NULL, NULL) : p.err;
        struct jj_node *self = r == 0 && p.self ? jj_node_new(&p, JJ_N_SELF, 1) : NULL;
        if (self) {
            self->list = p.blocks;
            self->next = root->list;
            root->list = self;
        }
        if (r == 0) r = p.err;
        if (r == 0) *out = root->list;
    }
    free(tokens.v);
    return r;
}
