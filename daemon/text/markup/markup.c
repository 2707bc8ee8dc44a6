/* SPDX-License-Identifier: MIT */
#include "daemon/text/markup/markup.h"
#include "daemon/text/markup/derive.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

struct markup *markup_free(struct markup *m)
{
    if (!m) return NULL;
    struct markup_calls *c = &m->calls;
    char *texts[] = {m->thinking.open, m->thinking.close, c->section_begin, c->section_end, c->separator,
                     c->call_begin,    c->call_end,       c->name_key,      c->args_key,    c->id_key,
                     c->wrapper_key,   c->id_begin,       c->name_end,      c->quote,       c->arg_begin,
                     c->arg_mid,       c->arg_mid_other,  c->arg_end,       c->text_name,   c->call_begin_short,
                     c->call_end_short};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) free(texts[i]);
    for (int i = 0; i < MARKUP_JUNK; i++) free(m->junk[i]);
    free(m);
    return NULL;
}

/* All texts empty. NULL without memory. */
static struct markup *new_empty(void)
{
    struct markup *m = calloc(1, sizeof(*m));
    if (!m) return NULL;
    struct markup_calls *c = &m->calls;
    char **texts[] = {&m->thinking.open, &m->thinking.close, &c->section_begin, &c->section_end, &c->separator,
                      &c->call_begin,    &c->call_end,       &c->name_key,      &c->args_key,    &c->id_key,
                      &c->wrapper_key,   &c->id_begin,       &c->name_end,      &c->quote,       &c->arg_begin,
                      &c->arg_mid,       &c->arg_mid_other,  &c->arg_end,       &c->text_name,   &c->call_begin_short,
                      &c->call_end_short};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (piece_set(texts[i], (struct piece){"", 0}) < 0) return markup_free(m);
    return m;
}

/* Has the template written the list itself, as Python or JSON does? */
static bool shows_list(struct piece text)
{
    return piece_find(text, "'text': '" PROBE_USER) != SIZE_MAX ||
           piece_find(text, "\"text\": \"" PROBE_USER) != SIZE_MAX;
}

/* Does the template write a question only if it is a list of parts? */
static int derive_content(struct markup *m, const struct markup_source *s)
{
    struct buf b = BUF_INIT;
    struct probe p = {.source = s};
    int r = probe_render(&p, NULL, &b);
    p.typed = r == 1;
    if (r == 1) r = probe_render(&p, NULL, &b);
    m->typed_content = r == 0 && p.typed && !shows_list(piece_of(b.data, 0, b.len));
    buf_fini(&b);
    return r < 0 ? r : 0;
}

static int derive(struct markup *m, const struct markup_source *s)
{
    if (is_harmony(s)) {
        m->calls.form = MARKUP_HARMONY;
        return 0;
    }
    int r = derive_content(m, s);
    if (r == 0) r = derive_thinking(m, s);
    if (r == 0) r = derive_calls(m, s);
    if (r == 0 && m->calls.form == MARKUP_NO_CALLS) r = known_calls(m, s);
    return r < 0 ? r : derive_junk(m, s);
}

int markup_new(struct markup **out, const struct markup_source *s)
{
    struct markup *m = new_empty();
    int r = m ? derive(m, s) : -ENOMEM;
    if (r < 0) {
        markup_free(m);
        return error_origin(r);
    }
    *out = m;
    return 0;
}

static bool ends_with_mark(struct piece prompt, const char *mark)
{
    struct piece end = piece_trim(piece_of(mark, 0, strlen(mark)));
    return end.n && piece_ends_with(prompt, end);
}

enum markup_start markup_start(const struct markup *m, const char *prompt, size_t len)
{
    struct piece end = piece_trim(piece_of(prompt, 0, len));
    if (ends_with_mark(end, m->thinking.open)) return MARKUP_AT_THINKING;
    return *m->calls.text_name && ends_with_mark(end, m->calls.call_begin) ? MARKUP_AT_NAME : MARKUP_AT_TEXT;
}
