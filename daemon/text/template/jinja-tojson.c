/* SPDX-License-Identifier: MIT */
/* tojson: Python's json.dumps with ensure_ascii=False unless the template sets it. */
#include "daemon/text/template/jinja-eval.h"
#include <inttypes.h>
#include <math.h>

struct dump {
    struct jj_sb sb;
    bool ascii, sort;
    const struct jj_str *indent; /* NULL: on one line */
    const struct jj_str *comma, *colon;
    int64_t level;
};

static int dump_char(struct jj_sb *sb, uint32_t c, const char *p, size_t n, bool ascii, bool markup)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *f = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (f) return jj_sb_printf(sb, markup, "\\%c", to[f - from]);
    if (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000 && c != 0x7f)) return jj_sb_printf(sb, markup, "\\u%04x", c);
    if (ascii && c >= 0x10000)
        return jj_sb_printf(sb, markup, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
    return jj_sb_put(sb, p, n, markup);
}

static bool plain(unsigned char c, bool ascii)
{
    return c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || !ascii);
}

static int dump_str(struct dump *d, const struct jj_str *s)
{
    struct jj_run run = {0};
    size_t it = 0;
    int r = jj_sb_lit(&d->sb, "\"");
    while (r == 0 && jj_str_run(s, &it, &run)) {
        for (size_t i = run.off, end = run.off + run.len; r == 0 && i < end;) {
            size_t n = 0;
            while (i + n < end && plain((unsigned char)s->p[i + n], d->ascii)) n++;
            r = jj_sb_put(&d->sb, s->p + i, n, run.markup);
            i += n;
            if (r < 0 || i >= end) break;
            uint32_t c;
            n = jj_char(s->p + i, &c);
            r = dump_char(&d->sb, c, s->p + i, n, d->ascii, run.markup);
            i += n;
        }
    }
    return r < 0 ? r : jj_sb_lit(&d->sb, "\"");
}

static int dump_number(struct dump *d, struct jj_value v)
{
    char b[32];
    if (v.type == JJ_INT) return jj_sb_printf(&d->sb, !v.data, "%" PRId64, v.i);
    if (isnan(v.f)) return jj_sb_put(&d->sb, "NaN", 3, !v.data);
    if (isinf(v.f)) return jj_sb_printf(&d->sb, !v.data, "%sInfinity", v.f < 0 ? "-" : "");
    jj_float_repr(b, v.f);
    return jj_sb_put(&d->sb, b, strlen(b), !v.data);
}

static int newline(struct dump *d)
{
    if (!d->indent) return 0;
    int r = jj_sb_lit(&d->sb, "\n");
    return r < 0 ? r : jj_sb_fill(&d->sb, d->indent, d->level);
}

static int dump_value(struct dump *d, struct jj_value v);

static int dump_list(struct dump *d, const struct jj_seq *q)
{
    if (!q->n) return jj_sb_lit(&d->sb, "[]");
    int r = jj_sb_lit(&d->sb, "[");
    d->level++;
    for (size_t i = 0; i < q->n && r == 0; i++) {
        if (i) r = jj_sb_str(&d->sb, d->comma);
        if (r == 0) r = newline(d);
        if (r == 0) r = dump_value(d, q->v[i]);
    }
    d->level--;
    if (r == 0) r = newline(d);
    return r < 0 ? r : jj_sb_lit(&d->sb, "]");
}

static int dump_key(struct dump *d, struct jj_value k)
{
    if (k.type == JJ_STR) return dump_str(d, k.s);
    if (k.type != JJ_NONE && !jj_is_number(k))
        return jj_error(d->sb.j, "keys must be str, int, float, bool or None, not %s", jj_type_name(k));
    int r = jj_sb_lit(&d->sb, "\"");
    if (r == 0) r = dump_value(d, k);
    return r < 0 ? r : jj_sb_lit(&d->sb, "\"");
}

static int sorted_items(struct dump *d, struct jj_dict *dict, struct jj_seq **out)
{
    struct jj_seq *items = jj_dict_view(d->sb.j, dict, JJ_ITEMS);
    if (!items) return d->sb.j->err;
    *out = items;
    return d->sort ? jj_sorted(d->sb.j, jj_sequence(items), jj_int(0), false, true, out) : 0;
}

static int dump_dict(struct dump *d, struct jj_dict *dict)
{
    if (!dict->n) return jj_sb_lit(&d->sb, "{}");
    struct jj_seq *items;
    int r = sorted_items(d, dict, &items);
    if (r == 0) r = jj_sb_lit(&d->sb, "{");
    d->level++;
    for (size_t i = 0; r == 0 && i < items->n; i++) {
        const struct jj_value *pair = items->v[i].q->v;
        if (i) r = jj_sb_str(&d->sb, d->comma);
        if (r == 0) r = newline(d);
        if (r == 0) r = dump_key(d, pair[0]);
        if (r == 0) r = jj_sb_str(&d->sb, d->colon);
        if (r == 0) r = dump_value(d, pair[1]);
    }
    d->level--;
    if (r == 0) r = newline(d);
    return r < 0 ? r : jj_sb_lit(&d->sb, "}");
}

static int dump_value(struct dump *d, struct jj_value v)
{
    struct jj *j = d->sb.j;
    int r = jj_enter(j);
    if (r < 0) return r;
    if (v.type == JJ_NONE)
        r = jj_sb_put(&d->sb, "null", 4, !v.data);
    else if (v.type == JJ_BOOL)
        r = jj_sb_put(&d->sb, v.b ? "true" : "false", v.b ? 4 : 5, !v.data);
    else if (v.type == JJ_INT || v.type == JJ_FLOAT)
        r = dump_number(d, v);
    else if (v.type == JJ_STR)
        r = dump_str(d, v.s);
    else if (jj_is_list(v) || jj_is_tuple(v))
        r = dump_list(d, v.q);
    else if (v.type == JJ_DICT)
        r = dump_dict(d, v.d);
    else
        r = jj_error(j, "Object of type %s is not JSON serializable", jj_type_name(v));
    jj_leave(j);
    return r;
}

static int set_indent(struct dump *d, struct jj_value v)
{
    struct jj *j = d->sb.j;
    if (v.type == JJ_ABSENT || v.type == JJ_NONE) return 0;
    if (v.type == JJ_STR) {
        d->indent = v.s;
        return 0;
    }
    int64_t n = 0;
    int r = jj_arg_int(j, v, &n);
    const struct jj_str *blank = r < 0 ? NULL : jj_str_lit(j, " ");
    struct jj_sb sb = {.j = j};
    if (!blank || jj_sb_fill(&sb, blank, n) < 0) return j->err;
    d->indent = jj_sb_done(&sb);
    return d->indent ? 0 : j->err;
}

static int set_separators(struct dump *d, struct jj_value v)
{
    struct jj *j = d->sb.j;
    d->comma = jj_str_lit(j, d->indent ? "," : ", ");
    d->colon = d->comma ? jj_str_lit(j, ": ") : NULL;
    if (!d->colon) return j->err;
    if (v.type == JJ_ABSENT || v.type == JJ_NONE) return 0;
    bool two = v.type == JJ_SEQ && v.q->n == 2 && v.q->v[0].type == JJ_STR && v.q->v[1].type == JJ_STR;
    if (!two) return jj_error(j, "tojson: separators must be two strings");
    d->comma = v.q->v[0].s;
    d->colon = v.q->v[1].s;
    return 0;
}

int jj_filter_tojson(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct dump d = {.sb = {.j = j}};
    jj_arg_bool(c->a[0], &d.ascii);
    jj_arg_bool(c->a[3], &d.sort);
    int r = set_indent(&d, c->a[1]);
    if (r == 0) r = set_separators(&d, c->a[2]);
    if (r == 0) r = dump_value(&d, c->self);
    return r < 0 ? r : jj_sb_finish(&d.sb, out);
}
