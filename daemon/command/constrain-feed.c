/* SPDX-License-Identifier: MIT */
/* hobd constrain: compiling a constraint, and feeding a text to it. */
#include "daemon/command/constrain.h"
#include "daemon/command/tool.h"
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/regex-syntax.h"
#include "daemon/text/schema/schema.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct grammar_builder *, grammar_builder_free)
DEFINE_CLEANUP(struct grammar_state *, grammar_state_free)

static int parse_schema(const struct constrain_options *o, const char *s, size_t n, struct grammar_builder *b,
                        expr_t *root)
{
    _cleanup_(buf_fini) struct buf ignored = BUF_INIT;
    struct schema_options how = {.any_order = o->any_order || o->cases, .compact = o->compact, .lenient = o->lenient};
    int r = schema_expr(b, s, n, &how, &ignored, root);
    if (r == 0 && ignored.len) fprintf(stderr, "hobd constrain: ignored:\n%s", ignored.data);
    return r;
}

/* The expression of the constraint in @b. */
static int parse_constraint(const struct constrain *c, const struct constrain_options *o, struct grammar_builder *b,
                            expr_t *root)
{
    if (o->regex) {
        int r = regex_parse(b, o->regex, strlen(o->regex), root);
        return r < 0 ? error_in(r, "--regex") : 0;
    }
    _cleanup_(freep) char *text = NULL;
    const char *file = o->schema ? o->schema : o->grammar;
    size_t n;
    int r = tool_read_file(file, &text, &n);
    if (r < 0) return r;
    r = o->schema ? parse_schema(o, text, n, b, root) : gbnf_parse(b, text, n, c->tokenizer, root);
    return r < 0 ? error_in(r, "%s", file) : 0;
}

int constrain_compile_schema(const struct constrain_options *o, const char *s, size_t n, struct grammar **out,
                             double *us)
{
    _cleanup_(grammar_builder_freep) struct grammar_builder *b = NULL;
    double begin = tool_now();
    expr_t root;
    int r = grammar_builder_new(&b);
    if (r == 0) r = parse_schema(o, s, n, b, &root);
    if (r == 0) r = grammar_build(out, b, root);
    *us = (tool_now() - begin) * 1e6;
    return r;
}

int constrain_compile(const struct constrain *c, const struct constrain_options *o, struct grammar **out, double *us)
{
    _cleanup_(grammar_builder_freep) struct grammar_builder *b = NULL;
    double begin = tool_now();
    expr_t root;
    int r = grammar_builder_new(&b);
    if (r == 0) r = parse_constraint(c, o, b, &root);
    if (r == 0) r = grammar_build(out, b, root);
    *us = (tool_now() - begin) * 1e6;
    return r;
}

int constrain_time(struct constrain_times *t, double us)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        double *v = reallocarray(t->us, cap, sizeof(*v));
        if (!v) return error_origin(-ENOMEM);
        t->us = v;
        t->cap = cap;
    }
    t->us[t->n++] = us;
    return 0;
}

static int make_mask(struct constrain *c, struct grammar_state *st, struct constrain_times *t)
{
    double begin = tool_now();
    int r = grammar_state_mask(st, c->trie, c->mask);
    return r < 0 ? r : constrain_time(t, (tool_now() - begin) * 1e6);
}

/* How many bytes of a refused token may stand. */
static size_t allowed_bytes(struct grammar_state *st, const char *s, size_t n)
{
    size_t k = 0;
    while (k < n && grammar_state_accept_bytes(st, s + k, 1) == 1) k++;
    return k;
}

/* 1: the token is accepted; 0: refused. */
static int feed_token(struct constrain *c, struct grammar_state *st, int32_t id, struct constrain_result *out)
{
    int r = make_mask(c, st, &out->times);
    if (r < 0) return r;
    int in = c->mask[id >> 6] >> (id & 63) & 1;
    r = grammar_state_accept_token(st, c->trie, id);
    if (r >= 0 && r != in) return error_say(-EPROTO, "the mask and the grammar differ at token %d", (int)id);
    return r;
}

int constrain_feed(struct constrain *c, struct grammar *g, const char *text, size_t n, struct constrain_result *out)
{
    _cleanup_(grammar_state_freep) struct grammar_state *st = NULL;
    _cleanup_(text_fini) struct text t = {0};
    _cleanup_(tokens_fini) struct tokens ids = {0};
    *out = (struct constrain_result){0};
    int r = text_append(&t, text, n, false);
    if (r == 0) r = tokenizer_encode(c->tokenizer, &t, 0, false, &ids);
    if (r == 0) r = grammar_state_new(&st, g);
    if (r < 0) return r;
    out->tokens = ids.n;
    for (size_t i = 0; i < ids.n; i++) {
        size_t len;
        const char *s = token_trie_text(c->trie, ids.ids[i], &len);
        r = feed_token(c, st, ids.ids[i], out);
        if (r < 0) return r;
        if (r == 0) {
            out->at += allowed_bytes(st, s, len);
            return 0;
        }
        out->at += len;
    }
    out->accepted = grammar_state_is_accepted(st);
    return make_mask(c, st, &out->times);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void constrain_percentiles(struct constrain_times *t, double out[3])
{
    out[0] = out[1] = out[2] = 0;
    if (t->n == 0) return;
    qsort(t->us, t->n, sizeof(*t->us), compare);
    out[0] = t->us[t->n / 2];
    out[1] = t->us[t->n * 99 / 100];
    out[2] = t->us[t->n - 1];
}
