/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema.h"
#include "daemon/text/schema/schema-core.h"
#include "libcommon/error.h"
#include <string.h>

/* The draft that $schema names; 0: unknown. */
static unsigned draft_of(const struct tree *uri)
{
    static const struct {
        const char *name;
        unsigned draft;
    } all[] = {{"json-schema.org/draft-04/schema", 4},         {"json-schema.org/draft-06/schema", 6},
               {"json-schema.org/draft-07/schema", 7},         {"json-schema.org/draft/2019-09/schema", 2019},
               {"json-schema.org/draft/2020-12/schema", 2020}, {"json-schema.org/schema", 2020}};
    size_t n = uri->count, skip = 0;
    if (n > 0 && uri->text[n - 1] == '#') n--;
    if (n > 8 && memcmp(uri->text, "https://", 8) == 0) skip = 8;
    if (n > 7 && memcmp(uri->text, "http://", 7) == 0) skip = 7;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (n - skip == strlen(all[i].name) && memcmp(uri->text + skip, all[i].name, n - skip) == 0)
            return all[i].draft;
    return 0;
}

static void find_draft(struct schema *c)
{
    const struct tree *uri = tree_get(c->root, "$schema");
    c->draft = uri && uri->kind == TREE_STRING ? draft_of(uri) : 2020;
    if (c->draft == 0 && schema_refuse(c, uri, "\"%.*s\" is not a known dialect", (int)uri->count, uri->text))
        c->draft = 2020;
}

/* The white space between the parts. Its length is bounded, so that it cannot run away. */
static void make_spaces(struct schema *c)
{
    struct grammar_builder *b = c->b;
    expr_t empty = expr_empty(b), space = expr_bytes(b, " ", 1);
    expr_t line = expr_seq(b, (expr_t[]){expr_bytes(b, "\n", 1), expr_repeat(b, space, 0, SCHEMA_INDENT_MAX)}, 2);
    expr_t gap = c->options.compact ? empty : expr_alt(b, (expr_t[]){empty, line}, 2);
    expr_t any = c->options.compact ? empty : expr_alt(b, (expr_t[]){empty, space, line}, 3);
    expr_t one = c->options.compact ? empty : expr_alt(b, (expr_t[]){empty, space}, 2);
    c->comma = expr_seq(b, (expr_t[]){expr_bytes(b, ",", 1), any}, 2);
    c->colon = expr_seq(b, (expr_t[]){expr_bytes(b, ":", 1), one}, 2);
    c->open_array = expr_seq(b, (expr_t[]){expr_bytes(b, "[", 1), gap}, 2);
    c->close_array = expr_seq(b, (expr_t[]){gap, expr_bytes(b, "]", 1)}, 2);
    c->open_object = expr_seq(b, (expr_t[]){expr_bytes(b, "{", 1), gap}, 2);
    c->close_object = expr_seq(b, (expr_t[]){gap, expr_bytes(b, "}", 1)}, 2);
}

/* @strings: only strings are wanted, in the raw form. */
static int compile(struct grammar_builder *b, const char *s, size_t n, const struct schema_options *o, bool strings,
                   struct buf *ignored, expr_t *out)
{
    struct schema c = {
        .b = b, .budget = {SCHEMA_BYTES_MAX}, .options = *o, .ignored = ignored, .any_value = EXPR_ERROR};
    struct tree *root = NULL;
    c.arena.budget = &c.budget;
    c.always = (struct tree){.kind = TREE_TRUE, .id = UINT32_MAX};
    c.never = (struct tree){.kind = TREE_FALSE, .id = UINT32_MAX - 1};
    c.err = tree_parse(&c.arena, s, n, &root);
    if (c.err == 0) {
        c.root = c.at = root;
        const struct demand all = {NULL, root, false};
        spelling_init(&c.spelling, b, strings);
        find_draft(&c);
        make_spaces(&c);
        *out = strings ? schema_compile_name(&c, &all) : schema_compile(&c, &all);
    }
    jj_arena_fini(&c.arena);
    if (c.err == 0 && builder_status(b) < 0) return builder_status(b);
    if (c.err == 0 && *out == expr_none(b)) return error_say(-EINVAL, "no value satisfies the schema");
    return c.err;
}

int schema_expr(struct grammar_builder *b, const char *s, size_t n, const struct schema_options *o, struct buf *ignored,
                expr_t *out)
{
    return compile(b, s, n, o, false, ignored, out);
}

int schema_string_expr(struct grammar_builder *b, const char *s, size_t n, expr_t *out)
{
    return compile(b, s, n, &(struct schema_options){0}, true, NULL, out);
}
