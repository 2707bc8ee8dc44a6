/* SPDX-License-Identifier: MIT */
/* The methods of strings that fill with spaces, zeros or a given character. */
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-methods.h"
#include "daemon/text/template/jinja-unicode.h"

static int pad(struct jj *j, const struct jj_call *c, int side, struct jj_value *out)
{
    const struct jj_str *fill = jj_str_lit(j, " "), *s = c->self.s;
    int64_t width = 0;
    int r = fill ? jj_arg_int(j, c->a[0], &width) : j->err;
    if (r == 0) r = jj_arg_str(j, c, c->a[1], &fill);
    if (r < 0) return r;
    if (fill->chars != 1) return jj_error(j, "the fill character must be exactly one character long");
    int64_t total = width > (int64_t)s->chars ? width - (int64_t)s->chars : 0;
    int64_t left = side == 1 ? 0 : side == 2 ? total : total / 2 + (total & width & 1);
    struct jj_sb sb = {.j = j};
    r = jj_sb_fill(&sb, fill, left);
    if (r == 0) r = jj_sb_str(&sb, s);
    if (r == 0) r = jj_sb_fill(&sb, fill, total - left);
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

int jj_method_ljust(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return pad(j, c, 1, out);
}

int jj_method_rjust(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return pad(j, c, 2, out);
}

int jj_method_center(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return pad(j, c, 3, out);
}

int jj_method_zfill(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = c->self.s, *zero = jj_str_lit(j, "0");
    int64_t width = 0;
    int r = zero ? jj_arg_int(j, c->a[0], &width) : j->err;
    if (r < 0) return r;
    size_t sign = s->len && (s->p[0] == '-' || s->p[0] == '+');
    struct jj_sb sb = {.j = j};
    r = jj_sb_sub(&sb, s, 0, sign);
    if (r == 0 && width > (int64_t)s->chars) r = jj_sb_fill(&sb, zero, width - (int64_t)s->chars);
    if (r == 0) r = jj_sb_sub(&sb, s, sign, s->len - sign);
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

int jj_method_expandtabs(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = c->self.s, *blank = jj_str_lit(j, " ");
    int64_t size = 8, column = 0;
    int r = blank ? jj_arg_int(j, c->a[0], &size) : j->err;
    struct jj_sb sb = {.j = j};
    for (size_t i = 0; i < s->len && r == 0;) {
        uint32_t ch;
        size_t n = jj_char(s->p + i, &ch);
        if (ch == '\t') {
            int64_t fill = size > 0 ? size - column % size : 0;
            r = jj_sb_fill(&sb, blank, fill);
            column += fill;
        } else {
            r = jj_sb_sub(&sb, s, i, n);
            column = ch == '\n' || ch == '\r' ? 0 : column + 1;
        }
        i += n;
    }
    return r < 0 ? r : jj_sb_finish(&sb, out);
}
