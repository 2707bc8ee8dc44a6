/* SPDX-License-Identifier: MIT */
/*
 * Tokens, as Jinja's lexer makes them with trim_blocks and lstrip_blocks. A newline after a block or comment is
 * removed, and so are blanks between the beginning of a line and a block or comment. "-" removes all white space on its
 * side; "+" keeps all.
 */
#include "daemon/text/template/jinja-ast.h"
#include "daemon/text/template/jinja-str.h"
#include "daemon/text/template/jinja-unicode.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdlib.h>

struct lexer {
    struct jj_arena *arena;
    const char *s;
    size_t len, pos;
    unsigned line;
    struct jj_tokens *out;
    struct { /* open brackets: }} and %} inside them are operators */
        char *v;
        size_t n, cap;
    } open;
    bool line_starting;
};

static int fail(const struct lexer *l, const char *cause)
{
    return error_say(-EINVAL, "template line %u: %s", l->line, cause);
}

static bool at(const struct lexer *l, size_t pos, const char *lit)
{
    size_t n = strlen(lit);
    return pos <= l->len && l->len - pos >= n && !memcmp(l->s + pos, lit, n);
}

static size_t space_at(const struct lexer *l, size_t pos)
{
    if (pos >= l->len) return 0;
    uint32_t c;
    size_t n = jj_char(l->s + pos, &c);
    return jj_is_space(c) ? n : 0;
}

static size_t skip_space(const struct lexer *l, size_t pos)
{
    size_t n;
    while ((n = space_at(l, pos)) > 0) pos += n;
    return pos;
}

static void count_lines(struct lexer *l, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) l->line += l->s[i] == '\n';
}

static void advance(struct lexer *l, size_t to)
{
    count_lines(l, l->pos, to);
    l->line_starting = to > l->pos && l->s[to - 1] == '\n';
    l->pos = to;
}

static struct jj_token *push(struct lexer *l, enum jj_token_type type)
{
    struct jj_tokens *t = l->out;
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 256;
        struct jj_token *v = reallocarray(t->v, cap, sizeof(*v));
        if (!v) return NULL;
        t->v = v;
        t->cap = cap;
    }
    t->v[t->n] = (struct jj_token){.type = type, .line = l->line};
    return &t->v[t->n++];
}

static int push_data(struct lexer *l, size_t from, size_t to)
{
    if (from == to) return 0;
    struct jj_token *t = push(l, JJ_T_DATA);
    if (!t) return -ENOMEM;
    t->p = l->s + from;
    t->len = to - from;
    return 0;
}

/* The end of the text [from, to) before a tag with @sign ('-', '+' or 0). */
static size_t strip_before(const struct lexer *l, size_t from, size_t to, char sign, bool variable)
{
    if (sign == '-') {
        while (to > from) {
            size_t p = to - 1;
            while (p > from && ((unsigned char)l->s[p] & 0xc0) == 0x80) p--;
            if (!space_at(l, p)) break;
            to = p;
        }
        return to;
    }
    if (sign == '+' || variable) return to;
    size_t line = to;
    while (line > from && l->s[line - 1] != '\n') line--;
    if (line == from && !l->line_starting) return to;
    return skip_space(l, line) >= to ? line : to;
}

/* Checks for the end of a tag at @pos: "%}" with its sign. Returns the position behind it, or 0 if it is not there. */
static size_t tag_end(const struct lexer *l, size_t pos, const char *end, bool trim)
{
    if (l->s[pos] == '-' && at(l, pos + 1, end)) return skip_space(l, pos + 3);
    if (trim && l->s[pos] == '+' && at(l, pos + 1, end)) return pos + 3;
    if (!at(l, pos, end)) return 0;
    pos += 2;
    return trim && pos < l->len && l->s[pos] == '\n' ? pos + 1 : pos;
}

static char sign_at(const struct lexer *l, size_t pos)
{
    return pos < l->len && (l->s[pos] == '-' || l->s[pos] == '+') ? l->s[pos] : 0;
}

/* {% raw %} at @pos: returns the start of its text, or 0. */
static size_t raw_begin(const struct lexer *l, size_t pos)
{
    pos += 2;
    if (sign_at(l, pos)) pos++;
    pos = skip_space(l, pos);
    if (!at(l, pos, "raw")) return 0;
    pos = skip_space(l, pos + 3);
    if (at(l, pos, "%}")) return pos + 2;
    return at(l, pos, "-%}") ? skip_space(l, pos + 3) : 0;
}

static int lex_raw(struct lexer *l, size_t from)
{
    advance(l, from);
    for (size_t i = from; i + 1 < l->len; i++) {
        if (!at(l, i, "{%")) continue;
        char sign = sign_at(l, i + 2);
        size_t p = skip_space(l, i + 2 + (sign != 0));
        if (!at(l, p, "endraw")) continue;
        p = skip_space(l, p + 6);
        size_t end = p < l->len ? tag_end(l, p, "%}", true) : 0;
        if (!end) continue;
        int r = push_data(l, from, strip_before(l, from, i, sign, false));
        advance(l, end);
        return r;
    }
    return fail(l, "missing end of raw block");
}

static int lex_comment(struct lexer *l)
{
    for (size_t i = l->pos + 2 + (sign_at(l, l->pos + 2) != 0); i < l->len; i++) {
        size_t end = l->s[i] == '#' || l->s[i] == '-' || l->s[i] == '+' ? tag_end(l, i, "#}", true) : 0;
        if (!end) continue;
        advance(l, end);
        return 0;
    }
    return fail(l, "missing end of comment");
}

static unsigned hex(const char *p, size_t n, bool *ok)
{
    unsigned v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'))) *ok = false;
        v = v << 4 | d;
    }
    return v;
}

/* Reads one escape after the backslash at p[0..n) and appends its character to @o. Returns its length in bytes, 0 if it
 * is bad. */
static size_t unescape(const char *p, size_t n, char **o)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *f = p[0] ? strchr(from, p[0]) : NULL;
    if (f) {
        *(*o)++ = to[f - from];
        return 1;
    }
    if (p[0] == '\n') return 1;
    if (p[0] >= '0' && p[0] <= '7') {
        uint32_t c = 0;
        size_t i = 0;
        for (; i < 3 && i < n && p[i] >= '0' && p[i] <= '7'; i++) c = c * 8 + (uint32_t)(p[i] - '0');
        *o += utf8_encode(*o, c);
        return i;
    }
    size_t digits = p[0] == 'x' ? 2 : p[0] == 'u' ? 4 : p[0] == 'U' ? 8 : 0;
    if (!digits) {
        *(*o)++ = '\\';
        return SIZE_MAX; /* not an escape: the backslash stays */
    }
    bool ok = n > digits;
    uint32_t c = ok ? hex(p + 1, digits, &ok) : 0;
    if (!ok || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *o += utf8_encode(*o, c);
    return digits + 1;
}

static int lex_string(struct lexer *l)
{
    char quote = l->s[l->pos];
    size_t from = l->pos + 1, end = from;
    while (end < l->len && l->s[end] != quote) end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->len) return fail(l, "a string is not closed");

    struct jj_token *t = push(l, JJ_T_STRING);
    int err = 0;
    char *text = jj_arena_bytes(l->arena, end - from + 1, &err); /* an escape is never shorter than its character */
    if (!t || !text) return -ENOMEM;
    char *o = text;
    for (size_t i = from; i < end;) {
        if (l->s[i] != '\\') {
            *o++ = l->s[i++];
            continue;
        }
        size_t n = unescape(l->s + i + 1, end - i - 1, &o);
        if (!n) return fail(l, "a string has a bad escape");
        i += n == SIZE_MAX ? 1 : n + 1;
    }
    t->p = text;
    t->len = (size_t)(o - text);
    advance(l, end + 1);
    return 0;
}

/* Skips digits of @base with single underscores between them. Returns the end. */
static size_t digits_end(const struct lexer *l, size_t pos, int base)
{
    size_t p = pos;
    for (;;) {
        char c = p < l->len ? l->s[p] : 0;
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
        if (d >= base && !(c == '_' && p > pos && l->s[p - 1] != '_')) break;
        p++;
    }
    return p > pos && l->s[p - 1] == '_' ? p - 1 : p;
}

/* Copies the number [from, to) without underscores, for strto*. */
static int copy_number(const struct lexer *l, size_t from, size_t to, char *b, size_t size)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (l->s[i] == '_') continue;
        if (n + 1 >= size) return fail(l, "a number has too many digits");
        b[n++] = l->s[i];
    }
    b[n] = '\0';
    return 0;
}

static size_t exponent_end(const struct lexer *l, size_t pos)
{
    if (pos >= l->len || (l->s[pos] | 32) != 'e') return 0;
    size_t p = pos + 1;
    if (p < l->len && (l->s[p] == '+' || l->s[p] == '-')) p++;
    size_t end = digits_end(l, p, 10);
    return end > p ? end : 0;
}

static int lex_number(struct lexer *l)
{
    size_t from = l->pos, end = digits_end(l, from, 10), e;
    bool real = false, after_dot = from > 0 && l->s[from - 1] == '.';
    int base = 10;
    char second = end < l->len ? (char)(l->s[end] | 32) : 0;
    if (end == from + 1 && l->s[from] == '0' && (second == 'x' || second == 'o' || second == 'b')) {
        base = second == 'x' ? 16 : second == 'o' ? 8 : 2;
        size_t digits = l->s[end + 1] == '_' ? end + 2 : end + 1;
        size_t stop = digits_end(l, digits, base);
        if (stop > digits) {
            from = digits;
            end = stop;
        } else {
            base = 10;
        }
    } else if (!after_dot) {
        if (end < l->len && l->s[end] == '.' && (e = digits_end(l, end + 1, 10)) > end + 1) {
            real = true;
            end = e;
        }
        if ((e = exponent_end(l, end)) > 0) {
            real = true;
            end = e;
        }
    }
    char b[512];
    int r = copy_number(l, from, end, b, sizeof(b));
    if (r < 0) return r;
    struct jj_token *t = push(l, real ? JJ_T_FLOAT : JJ_T_INT);
    if (!t) return -ENOMEM;
    errno = 0;
    if (real)
        t->f = strtod(b, NULL);
    else
        t->i = strtoll(b, NULL, base);
    if (!real && errno == ERANGE) return fail(l, "a number that does not fit into 64 bits");
    if (!real && base == 10 && b[0] == '0' && strspn(b, "0") != strlen(b))
        return fail(l, "a number that begins with 0");
    advance(l, end);
    return 0;
}

static bool name_char(const char *s, size_t i, bool first)
{
    unsigned char c = (unsigned char)s[i];
    if (c >= 0x80) {
        uint32_t cp;
        size_t back = i;
        while ((s[back] & 0xc0) == 0x80) back--;
        jj_char(s + back, &cp);
        return jj_is_alpha(cp) || (!first && jj_is_numeric(cp));
    }
    return c == '_' || (unsigned)((c | 32) - 'a') < 26 || (!first && c >= '0' && c <= '9');
}

static const struct {
    char text[3];
    enum jj_op op;
} operators[] = {
    {"//", JJ_OP_FLOORDIV}, {"**", JJ_OP_POW},   {"==", JJ_OP_EQ},      {"!=", JJ_OP_NE},      {"<=", JJ_OP_LE},
    {">=", JJ_OP_GE},       {"+", JJ_OP_ADD},    {"-", JJ_OP_SUB},      {"*", JJ_OP_MUL},      {"/", JJ_OP_DIV},
    {"%", JJ_OP_MOD},       {"~", JJ_OP_TILDE},  {"<", JJ_OP_LT},       {">", JJ_OP_GT},       {"=", JJ_OP_ASSIGN},
    {".", JJ_OP_DOT},       {":", JJ_OP_COLON},  {",", JJ_OP_COMMA},    {"|", JJ_OP_PIPE},     {";", JJ_OP_SEMICOLON},
    {"(", JJ_OP_LPAREN},    {")", JJ_OP_RPAREN}, {"[", JJ_OP_LBRACKET}, {"]", JJ_OP_RBRACKET}, {"{", JJ_OP_LBRACE},
    {"}", JJ_OP_RBRACE},    {"in", JJ_OP_IN},    {"in", JJ_OP_NOTIN},
};

const char *jj_op_text(enum jj_op op)
{
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (operators[i].op == op) return operators[i].text;
    return "?";
}

static int balance(struct lexer *l, enum jj_op op)
{
    static const char closing[] = {[JJ_OP_LPAREN] = ')', [JJ_OP_LBRACKET] = ']', [JJ_OP_LBRACE] = '}'};
    if (op == JJ_OP_LPAREN || op == JJ_OP_LBRACKET || op == JJ_OP_LBRACE) {
        if (l->open.n == l->open.cap) {
            size_t cap = l->open.cap ? l->open.cap * 2 : 64;
            char *v = realloc(l->open.v, cap);
            if (!v) return -ENOMEM;
            l->open.v = v;
            l->open.cap = cap;
        }
        l->open.v[l->open.n++] = closing[op];
    } else if (op == JJ_OP_RPAREN || op == JJ_OP_RBRACKET || op == JJ_OP_RBRACE) {
        char c = l->s[l->pos];
        if (!l->open.n) return error_say(-EINVAL, "template line %u: unexpected '%c'", l->line, c);
        char want = l->open.v[--l->open.n];
        if (want != c) return error_say(-EINVAL, "template line %u: unexpected '%c', expected '%c'", l->line, c, want);
    }
    return 0;
}

static int lex_operator(struct lexer *l)
{
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]) - 2; i++) {
        if (!at(l, l->pos, operators[i].text)) continue;
        int r = balance(l, operators[i].op);
        if (r < 0) return r;
        struct jj_token *t = push(l, JJ_T_OP);
        if (!t) return -ENOMEM;
        t->op = operators[i].op;
        advance(l, l->pos + strlen(operators[i].text));
        return 0;
    }
    uint32_t c;
    size_t n = jj_char(l->s + l->pos, &c);
    return error_say(-EINVAL, "template line %u: unexpected character '%.*s'", l->line, c < 0x20 ? 0 : (int)n,
                     l->s + l->pos);
}

/* Reads one token of an expression. */
static int lex_expression(struct lexer *l)
{
    size_t p = l->pos;
    if (space_at(l, p)) {
        advance(l, skip_space(l, p));
        return 0;
    }
    char c = l->s[p];
    if (c == '\'' || c == '"') return lex_string(l);
    if (c >= '0' && c <= '9') return lex_number(l);
    if (!name_char(l->s, p, true)) return lex_operator(l);
    size_t end = p;
    while (end < l->len && name_char(l->s, end, end == p)) end++;
    struct jj_token *t = push(l, JJ_T_NAME);
    if (!t) return -ENOMEM;
    t->p = l->s + p;
    t->len = end - p;
    advance(l, end);
    return 0;
}

/* Reads the tokens of a tag, from behind {{ or {% to behind its end. */
static int lex_tag(struct lexer *l, bool variable)
{
    unsigned began = l->line;
    while (l->pos < l->len) {
        size_t end = l->open.n ? 0 : tag_end(l, l->pos, variable ? "}}" : "%}", !variable);
        if (end) {
            bool ok = push(l, variable ? JJ_T_VAR_END : JJ_T_BLOCK_END);
            advance(l, end);
            return ok ? 0 : -ENOMEM;
        }
        int r = lex_expression(l);
        if (r < 0) return r;
    }
    l->line = began;
    return fail(l, variable ? "{{ without }}" : "{% without %}");
}

/* Reads the text up to the next tag, and that tag. */
static int lex_root(struct lexer *l)
{
    size_t from = l->pos, i = from;
    while (i < l->len && !(l->s[i] == '{' && i + 1 < l->len && strchr("{%#", l->s[i + 1]) && l->s[i + 1])) i++;
    if (i == l->len) {
        int r = push_data(l, from, i);
        advance(l, i);
        return r;
    }
    bool variable = l->s[i + 1] == '{';
    char sign = sign_at(l, i + 2);
    int r = push_data(l, from, strip_before(l, from, i, sign, variable));
    if (r < 0) return r;
    advance(l, i);
    if (l->s[i + 1] == '#') return lex_comment(l);
    size_t raw = variable ? 0 : raw_begin(l, i);
    if (raw) return lex_raw(l, raw);
    if (!push(l, variable ? JJ_T_VAR_BEGIN : JJ_T_BLOCK_BEGIN)) return -ENOMEM;
    advance(l, i + 2 + (sign != 0));
    return lex_tag(l, variable);
}

/* \r\n and \r become \n. One newline at the very end is removed. */
static char *normalize(struct jj_arena *a, const char *src, size_t len, size_t *n, int *err)
{
    char *s = jj_arena_bytes(a, len + 1, err);
    if (!s) return NULL;
    *n = 0;
    for (size_t i = 0; i < len; i++) {
        if (src[i] == '\r' && i + 1 < len && src[i + 1] == '\n') continue;
        s[(*n)++] = src[i] == '\r' ? '\n' : src[i];
    }
    if (*n && s[*n - 1] == '\n') --*n;
    s[*n] = '\0';
    return s;
}

int jj_lex(struct jj_arena *a, const char *src, size_t len, struct jj_tokens *out)
{
    struct lexer l = {.arena = a, .line = 1, .out = out, .line_starting = true};
    size_t valid = utf8_check(src, len);
    if (valid < len) {
        for (size_t i = 0; i < valid; i++) l.line += src[i] == '\n';
        return fail(&l, "invalid UTF-8");
    }
    int r = 0;
    l.s = normalize(a, src, len, &l.len, &r);
    if (!l.s) return r;
    while (r == 0 && l.pos < l.len) r = lex_root(&l);
    if (r == 0 && !push(&l, JJ_T_EOF)) r = -ENOMEM;
    free(l.open.v);
    return r;
}
