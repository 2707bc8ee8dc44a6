/* SPDX-License-Identifier: MIT */
#include "tests/text/schema/schema-check.h"
#include "daemon/text/grammar/grammar.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <stdlib.h>
#include <string.h>

static char *with_quotes(const char *s)
{
    char *copy = strdup(s);
    assert_non_null(copy);
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    return copy;
}

static int compile(const char *schema, const struct schema_options *o, struct grammar **out)
{
    struct grammar_builder *b;
    expr_t root;
    char *json = with_quotes(schema);
    assert_int_equal(grammar_builder_new(&b), 0);
    int r = schema_expr(b, json, strlen(json), o, NULL, &root);
    if (r == 0) r = grammar_build(out, b, root);
    grammar_builder_free(b);
    free(json);
    return r;
}

static bool takes(struct grammar *g, const char *text)
{
    struct grammar_state *st;
    char *json = with_quotes(text);
    assert_int_equal(grammar_state_new(&st, g), 0);
    int r = grammar_state_accept_bytes(st, json, strlen(json));
    assert_true(r >= 0);
    bool accepted = r == 1 && grammar_state_is_accepted(st);
    grammar_state_free(st);
    free(json);
    return accepted;
}

void schema_check(const struct schema_case *cases, size_t n, const struct schema_options *o)
{
    for (size_t i = 0; i < n; i++) {
        const struct schema_case *c = &cases[i];
        struct grammar *g = NULL;
        int r = compile(c->schema, o, &g);
        if (r < 0) fail_msg("%s: %s", c->schema, error_text(r));
        for (size_t k = 0; k < 16 && c->accepts[k]; k++)
            if (!takes(g, c->accepts[k])) fail_msg("%s does not accept %s", c->schema, c->accepts[k]);
        for (size_t k = 0; k < 16 && c->rejects[k]; k++)
            if (takes(g, c->rejects[k])) fail_msg("%s does not reject %s", c->schema, c->rejects[k]);
        grammar_unref(g);
    }
}

void schema_check_refused(const char *schema, int err, const char *why)
{
    struct grammar *g = NULL;
    int r = compile(schema, &(struct schema_options){0}, &g);
    grammar_unref(g);
    if (r != err) fail_msg("%s: %d instead of %d", schema, r, err);
    if (!strstr(error_text(r), why)) fail_msg("%s: \"%s\" without \"%s\"", schema, error_text(r), why);
}
