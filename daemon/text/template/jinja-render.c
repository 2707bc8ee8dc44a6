/* SPDX-License-Identifier: MIT */
/* Errors, limits and memory of one render. */
#include "daemon/text/template/jinja-value.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int jj_error(struct jj *j, const char *fmt, ...)
{
    char b[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b, sizeof(b), fmt, ap);
    va_end(ap);
    b[utf8_whole(b, strlen(b))] = '\0';
    return j->err = error_say(-EINVAL, "template line %u: %s", j->line, b);
}

int jj_too_much(struct jj *j, const char *unit, uint64_t limit)
{
    return j->err = error_say(-E2BIG, "template line %u: more than %llu %s", j->line, (unsigned long long)limit, unit);
}

int jj_oom(struct jj *j, int r)
{
    if (r == -E2BIG) return j->err = error_say(r, "template line %u: needs too much memory", j->line);
    return j->err = error_origin(r);
}

int jj_charge(struct jj *j, uint64_t n)
{
    if (n > j->limits.steps || j->steps > j->limits.steps - n) return jj_too_much(j, "steps", j->limits.steps);
    j->steps += n;
    return 0;
}

int jj_charge_bytes(struct jj *j, uint64_t n)
{
    return jj_charge(j, n / 256);
}

int jj_charge_names(struct jj *j, uint64_t n, const struct jj_str *name)
{
    return jj_charge(j, n * (1 + name->len / 64) / 32);
}

int jj_enter(struct jj *j)
{
    uint64_t most = (uint64_t)j->limits.depth * 16; /* a call takes a handful of levels */
    if (j->nest >= most) return jj_too_much(j, "levels of nesting", most);
    j->nest++;
    return jj_charge(j, 1);
}

void *jj_alloc(struct jj *j, size_t n)
{
    int err = 0;
    void *p = jj_arena_alloc(&j->mem, n, &err);
    if (!p) jj_oom(j, err);
    return p;
}

void *jj_alloc_n(struct jj *j, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        jj_oom(j, -E2BIG);
        return NULL;
    }
    return jj_alloc(j, bytes);
}
