/* SPDX-License-Identifier: MIT */
/* Tokens of which nothing is wanted are not computed any further once their K and V are stored. */
#include "daemon/backend/cpu/cpu.h"
#include <string.h>

static void move(float *rows, size_t to, size_t from, size_t width)
{
    memcpy(rows + to * width, rows + from * width, width * sizeof(*rows));
}

void cpu_keep_wanted(struct pass *p)
{
    const struct hparams *y = &p->c->base.hparams;
    struct scratch *s = &p->c->scratch;
    const size_t kv = (size_t)p->heads.kv_heads * p->heads.head_dim;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!token_wants(&s->tokens[i])) continue;
        if (n < i) {
            s->tokens[n] = s->tokens[i];
            move(s->x, n, i, y->dim);
            if (p->pending) move(s->h.f, n, i, y->dim); /* the last layer is only a feed-forward */
            move(s->q, n, i, y->mla.kv_rank ? hparams_queries(y) : (size_t)y->heads * p->heads.head_dim);
            if (y->desc->attention.q_gate) move(s->q_gate, n, i, (size_t)y->heads * y->head_dim);
            move(s->mla.low.f, n, i, y->mla.q_rank);
            move(s->k, n, i, kv);
            if (hparams_values(y)) move(s->v, n, i, kv);
            for (uint32_t r = 0; r < hparams_ropes(y); r++) move(s->cs[r], n, i, hparams_rotated(y, r));
            move(s->sink_cs, n, i, y->rope_dim);
            if (y->desc->experts.early) move(s->moe.route, n, i, y->experts.n);
            for (uint32_t r = 0; r < RECURRENT_INPUTS; r++) move(s->recurrent.in[r], n, i, y->recurrent.in[r]);
            move(s->recurrent.out.f, n, i, y->recurrent.out);
            move(s->embedding.all, n, i, (size_t)y->n_layers * y->per_layer);
            move(s->altup.streams, n, i, (size_t)y->altup.streams * y->dim);
            if (y->altup.streams) move(s->altup.side, n, i, y->dim);
        }
        n++;
    }
    p->n = n;
    lora_sort(p);
}
