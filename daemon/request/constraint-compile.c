/* SPDX-License-Identifier: MIT */
#include "daemon/request/constraint.h"
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/regex-syntax.h"
#include "daemon/text/schema/schema.h"
#include "libcommon/error.h"
#include <stdlib.h>

static int choice(struct grammar_builder *b, const struct proto_constraint *p, expr_t *root)
{
    expr_t *e = calloc(p->n_choices, sizeof(*e));
    if (!e) return error_origin(-ENOMEM);
    for (size_t i = 0; i < p->n_choices; i++) e[i] = expr_bytes(b, p->choices[i].data, p->choices[i].len);
    *root = expr_alt(b, e, p->n_choices);
    free(e);
    return builder_status(b);
}

static int parse(struct grammar_builder *b, const struct constraint_source *s, const struct tokenizer *t,
                 struct buf *ignored, expr_t *root)
{
    const struct proto_constraint *p = s->constraint;
    if (!p) return tool_grammar_expr(b, s->tools, root);
    const struct schema_options options = {p->any_order, p->compact, p->schema_lenient};
    switch (p->type) {
    case PROTO_CONSTRAINT_CHOICE:
        return choice(b, p, root);
    case PROTO_CONSTRAINT_GRAMMAR:
        return gbnf_parse(b, p->text.data, p->text.len, t, root);
    case PROTO_CONSTRAINT_REGEX:
        return regex_parse(b, p->text.data, p->text.len, root);
    default:
        return schema_expr(b, p->text.data, p->text.len, &options, ignored, root);
    }
}

int constraint_compile(struct grammar **out, const struct constraint_source *s, const struct tokenizer *t,
                       struct grammar_memory *memory, struct buf *ignored)
{
    struct grammar_builder *b;
    expr_t root;
    int r = grammar_builder_new(&b);
    if (r < 0) return error_origin(r);
    grammar_builder_set_memory(b, memory);
    r = parse(b, s, t, ignored, &root);
    if (r == 0) r = grammar_build(out, b, root);
    grammar_builder_free(b);
    return r;
}
