/* SPDX-License-Identifier: MIT */
/* Checks the entries of a batch and lists their tokens. */
#include "daemon/backend/cpu/cpu.h"
#include "libcommon/error.h"
#include <math.h>

/* Check the positions of an entry, and its window. */
static int check_positions(const struct backend *b, const struct batch_entry *e)
{
    uint64_t last = (uint64_t)e->pos + e->n - 1;
    if (e->window && (uint64_t)e->sinks + e->window > b->config.ctx)
        return error_say(-EINVAL, "%u sinks and a window of %u are more than the context of %u", e->sinks, e->window,
                         b->config.ctx);
    if (e->window && b->hparams.window)
        return error_say(-EOPNOTSUPP, "a '%s' model has layers with sliding windows and cannot rotate",
                         b->hparams.arch);
    if (e->window && hparams_state(&b->hparams))
        return error_say(-EOPNOTSUPP, "a '%s' model has recurrent layers and cannot rotate", b->hparams.arch);
    if (e->window && b->hparams.desc->block.positions)
        return error_say(-EOPNOTSUPP, "a '%s' model has learned positions and cannot rotate", b->hparams.arch);
    if (e->window && e->whole)
        return error_say(-EOPNOTSUPP, "a run whose items see each other cannot be in a context that rotates");
    if (e->places && (e->window || !hparams_grids(&b->hparams)))
        return error_say(-EOPNOTSUPP,
                         "items of a grid need a '%s' model with M-RoPE, and a context that does not rotate",
                         b->hparams.arch);
    if (e->sinks && !e->window) return error_say(-EINVAL, "%u sinks without a window", e->sinks);
    if (last > INT32_MAX || (!e->window && last >= b->config.ctx))
        return error_say(-EINVAL, "position %llu is outside the context of %u", (unsigned long long)last,
                         e->window ? INT32_MAX : b->config.ctx);
    return 0;
}

/* Check that the table of group @g has every block that a token of the entry sees or writes. */
static int check_blocks(const struct backend *b, const struct batch_entry *e, uint32_t g)
{
    const struct token first = {.entry = e, .pos = e->pos};
    /* visible: [0, sinks) and from window on */
    uint32_t sinks = 0, window = kv_group_first(&b->hparams.groups[g], e->pos);
    if (token_slides(&first)) sinks = e->sinks, window = e->pos + 1 - e->window;
    for (uint32_t j = 0; j <= (e->pos + e->n - 1) / KV_BLOCK; j++) {
        uint32_t id = e->blocks[g][j], at = j * KV_BLOCK;
        if (id < b->kv_blocks[g]) continue;
        bool seen = at < sinks || at + KV_BLOCK > window;
        if (id != KV_NO_BLOCK) return error_say(-EINVAL, "KV block %u of %u", id, b->kv_blocks[g]);
        if (seen) return error_say(-EINVAL, "no KV block for position %u, which is attended to", at);
    }
    return 0;
}

/* Check the blocks of the entry's state. */
static int check_state(const struct backend *b, const struct batch_entry *e)
{
    const uint32_t states = b->kv_blocks[b->hparams.n_groups - 1];
    uint32_t last = 0;
    if (!hparams_state(&b->hparams)) return 0;
    if (e->state.block >= states) return error_say(-EINVAL, "state %u of %u", e->state.block, states);
    for (uint32_t i = 0; i < e->state.n_saves; i++) {
        const struct state_save *save = &e->state.saves[i];
        if (save->block >= states || save->block == e->state.block)
            return error_say(-EINVAL, "state %u of %u to save state %u to", save->block, states, e->state.block);
        if (save->n <= last || save->n > e->n)
            return error_say(-EINVAL, "the state after %u of %u tokens cannot be saved", save->n, e->n);
        last = save->n;
    }
    return 0;
}

/* Check an entry of a model that computes texts whole; of another one, that it has no types of tokens. */
static int check_text(const struct backend *b, const struct batch_entry *e)
{
    const struct hparams_embedding *y = &b->hparams.embedding;
    if (!y->whole) return e->types ? error_say(-EOPNOTSUPP, "a '%s' model has no token types", b->hparams.arch) : 0;
    if (e->pos || !e->whole || e->window)
        return error_say(-EINVAL, "a '%s' model computes a text whole, in one entry from position 0 on",
                         b->hparams.arch);
    for (uint32_t i = 0; i < e->n; i++) {
        if (e->want && e->want[i] & (WANT_LOGITS | WANT_BEST))
            return error_say(-EOPNOTSUPP, "a '%s' model has no logits", b->hparams.arch);
        if (e->types && e->types[i] >= (y->types ? y->types : 1))
            return error_say(-EINVAL, "token type %u of %u", e->types[i], y->types);
    }
    return 0;
}

int cpu_lay_out(struct pass *p, const struct batch_entry *e, size_t n, const float *logits, const float *hidden)
{
    const struct backend *b = &p->c->base;
    uint32_t blocks = 0; /* of texts that are computed whole */
    for (size_t i = 0; i < n; blocks += (e[i++].n + KV_BLOCK - 1) / KV_BLOCK) {
        if (!e[i].n || e[i].n > b->config.batch_tokens - p->n)
            return error_say(-EINVAL, "a batch of more than %u tokens, or an empty entry in it",
                             b->config.batch_tokens);
        if (e[i].adapter > p->c->lora.n || (e[i].adapter && !isfinite(e[i].adapter_scale)))
            return error_say(-EINVAL, "adapter %u of %u with the scale %g", e[i].adapter, p->c->lora.n,
                             (double)e[i].adapter_scale);
        int r = check_text(b, &e[i]);
        if (!r) r = check_positions(b, &e[i]);
        for (uint32_t g = 0; !r && g < hparams_kv_groups(&b->hparams); g++)
            if (b->hparams.groups[g].n_layers) r = check_blocks(b, &e[i], g);
        if (!r) r = check_state(b, &e[i]);
        if (r) return r;
        p->c->scratch.recurrent.runs[p->runs++] = (struct recurrence){&e[i], p->n};
        for (uint32_t j = 0; j < e[i].n; j++) {
            struct token *t = &p->c->scratch.tokens[p->n++];
            *t = (struct token){.entry = &e[i], .pos = e[i].pos + j, .block = blocks};
            /* The last layer drops tokens that nothing is wanted of, and a norm of all heads comes before attention. */
            t->alone = e[i].n == 1 && token_wants(t) && b->hparams.desc->qk_norm != QK_NORM_WHOLE;
            p->together |= !t->alone;
            if (e[i].tokens && (e[i].tokens[j] < 0 || (uint32_t)e[i].tokens[j] >= b->hparams.vocab))
                return error_say(-EINVAL, "token %d is outside the vocabulary of %u", e[i].tokens[j], b->hparams.vocab);
            if ((token_wants(t) & WANT_LOGITS && !logits) || (token_wants(t) & WANT_HIDDEN && !hidden) ||
                (token_wants(t) & WANT_BEST && !(b->ops->picks && e[i].best)) || (!e[i].tokens && !e[i].embd) ||
                (b->hparams.mtp.first && (!e[i].tokens || !e[i].states)))
                return error_say(-EINVAL, "a batch without its tokens, or without room for what it wants");
        }
    }
    return 0;
}
