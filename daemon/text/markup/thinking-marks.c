/* SPDX-License-Identifier: MIT */
#include "daemon/text/markup/derive.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* Marks in use, for templates that do not write the thought themselves. The first pair that fits wins. */
static const struct pair {
    const char *open, *close;
} known[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought", "<channel|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
    {"Here is my thought process:", "Here is my response:"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"<reasoning>", "</reasoning>"},
    {"<|begin_of_thought|>", "<|end_of_thought|>"},
    {"<unused94>thought", "<unused95>"},
    {"\xe2\x97\x81think\xe2\x96\xb7", "\xe2\x97\x81/think\xe2\x96\xb7"},
};
enum { N_KNOWN = sizeof(known) / sizeof(*known) };

static const char *const fields[] = {"reasoning_content", "reasoning", "thinking", "content", "blocks"};

/* Variables that switch thinking, with the values for off and on. */
static const struct {
    const char *name, *off, *on;
} switches[] = {
    {"enable_thinking", "false", "true"},
    {"thinking", "false", "true"},
    {"reasoning", "false", "true"},
    {"thinking_budget", "0", "-1"},
    {"reasoning_effort", "\"none\"", "\"high\""},
};

static bool mentions(const struct markup_source *s, const char *word)
{
    return piece_find(piece_of(s->text, 0, s->len), word) != SIZE_MAX;
}

bool is_harmony(const struct markup_source *s)
{
    return mentions(s, "<|channel|>") && mentions(s, "<|message|>");
}

static bool has_token(const struct markup_source *s, const char *text)
{
    return s->has_token && s->has_token(s->vocabulary, text);
}

static int set_pair(struct markup *m, const char *open, const char *close)
{
    int r = piece_set(&m->thinking.open, piece_of(open, 0, strlen(open)));
    return r < 0 ? r : piece_set(&m->thinking.close, piece_of(close, 0, strlen(close)));
}

/* @before and @after the thought. 1: they have no marks. */
static int marks_around(struct markup *m, struct piece before, struct piece after)
{
    before = piece_trim(before);
    after = piece_trim(after);
    for (int i = 0; i < N_KNOWN; i++)
        if (piece_ends_with(before, piece_of(known[i].open, 0, strlen(known[i].open))) ||
            piece_find(after, known[i].close) == 0)
            return set_pair(m, known[i].open, known[i].close);
    struct piece open = piece_last_group(before), close = piece_first_group(after);
    if (open.n == 0 || close.n == 0 || !piece_ends_with(before, open) || close.p != after.p) return 1;
    int r = piece_set(&m->thinking.open, open);
    return r < 0 ? r : piece_set(&m->thinking.close, close);
}

/* 1: the template does not write this thought. */
static int try_field(struct markup *m, const struct probe *p, const char *field, bool calls, struct buf *b)
{
    const struct probe_turn turn = {.calls = calls, .field = field};
    int r = probe_render(p, &turn, b);
    if (r != 0) return r;
    struct piece reply = probe_reply(b);
    size_t at = piece_find(reply, PROBE_THOUGHT);
    if (at == SIZE_MAX) return 1;
    m->thinking.field = field;
    return marks_around(m, piece_of(reply.p, 0, at), piece_of(reply.p, at + strlen(PROBE_THOUGHT), reply.n));
}

/* 1: the template writes no thought. */
static int by_rendering(struct markup *m, const struct markup_source *s, struct buf *b)
{
    int r = 1;
    for (size_t f = 0; r == 1 && f < sizeof(fields) / sizeof(*fields); f++)
        for (int calls = 0; r == 1 && calls < 2; calls++)
            for (int var = -1; r == 1 && var < 2; var++) {
                struct probe p = {.source = s, .typed = m->typed_content};
                if (var >= 0) p.var = switches[var].name, p.value = switches[var].on;
                r = try_field(m, &p, fields[f], calls, b);
            }
    if (r == 1) m->thinking.field = NULL;
    return r;
}

/* Marks in the generation prompt, in the template or in the vocabulary. */
static int by_mention(struct markup *m, const struct markup_source *s, struct buf *b)
{
    const struct probe p = {.source = s, .typed = m->typed_content};
    int r = probe_render(&p, NULL, b);
    if (r < 0) return r;
    struct piece prompt = r == 0 ? probe_reply(b) : (struct piece){"", 0};
    for (int i = 0; i < N_KNOWN; i++)
        if (piece_find(prompt, known[i].open) != SIZE_MAX) return set_pair(m, known[i].open, known[i].close);
    for (int i = 0; i < N_KNOWN; i++)
        if (mentions(s, known[i].close) || (has_token(s, known[i].open) && has_token(s, known[i].close)))
            return set_pair(m, known[i].open, known[i].close);
    return 0;
}

static int find_switch(struct markup *m, const struct markup_source *s, struct buf *b)
{
    struct buf off = BUF_INIT;
    int r = 1;
    for (size_t i = 0; r >= 0 && !m->thinking.off_name && i < sizeof(switches) / sizeof(*switches); i++) {
        if (!mentions(s, switches[i].name)) continue;
        struct probe p = {.source = s,
                          .typed = m->typed_content,
                          .var = switches[i].name,
                          .value = switches[i].off,
                          .no_tools = true};
        r = probe_render(&p, NULL, &off);
        p.value = switches[i].on;
        if (r == 0) r = probe_render(&p, NULL, b);
        if (r != 0 || (off.len == b->len && memcmp(off.data, b->data, off.len) == 0)) continue;
        m->thinking.off_name = m->thinking.on_name = switches[i].name;
        m->thinking.off_value = switches[i].off;
        m->thinking.on_value = switches[i].on;
    }
    buf_fini(&off);
    return r < 0 ? r : 0;
}

int derive_thinking(struct markup *m, const struct markup_source *s)
{
    struct buf b = BUF_INIT;
    if (m->calls.form == MARKUP_HARMONY) return 0;
    bool likely = mentions(s, "think") || mentions(s, "reason") || mentions(s, "thought") || mentions(s, "THINK");
    int r = likely ? by_rendering(m, s, &b) : 1;
    if (r == 1) r = by_mention(m, s, &b);
    if (r == 0 && *m->thinking.open) r = find_switch(m, s, &b);
    buf_fini(&b);
    return r;
}
