/* SPDX-License-Identifier: MIT */
/* A layer that predicts later tokens: x = eh_proj [enorm(embedding); hnorm(state)], then its block, norm and logits. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <string.h>

int reference_pairs(struct pass *p)
{
    const size_t n = p->n, dim = p->r->s.dim;
    _cleanup_(freep) float *pairs = malloc(n * 2 * dim * sizeof(*pairs));
    if (!pairs) return error_origin(-ENOMEM);
    int e = reference_norm(p, p->h, p->x, n, dim, "nextn.enorm");
    for (size_t i = 0; i < n; i++) memcpy(pairs + i * 2 * dim, p->h + i * dim, dim * sizeof(*pairs));
    if (!e) e = reference_norm(p, p->h, p->r->states, n, dim, "nextn.hnorm");
    for (size_t i = 0; i < n; i++) memcpy(pairs + i * 2 * dim + dim, p->h + i * dim, dim * sizeof(*pairs));
    return e ? e : reference_product(p, p->x, pairs, "nextn.eh_proj", 0, dim, 0);
}

void reference_next(const struct pass *p)
{
    const float *state = p->r->s.desc->mtp == MTP_PLAIN ? p->x : p->h;
    memcpy(p->r->next, state, (size_t)p->n * p->r->s.dim * sizeof(*state));
}

int reference_mtp(struct reference *r, const int32_t *tokens, const float *states, uint32_t n, float *logits,
                  float *next)
{
    const struct hparams model = r->s;
    if (!model.mtp.nextn) return error_say(-EINVAL, "%s: no layer predicts later tokens", gguf_path(r->g));
    r->states = states;
    r->next = next;
    hparams_mtp(&r->s);
    int e = reference_forward(r, tokens, n, logits);
    r->s = model;
    return e;
}
