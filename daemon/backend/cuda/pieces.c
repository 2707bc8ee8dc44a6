/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cuda/pieces.h"

#define ALIGN 64 /* tokens: whole tiles of products */
#define EACH  2  /* pieces for each device at most */

uint32_t cuda_piece_tokens(uint32_t tokens, uint32_t devices)
{
    uint32_t n = tokens / CUDA_PIECE_TOKENS;
    if (n > EACH * devices) n = EACH * devices;
    if (devices < 2 || n < 2) return 0;
    return ((tokens + n - 1) / n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Tokens [first, first + n) of an entry; its saves go to @saves. */
static struct batch_entry part_of(const struct batch_entry *e, uint32_t first, uint32_t n, uint32_t dim,
                                  struct state_save *saves)
{
    struct batch_entry x = *e;
    x.pos += first;
    x.n = n;
    if (e->tokens) x.tokens += first;
    if (e->embd) x.embd += (size_t)first * dim;
    if (e->places) x.places += first;
    if (e->want) x.want += first;
    for (uint32_t i = 0; e->best && e->want && i < first; i++) x.best += (e->want[i] & WANT_BEST) > 0;
    x.state.saves = saves;
    x.state.n_saves = 0;
    for (uint32_t i = 0; i < e->state.n_saves; i++) {
        const struct state_save *s = &e->state.saves[i];
        if (s->n > first && s->n <= first + n) saves[x.state.n_saves++] = (struct state_save){s->n - first, s->block};
    }
    return x;
}

static void count_wanted(struct cuda_pieces *p, const struct batch_entry *e)
{
    for (uint32_t i = 0; e->want && i < e->n; i++) {
        p->logits += (e->want[i] & WANT_LOGITS) > 0;
        p->hidden += (e->want[i] & WANT_HIDDEN) > 0;
    }
}

size_t cuda_next_piece(struct cuda_pieces *p, uint32_t tokens)
{
    struct state_save *saves = p->saves;
    size_t n = 0;
    p->logits = p->hidden = 0;
    while (p->entry < p->n && tokens) {
        const struct batch_entry *e = &p->e[p->entry];
        const uint32_t left = e->n - p->token, some = e->whole || left < tokens ? left : tokens;
        p->part[n] = part_of(e, p->token, some, p->dim, saves);
        saves += p->part[n].state.n_saves;
        count_wanted(p, &p->part[n++]);
        tokens -= some < tokens ? some : tokens;
        p->token += some;
        if (p->token < e->n) continue;
        p->token = 0;
        p->entry++;
    }
    return n;
}
