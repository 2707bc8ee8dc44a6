/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/prompt.h"
#include <errno.h>
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

int prompt_copy(struct prompt *to, const struct prompt *from)
{
    if (tokens_copy(&to->tokens, &from->tokens) < 0) return -ENOMEM;
    if (run_list_copy(&to->runs, &from->runs, 0, UINT64_MAX, 0) < 0) return -ENOMEM;
    to->keep = from->keep;
    to->miss_at = from->miss_at;
    int r = buf_append(&to->text, from->text.data ? from->text.data : "", from->text.len);
    return r < 0 ? r : buf_append(&to->markup, from->markup.data ? from->markup.data : "", from->markup.len);
}

void prompt_fini(struct prompt *p)
{
    tokens_fini(&p->tokens);
    run_list_fini(&p->runs);
    buf_fini(&p->text);
    buf_fini(&p->markup);
    *p = (struct prompt){0};
}
