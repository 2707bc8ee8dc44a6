/* SPDX-License-Identifier: MIT */
#include "daemon/output/literal.h"
#include <errno.h>
#include <string.h>

void literal_start(struct literal *l, const char *quote, bool call)
{
    *l = (struct literal){.quote = quote, .call = call};
    if (strcmp(quote, "\"") == 0) l->quote = "";
}

static int put(struct buf *out, const char *text)
{
    return buf_puts(out, text) < 0 ? -ENOMEM : LITERAL_MORE;
}

int literal_escape(struct buf *out, const char *text, size_t len)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < len; i++) {
        char c = text[i];
        if (c == '"' || c == '\\')
            r = buf_append(out, (const char[]){'\\', c}, 2);
        else if (c == '\n')
            r = buf_puts(out, "\\n");
        else if ((unsigned char)c < 0x20)
            r = buf_printf(out, "\\u%04x", (unsigned)c);
        else
            r = buf_append(out, &c, 1);
    }
    return r;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* --- words: numbers, names, bare keys --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_number(const char *s)
{
    s += *s == '-';
    if (!is_digit(*s) || (*s == '0' && is_digit(s[1]))) return false;
    while (is_digit(*s)) s++;
    if (*s == '.') {
        if (!is_digit(*++s)) return false;
        while (is_digit(*s)) s++;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '+' || *s == '-';
        if (!is_digit(*s)) return false;
        while (is_digit(*s)) s++;
    }
    return *s == '\0';
}

static int end_word(struct literal *l, struct buf *out)
{
    static const char *const names[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    l->word[l->n_word] = '\0';
    if (l->key) {
        l->at = LITERAL_COLON;
        if (put(out, "\"") < 0 || literal_escape(out, l->word, l->n_word) < 0) return -ENOMEM;
        return put(out, "\"");
    }
    l->at = LITERAL_AFTER;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(l->word, names[i][0]) == 0) return put(out, names[i][1]);
    return is_number(l->word) ? put(out, l->word) : LITERAL_BAD;
}

static bool in_word(const struct literal *l, char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '-' || c == '.' ||
           (c == '+' && l->n_word) || (l->key && (c == '$' || (unsigned char)c >= 0x80));
}

static int word(struct literal *l, char c)
{
    if (l->n_word + 1 >= LITERAL_WORD) return LITERAL_BAD;
    l->word[l->n_word++] = c;
    l->at = LITERAL_WORDS;
    return LITERAL_MORE;
}

/* --- strings --- */

static int end_string(struct literal *l, struct buf *out)
{
    l->at = l->key ? LITERAL_COLON : LITERAL_AFTER;
    return put(out, "\"");
}

static int lone_surrogate(struct literal *l, struct buf *out)
{
    if (!l->high) return LITERAL_MORE;
    l->high = 0;
    return put(out, "\\ufffd");
}

static int hex(struct literal *l, char c, struct buf *out)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *d = c ? strchr(digits, c) : NULL;
    if (!d) return LITERAL_BAD;
    int value = (int)(d - digits);
    l->hex = (uint16_t)(l->hex << 4 | (value < 16 ? value : value - 6));
    if (--l->n_hex) return LITERAL_MORE;
    l->at = LITERAL_STRING;
    bool second = l->hex >= 0xdc00 && l->hex <= 0xdfff;
    if (second && l->high) {
        int r = buf_printf(out, "\\u%04x\\u%04x", l->high, l->hex);
        l->high = 0;
        return r < 0 ? r : LITERAL_MORE;
    }
    int r = lone_surrogate(l, out);
    if (r != LITERAL_MORE) return r;
    if (l->hex >= 0xd800 && l->hex <= 0xdbff) {
        l->high = l->hex;
        return LITERAL_MORE;
    }
    return buf_printf(out, "\\u%04x", second ? 0xfffd : l->hex) < 0 ? -ENOMEM : LITERAL_MORE;
}

static int escape(struct literal *l, char c, struct buf *out)
{
    l->at = LITERAL_STRING;
    if (c == 'u' || c == 'x') {
        l->at = LITERAL_HEX;
        l->hex = 0;
        l->n_hex = c == 'u' ? 4 : 2;
        return LITERAL_MORE;
    }
    int r = lone_surrogate(l, out);
    if (r != LITERAL_MORE) return r;
    if (c == '\'') return put(out, "'");
    if (c && strchr("\"\\/bfnrt", c)) return buf_append(out, (const char[]){'\\', c}, 2) < 0 ? -ENOMEM : LITERAL_MORE;
    return put(out, "\\\\") < 0 || literal_escape(out, &c, 1) < 0 ? -ENOMEM : LITERAL_MORE;
}

/* A character of a string between marks, which has no escapes. */
static int quoted(struct literal *l, char c, struct buf *out)
{
    if (c == l->quote[l->n_quote]) {
        if (l->quote[++l->n_quote]) return LITERAL_MORE;
        l->n_quote = 0;
        return end_string(l, out);
    }
    if (literal_escape(out, l->quote, l->n_quote) < 0) return -ENOMEM;
    l->n_quote = c == *l->quote;
    return l->n_quote ? LITERAL_MORE : literal_escape(out, &c, 1) < 0 ? -ENOMEM : LITERAL_MORE;
}

static int string(struct literal *l, char c, struct buf *out)
{
    if (!l->delimiter) return quoted(l, c, out);
    if (c == '\\') {
        l->at = LITERAL_ESCAPE;
        return LITERAL_MORE;
    }
    int r = lone_surrogate(l, out);
    if (r != LITERAL_MORE) return r;
    if (c == l->delimiter) return end_string(l, out);
    return literal_escape(out, &c, 1) < 0 ? -ENOMEM : LITERAL_MORE;
}

static int opening(struct literal *l, char c, struct buf *out)
{
    if (c != l->quote[l->n_quote]) return LITERAL_BAD;
    if (l->quote[++l->n_quote]) return LITERAL_MORE;
    l->n_quote = 0;
    l->at = LITERAL_STRING;
    l->delimiter = '\0';
    return put(out, "\"");
}

/* --- structure --- */

static int open_group(struct literal *l, char c, struct buf *out)
{
    if (l->depth == LITERAL_DEPTH) return LITERAL_BAD;
    l->open[l->depth++] = c;
    l->at = c == '[' ? LITERAL_VALUE_OR_END : LITERAL_KEY_OR_END;
    return put(out, c == '[' ? "[" : "{");
}

static int close_group(struct literal *l, char c, struct buf *out)
{
    char open = c == ']' ? '[' : c == '}' ? '{' : '(';
    if (l->depth == 0 || l->open[l->depth - 1] != open) return LITERAL_BAD;
    l->comma = false;
    l->at = LITERAL_AFTER;
    if (put(out, c == ']' ? "]" : "}") < 0) return -ENOMEM;
    return --l->depth ? LITERAL_MORE : LITERAL_DONE;
}

static int begin_element(struct literal *l, char c, struct buf *out)
{
    l->key = l->at == LITERAL_KEY_OR_END;
    if (l->comma && put(out, ",") < 0) return -ENOMEM;
    l->comma = false;
    if (!l->key && (c == '{' || c == '[')) return open_group(l, c, out);
    l->n_word = l->n_quote = 0;
    if (*l->quote && c == *l->quote) {
        l->at = LITERAL_OPENING;
        return opening(l, c, out);
    }
    if (c == '"' || c == '\'') {
        l->at = LITERAL_STRING;
        l->delimiter = c;
        return put(out, "\"");
    }
    return in_word(l, c) ? word(l, c) : LITERAL_BAD;
}

static int after(struct literal *l, char c, struct buf *out)
{
    if (l->depth == 0) return LITERAL_BEHIND;
    if (c != ',') return c == ']' || c == '}' || c == ')' ? close_group(l, c, out) : LITERAL_BAD;
    l->comma = true;
    l->at = l->open[l->depth - 1] == '[' ? LITERAL_VALUE_OR_END : LITERAL_KEY_OR_END;
    return LITERAL_MORE;
}

static int between(struct literal *l, char c, struct buf *out)
{
    if (l->at == LITERAL_AFTER && l->depth == 0) return LITERAL_BEHIND;
    if (is_space(c)) return LITERAL_MORE;
    if (l->at == LITERAL_AFTER) return after(l, c, out);
    if (l->at == LITERAL_COLON) {
        if (c != (l->open[l->depth - 1] == '(' ? '=' : ':')) return LITERAL_BAD;
        l->at = LITERAL_VALUE;
        return put(out, ":");
    }
    bool may_end = l->at != LITERAL_VALUE;
    return may_end && (c == ']' || c == '}' || c == ')') ? close_group(l, c, out) : begin_element(l, c, out);
}

int literal_feed(struct literal *l, char c, struct buf *out)
{
    int r = LITERAL_MORE;
    if (l->at == LITERAL_START) {
        l->at = LITERAL_VALUE;
        if (l->call) r = open_group(l, '(', out);
        if (r != LITERAL_MORE) return r;
    }
    if (l->at == LITERAL_WORDS) {
        if (in_word(l, c)) return word(l, c);
        r = end_word(l, out);
        if (r != LITERAL_MORE) return r;
    }
    switch (l->at) {
    case LITERAL_STRING:
        return string(l, c, out);
    case LITERAL_ESCAPE:
        return escape(l, c, out);
    case LITERAL_HEX:
        return hex(l, c, out);
    case LITERAL_OPENING:
        return opening(l, c, out);
    default:
        return between(l, c, out);
    }
}

int literal_end(struct literal *l, struct buf *out)
{
    int r = l->at == LITERAL_WORDS ? end_word(l, out) : LITERAL_MORE;
    if (r != LITERAL_MORE) return r;
    return l->at == LITERAL_AFTER && l->depth == 0 ? LITERAL_DONE : LITERAL_BAD;
}
