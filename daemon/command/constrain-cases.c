/* SPDX-License-Identifier: MIT */
/* hobd constrain --cases: a line {"id", "schema", "tests": [{"valid", "data"}]} gives a line of results. */
#include "daemon/command/command.h"
#include "daemon/command/constrain.h"
#include "daemon/text/schema/json-tree.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct grammar *, grammar_unref)

/* The value as it is written, without white space. */
static int compact(const struct tree *v, struct buf *out)
{
    bool in_string = false;
    buf_clear(out);
    int r = buf_reserve(out, v->source_len + 1);
    if (r < 0) return error_origin(r);
    for (size_t i = 0; i < v->source_len; i++) {
        char c = v->source[i];
        if (!in_string && strchr(" \t\r\n", c)) continue;
        if (c == '"') in_string = !in_string;
        out->data[out->len++] = c;
        if (c == '\\') out->data[out->len++] = v->source[++i];
    }
    return 0;
}

/* Feeds the data of each test. A text that the limits leave undecided counts as not accepted. */
static int feed(struct constrain *c, struct grammar *g, const struct tree *tests, struct constrain_times *times,
                json_t *results)
{
    _cleanup_(buf_fini) struct buf text = BUF_INIT;
    for (uint32_t i = 0; i < tests->count; i++) {
        struct constrain_result res = {0};
        const struct tree *data = tree_get(tests->child[i], "data");
        if (!data) return error_say(-EBADMSG, "a test without data");
        int r = compact(data, &text);
        if (r == 0) r = constrain_feed(c, g, text.data, text.len, &res);
        for (size_t k = 0; k < res.times.n && r >= 0; k++) r = constrain_time(times, res.times.us[k]);
        free(res.times.us);
        if (r < 0 && r != -E2BIG) return r;
        if (json_array_append_new(results, json_boolean(r == 0 && res.accepted)) < 0) return error_origin(-ENOMEM);
    }
    return 0;
}

/* How many masks took less than 1 us, sqrt(2) us, 2 us, … but not less than the bound before: an array up to the last
 * that has any. The times are sorted. */
static json_t *counts_of_times(const struct constrain_times *t)
{
    json_t *out = json_array();
    double bound = 1;
    for (size_t i = 0, n; out && i < t->n; i += n, bound *= M_SQRT2) {
        for (n = 0; i + n < t->n && t->us[i + n] < bound;) n++;
        if (json_array_append_new(out, json_integer((json_int_t)n)) == 0) continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}

static int print_case(const struct tree *id, const char *error, double compile_us, struct constrain_times *times,
                      json_t *results)
{
    double us[3];
    constrain_percentiles(times, us);
    json_t *name = id && id->kind == TREE_STRING ? json_stringn(id->text, id->count) : json_null();
    _cleanup_(json_decrefp) json_t *o = json_pack(
        "{s:o, s:b, s:s?, s:f, s:[f,f,f], s:o, s:O}", "id", name, "compiled", !error, "error", error, "compile_us",
        compile_us, "mask_us", us[0], us[1], us[2], "mask_counts", counts_of_times(times), "results", results);
    _cleanup_(freep) char *text = o ? json_dumps(o, JSON_REAL_PRECISION(6)) : NULL;
    if (!text) return error_origin(-ENOMEM);
    int r = command_print(text, strlen(text));
    return r < 0 ? r : command_print("\n", 1);
}

static int run_case(struct constrain *c, const struct constrain_options *o, const struct tree *line)
{
    const struct tree *schema = tree_get(line, "schema"), *tests = tree_get(line, "tests");
    _cleanup_(grammar_unrefp) struct grammar *g = NULL;
    _cleanup_(json_decrefp) json_t *results = json_array();
    struct constrain_times times = {0};
    double compile_us;
    if (!results) return error_origin(-ENOMEM);
    if (!schema || !tests || tests->kind != TREE_ARRAY) return error_say(-EBADMSG, "no schema or no tests");
    int r = constrain_compile_schema(o, schema->source, schema->source_len, &g, &compile_us);
    if (r == -ENOMEM) return r;
    if (r < 0) return print_case(tree_get(line, "id"), error_text(r), compile_us, &times, results);
    r = feed(c, g, tests, &times, results);
    if (r == 0) r = print_case(tree_get(line, "id"), NULL, compile_us, &times, results);
    free(times.us);
    return r;
}

int constrain_cases(struct constrain *c, const struct constrain_options *o)
{
    _cleanup_(fclosep) FILE *f = fopen(o->cases, "re");
    _cleanup_(freep) char *text = NULL;
    size_t cap = 0, number = 0;
    ssize_t n;
    if (!f) return error_say(-errno, "%s: %s", o->cases, strerror(errno));
    while ((n = getline(&text, &cap, f)) >= 0) {
        struct jj_arena arena = {0};
        struct tree *line;
        number++;
        if (strspn(text, " \t\r\n") == (size_t)n) continue;
        int r = tree_parse(&arena, text, (size_t)n, &line);
        if (r == 0) r = run_case(c, o, line);
        jj_arena_fini(&arena);
        if (r < 0) return error_in(r, "%s: line %zu", o->cases, number);
    }
    return ferror(f) ? error_say(-EIO, "%s: not read to its end", o->cases) : 0;
}
