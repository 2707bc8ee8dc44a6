/* SPDX-License-Identifier: MIT */
/* strftime_now: strftime of C with the render's clock, in local time, in English. */
#include "daemon/text/template/jinja-eval.h"

/* The length of the directive behind a %, with flags and width. */
static size_t directive(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] && strchr("-_0^#123456789", p[i])) i++;
    if (i < n && (p[i] == 'E' || p[i] == 'O')) i++;
    return i < n ? i + 1 : 0;
}

static int put_directive(struct jj_sb *sb, const char *p, size_t n, const struct tm *tm, bool markup)
{
    char spec[16] = "%", text[256];
    char c = p[n - 1];
    if (n + 2 > sizeof(spec)) return jj_error(sb->j, "strftime: the width is too large");
    if (c == 'f') return jj_sb_put(sb, "000000", 6, markup);
    if (c == 'z' || c == 'Z') return 0; /* Python's datetime.now() has no time zone */
    if (!strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%+", c)) return jj_sb_put(sb, p - 1, n + 1, markup);
    memcpy(spec + 1, p, n);
    spec[n + 1] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t len = strftime(text, sizeof(text), spec, tm);
#pragma GCC diagnostic pop
    return jj_sb_put(sb, text, len, markup);
}

int jj_strftime(struct jj *j, const struct jj_str *fmt, struct jj_value *out)
{
    struct tm tm;
    if (!localtime_r(&j->now, &tm)) return jj_error(j, "strftime_now: the time is out of range");
    struct jj_sb sb = {.j = j};
    struct jj_run run = {0};
    size_t it = 0;
    int r = 0;
    while (r == 0 && jj_str_run(fmt, &it, &run)) {
        for (size_t i = run.off, end = run.off + run.len; i < end && r == 0;) {
            const char *next = memchr(fmt->p + i, '%', end - i);
            size_t to = next ? (size_t)(next - fmt->p) : end;
            r = jj_sb_put(&sb, fmt->p + i, to - i, run.markup);
            i = to;
            if (r < 0 || i >= end) break;
            size_t n = directive(fmt->p + i + 1, end - i - 1);
            r = jj_charge(j, 1);
            if (r < 0) return r;
            r = n ? put_directive(&sb, fmt->p + i + 1, n, &tm, run.markup) : jj_sb_put(&sb, "%", 1, run.markup);
            i += n ? n + 1 : end - i;
        }
    }
    return r < 0 ? r : jj_sb_finish(&sb, out);
}
