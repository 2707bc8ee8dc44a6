/* SPDX-License-Identifier: MIT */
#include "client/render.h"
#include "client/output.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STYLE_STRONG = 1,
    STYLE_EMPHASIS = 2,
    STYLE_CODE = 4,
    STYLE_HEADING = 8,
    STYLE_FENCE = 16, /* a line that begins or ends a block of code */
    STYLE_BLOCK = 32,
};

#define STYLES_OF_LINE (STYLE_STRONG | STYLE_EMPHASIS | STYLE_CODE | STYLE_HEADING | STYLE_FENCE)

bool render_wanted(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && *no_color) && output_draws(fd);
}

/* Write the escape sequence before the next byte only: a style that changes back at once needs none. */
static int render_show(struct render *r, struct buf *out)
{
    static const char *const codes[] = {";1", ";3", ";36", ";1;35", ";2", ";36"};
    int e = r->style == r->shown ? 1 : buf_puts(out, "\x1b[0");
    if (e != 0) return e < 0 ? e : 0;
    for (unsigned i = 0; e == 0 && i < sizeof(codes) / sizeof(*codes); i++)
        if (r->style >> i & 1) e = buf_puts(out, codes[i]);
    r->shown = r->style;
    return e == 0 ? buf_puts(out, "m") : e;
}

static int render_marks(struct render *r, struct buf *out)
{
    int e = render_show(r, out);
    for (size_t i = 0; e == 0 && i < r->marks; i++) e = buf_append(out, &r->mark, 1);
    return e;
}

static bool is_space(char c)
{
    return !c || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Bytes of characters beyond ASCII count as letters. */
static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Apply the marks. Returns the styles that end behind them; styles that begin are set at once. */
static unsigned render_emphasis(struct render *r, char next)
{
    unsigned bits = r->marks == 1   ? STYLE_EMPHASIS
                    : r->marks == 2 ? STYLE_STRONG
                    : r->marks == 3 ? STYLE_EMPHASIS | STYLE_STRONG
                                    : 0;
    bool open = !is_space(next) && !(r->mark == '_' && is_word(r->before));
    bool close = !is_space(r->before) && !(r->mark == '_' && is_word(next));
    if (close && bits && (r->style & bits) == bits) return bits;
    if (open && !(r->style & bits)) r->style |= bits;
    return 0;
}

static unsigned render_ticks(struct render *r)
{
    if (!r->ticks) {
        r->ticks = r->marks;
        r->style |= STYLE_CODE;
        return 0;
    }
    if (r->ticks != r->marks) return 0;
    r->ticks = 0;
    return STYLE_CODE;
}

/* Resolve the pending marks; @next is the character behind them (0: end of the text). */
static int render_resolve(struct render *r, struct buf *out, char next)
{
    bool first = !r->in_line && r->indent <= 3, tick = r->mark == '`';
    unsigned after = 0;
    if (r->fence) {
        if (first && r->mark == r->fence_mark && r->marks >= r->fence && is_space(next)) {
            r->fence = 0;
            r->style = STYLE_FENCE;
        }
    } else if (first && (tick || r->mark == '~') && r->marks >= 3) {
        r->fence = r->marks;
        r->fence_mark = r->mark;
        r->style = STYLE_FENCE;
    } else if (first && r->mark == '#' && r->marks <= 6 && next == ' ') {
        r->style = STYLE_HEADING;
    } else if (tick && !(r->style & STYLE_FENCE)) {
        after = render_ticks(r);
    } else if ((r->mark == '*' || r->mark == '_') && !r->ticks && !(r->style & STYLE_FENCE)) {
        after = render_emphasis(r, next);
    }
    int e = render_marks(r, out);
    r->style &= ~after;
    r->before = r->mark;
    r->marks = 0;
    r->in_line = true;
    return e;
}

static int render_newline(struct render *r, struct buf *out)
{
    r->style &= ~(unsigned)STYLES_OF_LINE;
    int e = render_show(r, out);
    if (r->fence) r->style = STYLE_BLOCK;
    r->ticks = r->indent = 0;
    r->in_line = r->escaped = false;
    r->before = 0;
    return e == 0 ? buf_append(out, "\n", 1) : e;
}

static int render_byte(struct render *r, struct buf *out, char c)
{
    bool literal = r->escaped;
    int e = 0;
    if (r->marks && c == r->mark) {
        r->marks++;
        return 0;
    }
    if (r->marks) e = render_resolve(r, out, c);
    if (e < 0) return e;
    if (c == '\n') return render_newline(r, out);
    r->escaped = c == '\\' && !literal && !r->fence && !r->ticks;
    if (!literal && c && strchr("*_`~#", c)) {
        r->mark = c;
        r->marks = 1;
        return 0;
    }
    if (c == ' ' && !r->in_line)
        r->indent++;
    else
        r->in_line = true;
    r->before = c;
    e = render_show(r, out);
    return e == 0 ? buf_append(out, &c, 1) : e;
}

int render_text(struct render *r, struct buf *out, const char *text, size_t len)
{
    int e = 0;
    for (size_t i = 0; e == 0 && i < len; i++) e = render_byte(r, out, text[i]);
    return e;
}

int render_end(struct render *r, struct buf *out)
{
    int e = r->marks ? render_resolve(r, out, 0) : 0;
    r->style = 0;
    if (e == 0) e = render_show(r, out);
    *r = (struct render){0};
    return e;
}
