/* SPDX-License-Identifier: MIT */
#include "client/find/ignore.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ignore_rule {
    char *pattern;
    bool negated;  /* began with '!' */
    bool dirs;     /* ended with '/': only folders */
    bool anchored; /* has a slash: matches the path from the folder of the file on, else the last component */
};

/* Match one character of @s with the class at @p ("[…]"). Returns what follows the class; NULL: it has no end. */
static const char *class(const char *p, char c, bool *matches)
{
    bool negated = p[1] == '!' || p[1] == '^', found = false;
    const char *at = p + 1 + negated;
    for (bool first = true; *at && (*at != ']' || first); first = false, at++) {
        if (*at == '\\' && at[1]) at++;
        unsigned char low = (unsigned char)*at, high = low;
        if (at[1] == '-' && at[2] && at[2] != ']') {
            at += 2;
            if (*at == '\\' && at[1]) at++;
            high = (unsigned char)*at;
        }
        found |= (unsigned char)c >= low && (unsigned char)c <= high;
    }
    *matches = found != negated;
    return *at ? at + 1 : NULL;
}

/* Match one character that is not '*'. Returns what follows it in the pattern; NULL: it does not match. */
static const char *one(const char *p, char c)
{
    bool matches;
    if (*p == '?') return p + 1;
    if (*p == '[') {
        const char *next = class(p, c, &matches);
        if (next) return matches ? next : NULL;
    }
    if (*p == '\\' && p[1]) p++;
    return *p == c ? p + 1 : NULL;
}

/* A component of a path with a component of a pattern. On a mismatch the last '*' takes one more character. */
static bool component(const char *p, const char *p_end, const char *s, const char *s_end)
{
    const char *star = NULL, *again = NULL, *next;
    while (s < s_end) {
        if (p < p_end && *p == '*') {
            star = ++p;
            again = s;
        } else if (p < p_end && (next = one(p, *s)) && next <= p_end) {
            p = next;
            s++;
        } else if (star) {
            p = star;
            s = ++again;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*') p++;
    return p == p_end;
}

static const char *component_end(const char *s)
{
    return s + strcspn(s, "/");
}

static bool any_depth(const char *p, const char *end)
{
    return end - p == 2 && p[0] == '*' && p[1] == '*';
}

bool ignore_glob(const char *p, const char *s)
{
    const char *star = NULL, *again = NULL;
    while (*s) {
        const char *p_end = component_end(p), *s_end = component_end(s);
        if (*p && any_depth(p, p_end)) {
            if (!*p_end) return true; /* ** at the end: all that is inside */
            star = p = p_end + 1;
            again = s;
        } else if (*p && component(p, p_end, s, s_end) && !*p_end == !*s_end) {
            if (!*p_end) return true;
            p = p_end + 1;
            s = s_end + 1;
        } else if (star && *component_end(again)) {
            p = star;
            s = again = component_end(again) + 1;
        } else {
            return false;
        }
    }
    return !*p;
}

/* Fill @r from a line. 0; 1: the line has no rule; -ENOMEM. */
static int rule(struct ignore_rule *r, const char *line, size_t len)
{
    *r = (struct ignore_rule){0};
    if (len && line[len - 1] == '\r') len--;
    while (len && line[len - 1] == ' ' && !(len > 1 && line[len - 2] == '\\')) len--;
    if (len == 0 || *line == '#') return 1;
    r->negated = *line == '!';
    line += r->negated, len -= r->negated;
    r->dirs = len && line[len - 1] == '/';
    len -= r->dirs;
    r->anchored = memchr(line, '/', len) != NULL;
    if (len && *line == '/') line++, len--;
    if (len == 0 || memchr(line, 0, len)) return 1;
    r->pattern = strndup(line, len);
    return r->pattern ? 0 : -ENOMEM;
}

int ignore_add(struct ignore *g, const char *text, size_t len)
{
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text)), *stop = newline ? newline : end;
        struct ignore_rule r, *more;
        int e = rule(&r, text, (size_t)(stop - text));
        text = stop + 1;
        if (e > 0) continue;
        more = e == 0 ? reallocarray(g->rules, g->n + 1, sizeof(*more)) : NULL;
        if (!more) {
            free(r.pattern);
            return -ENOMEM;
        }
        g->rules = more;
        g->rules[g->n++] = r;
    }
    return 0;
}

void ignore_fini(struct ignore *g)
{
    for (size_t i = 0; i < g->n; i++) free(g->rules[i].pattern);
    free(g->rules);
    *g = (struct ignore){0};
}

bool ignore_match(const struct ignore *g, const char *path, bool dir)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (; g; g = g->above)
        for (size_t i = g->n; i-- > 0;) {
            const struct ignore_rule *r = &g->rules[i];
            if (r->dirs && !dir) continue;
            if (ignore_glob(r->pattern, r->anchored ? path + g->base : name)) return !r->negated;
        }
    return false;
}
