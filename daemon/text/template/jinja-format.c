/* SPDX-License-Identifier: MIT */
/* "…" % arguments, and str.format with its format specifications. */
#include "daemon/text/template/jinja-eval.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define PRECISION_MAX 100

/* The format of one value, for % and str.format. */
struct spec {
    uint32_t fill;
    char align; /* '<' '>' '=' '^', or 0: the default of the type */
    char sign;  /* '+', ' ' or 0: only a minus is shown */
    bool signs; /* a sign option was given, also '-' */
    char group; /* ',' '_' or 0 */
    char type;  /* or 0 */
    bool alt;
    int64_t width, precision; /* -1: not given */
};

/* Pads @body to its width. With '=' its first @prefix bytes (sign, 0x) stay left of the fill. */
static int put_padded(struct jj_sb *sb, const struct spec *f, const struct jj_str *body, size_t prefix, char natural)
{
    int64_t room = f->width - (int64_t)body->chars;
    char align = f->align ? f->align : natural;
    struct jj_sb unit = {.j = sb->j};
    if (room <= 0) return jj_sb_str(sb, body);
    int r = jj_sb_char(&unit, f->fill, true);
    const struct jj_str *fill = r == 0 ? jj_sb_done(&unit) : NULL;
    if (!fill) return sb->j->err;
    int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
    if (align == '=') r = jj_sb_sub(sb, body, 0, prefix);
    if (r == 0) r = jj_sb_fill(sb, fill, left);
    if (r == 0) r = align == '=' ? jj_sb_sub(sb, body, prefix, body->len - prefix) : jj_sb_str(sb, body);
    return r < 0 ? r : jj_sb_fill(sb, fill, room - left);
}

static int put_text(struct jj_sb *sb, const struct spec *f, const struct jj_str *s, char natural)
{
    if (f->precision >= 0 && (uint64_t)f->precision < s->chars)
        s = jj_str_sub(sb->j, s, 0, jj_str_offset(s, (size_t)f->precision));
    return s ? put_padded(sb, f, s, 0, natural) : sb->j->err;
}

/* @digits with separators in their integer part, the first @n bytes. */
static int put_grouped(struct jj_sb *sb, const char *digits, size_t n, char group, size_t every, bool markup)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (group && i && (n - i) % every == 0) r = jj_sb_put(sb, &group, 1, markup);
        if (r == 0) r = jj_sb_put(sb, digits + i, 1, markup);
    }
    return r < 0 ? r : jj_sb_put(sb, digits + n, strlen(digits + n), markup);
}

/* A number: sign, prefix (0x) and digits. */
static int put_number(struct jj_sb *sb, const struct spec *f, bool negative, const char *prefix, const char *digits,
                      bool markup)
{
    struct jj_sb body = {.j = sb->j};
    char sign = negative ? '-' : f->sign;
    int r = sign ? jj_sb_put(&body, &sign, 1, markup) : 0;
    if (r == 0) r = jj_sb_put(&body, prefix, strlen(prefix), markup);
    size_t every = f->type == 'x' || f->type == 'X' || f->type == 'o' || f->type == 'b' ? 4 : 3;
    size_t n = isdigit((unsigned char)digits[0]) || every == 4 ? strspn(digits, "0123456789abcdefABCDEF") : 0;
    if (every == 3) n = strspn(digits, "0123456789");
    if (r == 0) r = put_grouped(&body, digits, n, f->group, every, markup);
    const struct jj_str *s = r == 0 ? jj_sb_done(&body) : NULL;
    return s ? put_padded(sb, f, s, (sign != 0) + strlen(prefix), '>') : sb->j->err;
}

static void to_base(char *out, uint64_t v, unsigned base, bool upper)
{
    char b[65];
    size_t n = 0;
    do {
        unsigned d = (unsigned)(v % base);
        b[n++] = (char)(d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10);
        v /= base;
    } while (v);
    while (n) *out++ = b[--n];
    *out = '\0';
}

static int put_int(struct jj_sb *sb, const struct spec *f, struct jj_value v)
{
    int64_t i = jj_integral(v);
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    char digits[256];
    if (f->type == 'c') {
        if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000))
            return jj_error(sb->j, "%%c arg not in range(0x110000)");
        struct jj_sb one = {.j = sb->j};
        const struct jj_str *s = jj_sb_char(&one, (uint32_t)i, !v.data) < 0 ? NULL : jj_sb_done(&one);
        return s ? put_padded(sb, f, s, 0, '<') : sb->j->err;
    }
    unsigned base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    static const char *const prefixes[] = {[2] = "0b", [8] = "0o", [16] = "0x"};
    to_base(digits, magnitude, base, f->type == 'X');
    size_t n = strlen(digits);
    if (f->precision > (int64_t)n) { /* of % only: at least this many digits */
        if (f->precision > PRECISION_MAX) return jj_error(sb->j, "precision too large");
        size_t zeros = (size_t)f->precision - n;
        memmove(digits + zeros, digits, n + 1);
        memset(digits, '0', zeros);
    }
    return put_number(sb, f, i < 0, f->alt && base != 10 ? f->type == 'X' ? "0X" : prefixes[base] : "", digits,
                      !v.data);
}

/* The digits of |@x| in the format of @f. */
static int float_digits(struct jj *j, const struct spec *f, double x, char *out, size_t size)
{
    if (f->precision > PRECISION_MAX) return jj_error(j, "precision too large");
    int precision = f->precision < 0 ? 6 : (int)f->precision;
    if (!f->type && f->precision < 0) {
        jj_float_repr(out, x);
        return 0;
    }
    const char *percent = "";
    char type = f->type;
    if (type == '%') {
        x *= 100;
        percent = "%";
        type = 'f';
    }
    if (type == 'n' || !type) type = 'g';
    char c[8];
    snprintf(c, sizeof(c), "%%%s.*%c", f->alt ? "#" : "", type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = snprintf(out, size, c, precision, x);
#pragma GCC diagnostic pop
    if (n < 0 || (size_t)n + 3 >= size) return jj_error(j, "a number too long to print");
    if (!f->type && isfinite(x) && !strpbrk(out, ".e")) strcat(out, ".0");
    strcat(out, percent);
    return 0;
}

static int put_float(struct jj_sb *sb, const struct spec *f, struct jj_value v)
{
    char digits[512];
    double x = jj_real(v);
    int r = float_digits(sb->j, f, fabs(x), digits, sizeof(digits));
    return r < 0 ? r : put_number(sb, f, signbit(x) && !isnan(x), "", digits, !v.data);
}

/* ---- % ---- */

struct percent {
    struct jj *j;
    struct jj_sb sb;
    const struct jj_str *fmt;
    size_t at;
    const struct jj_value *args; /* [n] */
    size_t n, used;
    struct jj_value mapping; /* JJ_ABSENT: the argument is not a mapping */
    bool by_name;
};

static int next_arg(struct percent *p, struct jj_value *out)
{
    if (p->used >= p->n) return jj_error(p->j, "not enough arguments for format string");
    *out = p->args[p->used++];
    return 0;
}

static char look(const struct percent *p)
{
    return p->at < p->fmt->len ? p->fmt->p[p->at] : '\0';
}

/* Reads a number or * into *out. */
static int percent_number(struct percent *p, int64_t *out)
{
    if (look(p) == '*') {
        struct jj_value v;
        p->at++;
        int r = next_arg(p, &v);
        return r < 0 ? r : jj_arg_int(p->j, v, out);
    }
    *out = 0;
    while (isdigit((unsigned char)look(p))) {
        if (*out > INT32_MAX) return jj_error(p->j, "width too big");
        *out = *out * 10 + (p->fmt->p[p->at++] - '0');
    }
    return 0;
}

/* Flags, width and precision. */
static int percent_spec(struct percent *p, struct spec *f)
{
    *f = (struct spec){.fill = ' ', .precision = -1};
    for (;; p->at++) {
        char c = look(p);
        if (c == '-')
            f->align = '<';
        else if (c == '0' && f->align != '<')
            f->align = '=';
        else if (c == '+' || (c == ' ' && f->sign != '+'))
            f->sign = c;
        else if (c == '#')
            f->alt = true;
        else if (!c || !strchr("-0 ", c))
            break;
    }
    int r = percent_number(p, &f->width);
    if (r == 0 && f->width < 0) {
        f->align = '<';
        f->width = f->width == INT64_MIN ? INT64_MAX : -f->width;
    }
    if (r == 0 && look(p) == '.') {
        p->at++;
        r = percent_number(p, &f->precision);
        if (f->precision < 0) f->precision = 0;
    }
    while (look(p) == 'h' || look(p) == 'l' || look(p) == 'L') p->at++;
    return r;
}

static int percent_key(struct percent *p, struct jj_value *out)
{
    size_t from = ++p->at, depth = 1;
    for (; p->at < p->fmt->len; p->at++) {
        if (look(p) == '(') depth++;
        if (look(p) == ')' && --depth == 0) break;
    }
    if (p->at >= p->fmt->len) return jj_error(p->j, "incomplete format key");
    const struct jj_str *key = jj_str_sub(p->j, p->fmt, from, p->at++ - from);
    if (!key) return p->j->err;
    if (!jj_given(p->mapping)) return jj_error(p->j, "format requires a mapping");
    int r = jj_dict_get_str(p->j, p->mapping.d, key, out);
    p->by_name = true;
    if (r < 0) return r;
    return r ? 0 : jj_error(p->j, "no argument '%.*s' to format", key->len > 100 ? 100 : (int)key->len, key->p);
}

static int percent_value(struct percent *p, const struct spec *f, struct jj_value v)
{
    struct jj_sb text = {.j = p->j};
    int r;
    if (f->type == 's' || f->type == 'r' || f->type == 'a') {
        r = f->type == 's' ? jj_sb_value(&text, v) : jj_sb_repr(&text, v);
        const struct jj_str *s = r == 0 ? jj_sb_done(&text) : NULL;
        struct spec plain = *f;
        plain.align = f->align == '<' ? '<' : '>';
        return s ? put_text(&p->sb, &plain, s, '>') : p->j->err;
    }
    struct spec number = *f;
    if (number.align == '=') number.fill = '0';
    if (f->type == 'c') {
        number.align = f->align == '<' ? '<' : '>';
        number.fill = ' ';
        if (v.type == JJ_STR && v.s->chars == 1) return put_padded(&p->sb, &number, v.s, 0, '>');
        if (!jj_is_integral(v)) return jj_error(p->j, "%%c requires int or char");
        return put_int(&p->sb, &number, v);
    }
    r = jj_check_defined(p->j, v);
    if (r < 0) return r;
    if (!jj_is_number(v))
        return jj_error(p->j, "%%%c format: a real number is required, not %s", f->type, jj_type_name(v));
    if (strchr("eEfFgG", f->type)) return put_float(&p->sb, &number, v);
    if (v.type == JJ_FLOAT) {
        if (f->type == 'x' || f->type == 'X' || f->type == 'o')
            return jj_error(p->j, "%%%c format: an integer is required, not float", f->type);
        if (!jj_float_fits(v.f)) return jj_error(p->j, "cannot convert float to integer");
        v.i = (int64_t)v.f;
        v.type = JJ_INT;
    }
    if (f->type == 'i' || f->type == 'u') number.type = 'd';
    return put_int(&p->sb, &number, v);
}

/* Formats one directive, from the character after its %. */
static int percent_one(struct percent *p)
{
    struct jj_value v = {.type = JJ_ABSENT};
    struct spec f;
    int r = look(p) == '(' ? percent_key(p, &v) : 0;
    if (r == 0) r = percent_spec(p, &f);
    if (r < 0) return r;
    f.type = look(p);
    if (!f.type) return jj_error(p->j, "incomplete format");
    p->at++;
    if (f.type == '%') return jj_sb_put(&p->sb, "%", 1, p->fmt->markup);
    if (!strchr("diouxXeEfFgGcrsa", f.type)) return jj_error(p->j, "unsupported format character '%c'", f.type);
    if (!jj_given(v)) r = next_arg(p, &v);
    return r < 0 ? r : percent_value(p, &f, v);
}

int jj_percent(struct jj *j, const struct jj_str *fmt, struct jj_value args, struct jj_value *out)
{
    struct percent p = {.j = j, .sb = {.j = j}, .fmt = fmt, .args = &args, .n = 1};
    if (jj_is_tuple(args)) {
        p.args = args.q->v;
        p.n = args.q->n;
    } else if (args.type == JJ_DICT) {
        p.mapping = args;
    }
    int r = jj_charge_bytes(j, fmt->len);
    while (p.at < fmt->len && r == 0) {
        const char *next = memchr(fmt->p + p.at, '%', fmt->len - p.at);
        size_t to = next ? (size_t)(next - fmt->p) : fmt->len;
        r = jj_sb_sub(&p.sb, fmt, p.at, to - p.at);
        p.at = to + 1;
        if (r == 0 && next) r = percent_one(&p);
    }
    bool rest = p.used < p.n && !jj_given(p.mapping) && !jj_is_list(args) && args.type != JJ_UNDEFINED;
    if (r == 0 && rest) return jj_error(j, "not all arguments converted during string formatting");
    return r < 0 ? r : jj_sb_finish(&p.sb, out);
}

/* ---- str.format ---- */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static int parse_spec(struct jj *j, const struct jj_str *s, struct spec *f)
{
    *f = (struct spec){.fill = ' ', .precision = -1};
    const char *p = s->p, *end = s->p + s->len;
    uint32_t c = 0;
    size_t n = s->len ? jj_char(p, &c) : 0;
    if (n && p + n < end && strchr("<>=^", p[n])) {
        f->fill = c;
        f->align = p[n];
        p += n + 1;
    } else if (n && *p && strchr("<>=^", *p)) {
        f->align = *p++;
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' ')) {
        f->sign = *p == '-' ? 0 : *p;
        f->signs = true;
        p++;
    }
    if (p < end && *p == '#') {
        f->alt = true;
        p++;
    }
    if (p < end && *p == '0') {
        if (!f->align) f->align = '=';
        if (f->fill == ' ') f->fill = '0';
        p++;
    }
    for (; p < end && isdigit((unsigned char)*p); p++) {
        if (f->width > INT32_MAX) return jj_error(j, "too many decimal digits in format string");
        f->width = f->width * 10 + (*p - '0');
    }
    if (p < end && (*p == ',' || *p == '_')) f->group = *p++;
    if (p < end && *p == '.') {
        if (++p == end || !isdigit((unsigned char)*p)) return jj_error(j, "format specifier missing precision");
        for (f->precision = 0; p < end && isdigit((unsigned char)*p); p++) {
            if (f->precision > INT32_MAX) return jj_error(j, "too many decimal digits in format string");
            f->precision = f->precision * 10 + (*p - '0');
        }
    }
    if (p < end) f->type = *p++;
    return p < end ? jj_error(j, "invalid format specifier") : 0;
}

static int format_value(struct jj_sb *sb, struct jj_value v, const struct jj_str *text)
{
    struct spec f;
    struct jj *j = sb->j;
    int r = parse_spec(j, text, &f);
    if (r < 0) return r;
    if (!text->len) return jj_sb_value(sb, v);
    if (v.type == JJ_STR) {
        if (f.type && f.type != 's') return jj_error(j, "unknown format code '%c' for object of type 'str'", f.type);
        if (f.signs || f.alt || f.group)
            return jj_error(j, "sign, '#' and separators are not allowed in string format specifier");
        if (f.align == '=' && f.fill != '0') return jj_error(j, "'=' alignment not allowed in string format specifier");
        if (f.align == '=') f.align = '<';
        return put_text(sb, &f, v.s, '<');
    }
    if (jj_is_integral(v) && (!f.type || strchr("bcdoxXn", f.type))) {
        if (v.type == JJ_BOOL && !f.type && !f.width) return jj_sb_value(sb, v);
        if (f.precision >= 0) return jj_error(j, "precision not allowed in integer format specifier");
        return put_int(sb, &f, v);
    }
    if (jj_is_number(v) && (!f.type || strchr("eEfFgGn%", f.type))) return put_float(sb, &f, v);
    if (jj_is_number(v))
        return jj_error(j, "unknown format code '%c' for object of type '%s'", f.type, jj_type_name(v));
    return jj_error(j, "unsupported format string passed to %s.__format__", jj_type_name(v));
}

struct formatter {
    struct jj *j;
    const struct jj_call *c;
    size_t next; /* automatic numbering */
    bool manual; /* explicit numbers were used */
};

/* The value of "name.attr[key]". A conversion (!) or specification (:) behind it is not part of it. */
static int field_value(struct formatter *f, const struct jj_str *field, struct jj_value *out)
{
    size_t n = 0;
    int64_t i;
    while (n < field->len && field->p[n] != '.' && field->p[n] != '[') n++;
    const struct jj_str *first = jj_str_sub(f->j, field, 0, n);
    if (!first) return f->j->err;
    if (!n || jj_parse_int(first, 10, &i) == 0) {
        bool plain = n == field->len; /* Python's Formatter counts only fields of this form */
        if (plain && (n ? f->next > 0 : f->manual))
            return jj_error(f->j, "cannot mix automatic field numbering and explicit numbers");
        if (plain && n) f->manual = true;
        if (!n) i = (int64_t)f->next++;
        if (i < 0 || (size_t)i >= f->c->args->n_pos)
            return jj_error(f->j, "replacement index %lld out of range for positional args tuple", (long long)i);
        *out = f->c->args->pos[i];
    } else {
        size_t k = 0;
        if (jj_charge_names(f->j, f->c->args->n_kw, first) < 0) return f->j->err;
        while (k < f->c->args->n_kw && !jj_str_eq(f->c->args->kw[k].name, first)) k++;
        if (k == f->c->args->n_kw)
            return jj_error(f->j, "no argument '%.*s' to format", n > 100 ? 100 : (int)n, first->p);
        *out = f->c->args->kw[k].v;
    }
    int r = 0;
    while (n < field->len && r == 0) {
        bool item = field->p[n++] == '[';
        size_t from = n;
        while (n < field->len && (item ? field->p[n] != ']' : field->p[n] != '.' && field->p[n] != '[')) n++;
        const struct jj_str *part = jj_str_sub(f->j, field, from, n - from);
        if (!part) return f->j->err;
        bool number = item && jj_parse_int(part, 10, &i) == 0;
        struct jj_value key = number ? jj_int(i) : jj_string(part);
        r = item ? jj_get_item(f->j, *out, key, out) : jj_get_attr(f->j, *out, key, out);
        if (item) n++;
    }
    return r;
}

static int format_text(struct formatter *f, struct jj_sb *sb, const struct jj_str *s, int depth);

/* Formats a field, which is given without its braces. */
static int format_field(struct formatter *f, struct jj_sb *sb, const struct jj_str *s, int depth)
{
    size_t n = 0;
    for (int inside = 0; n < s->len && (inside || (s->p[n] != '!' && s->p[n] != ':')); n++)
        inside += (s->p[n] == '[') - (s->p[n] == ']');
    char conversion = 0;
    const struct jj_str *name = jj_str_sub(f->j, s, 0, n), *spec = NULL;
    struct jj_value v;
    int r = name ? field_value(f, name, &v) : f->j->err;
    if (r < 0) return r;
    if (n + 1 < s->len && s->p[n] == '!') {
        conversion = s->p[n + 1];
        n += 2;
        if (!strchr("rsa", conversion)) return jj_error(f->j, "unknown conversion specifier '%c'", conversion);
    }
    struct jj_sb parts = {.j = f->j};
    if (conversion) {
        r = conversion == 's' ? jj_sb_value(&parts, v) : jj_sb_repr(&parts, v);
        if (r == 0) r = jj_sb_finish(&parts, &v);
        parts = (struct jj_sb){.j = f->j};
    }
    if (r < 0) return r;
    if (n < s->len && s->p[n] != ':') return jj_error(f->j, "expected ':' after conversion specifier");
    const struct jj_str *text = n < s->len ? jj_str_sub(f->j, s, n + 1, s->len - n - 1) : jj_str_lit(f->j, "");
    if (text) r = format_text(f, &parts, text, depth - 1); /* specifications can contain fields */
    spec = text && r == 0 ? jj_sb_done(&parts) : NULL;
    return spec ? format_value(sb, v, spec) : f->j->err;
}

static int format_text(struct formatter *f, struct jj_sb *sb, const struct jj_str *s, int depth)
{
    if (depth < 0) return jj_error(f->j, "max string recursion exceeded");
    int r = 0;
    for (size_t i = 0; i < s->len && r == 0;) {
        size_t n = 0, left = s->len - i;
        while (n < left && s->p[i + n] != '{' && s->p[i + n] != '}') n++;
        if (n == left) return jj_sb_sub(sb, s, i, left);
        r = jj_sb_sub(sb, s, i, n);
        i += n;
        if (i + 1 < s->len && s->p[i + 1] == s->p[i]) {
            if (r == 0) r = jj_sb_sub(sb, s, i, 1);
            i += 2;
            continue;
        }
        if (r == 0 && s->p[i] == '}') return jj_error(f->j, "single '}' encountered in format string");
        size_t from = ++i;
        for (int inside = 1; i < s->len; i++) {
            inside += (s->p[i] == '{') - (s->p[i] == '}');
            if (!inside) break;
        }
        if (i >= s->len) return jj_error(f->j, "expected '}' before end of string");
        const struct jj_str *field = jj_str_sub(f->j, s, from, i++ - from);
        if (r == 0) r = field ? format_field(f, sb, field, depth) : f->j->err;
    }
    return r;
}

int jj_str_format(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct formatter f = {.j = j, .c = c};
    struct jj_sb sb = {.j = j};
    int r = format_text(&f, &sb, c->self.s, 2);
    return r < 0 ? r : jj_sb_finish(&sb, out);
}
