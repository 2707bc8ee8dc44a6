/* SPDX-License-Identifier: MIT */
/* The table of filters, and the filters on text and numbers. */
#include "daemon/text/template/jinja-filters.h"
#include "daemon/text/template/jinja-methods.h"
#include "daemon/text/template/jinja-unicode.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int give(struct jj *j, const struct jj_str *s, struct jj_value *out)
{
    if (!s) return j->err;
    *out = jj_string(s);
    return 0;
}

static int change_case(struct jj *j, const struct jj_call *c, enum jj_case_op op, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->self);
    return s ? give(j, jj_change_case(j, s, op), out) : j->err;
}

static int f_upper(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return change_case(j, c, JJ_TO_UPPER, out);
}

static int f_lower(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return change_case(j, c, JJ_TO_LOWER, out);
}

static int f_capitalize(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return change_case(j, c, JJ_TO_CAPITALIZED, out);
}

static int f_title(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return change_case(j, c, JJ_TO_FILTER_TITLE, out);
}

static int f_trim(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->self), *chars = NULL;
    int r = !s ? j->err : c->a[0].type == JJ_NONE ? 0 : jj_arg_str(j, c, c->a[0], &chars);
    return r < 0 ? r : give(j, jj_strip(j, s, chars, 3), out);
}

static int f_replace(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int64_t count = -1;
    const struct jj_str *s = jj_to_str(j, c->self), *from = s ? jj_to_str(j, c->a[0]) : NULL;
    const struct jj_str *to = from ? jj_to_str(j, c->a[1]) : NULL;
    int r = !to ? j->err : c->a[2].type == JJ_NONE ? 0 : jj_arg_int(j, c->a[2], &count);
    return r < 0 ? r : give(j, jj_replace(j, s, from, to, count), out);
}

static int f_string(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return give(j, jj_to_str(j, c->self), out);
}

static int f_safe(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->self);
    return s ? give(j, jj_str_safe(j, s, true), out) : j->err;
}

static int f_escape(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->self);
    return s ? give(j, jj_str_escape(j, s), out) : j->err;
}

static int f_forceescape(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->self);
    if (s) s = jj_str_safe(j, s, false);
    return s ? give(j, jj_str_escape(j, s), out) : j->err;
}

static int f_center(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_call call = *c;
    int r = f_string(j, c, &call.self);
    if (!jj_given(call.a[0])) call.a[0] = jj_int(80);
    return r < 0 ? r : jj_method_center(j, &call, out);
}

static int f_format(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->self);
    if (!s) return j->err;
    if (c->args->n_pos && c->args->n_kw)
        return jj_error(j, "can't handle positional and keyword arguments at the same time");
    struct jj_seq *q = jj_seq_new(j, JJ_TUPLE, c->args->n_pos);
    struct jj_dict *d = q ? jj_dict_new(j) : NULL;
    if (!d) return j->err;
    for (size_t i = 0; i < c->args->n_pos; i++) q->v[q->n++] = c->args->pos[i];
    for (size_t i = 0; i < c->args->n_kw; i++)
        if (jj_dict_set(j, d, jj_string(c->args->kw[i].name), c->args->kw[i].v) < 0) return j->err;
    return jj_percent(j, s, c->args->n_kw ? jj_mapping(d) : jj_sequence(q), out);
}

/* Puts @by before each line of @s after the first, and before the first if asked to. */
static int indent_lines(struct jj_sb *sb, const struct jj_seq *lines, const struct jj_str *by, bool first, bool blank)
{
    int r = first ? jj_sb_str(sb, by) : 0;
    for (size_t i = 0; i < lines->n && r == 0; i++) {
        const struct jj_str *line = lines->v[i].s;
        if (i) r = jj_sb_lit(sb, "\n");
        if (r == 0 && i && (blank || line->len)) r = jj_sb_str(sb, by);
        if (r == 0) r = jj_sb_str(sb, line);
    }
    return r;
}

static int f_indent(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool first = false, blank = false;
    int64_t width = 4;
    jj_arg_bool(c->a[1], &first);
    jj_arg_bool(c->a[2], &blank);
    int r = jj_check_defined(j, c->self);
    if (r < 0) return r;
    if (c->self.type != JJ_STR) return jj_error(j, "indent needs a string, not %s", jj_type_name(c->self));
    const struct jj_str *by, *space = jj_str_lit(j, " "), *newline = jj_str_lit(j, "\n");
    if (!space || !newline) return j->err;
    if (c->a[0].type == JJ_STR) {
        by = c->a[0].s;
    } else {
        struct jj_sb sb = {.j = j};
        r = jj_arg_int(j, c->a[0], &width);
        if (r == 0) r = jj_sb_fill(&sb, space, width);
        by = r == 0 ? jj_sb_done(&sb) : NULL;
    }
    const struct jj_str *s = by ? jj_str_concat(j, c->self.s, newline) : NULL;
    struct jj_seq *lines = s ? jj_split_lines(j, s, false) : NULL;
    if (!lines) return j->err;
    struct jj_sb sb = {.j = j};
    r = indent_lines(&sb, lines, by, first, blank);
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

static int f_truncate(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int64_t length = 255, leeway = 5;
    bool killwords = false;
    const struct jj_str *end = jj_str_lit(j, "..."), *s = c->self.s;
    int r = end ? jj_arg_int(j, c->a[0], &length) : j->err;
    jj_arg_bool(c->a[1], &killwords);
    if (r == 0) r = jj_arg_str(j, c, c->a[2], &end);
    if (r == 0 && c->a[3].type != JJ_NONE) r = jj_arg_int(j, c->a[3], &leeway);
    if (r < 0) return r;
    if (length < (int64_t)end->chars)
        return jj_error(j, "expected length >= %zu, got %lld", end->chars, (long long)length);
    if (leeway < 0) return jj_error(j, "expected leeway >= 0, got %lld", (long long)leeway);
    int64_t have;
    r = jj_length(j, c->self, &have);
    if (r < 0) return r;
    *out = c->self;
    if (have - leeway <= length) return 0;
    if (c->self.type != JJ_STR) return jj_error(j, "truncate needs a string, not %s", jj_type_name(c->self));
    size_t cut = jj_str_offset(s, (size_t)(length - (int64_t)end->chars));
    if (!killwords) {
        const char *space = cut ? memrchr(s->p, ' ', cut) : NULL;
        if (space) cut = (size_t)(space - s->p);
    }
    s = jj_str_sub(j, s, 0, cut);
    return s ? give(j, jj_str_concat(j, s, end), out) : j->err;
}

static int f_wordcount(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->self);
    if (!s) return j->err;
    bool inside = false;
    *out = jj_int(0);
    for (size_t i = 0; i < s->len;) {
        uint32_t ch;
        i += jj_char(s->p + i, &ch);
        bool word = ch == '_' || jj_is_alpha(ch) || jj_is_numeric(ch);
        out->i += word && !inside;
        inside = word;
    }
    return 0;
}

/* @query: in a query a space becomes a plus, and a slash is not special. */
static int put_quoted(struct jj_sb *sb, struct jj_value v, bool query)
{
    const struct jj_str *s = jj_to_str(sb->j, v);
    struct jj_run run = {0};
    size_t it = 0;
    int r = s ? 0 : sb->j->err;
    while (r == 0 && jj_str_run(s, &it, &run)) {
        for (size_t i = run.off; i < run.off + run.len && r == 0; i++) {
            unsigned char b = (unsigned char)s->p[i];
            bool plain = (unsigned)((b | 32) - 'a') < 26 || (unsigned)(b - '0') < 10 || (b && strchr("_.-~", b));
            if (plain || (b == '/' && !query))
                r = jj_sb_put(sb, s->p + i, 1, run.markup);
            else if (b == ' ' && query)
                r = jj_sb_put(sb, "+", 1, run.markup);
            else
                r = jj_sb_printf(sb, run.markup, "%%%02X", b);
        }
    }
    return r;
}

static int f_urlencode(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_sb sb = {.j = j};
    int r = 0;
    if (c->self.type != JJ_DICT && c->self.type != JJ_SEQ) {
        r = put_quoted(&sb, c->self, false);
        return r < 0 ? r : jj_sb_finish(&sb, out);
    }
    struct jj_seq *q = c->self.type == JJ_DICT ? jj_dict_view(j, c->self.d, JJ_ITEMS) : jj_iterate(j, c->self);
    if (!q) return j->err;
    for (size_t i = 0; i < q->n && r == 0; i++) {
        struct jj_seq *pair = jj_iterate(j, q->v[i]);
        if (!pair) return j->err;
        if (pair->n != 2) return jj_error(j, "urlencode needs pairs, element #%zu is not a pair", i);
        if (i) r = jj_sb_lit(&sb, "&");
        if (r == 0) r = put_quoted(&sb, pair->v[0], true);
        if (r == 0) r = jj_sb_lit(&sb, "=");
        if (r == 0) r = put_quoted(&sb, pair->v[1], true);
    }
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

static int f_default(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool falsy = false;
    jj_arg_bool(c->a[1], &falsy);
    *out = c->self;
    if (c->self.type != JJ_UNDEFINED && !(falsy && !jj_truth(c->self))) return 0;
    if (!jj_given(c->a[0])) return give(j, jj_str_lit(j, ""), out);
    *out = c->a[0];
    return 0;
}

static int f_attr(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *name = NULL;
    int r = jj_check_defined(j, c->self);
    if (r == 0) r = jj_arg_str(j, c, c->a[0], &name);
    if (r < 0) return r;
    bool has = c->self.type != JJ_DICT || jj_find_method(c->self, name); /* items of a dict are not attributes */
    return has ? jj_get_attr(j, c->self, c->a[0], out) : jj_undefined_attr(j, c->self, c->a[0], out);
}

static int f_abs(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int r = jj_check_defined(j, c->self);
    if (r < 0) return r;
    if (!jj_is_number(c->self)) return jj_error(j, "bad operand type for abs(): '%s'", jj_type_name(c->self));
    bool negative = c->self.type == JJ_FLOAT ? signbit(c->self.f) : jj_integral(c->self) < 0;
    return jj_unary(j, negative ? JJ_OP_SUB : JJ_OP_ADD, c->self, out);
}

static bool text_is_data(const struct jj_str *s)
{
    return s->spans ? true : !s->markup;
}

static int f_int(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_value v = c->self;
    /* A bad base gives the same result as a text that is not a number. */
    int64_t base = jj_given(c->a[1]) ? -1 : 10, i = 0;
    double f = 0;
    int r = jj_check_defined(j, v);
    if (r < 0) return r;
    if (jj_is_integral(c->a[1])) base = jj_integral(c->a[1]);
    *out = jj_given(c->a[0]) ? c->a[0] : jj_int(0);
    if (v.type == JJ_STR) {
        int no = jj_parse_int(v.s, base < 0 || base > 36 ? -1 : (int)base, &i);
        if (no == 1 && (jj_parse_float(v.s, &f) || !isfinite(f))) return 0;
        if (no && !(no == 1 && jj_float_fits(f))) return jj_error(j, "an integer that does not fit into 64 bits");
        *out = jj_int(no ? (int64_t)f : i);
        out->data = text_is_data(v.s);
    } else if (v.type == JJ_FLOAT) {
        if (isnan(v.f)) return 0;
        if (!jj_float_fits(v.f)) return jj_error(j, "cannot convert float to integer");
        *out = jj_int((int64_t)v.f);
        out->data = v.data;
    } else if (jj_is_integral(v)) {
        *out = jj_int(jj_integral(v));
        out->data = v.data;
    }
    return 0;
}

static int f_float(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_value v = c->self;
    double f;
    int r = jj_check_defined(j, v);
    if (r < 0) return r;
    *out = jj_given(c->a[0]) ? c->a[0] : jj_float(0);
    if (v.type == JJ_STR && jj_parse_float(v.s, &f) == 0) {
        *out = jj_float(f);
        out->data = text_is_data(v.s);
    } else if (jj_is_number(v)) {
        *out = jj_float(jj_real(v));
        out->data = v.data;
    }
    return 0;
}

/* Rounds to the nearest; ties of the exact value go to even, as in Python's round. */
static double round_common(double f, int64_t precision)
{
    char b[512];
    if (!isfinite(f) || precision > 300) return f;
    if (precision < -308) return copysign(0, f);
    if (precision < 0) {
        double p = pow(10, (double)-precision);
        return nearbyint(f / p) * p;
    }
    int n = snprintf(b, sizeof(b), "%.*f", (int)precision, f);
    return n < 0 || (size_t)n >= sizeof(b) ? f : strtod(b, NULL);
}

/* Rounds to a multiple of 10^@digits, ties to even; digits > 0. */
static int round_int(struct jj *j, int64_t i, uint64_t digits, struct jj_value *out)
{
    uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i, unit = 1;
    *out = jj_int(0);
    if (digits > 19) return 0; /* 10^20 is more than twice the largest integer here */
    while (digits-- > 0) unit *= 10;
    uint64_t n = size / unit, rest = size % unit;
    n += rest > unit - rest || (rest == unit - rest && n % 2);
    if (__builtin_mul_overflow(n, unit, &size) || size > (uint64_t)INT64_MAX + (i < 0))
        return jj_error(j, "an integer that does not fit into 64 bits");
    *out = jj_int((int64_t)(i < 0 ? 0 - size : size));
    return 0;
}

static int f_round(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int64_t precision = 0;
    const struct jj_str *method = NULL;
    int r = jj_check_defined(j, c->self);
    if (r == 0) r = jj_arg_int(j, c->a[0], &precision);
    if (r == 0) r = jj_arg_str(j, c, c->a[1], &method);
    if (r < 0) return r;
    if (!jj_is_number(c->self)) return jj_error(j, "type %s cannot be rounded", jj_type_name(c->self));
    double x = jj_real(c->self), p = pow(10, (double)precision);
    if (!method || jj_str_is(method, "common")) {
        bool whole = jj_is_integral(c->self);
        *out = whole ? jj_int(jj_integral(c->self)) : jj_float(round_common(x, precision));
        if (whole && precision < 0) r = round_int(j, jj_integral(c->self), 0 - (uint64_t)precision, out);
        if (r < 0) return r;
    } else if (jj_str_is(method, "ceil")) {
        *out = jj_float((ceil(x * p) + 0.0) / p); /* Python has an int here, which has no -0 */
    } else if (jj_str_is(method, "floor")) {
        *out = jj_float((floor(x * p) + 0.0) / p);
    } else {
        return jj_error(j, "method must be common, ceil or floor");
    }
    out->data = c->self.data;
    return 0;
}

static const struct jj_builtin filters[] = {
    {"abs", f_abs, "", 0},
    {"attr", f_attr, "name", 1},
    {"batch", jj_f_batch, "linecount fill_with", 1},
    {"capitalize", f_capitalize, "", 0},
    {"center", f_center, "width", 0},
    {"count", jj_f_length, "", 0},
    {"d", f_default, "default_value boolean", 0},
    {"default", f_default, "default_value boolean", 0},
    {"dictsort", jj_f_dictsort, "case_sensitive by reverse", 0},
    {"e", f_escape, "", 0},
    {"escape", f_escape, "", 0},
    {"first", jj_f_first, "", 0},
    {"float", f_float, "default", 0},
    {"forceescape", f_forceescape, "", 0},
    {"format", f_format, NULL, 0},
    {"groupby", jj_f_groupby, "attribute default case_sensitive", 1},
    {"indent", f_indent, "width first blank", 0},
    {"int", f_int, "default base", 0},
    {"items", jj_f_items, "", 0},
    {"join", jj_f_join, "d attribute", 0},
    {"last", jj_f_last, "", 0},
    {"length", jj_f_length, "", 0},
    {"list", jj_f_list, "", 0},
    {"lower", f_lower, "", 0},
    {"map", jj_f_map, NULL, 0},
    {"max", jj_f_min_max, "case_sensitive attribute", 0},
    {"min", jj_f_min_max, "case_sensitive attribute", 0},
    {"reject", jj_f_select, NULL, 0},
    {"rejectattr", jj_f_select, NULL, 0},
    {"replace", f_replace, "old new count", 2},
    {"reverse", jj_f_reverse, "", 0},
    {"round", f_round, "precision method", 0},
    {"safe", f_safe, "", 0},
    {"select", jj_f_select, NULL, 0},
    {"selectattr", jj_f_select, NULL, 0},
    {"slice", jj_f_slice, "slices fill_with", 1},
    {"sort", jj_f_sort, "reverse case_sensitive attribute", 0},
    {"string", f_string, "", 0},
    {"sum", jj_f_sum, "attribute start", 0},
    {"title", f_title, "", 0},
    {"tojson", jj_filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", f_trim, "chars", 0},
    {"truncate", f_truncate, "length killwords end leeway", 0},
    {"unique", jj_f_unique, "case_sensitive attribute", 0},
    {"upper", f_upper, "", 0},
    {"urlencode", f_urlencode, "", 0},
    {"wordcount", f_wordcount, "", 0},
};

const struct jj_builtin *jj_find_filter(const struct jj_str *name)
{
    return JJ_FIND(filters, name);
}
