/* SPDX-License-Identifier: MIT */
#include "daemon/request/answer-format.h"
#include "daemon/output/harmony.h"

/* The markup can tell nothing from text. */
static bool is_plain(const struct answer_format *a)
{
    const struct markup *m = a->markup.markup;
    bool calls = m->calls.form != MARKUP_NO_CALLS && json_array_size(a->tools) > 0;
    return !*m->thinking.open && !*m->thinking.close && !*m->calls.text_name && !calls;
}

void answer_format_raw(struct answer_format *a, const struct loaded *m)
{
    a->format = a->before = m->format;
}

void answer_format_set(struct answer_format *a, const struct loaded *m, const char *text, size_t len)
{
    bool harmony = m->markup && m->markup->calls.form == MARKUP_HARMONY;
    a->format = a->before = m->format;
    /* The vocabulary decides for Harmony, whatever the template says. */
    if (!m->markup || harmony != (m->format == &channel_harmony)) return;
    a->markup = (struct markup_format){.markup = m->markup, .tools = a->tools};
    a->markup.start = markup_start(m->markup, text, len);
    if (!harmony && is_plain(a)) return;
    markup_format_init(&a->markup);
    a->format = &a->markup.base;
    if (harmony) return;
    a->thinking = (struct markup_format){.markup = m->markup, .start = a->markup.start};
    if (a->markup.start == MARKUP_AT_NAME) a->thinking.start = MARKUP_AT_TEXT;
    markup_format_init(&a->thinking);
    a->before = &a->thinking.base;
}

void answer_format_fini(struct answer_format *a)
{
    json_decref(a->tools);
    *a = (struct answer_format){0};
}
