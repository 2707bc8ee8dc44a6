/* SPDX-License-Identifier: MIT */
/* str() and repr() of values, as Python writes them. */
#include "daemon/text/template/jinja-ast.h"
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-str.h"
#include "daemon/text/template/jinja-unicode.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The digits of the shortest decimal that parses to @f, as "d.ddde±x". */
static void shortest(char *out, size_t size, double f)
{
    for (int digits = 0; digits < 17; digits++) {
        snprintf(out, size, "%.*e", digits, f);
        if (strtod(out, NULL) == f) return;
    }
}

void jj_float_repr(char *out, double f)
{
    if (isnan(f)) {
        strcpy(out, "nan");
        return;
    }
    if (isinf(f)) {
        strcpy(out, f < 0 ? "-inf" : "inf");
        return;
    }
    char b[40], digits[24];
    shortest(b, sizeof(b), f);
    const char *e = strchr(b, 'e');
    long exp = strtol(e + 1, NULL, 10);
    int n = 0;
    for (const char *p = b; p < e; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    char *o = out;
    if (signbit(f)) *o++ = '-';
    if (exp < -4 || exp >= 16) {
        *o++ = digits[0];
        if (n > 1) {
            *o++ = '.';
            for (int i = 1; i < n; i++) *o++ = digits[i];
        }
        sprintf(o, "e%c%02ld", exp < 0 ? '-' : '+', labs(exp));
        return;
    }
    for (long i = exp < 0 ? exp : 0; i < n || i <= exp + 1; i++) {
        if (i == exp + 1) *o++ = '.';
        *o++ = i >= 0 && i < n ? digits[i] : '0';
    }
    *o = '\0';
}

static int repr_char(struct jj_sb *sb, uint32_t c, char quote, const char *p, size_t n, bool markup)
{
    if (c == (uint32_t)quote || c == '\\') return jj_sb_printf(sb, markup, "\\%c", (char)c);
    if (c == '\n') return jj_sb_put(sb, "\\n", 2, markup);
    if (c == '\r') return jj_sb_put(sb, "\\r", 2, markup);
    if (c == '\t') return jj_sb_put(sb, "\\t", 2, markup);
    if (jj_is_printable(c)) return jj_sb_put(sb, p, n, markup);
    if (c < 0x100) return jj_sb_printf(sb, markup, "\\x%02x", c);
    return jj_sb_printf(sb, markup, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static int repr_str(struct jj_sb *sb, const struct jj_str *s)
{
    char quote = memchr(s->p, '\'', s->len) && !memchr(s->p, '"', s->len) ? '"' : '\'';
    struct jj_run run = {0};
    size_t it = 0;
    int r = s->safe ? jj_sb_lit(sb, "Markup(") : 0;
    if (r == 0) r = jj_sb_put(sb, &quote, 1, true);
    while (r == 0 && jj_str_run(s, &it, &run)) {
        for (size_t i = run.off; r == 0 && i < run.off + run.len;) {
            uint32_t c;
            size_t n = jj_char(s->p + i, &c);
            r = repr_char(sb, c, quote, s->p + i, n, run.markup);
            i += n;
        }
    }
    if (r == 0) r = jj_sb_put(sb, &quote, 1, true);
    return r == 0 && s->safe ? jj_sb_lit(sb, ")") : r;
}

static int repr_items(struct jj_sb *sb, const struct jj_value *v, size_t n)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (i) r = jj_sb_lit(sb, ", ");
        if (r == 0) r = jj_sb_repr(sb, v[i]);
    }
    return r;
}

static int repr_seq(struct jj_sb *sb, const struct jj_seq *q)
{
    static const char *const open[] = {"[", "(", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const close[] = {"]", ")", ")", "", "])", "])", "])"};
    if (q->kind == JJ_GENERATOR) return jj_sb_lit(sb, "<generator object>");
    if (q->kind == JJ_RANGE) {
        int r = jj_sb_printf(sb, true, "range(%" PRId64 ", %" PRId64, q->start, q->stop);
        if (r == 0 && q->step != 1) r = jj_sb_printf(sb, true, ", %" PRId64, q->step);
        return r < 0 ? r : jj_sb_lit(sb, ")");
    }
    int r = jj_sb_lit(sb, open[q->kind]);
    if (r == 0) r = repr_items(sb, q->v, q->n);
    if (r == 0 && q->n == 1 && q->kind <= JJ_GROUP && q->kind != JJ_LIST) r = jj_sb_lit(sb, ",");
    return r < 0 ? r : jj_sb_lit(sb, close[q->kind]);
}

static int repr_dict(struct jj_sb *sb, const struct jj_dict *d)
{
    int r = jj_sb_lit(sb, "{");
    for (size_t i = 0; i < d->n && r == 0; i++) {
        if (i) r = jj_sb_lit(sb, ", ");
        if (r == 0) r = jj_sb_repr(sb, d->e[i].k);
        if (r == 0) r = jj_sb_lit(sb, ": ");
        if (r == 0) r = jj_sb_repr(sb, d->e[i].v);
    }
    return r < 0 ? r : jj_sb_lit(sb, "}");
}

static int repr_func(struct jj_sb *sb, const struct jj_func *fn)
{
    int r;
    if (fn->builtin) {
        r = jj_sb_lit(sb, "<function ");
        if (r == 0) r = jj_sb_lit(sb, fn->builtin->name);
    } else {
        r = jj_sb_lit(sb, "<Macro ");
        if (r == 0 && fn->macro->name) r = repr_str(sb, fn->macro->name);
        if (r == 0 && !fn->macro->name) r = jj_sb_lit(sb, "anonymous");
    }
    return r < 0 ? r : jj_sb_lit(sb, ">");
}

static int repr_any(struct jj_sb *sb, struct jj_value v)
{
    char b[32];
    int r;
    switch (v.type) {
    case JJ_ABSENT:
    case JJ_UNDEFINED:
        return jj_sb_lit(sb, "Undefined");
    case JJ_NONE:
        return jj_sb_put(sb, "None", 4, !v.data);
    case JJ_BOOL:
        return jj_sb_put(sb, v.b ? "True" : "False", v.b ? 4 : 5, !v.data);
    case JJ_INT:
        return jj_sb_printf(sb, !v.data, "%" PRId64, v.i);
    case JJ_FLOAT:
        jj_float_repr(b, v.f);
        return jj_sb_put(sb, b, strlen(b), !v.data);
    case JJ_STR:
        return repr_str(sb, v.s);
    case JJ_SEQ:
        return repr_seq(sb, v.q);
    case JJ_DICT:
        return repr_dict(sb, v.d);
    case JJ_NAMESPACE:
        r = jj_sb_lit(sb, "<Namespace ");
        if (r == 0) r = repr_dict(sb, v.d);
        return r < 0 ? r : jj_sb_lit(sb, ">");
    case JJ_FUNC:
        return repr_func(sb, v.fn);
    case JJ_LOOP:
        return sb->j->upper->loop_repr(sb, v.loop);
    default:
        r = jj_sb_lit(sb, "<");
        if (r == 0) r = jj_sb_lit(sb, jj_type_name(v));
        return r < 0 ? r : jj_sb_lit(sb, ">");
    }
}

int jj_sb_repr(struct jj_sb *sb, struct jj_value v)
{
    int r = jj_enter(sb->j);
    if (r < 0) return r;
    r = repr_any(sb, v);
    jj_leave(sb->j);
    return r;
}

int jj_sb_value(struct jj_sb *sb, struct jj_value v)
{
    if (v.type == JJ_STR) return jj_sb_str(sb, v.s);
    if (v.type == JJ_UNDEFINED) return 0;
    return jj_sb_repr(sb, v);
}

const struct jj_str *jj_to_str(struct jj *j, struct jj_value v)
{
    if (v.type == JJ_STR) return v.s;
    struct jj_sb sb = {.j = j};
    return jj_sb_value(&sb, v) < 0 ? NULL : jj_sb_done(&sb);
}
