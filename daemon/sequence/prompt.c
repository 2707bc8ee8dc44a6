/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/prompt.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int prompt_record(struct prompt *p, const char *text, size_t len, bool markup)
{
    if (buf_reserve(&p->markup, len) < 0 || buf_append(&p->text, text, len) < 0) return -ENOMEM;
    memset(p->markup.data + p->markup.len, markup, len);
    p->markup.len += len;
    p->markup.data[p->markup.len] = '\0';
    return 0;
}

int prompt_push_run(struct prompt *p, struct item_run run, uint32_t end, struct embeddings *e)
{
    size_t before = p->tokens.n;
    int r = 0;
    run.at = (uint32_t)before;
    for (uint32_t i = 0; r == 0 && i < run.n; i++) r = tokens_push(&p->tokens, ITEM_EMBD, end);
    if (r == 0) r = run_list_add(&p->runs, &run, e);
    if (r < 0) p->tokens.n = before;
    return r;
}

int prompt_push_media(struct prompt *p, struct media_source *source, uint32_t n)
{
    struct prompt_media *list = reallocarray(p->media, p->n_media + 1, sizeof(*list));
    if (!list) return -ENOMEM;
    p->media = list;
    uint32_t first = p->n_media ? list[p->n_media - 1].first + list[p->n_media - 1].n : 0;
    list[p->n_media++] = (struct prompt_media){media_source_ref(source), first, n};
    return 0;
}

static int copy_media(struct prompt *to, const struct prompt *from)
{
    if (!from->n_media) return 0;
    to->media = calloc(from->n_media, sizeof(*to->media));
    if (!to->media) return -ENOMEM;
    for (size_t i = 0; i < from->n_media; i++) {
        to->media[i] = from->media[i];
        media_source_ref(to->media[i].source);
    }
    to->n_media = from->n_media;
    return 0;
}

/* The end of the run of bytes from @at on, before @len, whose flag is @markup. */
static size_t run_end(const char *flags, size_t at, size_t len, bool markup)
{
    while (at < len && (flags[at] != 0) == markup) at++;
    return at;
}

static size_t run_begin(const char *flags, size_t at, bool markup)
{
    while (at > 0 && (flags[at - 1] != 0) == markup) at--;
    return at;
}

uint32_t prompt_parts(const struct prompt *p, size_t n, bool last)
{
    const size_t len = n ? p->tokens.ends[n - 1] : 0;
    const char *flags = p->markup.data;
    size_t at;
    if (len > p->markup.len) return 0;
    if (last)
        at = run_begin(flags, run_begin(flags, len, true), false);
    else
        at = run_end(flags, run_end(flags, run_end(flags, 0, len, true), len, false), len, true);
    if (at >= len) return 0;
    while (n > 0 && p->tokens.ends[n - 1] > at) n--;
    return (uint32_t)n;
}

int prompt_copy(struct prompt *to, const struct prompt *from)
{
    if (tokens_copy(&to->tokens, &from->tokens) < 0) return -ENOMEM;
    if (run_list_copy(&to->runs, &from->runs, 0, UINT64_MAX, 0) < 0) return -ENOMEM;
    if (copy_media(to, from) < 0) return -ENOMEM;
    to->keep = from->keep;
    to->miss_at = from->miss_at;
    int r = buf_append(&to->text, from->text.data ? from->text.data : "", from->text.len);
    return r < 0 ? r : buf_append(&to->markup, from->markup.data ? from->markup.data : "", from->markup.len);
}

void prompt_fini(struct prompt *p)
{
    tokens_fini(&p->tokens);
    run_list_fini(&p->runs);
    for (size_t i = 0; i < p->n_media; i++) media_source_unref(p->media[i].source);
    free(p->media);
    buf_fini(&p->text);
    buf_fini(&p->markup);
    *p = (struct prompt){0};
}
